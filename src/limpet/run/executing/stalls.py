"""Which calls take far longer than is usual for their step, and why does a step not get on?

A call is stalled if it is older than `stall: {after: …}`; without that, than the larger of 30 s and
four times the p99 of the step's completed calls. Time that it waits for the pacer or for a worker
is not its own. It is named once. With `do: retry`, another call for the same cell begins beside it:
the first answer counts, the other call is cancelled, and what it is known to have used is counted.

A step that has work and ends no cell for a minute says why it thinks so. Code that blocks the event
loop blocks this, too: `blocking` watches for that from another thread.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import Attempt
from limpet.executors.flight import CANCEL_GRACE_S
from limpet.executors.loops import silence
from limpet.journal.journal import Journal
from limpet.pacing.pacer import Pacer
from limpet.pacing.permits import Permits, current_permits, use_permits
from limpet.pacing.signals import classify
from limpet.run.executing.step_runner import StepRunner
from limpet.run.request import Stall
from limpet.run.watcher import Watcher
from limpet.shapes import Cell, Outcome

logger = logging.getLogger("limpet.run")
_LEAST_S, _TIMES = 30.0, 4.0
_LOOK_S = 1.0
_NO_PROGRESS_S = 60.0
_MOST_KNOWN = 1000  # durations of each step
_NO_DIGITS = dict.fromkeys(map(ord, "0123456789"))
Call = Callable[[Any], Awaitable[Any]]


class StalledError(TimeoutError):
    """A call took far longer than is usual for its step."""


class Stalls:
    """Watches the calls of a session. As a guard it sees each outcome, and stops nothing.

    Args:
        rule: The option `stall`.
        journal: The run's journal.
        runner: Has the executors of the steps.
        watcher: Notified of each stalled call, and of each step without progress.
        counted: Called when another call begins beside a stalled one: it may cost money.
    """

    def __init__(
        self,
        rule: Stall,
        journal: Journal,
        runner: StepRunner,
        watcher: Watcher | None,
        counted: Callable[[], None],
    ) -> None:
        self._rule = rule
        self._journal = journal
        self._runner = runner
        self._watcher = watcher
        self._counted = counted
        self._seconds: defaultdict[str, deque[float]] = defaultdict(
            lambda: deque(maxlen=_MOST_KNOWN)
        )
        self._named: dict[tuple[str, str], int] = {}  # the attempt of each cell that is named
        self._hedges: dict[tuple[str, str], Hedge] = {}
        self._moved_at: dict[str, float] = {}  # when each step ended a cell, or got work
        self._said: dict[str, str] = {}

    def see(self, outcome: Outcome) -> None:
        """Learn how long calls take."""
        cell = outcome.cell
        self._moved_at[cell.step] = asyncio.get_running_loop().time()
        was_named = self._named.pop((cell.step, cell.key), 0)
        if outcome.failure is None and outcome.attempts == 1 and not was_named:
            self._seconds[cell.step].append(outcome.seconds)

    async def watch(self) -> None:
        """Look each second, until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = asyncio.get_running_loop().time()
            for step, (recorder, executor) in self._runner.executors.items():
                for attempt in executor.attempts():
                    if now - attempt.started_at < min(_LEAST_S, self._rule.after or _LEAST_S):
                        break  # so are all that started later
                    self._look(recorder.step.cell_of(attempt.index, attempt.input), attempt, now)
                self._look_at_step(step, executor, now)

    # ---- calls ----------------------------------------------------------------------------------

    def limit_s(self, step: str) -> float:
        """Return the age at which a call of a step is stalled."""
        if self._rule.after is not None:
            return self._rule.after
        known = sorted(self._seconds[step])
        return max(_LEAST_S, _TIMES * _p99(known)) if known else math.inf

    def _look(self, cell: Cell, attempt: Attempt, now: float) -> None:
        age_s = now - attempt.started_at - attempt.permits.waited_s(now)
        place = cell.step, cell.key
        if self._named.get(place) == attempt.number or attempt.cancelled is not None:
            return
        if age_s <= self.limit_s(cell.step):
            return
        self._named[place] = attempt.number
        self._journal.log_event(
            "stalled", step=cell.step, key=cell.key, id=cell.id, trial=cell.trial,
            attempt=attempt.number, seconds=round(age_s, 1), do=self._rule.do,
        )  # fmt: skip
        if self._watcher is not None:
            self._watcher.stalled(cell, age_s)
        executor = self._runner.executors[cell.step][1]
        if self._rule.do == "fail":
            error = StalledError(f"item {cell.id!r}: no answer within {age_s:.0f} s; stall: fail")
            executor.cancel(attempt.index, error)
        elif (hedge := self._hedges.get(place)) is not None:
            hedge.begin(executor.pacer, attempt.input)

    def hedged(self, cell_of: Callable[[int, Any], Cell], call: Call) -> Call:
        """Return a function that can begin another call beside a stalled one."""
        if self._rule.do != "retry":
            return call

        async def either(value: Any) -> Any:
            cell = cell_of(0, value)
            hedge = self._hedges[cell.step, cell.key] = Hedge(call, self._counted)
            try:
                return await hedge.answer(value)
            finally:
                del self._hedges[cell.step, cell.key]

        return either

    # ---- steps ----------------------------------------------------------------------------------

    def _look_at_step(self, step: str, executor: AsyncExecutor[Any, Any], now: float) -> None:
        waits = self._journal.waits_for_room or (self._runner.paused_at and not executor.has_ended)
        if not waits and not executor.inputs_in_progress():
            self._moved_at[step] = now
        idle_s = now - self._moved_at.setdefault(step, now)
        usual_s = _p99(sorted(self._seconds[step])) if self._seconds[step] else 0.0
        words = self._why(executor, now) if idle_s >= max(_NO_PROGRESS_S, 2 * usual_s) else ""
        reason = words.translate(_NO_DIGITS)  # the same one, whatever its numbers
        if reason == self._said.get(step, ""):
            return
        self._said[step] = reason
        self._journal.log_event("no_progress", at_once=True, step=step, words=words)
        if self._watcher is not None:
            self._watcher.waits(step, words)

    def _why(self, executor: AsyncExecutor[Any, Any], now: float) -> str:
        attempts, pacer = executor.attempts(), executor.pacer
        if self._runner.paused_at:
            return f"paused by limpet ctl since {self._runner.paused_at}"
        if self._journal.waits_for_room:
            return "the disk is full: finished results wait for space"
        calling = [attempt for attempt in attempts if not attempt.permits.is_waiting]
        if calling:
            since = _clock(calling[0].started_at - now)
            return f"calls in flight do not end: {len(calling):,}, the oldest since {since}"
        waiting = next((one for one in self._runner.pacers if one.state.waiting), pacer)
        if waiting is not None and (attempts or waiting.state.waiting):
            until = f", until {_clock(waiting.held_s)}" if waiting.held_s else ""
            return f"paced: {waiting.words}{until}"
        return f"cells wait to be tried again: {executor.in_progress:,}"


def _p99(known: Sequence[float]) -> float:
    return known[math.ceil(0.99 * len(known)) - 1]


def _clock(seconds: float) -> str:
    """Return the local time that is so many seconds away."""
    return time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))


# ---- Another call beside a stalled one ----------------------------------------------------------


class Hedge:
    """One cell's call, and perhaps a second one beside it.

    Args:
        call: The function.
        counted: Called when the second begins.
    """

    def __init__(self, call: Call, counted: Callable[[], None]) -> None:
        self._call = call
        self._counted = counted
        self._legs: set[asyncio.Task[Any]] = set()
        self._ended: list[asyncio.Task[Any]] = []  # in the order in which they ended
        self._more = asyncio.Event()

    @property
    def leg(self) -> "asyncio.Task[Any] | None":
        """A call that runs, if one does."""
        return next((leg for leg in self._legs if not leg.done()), None)

    def begin(self, pacer: Pacer | None, value: Any) -> None:
        """Begin the second call, when the pacer lets it."""
        if len(self._legs) == 1:
            self._add(self._second(pacer, value))
            self._more.set()

    def _add(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        leg = asyncio.get_running_loop().create_task(work)
        leg.add_done_callback(self._ended.append)
        self._legs.add(leg)
        return leg

    async def answer(self, value: Any) -> Any:
        """Return the first answer; raise if there is none."""
        first = self._add(self._first(value))
        more = asyncio.ensure_future(self._more.wait())  # the second may begin while we wait
        try:
            await asyncio.wait({first, more}, return_when=asyncio.FIRST_COMPLETED)
            while not any(map(_has_answer, self._ended)) and len(self._ended) < len(self._legs):
                running = self._legs.difference(self._ended)
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            more.cancel()
            await self._end_others()
        # If both have one, the last has its receipts last: see `Paid`.
        best = next((leg for leg in reversed(self._ended) if _has_answer(leg)), self._ended[0])
        if best is not first and _has_answer(best):
            current_permits().void()  # what answered has a ticket of its own
        return best.result()

    async def _first(self, value: Any) -> Any:
        return await self._call(value)

    async def _second(self, pacer: Pacer | None, value: Any) -> Any:
        ticket = None if pacer is None else await pacer.acquire()
        permits = Permits(ticket)
        use_permits(permits)  # of this task alone
        self._counted()
        try:
            output = await self._call(value)
        except BaseException as error:
            permits.settle(classify(error)) if isinstance(error, Exception) else permits.void()
            raise
        permits.ok()
        return output

    async def _end_others(self) -> None:
        late = [leg for leg in self._legs if not leg.done()]
        for leg in late:
            leg.cancel()
        if late:
            _, lasting = await asyncio.wait(late, timeout=CANCEL_GRACE_S)
            for leg in lasting:
                silence(leg)


def _has_answer(leg: "asyncio.Task[Any]") -> bool:
    return not leg.cancelled() and leg.exception() is None
