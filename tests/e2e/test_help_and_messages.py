"""What the command says to somebody who has just begun, and to a program that reads it."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from e2e.project import make, run

COMPLETION = {"_LIMPET_COMPLETE": "bash_complete", "COMP_CWORD": "2"}


SLOW_TO_IMPORT = {"aiohttp", "asyncio", "multiprocessing", "numpy", "pandas", "pyarrow", "yaml"}


@pytest.mark.quick(2)
@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["status"], []], ids=" ".join)
def test_help_status_and_completion_are_quick(tmp_path, arguments):
    run(make(tmp_path, rows=3))
    env = dict(os.environ)
    if not arguments:
        env |= {**COMPLETION, "COMP_WORDS": "limpet status "}
    command = [sys.executable, "-X", "importtime", "-m", "limpet", *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True
    )
    assert done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "click" in imported
    assert not imported & SLOW_TO_IMPORT


def test_without_an_eval_yml_run_mentions_init(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 2
    assert "eval.yml: file not found" in done.stderr
    assert "limpet init first" in done.stderr


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("app.py", "workflow: app:NAME"),
        ("rows.jsonl", "dataset: rows.jsonl"),
    ],
)
def test_run_says_what_is_wanted_instead_of_another_file(tmp_path, file, wanted):
    make(tmp_path)
    done = run(tmp_path, file)
    assert done.returncode == 2
    assert f"error: {file}: is " in done.stderr
    assert "not an eval.yml" in done.stderr
    assert wanted in done.stderr
    assert "unknown key" not in done.stderr


def test_init_proposes_a_free_name_and_writes_it(tmp_path):
    assert run(tmp_path, "first", command="init").returncode == 0
    again = run(tmp_path, "first", command="init")
    assert again.returncode == 2
    assert "hint: choose another directory: limpet init first-2" in again.stderr
    assert run(tmp_path, "first-2", command="init").returncode == 0
    assert yaml.safe_load((tmp_path / "first-2/eval.yml").read_text())["name"] == "first-2"
    assert "runs/first-2" in (tmp_path / "first-2/README.md").read_text()


@pytest.mark.parametrize("name", ["null", "2026", "my tests", "-x"])
def test_init_writes_a_name_that_yaml_reads_as_one(tmp_path, name):
    assert run(tmp_path, "--", name, command="init").returncode == 0
    written = yaml.safe_load((tmp_path / name / "eval.yml").read_text())["name"]
    assert written in (name, "first")
    assert isinstance(written, str)


def test_several_faults_have_a_hint_each_in_the_words_of_the_file(tmp_path):
    make(tmp_path, more="  near: {type: exact_match, case: 3}\ntrials: two\nnote: 7\n")
    done = run(tmp_path, "--set", "name=7")
    assert done.stderr.count("\n  hint: ") >= 2
    for python in ("True", "None", "a text", "name=", "str "):
        assert python not in done.stderr.replace("--set name=7", "")


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["missing.yml"], "run"),
        (["--redo", "--keep"], "run"),
        (["--nonsense"], "run"),
        (["nowhere"], "status"),
        (["nowhere"], "show"),
        (["nowhere"], "list"),
    ],
)
def test_json_tells_of_an_error(tmp_path, arguments, command):
    make(tmp_path)
    done = run(tmp_path, *arguments, "--json", command=command)
    (event,) = events(done)
    assert event["event"] == "error"
    assert event["exit_code"] == done.returncode == 2
    assert f"error: {event['message']}" in done.stderr
    assert event["hint"] is None or event["hint"] in done.stderr


def test_json_tells_of_a_changed_workflow(tmp_path):
    make(tmp_path, rows=3)
    app = tmp_path / "app.py"
    costly = "return limpet.Output(question, usage=limpet.Usage(cost=9))"
    app.write_text(f"import limpet\n\ndef answer(question):\n    {costly}\n")
    run(tmp_path)
    app.write_text(app.read_text().replace("Output(question", "Output(question.upper()"))
    done = run(tmp_path, "--json")
    assert done.returncode == 2
    last = events(done)[-1]
    assert (last["event"], last["error"]) == ("error", "FunctionChangedError")
    assert "--redo" in last["hint"]


def test_every_line_of_json_has_its_event(tmp_path):
    make(tmp_path, rows=3, workflow="app:fail_some")
    planned = run(tmp_path, "--plan", "--json")
    ran = run(tmp_path, "--json")
    assert [event["event"] for event in events(planned)] == ["planned"]
    assert all(event["event"] for event in events(ran))
    assert events(ran)[-1]["event"] == "ended"


def test_json_tells_no_secret(tmp_path):
    make(tmp_path)
    key = "sk-not-to-be-seen-0123456789abcdef"
    done = run(tmp_path, key, "--json", env={"OPENAI_API_KEY": key})
    assert key not in done.stdout + done.stderr
    assert events(done)[-1]["event"] == "error"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("class answer: pass", "workflow: app:answer: the class answer needs a method __call__"),
        ("def answer(): pass", "workflow: app:answer: answer takes no argument by name"),
    ],
)
def test_a_wrong_workflow_is_named_as_in_the_file(tmp_path, code, said):
    make(tmp_path)
    (tmp_path / "app.py").write_text(code)
    done = run(tmp_path)
    assert said in done.stderr
    assert " at 0x" not in done.stderr
    assert "<class" not in done.stderr
