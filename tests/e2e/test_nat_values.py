"""A configuration of the toolkit: values, names and usage stay what they are in the toolkit."""

import json

import pytest
from e2e.nat_server import column, go, make, output
from e2e.project import run


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
