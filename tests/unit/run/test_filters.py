"""The filters of `result.filter` and `limpet show`."""

import math
import tracemalloc

import pytest

import limpet
from limpet.run.results.filters import Filter, filter_of
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName
from limpet.types import CellStatus


def item(id_, *, row=None, scores=None, **more):
    records = {name: _record(value) for name, value in (scores or {}).items()}
    return ItemRecord(id_, 0, None, None, row=row or {"id": id_}, scores=records, **more)


def _record(value):
    if isinstance(value, dict):
        return {"scores": {part: _record(inner) for part, inner in value.items()}}
    if isinstance(value, str):
        return {"value": None, "label": value, "explanation": f"because {value}"}
    return {"value": value}


def chosen(items, **conditions):
    wanted = filter_of(lambda: items, ["judge", "exact", "tone"], **conditions)
    return [found.id for found in wanted.ordered(wanted.matching(items))]


SCORED = [
    item("a", scores={"judge": {"quality": 0.9, "style": 0.1}, "exact": True, "tone": "kind"}),
    item("b", scores={"judge": {"quality": 0.2, "style": 0.8}, "exact": False, "tone": "rude"}),
    item("c", error={"class": "timeout", "type": "TimeoutError", "message": "no answer"}),
    item("d", scores={"judge": {"quality": 0.5, "style": 0.5}}, score_errors={"exact": {}}),
]


def test_one_of_several_scores_is_named_after_a_dot():
    assert chosen(SCORED, below={"judge.quality": 0.6}) == ["b", "d"]
    assert chosen(SCORED, below={"judge": 0.15}) == ["a"]  # the lowest counts
    assert chosen(SCORED, evaluator="judge.style", below=0.6) == ["a", "d"]
    assert chosen(SCORED, below={"judge.quality": 0.6, "exact": 1}) == ["b"]


def test_sorting_has_the_lowest_first_and_what_has_no_score_last():
    assert chosen(SCORED, sort="judge.quality") == ["b", "d", "a", "c"]
    assert chosen(SCORED, sort="-judge.quality") == ["a", "d", "b", "c"]
    assert chosen(SCORED, sort="tone") == ["a", "b", "c", "d"]
    assert chosen(SCORED, sort="-tone") == ["b", "a", "c", "d"]


def test_the_worst_are_those_with_the_lowest_score_never_those_without():
    assert chosen(SCORED, worst=2, sort="judge.quality") == ["b", "d"]
    assert chosen(SCORED, worst=1, evaluator="judge.style") == ["a"]
    assert chosen(SCORED, worst=1, sort="-judge.quality") == ["a"]
    assert chosen(SCORED, worst=9, sort="exact") == ["b", "a"]
    assert chosen(SCORED, worst=9, sort="tone") == []
    odd = [item("nan", scores={"exact": math.nan}), item("one", scores={"exact": 1})]
    assert chosen(odd, worst=9, sort="exact") == ["one"]


def test_failures_are_those_of_any_step_or_of_the_named_one():
    assert chosen(SCORED, failed=True) == ["c", "d"]
    assert chosen(SCORED, failed=True, evaluator="exact") == ["d"]


def test_a_label_is_found_in_any_score_or_in_the_named_one():
    several = item("e", scores={"judge": {"mood": "rude"}})
    assert chosen([*SCORED, several], label="rude") == ["b", "e"]
    assert chosen([*SCORED, several], label="rude", evaluator="judge.mood") == ["e"]
    assert chosen(SCORED, label="rud") == []


ROWS = [
    item("a", row={"lang": "de", "hops": 3, "ok": True, "tags": ["x", "y"], "meta": {"by": "me"}}),
    item("b", row={"lang": "fr", "hops": 2.5, "ok": False, "meta.by": "you", "note": None}),
    item("c", row={"lang": "3", "hops": "3"}, status=CellStatus.FAILED),
]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({"lang": "de"}, "a"),
        ({"lang": ["de", "fr"]}, "ab"),
        ({"lang": "de", "hops": 2.5}, ""),
        ({"hops": "3"}, "ac"),  # as typed
        ({"hops": 3}, "a"),
        ({"hops": "three"}, ""),
        ({"ok": "true"}, "a"),
        ({"ok": "no"}, "b"),
        ({"note": ""}, "b"),
        ({"tags": "y"}, "a"),
        ({"meta.by": "me"}, "a"),
        ({"meta.by": "you"}, "b"),
        ({"id": "c"}, "c"),
        ({"status": "failed"}, "c"),
    ],
)
def test_a_field_of_the_dataset_has_the_value(where, ids):
    assert "".join(chosen(ROWS, where=where)) == ids


def test_text_is_found_in_any_case_in_row_answer_error_label_and_reason():
    deep = "needle"
    for _ in range(5_000):
        deep = [deep]
    items = [
        item("row", row={"q": {"deep": deep}}),
        item("answer", output={"text": "a NEEDLE"}),
        item("error", error={"message": "no needle"}),
        item("score", scores={"tone": "needle"}),
        item("reason", scores={"judge": {"x": "because of the needles"}}),
        item("none", row={"needle": "in a name only"}),
    ]
    assert chosen(items, grep="Needle") == ["row", "answer", "error", "score", "reason"]
    assert chosen([item("q", row={"n": 10**5_000})], grep="7") == []


@pytest.mark.parametrize(
    ("conditions", "message", "hint"),
    [
        ({"sort": "jugde"}, "no score is called 'jugde'", "did you mean 'judge'?"),
        ({"evaluator": "judge.qality"}, "known: judge.quality, judge.style", "'judge.quality'?"),
        ({"where": {"idd": "x"}}, "no field is called 'idd'; known: id", "did you mean 'id'?"),
        ({"worst": 3}, "worst=3: which score?", "one of: judge, exact, tone"),
        ({"below": 0.5}, "below=0.5: which score?", "one of: judge, exact, tone"),
        ({"sort": "judge."}, "no score is called 'judge.'", "did you mean 'judge'?"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(conditions, message, hint):
    with pytest.raises(limpet.LimpetError) as error:
        chosen(SCORED, **conditions)
    assert message in str(error.value)
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("conditions", "error", "message"),
    [
        ({"where": "lang=de"}, TypeError, "where='lang=de': must be a dict, like {'lang': 'de'}"),
        ({"below": "x", "evaluator": "exact"}, TypeError, "below='x': must be a number"),
        ({"below": {"exact": None, "tone": "1"}}, TypeError, "or a dict of numbers by"),
        ({"grep": 5}, TypeError, "grep=5: must be a string"),
        ({"label": 5}, TypeError, "label=5: must be a string"),
        ({"worst": 0, "sort": "exact"}, ValueError, "worst=0: must be a whole number, 1 or more"),
        ({"worst": 2.5, "sort": "exact"}, TypeError, "worst=2.5"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error(conditions, error, message):
    with pytest.raises(error) as raised:
        chosen(SCORED, **conditions)
    assert message in str(raised.value)


def test_the_longest_name_of_an_evaluator_counts():
    both = [item("a", scores={"j": {"x.y": 0.1}, "j.x": {"y": 0.9}})]
    wanted = filter_of(lambda: both, ["j", "j.x"], sort="j.x.y")
    assert wanted.sort == ScoreName("j.x", "y")


def test_the_worst_of_many_items_need_little_memory():
    items = (item(str(n), output="x" * 10_000, scores={"exact": n % 977}) for n in range(2_500))
    wanted = Filter(sort=ScoreName("exact"), worst=10)
    tracemalloc.start()
    worst = list(wanted.ordered(wanted.matching(items)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [found.id for found in worst[:3]] == ["0", "977", "1954"]
    assert peak < 1_000_000


def test_a_result_has_the_same_filters(tmp_path):
    rows = [
        {"id": f"q{n}", "question": f"Say {n}", "lang": "de" if n % 2 else "fr"} for n in range(6)
    ]

    def judge(output):
        return {"quality": int(output[-1]) / 10, "tone": "rude" if output.endswith("5") else "kind"}

    result = limpet.evaluate(rows, lambda question: question, [judge], run=tmp_path / "run")
    assert [found.id for found in result.filter(worst=2, where={"lang": "de"})] == ["q1", "q3"]
    assert [found.id for found in result.filter(sort="-judge.quality", grep="say")][:2] == [
        "q5",
        "q4",
    ]
    assert [found.id for found in result.filter(label="rude")] == ["q5"]
    assert [found.id for found in result.filter(below=0.15)] == ["q0", "q1"]
    assert len(result.filter()) == 6


def test_a_result_has_means_by_a_field(tmp_path):
    levels = [10, 9, "x", None, 9, 10]
    rows = [{"id": n, "question": f"Say {n}", "level": level} for n, level in enumerate(levels)]

    def last(output):
        return int(output[-1]) / 10

    result = limpet.evaluate(rows, lambda question: question, [last], run=tmp_path / "run")
    groups = result.by("level")
    assert [(group["value"], group["n"]) for group in groups] == [
        (9, 2),
        (10, 2),
        ("x", 1),
        (None, 1),
    ]
    assert groups[0]["scores"]["last"]["mean"] == pytest.approx(0.25)
    assert [group["n"] for group in result.by("level", below=0.15)] == [1, 1]
    with pytest.raises(limpet.LimpetError, match="no field is called 'levle'"):
        result.by("levle")
