"""`limpet run config.yml` on a NAT configuration as it is, against a served workflow."""

import json
import os
import signal
import subprocess

from e2e import ready_limpet
from e2e.nat_server import STEP, column, go, make, output, wait_until
from e2e.project import COMMAND, run


def test_a_configuration_runs_as_it_is(tmp_path, server):
    done = go(make(tmp_path), server)
    assert done.returncode == 0, done.stderr
    assert sorted(server.asked) == [f"Repeat {n}" for n in range(6)]
    assert output(tmp_path, "correct")["average_score"] == 1.0


def test_the_files_are_what_a_nat_reader_expects_with_our_facts_beside(tmp_path, server):
    server.broken = {"Repeat 5"}
    assert go(make(tmp_path), server).returncode == 1
    *answered, failed = output(tmp_path)
    assert list(answered[0]) == [
        "id", "question", "answer", "level", "generated_answer", "intermediate_steps",
        "expected_intermediate_steps",
    ]  # fmt: skip
    [step] = answered[0]["intermediate_steps"]  # unset, the filter keeps LLM_END and TOOL_END
    assert step["payload"] == STEP
    # In the column, as a trace of ours, and whole: evaluators see all of it.
    events = column(tmp_path)[0]["trace"]
    assert len(events) > 1
    (event,) = [event for event in events if event["type"] == "TOOL_END"]
    assert (event["kind"], event["name"], event["output"]) == ("tool", "repeat", "y")
    assert failed["generated_answer"] is None
    assert failed["_limpet"]["status"] == "failed"
    scores = output(tmp_path, "correct")
    assert scores["eval_output_items"][0] == {
        "id": "000", "score": True, "reasoning": {}, "error": None,
    }  # fmt: skip
    assert scores["_limpet"]["completed"] == 5
    assert {"_limpet", "_crc"} < set(column(tmp_path)[0])
    for name in ("config_original.yml", "config_effective.yml", "config_metadata.json"):
        assert (tmp_path / "out" / name).exists()
    told = json.loads((tmp_path / "out" / "config_metadata.json").read_bytes())
    assert told["endpoint"] == server.url


def test_the_names_of_the_structure_are_those_of_the_file(tmp_path, server):
    make(tmp_path)
    text = (tmp_path / "config.yml").read_text(encoding="utf-8")
    names = "data.json\n      structure: {generated_answer_key: said, trajectory_key: way}"
    (tmp_path / "config.yml").write_text(text.replace("data.json", names), encoding="utf-8")
    assert go(tmp_path, server).returncode == 0
    assert {"said", "way"} < set(output(tmp_path)[0])
    assert "generated_answer" not in output(tmp_path)[0]
    assert go(tmp_path, server).returncode == 0
    assert output(tmp_path)[0]["said"] == "0"
    assert len(server.asked) == 6


def test_reps_give_ids_with_rep_in_the_toolkits_order(tmp_path, server):
    assert go(make(tmp_path, rows=2), server, "--reps", "2").returncode == 0
    assert [row["id"] for row in output(tmp_path)] == [
        "000_rep0",
        "001_rep0",
        "000_rep1",
        "001_rep1",
    ]
    assert len(server.asked) == 4


def test_the_flags_are_taken_in_both_spellings(tmp_path, server):
    make(tmp_path)
    other = [{"id": "x", "question": "Repeat x", "answer": "x"}]
    (tmp_path / "other.json").write_text(json.dumps(other), encoding="utf-8")
    done = go(tmp_path, server, "--endpoint_timeout", "5", "--dataset", "other.json",
              "--override", "eval.general.output_dir", "there")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in output(tmp_path, where="there")] == ["x"]
    help_text = run(tmp_path, "--help").stdout
    assert "--skip-workflow" in help_text
    assert "--skip_workflow" not in help_text


def test_the_answer_is_taken_from_where_the_path_leads(tmp_path, server):
    server.answer = lambda question: json.dumps({"output": question.split()[-1], "more": 1})
    assert go(make(tmp_path), server, "--result-json-path", "$.output").returncode == 0
    assert output(tmp_path)[3]["generated_answer"] == "3"


def test_flags_of_the_toolkit_with_an_eval_yml_name_what_to_use(tmp_path):
    (tmp_path / "eval.yml").write_text("dataset: x.json\nworkflow: a:b\n", encoding="utf-8")
    for flags, said in (
        (("--reps", "2"), "--trials N"),
        (("--override", "a", "b"), "--set PATH=VALUE"),
        (("--endpoint", "http://x"), "workflow: {nat: URL}"),
    ):
        done = run(tmp_path, *flags)
        assert done.returncode == 2
        assert said in done.stderr


# ---- scoring again ------------------------------------------------------------------------------


def test_skip_workflow_scores_the_outputs_of_the_run_again(tmp_path, server):
    go(make(tmp_path), server)
    make(tmp_path, evaluators="    short: {_type: regex, pattern: '^.$'}\n")
    done = run(tmp_path, "config.yml", "--skip-workflow")
    assert done.returncode == 0, done.stderr
    assert output(tmp_path, "short")["average_score"] == 1.0
    assert len(server.asked) == 6


def test_skip_workflow_with_a_dataset_scores_the_answers_in_its_rows(tmp_path):
    make(tmp_path)
    rows = [
        {
            "id": "a",
            "question": "Q",
            "answer": "1",
            "generated_answer": "1",
            "intermediate_steps": [],
        },
        {"id": "b", "question": "Q", "answer": "1", "generated_answer": ""},
    ]
    (tmp_path / "old.json").write_text(json.dumps(rows), encoding="utf-8")
    done = run(tmp_path, "config.yml", "--skip_workflow", "--dataset", "old.json")
    assert done.returncode == 1
    first, second = output(tmp_path)
    assert first["generated_answer"] == "1"
    assert "no answer in 'generated_answer'" in second["_limpet"]["error"]["message"]
    assert output(tmp_path, "correct")["average_score"] == 1.0  # of one: a failure is no score


def test_skip_workflow_scores_what_nat_eval_left_and_keeps_it(tmp_path):
    make(tmp_path, rows=2)
    theirs(tmp_path)
    done = run(tmp_path, "config.yml", "--skip-workflow")
    assert done.returncode == 0, done.stderr
    assert output(tmp_path, "correct")["average_score"] == 1.0
    assert len(list(tmp_path.glob("out.*/workflow_output.json"))) == 1


# ---- what nat eval left -------------------------------------------------------------------------


def theirs(folder, answers=("0", "1")):
    """Leave what `nat eval` would have left in out/."""
    (folder / "out").mkdir()
    rows = [
        {"id": f"{n:03d}", "question": f"Repeat {n}", "answer": str(n), "generated_answer": one,
         "intermediate_steps": [], "expected_intermediate_steps": []}
        for n, one in enumerate(answers)
    ]  # fmt: skip
    (folder / "out" / "workflow_output.json").write_text(json.dumps(rows), encoding="utf-8")


def test_skip_completed_entries_takes_over_what_is_there_and_does_the_rest(tmp_path, server):
    theirs(make(tmp_path, rows=4), ("0", "", None))
    done = go(tmp_path, server, "--skip_completed_entries")
    assert done.returncode == 0, done.stderr
    assert "1 imported; 2 skipped: no answer (001)" in done.stderr
    assert sorted(server.asked) == ["Repeat 1", "Repeat 2", "Repeat 3"]
    facts = {row["id"]: row["_limpet"] for row in column(tmp_path)}
    assert facts["000"]["imported"] == "workflow_output.json"


def test_import_makes_columns_and_a_run_goes_on_from_there(tmp_path, server):
    theirs(make(tmp_path, rows=4), ("0", "1", ""))
    rows = json.loads((tmp_path / "out/workflow_output.json").read_bytes())
    rows[1]["question"] = "Repeat something else"
    rows.append({"id": "zzz", "question": "?", "generated_answer": "!"})
    (tmp_path / "old.json").write_text(json.dumps(rows), encoding="utf-8")
    into = ("--into", "config.yml", "--endpoint", server.url)
    done = run(tmp_path, "old.json", *into, "--json", command="import")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["imported"], told["existing"]) == (1, 0)
    assert told["skipped"] == {
        "the question has changed": 1,
        "no answer": 1,
        "no item of the dataset has this id": 1,
    }
    again = json.loads(run(tmp_path, "old.json", *into, "--json", command="import").stdout)
    assert (again["imported"], again["existing"]) == (0, 1)
    status = json.loads(run(tmp_path, "out", "--json", command="status").stdout)
    assert status["state"] == "stopped"  # and not finished: nothing has run
    assert go(tmp_path, server).returncode == 0
    assert sorted(server.asked) == ["Repeat 1", "Repeat 2", "Repeat 3"]


def test_import_knows_repetitions_by_their_ids(tmp_path, server):
    make(tmp_path, rows=1)
    row = {"question": "Repeat 0", "generated_answer": "0"}
    rows = [{"id": f"000_rep{n}", **row} for n in range(3)]
    (tmp_path / "old.json").write_text(json.dumps(rows), encoding="utf-8")
    into = ("--into", "config.yml", "--endpoint", server.url, "--reps", "3")
    assert (
        json.loads(run(tmp_path, "old.json", *into, "--json", command="import").stdout)["imported"]
        == 3
    )
    assert go(tmp_path, server, "--reps", "3").returncode == 0
    assert server.asked == []


def test_import_goes_into_an_eval_yml_too(tmp_path):
    (tmp_path / "app.py").write_text(
        "def answer(question):\n    raise SystemError\n", encoding="utf-8"
    )
    (tmp_path / "rows.jsonl").write_text(
        '{"id": "a", "question": "Q", "answer": "A"}\n', encoding="utf-8"
    )
    (tmp_path / "eval.yml").write_text(
        "name: t\ndataset: rows.jsonl\nworkflow: app:answer\nevaluators: {ok: exact_match}\n",
        encoding="utf-8",
    )
    (tmp_path / "old.jsonl").write_text(
        '{"id": "a", "question": "Q", "generated_answer": "A"}\n', encoding="utf-8"
    )
    done = run(tmp_path, "old.jsonl", command="import")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "old.jsonl: 1 imported\n")
    assert run(tmp_path).returncode == 0


def test_bare_outputs_cannot_be_imported_and_that_is_said(tmp_path, server):
    make(tmp_path)
    (tmp_path / "bare.json").write_text('["a", "b"]', encoding="utf-8")
    done = run(
        tmp_path, "bare.json", "--into", "config.yml", "--endpoint", server.url, command="import"
    )
    assert done.returncode == 2
    assert "bare.json" in done.stderr


# ---- directories, functions, scripts ------------------------------------------------------------


def test_jobs_have_directories_and_an_unfinished_one_goes_on(tmp_path, server):
    make(
        tmp_path,
        general="    output: {dir: ./out, job_management: {append_job_id_to_output_dir: yes}}\n",
    )
    server.broken = {"Repeat 3"}
    assert go(tmp_path, server).returncode == 1
    server.broken = set()
    assert go(tmp_path, server).returncode == 0
    assert len(list((tmp_path / "out/jobs").iterdir())) == 1
    assert go(tmp_path, server).returncode == 0
    jobs = list((tmp_path / "out/jobs").iterdir())
    assert len(jobs) == 2
    assert all(one.name.startswith("job_") for one in jobs)


def test_a_function_before_the_evaluators_sees_the_toolkits_item(tmp_path, server):
    make(
        tmp_path,
        general="    output: {dir: ./out, custom_pre_eval_process_function: before.shout}\n",
    )
    code = (
        "def shout(item):\n"
        "    assert item.full_dataset_entry['level'] == 'easy'\n"
        "    return item.copy_with_updates(output_obj=item.output_obj + {more!r})\n"
    )
    (tmp_path / "before.py").write_text(code.format(more="!"), encoding="utf-8")
    assert go(tmp_path, server).returncode == 0
    assert output(tmp_path, "correct")["average_score"] == 0.0
    assert output(tmp_path)[0]["generated_answer"] == "0"
    (tmp_path / "before.py").write_text(code.format(more=""), encoding="utf-8")
    assert go(tmp_path, server).returncode == 0
    assert output(tmp_path, "correct")["average_score"] == 1.0
    assert len(server.asked) == 6


def test_an_evaluator_in_python_is_named_with_a_dot_or_a_colon(tmp_path, server):
    (tmp_path / "judges.py").write_text("def one(output):\n    return 0.5\n", encoding="utf-8")
    make(tmp_path, evaluators="    a: {_type: python, function: judges.one}\n"
         "    b: {_type: python, function: 'judges:one'}\n")  # fmt: skip
    assert go(tmp_path, server).returncode == 0
    assert output(tmp_path, "a")["average_score"] == output(tmp_path, "b")["average_score"] == 0.5


def test_scripts_run_when_the_results_are_on_disk(tmp_path, server):
    (tmp_path / "after.py").write_text(
        "import argparse, json, pathlib, sys\n"
        "one = argparse.ArgumentParser()\n"
        "one.add_argument('--output_dir')\none.add_argument('--code')\n"
        "told = one.parse_args()\n"
        "n = len(json.loads(pathlib.Path(told.output_dir, 'workflow_output.json').read_text()))\n"
        "pathlib.Path('seen.txt').write_text(str(n))\n"
        "print('on stdout')\nsys.exit(int(told.code))\n",
        encoding="utf-8",
    )
    script = (
        "    output:\n      dir: ./out\n"
        "      custom_scripts: {{tidy: {{script: after.py, kwargs: {{code: {}}}}}}}\n"
    )
    done = go(make(tmp_path, general=script.format(0)), server)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen.txt").read_text() == "6"
    assert "on stdout" not in done.stdout
    done = go(make(tmp_path, general=script.format(4)), server)
    assert done.returncode == 1
    assert "custom_scripts: tidy: ended with exit code 4; the results are on disk" in done.stderr


def test_a_killed_run_goes_on_where_it_stopped(tmp_path, server):
    make(tmp_path, general="    output: {dir: ./out, cleanup: true}\n")
    server.free = 2
    server.gate.clear()
    process = ready_limpet.Popen(
        [*COMMAND, "run", "config.yml", "--endpoint", server.url], cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: len(column(tmp_path)) == 2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    server.gate.set()
    kept = {line["row"]["question"] for line in column(tmp_path)}
    server.asked.clear()
    assert go(tmp_path, server).returncode == 0
    assert kept.isdisjoint(server.asked)
    assert len(server.asked) == 4


def test_answers_that_were_set_aside_and_not_taken_over_are_taken_over_the_next_time(
    tmp_path, server
):
    theirs(make(tmp_path, rows=4), ("0", "1", "2", "3"))
    # As a kill leaves it, between the two: set aside, and nothing imported yet.
    (tmp_path / "out").rename(tmp_path / "out.20261115-100000")
    done = go(tmp_path, server, "--skip-completed-entries")
    assert done.returncode == 0, done.stderr
    assert server.asked == []


def test_a_dataset_that_the_run_would_write_over_is_refused(tmp_path):
    theirs(make(tmp_path, rows=4), ("0", "1", "2", "3"))
    before = (tmp_path / "out/workflow_output.json").read_bytes()
    old = "out/workflow_output.json"
    done = run(tmp_path, "config.yml", "--skip-workflow", "--dataset", old)
    assert done.returncode == 2
    assert "is in the run's own directory" in done.stderr
    assert "hint: leave --dataset out" in done.stderr
    assert (tmp_path / "out/workflow_output.json").read_bytes() == before
