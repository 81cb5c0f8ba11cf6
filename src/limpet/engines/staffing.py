"""How does a crew start its workers, and replace those that are lost?

Only a few workers start at a time, and a run begins with the first. Starting an interpreter and
importing the user's modules takes a processor: if sixty workers started at once on two processors,
none would be ready for minutes.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from limpet.engines.crew_worker import CrewWorker
from limpet.engines.messages import Lost, Message, StartLine, WorkerLine
from limpet.engines.packed_values import unpacked_error
from limpet.engines.sent_steps import SentStep
from limpet.errors import SetupError
from limpet.text import one_line, text_of

_FAILED_STARTS = 3  # in a row, after which no more workers are started
_LONGEST_PAUSE_S = 5.0
_SETTING_UP_S = 11.0  # a second more than a worker allows a set-up that nobody needs
_CLOSING_S = 10.0  # how long a retired worker has to close its steps
_STARTING_S = 30.0  # a longer set-up is mostly waiting: let the next worker start

OnEvent = Callable[[str, dict[str, Any]], None]
"""Called with a worker's event: its name and its facts."""


class Staffing:
    """The workers of a crew.

    Args:
        size: How many there are.
        at_once: How many of them may be starting at a time.
        start: Starts one.
        on_event: Called when workers start, retire, or cannot be set up.
        on_message: Called with each message from a worker.
        on_lost: Called when a worker is lost, to take back its cells.

    Attributes:
        workers: Those that run cells, or will.
        is_closing: Whether the last step is closed and the workers end.
    """

    def __init__(
        self,
        size: int,
        at_once: int,
        start: StartLine,
        on_event: OnEvent,
        on_message: Callable[[CrewWorker, Message], None],
        on_lost: Callable[[CrewWorker, Lost], None],
    ) -> None:
        self.workers: list[CrewWorker] = []
        self._size = size
        self._at_once = at_once
        self._start_line = start
        self._on_event = on_event
        self._on_message = on_message
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.Semaphore(at_once)
        self._lines: set[WorkerLine] = (
            set()
        )  # also to workers that were given up, until they are gone
        self._steps: dict[str, SentStep] = {}
        self._plain: set[str] = set()  # steps of which a worker runs one cell at a time
        self._declared: dict[str, tuple[list[str], dict[str, str]]] = {}  # by steps that opened
        # The cells that wait for a worker: their steps, and whether each needs it alone.
        self._waiting: deque[tuple[str, bool, asyncio.Future[CrewWorker]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed_starts = self._failed_setups = 0
        self._failures: list[dict[str, Any]] = []
        self._broken: BaseException | None = None
        self.is_closing = False

    @property
    def ready(self) -> int:
        """How many workers can take cells."""
        return sum(bool(worker.opened) and not worker.is_lost for worker in self.workers)

    # ---- steps ----------------------------------------------------------------------------------

    async def open(self, sent: SentStep) -> tuple[list[str], dict[str, str]]:
        """Open a step in all workers; return when it is open in the first.

        Returns:
            The secrets the step declares in a worker, and the variables it set there.

        Raises:
            Exception: It cannot be opened in any worker.
        """
        self._steps[sent.name] = sent
        if sent.is_plain:
            self._plain.add(sent.name)
        if not self.workers:
            self.workers = [CrewWorker() for _ in range(self._size)]
            for worker in self.workers:
                self._begin_start(worker)
        else:
            for worker in self.workers:
                worker.open_step(sent)
        self.release(await self.worker_for(sent.name), sent.name)
        return self._declared.get(sent.name, ([], {}))

    def opened(
        self,
        worker: CrewWorker,
        name: str,
        error: Any,
        secrets: list[str],
        variables: dict[str, str],
    ) -> None:
        """Record that a step is open in a worker, or why it is not."""
        if error is not None:
            self._failed(worker, unpacked_error(error))
            return
        opening = worker.opening.pop(name, None)
        worker.opened.add(name)
        self._declared.setdefault(name, (secrets, variables))
        self._tell_of_failures()
        if opening is not None and not opening.done():
            opening.set_result(None)
        self._failed_starts = 0
        self._wake()

    async def close_step(self, name: str) -> None:
        """Close a step in all workers. The last step ends the workers."""
        self._steps.pop(name, None)
        self.is_closing = not self._steps
        everyone = list(self.workers)
        opened_nowhere = name not in self._declared
        late = [worker for worker in everyone if name in worker.opening]
        closing = [worker.close_step(name, gives_up=opened_nowhere) for worker in everyone]
        try:
            if left := [future for future in closing if future is not None]:
                kill = self._loop.call_later(_SETTING_UP_S, _kill_late, late, name)
                try:
                    await asyncio.wait(left)
                finally:
                    kill.cancel()
        finally:
            if self.is_closing:
                await self._end()

    def closed(self, worker: CrewWorker, step: str) -> None:
        """Record that a step is closed in a worker."""
        if (closing := worker.closing.pop(step, None)) is not None:
            closing.set_result(None)

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self.workers = []
        await asyncio.gather(*(line.close() for line in self._lines))
        self._lines.clear()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # ---- starting -------------------------------------------------------------------------------

    async def _start(self, worker: CrewWorker, pause_s: float = 0.0) -> None:
        """Start a worker and open all steps in it."""
        if pause_s:
            await asyncio.sleep(pause_s)
        async with self._starting:
            try:
                line = await self._start_line(
                    lambda message: self._on_message(worker, message),
                    lambda lost: self._lost(worker, lost),
                )
            except SetupError as error:
                self._failed(worker, error)
                return
            worker.line = line
            self._lines.add(line)
            worker.heard_at = self._loop.time()
            self._on_event("worker_started", {"worker": line.name})
            for sent in list(self._steps.values()):
                worker.open_step(sent)
            if worker.opening:
                await asyncio.wait(list(worker.opening.values()), timeout=_STARTING_S)

    def _begin_start(self, worker: CrewWorker, pause_s: float = 0.0) -> None:
        self._begin(self._start(worker, pause_s))

    def _failed(self, worker: CrewWorker, error: BaseException) -> None:
        """Give up a worker in which a step cannot be opened; fail the crew if it opens in none.

        One that works is enough: perhaps only one machine lacks something.
        """
        worker.is_lost = True
        worker.cancel_waits()
        self._failed_setups += 1
        if worker in self.workers:
            self.workers.remove(worker)
        if worker.line is not None:
            worker.line.kill("could not be set up")
        self._failures.append({"worker": worker.name, "why": one_line(text_of(error))})
        self._tell_of_failures()
        never_opened = not self._declared and self._failed_setups >= self._at_once
        if not self.workers or never_opened:
            self._break(error)

    def _tell_of_failures(self) -> None:
        if self._declared:  # if no step opens anywhere, the run raises the error instead
            while self._failures:
                self._on_event("worker_failed", self._failures.pop(0))

    def _break(self, error: BaseException) -> None:
        self._broken = error
        self._wake()

    # ---- workers for cells ----------------------------------------------------------------------

    async def worker_for(self, step: str, *, alone: bool = False) -> CrewWorker:
        """Claim the worker with the fewest cells for one more, until `release`.

        Args:
            step: The step of the cell.
            alone: Whether to reserve the worker, and wait until it has no other cell.
        """
        while True:
            worker = await self._claimed(step, alone=alone)
            if not alone:
                return worker
            try:
                await worker.wait_until_idle(rest=1)
            except BaseException:
                self.release(worker, step, alone=True)
                raise
            # Beside the thread of an abandoned call, the cell would not be alone.
            if not (worker.is_lost or worker.is_retiring):
                return worker
            self.release(worker, step, alone=True)

    async def _claimed(self, step: str, *, alone: bool) -> CrewWorker:
        if (best := self._best(step)) is not None:
            return self._claim(best, step, alone=alone)
        if self._broken is not None:
            raise self._broken
        waiting: asyncio.Future[CrewWorker] = self._loop.create_future()
        self._waiting.append((step, alone, waiting))
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():  # in the same turn
                self.release(waiting.result(), step, alone=alone)
            raise

    def release(self, worker: CrewWorker, step: str, *, alone: bool = False) -> None:
        """Record that a worker has one cell fewer."""
        worker.load -= 1
        worker.is_reserved &= not alone
        if step in self._plain:
            worker.has_plain = False
        worker.wake()
        self._wake()

    def _best(self, step: str) -> CrewWorker | None:
        is_plain, best = step in self._plain, None
        for worker in self.workers:
            if worker.takes(step, is_plain=is_plain) and (best is None or worker.load < best.load):
                best = worker
        return best

    def _claim(self, worker: CrewWorker, step: str, *, alone: bool) -> CrewWorker:
        worker.load += 1
        worker.has_plain |= step in self._plain
        worker.is_reserved = alone
        return worker

    def _wake(self) -> None:
        """Give workers to waiting cells, first come, first served."""
        served, self._waiting = self._waiting, deque()
        for step, alone, waiting in served:
            if waiting.done():  # it was cancelled
                continue
            if (best := self._best(step)) is not None:
                waiting.set_result(self._claim(best, step, alone=alone))
            elif self._broken is not None:
                waiting.set_exception(self._broken)
            else:
                self._waiting.append((step, alone, waiting))

    # ---- workers that are replaced --------------------------------------------------------------

    def _lost(self, worker: CrewWorker, lost: Lost) -> None:
        if worker.line is not None:
            self._lines.discard(worker.line)
        if worker.is_lost and worker not in self.workers:
            return
        worker.is_lost = True
        self._on_lost(worker, lost)
        worker.cancel_waits()
        if worker in self.workers:
            self.workers.remove(worker)
        if not self.is_closing:
            self._replace(worker, lost)

    def _replace(self, worker: CrewWorker, lost: Lost) -> None:
        if not worker.opened:  # it died in its set-up
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                never_opened = not self._declared and self._failed_starts >= self._at_once
                if not self.workers or never_opened:
                    self._break(_died_in_setup(worker, lost))
                return
        fresh = CrewWorker()
        self.workers.append(fresh)
        pause_s = 0.0
        if not worker.completed:  # it completed nothing: avoid a tight loop
            pause_s = min(_LONGEST_PAUSE_S, 0.1 * 2.0 ** min(self._failed_starts, 10))
        self._begin_start(fresh, pause_s)

    def retire(self, worker: CrewWorker, threads: int) -> None:
        """Replace a worker in which threads of abandoned calls keep running.

        Nothing can end a thread. It may hold memory, locks and the interpreter forever. So its
        worker gets no more cells, finishes those it has, and is replaced.
        """
        if worker.is_retiring or worker not in self.workers:
            return
        worker.is_retiring = True
        worker.wake()
        facts = {"worker": worker.name, "threads": int(threads), "cells": len(worker.cells)}
        self._on_event("worker_retired", facts)
        self._begin(self._end_retired(worker))

    async def _end_retired(self, worker: CrewWorker) -> None:
        await worker.wait_until_idle(rest=0)
        names = {*worker.opened, *worker.opening, *worker.closing}
        closing = [worker.close_step(name) for name in names]
        if left := [future for future in closing if future is not None]:
            await asyncio.wait(left, timeout=_CLOSING_S)
        if worker.is_lost or worker.line is None:
            return  # already replaced
        worker.is_lost = True
        worker.cancel_waits()
        if self.is_closing:
            return  # it ends with the others
        fresh = self.workers[self.workers.index(worker)] = CrewWorker()
        await worker.line.close()
        self._lines.discard(worker.line)
        self._begin_start(fresh)

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _kill_late(workers: list[CrewWorker], step: str) -> None:
    """End workers whose set-up blocks their event loop though nobody needs it."""
    for worker in workers:
        if step in worker.opening and worker.line is not None and not worker.is_lost:
            worker.line.kill("was killed because its set-up did not end")


def _died_in_setup(worker: CrewWorker, lost: Lost) -> SetupError:
    error = SetupError(
        f"the worker {worker.name} {lost.why} during set-up, the third in a row",
        hint="run without an engine to see why; finished results are kept",
    )
    error.details = lost.details
    return error
