"""The table of all items: however a run grows, it equals the result of reading everything."""

import asyncio
import math
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limpet
from limpet.run.reading.reader import RunReader
from limpet.run.reading.run_table import RunTable, Search, TableQuery
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
    run = tmp_path_factory.mktemp("run_table") / "run"
    make(run, fails=True)
    make(run, fails=False)
    return run


def cut(run, folder, shares):
    """Write to a copy of a run only the first of the lines of each file."""
    for name, share in zip(FILES, shares, strict=True):
        lines = (run / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(lines[: math.ceil(share * len(lines))]))


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
        run_table = RunTable(reader)
        for shares in growing:
            cut(twice, copy, shares)
            run_table.refresh()
            with RunReader(copy) as fresh:
                numbers = add_up(fresh.results)
                assert run_table._numbers.summary() == numbers.summary()
                assert_same(run_table.table, fresh.score_table())


def test_only_what_is_new_is_read(twice, tmp_path, monkeypatch):
    copy = tmp_path / "run"
    shutil.copytree(twice, copy, ignore=shutil.ignore_patterns("index"))
    cut(twice, copy, (0.5, 0.5, 0.5, 0.0))
    with RunReader(copy) as reader:
        run_table = RunTable(reader)
        run_table.refresh()
        monkeypatch.setattr(RunTable, "_read_all", None)
        cut(twice, copy, (1, 1, 1, 0.0))
        assert run_table.refresh()
        assert run_table.table.answered.all()
        assert not run_table.refresh()


def test_a_resumed_run_whose_workflow_changed_is_read_again(tmp_path):
    make(tmp_path / "run", fails=False)
    with RunReader(tmp_path / "run") as reader:
        run_table = RunTable(reader)
        run_table.refresh()
        limpet.evaluate(
            ROWS[:5], str.upper, run=limpet.Run(tmp_path / "run"), version="2", redo=True
        )
        run_table.refresh()
        assert [item.output for item in run_table.read([0, 1])] == ["QUESTION 0", "QUESTION 1"]


def test_rows_are_filtered_and_sorted_by_their_columns(twice):
    with RunReader(twice) as reader:
        run_table = RunTable(reader)
        run_table.refresh()

        def positions(**query):
            wanted = TableQuery(**query)
            found = wanted.ordered(run_table.table, np.flatnonzero(wanted.holds(run_table.table)))
            return [run_table.where(int(position)) for position in found]

        assert positions()[:3] == [("q0", 0), ("q0", 1), ("q1", 0)]
        assert positions(sort="-position")[0] == ("q11", 1)
        assert positions(sort="-parts.low")[0] == ("q3", 0)
        assert positions(below={"parts.low": 0.25}, labels={"good": "same"})[:2] == [
            ("q0", 0),
            ("q0", 1),
        ]
        assert {id_ for id_, _ in positions(above={"parts.low": 0.5})} == {
            row["id"] for row in ROWS if int(row["id"][1:]) % 4 == 3
        }
        assert positions(failed=True) == []
        with pytest.raises(limpet.LimpetError, match="no score is called 'god'.*good"):
            positions(sort="god")


def test_what_failed_is_found_and_what_has_no_score_comes_last(tmp_path):
    make(tmp_path / "run", fails=True)
    with RunReader(tmp_path / "run") as reader:
        run_table = RunTable(reader)
        run_table.refresh()
        failed = TableQuery(failed=True).holds(run_table.table)
        named = {run_table.where(int(position))[0] for position in np.flatnonzero(failed)}
        assert {"q0", "q3", "q5"} <= named
        assert "q1" not in named
        steps = ["workflow", *run_table.table.failed_scores]
        of_each = [TableQuery(failed=step).holds(run_table.table) for step in steps]
        assert np.array_equal(np.logical_or.reduce(of_each), failed)
        assert not any(np.array_equal(of, failed) for of in of_each)
        for sort in ("good", "-good"):
            wanted = TableQuery(sort=sort)
            last = wanted.ordered(run_table.table, np.arange(len(run_table)))[-len(named) :]
            assert {run_table.where(int(position))[0] for position in last} <= named


def test_a_search_goes_on_where_it_was_and_finds_what_came_later(twice, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(twice, copy, ignore=shutil.ignore_patterns("index"))
    cut(twice, copy, (0.0, 0.0, 0.0, 0.0))
    with RunReader(copy) as reader:
        run_table = RunTable(reader)
        run_table.refresh()
        search = Search(run_table, Filter(grep="other", where={"lang": ["de"]}))
        assert search.go_on(60) == 0
        assert not search.found.any()
        cut(twice, copy, (1, 1, 1, 1))
        run_table.refresh()
        assert search.go_on(60) == 0
        found = {run_table.where(int(position))[0] for position in np.flatnonzero(search.found)}
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
