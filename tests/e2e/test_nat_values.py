"""A configuration of the toolkit: values, names and usage stay what they are in the toolkit."""

import json
import math

import pytest
from e2e.nat_server import column, go, make, output
from e2e.project import calls, run
from e2e.project import make as eval_yml

import limpet
from tests.exported import exported


def edited(folder, old, new):
    text = (folder / "config.yml").read_text(encoding="utf-8")
    assert old in text
    (folder / "config.yml").write_text(text.replace(old, new), encoding="utf-8")


# ---- import -------------------------------------------------------------------------------------

USED = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def step():
    usage = {"token_usage": USED, "num_llm_calls": 1}
    payload = {
        "event_type": "LLM_END", "event_timestamp": 1.5, "name": "tiny", "UUID": "u",
        "usage_info": usage,
    }  # fmt: skip
    function = {"function_id": "f", "function_name": "answer", "parent_id": "root"}
    return {"parent_id": "root", "function_ancestry": function, "payload": payload}


def theirs(folder, where):
    """Leave what `nat eval` would have left."""
    (folder / where).mkdir()
    row = {"id": "000", "question": "Repeat 0", "answer": "0", "generated_answer": "0"}
    text = json.dumps([{**row, "intermediate_steps": [step()]}])
    (folder / where / "workflow_output.json").write_text(text, encoding="utf-8")


@pytest.mark.quick(2)
@pytest.mark.parametrize("where", ["res.out", "res.jsonl", "a b.tar", "out.d"])
def test_answers_are_imported_into_a_directory_of_any_name(tmp_path, server, where):
    edited(make(tmp_path, rows=2), "./out", f"./{where}")
    theirs(tmp_path, where)
    done = go(tmp_path, server, "--skip-completed-entries")
    assert done.returncode == 0, done.stderr
    assert server.asked == ["Repeat 1"]
    assert len(output(tmp_path, where=where)) == 2


def test_import_goes_into_a_directory_of_any_name(tmp_path, server):
    edited(make(tmp_path, rows=1), "./out", "./res.out")
    theirs(tmp_path, "old")
    into = ("--into", "config.yml", "--endpoint", server.url)
    done = run(tmp_path, "old/workflow_output.json", *into, command="import")
    assert done.returncode == 0, done.stderr
    assert go(tmp_path, server).returncode == 0
    assert server.asked == []


def test_the_usage_of_the_steps_survives_an_import(tmp_path, server):
    theirs(make(tmp_path, rows=1), "out")
    assert go(tmp_path, server, "--skip-completed-entries").returncode == 0
    facts = column(tmp_path)[0]["_limpet"]
    assert facts["usage"].items() >= USED.items()
    assert facts["models"]["tiny"]["total_tokens"] == 10


def test_the_usage_of_our_own_lines_survives_an_import(tmp_path, server):
    make(tmp_path, rows=1)
    row = {"id": "000", "question": "Repeat 0", "generated_answer": "0"}
    ours = {"usage": {**USED, "cost": 0.25}, "models": {"tiny": USED}, "times": {"runtime": 2.0}}
    (tmp_path / "old.jsonl").write_text(json.dumps({"_limpet": ours, **row}), encoding="utf-8")
    into = ("--into", "config.yml", "--endpoint", server.url)
    assert run(tmp_path, "old.jsonl", *into, command="import").returncode == 0
    facts = column(tmp_path)[0]["_limpet"]
    assert facts["usage"] == ours["usage"]
    assert (facts["models"], facts["times"]) == (ours["models"], ours["times"])


def test_what_nat_eval_wrote_with_nan_is_imported(tmp_path, server):
    # pandas writes NaN where a row lacks a column of another, and reads a null as NaN.
    make(tmp_path, rows=2)
    rows = [
        {"id": "000", "question": "Repeat 0", "generated_answer": "0", "note": math.nan},
        {"id": "001", "question": "Repeat 1", "generated_answer": math.nan, "note": "x"},
    ]
    (tmp_path / "old.json").write_text(json.dumps(rows), encoding="utf-8")
    into = ("--into", "config.yml", "--endpoint", server.url)
    done = run(tmp_path, "old.json", *into, command="import")
    assert done.stderr == "old.json: 1 imported; 1 skipped: no answer (001)\n"


# ---- values -------------------------------------------------------------------------------------


def with_data(folder, rows, more):
    """Write a dataset of one's own, and keys of its block."""
    make(folder)
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    edited(folder, "data.json", f"data.json\n      {more}")
    return folder


CASES = [
    {"id": 100, "case": "c0", "question": "Repeat 0", "answer": "0"},
    {"id": 101, "case": "c1", "question": "Repeat 1", "answer": "?"},
]


def test_the_datasets_own_id_stays_beside_another_id_key(tmp_path, server):
    assert go(with_data(tmp_path, CASES, "id_key: case"), server).returncode == 0
    for rows in (output(tmp_path), live(tmp_path), [line["row"] for line in column(tmp_path)]):
        kept = sorted((row["id"], row["case"]) for row in rows)
        assert kept == [(100, "c0"), (101, "c1")]
    assert sorted(line["id"] for line in column(tmp_path)) == ["c0", "c1"]
    scores = output(tmp_path, "correct")["eval_output_items"]
    assert [(score["id"], score["score"]) for score in scores] == [("c0", 1.0), ("c1", 0.0)]


def test_repetitions_leave_the_datasets_own_id_alone(tmp_path, server):
    with_data(tmp_path, CASES[:1], "id_key: case")
    assert go(tmp_path, server, "--reps", "2").returncode == 0
    kept = [(row["id"], row["case"]) for row in output(tmp_path)]
    assert kept == [(100, "c0_rep0"), (100, "c0_rep1")]


def test_no_id_is_added_where_the_id_key_has_another_name(tmp_path, server):
    row = {"case": "c0", "question": "Repeat 0", "answer": "0"}
    assert go(with_data(tmp_path, [row], "id_key: case"), server).returncode == 0
    steps = ["generated_answer", "intermediate_steps", "expected_intermediate_steps"]
    assert list(output(tmp_path)[0]) == [*row, *steps]


@pytest.mark.quick(2)
@pytest.mark.parametrize("id_", [7, 7.5, "007"])
def test_an_id_keeps_its_type_in_the_toolkits_files(tmp_path, server, id_):
    row = {"id": id_, "question": "Repeat 0", "answer": "0"}
    assert go(with_data(tmp_path, [row], "id_key: id"), server).returncode == 0
    assert output(tmp_path)[0]["id"] == id_
    assert output(tmp_path, "correct")["eval_output_items"][0]["id"] == id_
    assert go(tmp_path, server, "--reps", "2").returncode == 0
    ids = [row["id"] for row in output(tmp_path)]
    assert ids == [f"{id_}_rep0", f"{id_}_rep1"]


def test_booleans_are_numbers_in_the_toolkits_files(tmp_path, server):
    assert go(make(tmp_path, rows=1), server).returncode == 0
    text = (tmp_path / "out/correct_output.json").read_text(encoding="utf-8")
    assert '"score":1.0' in text
    assert '"average_score":1.0' in text


def test_nan_is_kept_and_written_as_the_toolkit_writes_it(tmp_path, server):
    rows = [{**CASES[0], "x": 1.5}, {**CASES[1], "x": math.nan}]
    done = go(with_data(tmp_path, rows, "id_key: id"), server)
    assert done.returncode == 0, done.stderr
    assert '"x":NaN' in (tmp_path / "out/workflow_output.json").read_text().replace(" ", "")
    assert math.isnan(output(tmp_path)[1]["x"])


def test_values_without_json_form_are_written_as_the_toolkit_writes_them(tmp_path):
    def answer(question):
        return {"raw": b"\x00a", "least": -math.inf, "text": "~float:nan", "wide": 2**70}

    limpet.evaluate([{"id": 5, "question": "Q"}], answer, run=tmp_path / "out")
    (row,) = exported(tmp_path / "out")
    assert row["id"] == 5
    assert row["generated_answer"] == {
        "raw": str(b"\x00a"), "least": -math.inf, "text": "~float:nan", "wide": 2**70,
    }  # fmt: skip


# ---- the names of the structure -----------------------------------------------------------------

STRUCTURE = "structure: {generated_answer_key: got, trajectory_key: steps}"


def live(folder):
    """Return the rows of the file that grows while a run of the toolkit's runs."""
    lines = (folder / "out" / "workflow_output.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_live_lines_have_the_names_of_the_structure(tmp_path, server):
    row = {**CASES[0], "generated_answer": "the dataset's own"}
    assert go(with_data(tmp_path, [row], STRUCTURE), server).returncode == 0
    (line,) = live(tmp_path)
    (written,) = output(tmp_path)
    assert (line["got"], written["got"]) == ("0", "0")
    assert line["generated_answer"] == written["generated_answer"] == "the dataset's own"
    assert written["steps"][0]["payload"]["event_type"] == "TOOL_END"
    assert "steps" in line
    assert "intermediate_steps" not in line
    (ours,) = column(tmp_path)  # has no names but ours
    assert set(ours) == {"_limpet", "id", "row", "output", "trace", "_crc"}
    assert (ours["output"], ours["row"]) == ("0", row)


def test_a_run_with_names_of_its_own_is_read_and_continued(tmp_path, server):
    assert go(with_data(tmp_path, CASES, STRUCTURE), server).returncode == 0
    shown = run(tmp_path, "out", "--json", command="show")
    assert [json.loads(line)["output"] for line in shown.stdout.splitlines()] == ["0", "1"]
    more = "    close: {_type: similarity}\n"
    with (tmp_path / "config.yml").open("a", encoding="utf-8") as file:
        file.write(more)
    assert go(tmp_path, server).returncode == 0
    assert len(server.asked) == 2
    assert output(tmp_path, "close")["eval_output_items"][0]["score"] == 1.0
    assert run(tmp_path, "out", command="verify").returncode == 0


def test_lines_of_before_and_after_a_change_of_names_are_read_alike(tmp_path, server):
    server.broken = {"Repeat 1"}
    assert go(with_data(tmp_path, CASES, STRUCTURE), server).returncode == 1
    server.broken = set()
    edited(tmp_path, "got", "said")
    assert go(tmp_path, server).returncode == 0
    assert [line["output"] for line in column(tmp_path)] == ["0", "1"]
    assert sorted(row["said"] for row in live(tmp_path)) == ["0", "1"]
    assert not any("got" in row for row in (*live(tmp_path), *output(tmp_path)))
    assert [row["said"] for row in output(tmp_path)] == ["0", "1"]


def test_an_export_of_an_unfinished_run_has_the_names_of_the_structure(tmp_path, server):
    server.broken = {"Repeat 1"}
    assert go(with_data(tmp_path, CASES, STRUCTURE), server).returncode == 1
    for file in (tmp_path / "out").glob("*_output.json"):
        file.unlink()
    export = ("out", "--to", "nat", "--output", "ex")
    assert run(tmp_path, *export, command="export").returncode == 0
    done, failed = output(tmp_path, where="ex")
    assert (done["id"], done["got"], failed["got"]) == (100, "0", None)
    assert done["expected_intermediate_steps"] == []
    assert "generated_answer" not in done


@pytest.mark.parametrize(
    ("file", "skipped"),
    [
        ("workflow_output.json", {"no answer": 1}),
        ("workflow_output.jsonl", {}),
        ("workflow_column.jsonl", {}),
    ],
)
def test_each_file_of_ours_is_imported_whatever_its_columns_are_called(
    tmp_path, server, file, skipped
):
    server.broken = {"Repeat 1"}
    own = {"row": "r", "output": "o", "trace": "t", "metadata": "m"}
    rows = [{**row, **own} for row in CASES]
    assert go(with_data(tmp_path, rows, "id_key: id"), server).returncode == 1
    edited(tmp_path, "./out", "./again")
    into = ("--into", "config.yml", "--endpoint", server.url, "--json")
    done = run(tmp_path, f"out/{file}", *into, command="import")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["imported"], told["skipped"]) == (1, skipped)
    (line,) = column(tmp_path, where="again")
    assert (line["id"], line["row"], line["output"]) == ("100", rows[0], "0")
    assert "metadata" not in line
    assert [event["type"] for event in line["trace"]]


# ---- without evaluators -------------------------------------------------------------------------


def test_a_run_without_evaluators_needs_none_and_says_how_to_score(tmp_path, server):
    make(tmp_path, rows=2, evaluators="    judged: {_type: ragas, llm_name: nim}")
    refused = go(tmp_path, server)
    assert refused.returncode == 2
    command = "nat eval --config_file config.yml --skip_workflow --dataset out/workflow_output.json"
    assert "run with --no-evaluators" in refused.stderr
    assert command in refused.stderr
    done = go(tmp_path, server, "--no-evaluators")
    assert done.returncode == 0, done.stderr
    assert f"score with the toolkit: {command}" in done.stderr
    assert [row["generated_answer"] for row in output(tmp_path)] == ["0", "1"]
    assert not (tmp_path / "out/correct_output.json").exists()
    again = go(tmp_path, server, "--no-evaluators")
    assert (again.returncode, len(server.asked)) == (0, 2)


def test_an_import_without_evaluators_needs_none(tmp_path, server):
    make(tmp_path, rows=1, evaluators="    judged: {_type: ragas, llm_name: nim}")
    theirs(tmp_path, "old")
    into = ("--into", "config.yml", "--endpoint", server.url)
    file = "old/workflow_output.json"
    assert run(tmp_path, file, *into, command="import").returncode == 2
    done = run(tmp_path, file, *into, "--no-evaluators", command="import")
    assert (done.returncode, done.stderr) == (0, "workflow_output.json: 1 imported\n")


def test_an_eval_yml_runs_without_evaluators_too(tmp_path):
    eval_yml(tmp_path, rows=2)
    text = (tmp_path / "eval.yml").read_text(encoding="utf-8")
    broken = text.replace("correct: exact_match", "correct: missing_module:judge")
    (tmp_path / "eval.yml").write_text(broken, encoding="utf-8")
    assert run(tmp_path).returncode == 2
    done = run(tmp_path, "--no-evaluators")
    assert done.returncode == 0, done.stderr
    assert len(calls(tmp_path)) == 2
    (tmp_path / "eval.yml").write_text(text, encoding="utf-8")
    assert run(tmp_path).returncode == 0  # scores what is there
    assert len(calls(tmp_path)) == 2
    assert exported(tmp_path / "runs/trial", "correct")["average_score"] == 1.0


def test_an_eval_yml_writes_the_toolkits_files_where_that_is_asked(tmp_path):
    eval_yml(tmp_path, rows=2)
    assert run(tmp_path).returncode == 0
    home = tmp_path / "runs/trial"
    assert not [*home.glob("*_output.json")]
    asked = run(tmp_path, "--set", "output.nat=true")
    assert asked.returncode == 0, asked.stderr
    assert len(calls(tmp_path)) == 2  # the answers are there
    assert output(tmp_path, where="runs/trial") == exported(home)
    assert output(tmp_path, "correct", where="runs/trial") == exported(home, "correct")
    bare = run(tmp_path, "--set", "output.nat.bare=true")
    assert bare.returncode == 0, bare.stderr
    assert output(tmp_path, where="runs/trial") == ["0", "1"]


def test_a_plain_run_has_few_files(tmp_path):
    eval_yml(tmp_path, rows=2)
    assert run(tmp_path).returncode == 0
    names = {path.name for path in (tmp_path / "runs/trial").iterdir()}
    assert len(names) <= 11, names


def test_the_toolkits_flags_have_a_heading_of_their_own_in_the_help(tmp_path):
    text = run(tmp_path, "--help").stdout
    general, heading, theirs = text.partition("Options for a NeMo Agent Toolkit configuration:")
    assert heading
    assert "--no-evaluators" in general
    for flag in ("--endpoint", "--override", "--skip-workflow", "--reps", "--result-json-path"):
        assert f"  {flag} " in theirs
        assert f"  {flag} " not in general


def test_neither_answers_nor_scores_leave_nothing_to_do(tmp_path):
    done = run(make(tmp_path), "config.yml", "--skip-workflow", "--no-evaluators")
    assert done.returncode == 2
    assert "leave nothing to do" in done.stderr


# ---- streams and time limits --------------------------------------------------------------------


def test_a_stream_that_ends_properly_with_nothing_is_an_empty_answer(tmp_path, server):
    server.silent = {"Repeat 0"}
    done = go(make(tmp_path, rows=2), server)
    assert done.returncode == 0, done.stderr
    assert [row["generated_answer"] for row in output(tmp_path)] == ["", "1"]
    scores = output(tmp_path, "correct")["eval_output_items"]
    assert [score["score"] for score in scores] == [0.0, 1.0]


def test_a_timeout_names_the_item(tmp_path, server):
    server.gate.clear()
    server.free = 1
    limits = ("--endpoint-timeout", "0.5", "--max-retries", "0", "--no-fail-fast")
    done = go(make(tmp_path, rows=2), server, *limits)
    assert done.returncode == 1, done.stderr
    failed = [row for row in output(tmp_path) if "_limpet" in row]
    said = [row["_limpet"]["error"]["message"] for row in failed]
    (message,) = said
    assert message.startswith(f"item {failed[0]['id']!r}: no answer within 0.5 s (attempt 1); ")


def test_rows_that_nat_eval_wrote_with_nan_are_scored(tmp_path):
    make(tmp_path)
    rows = [
        {"id": 1, "question": "Q", "answer": "A", "generated_answer": "A", "note": math.nan,
         "intermediate_steps": math.nan},
        {"id": 2, "question": "Q", "answer": "A", "generated_answer": math.nan, "note": "x"},
    ]  # fmt: skip
    (tmp_path / "old.json").write_text(json.dumps(rows), encoding="utf-8")
    done = run(tmp_path, "config.yml", "--skip-workflow", "--dataset", "old.json")
    assert done.returncode == 1, done.stderr
    assert "its row has no answer in 'generated_answer'" in json.dumps(output(tmp_path)[1])
    scores = output(tmp_path, "correct")["eval_output_items"]
    assert [(score["id"], score["score"]) for score in scores] == [(1, 1.0), (2, None)]


def test_an_export_of_imported_answers_has_the_names_of_the_structure(tmp_path, server):
    with_data(tmp_path, CASES, STRUCTURE)
    rows = [{**row, "got": row["answer"]} for row in CASES]
    (tmp_path / "old.json").write_text(json.dumps(rows), encoding="utf-8")
    into = ("--into", "config.yml", "--endpoint", server.url)
    assert run(tmp_path, "old.json", *into, command="import").returncode == 0
    export = ("out", "--to", "nat", "--output", "ex")
    assert run(tmp_path, *export, command="export").returncode == 0
    assert [(row["id"], row["got"]) for row in output(tmp_path, where="ex")] == [
        (100, "0"),
        (101, "?"),
    ]
