"""Who runs a cell, and who is to blame when a worker dies: without any process, on virtual time."""

import asyncio

import pytest
from virtual_time import in_virtual_time

from limpet.engines.crew import Crew
from limpet.engines.messages import (
    ALIVE,
    BEGUN,
    BLOCKED,
    CANCEL,
    CELL,
    CLOSE,
    CLOSED,
    DONE,
    HUNG,
    OPEN,
    OPENED,
    Lost,
)
from limpet.engines.packed_values import packed_error
from limpet.engines.sent_steps import SentStep
from limpet.engines.worker_news import SILENCE_S
from limpet.errors import WorkerDiedError
from limpet.pacing.permits import Permits, use_permits


class FakeLine:
    """A worker that answers as told: `act` gets each cell."""

    def __init__(self, lines, act, on_message, on_lost):
        self.name = f"worker {len(lines)}"
        self.hear, self.lose, self.act = on_message, on_lost, act
        self.cells, self.killed, self.cancelled = [], None, []
        lines.append(self)

    def send(self, messages):
        for message in messages:
            asyncio.get_running_loop().call_soon(self._take, message)

    def _take(self, message):
        if self.killed:
            return
        match message[0]:
            case kind if kind == OPEN:
                self.hear((OPENED, message[1], None, [], {}))
            case kind if kind == CLOSE:
                self.hear((CLOSED, message[1]))
            case kind if kind == CANCEL:
                self.cancelled.append(message[1])
            case kind if kind == CELL:
                self.cells.append(message[1])
                self.act(self, message[1], message[3])

    def done(self, number, value="ok"):
        self.hear((DONE, [(number, value, None, None, 0.1)]))

    def die(self, why="was killed by SIGSEGV"):
        self.killed = why
        self.lose(Lost(why))

    def is_working(self):
        return False

    def last_begun(self):
        return 0

    def kill(self, why):
        asyncio.get_running_loop().call_soon(self.die, why)

    async def close(self):
        self.killed = "closed"


async def opened(act, size=2, at_once=None, kind=FakeLine, *, is_plain=False):
    lines, events = [], []

    async def start(on_message, on_lost):
        return kind(lines, act, on_message, on_lost)

    crew = Crew(size, start, lambda event, facts: events.append((event, facts)), at_once)
    await crew.open(SentStep("workflow", "the workflow", b"", None, {}, is_plain))
    return crew, lines, events


@in_virtual_time
async def test_a_cell_goes_to_the_worker_with_the_fewest():
    crew, lines, _ = await opened(lambda line, number, _: None, size=3)
    calls = [asyncio.ensure_future(crew.call("workflow", "an item", b"")) for _ in range(9)]
    await asyncio.sleep(1)
    assert [len(line.cells) for line in lines] == [3, 3, 3]
    for line in lines:
        for number in line.cells:
            line.done(number)
    await asyncio.gather(*calls)
    await crew.close_step("workflow")


@in_virtual_time
async def test_the_guilty_one_is_found_in_three_deaths_and_its_neighbours_complete():
    def act(line, number, argument):
        line.hear((BEGUN, [number]))
        loop = asyncio.get_running_loop()
        if argument == b"guilty":
            loop.call_later(0.1, line.die)
        else:
            loop.call_later(0.5, line.done, number)

    crew, lines, events = await opened(act)
    arguments = [b"guilty", *[b"innocent"] * 9]
    calls = [crew.call("workflow", f"item {n}", one) for n, one in enumerate(arguments)]
    guilty, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(guilty, WorkerDiedError)
    assert "item 0" in str(guilty)
    assert "; it ran alone there, after two other processes had died" in str(guilty)
    assert [other.value for other in others] == ["ok"] * 9
    lost = [facts for event, facts in events if event == "worker_lost"]
    assert len(lost) == 3
    assert lost[-1]["had"] == ["workflow: item 0"]
    await crew.close_step("workflow")


@in_virtual_time
async def test_workers_that_others_kill_before_a_suspect_begins_do_not_count_against_it():
    deaths = iter([True] * 7)

    def act(line, number, argument):
        if next(deaths, False):
            if len(line.cells) == 1 and line.name == "worker 0":
                line.hear((BEGUN, [number]))
            line.die("was killed by SIGKILL")
        else:
            line.done(number)

    crew, _, _ = await opened(act, size=1)
    returned = await crew.call("workflow", "an item", b"")
    assert returned.value == "ok"
    await crew.close_step("workflow")


@in_virtual_time
async def test_a_worker_without_a_sign_of_life_is_killed_and_its_cells_run_elsewhere():
    def act(line, number, argument):
        if line.name != "worker 0":
            line.done(number)

    crew, lines, _ = await opened(act, size=1)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    returned = await crew.call("workflow", "an item", b"")
    assert returned.value == "ok"
    assert SILENCE_S <= loop.time() - begun < SILENCE_S + 5
    assert "no sign of life" in lines[0].killed
    await crew.close_step("workflow")


@in_virtual_time
async def test_signs_of_life_are_enough_for_a_cell_that_takes_hours():
    def act(line, number, argument):
        def live(left):
            line.hear((ALIVE,))
            if left:
                asyncio.get_running_loop().call_later(10, live, left - 1)
            else:
                line.done(number)

        live(720)

    crew, lines, _ = await opened(act, size=1)
    assert (await crew.call("workflow", "an item", b"")).value == "ok"
    assert len(lines) == 1
    await crew.close_step("workflow")


@in_virtual_time
async def test_what_a_worker_says_after_it_was_given_up_is_dropped():
    def act(line, number, argument):
        if line.name != "worker 0":
            line.done(number, "second")

    crew, lines, _ = await opened(act, size=1)
    call = asyncio.ensure_future(crew.call("workflow", "an item", b""))
    await asyncio.sleep(1)
    lines[0].die()
    lines[0].done(lines[0].cells[0], "first, too late")
    assert (await call).value == "second"
    await crew.close_step("workflow")


@in_virtual_time
async def test_time_that_stood_still_in_a_worker_that_died_is_not_taken_off_twice():
    def act(line, number, argument):
        loop = asyncio.get_running_loop()
        line.hear((BEGUN, [number]))
        if line.name == "worker 0":
            loop.call_later(1, line.hear, (BLOCKED, number + 1))  # by a neighbour
            loop.call_later(4, line.die)
        else:
            loop.call_later(1, line.done, number)

    crew, _, _ = await opened(act, size=1)
    permits, loop = Permits(), asyncio.get_running_loop()
    use_permits(permits)
    begun = loop.time()
    await crew.call("workflow", "an item", b"")
    assert loop.time() - begun - permits.waited_s(loop.time()) == pytest.approx(0.1)  # as it says
    await crew.close_step("workflow")


@pytest.mark.parametrize("message", [(DONE, 1), (DONE, [(1, "ok")]), (BEGUN, [[]]), (OPENED,)])
@in_virtual_time
async def test_a_worker_whose_message_makes_no_sense_is_killed_and_its_cells_run_elsewhere(message):
    def act(line, number, argument):
        if line.name == "worker 0":
            line.hear(message)
        else:
            line.done(number)

    crew, lines, _ = await opened(act, size=1)
    assert (await crew.call("workflow", "an item", b"")).value == "ok"
    assert "sent an invalid message" in lines[0].killed
    await crew.close_step("workflow")


@in_virtual_time
async def test_a_worker_that_does_not_answer_a_cancellation_is_killed():
    crew, lines, _ = await opened(lambda line, number, _: None, size=1)
    call = asyncio.ensure_future(crew.call("workflow", "an item", b""))
    await asyncio.sleep(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert lines[0].cancelled == lines[0].cells
    assert "cancellation" in lines[0].killed
    await crew.close_step("workflow")


@in_virtual_time
async def test_a_worker_whose_call_ends_as_it_is_cancelled_is_not_asked_and_not_killed():
    crew, lines, _ = await opened(lambda line, number, _: None, size=1)
    call, neighbour = begins(crew, 2)
    await asyncio.sleep(1)
    lines[0].done(lines[0].cells[0])
    call.cancel()  # its time is up in the same turn of the loop
    async with asyncio.timeout(0.1):
        await asyncio.wait({call})
    assert call.cancelled()
    await asyncio.sleep(2)
    assert (lines[0].cancelled, lines[0].killed) == ([], None)
    lines[0].done(lines[0].cells[1])
    assert (await neighbour).value == "ok"
    await crew.close_step("workflow")


class SlowLine(FakeLine):
    """A worker that takes a second to set up a step, or fails to."""

    fails = False

    def _take(self, message):
        if message[0] == OPEN:
            error = packed_error(ValueError("no")) if self.fails else None
            said = (OPENED, message[1], error, [], {})
            asyncio.get_running_loop().call_later(1, self.hear, said)
        else:
            super()._take(message)


class FailingLine(SlowLine):
    fails = True


def slow_crew(kind, size, at_once):
    lines = []

    async def start(on_message, on_lost):
        return kind(lines, lambda line, number, _: line.done(number), on_message, on_lost)

    return Crew(size, start, lambda *_: None, at_once), lines


STEP = SentStep("workflow", "the workflow", b"", None, {})


@in_virtual_time
async def test_a_few_workers_start_at_a_time_and_the_run_begins_with_the_first():
    crew, lines = slow_crew(SlowLine, size=16, at_once=4)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await crew.open(STEP)
    assert loop.time() - begun == pytest.approx(1)
    assert len(lines) == 4
    assert (await crew.call("workflow", "an item", b"")).value == "ok"
    await asyncio.sleep(1.5)
    assert (len(lines), crew.ready) == (12, 8)
    await asyncio.sleep(2)
    assert (len(lines), crew.ready) == (16, 16)
    await crew.close_step("workflow")


@in_virtual_time
async def test_a_setup_that_fails_in_the_first_workers_is_not_tried_in_sixty_more():
    crew, lines = slow_crew(FailingLine, size=64, at_once=4)
    with pytest.raises(ValueError, match="no"):
        await crew.open(STEP)
    assert len(lines) <= 8
    await crew.close_step("workflow")


class LateLine(SlowLine):
    """The second worker fails to set up a step after the first has, while it is being closed."""

    def _take(self, message):
        if self.name == "worker 0":
            super()._take(message)
        elif message[0] == CLOSE:
            self.hear((OPENED, message[1], packed_error(ValueError("no")), [], {}))


@in_virtual_time
async def test_a_setup_that_fails_while_its_step_is_being_closed_does_not_hold_up_the_end():
    crew, _ = slow_crew(LateLine, size=2, at_once=2)
    await crew.open(STEP)
    async with asyncio.timeout(10):
        await crew.close_step("workflow")


class BlockedLine(FakeLine):
    """The second worker never gets out of its set-up, and handles no messages meanwhile."""

    def _take(self, message):
        if self.name == "worker 0":
            super()._take(message)


@in_virtual_time
async def test_a_setup_that_never_ends_in_one_worker_does_not_hold_up_the_end():
    crew, lines = slow_crew(BlockedLine, size=2, at_once=2)
    await crew.open(STEP)
    assert (await crew.call("workflow", "an item", b"")).value == "ok"
    async with asyncio.timeout(20):
        await crew.close_step("workflow")
    assert "its set-up did not end" in lines[1].killed


class OneFailingLine(SlowLine):
    """The first worker fails to set up a step, the others do not."""

    @property
    def fails(self):
        return self.name == "worker 0"


@in_virtual_time
async def test_a_setup_that_fails_in_one_worker_only_is_told_with_its_reason():
    crew, _, events = await opened(lambda line, number, _: None, kind=OneFailingLine)
    assert ("worker_failed", {"worker": "worker 0", "why": "no"}) in events
    assert crew.ready == 1
    await crew.close_step("workflow")


# ---- plain functions ----------------------------------------------------------------------------


@in_virtual_time
async def test_a_worker_has_one_plain_function_at_a_time_and_the_first_come_is_the_first():
    crew, lines, _ = await opened(lambda line, number, _: None, size=2, is_plain=True)
    await asyncio.sleep(1)
    calls = begins(crew, 6)
    await asyncio.sleep(1)
    assert [len(line.cells) for line in lines] == [1, 1]
    calls[2].cancel()  # it waits
    for _ in range(2):
        for line in lines:
            line.done(line.cells[-1])
        await asyncio.sleep(1)
    assert [len(line.cells) for line in lines] == [3, 2]
    assert [call.done() for call in calls] == [True] * 5 + [False]
    lines[0].done(lines[0].cells[-1])
    await asyncio.wait(calls)
    await crew.close_step("workflow")


@in_virtual_time
async def test_async_cells_run_beside_a_plain_function_and_beside_each_other():
    crew, lines, _ = await opened(lambda line, number, _: None, size=1, is_plain=True)
    await crew.open(SentStep("judge", "judge", b"", None, {}))
    calls = begins(crew, 2)
    calls += [asyncio.ensure_future(crew.call("judge", "an item", b"")) for _ in range(3)]
    await asyncio.sleep(1)
    assert len(lines[0].cells) == 4
    for number in lines[0].cells:
        lines[0].done(number)
    await asyncio.sleep(1)
    lines[0].done(lines[0].cells[-1])
    assert len(lines[0].cells) == 5
    await asyncio.gather(*calls)
    await crew.close_step("judge")
    await crew.close_step("workflow")


@in_virtual_time
async def test_the_time_of_a_plain_function_that_waits_for_a_worker_stands_still():
    crew, lines, _ = await opened(lambda line, number, _: None, size=1, is_plain=True)
    (line,) = lines
    calls = begins(crew, 1)
    permits = Permits()
    use_permits(permits)
    calls += begins(crew, 1)
    await asyncio.sleep(10)
    line.done(line.cells[0])
    await asyncio.sleep(1)
    line.hear((BEGUN, line.cells[1:]))
    await asyncio.sleep(5)
    assert permits.waited_s(asyncio.get_running_loop().time()) == 11
    line.done(line.cells[1])
    await asyncio.gather(*calls)
    await crew.close_step("workflow")


@in_virtual_time
async def test_a_cell_that_is_cancelled_as_it_gets_a_worker_leaves_it_to_the_next():
    crew, lines, _ = await opened(lambda line, number, _: None, size=1, is_plain=True)
    calls = begins(crew, 3)
    await asyncio.sleep(1)
    lines[0].done(lines[0].cells[0])
    asyncio.get_running_loop().call_soon(calls[1].cancel)  # between its turn and its beginning
    await asyncio.sleep(0.1)
    assert len(lines[0].cells) == 2
    assert not lines[0].cancelled
    lines[0].done(lines[0].cells[1])
    await asyncio.wait(calls)
    assert calls[2].result().value == "ok"
    await crew.close_step("workflow")


# ---- a thread that does not end -----------------------------------------------------------------


def begins(crew, number):
    return [
        asyncio.ensure_future(crew.call("workflow", f"item {one}", b"")) for one in range(number)
    ]


@in_virtual_time
async def test_a_worker_with_a_thread_that_does_not_end_finishes_its_cells_and_gets_no_others():
    crew, lines, events = await opened(lambda line, number, _: None, size=2)
    calls = begins(crew, 4)
    await asyncio.sleep(1)
    old = lines[0]
    old.hear((HUNG, 1))
    old.hear((HUNG, 1))
    await asyncio.sleep(1)
    calls += begins(crew, 6)
    await asyncio.sleep(1)
    assert [len(line.cells) for line in lines] == [2, 8]  # nothing runs again
    for line in list(lines):
        for number in line.cells:
            assert old.killed is None
            line.done(number)
    assert [returned.value for returned in await asyncio.gather(*calls)] == ["ok"] * 10
    await asyncio.sleep(1)
    assert [line.killed for line in lines] == ["closed", None, None]
    assert crew.ready == 2
    retired = [facts for event, facts in events if event == "worker_retired"]
    assert retired == [{"worker": "worker 0", "threads": 1, "cells": 2}]
    assert not [event for event, _ in events if event == "worker_lost"]
    await crew.close_step("workflow")


@in_virtual_time
async def test_who_needs_the_only_worker_waits_for_its_successor():
    def act(line, number, argument):
        if line.name == "worker 0":
            line.hear((HUNG, 3))
        else:
            line.done(number)

    crew, lines, _ = await opened(act, size=1)
    hanging = asyncio.ensure_future(crew.call("workflow", "item 0", b""))
    await asyncio.sleep(0.1)
    waiting = asyncio.ensure_future(crew.call("workflow", "item 1", b""))
    await asyncio.sleep(5)
    assert (len(lines), len(lines[0].cells)) == (1, 1)
    lines[0].done(lines[0].cells[0])
    assert (await hanging).value == (await waiting).value == "ok"
    assert lines[0].killed == "closed"
    await crew.close_step("workflow")


@in_virtual_time
async def test_a_retired_worker_that_dies_is_not_replaced_twice():
    def act(line, number, argument):
        if line.name != "worker 0":
            line.done(number)

    crew, lines, _ = await opened(act, size=1)
    call = asyncio.ensure_future(crew.call("workflow", "an item", b""))
    await asyncio.sleep(1)
    lines[0].hear((HUNG, 1))
    lines[0].die()
    assert (await call).value == "ok"
    await asyncio.sleep(10)
    assert (len(lines), crew.ready) == (2, 1)
    await crew.close_step("workflow")


@in_virtual_time
async def test_a_run_ends_though_a_retired_worker_still_works():
    crew, lines, _ = await opened(lambda line, number, _: None, size=1)
    [call] = begins(crew, 1)
    await asyncio.sleep(1)
    lines[0].hear((HUNG, 1))
    call.cancel()  # the second Ctrl-C
    await asyncio.sleep(0.1)
    assert lines[0].cancelled == lines[0].cells
    lines[0].done(lines[0].cells[0])
    await asyncio.wait({call})
    await crew.close_step("workflow")
    assert [line.killed for line in lines] == ["closed"]


class StuckLine(FakeLine):
    """A worker whose `teardown` waits for something its thread holds."""

    def _take(self, message):
        if message[0] != CLOSE or self.name != "worker 0":
            super()._take(message)


@pytest.mark.parametrize("is_last", [False, True])
@in_virtual_time
async def test_a_retired_worker_whose_teardown_does_not_end_is_ended(is_last):
    crew, lines, _ = await opened(lambda line, number, _: None, size=2, kind=StuckLine)
    if is_last:  # it is found when the run ends
        asyncio.get_running_loop().call_later(1, lines[0].hear, (HUNG, 1))
    else:
        lines[0].hear((HUNG, 1))
        await asyncio.sleep(12)
        assert [line.killed for line in lines] == ["closed", None, None]
    async with asyncio.timeout(60):
        await crew.close_step("workflow")
    assert len(lines) == (2 if is_last else 3)


@in_virtual_time
async def test_while_a_suspect_runs_alone_the_others_wait():
    took = []

    def act(line, number, argument):
        took.append(argument)
        line.hear((BEGUN, [number]))
        if argument == b"suspect" and took.count(b"suspect") < 3:
            asyncio.get_running_loop().call_later(1, line.die)

    crew, lines, _ = await opened(act, size=1)
    suspect = asyncio.ensure_future(crew.call("workflow", "a suspect", b"suspect"))
    await asyncio.sleep(1.5)
    others = begins(crew, 1)  # it is there when the worker dies for the second time
    await asyncio.sleep(3)
    assert took == [b"suspect", b"suspect", b"", b"suspect"]
    others += begins(crew, 2)
    await asyncio.sleep(3)
    assert took[4:] == []
    lines[-1].done(lines[-1].cells[0])
    assert (await suspect).value == "ok"
    await asyncio.sleep(3)
    assert took[4:] == [b""] * 3
    for number in lines[-1].cells[1:]:
        lines[-1].done(number)
    await asyncio.gather(*others)
    assert len(lines) == 3
    await crew.close_step("workflow")


@pytest.mark.parametrize("is_hung", [False, True])
@in_virtual_time
async def test_a_suspect_does_not_run_beside_the_thread_of_an_abandoned_call(is_hung):
    where = []

    def act(line, number, argument):
        line.hear((BEGUN, [number]))
        loop = asyncio.get_running_loop()
        if argument == b"guilty":
            where.append(line.name)
            loop.call_later(0.1, line.die)
        else:
            loop.call_later(0.5, line.done, number)

    crew, lines, _ = await opened(act)
    arguments = [b"guilty", *[b"innocent"] * 9]
    calls = [
        asyncio.ensure_future(crew.call("workflow", f"item {n}", one))
        for n, one in enumerate(arguments)
    ]
    await asyncio.sleep(0.35)  # it waits until a worker has nothing else
    if is_hung:
        lines[2].hear((HUNG, 1))
    await asyncio.wait(calls)
    assert len(where) == 3
    assert (where[-1] == "worker 2") is not is_hung
    await crew.close_step("workflow")


@in_virtual_time
async def test_plain_functions_of_two_steps_take_turns_as_they_came():
    took = []

    def act(line, number, argument):
        took.append(argument)
        asyncio.get_running_loop().call_later(1, line.done, number)

    crew, _, _ = await opened(act, size=1, is_plain=True)
    await crew.open(SentStep("score", "a score", b"", None, {}, True))
    steps = ["workflow", "score", "workflow", "workflow", "score", "workflow"]
    await asyncio.gather(*(crew.call(step, "an item", step.encode()) for step in steps))
    assert [step.decode() for step in took] == steps
    await crew.close_step("score")
    await crew.close_step("workflow")
