"""A number of concurrent calls is kept, and what limits the pace is always shown."""

import asyncio
import json

import pytest
from rich.console import Console
from virtual_time import in_virtual_time

import limpet
from limpet.pacing.pacer import WORDS
from limpet.report.status import ProgressTable, progress_line
from limpet.run.watcher import Snapshot, StepSnapshot, Tally

ROWS = [{"id": f"q{n}", "question": str(n)} for n in range(24)]


def refusing_first(count, at_a_time):
    """Return a workflow that refuses some, and answers the others only so many at a time."""
    together = asyncio.Barrier(at_a_time)
    refused = []

    async def workflow(question):
        if len(refused) < count:
            refused.append(question)
            raise limpet.RateLimitError("slow down", retry_after=0)
        await together.wait()
        return question

    return workflow


@pytest.mark.parametrize("door", ["evaluate", "map"])
def test_a_number_stays_whatever_is_refused(tmp_path, door):
    workflow = refusing_first(8, at_a_time=4)
    options = {"pace": 4, "timeout": 20, "retry": 10}
    if door == "evaluate":
        result = limpet.evaluate(ROWS, workflow, run=tmp_path / "run", **options)
        assert [item.output.value for item in result.items] == [row["question"] for row in ROWS]
    else:
        result = limpet.map(workflow, [row["question"] for row in ROWS], **options)
        assert result.failures == []


@in_virtual_time
async def test_a_few_calls_that_hang_do_not_slow_the_others_down():
    seen = set()

    async def fn(x):
        hangs = x % 200 == 150 and x not in seen
        seen.add(x)
        await asyncio.sleep(1e6 if hangs else 1)
        return x

    outputs = (await limpet.amap(fn, range(2000), pace=16, timeout=20)).outputs
    assert outputs == list(range(2000))
    ideal_s = (2000 + 10 * 20) / 16
    assert asyncio.get_running_loop().time() < ideal_s + 21  # the last one may hang


class Looking(Tally):
    """Takes a snapshot at every start of a call."""

    def __init__(self):
        super().__init__()
        self.paces = set()

    def started(self, cell, attempt):
        super().started(cell, attempt)
        for step in self.snapshot().steps:
            if step.in_flight:
                self.paces.add(step.pace)


def test_what_holds_the_pace_is_said_while_calls_are_in_flight(tmp_path):
    watcher = Looking()
    limpet.evaluate(ROWS, lambda question: question, run=tmp_path, watcher=watcher, pace=16)
    assert watcher.paces == {"at the number you set"}


def test_with_auto_something_is_said_of_the_pace_at_any_moment(tmp_path):
    watcher = Looking()
    limpet.evaluate(ROWS, lambda question: question, run=tmp_path, watcher=watcher)
    assert watcher.paces
    assert "" not in watcher.paces
    few = Looking()
    options = {"pace": limpet.Pace(max_concurrency=1), "watcher": few}
    limpet.evaluate(ROWS, lambda question: question, run=tmp_path / "few", **options)
    assert few.paces == {"at max_concurrency"}


def test_another_process_is_told_of_the_pace_before_the_first_call_has_ended(tmp_path):
    paces = {2: WORDS["fixed"], "auto": WORDS["start"]}
    for number, (pace, words) in enumerate(paces.items()):
        run = tmp_path / str(number)
        limpet.evaluate(ROWS, lambda question: question, run=run, pace=pace)
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        kinds = [one["event"] for one in events]
        first = kinds.index("pace")
        assert (events[first]["step"], events[first]["words"]) == ("workflow", words)
        assert first < kinds.index("started")


def test_the_pace_is_on_the_screen_however_narrow_it_is(tmp_path):
    class Drawing(Tally):
        drawn = ""

        def started(self, cell, attempt):
            super().started(cell, attempt)
            console = Console(width=70, height=20)
            with console.capture() as capture:
                console.print(ProgressTable(self.snapshot()))
            self.drawn = capture.get()
            self.line = progress_line(self.snapshot())

    watcher = Drawing()
    limpet.evaluate(ROWS, lambda question: question, run=tmp_path, watcher=watcher, pace=5)
    assert "workflow: at the number you set" in watcher.drawn
    assert "at the number you set" in watcher.line


def test_steps_that_say_the_same_of_the_pace_have_one_line():
    paces = {"workflow": "at the limit (4 refused)", "judge": "finding the limit"}
    paces |= {"correct": paces["workflow"]}
    steps = [StepSnapshot(name, 9, pace=pace) for name, pace in paces.items()]
    console = Console(width=70, height=20)
    with console.capture() as capture:
        console.print(ProgressTable(Snapshot(tuple(steps), 1.0)))
    lines = [line.strip() for line in capture.get().splitlines() if "limit" in line]
    assert lines == ["workflow, correct: at the limit (4 refused)", "judge: finding the limit"]
