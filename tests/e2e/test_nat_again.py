"""A configuration of the toolkit run again: after failures, repetitions, scripts, other tools."""

import json
import os
import signal
import subprocess
import sys

import pytest
from e2e import ready_limpet
from e2e.nat_server import CLEANUP, HOLD, aside, go, make, output, wait_until
from e2e.project import COMMAND, run


def edited(folder, old, new):
    text = (folder / "config.yml").read_text(encoding="utf-8")
    assert old in text
    (folder / "config.yml").write_text(text.replace(old, new), encoding="utf-8")


def theirs(folder, rows):
    """Leave what `nat eval` would have left."""
    (folder / "out").mkdir()
    (folder / "out" / "workflow_output.json").write_text(json.dumps(rows), encoding="utf-8")


def row(id_, n, answer):
    return {"id": id_, "question": f"Repeat {n}", "answer": str(n), "generated_answer": answer}


def test_a_copy_of_our_file_has_its_failed_rows_asked_and_counted(tmp_path, server):
    server.broken = {"Repeat 1"}
    assert go(make(tmp_path, rows=2), server).returncode == 1
    (tmp_path / "copy.json").write_bytes((tmp_path / "out/workflow_output.json").read_bytes())
    edited(tmp_path, "./out", "./other")
    server.asked.clear()
    taken = ("--skip-completed-entries", "--dataset", "copy.json")
    assert go(tmp_path, server, *taken).returncode == 1
    assert set(server.asked) == {"Repeat 1"}
    edited(tmp_path, "./other", "./third")
    done = run(tmp_path, "config.yml", "--skip-workflow", "--dataset", "copy.json")
    assert done.returncode == 1
    assert output(tmp_path, "correct", where="third")["_limpet"]["completed"] == 1


@pytest.mark.quick(2)
@pytest.mark.parametrize("how", ["fails", "is interrupted"])
def test_a_run_whose_script_did_not_end_well_goes_on_and_is_not_paid_for_again(
    tmp_path, server, how
):
    script = "import sys, pathlib, time\nif pathlib.Path('well').exists(): sys.exit()\n"
    script += "pathlib.Path('here').touch()\n"
    script += "sys.exit(3)\n" if how == "fails" else "time.sleep(600)\n"
    (tmp_path / "after.py").write_text(script, encoding="utf-8")
    make(tmp_path, general=CLEANUP % ", custom_scripts: {after: {script: after.py}}")
    command = [*COMMAND, "run", "config.yml", "--endpoint", server.url]
    process = ready_limpet.Popen(command, cwd=tmp_path, start_new_session=True)
    if how == "is interrupted":
        wait_until((tmp_path / "here").exists)
        os.killpg(process.pid, signal.SIGINT)
    assert process.wait(100) == (1 if how == "fails" else 130)
    (tmp_path / "well").touch()
    assert go(tmp_path, server).returncode == 0
    assert len(server.asked) == 6
    assert aside(tmp_path) == []
    assert go(tmp_path, server).returncode == 0  # now it is finished, and makes room
    assert len(aside(tmp_path)) == 1


def test_keep_keeps_a_finished_run_though_cleanup_would_set_it_aside(tmp_path, server):
    make(tmp_path, general=CLEANUP % "")
    assert go(tmp_path, server).returncode == 0
    edited(tmp_path, "meta/llama", "meta/other")
    assert go(tmp_path, server, "--keep").returncode == 0
    assert len(server.asked) == 6
    assert aside(tmp_path) == []


def test_repetitions_are_told_apart_in_the_column_of_the_ids(tmp_path, server):
    make(tmp_path, rows=2)
    rows = json.loads((tmp_path / "data.json").read_bytes())
    for one in rows:
        one["qid"] = one.pop("id")
    (tmp_path / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    edited(tmp_path, "data.json", "data.json\n      id_key: qid")
    assert go(tmp_path, server, "--reps", "2").returncode == 0
    ids = [one["qid"] for one in output(tmp_path)]
    assert ids == ["000_rep0", "001_rep0", "000_rep1", "001_rep1"]


def test_scoring_again_keeps_all_repetitions(tmp_path, server):
    assert go(make(tmp_path, rows=2), server, "--reps", "3").returncode == 0
    assert run(tmp_path, "config.yml", "--skip-workflow").returncode == 0
    assert len(output(tmp_path)) == 6
    assert len(output(tmp_path, "correct")["eval_output_items"]) == 6


def test_answers_of_nat_eval_can_still_be_taken_over_later(tmp_path, server):
    theirs(make(tmp_path, rows=2), [row("000", 0, "0"), row("001", 1, "1")])
    server.broken = {"Repeat 0", "Repeat 1"}
    done = go(tmp_path, server)
    assert "their answers are not used: --skip-completed-entries imports them" in done.stderr
    done = go(tmp_path, server, "--skip-completed-entries")
    assert done.returncode == 0, done.stderr
    assert "2 imported" in done.stderr
    again = go(tmp_path, server, "--skip-completed-entries")
    assert "imported" not in again.stderr  # once is enough


def test_ids_that_the_toolkit_read_as_numbers_are_known_again(tmp_path, server):
    theirs(make(tmp_path, rows=2), [row(0, 0, "0"), row(1, 1, "1")])
    done = go(tmp_path, server, "--skip-completed-entries")
    assert done.returncode == 0, done.stderr
    assert server.asked == []


def test_an_import_that_takes_nothing_moves_nothing(tmp_path, server):
    theirs(make(tmp_path), [row("zzz", 0, "0"), row("000", 0, "")])
    into = ("--into", "config.yml", "--endpoint", server.url)
    for _ in range(2):
        done = run(tmp_path, "out/workflow_output.json", *into, command="import")
        assert done.returncode == 1
        assert "0 imported" in done.stderr
    assert aside(tmp_path) == []
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["workflow_output.json"]


def test_import_knows_the_flags_that_decide_whose_answers_they_are(tmp_path, server):
    server.answer = lambda question: json.dumps({"said": question.split()[-1]})
    theirs(make(tmp_path, rows=2), [row("000", 0, "0")])
    same = ("--endpoint", server.url, "--result-json-path", "$.said")
    same += ("--override", "llms.nim.temperature", "0.5")
    file = "out/workflow_output.json"
    taken = run(tmp_path, file, "--into", "config.yml", *same, command="import")
    assert taken.returncode == 0, taken.stderr
    done = run(tmp_path, "config.yml", *same)
    assert done.returncode == 0, done.stderr
    assert server.asked == ["Repeat 1"]


def test_a_job_that_another_process_works_on_is_left_alone(tmp_path, server):
    output_block = "    output: {dir: ./out, job_management: {append_job_id_to_output_dir: true}}\n"
    make(tmp_path, rows=2, general=output_block)
    server.broken = {"Repeat 1"}
    assert go(tmp_path, server).returncode == 1
    [job] = (tmp_path / "out/jobs").iterdir()
    command = [sys.executable, "-c", HOLD, str(job)]
    with ready_limpet.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert go(tmp_path, server).returncode == 1
        other.stdin.close()
    assert len(list((tmp_path / "out/jobs").iterdir())) == 2


def test_one_row_of_another_kind_is_its_own_failure(tmp_path, server):
    make(tmp_path, rows=3)
    rows = json.loads((tmp_path / "data.json").read_bytes())
    rows[0]["question"] = 42
    (tmp_path / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    server.refused = {42}
    done = go(tmp_path, server)
    assert done.returncode == 1, done.stderr
    assert [one["generated_answer"] for one in output(tmp_path)] == [None, "1", "2"]


def test_every_row_has_its_expected_steps(tmp_path, server):
    make(tmp_path, rows=2)
    rows = json.loads((tmp_path / "data.json").read_bytes())
    rows[0]["expected_intermediate_steps"] = ["a"]
    (tmp_path / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    assert go(tmp_path, server).returncode == 0
    assert [one["expected_intermediate_steps"] for one in output(tmp_path)] == [["a"], []]


def test_another_name_for_the_answers_is_a_new_file_of_the_same_answers(tmp_path, server):
    make(tmp_path, rows=2)
    edited(tmp_path, "data.json", "data.json\n      structure: {generated_answer_key: out1}")
    assert go(tmp_path, server).returncode == 0
    edited(tmp_path, "out1", "out2")
    assert go(tmp_path, server).returncode == 0
    assert [one["out2"] for one in output(tmp_path)] == ["0", "1"]
    assert "out1" not in output(tmp_path)[0]
    assert len(server.asked) == 2


def test_a_summary_that_makes_no_sense_is_no_finished_run(tmp_path, server):
    make(tmp_path, general=CLEANUP % "")
    assert go(tmp_path, server).returncode == 0
    (tmp_path / "out/summary.json").write_text("{}", encoding="utf-8")
    assert go(tmp_path, server, "--plan").returncode == 0
    assert aside(tmp_path) == []


def test_where_the_output_is_a_link_the_link_stays(tmp_path, server):
    make(tmp_path, general=CLEANUP % "")
    (tmp_path / "disk/real").mkdir(parents=True)
    (tmp_path / "out").symlink_to("disk/real")
    assert go(tmp_path, server).returncode == 0
    assert go(tmp_path, server).returncode == 0
    assert (tmp_path / "out").is_symlink()
    assert len(server.asked) == 12
    assert len(output(tmp_path)) == 6
    assert [one.name[:6] for one in (tmp_path / "disk").iterdir() if one.name != "real"] == [
        "real.2"
    ]


def test_rows_that_are_left_out_are_said_before_anything_is_spent(tmp_path, server):
    make(tmp_path, rows=2)
    rows = json.loads((tmp_path / "data.json").read_bytes())
    rows += [{"id": "000", "question": "Repeat twice"}, {"id": "x"}]
    (tmp_path / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    plan = go(tmp_path, server, "--plan")
    assert plan.stderr.count("skipped: ") == 2, plan.stderr
    assert "'000'" in plan.stderr
    assert server.asked == []


def test_only_the_name_of_the_command_has_to_change(tmp_path, server):
    make(tmp_path, rows=1)
    done = run(tmp_path, "--config_file", "config.yml", "--endpoint", server.url)
    assert done.returncode == 0, done.stderr
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--skip-workflow", "--result-json-path", "$.x"], "leave out --result-json-path"),
        (
            ["--endpoint", "http://x", "--endpoint-header", "A: 1", "--endpoint-header", "a: 2"],
            "--endpoint-header a: appears twice",
        ),
    ],
)
def test_flags_that_say_nothing_together_are_refused(tmp_path, flags, said):
    done = run(make(tmp_path), "config.yml", *flags)
    assert done.returncode == 2
    assert said in done.stderr
