"""The shape of what users get: items with an `Output` and `Score`s, and a summary by score."""

import json
from dataclasses import FrozenInstanceError, fields

import pytest

import limpet
from limpet import Output, Score, Usage
from limpet.report.items import item_data
from limpet.run.reading import RunReader
from limpet.run.results.item_result import ItemResult

USAGE = Usage(
    3, 4, 7, 0.5, 1, 2,
    models={"m": {"prompt_tokens": 3, "completion_tokens": 4}}, times={"runtime": 1.5},
)  # fmt: skip
OUTPUT = Output({"said": ["x"]}, USAGE, [{"kind": "tool", "name": "look"}], {"k": [1, 2]})
ONE = Score(0.5, "half", "because", {"by": [1]})
SEVERAL = {
    "a": Score(True, explanation="why"),
    "b": Score(None, "kind"),
    "c": Score(0.25, explanation="", metadata={}),
}
ROWS = [{"id": f"q{n}", "question": str(n), "answer": "x"} for n in range(4)]


def workflow(question):
    if question == "3":
        raise limpet.PermanentError("three is too much")
    return OUTPUT


def one(output):
    return ONE


def several(output):
    return SEVERAL


def choosy(item):
    if item.id == "q1":
        raise limpet.PermanentError("not this one")
    return True


def evaluate(run, rows=ROWS, answer=workflow, evaluators=(one, several, choosy), **options):
    options = {"retry": 0, "version": "1", "early_stop": False, "show": False, **options}
    return limpet.evaluate(rows, answer, list(evaluators), run=run, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("shape") / "run"
    evaluate(path)
    return path


# ---- an item ------------------------------------------------------------------------------------


def test_an_item_has_exactly_these_fields():
    assert [field.name for field in fields(ItemResult)] == [
        "id", "trial", "input", "expected", "row", "output", "scores", "status", "error",
        "score_errors", "attempts", "seconds", "usage", "at",
    ]  # fmt: skip
    public = {name for name in dir(ItemResult) if not name.startswith("_")}
    assert public == {field.name for field in fields(ItemResult)}


def test_an_item_is_frozen_and_has_no_room_for_more(run):
    item = limpet.load_run(run).items[0]
    for name in ("output", "scores", "status"):
        with pytest.raises(FrozenInstanceError):
            setattr(item, name, None)
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        item.trace = []


@pytest.mark.parametrize("kept", [True, False])
def test_the_output_and_the_scores_are_those_that_were_given(tmp_path, kept):
    result = evaluate(tmp_path / "run" if kept else False)
    results = [result, limpet.load_run(tmp_path / "run")] if kept else [result]
    for found in results:
        first = found.items[0]
        assert isinstance(first, ItemResult)
        assert (type(first.output), {*map(type, first.scores.values())}) == (Output, {Score})
        assert first.output == OUTPUT
        assert first.usage == USAGE
        assert first.scores == {
            "one": ONE,
            "several.a": SEVERAL["a"],
            "several.b": SEVERAL["b"],
            "several.c": SEVERAL["c"],
            "choosy": Score(True),
        }
        assert first.scores["several.a"].value is True  # and not 1.0
        assert (first.error, first.score_errors, first.attempts) == (None, {}, 1)
        assert found.items == result.items


def test_a_watcher_gets_the_same_before_there_are_scores(tmp_path):
    seen = {}
    result = evaluate(tmp_path / "run", watcher=lambda item: seen.update({item.id: item}))
    assert {type(item) for item in seen.values()} == {ItemResult}
    for item in result.items:
        early = seen[item.id]
        for name in ("id", "trial", "input", "expected", "row", "output", "status", "attempts"):
            assert getattr(early, name) == getattr(item, name), name
        assert early.scores == {}
        assert (early.error is None) == (item.error is None)


def test_a_failure_is_no_output_and_no_score(run):
    result = limpet.load_run(run)
    *_, last = result.items
    assert (last.output, last.scores, last.usage, last.status) == (None, {}, None, "failed")
    assert set(last.error) == {"class", "type", "message", "traceback"}
    assert last.error["message"] == "three is too much"
    second = result.items[1]
    assert (second.output, "choosy" in second.scores) == (OUTPUT, False)
    assert set(second.score_errors) == {"choosy"}
    assert set(second.score_errors["choosy"]) == {"class", "type", "message", "traceback"}
    assert [item.id for item in result.failed] == ["q1", "q3"]


@pytest.mark.parametrize("value", [None, "", 0, False, [], {}])
def test_an_answer_that_is_empty_is_an_output_all_the_same(tmp_path, value):
    evaluate(tmp_path / "run", ROWS[:1], lambda question: Output(value), ())
    (item,) = limpet.load_run(tmp_path / "run").items
    if item.error is not None:  # it was refused
        assert item.output is None
    else:
        assert item.output == Output(value)
        assert type(item.output.value) is type(value)


def test_an_item_of_a_map_has_an_output_too(tmp_path):
    limpet.map(lambda n: n * 2, [1, 2], journal=tmp_path / "out.jsonl", version="1")
    items = sorted(limpet.load_run(tmp_path / "out.jsonl").items, key=lambda item: item.input)
    assert [(item.input, item.output) for item in items] == [(1, Output(2)), (2, Output(4))]


# ---- the summary --------------------------------------------------------------------------------


def test_the_summary_has_these_keys(run):
    written = json.loads((run / "summary.json").read_text())
    summary = limpet.load_run(run).summary
    assert summary == written
    assert list(summary) == [
        "n", "workflow", "scores", "evaluators", "masked", "versions", "stop_reason", "bad_rows",
    ]  # fmt: skip
    assert list(summary["evaluators"]) == ["one", "several", "choosy"]
    assert sorted(summary["scores"]) == ["choosy", "one", "several.a", "several.b", "several.c"]


def test_what_an_evaluator_has_is_about_its_calls(run):
    evaluators = limpet.load_run(run).summary["evaluators"]
    for numbers in evaluators.values():
        assert set(numbers) == {"completed", "failed", "errors", "not_run"}
    assert evaluators["choosy"] == {
        "completed": 2, "failed": {"evaluator": 1}, "errors": {"PermanentError": 1}, "not_run": 1,
    }  # fmt: skip


def test_what_a_score_has_is_the_same_for_one_and_for_several(run):
    scores = limpet.load_run(run).summary["scores"]
    claimed = {"evaluator", "completed", "mean", "interval", "bounds"}
    labelled = {"labels", "label_intervals"}
    assert {name: set(score) for name, score in scores.items()} == {
        "one": claimed | labelled,
        "several.a": claimed,
        "several.b": {"evaluator", "completed", "mean"} | labelled,
        "several.c": claimed,
        "choosy": claimed,
    }
    found = {name: (score["evaluator"], score["completed"]) for name, score in scores.items()}
    assert found == {
        "one": ("one", 3), "several.a": ("several", 3), "several.b": ("several", 3),
        "several.c": ("several", 3), "choosy": ("choosy", 2),
    }  # fmt: skip
    means = {name: score["mean"] for name, score in scores.items()}
    assert means == {
        "one": 0.5, "several.a": 1.0, "several.b": None, "several.c": 0.25, "choosy": 1.0,
    }  # fmt: skip
    assert scores["several.b"]["labels"] == {"kind": 3}
    assert set(scores["several.a"]["interval"]) == {"low", "high", "method", "n", "level"}
    assert scores["several.a"]["bounds"]["missing"] == 1
    assert scores["choosy"]["bounds"]["missing"] == 2


def test_an_evaluator_that_gave_no_score_is_there_under_its_name(tmp_path):
    def never(output):
        raise limpet.PermanentError("no")

    summary = evaluate(tmp_path / "run", evaluators=[never]).summary
    assert summary["scores"] == {"never": {"evaluator": "never", "completed": 0, "mean": None}}
    assert summary["evaluators"]["never"]["failed"] == {"evaluator": 3}


def test_groups_have_the_shape_of_the_summary(run):
    rows = [{**row, "topic": "ab"[n % 2]} for n, row in enumerate(ROWS)]
    groups = evaluate(run.with_name("topics"), rows).by("topic")
    for group in groups:
        assert {"value", "n", "workflow", "scores", "evaluators"} <= set(group)
        assert sorted(group["scores"]) == ["choosy", "one", "several.a", "several.b", "several.c"]
        assert list(group["evaluators"]) == ["one", "several", "choosy"]


def test_the_result_of_evaluate_and_of_load_run_are_of_one_type(tmp_path):
    result = evaluate(tmp_path / "run", limpet.Dataset(ROWS, limit=2))
    loaded = limpet.load_run(tmp_path / "run")
    assert type(result) is type(loaded) is limpet.EvaluationResult
    assert result.state == loaded.state == "finished"  # with what was selected
    assert (result.summary["n"], loaded.summary["n"]) == (2, 2)
    first = result.items
    evaluate(tmp_path / "run")
    assert result.items is first  # until it is asked to
    for one_of in (result, loaded):
        one_of.refresh()
        assert (one_of.state, len(one_of.items), one_of.summary["n"]) == ("finished", 4, 4)
    assert result.items == loaded.items
    assert result.summary == loaded.summary
    with pytest.raises(limpet.LimpetError, match="this evaluation was not saved"):
        evaluate(False).refresh()


def test_a_result_without_scores_says_of_which_version_its_answers_are(tmp_path):
    evaluate(tmp_path / "run", ROWS[:3], evaluators=())
    evaluate(
        tmp_path / "run", limpet.Dataset(ROWS[:3], limit=1), evaluators=(), version="2",
        on_change="redo",
    )  # fmt: skip
    said = "<EvaluationResult: 3 of 3 completed; (1 of 3 from the current version)>"
    assert repr(limpet.load_run(tmp_path / "run")) == said


# ---- a dataset whose columns are called like ours -----------------------------------------------

OURS = {
    "output": "row's output", "trace": "row's trace", "metadata": "row's metadata",
    "value": "row's value", "scores": {"one": {"value": 9}}, "row": "row's row", "score": 9,
    "label": "row's label", "explanation": "row's explanation", "usage": {"total_tokens": 99},
    "status": "failed", "error": {"message": "row's error"}, "generated_answer": "row's answer",
    "intermediate_steps": ["row's step"], "output_metadata": "row's", "trial": 7,
}  # fmt: skip


@pytest.mark.parametrize("has_metadata", [True, False])
def test_columns_that_are_called_like_our_fields_stay_in_the_row(tmp_path, has_metadata):
    given = Output("mine", None, [{"name": "mine"}], {"m": "mine"} if has_metadata else None)
    rows = [{"id": "q0", "question": "?", "answer": "x", **OURS}]
    result = evaluate(tmp_path / "run", rows, lambda question: given, [one, several])
    (line,) = (tmp_path / "run" / "workflow_output.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert told["row"] == rows[0]
    assert (told["id"], told["output"], told["trace"]) == ("q0", "mine", [{"name": "mine"}])
    assert told.get("metadata") == given.metadata
    assert ("metadata" in told) is has_metadata
    found = [*result.items, *limpet.load_run(tmp_path / "run").items]
    (tmp_path / "run" / "items.jsonl").unlink()  # then the row is read from the line
    found += limpet.load_run(tmp_path / "run").items
    assert len(found) == 3
    for item in found:
        assert item.row == rows[0]
        assert (item.id, item.trial, item.output, item.status) == ("q0", 0, given, "completed")
        assert (item.error, item.usage) == (None, None)
        assert list(item.scores) == ["one", "several.a", "several.b", "several.c"]
        assert item.scores["one"] == ONE
    assert result.summary["scores"]["one"]["mean"] == 0.5
    assert result.summary["workflow"]["usage"] == {}


def test_such_columns_are_told_apart_in_tables_and_as_json(tmp_path):
    rows = [{"id": "q0", "question": "?", "answer": "x", **OURS}]
    result = evaluate(tmp_path / "run", rows, lambda question: Output("mine"), [one, several])
    (row,) = result.to_dataframe().to_dict("records")
    assert (row["output"], row["row.output"]) == ("mine", "row's output")
    assert (row["status"], row["row.status"]) == ("completed", "failed")
    assert (row["one"], row["one.explanation"], row["explanation"]) == (
        0.5, "because", "row's explanation",
    )  # fmt: skip
    assert (row["value"], row["scores"]) == ("row's value", {"one": {"value": 9}})
    with RunReader(tmp_path / "run") as reader:
        data = item_data(next(reader.items()))
    assert data["output"] == "mine"
    assert data["scores"]["one"] == {
        "value": 0.5, "label": "half", "explanation": "because", "metadata": {"by": [1]},
    }  # fmt: skip
    assert set(data["scores"]) == {"one", "several.a", "several.b", "several.c"}
    assert [item.id for item in result.filter(where={"value": "row's value"})] == ["q0"]
    assert result.filter(label="row's label") == []


def test_an_edited_column_that_is_called_like_ours_is_an_edited_row(tmp_path):
    calls = []

    def answer(item):
        calls.append(item.row["output"])
        return Output("mine")

    for said in ("a", "a", "b"):
        rows = [{"id": "q0", "question": "?", "output": said}]
        (item,) = evaluate(tmp_path / "run", rows, answer, [one]).items
        assert (item.row["output"], item.output) == (said, Output("mine"))
    assert calls == ["a", "b"]


def test_scores_whose_parts_are_called_like_fields_are_parts(tmp_path):
    parts = ("value", "label", "explanation", "metadata", "scores", "id")

    def judge(output):
        return {part: Score(0.5, explanation=part) for part in parts}

    result = evaluate(tmp_path / "run", evaluators=[judge])
    for found in (result, limpet.load_run(tmp_path / "run")):
        assert found.items[0].scores == {
            f"judge.{part}": Score(0.5, explanation=part) for part in parts
        }
        assert list(found.summary["scores"]) == [f"judge.{part}" for part in parts]
