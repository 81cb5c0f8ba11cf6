"""The columns of `to_dataframe` and `limpet export`: what they have, and what they are called."""

import sys

import pandas as pd
import pytest

import limpet
from limpet.report.export import ExportRows
from limpet.run.reading import RunReader

FIRST = ["id", "trial", "input", "expected", "output", "status", "seconds", "attempts", "error"]
ROWS = [
    {"id": n, "question": f"Say {n}", "answer": str(n), "category": ["even", "odd"][n % 2]}
    for n in range(4)
]


def last_word(question):
    return question.split()[-1]


def evaluate(tmp_path, evaluators=(), rows=ROWS, workflow=last_word, **options):
    options = {"version": "1", "retry": 0, "fail_fast": False, **options}
    return limpet.evaluate(rows, workflow, evaluators, run=tmp_path / "run", **options)


def exported(tmp_path, **options):
    with RunReader(tmp_path / "run") as reader:
        rows = ExportRows(reader, **options)
        return rows.names, list(rows)


def test_a_simple_run_has_few_columns(tmp_path):
    def correct(output, expected):
        return output == expected

    frame = evaluate(tmp_path, [correct]).to_dataframe()
    assert list(frame) == [*FIRST, "correct", "category"]
    assert list(frame["category"]) == ["even", "odd", "even", "odd"]


def test_without_pandas_the_error_says_what_to_install(tmp_path, monkeypatch):
    result = evaluate(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(limpet.LimpetError, match="a DataFrame needs pandas") as caught:
        result.to_dataframe()
    assert caught.value.hint == "pip install pandas"


def test_everything_that_is_known_of_an_item_has_a_column(tmp_path):
    prices = {"m": {"prompt": 1_000_000, "completion": 0}}

    def workflow(question):
        if question == "Say 3":
            raise limpet.PermanentError("three is too much")
        usage = limpet.Usage(2, 3, models={"m": {"prompt_tokens": 2, "completion_tokens": 3}})
        return limpet.Output(question, usage=usage, metadata={"prompt": "v2"})

    def judge(output):
        if output == "Say 2":
            raise limpet.PermanentError("I cannot judge two")
        quality = limpet.Score(0.5, label="fine", explanation="it is short", metadata={"by": 1})
        scores = {"quality": quality, "tone": limpet.Score(None, label="warm")}
        return limpet.Output(scores, usage=limpet.Usage(7, 8, cost=0.25))

    frame = evaluate(tmp_path, [judge], workflow=workflow, prices=prices).to_dataframe()
    first, _, third, last = frame.to_dict("records")
    assert (first["judge.quality"], first["judge.quality.label"]) == (0.5, "fine")
    assert first["judge.quality.explanation"] == "it is short"
    assert first["judge.quality.metadata"] == {"by": 1}
    assert (first["judge.tone"], first["judge.tone.label"]) == ("warm", "warm")
    assert (first["judge.usage.prompt_tokens"], first["judge.usage.cost"]) == (7, 0.25)
    assert (first["usage.total_tokens"], first["usage.cost"]) == (5, 2.0)
    assert (first["attempts"], first["output.metadata"]) == (1, {"prompt": "v2"})
    assert third["judge.error"] == "I cannot judge two"
    assert third["judge.error.class"] == "evaluator"
    assert (last["error"], last["error.class"]) == ("three is too much", "permanent")
    assert list(frame) == exported(tmp_path)[0]
    assert "judge.tone.explanation" not in frame  # no row has one


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_explanation_has_no_column(tmp_path, empty):
    frame = evaluate(tmp_path, {"judge": lambda _: limpet.Score(1, explanation=empty)})
    assert "judge.explanation" not in frame.to_dataframe()


def test_a_table_is_joined_with_its_dataset_by_id_for_all_trials(tmp_path):
    dataset = pd.DataFrame(ROWS).assign(weight=[1, 2, 3, 4])
    result = evaluate(
        tmp_path, [limpet.exact_match()], rows=dataset.drop(columns="weight"), trials=3
    )
    joined = result.to_dataframe().merge(dataset[["id", "weight"]], on="id", validate="many_to_one")
    assert len(joined) == 12
    assert sorted(joined["trial"].unique()) == [0, 1, 2]
    assert (joined["weight"] == joined["id"] + 1).all()


def test_means_by_item_count_only_what_was_scored(tmp_path):
    calls = []

    def workflow(question):
        calls.append(question)
        if question == "Say 1" and calls.count(question) == 2:
            raise limpet.PermanentError("not again")
        return str(calls.count(question))

    def first(output):
        return limpet.Score(output == "1", label="first" if output == "1" else "later")

    result = evaluate(tmp_path, [first], workflow=workflow, trials=3, pace=1)
    frame = result.to_dataframe(by_item=True)
    assert list(frame["id"]) == [0, 1, 2, 3]
    assert list(frame["first"]) == pytest.approx([1 / 3, 1 / 2, 1 / 3, 1 / 3])
    assert list(frame["first.n"]) == [3, 2, 3, 3]
    assert list(frame["failed"]) == [0, 1, 0, 0]
    assert frame["first.labels"][1] == {"first": 1, "later": 1}
    assert list(frame["category"]) == ["even", "odd", "even", "odd"]
    names, rows = exported(tmp_path, by_item=True)
    assert names == list(frame)
    assert [row[names.index("first")] for row in rows] == list(frame["first"])


AWKWARD = {
    "output": "a", "score": "b", "correct": "c", "row.output": "d", "usage.total_tokens": "e",
    "judge.quality": "f", "judge.quality.explanation": "g", "error.class": "h", "trial": "i",
}  # fmt: skip


def test_no_field_of_the_dataset_hides_a_column_or_is_hidden(tmp_path):
    def correct(output):
        return True

    def judge(output):
        return {"quality": limpet.Score(1, explanation="why")}

    def workflow(question):
        return limpet.Output("mine", usage=limpet.Usage(1, 2))

    rows = [{"id": "q", "question": "x", **AWKWARD}]
    [row] = evaluate(tmp_path, [correct, judge], rows, workflow).to_dataframe().to_dict("records")
    assert (row["output"], row["row.row.output"], row["row.output"]) == ("mine", "d", "a")
    assert (row["correct"], row["row.correct"]) == (True, "c")
    assert row["score"] == "b"  # no column of ours has this name
    assert (row["usage.total_tokens"], row["row.usage.total_tokens"]) == (3, "e")
    assert (row["judge.quality"], row["row.judge.quality"]) == (1, "f")
    assert (row["judge.quality.explanation"], row["row.judge.quality.explanation"]) == ("why", "g")
    assert (row["trial"], row["row.trial"], row["error.class"]) == (0, "i", "h")


def test_scores_named_like_facts_about_scores_have_columns_of_their_own(tmp_path):
    def judge(output):
        if output == "3":
            raise limpet.PermanentError("no")
        given = limpet.Score(0.1, explanation="because")
        return {"x": given, "error": 0.2, "error.class": 0.3, "x.explanation": 0.4}

    frame = evaluate(tmp_path, [judge]).to_dataframe()
    assert len(set(frame)) == len(list(frame))
    first, last = frame.to_dict("records")[0], frame.to_dict("records")[-1]
    values = [first[f"judge.{part}"] for part in ("x", "error", "error.class", "x.explanation")]
    assert values == [0.1, 0.2, 0.3, 0.4]
    assert first["judge.x.explanation_"] == "because"
    assert (last["judge.error_"], last["judge.error.class_"]) == ("no", "evaluator")


def test_a_field_without_a_name_gets_one(tmp_path):
    rows = [{"id": "q", "question": "x", "": 7}]
    assert evaluate(tmp_path, rows=rows).to_dataframe()["row."][0] == 7


def test_ids_that_limpet_made_are_ids(tmp_path):
    rows = [{"question": "x", "kind": 1}, {"question": "y", "kind": 2}]
    frame = evaluate(tmp_path, rows=rows).to_dataframe()
    assert list(frame) == [*FIRST, "kind"]
    assert frame["id"].is_unique


def test_an_evaluator_without_a_score_has_its_column_all_the_same(tmp_path):
    def judge(output):
        raise limpet.PermanentError("no")

    frame = evaluate(tmp_path, [judge]).to_dataframe()
    assert list(frame["judge"].isna()) == [True] * 4
    assert list(frame["judge.error"]) == ["no"] * 4


def test_labels_inside_several_scores_are_in_the_summary(tmp_path):
    def judge(output):
        tone = limpet.Score(None, label="cold" if output == "3" else "warm")
        return {"tone": tone, "quality": limpet.Score(0.5, label="fine")}

    scores = evaluate(tmp_path, [judge]).summary["scores"]
    assert {name: (score["mean"], score["labels"]) for name, score in scores.items()} == {
        "judge.tone": (None, {"warm": 3, "cold": 1}),
        "judge.quality": (0.5, {"fine": 4}),
    }


def test_means_by_item_are_the_same_however_many_items_are_read_at_once(tmp_path, monkeypatch):
    result = evaluate(tmp_path, [limpet.exact_match()], trials=3)
    whole = exported(tmp_path, by_item=True)
    monkeypatch.setattr("limpet.run.reading.run_results._LEAST_ITEMS", 1)
    assert exported(tmp_path, by_item=True) == whole
    assert list(result.to_dataframe(by_item=True)) == whole[0]
    assert [row[0] for row in whole[1]] == [0, 1, 2, 3]


def test_without_its_items_a_run_still_has_its_fields(tmp_path):
    evaluate(tmp_path, [limpet.exact_match()], trials=2)
    (tmp_path / "run/items.jsonl").unlink()
    names, rows = exported(tmp_path)
    assert names == [*FIRST, "exact_match", "question", "answer", "category"]
    assert sorted(row[0] for row in rows) == [0, 0, 1, 1, 2, 2, 3, 3]
    names, rows = exported(tmp_path, by_item=True)
    assert sorted(row[0] for row in rows) == [0, 1, 2, 3]
    assert {row[names.index("trials")] for row in rows} == {2}
