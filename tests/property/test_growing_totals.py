"""Whatever happened to a run, a reader that goes on says what reading all of it says.

How it could be wrong:

| what happened since it last looked                       | what would be wrong |
|----------------------------------------------------------|--------------------------------|
| a line was cut, blanked or replaced                      | it is counted, and no longer counts |
| a cell that had failed succeeded, or the other way       | it is counted twice, or not |
| a score came before its answer was read                  | it is not counted |
| an answer was damaged and given again, its score stands  | the score is not counted |
| a record was made again, with a higher generation        | the first one counts |
| the last line is torn, or is cut off and written over    | it is counted, or the next is missed |
| the items, the selection, the trials or a step changed   | cells have other numbers and keys |
| a key appears twice                                      | it is counted twice |
| the index is gone                                        | nothing |
"""

import asyncio
import math
import shutil

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import limpet
from limpet.run.reading import RunReader
from limpet.run.reading.run_table import RunTable
from limpet.run.results.summary import Numbers

FILES = ("workflow_output.jsonl", "good_output.jsonl", "parts_output.jsonl", "failures.jsonl")
DAMAGED = (*FILES, "items.jsonl")


def make(run, *, fails=False, items=9, answer="answer", better=False, usage=False, **options):
    rows = [
        {"id": f"q{n}", "question": f"question {n}", answer: str(n % 3), "topic": "ab"[n % 2]}
        for n in range(items)
    ]

    async def reply(item):
        await asyncio.sleep(0)
        if fails and int(item.id[1:]) % 4 == 0:
            raise ValueError(f"no answer to {item.id}")
        return limpet.Output(str(int(item.id[1:]) % 4), limpet.Usage(10, 2, cost=0.001))

    def good(output, expected):
        if fails and output == "3":
            raise ValueError("cannot score a three")
        value = float(output == expected) + better
        label = "same" if output == expected else "other"
        return limpet.Score(value, label, metadata={"agreement": 0.5})

    def parts(output):
        return {"low": float(output) / 4, "high": 1.0}

    scale = limpet.types.Scale(group="topic")
    return limpet.evaluate(
        limpet.Dataset(rows, input="question", expected=answer, limit=options.pop("limit", None)),
        reply,
        {"good": limpet.evaluators.as_evaluator(good, scale=scale), "parts": parts},
        run=limpet.Run(run, durability="flush"),
        version=options.pop("version", "1"),
        fail_fast=False,
        retry=0,
        **options,
    )  # fmt: skip


HISTORIES = {
    "failed, then succeeded": [{"fails": True, "trials": 2}, {"trials": 2}],
    "a part, then all": [{"limit": 4}, {}],
    "made again": [{}, {"redo": True}],
    "an earlier version kept": [{"items": 5}, {"version": "2", "on_change": "keep"}],
    "another evaluator": [{"fails": True}, {"better": True}],
    "other items": [{"items": 6}, {"items": 9, "answer": "other"}],
    "more trials": [{}, {"trials": 3}],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run of each history."""
    found = {}
    for name, sessions in HISTORIES.items():
        found[name] = run = tmp_path_factory.mktemp("history") / "run"
        for session in sessions:
            make(run, **session)
        for note in ("numbers", "redone"):  # as after a kill
            (run / "index" / note).unlink(missing_ok=True)
    return found


def grow(run, place, shares):
    """Write to a copy of a run only the first of the lines of each file."""
    for name, share in zip(FILES, shares, strict=True):
        lines = (run / name).read_bytes().splitlines(keepends=True)
        (place / name).write_bytes(b"".join(lines[: math.ceil(share * len(lines))]))


def damage(path, how, at):
    """Do something to a file."""
    content = bytearray(path.read_bytes()) if path.exists() else bytearray()
    if not content:
        return
    place = int(at * (len(content) - 1))
    lines = bytes(content).splitlines(keepends=True)
    number = int(at * (len(lines) - 1))
    match how:
        case "flip":
            content[place] ^= 1
        case "cut":
            del content[place:]
        case "torn":
            content += lines[number][:-9]
        case "bad line":
            content += b'{"_limpet":{"key":"no\n'
        case "blank":
            lines[number] = b" " * (len(lines[number]) - 1) + b"\n"
            content = b"".join(lines)
        case "again":
            content += lines[number]
        case "lost and given again":
            damaged = lines[number].replace(b'"trial"', b'"Trial"')
            content = b"".join([*lines[:number], damaged, *lines[number + 1 :], lines[number]])
            # The session that gave it again read every line, and made the index anew.
            (path.parent / "index" / path.name).with_suffix(".idx").unlink(missing_ok=True)
        case "foreign":
            content += b'{"of": "another program"}\n'
        case "gone":
            path.unlink()
            return
    path.write_bytes(content)


def read_one_by_one(run):
    """Return the summary and the table of a run, read item by item."""
    with RunReader(run) as reader:
        numbers = Numbers(reader.evaluators, reader.trials, reader.run_file.scales)
        for item in reader.items(whole=False):
            numbers.add(item)
        return numbers.summary()


def columns_of(run_table):
    table = run_table.table
    columns = {"answered": table.answered, "failed": table.failed, "seconds": table.seconds}
    columns |= {"costs": table.costs, **table.scores, **table.failed_scores}
    labels = {
        name: [labels.names[at] if at >= 0 else "" for at in labels.numbers.flat]
        for name, labels in table.labels.items()
    }
    return [*table.ids], {str(name): column.tolist() for name, column in columns.items()}, labels


def assert_reads_the_same(copy, bare, run_table=None, indexes="*.idx"):
    """Assert that a reader says what one without an index says, and what the items add up to.

    Without `items.jsonl`, an index knows of an item whose only line is damaged: then it stays.
    """
    shutil.rmtree(bare, ignore_errors=True)
    shutil.copytree(copy, bare)
    for index in (bare / "index").glob(indexes):
        index.unlink()
    expected = read_one_by_one(bare)
    with RunReader(copy) as reader, RunReader(bare) as other:
        assert reader.numbers().summary() == expected
        assert other.numbers().summary() == expected
        first, fresh = RunTable(reader), RunTable(other)
        first.refresh()
        fresh.refresh()
        np.testing.assert_equal(columns_of(first), columns_of(fresh))
        if run_table is not None:
            run_table.refresh()
            np.testing.assert_equal(columns_of(run_table), columns_of(fresh))
            assert run_table._numbers.summary() == expected


share = st.floats(0, 1)
shares = st.tuples(share, share, share, share)
LIVE = ("torn", "bad line", "again", "foreign")
"""What may happen to the end of a file while a page looks on."""
ALL = (*LIVE, "flip", "cut", "blank", "lost and given again", "gone")


@example(
    history="an earlier version kept",
    steps=[(0, 0, 0, 0), (1, 0, 0, 0)],
    damages=[("workflow_output.jsonl", "lost and given again", 0)],
)
@given(
    history=st.sampled_from([*HISTORIES]),
    steps=st.lists(shares, min_size=2, max_size=3),
    damages=st.lists(st.tuples(st.sampled_from(DAMAGED), st.sampled_from(ALL), share), max_size=3),
)
@settings(max_examples=3 if settings.default.derandomize else 30)
def test_whatever_happened_since_is_read_as_if_it_were_read_first(
    runs, tmp_path_factory, history, steps, damages
):
    run = runs[history]
    copy = tmp_path_factory.mktemp("copy") / "run"
    bare = copy.parent / "bare"
    shutil.copytree(run, copy)
    so_far = steps[0]
    grow(run, copy, so_far)
    with RunReader(copy) as watching:
        run_table = RunTable(watching)
        run_table.refresh()
        for more in steps[1:]:
            so_far = tuple(map(max, so_far, more))  # a run only grows
            grow(run, copy, so_far)
            assert_reads_the_same(copy, bare, run_table)
    indexes = "*.idx"
    for name, how, at in damages:
        damage(copy / name, how, at)
        if name == "items.jsonl":
            indexes = "none"
        assert_reads_the_same(copy, bare, indexes=indexes)
    grow(run, copy, (1, 1, 1, 1))  # as if all of it had been repaired
    assert_reads_the_same(copy, bare, indexes=indexes)


@given(st.sampled_from([*HISTORIES]), shares, st.sampled_from(FILES), st.sampled_from(LIVE), share)
@settings(max_examples=8 if settings.default.derandomize else 15)
def test_a_page_that_looks_on_while_a_line_is_torn_and_written_over_shows_what_counts(
    runs, tmp_path_factory, history, so_far, name, how, at
):
    run = runs[history]
    copy = tmp_path_factory.mktemp("copy") / "run"
    shutil.copytree(run, copy)
    grow(run, copy, so_far)
    with RunReader(copy) as watching:
        run_table = RunTable(watching)
        run_table.refresh()
        damage(copy / name, how, at)
        assert_reads_the_same(copy, copy.parent / "bare", run_table)
        if how in ("torn", "bad line"):  # it is cut off, and others are written in its place
            grow(run, copy, tuple(map(max, so_far, (0.9, 0.9, 0.9, 0.9))))
            assert_reads_the_same(copy, copy.parent / "bare", run_table)
