"""Which calls take far longer than is usual for their step, and why does a step not get on?

A call is stalled if it is older than `stall: {after: …}`; without that, than the larger of 30 s and
four times the p99 of the step's completed calls. Time that it waits for the pacer or for a worker
is not its own. It is named once. With `do: retry`, a second call for the same cell begins beside
it: the first answer counts, the other call is cancelled, and what it is known to have used counts.
Where the pace has no room for a second call, the first is given up once, and its cell asked again:
otherwise a pace of which all calls hang would wait for their timeouts.

A step that has work and ends no cell for a minute says why it thinks so. Code that blocks the event
loop blocks this, too: `blocking` watches for that from another thread.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from weakref import WeakSet

from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import Attempt
from limpet.executors.flight import CANCEL_GRACE_S
from limpet.pacing.pacer import Pacer
from limpet.pacing.permits import Permits, current_permits, use_permits
from limpet.run.executing.blocking import users_line, users_stack
from limpet.run.executing.outcomes import Step
from limpet.run.executing.recorder import notify
from limpet.run.executing.step_runner import StepRunner
from limpet.run.request import Stall
from limpet.run.watcher import Watcher
from limpet.shapes import Outcome
from limpet.text import count, one_line

_LOOK_S = 1.0
_LEAST_S, _TIMES = 30.0, 4.0
_NO_PROGRESS_S = 60.0
_MOST_KNOWN = 1000  # durations of each step

Executor = AsyncExecutor[Any, Any]
Function = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class _Call:
    """A call in flight.

    Attributes:
        stalled: Done when it is stalled: then it has the pacer of its step.
        legs: The tasks of the call and of the one that may begin beside it, with `do: retry`.
    """

    stalled: asyncio.Future[Pacer | None]
    legs: list[asyncio.Task[Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Progress:
    """What is known of a step.

    Attributes:
        moved_at: When it last ended a cell, or had nothing to do.
        seconds: How long its latest completed calls took.
        last: The last outcome seen.
        words: Why it does not get on; empty: it does.
        given_up: The cells of which a call was given up for want of room.
    """

    moved_at: float
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_KNOWN))
    last: Outcome | None = None
    words: str = ""
    given_up: set[int] = field(default_factory=set)


class Stalls:
    """Watches the calls of a session.

    Args:
        rule: The option `stall`.
        runner: Has the executors of the steps.
        watcher: Notified of each stalled call, and of each step without progress.
    """

    def __init__(self, rule: Stall, runner: StepRunner, watcher: Watcher | None) -> None:
        self._rule = rule
        self._is_hedged = rule.do == "retry"
        self._runner = runner
        self._journal = runner.journal
        self._watcher = watcher or Watcher()
        self._steps: dict[str, _Progress] = {}
        self._calls: dict[Permits, _Call] = {}  # by the permits of their attempts
        _watching.add(self)

    def watched(self, step: str, function: Function) -> Function:
        """Return a step's function such that its calls are watched."""
        loop = asyncio.get_running_loop()
        progress = self._steps[step] = _Progress(loop.time())

        async def watched(value: Any) -> Any:
            permits, began = current_permits(), loop.time()
            call = self._calls[permits] = _Call(loop.create_future())
            try:
                hedge = self._first_answer(call, function, value) if self._is_hedged else None
                output = await (hedge or function(value))
            finally:
                del self._calls[permits]
            if not call.stalled.done():
                now = loop.time()
                progress.seconds.append(now - began - permits.waited_s(now))
            return output

        return watched

    async def watch(self) -> None:
        """Look each second, until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = asyncio.get_running_loop().time()
            for recorder, executor in self._runner.executors.values():
                progress = self._steps[recorder.step.name]
                known = sorted(progress.seconds)
                usual_s = _TIMES * known[math.ceil(0.99 * len(known)) - 1] if known else 0.0
                limit_s = self._rule.after or (max(_LEAST_S, usual_s) if known else math.inf)
                self._look_at_calls(recorder.step, executor, limit_s, now)
                if recorder.last is not progress.last or not self._has_work(executor):
                    progress.last, progress.moved_at = recorder.last, now
                is_idle = now - progress.moved_at >= max(_NO_PROGRESS_S, usual_s)
                words = self._why(executor, now) if is_idle else ""
                before, progress.words, name = progress.words, words, recorder.step.name
                if words.partition(":")[0] != before.partition(":")[0]:  # else only particulars
                    self._journal.log_event("no_progress", at_once=True, step=name, words=words)
                if words != before:
                    notify(self._watcher.waits, name, words)

    def _look_at_calls(self, step: Step, executor: Executor, limit_s: float, now: float) -> None:
        for attempt in executor.attempts():
            age_s = now - attempt.started_at - attempt.permits.waited_s(now)
            call = self._calls.get(attempt.permits)
            if now - attempt.started_at <= limit_s:
                break  # so are all that started later
            if age_s <= limit_s or call is None or call.stalled.done() or attempt.cancelled:
                continue
            cell, number = step.cell_of(attempt.index, attempt.input), attempt.number
            facts = {"key": cell.key, "id": cell.id, "trial": cell.trial, "attempt": number}
            facts |= {"step": cell.step, "seconds": round(age_s, 1)}
            self._journal.log_event("stalled", at_once=True, **facts)
            notify(self._watcher.stalled, cell, age_s)
            if self._rule.do == "fail":
                words = f"item {cell.id!r}: no answer within {age_s:.0f} s; stall: fail"
                executor.cancel(attempt.index, TimeoutError(words))
            given_up = self._steps[step.name].given_up
            if self._is_hedged and _is_full(executor.pacer) and attempt.index not in given_up:
                given_up.add(attempt.index)
                executor.retry(attempt.index)
            else:
                call.stalled.set_result(executor.pacer)

    def _has_work(self, executor: Executor) -> bool:
        is_held = bool(self._runner.paused_at) or self._journal.waits_for_room
        return bool(executor.inputs_in_progress()) or (is_held and not executor.has_ended)

    def _why(self, executor: Executor, now: float) -> str:
        calling = [one for one in executor.attempts() if not one.permits.is_waiting]
        pacers = [executor.pacer] if executor.pacer else self._runner.pacers
        if self._runner.paused_at:
            return f"paused by limpet ctl since {self._runner.paused_at}"
        if self._journal.waits_for_room:
            return "the disk is full: finished results wait for space"
        if calling:
            since = _clock(calling[0].started_at - now)
            return f"calls in flight do not end: {len(calling):,}, the oldest since {since}"
        for pacer in (one for one in pacers if one.state.waiting):
            until = f", until {_clock(pacer.held_s)}" if pacer.held_s else ""
            return f"paced: {pacer.words}{until}"
        return f"cells wait to be tried again, or for a worker: {executor.in_progress:,}"

    # ---- a second call beside a stalled one -----------------------------------------------------

    async def _first_answer(self, call: _Call, function: Function, value: Any) -> Any:
        """Return the first answer of a call and the one beside it; raise if there is none."""
        create = asyncio.get_running_loop().create_task
        second = _ending(self._beside, call, function, value)
        call.legs = [create(_ending(function, value)), create(second)]
        try:
            for ended in asyncio.as_completed(call.legs):
                output, error = await ended
                if error is None or not call.stalled.done():
                    break
        finally:
            for leg in call.legs:
                leg.cancel()
            await asyncio.wait(call.legs, timeout=CANCEL_GRACE_S)
        if error is not None:
            raise error
        return output

    async def _beside(self, call: _Call, function: Function, value: Any) -> Any:
        pacer, first = await call.stalled, current_permits()
        second = Permits(None if pacer is None else await pacer.acquire())
        use_permits(second)  # of this task alone
        self._runner.counted()
        try:
            output = await function(value)
            second.ok()
            first.void()  # it is cancelled
            return output
        finally:
            second.void()  # if it has no answer

    # ---- where each call stands -----------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """Yield a line for each call in flight, the oldest of each step first."""
        for recorder, executor in list(self._runner.executors.values()):
            ages = executor.in_flight()
            for attempt in executor.attempts():
                cell, age_s = recorder.step.cell_of(0, attempt.input), ages[attempt.index]
                trial = f" trial {cell.trial}" if cell.trial else ""
                who = f"{one_line(cell.step)} {one_line(cell.id)}{trial}"
                yield f"{who}, attempt {attempt.number}, {age_s:.1f} s: {self._place(attempt)}"

    def _place(self, attempt: Attempt) -> str:
        if attempt.permits.is_waiting:
            return "waits for the pacer or a worker"
        call, found = self._calls.get(attempt.permits), ""
        tasks = [*(call.legs if call else ()), attempt.task]
        at: Any = next(task.get_coro() for task in tasks if task and not task.done())
        while frame := getattr(at, "cr_frame", None):
            found = users_line(frame) or found
            at = at.cr_await
        return f"at {found}" if found else "in a thread, in a worker, or in a library"


_watching: WeakSet[Stalls] = WeakSet()


def where_calls_stand(frame: FrameType | None) -> list[str]:
    """Return a line for each call in flight in this process, and their number.

    Args:
        frame: Where the thread of the event loop is.
    """
    lines = [line for stalls in list(_watching) for line in stalls.lines()]
    blocked = [f"the event loop is at {stack}"] if (stack := users_stack(frame)) else []
    return [*lines, f"{count(len(lines), 'call')} in flight", *blocked]


def _is_full(pacer: Pacer | None) -> bool:
    """Return whether a second call would wait for the end of another."""
    return pacer is not None and pacer.state.in_flight >= pacer.state.limit


def _clock(seconds: float) -> str:
    """Return the local time that is so many seconds away."""
    return time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))


async def _ending(function: Function, *given: Any) -> tuple[Any, BaseException | None]:
    """Return how a call ends: its CancelledError must not look like that of who waits for it."""
    try:
        return await function(*given), None
    except BaseException as error:  # noqa: BLE001 - raised by who waits for it
        return None, error
