"""What `@limpet.workflow` declares of a function or a class."""

import functools
from pathlib import Path

import pytest

import limpet

ROWS = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(3)]


def made(body, **declared):
    """Return a function like one in a module, with other code each time."""
    space = {"limpet": limpet, "declared": declared}
    code = f"@limpet.workflow(**declared)\ndef answer(question):\n    return {body}\n"
    exec(code, space)  # noqa: S102 - an edit
    return space["answer"]


def test_a_function_stays_what_it_is():
    @limpet.workflow(version="1")
    def answer(question):
        return question.upper()

    assert answer("a") == "A"
    assert answer.__name__ == "answer"

    @limpet.workflow
    def plain(question):
        return question

    assert plain("a") == "a"


def test_a_version_replaces_the_code(tmp_path):
    run = tmp_path / "run"
    limpet.evaluate(ROWS, made("question", version="1"), run=run)
    kept = limpet.evaluate(ROWS, made("question * 2", version="1"), run=run)
    assert kept.plan.calls == 0
    assert limpet.plan(ROWS, made("question", version="2"), run=run, on_change="redo").calls == 3


def test_the_version_of_evaluate_comes_first(tmp_path):
    run = tmp_path / "run"
    limpet.evaluate(ROWS, made("question", version="1"), run=run, version="a")
    assert limpet.plan(ROWS, made("question", version="2"), run=run, version="a").calls == 0


def test_what_is_declared_counts_by_its_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("prompt.txt").write_text("one")
    answer = made("question", depends_on={"files": ["prompt.txt"]})
    limpet.evaluate(ROWS, answer, run="run")
    assert limpet.plan(ROWS, answer, run="run").calls == 0
    Path("prompt.txt").write_text("two")
    assert limpet.evaluate(ROWS, answer, run="run", on_change="redo").plan.calls == 3


def test_a_name_is_that_of_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    limpet.evaluate(ROWS, made("question", name="bot"))
    assert Path("runs/bot/run.json").exists()


def test_a_class_and_its_objects(tmp_path):
    @limpet.workflow(version="1", name="agent")
    class Agent:
        def __call__(self, question):
            return question

    run = tmp_path / "run"
    limpet.evaluate(ROWS, Agent, run=run)
    assert Agent()("a") == "a"
    assert limpet.plan(ROWS, Agent(), run=run).calls == 0


@pytest.mark.parametrize(
    ("declared", "error", "said"),
    [
        ({"version": 3}, TypeError, "version=3: must be a string or None"),
        ({"name": 3}, TypeError, "name=3: must be a string or None"),
        ({"depends_on": {"file": []}}, ValueError, "unknown key 'file'"),
        ({"version": ""}, ValueError, "version='': must not be empty"),
        ({"name": "../x"}, ValueError, "must be usable as the name of a directory"),
        ({"name": ".."}, ValueError, "must be usable as the name of a directory"),
    ],
)
def test_a_wrong_declaration_is_an_error_where_it_stands(declared, error, said):
    with pytest.raises(error, match=said):
        limpet.workflow(**declared)


def test_methods_and_partials_have_what_their_function_declares(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Agent:
        @limpet.workflow(version="1", name="asked")
        def ask(self, question, mark="!"):
            return question + mark

    limpet.evaluate(ROWS, Agent().ask)
    assert limpet.plan(ROWS, functools.partial(Agent().ask, mark="?"), run="runs/asked").calls == 0


def test_what_cannot_be_remembered_is_refused():
    with pytest.raises(TypeError, match="cannot be declared"):
        limpet.workflow(str.upper)


def test_only_what_can_be_called_is_a_workflow():
    with pytest.raises(TypeError, match="must be a function or a class"):
        limpet.workflow(3)
