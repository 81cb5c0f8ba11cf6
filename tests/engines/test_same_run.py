"""One evaluation on each engine: what is computed, kept and shown is the same."""

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

import limpet
from limpet.run.reading import RunReader
from tests.engines.project import (
    BOTH,
    ONE,
    PROCESSES,
    WORKER,
    Project,
    both_engines,
    chosen,
    plain,
    several_workers,
    without,
)
from tests.numbers.command import limpet as command

CODE = """
SEEN = []


async def answer(item):
    record(item)
    SEEN.append(item.id)  # state: it changes in whichever process answers
    number = int(item.id[1:])
    if number == 3:
        raise ValueError("not three: " + item.input)
    if number == 7:
        raise limpet.PermanentError("the model refused", hint="ask another")
    await asyncio.sleep(0.001)
    said = item.expected if number % 4 else "nothing"
    trace = [{"kind": "tool", "name": "search", "input": item.input, "output": said}]
    usage = limpet.Usage(prompt_tokens=number, completion_tokens=2, total_tokens=number + 2)
    return limpet.Output(said, usage=usage, trace=trace, metadata={"n": number})


def length(output, item):
    record(item, "length")
    if item.id == "q5":
        raise KeyError("no length")
    return limpet.Score(len(output) / 10, label="short", explanation=f"{output!r} is short",
                        metadata={"of": item.id})


async def several(output, expected):
    return {"same": output == expected, "tone": "kind" if output else "rude", "n": len(output)}
"""
EVALUATORS = {"correct": "exact_match", "length": "APP:length", "several": "APP:several"}
STEPS = ("workflow", "length")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("same"), CODE, rows=10)
    project.results = {}
    for name, engine in [("base", ONE), (ONE, ONE), (PROCESSES, PROCESSES)]:
        project.results[name] = project.evaluate(
            engine, EVALUATORS, run=name, trials=2, prices={"*": {"prompt": 2, "completion": 8}}
        )
    return project


def field(name):
    return lambda project, run: {
        f"{item.id} {item.trial}": without(getattr(item, name)) for item in run.items
    }


def record(name):
    def read(project, run):
        with RunReader(run.run) as reader:
            return {
                f"{item.id} {item.trial}": without(getattr(item, name)) for item in reader.items()
            }

    return read


def file(name):
    def read(project, run):
        text = (Path(run.run) / name).read_text(encoding="utf-8")
        if name.endswith(".json"):
            return json.loads(text)
        lines = [json.loads(line) for line in text.splitlines()]
        return sorted(lines, key=lambda one: plain(one.get("_limpet", one)))

    return read


VIEWS = {
    **{
        name: field(name)
        for name in ("output", "usage", "status", "attempts", "scores", "score_errors", "error",
                     "row")
    },
    **{name: record(name)
       for name in ("trace", "metadata", "score_usage", "key", "version", "masked")},
    "summary": lambda project, run: run.summary,
    "table": lambda project, run: run.to_dataframe().drop(columns="seconds").to_dict("records"),
    "groups": lambda project, run: run.by("note"),
    "plan": lambda project, run: str(replace(run.plan, engine="", forecast=None)),  # of another run
    **{
        name: file(name)
        for name in ("workflow_output.jsonl", "length_output.jsonl", "several_output.jsonl",
                     "correct_output.jsonl", "failures.jsonl", "items.jsonl",
                     "summary.json")
    },
    "fingerprints": lambda project, run: [
        json.loads((Path(run.run) / "run.json").read_text())[key] for key in ("steps", "functions")
    ],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@several_workers
def test_what_is_seen_of_a_run_is_the_same(project, engine, view):
    base, other = (VIEWS[view](project, project.results[name]) for name in ("base", engine))
    assert plain(other).replace(f"runs/{engine}", "runs/base") == plain(base)


@several_workers
def test_each_cell_was_called_once_and_the_driver_answered_nothing_itself(project, engine):
    assert set(project.counts().values()) == {2 * len(project.results)}
    here = sum(call.pid == os.getpid() for call in project.calls if call.step == "workflow")
    assert here == 2 * 2 * 10  # two runs of one process, two trials, ten items


@pytest.mark.parametrize("to", ["jsonl", "csv", "md", "nat"])
@several_workers
def test_what_is_exported_is_the_same(project, engine, to, tmp_path):
    texts = []
    for name in ("base", engine):
        target = tmp_path / f"{name}.{to}"
        done = command("export", project.folder / "runs" / name, "--to", to, "--output", target)
        assert done.code == 0, done.said
        if to == "nat":
            texts.append(plain([json.loads(one.read_text()) for one in sorted(target.iterdir())]))
        else:
            texts.append(target.read_text())
    if to == "jsonl":
        texts = [plain([json.loads(line) for line in text.splitlines()]) for text in texts]
    elif to in {"csv", "md"}:
        texts = [without_seconds(text, to) for text in texts]
    assert texts[0] == texts[1]


def without_seconds(text, to):
    lines = text.splitlines(keepends=True)
    rows = csv.reader(lines) if to == "csv" else (line.split(" | ") for line in lines)
    [names, *rows] = rows
    assert names.count("seconds") == 1
    at = names.index("seconds")
    return [row[:at] + row[at + 1 :] for row in (names, *rows)]


@pytest.mark.parametrize("words", ["show", "show --failed", "show --item q5", "status"])
@several_workers
def test_what_is_shown_is_the_same(project, engine, words):
    def said(name):
        first, *more = words.split()
        done = command(first, project.folder / "runs" / name, *more, "--json")
        assert done.code == 0, done.said
        shown = plain([json.loads(line) for line in done.out.splitlines()])
        return shown.replace(f"runs/{name}", "runs/base")

    moments = r'"[^"]*(20\d\d-\d\d|_s"|_at"|bytes)[^,}]*|\d+\.\d{3,}'
    assert re.sub(moments, "", said(engine)) == re.sub(moments, "", said("base"))


# ---- going on -----------------------------------------------------------------------------------

SEQUENCES = [
    (WORKER, ONE, WORKER),
    *(
        pytest.param(engines, marks=pytest.mark.slow)
        for engines in (
            (PROCESSES, ONE, PROCESSES),
            (ONE, ONE, ONE),
            (ONE, PROCESSES, ONE),
            ({"processes": 1}, {"processes": 3}, ONE),
        )
    ),
]


@pytest.mark.parametrize("engines", SEQUENCES, ids=str)
def test_a_run_goes_on_with_another_engine_and_makes_no_call_again(tmp_path, engines):
    project = Project(tmp_path, CODE, rows=9)
    rows = [row for row in project.rows if row["id"] not in {"q3", "q5", "q7"}]
    for limit, engine in zip((2, 4, None), engines, strict=True):
        with project.importable():
            result = limpet.evaluate(
                limpet.Dataset(rows, limit=limit), project.workflow,
                {"correct": limpet.exact_match(), "length": project.imported("APP:length")},
                run=project.path, show=False, **chosen(engine),
            )  # fmt: skip
    assert result.summary["workflow"]["completed"] == 6
    assert result.summary["evaluators"]["length"]["completed"] == 6
    for step in STEPS:
        assert set(project.counts(step).values()) == {1}
    before = len(project.calls)
    again = project.evaluate(engines[0], run="trial", workflow=None)  # all rows: the three are new
    assert len(project.calls) - before == 3
    assert "6 kept" in str(again.plan)
    assert len(project.recorded()) == len(set(project.recorded())) == 7


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("then", BOTH)
def test_what_failed_on_one_engine_is_tried_again_on_another(tmp_path, first, then):
    code = """
def answer(item):
    record(item)
    if item.id in {"q1", "q4"} and not (HERE / "mended").exists():
        raise ValueError("not yet")
    return item.expected
"""
    project = Project(tmp_path, code, rows=5)
    assert len(project.evaluate(first).failed) == 2
    project.tell("mended")
    result = project.evaluate(then)
    assert not result.failed
    assert project.counts() == {"q0": 1, "q1": 2, "q2": 1, "q3": 1, "q4": 2}


# ---- edits --------------------------------------------------------------------------------------


def edit_input(project):
    project.rows[2]["question"] = "Say something else"
    project.write_rows()


def edit_expected(project):
    project.rows[2]["answer"] = "something else"
    project.write_rows()


EDITS = {
    "nothing": (lambda project: None, 0, 0),
    "an input": (edit_input, 1, 1),
    "an expected answer": (edit_expected, 0, 1),
    "a field that nobody reads": (
        lambda project: (project.rows[2].update(note="new"), project.write_rows()), 0, 0,
    ),
    "a comment": (lambda project: project.edit_code("# by rote", "# by heart"), 0, 0),
    "the workflow": (lambda project: project.edit_code("'!'", "'?'"), 5, 5),
    "a helper of the workflow": (lambda project: project.edit_code("'.'", "';'"), 5, 5),
    "an evaluator": (lambda project: project.edit_code("== 3", "== 4"), 0, 5),
}  # fmt: skip
EDITED = """
def helper(text):
    return text + '.'


def answer(question):  # by rote
    record(question.split()[-1])
    return helper(question) + '!'


def length(output, expected):
    record(output.split()[-1], "length")
    return len(output) == 3
"""


# Each costs what another one does, and in one process all of them are in `make test`.
REPEATED = EDITS.keys() - {"the workflow"}


@pytest.mark.parametrize(
    "edit",
    [pytest.param(edit, marks=[pytest.mark.slow] if edit in REPEATED else []) for edit in EDITS],
)
@both_engines
def test_an_edit_costs_what_it_touched(tmp_path, engine, edit):
    do, answers, scores = EDITS[edit]
    project = Project(tmp_path, EDITED, rows=5, evaluators={"length": "APP:length"})
    # Whoever made them: the first session has one process, the second has the engine.
    assert project.run().returncode == 0
    assert len(project.calls) == 10
    do(project)
    project.forget_calls()
    done = project.run(engine=engine)
    assert done.returncode == 0, done.stderr
    steps = [call.step for call in project.calls]
    assert (steps.count("workflow"), steps.count("length")) == (answers, scores)


@pytest.mark.slow  # the driver asks: e2e/test_run_command
@both_engines
def test_many_answers_of_a_changed_workflow_are_asked_about_before_the_first_call(tmp_path, engine):
    project = Project(tmp_path, EDITED, rows=101)
    assert project.run(engine=engine).returncode == 0
    project.edit_code("'!'", "'?'")
    project.forget_calls()
    done = project.run(engine=engine)
    assert done.returncode == 2
    assert "the workflow changed after the answers of 101 of 101 items were made" in done.stderr
    assert project.calls == []
    assert project.run("--keep", engine=engine).returncode == 0
    assert project.calls == []


@pytest.mark.slow  # the driver plans it: e2e/test_redo_command
@both_engines
def test_a_redo_of_one_item_runs_that_item(tmp_path, engine):
    project = Project(tmp_path, EDITED, rows=4)
    assert project.run().returncode == 0
    project.forget_calls()
    assert project.run("--redo-item", "q2", engine=engine).returncode == 0
    assert project.counts() == {"2": 1}


@pytest.mark.slow  # the run that is looked at above has two
@both_engines
def test_trials_are_each_a_call_of_their_own(tmp_path, engine):
    project = Project(tmp_path, EDITED, rows=3)
    result = project.evaluate(engine, trials=4)
    assert project.counts() == {"0": 4, "1": 4, "2": 4}
    with RunReader(result.run) as reader:
        assert len({item.key for item in reader.items()}) == 12
