"""The table of all items: however a run grows, it says what reading all of it says."""

import asyncio
import math
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limpet
from limpet.run.reading.heads import HeadQuery, Heads, Search
from limpet.run.reading.reader import RunReader
from limpet.run.reading.timeline import Timeline
from limpet.run.reading.totals import add_up
from limpet.run.results.filters import Filter

ROWS = [
    {
        "id": f"q{n}",
        "question": f"question {n}",
        "answer": str(n % 3),
        "lang": "de" if n % 2 else "en",
    }
    for n in range(12)
]
FILES = ("workflow_output.jsonl", "good_output.jsonl", "parts_output.jsonl", "failures.jsonl")


def make(run, fails, **options):
    async def answer(item):
        await asyncio.sleep(0)
        if fails and int(item.id[1:]) % 5 == 0:
            raise ValueError(f"no answer to {item.id}")
        return limpet.Output(str(int(item.id[1:]) % 4), limpet.Usage(10, 2, cost=0.001))

    def good(output, expected):
        if fails and output == "3":
            raise ValueError("cannot score a three")
        return limpet.Score(float(output == expected), "same" if output == expected else "other")

    def parts(output):
        return {"low": float(output) / 4, "high": 1.0}

    return limpet.evaluate(
        ROWS, answer, {"good": good, "parts": parts}, run=limpet.Run(run, durability="flush"),
        version="1", trials=2, fail_fast=False, retry=0, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """A run whose failures of the first session succeeded in the second."""
    run = tmp_path_factory.mktemp("heads") / "run"
    make(run, fails=True)
    make(run, fails=False)
    return run


def cut(run, place, shares):
    """Write to a copy of a run only the first of the lines of each file."""
    for name, share in zip(FILES, shares, strict=True):
        lines = (run / name).read_bytes().splitlines(keepends=True)
        (place / name).write_bytes(b"".join(lines[: math.ceil(share * len(lines))]))


def assert_same(table, other):
    assert [*table.ids] == [*other.ids]
    for name in ("answered", "failed", "seconds", "costs"):
        np.testing.assert_array_equal(getattr(table, name), getattr(other, name))
    assert table.scores.keys() == other.scores.keys()
    for name, scores in table.scores.items():
        np.testing.assert_array_equal(scores, other.scores[name])
    for name, flags in table.failed_scores.items():
        np.testing.assert_array_equal(flags, other.failed_scores[name])
    for name, labels in table.labels.items():
        named = [labels.names[at] if at >= 0 else "" for at in labels.numbers.flat]
        known = other.labels[name]
        assert named == [known.names[at] if at >= 0 else "" for at in known.numbers.flat]


share = st.floats(0, 1)


@settings(max_examples=4 if settings.default.derandomize else 12)
@given(st.lists(st.tuples(share, share, share, share), min_size=1, max_size=4))
def test_what_is_added_as_a_run_grows_is_what_reading_all_of_it_gives(
    twice, tmp_path_factory, steps
):
    copy = tmp_path_factory.mktemp("copy") / "run"
    shutil.copytree(twice, copy, ignore=shutil.ignore_patterns("index"))
    # A run only grows.
    growing = [
        tuple(max(some) for some in zip(*steps[: at + 1], strict=True)) for at in range(len(steps))
    ]
    cut(twice, copy, growing[0])
    with RunReader(copy) as reader:
        heads = Heads(reader)
        for shares in growing:
            cut(twice, copy, shares)
            heads.refresh()
            with RunReader(copy) as fresh:
                numbers = add_up(fresh.results)
                assert heads._numbers.summary() == numbers.summary()
                assert_same(heads.table, fresh.score_table())


def test_only_what_is_new_is_read(twice, tmp_path, monkeypatch):
    copy = tmp_path / "run"
    shutil.copytree(twice, copy, ignore=shutil.ignore_patterns("index"))
    cut(twice, copy, (0.5, 0.5, 0.5, 0.0))
    with RunReader(copy) as reader:
        heads = Heads(reader)
        heads.refresh()
        monkeypatch.setattr(Heads, "_read_all", None)
        cut(twice, copy, (1, 1, 1, 0.0))
        assert heads.refresh()
        assert heads.table.answered.all()
        assert not heads.refresh()


def test_a_resumed_run_whose_workflow_changed_is_read_again(tmp_path):
    make(tmp_path / "run", fails=False)
    with RunReader(tmp_path / "run") as reader:
        heads = Heads(reader)
        heads.refresh()
        limpet.evaluate(
            ROWS[:5], str.upper, run=limpet.Run(tmp_path / "run"), version="2", redo=True
        )
        heads.refresh()
        assert [item.output for item in heads.read([0, 1])] == ["QUESTION 0", "QUESTION 1"]


def test_rows_are_filtered_and_sorted_by_their_columns(twice):
    with RunReader(twice) as reader:
        heads = Heads(reader)
        heads.refresh()

        def places(**query):
            wanted = HeadQuery(**query)
            found = wanted.ordered(heads.table, np.flatnonzero(wanted.holds(heads.table)))
            return [heads.where(int(place)) for place in found]

        assert places()[:3] == [("q0", 0), ("q0", 1), ("q1", 0)]
        assert places(sort="-place")[0] == ("q11", 1)
        assert places(sort="-parts.low")[0] == ("q3", 0)
        assert places(below={"parts.low": 0.25}, labels={"good": "same"})[:2] == [
            ("q0", 0),
            ("q0", 1),
        ]
        assert {id_ for id_, _ in places(above={"parts.low": 0.5})} == {
            row["id"] for row in ROWS if int(row["id"][1:]) % 4 == 3
        }
        assert places(failed=True) == []
        with pytest.raises(limpet.LimpetError, match="no score is called 'god'.*good"):
            places(sort="god")


def test_what_failed_is_found_and_what_has_no_score_comes_last(tmp_path):
    make(tmp_path / "run", fails=True)
    with RunReader(tmp_path / "run") as reader:
        heads = Heads(reader)
        heads.refresh()
        failed = HeadQuery(failed=True).holds(heads.table)
        named = {heads.where(int(place))[0] for place in np.flatnonzero(failed)}
        assert {"q0", "q3", "q5"} <= named
        assert "q1" not in named
        steps = ["workflow", *heads.table.failed_scores]
        of_each = [HeadQuery(failed=step).holds(heads.table) for step in steps]
        assert np.array_equal(np.logical_or.reduce(of_each), failed)
        assert not any(np.array_equal(of, failed) for of in of_each)
        for sort in ("good", "-good"):
            wanted = HeadQuery(sort=sort)
            last = wanted.ordered(heads.table, np.arange(len(heads)))[-len(named) :]
            assert {heads.where(int(place))[0] for place in last} <= named


def test_a_search_goes_on_where_it_was_and_finds_what_came_later(twice, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(twice, copy, ignore=shutil.ignore_patterns("index"))
    cut(twice, copy, (0.0, 0.0, 0.0, 0.0))
    with RunReader(copy) as reader:
        heads = Heads(reader)
        heads.refresh()
        search = Search(heads, Filter(grep="other", where={"lang": ["de"]}))
        assert search.go_on(60) == 0
        assert not search.found.any()
        cut(twice, copy, (1, 1, 1, 1))
        heads.refresh()
        assert search.go_on(60) == 0
        found = {heads.where(int(place))[0] for place in np.flatnonzero(search.found)}
        assert found == {
            row["id"]
            for row in ROWS
            if row["lang"] == "de" and row["answer"] != str(int(row["id"][1:]) % 4)
        }


def test_the_timeline_counts_every_cell(twice):
    with RunReader(twice) as reader:
        timeline = Timeline(reader)
        timeline.data()
        samples = timeline._samples["workflow"]
        assert samples.stride == 1
        # The cells that failed in the first session are those of the second.
        assert len(samples.ended) == sum(int(row["id"][1:]) % 5 == 0 for row in ROWS) * 2
