"""What does an order do to a running session, and when is it done?

Orders come from other threads, one at a time, and change the executors on the event loop. A pause
is on disk before it is answered: a run that is killed while it is paused is still paused.
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import TimeoutError as NotYetError
from functools import partial
from typing import Any, TypeVar

from limpet.errors import ItemSkippedError, LimpetError
from limpet.executors.async_executor import AsyncExecutor
from limpet.journal.journal import Journal
from limpet.journal.lines import timestamp
from limpet.run.budget import as_budget
from limpet.run.control import Order
from limpet.run.executing.step_runner import StepRunner
from limpet.run.executing.stopping import Stopping
from limpet.run.planning.lookup import Lookup
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.shapes import Outcome
from limpet.text import count, did_you_mean, one_line

T = TypeVar("T")
_LOOK_S = 0.1  # whether the session has ended meanwhile
_MOST_NAMED = 5
_STOP = "limpet ctl stop"


class Hand:
    """Carries out orders. As a guard it sees each outcome on disk, and stops nothing.

    Args:
        request: What the session does.
        journal: The run's journal.
        run_file: Records that the run is paused.
        lookup: Knows which items are left to do.
        runner: Has the executors of the steps.
        stopping: Stops them.
    """

    def __init__(
        self,
        request: Request,
        journal: Journal,
        run_file: RunFile,
        lookup: Lookup,
        runner: StepRunner,
        stopping: Stopping,
    ) -> None:
        self._request = request
        self._journal = journal
        self._run_file = run_file
        self._lookup = lookup
        self._runner = runner
        self._stopping = stopping
        self._loop: asyncio.AbstractEventLoop | None = None
        self._one_at_a_time = threading.Lock()
        self._begun, self._over, self._closed = (threading.Event() for _ in range(3))
        self._skipped: set[str] = set()
        self._ended: Counter[str] = Counter()  # the cells of each item that ended
        self._waiting: dict[tuple[str, str], list[asyncio.Future[None]]] = {}

    # ---- on the thread of an order --------------------------------------------------------------

    def obey(self, order: Order) -> str:
        """Carry out an order, and return what was done.

        Raises:
            LimpetError: It cannot be carried out, and nothing was changed.
        """
        with self._one_at_a_time:
            while not self._begun.wait(_LOOK_S):
                self._check()
            done = self._obey(order)
            words = "stopping" if order.name == "stop" else done
            self._journal.log_event(
                "order", at_once=True, order=order.name, words=words, by=os.getpid()
            )
            if (watcher := self._request.watcher) is not None:
                self._on_loop(_call(watcher.ordered, order.name, words))
        if order.name == "stop":
            self._closed.wait()
            return self._how_far()
        return done

    def _obey(self, order: Order) -> str:
        match order.name:
            case "pause" | "resume":
                is_pause = order.name == "pause"
                self._record_paused(timestamp() if is_pause else "")
                self._on_loop(_call(self._runner.pause if is_pause else self._runner.resume))
                flying = count(sum(map(len, map(AsyncExecutor.attempts, self._executors))), "call")
                return f"paused: {flying} in flight may end" if is_pause else "resumed"
            case "stop":
                reason = LimpetError(_STOP, hint="run it again to go on")
                self._on_loop(_call(self._stopping.stop, reason))
                return "stopping"
            case "pace":
                return self._on_loop(_call(self._runner.change_pace, order.most, order.endpoint))
            case "retry":
                return self._on_loop(self._retry(dict.fromkeys(order.words)))
            case "skip":
                return self._on_loop(self._skip(dict.fromkeys(order.words)))
        return self._on_loop(_call(self._change_budget, order.changes))

    def _record_paused(self, at: str) -> None:
        before, self._run_file.paused = self._run_file.paused, at
        if bool(before) != bool(at):
            try:
                self._run_file.write(self._journal)
            except LimpetError:
                self._run_file.paused = before
                raise

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the event loop, unless the session ends before that."""
        assert self._loop is not None
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        while True:
            try:
                return doing.result(_LOOK_S)
            except NotYetError:
                if doing.done():
                    raise
                self._check()

    def _check(self) -> None:
        if self._over.is_set():
            raise LimpetError("the run has ended")

    def _how_far(self) -> str:
        session = self._run_file.sessions[-1]
        step = session.steps.get(WORKFLOW)
        done, total = (step.have if step else None), (session.items or 0) * session.trials
        return f"stopped: {done or 0:,} of {count(total, 'answer')} on disk; run it again to go on"

    def _change_budget(self, changes: Mapping[str, str]) -> str:
        try:
            budget = as_budget(changes)
        except (TypeError, ValueError) as error:
            raise LimpetError(str(error)) from error
        return self._runner.spending.change(budget)

    # ---- for the session ------------------------------------------------------------------------

    def begin(self) -> None:
        """Take orders from now on; call it on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._begun.set()

    def end(self) -> None:
        """Take no more orders; return when the one being carried out is done or refused."""
        self._over.set()
        with self._one_at_a_time:
            pass

    def close(self) -> None:
        """The session has ended, and everything is on disk: answer those who wait for that."""
        self._over.set()
        self._closed.set()

    def see(self, outcome: Outcome) -> None:
        """Note that a cell ended."""
        cell = outcome.cell
        scores = len(self._request.evaluators) if cell.step == WORKFLOW and outcome.failure else 0
        self._ended[cell.id] += 1 + scores
        for waiting in self._waiting.pop((cell.step, cell.key), ()):
            if not waiting.done():
                waiting.set_result(None)

    # ---- items ----------------------------------------------------------------------------------

    @property
    def _executors(self) -> Iterable[AsyncExecutor[Any, Any]]:
        return [executor for _, executor in self._runner.executors.values()]

    def _in_progress(self, ids: Iterable[str]) -> list[tuple[Any, AsyncExecutor[Any, Any], int]]:
        """Return the cells of some items that are running or waiting: executor and index."""
        return [
            (cell, executor, index)
            for recorder, executor in self._runner.executors.values()
            for index, value in executor.inputs_in_progress().items()
            if (cell := recorder.step.cell_of(index, value)).id in ids
        ]

    def _check_ids(self, ids: Iterable[str]) -> None:
        known = {item.id for item in self._request.items}
        if unknown := [id_ for id_ in ids if id_ not in known]:
            near = did_you_mean(unknown[0], known)
            raise LimpetError(f"{_named(unknown)}: no such item in this run{near}")

    async def _retry(self, ids: Mapping[str, None]) -> str:
        self._check_ids(ids)
        found = self._in_progress(ids)
        if idle := [id_ for id_ in ids if id_ not in {cell.id for cell, *_ in found}]:
            raise LimpetError(
                f"{_named(idle)}: not in flight: there is nothing to retry",
                hint="what failed is tried again by the next session",
            )
        for _, executor, index in found:
            executor.retry(index)
        return f"tried again: {_named(ids)}"

    async def _skip(self, ids: Mapping[str, None]) -> str:
        self._check_ids(ids)
        left = Counter(
            {task[0].item.id: len(self._request.evaluators) for task in self._lookup.unscored}
        )
        for work_item, _ in self._lookup.missing:
            left[work_item.item.id] += 1 + len(self._request.evaluators)
        if done := [id_ for id_ in ids if left[id_] <= self._ended[id_]]:
            raise LimpetError(f"{_named(done)}: done already: there is nothing to skip")
        self._skipped |= ids.keys()
        for recorder, executor in self._runner.executors.values():
            executor.orders.refuse = partial(self._why_not, recorder.step)
        found = self._in_progress(ids)
        told = [asyncio.get_running_loop().create_future() for _ in found]
        for (cell, executor, index), waiting in zip(found, told, strict=True):
            self._waiting.setdefault((cell.step, cell.key), []).append(waiting)
            executor.cancel(index, _skipped(cell.id))
        if told:
            await asyncio.wait(told)
        return f"skipped: {_named(ids)}"

    def _why_not(self, step: Any, value: Any) -> Exception | None:
        id_ = step.cell_of(0, value).id
        return _skipped(id_) if id_ in self._skipped else None


def _skipped(id_: str) -> ItemSkippedError:
    return ItemSkippedError(f"item {id_!r}: left out by limpet ctl skip; the next session runs it")


def _named(ids: Iterable[str]) -> str:
    every = [one_line(id_) for id_ in ids]
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


async def _call(function: Callable[..., T], *values: Any) -> T:
    return function(*values)
