"""What the code does not show can be declared, and counts like all else."""

import json
import os
import sys
from importlib import metadata

import pytest

import limpet
from limpet.config import load_config
from limpet.evaluators import as_evaluator

ROWS = [{"id": "1", "input": "a"}, {"id": "2", "input": "b"}]


def answer(q):
    return q


def score(output):
    return 1


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(depends_on, **options):
    return limpet.evaluate(ROWS, answer, (), "run", depends_on=depends_on, **options)


def test_a_declared_file_counts_by_its_content_and_is_named(tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Be kind.")
    declared = {"files": ["prompt.txt"]}
    run(declared)
    prompt.write_text("Be kind.")  # another time, the same content
    assert run(declared).plan.calls == 0
    prompt.write_text("Be rude.")
    assert run(declared).plan.workflow.changed == ("file prompt.txt",)


def test_a_pattern_stands_for_many_files_and_a_new_one_counts(tmp_path):
    folder = tmp_path / "prompts" / "deep"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    declared = {"files": ["prompts/**"]}
    run(declared)
    assert run(declared).plan.calls == 0
    (folder / "b.txt").write_text("b")
    assert run(declared).plan.workflow.changed == ("file prompts/deep/b.txt (now used)",)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"files": ["nothing.txt"]}, "nothing.txt matches no file"),
        ({"files": ["nothing/*.txt"]}, r"nothing/\*.txt matches no file"),
        ({"files": ["."]}, "is a directory"),
        ({"files": ["pipe"]}, "pipe is not a file"),
        ({"packages": ["no-such-package-anywhere"]}, "no-such-package-anywhere is not installed"),
    ],
)
def test_what_is_not_there_is_an_error_with_its_name(tmp_path, declared, said):
    os.mkfifo("pipe")
    with pytest.raises(limpet.LimpetError, match=said):
        run(declared)
    assert not (tmp_path / "run").exists()
    with pytest.raises(limpet.LimpetError, match=said):
        limpet.map(answer, ["a"], journal="out.jsonl", depends_on=declared)


@pytest.mark.parametrize(
    ("declared", "kind", "said"),
    [
        ("prompt.txt", TypeError, "must be a dict of files, env and packages"),
        ({"file": ["a"]}, ValueError, "unknown key 'file'; the keys are files, env and packages"),
        ({"files": "a.txt"}, TypeError, "files must be a list of strings, not a.txt"),
        ({"env": [1]}, TypeError, "env must be a list of strings"),
        ({"env": None}, TypeError, "env must be a list of strings"),
    ],
)
def test_what_is_no_declaration_is_refused(declared, kind, said):
    with pytest.raises(kind, match=said):
        run(declared)
    with pytest.raises(kind, match=said):
        limpet.map(answer, ["a"], depends_on=declared)


def test_a_declared_variable_counts_by_its_value(monkeypatch):
    declared = {"env": ["BACKEND"]}
    monkeypatch.delenv("BACKEND", raising=False)
    run(declared)
    assert run(declared).plan.calls == 0
    monkeypatch.setenv("BACKEND", "")
    assert run(declared).plan.workflow.changed == ("environment variable BACKEND",)


@pytest.mark.parametrize("name", ["BACKEND_API_KEY", "BACKEND_TOKEN"])
def test_a_declared_secret_does_not_count_and_that_is_said(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "sk-abcdefghijklmnop0123456789")
    run({"env": [name]})
    told = json.loads((tmp_path / "run" / "identity.json").read_text())["steps"]["workflow"]
    assert told["left_out"] == {f"variable {name}": "a secret"}
    monkeypatch.setenv(name, "sk-zyxwvutsrqponmlk9876543210")
    assert run({"env": [name]}).plan.calls == 0


def test_a_declared_package_counts_by_its_version(monkeypatch):
    run({"packages": ["orjson"]})
    assert run({"packages": ["orjson"]}).plan.calls == 0
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1" if name == "orjson" else real(name))
    assert run({"packages": ["orjson"]}).plan.workflow.changed == ("package orjson",)


def test_a_version_overrides_what_is_declared(tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("a")
    run({"files": ["prompt.txt"]}, version="1")
    prompt.unlink()
    assert run({"files": ["prompt.txt"]}, version="1").plan.calls == 0


def test_it_counts_for_map_and_for_an_evaluator(tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("a")
    declared = {"files": ["prompt.txt"]}
    limpet.map(answer, ["a"], journal="out.jsonl", depends_on=declared)
    scorer = as_evaluator(score, depends_on=declared)
    limpet.evaluate(ROWS, answer, [scorer], "run")
    renamed = as_evaluator(scorer, "renamed")
    limpet.evaluate(ROWS, answer, [renamed], "run")
    assert limpet.evaluate(ROWS, answer, [scorer], "run").plan.calls == 0
    prompt.write_text("b")
    with pytest.raises(limpet.FunctionChangedError, match="prompt.txt"):
        limpet.map(answer, ["a"], journal="out.jsonl", depends_on=declared)
    for one in (scorer, renamed):
        plan = limpet.evaluate(ROWS, answer, [one], "run").plan
        assert (plan.workflow.calls, plan.evaluators[0].changed) == (0, ("file prompt.txt",))


CONFIG = """
dataset: data.jsonl
workflow:
  python: agent:answer
  depends_on: {files: [prompts/*.txt], env: [BACKEND], packages: [orjson]}
evaluators:
  score:
    python: agent:score
    depends_on: {files: [rubric.txt]}
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "prompts").mkdir(parents=True)
    (folder / "prompts" / "a.txt").write_text("a")
    (folder / "rubric.txt").write_text("strict")
    (folder / "agent.py").write_text("def answer(q): return q\ndef score(output): return 1\n")
    (folder / "data.jsonl").write_text('{"id": "1", "input": "a"}\n')
    (folder / "eval.yml").write_text(CONFIG)
    sys.modules.pop("agent", None)
    yield folder
    sys.modules.pop("agent", None)


def planned(folder):
    sys.modules.pop("agent", None)
    ready = load_config(folder / "eval.yml").prepare()
    run = folder.parent / "runs"
    return limpet.evaluate(ready.dataset, ready.workflow, ready.evaluators, run, **ready.options)


def test_eval_yml_declares_it_relative_to_itself(tmp_path, project):
    planned(project)
    moved = project.rename(tmp_path / "elsewhere")
    assert planned(moved).plan.calls == 0
    (moved / "rubric.txt").write_text("lax")
    assert planned(moved).plan.evaluators[0].changed == ("file rubric.txt",)
    (moved / "prompts" / "a.txt").write_text("b")
    assert planned(moved).plan.workflow.changed == ("file prompts/a.txt",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("prompts/*.txt", "none/*.txt", "eval.yml:5: workflow.depends_on: none/*.txt matches"),
        ("[rubric.txt]", "[none.txt]", "none.txt matches no file"),
        ("{files: [rubric.txt]}", "{file: [rubric.txt]}", "unknown key 'file'"),
        ("{files: [rubric.txt]}", "rubric.txt", "must be a"),
        ("env: [BACKEND]", "env: BACKEND", "must be a list"),
    ],
)
def test_eval_yml_says_what_is_wrong_with_its_line(project, old, new, said):
    (project / "eval.yml").write_text(CONFIG.replace(old, new))
    with pytest.raises(limpet.errors.ConfigError) as caught:
        load_config(project / "eval.yml").prepare()
    assert said in str(caught.value)
