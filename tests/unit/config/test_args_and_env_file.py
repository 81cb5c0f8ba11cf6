"""Arguments of a workflow, files of environment variables, and the form of CSV files."""

import os
import sys
from pathlib import Path

import pytest

import limpet
from limpet.config import load_config
from limpet.errors import ConfigError

GOOD = "dataset: questions.jsonl\nworkflow: app:answer\n"
APP = """
def answer(question, model="x", options=None):
    if options is not None:
        options.append(question)
    return f"{model}:{question}:{options}"

def by_input(model, text):
    return f"{model}:{text}"

def any_args(question, **more):
    return str(more)

def by_position(text, /, model="x"):
    return f"{model}:{text}"

class Bot:
    def __init__(self, model, size=1):
        self.model = model
    def __call__(self, question):
        return f"{self.model}:{question}"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    before = set(sys.modules)
    rows = '{"id": "1", "question": "x"}\n{"id": "2", "question": "y"}\n'
    (tmp_path / "questions.jsonl").write_text(rows)
    (tmp_path / "app.py").write_text(APP)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def prepared(workflow, dataset="questions.jsonl"):
    Path("eval.yml").write_text(f"dataset: {dataset}\nworkflow: {workflow}\n")
    return load_config("eval.yml").prepare()


def outputs(workflow):
    ready = prepared(workflow)
    result = limpet.evaluate(ready.dataset, ready.workflow, save=False)
    return [item.output.value for item in result.items]


def refusal(workflow):
    with pytest.raises(ConfigError) as caught:
        prepared(workflow)
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize(
    ("workflow", "first"),
    [
        ("{python: app:answer, args: {model: m}}", "m:x:None"),
        ("{python: app:by_input, args: {model: m}}", "m:x"),
        ("{python: app:any_args, args: {size: 2}}", "{'size': 2}"),
        ("{python: app:by_position, args: {model: m}}", "m:x"),
        ("{python: app:Bot, args: {model: m}}", "m:x"),
    ],
)
def test_arguments_reach_the_function_or_the_constructor(workflow, first):
    assert outputs(workflow)[0] == first


def test_a_list_that_one_call_changes_does_not_reach_the_next():
    assert outputs("{python: app:answer, args: {options: []}}") == ["x:x:['x']", "x:y:['y']"]


def test_each_argument_is_part_of_the_identity_by_name_and_value():
    def parts(args, more=""):
        return dict(prepared(f"{{python: app:answer, args: {args}{more}}}").workflow.fingerprint)

    one = parts("{model: a}")
    assert parts("{model: a}") == one
    assert {name for name, digest in parts("{model: b}").items() if one.get(name) != digest} == {
        "argument model"
    }
    assert parts("{model: a, options: null}") != one
    assert parts("{model: a}", ", version: '1'") != parts("{model: b}", ", version: '1'")


def test_a_secret_argument_is_no_part_of_the_identity():
    ready = prepared("{python: app:any_args, args: {api_key: one, model: a}}")
    assert "argument api_key" not in ready.workflow.fingerprint
    assert "argument model" in ready.workflow.fingerprint


@pytest.mark.parametrize(
    ("workflow", "message", "hint"),
    [
        (
            "{python: app:answer, args: {modle: a}}",
            "eval.yml:2: workflow.args.modle: answer has no parameter 'modle'",
            "did you mean 'model'?",
        ),
        ("{python: app:answer, args: {zzz: a}}", "'zzz'", "its parameters: question, model"),
        ("{python: app:by_position, args: {text: a}}", "takes it by position only", ""),
        ("{python: app:by_input, args: {model: a, text: b}}", "sets every parameter", "for the in"),
        ("{python: app:Bot, args: {size: 2}}", "missing a required argument: 'model'", "args"),
        ("{http: 'http://localhost:1', args: {a: 1}}", "workflow.args: works only with python", ""),
        ("{python: app:answer, args: [a]}", "workflow.args: must be a mapping", ""),
    ],
)
def test_arguments_that_do_not_fit_are_refused(workflow, message, hint):
    said, hinted = refusal(workflow)
    assert message in said
    assert hint in (hinted or "")


def test_an_env_file_sets_what_is_not_set(folder):
    (folder / ".env").write_text(
        "# a comment\nexport MODEL=m1 # this one\nQUOTED='a # b'\nESCAPED=\"a\\nb\"\r\n"
        "SET=no\nEMPTY=\nURL=http://x/#y\n"
    )
    os.environ["SET"] = "before"
    Path("eval.yml").write_text(GOOD + "name: ${MODEL}\nenv_file: .env\n")
    assert load_config("eval.yml").name == "m1"
    found = {name: os.environ[name] for name in ("QUOTED", "ESCAPED", "SET", "EMPTY", "URL")}
    assert found == {
        "QUOTED": "a # b",
        "ESCAPED": "a\nb",
        "SET": "before",
        "EMPTY": "",
        "URL": "http://x/#y",
    }


def test_an_env_file_is_never_read_unasked(folder):
    (folder / ".env").write_text("MODEL_OF_FILE=m1\n")
    Path("eval.yml").write_text(GOOD)
    load_config("eval.yml").prepare()
    assert "MODEL_OF_FILE" not in os.environ


@pytest.mark.parametrize(
    "line", ["sk-verysecret", "KEY='sk-verysecret", 'KEY="sk-verysecret" x', "1KEY=sk-verysecret"]
)
def test_a_bad_line_is_reported_without_its_value(folder, line):
    (folder / ".env").write_text(f"GOOD_BEFORE=1\n{line}\n")
    Path("eval.yml").write_text(GOOD + "env_file: .env\n")
    with pytest.raises(ConfigError, match=r"^\.env:2: ") as caught:
        load_config("eval.yml")
    assert "verysecret" not in f"{caught.value}{caught.value.hint}"
    assert "GOOD_BEFORE" not in os.environ


def test_a_missing_env_file_is_an_error():
    Path("eval.yml").write_text(GOOD + "env_file: .env\n")
    with pytest.raises(ConfigError, match=r"\.env: file not found"):
        load_config("eval.yml")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig"])
def test_a_csv_file_of_another_form(folder, encoding):
    text = 'id;question\n1;"è; ""q"""\n2;ü\n'
    (folder / "rows.csv").write_bytes(text.encode(encoding))
    ready = prepared("app:answer", f"{{path: rows.csv, delimiter: ';', encoding: {encoding}}}")
    assert [item.input for item in ready.dataset.load()] == ['è; "q"', "ü"]


def test_a_file_that_is_not_in_its_encoding_is_refused(folder):
    (folder / "rows.csv").write_bytes("id,question\n1,ü\n".encode("latin-1"))
    with pytest.raises(limpet.errors.DatasetError, match="rows.csv, after line .: is not ascii"):
        limpet.Dataset("rows.csv", encoding="ascii").load()


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("{path: questions.jsonl, delimiter: ';'}", "dataset.delimiter: only a .csv or .tsv"),
        ("{path: questions.jsonl, encoding: latin-1}", "dataset.encoding: only a .csv or .tsv"),
        ("{python: app:answer, delimiter: ';;'}", "dataset.delimiter: must be one character"),
        ("{path: rows.csv, encoding: latin-99}", "dataset.encoding: must be the name of an enc"),
        ("{path: rows.csv, encoding: base64}", "dataset.encoding: must be the name of an enc"),
    ],
)
def test_a_form_that_does_not_fit_is_refused(folder, dataset, message):
    (folder / "rows.csv").write_text("id,question\n1,x\n")
    with pytest.raises(ConfigError) as caught:
        prepared("app:answer", dataset)
    assert message in str(caught.value)


def test_dataset_checks_its_form_at_once():
    with pytest.raises(ValueError, match="delimiter"):
        limpet.Dataset("rows.csv", delimiter="\n")
    with pytest.raises(ValueError, match="encoding"):
        limpet.Dataset("rows.csv", encoding="nonsense")
