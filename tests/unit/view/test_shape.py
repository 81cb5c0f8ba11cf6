"""The shape of a run: each bar has as many answers as the list it leads to.

What would break it:

| case | tested by |
|---|---|
| edges that a query rounds otherwise; values on an edge, the highest, just outside the range | `test_each_bar_is_the_number_…` |
| one value, two, ratings, nothing but 1; huge, tiny, negative; a span that overflows | the same |
| times of 0, over ten powers of ten; a score called `seconds` | `…amounts`, `test_a_score_called_seconds…` |
| labels with colons, of 300 letters, 40 of them | `test_labels_have_bars…` |
| hidden scores | `test_labels.py` |
| by field: other numbers or words than the terminal's; lists, long texts, ids, too many values | `test_the_table_of_a_field…`, `test_only_fields_…` |
| values that a query takes for others: "3" and 3, "yes" and true, none and a missing field | `test_a_value_leads_to_…` |
| a run that grows; a large one | `test_a_run_that_goes_on…`, `test_many_items…` |
"""  # noqa: E501 - a table

import json
from contextlib import contextmanager

import numpy as np
import pytest
from label_pages import on_page
from multidict import MultiDict

import limpet
from limpet.errors import LimpetError
from limpet.report.items import difference_lines
from limpet.run.reading.run_table import TableQuery
from limpet.run.reading.score_table import LabelTable, ScoreTable
from limpet.run.results.score_words import ScoreName, score_words
from limpet.view import field_answers, run_answers
from limpet.view.field_answers import by_answer, few_valued
from limpet.view.run_answers import run_answer
from limpet.view.setup_answers import setup_answer
from limpet.view.shape_answers import _of_amounts, shape_of
from limpet.view.viewed_runs import ViewedRun

RANDOM = np.random.default_rng(7)


class FakeTable:
    """A table with the same numbers as scores, times and costs."""

    def __init__(self, values, among=None, labels=None, name="score"):
        shape = (len(values), 1)
        self.version = 1
        column = np.array(values, float).reshape(shape)
        none = np.zeros(shape, bool)
        self.table = ScoreTable(
            [f"q{n}" for n in range(len(values))], (), 1, ~none, none, column, column,
            {ScoreName(name): column}, labels or {}, {name: none},
        )  # fmt: skip
        self.among = among
        self.hidden_rows = lambda _: []

    def summary(self):
        return {"workflow": {}, "scores": {"score": {"range": self.among}}}


class Opened:
    def __init__(self, run_table):
        self.run_table, self.shape = run_table, (-1, {})


def query_of(shape, at):
    """Return the query of a bar, as shape.js makes it."""
    name, last = shape["name"], len(shape["counts"]) - 1
    if "points" in shape:
        return TableQuery(least={name: shape["points"][at]}, most={name: shape["points"][at]})
    edges = json.loads(json.dumps(shape["edges"]))
    return TableQuery(
        least={name: edges[at]} if at or not last else {},
        below={name: edges[at + 1]} if at < last else {},
    )


VALUES = {
    "one value": [0.3] * 5,
    "one answer": [0.1],
    "nothing but right": [1.0] * 40,
    "yes or no": [0.0, 1.0, 1.0],
    "tenths, on the edges": [n / 10 for n in range(11)] * 2,
    "twentieths": [n * 0.05 for n in range(21)] + [0.123, 0.77],
    "quarters": [0.0, 0.25, 0.5, 0.75, 1.0] * 4,
    "thirds": [1 / 3, 2 / 3, 1.0] * 9,
    "ratings": [1.0, 2.0, 5.0, 5.0],
    "just outside": [1 + 1e-9, -1e-9, *RANDOM.random(50)],
    "skewed": RANDOM.beta(8, 2, 500),
    "negative": RANDOM.normal(0, 30, 300),
    "huge": [1e300, -1e300, 3.0, *RANDOM.normal(0, 1, 30)],
    "overflows": [1.7e308, -1.7e308, *RANDOM.random(30)],
    "tiny": 1e-300 * RANDOM.random(50),
    "narrow": 1e9 + 1e-7 * RANDOM.random(50),
    "next to each other": np.repeat(np.nextafter(1, [0.5, 1.5]), 2),
    "with none": [np.nan, 0.25, 0.31, np.nan, 0.9],
    "whole numbers, far apart": RANDOM.integers(0, 5000, 200),
    "denormal": [5e-324, 1e-323, 0.0, *RANDOM.random(40)],
}


@pytest.mark.parametrize("among", [None, (0.0, 1.0), (1.0, 5.0)])
@pytest.mark.parametrize("kind", VALUES)
def test_each_bar_is_the_number_of_answers_that_its_link_lists(kind, among):
    run_table = FakeTable(VALUES[kind], among)
    shape = shape_of(Opened(run_table))
    (found,) = shape["scores"]
    assert found["n"] == np.count_nonzero(~np.isnan(VALUES[kind])) == sum(found["counts"])
    for one in (found, *shape["times"]):
        assert 1 <= len(one["counts"]) <= 20
        assert sum(one["counts"]) == found["n"]
        for at, number in enumerate(one["counts"]):
            assert query_of(one, at).holds(run_table.table).sum() == number, (at, one)


def test_edges_are_short_decimals_and_yes_or_no_has_two_bars():
    (found,) = shape_of(Opened(FakeTable(VALUES["skewed"])))["scores"]
    assert found["edges"][:4] == [0.0, 0.05, 0.1, 0.15]
    assert found["edges"][-1] == 1.0
    (found,) = shape_of(Opened(FakeTable(VALUES["nothing but right"])))["scores"]
    assert (found["points"], found["counts"]) == ([0, 1], [0, 40])
    (found,) = shape_of(Opened(FakeTable(VALUES["ratings"], (1, 5))))["scores"]
    assert (found["points"], found["counts"]) == ([1, 2, 3, 4, 5], [1, 1, 0, 0, 2])


@pytest.mark.parametrize(
    "values", [[0.0, 0.001, 5.0], 10.0 ** np.arange(-12, 9), [1e-300, 1e300], [0.2, 0.3], [4.0]]
)
def test_bars_of_amounts_have_all_of_them_also_zero_and_over_many_powers_of_ten(values):
    found = _of_amounts(np.array(values, float))
    assert sum(found["counts"]) == len(values)
    assert 1 <= len(found["counts"]) <= 20
    assert len(found["edges"]) == len(found["counts"]) + 1
    assert found["edges"] == sorted(set(found["edges"]))


def test_a_score_called_seconds_is_what_a_filter_means_and_times_have_no_links():
    shape = shape_of(Opened(FakeTable([0.1, 0.2, 0.9], name="seconds")))
    assert {one["name"]: one["is_link"] for one in shape["times"]} == {
        "seconds": False,
        "cost": True,
    }


def test_labels_have_bars_the_most_frequent_first_and_long_ones_no_link():
    names = [f"a:b {n}" for n in range(39)] + ["long " * 60]
    numbers = np.repeat(np.arange(40), np.arange(40, 0, -1)).reshape(-1, 1).astype(np.int32)
    numbers[-1] = 39
    numbers[0] = -1
    labels = {ScoreName("score"): LabelTable(names, numbers)}
    run_table = FakeTable(np.full(len(numbers), np.nan), labels=labels)
    (found,) = shape_of(Opened(run_table))["scores"]
    assert [label for label, _, _ in found["labels"]][:2] == ["a:b 0", "a:b 1"]
    assert len(found["labels"]) == 20
    assert (found["more"], found["missing"]) == (20, 1)
    assert found["n"] == len(numbers) - 1 == found["more_n"] + sum(n for _, n, _ in found["labels"])
    for label, number, _ in found["labels"]:
        assert TableQuery(labels={"score": label}).holds(run_table.table).sum() == number


# ---- by field -----------------------------------------------------------------------------------


def rows(many):
    return [
        {
            "id": f"q{n}", "question": str(n), "answer": str(n), "topic": "ab"[n % 2],
            "mixed": ["3", 3, None, "yes", True, False][n % 6], "number": n % 3, "many": n,
            "listed": [n % 2], "text": "x" * 300 + "ab"[n % 2], "same": "same",
            "a:b": n % 2, **({"some": n % 2} if n % 3 else {}), "empty": ["", "x"][n % 2],
        }
        for n in range(many)
    ]  # fmt: skip


def evaluate(path, many=60, **options):
    def answer(item):
        if int(item.id[1:]) % 13 == 0:
            raise ValueError("thirteen")
        return item.row["topic"]

    def good(output):
        return output == "b"

    options = {"version": "1", "trials": 2, **options}
    return limpet.evaluate(
        rows(many), answer, [good], run=limpet.Run(path, durability="flush"), show=False,
        fail_fast=False, retry=0, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("fields") / "one"
    evaluate(path)
    return path


@contextmanager
def reading(path):
    opened = ViewedRun(path)
    with opened.reader:
        opened.run_table.refresh()
        yield opened


@pytest.fixture
def opened(path):
    with reading(path) as opened:
        yield opened


def by(opened, field):
    while (found := by_answer(opened, MultiDict(field=field))).get("left_to_search"):
        pass
    return found


def test_only_fields_with_few_values_that_repeat_have_a_table(opened):
    assert few_valued(opened) == ["topic", "mixed", "number", "a:b", "empty", "some"]
    with pytest.raises(LimpetError, match="'many'"):
        by_answer(opened, MultiDict(field="many"))


@pytest.mark.parametrize("field", ["topic", "mixed", "number", "some"])
def test_the_table_of_a_field_has_the_numbers_and_words_of_the_terminal(path, opened, field):
    groups = limpet.load_run(path).by(field)
    found = by(opened, field)
    assert [one["n"] for one in found["values"]] == [group["n"] for group in groups]
    assert found["notes"] == difference_lines(groups)
    for one, group in zip(found["values"], groups, strict=True):
        (score,) = one["scores"]
        assert score["mean"] == group["scores"]["good"]["mean"]
        assert score["words"] == score_words(group["scores"]["good"])
    assert all(one["scores"][0]["apart"] for one in found["values"]) == (field == "topic")


@pytest.mark.parametrize("field", ["topic", "mixed", "number", "some", "a:b", "empty"])
def test_a_value_leads_to_just_as_many_answers_or_nowhere(path, opened, field):
    linked = [one for one in by(opened, field)["values"] if one["where"] is not None]

    @on_page(path.parent)
    async def listed(client):
        return [
            (await client.data(f"items?run=one&where={field}:{one['where']}"))["matching"]
            for one in linked
        ]

    assert listed == [one["n"] for one in linked]
    assert (
        len(linked) == {"topic": 2, "mixed": 4, "number": 3, "some": 2, "a:b": 0, "empty": 2}[field]
    )


def test_a_field_that_turns_out_to_have_many_values_says_so(path, opened, monkeypatch):
    monkeypatch.setattr(field_answers, "_is_few", lambda _: True)
    assert by(opened, "many")["notes"] == ["more than 12 values"]


def test_many_items_are_added_up_over_several_requests(opened, monkeypatch):
    monkeypatch.setattr(field_answers, "_REQUEST_S", 0)
    monkeypatch.setattr(field_answers.ByField, "go_on", one_batch)
    monkeypatch.setattr(field_answers, "_BATCH", 50)
    lefts = []
    while left := (found := by_answer(opened, MultiDict(field="topic"))).get("left_to_search"):
        lefts.append(left)
    assert lefts == [70, 20]
    assert [one["n"] for one in found["values"]] == [60, 60]


def one_batch(self, _, go_on=field_answers.ByField.go_on):
    times = iter([0.0, 0.0, 1.0, 1.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(field_answers.time, "monotonic", lambda: next(times))
        go_on(self, 0.5)


def test_a_run_that_goes_on_is_added_up_again_and_until_then_the_table_says_it(
    tmp_path, monkeypatch
):
    evaluate(tmp_path / "one", 20)
    with reading(tmp_path / "one") as opened:
        assert not by(opened, "topic")["is_stale"]
        evaluate(tmp_path / "one", 40)
        opened.run_table.refresh()
        for took_s, stale, n in ((1_000.0, True, 20), (0.0, False, 40)):
            opened.by_field["topic"][0]["took_s"] = took_s
            found = by(opened, "topic")
            assert (found["is_stale"], found["values"][0]["n"]) == (stale, n)


# ---- the rest of the run page -------------------------------------------------------------------


def test_a_failure_shows_the_first_traceback_of_its_group(opened):
    (group,) = run_answer(opened, "one", can_label=False)["failures"]
    assert group["count"] == 10
    assert 'raise ValueError("thirteen")' in group["traceback"]


def test_the_configuration_says_what_changed_and_holds_no_secret(tmp_path):
    def answer(question):
        return question

    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"

    def short(output):
        return len(output) < limit and bool(key)

    for limit in (3, 5):
        limpet.evaluate(
            rows(4 + limit), answer, {"short": short}, run=tmp_path / "one", version="1", show=False
        )
    with reading(tmp_path / "one") as opened:
        found = setup_answer(opened)
    (short_step,) = (step for step in found["steps"] if step["name"] == "short")
    assert "its last change: 1 difference" in short_step["words"]
    assert short_step["differences"][0]["lines"] == ["- 3", "+ 5"]
    assert [session["items"] for session in found["sessions"]] == [7, 9]
    assert key not in json.dumps(found)


def test_of_a_large_run_name_and_progress_are_there_before_its_results_are_read(path, monkeypatch):
    monkeypatch.setattr(run_answers, "_MOST_AT_ONCE", 10)

    @on_page(path.parent)
    async def found(client):
        return [
            await client.data(address)
            for address in ("run?run=one&soon=1", "run?run=one", "run?run=one&soon=1")
        ]

    first, whole, again = found
    assert (first["is_first"], first["steps"][0]["total"]) == (True, 120)
    assert (first["run"], first["state"]) == (whole["run"], whole["state"])
    assert whole["shape"] == again["shape"]
    assert "is_first" not in again
