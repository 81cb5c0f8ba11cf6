"""How do many cells run on a few workers that may die at any time?

The problem. A worker that dies takes with it all the cells that it was running, and mostly one of
them is the reason: it crashes each process that runs it. If each death were charged to all of them,
the neighbours would fail too; if none were, the guilty one would kill workers for ever.

What we do. A cell goes to the worker with the fewest cells. When a worker dies, its cells go to
others, and nobody is charged. A cell whose worker died twice runs alone from then on, in a spare
process: if that dies too, the cell fails for good, and is named. A worker is also given up when it
does not answer a cancellation, or shows no sign of life: it is killed, and replaced.

What a worker said before it died counts. Whatever a worker says that was given up does not: its
cells run elsewhere by then, and the first result is the only one.
"""

import asyncio
import contextvars
import itertools
import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from limpet.engines.file_reports import as_reads
from limpet.engines.leave_elsewhere import Desk
from limpet.engines.line import Line, Lost, StartLine
from limpet.engines.messages import (
    ANSWER,
    ASK,
    BEGUN,
    BLOCKED,
    CANCEL,
    CELL,
    CLOSE,
    CLOSED,
    DONE,
    FREE,
    LOG,
    OPEN,
    OPENED,
    READS,
    TEXT,
    Message,
    Returned,
)
from limpet.engines.packed_errors import unpacked_error
from limpet.engines.sent_steps import SentStep
from limpet.errors import SetupError, WorkerDiedError
from limpet.fingerprints.files.audit_hook import replay
from limpet.pacing.leave import Leave, current_leave

CANCEL_GRACE_S = 0.9
"""How long a worker has to answer a cancellation: a little less than a cancelled call has."""
SILENCE_S = 15.0
"""How long a worker may show no sign of life."""
_LOOK_EVERY_S = 0.5
_QUIET_S = 1.0  # then the time of its cells stands still, but for the last
_DEATHS_TOGETHER = 2  # then a cell runs alone
_FAILED_STARTS = 3  # in a row, then no more workers are started
_LONGEST_PAUSE_S = 5.0
_MOST_NAMED = 100

logger = logging.getLogger("limpet.engines")

Taken = Callable[[str], None]
"""Called with the name of a worker that takes a cell."""
OnEvent = Callable[[str, dict[str, Any]], None]
"""Called with an event of a worker: its name, and what there is to say."""


class _Cell:
    """A cell that a worker has, or that waits for one."""

    __slots__ = (
        "begun_at", "context", "deaths", "desk", "done", "leave", "sent_at", "waited_s", "who",
        "worker",
    )  # fmt: skip

    def __init__(self, who: str, leave: Leave, context: contextvars.Context) -> None:
        self.who = who
        self.leave = leave
        self.context = context
        self.deaths = 0
        self.sent_at = self.waited_s = 0.0
        self.begun_at: float | None = None
        self.desk: Desk | None = None
        self.worker: _Worker | None = None
        self.done: asyncio.Future[Returned | Lost]


class _Worker:
    """A worker, and what it has."""

    def __init__(self) -> None:
        self.line: Line | None = None
        self.cells: dict[int, _Cell] = {}
        self.opened: set[str] = set()
        self.opening: dict[str, asyncio.Future[None]] = {}
        self.closing: dict[str, asyncio.Future[Any]] = {}
        self.is_lost = self.is_quiet = False
        self.is_spare = self.is_busy = False
        self.completed = 0
        self.heard_at = 0.0
        self.paused: list[_Cell] = []

    @property
    def name(self) -> str:
        return "a worker" if self.line is None else self.line.name


class Crew:
    """A few workers that run the cells of some steps.

    Args:
        size: How many workers there are.
        start: Starts one.
        on_event: Told of workers that start and are lost.
    """

    def __init__(self, size: int, start: StartLine, on_event: OnEvent) -> None:
        self.size = size
        self._start_line = start
        self._on_event = on_event
        self._workers: list[_Worker] = []
        self._spares: list[_Worker] = []
        self._lines: set[Line] = set()  # also to workers that were given up, until they are gone
        self._alone = asyncio.Semaphore(size)
        self._steps: dict[str, SentStep] = {}
        self._contexts: dict[str, contextvars.Context] = {}
        self._told: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._numbers = itertools.count(1)
        self._waiting: deque[tuple[str, asyncio.Future[_Worker]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed_starts = 0
        self._broken: BaseException | None = None
        self._is_closing = False
        self._watch: asyncio.TimerHandle | None = None
        self._hearing: dict[str, Callable[..., None]] = {
            DONE: self._done,
            BEGUN: self._begun,
            BLOCKED: self._blocked,
            FREE: self._free,
            ASK: self._asked,
            READS: self._replay,
            OPENED: self._opened,
            CLOSED: self._closed,
            TEXT: self._printed,
            LOG: self._logged,
        }

    # ---- steps ----------------------------------------------------------------------------------

    @property
    def ready(self) -> int:
        """How many workers can take cells."""
        return sum(bool(worker.opened) and not worker.is_lost for worker in self._workers)

    async def open(self, sent: SentStep) -> tuple[list[str], dict[str, str]]:
        """Open a step in all workers; return when the first one has.

        Returns:
            The secrets that the step declares there, and variables that it set.

        Raises:
            Exception: It cannot be opened in any worker.
        """
        self._loop = asyncio.get_running_loop()
        self._steps[sent.name] = sent
        self._contexts[sent.name] = contextvars.copy_context()
        if not self._workers:
            self._workers = [_Worker() for _ in range(self.size)]
            self._looked_at = self._loop.time()
            self._watch = self._loop.call_later(_LOOK_EVERY_S, self._look)
            for worker in self._workers:
                self._begin(self._start(worker))
        else:
            for worker in [*self._workers, *self._spares]:
                self._open_in(worker, sent)
        await self._worker_for(sent.name)
        return self._told.get(sent.name, ([], {}))

    def _open_in(self, worker: _Worker, sent: SentStep) -> None:
        if worker.line is not None and not worker.is_lost:
            main = None if sent.main is None else tuple(sent.main)
            worker.opening[sent.name] = self._loop.create_future()
            parts = dict(sent.identity)
            worker.line.send([(OPEN, sent.name, sent.who, sent.step, main, parts)])

    async def _start(self, worker: _Worker, pause_s: float = 0.0) -> None:
        """Start a worker, and open all steps in it."""
        if pause_s:
            await asyncio.sleep(pause_s)
        try:
            line = await self._start_line(
                lambda message: self._heard(worker, message),
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
            self._open_in(worker, sent)

    def _opened(self, worker: _Worker, name: str, packed: Any, *told: Any) -> None:
        opening = worker.opening.pop(name, None)
        if packed is not None:
            error = unpacked_error(packed)
            if opening is not None and not opening.done():
                opening.cancel()
            self._failed(worker, error)
            return
        worker.opened.add(name)
        self._told.setdefault(name, (told[0], told[1]))
        if opening is not None and not opening.done():
            opening.set_result(None)
        if not worker.is_spare:
            self._failed_starts = 0
            self._give_out(name)

    def _failed(self, worker: _Worker, error: BaseException) -> None:
        """Give up a worker in which a step cannot be opened; without any other, that is an error.

        One that works is enough: the set-up may fail for want of something on one machine.
        """
        worker.is_lost = True
        if worker in self._workers:
            self._workers.remove(worker)
        if worker.line is not None:
            worker.line.kill("could not be set up")
        self._on_event("worker_failed", {"worker": worker.name, "why": f"{type(error).__name__}"})
        if not self._workers:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        self._broken = error
        while self._waiting:
            _, waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(error)

    async def close_step(self, name: str) -> None:
        """Close a step in all workers, and end the workers with the last one.

        Raises:
            Exception: Closing it failed in a worker; the first failure.
        """
        self._steps.pop(name, None)
        if not self._steps:
            self._is_closing = True
        closing: list[asyncio.Future[Any]] = []
        for worker in [*self._workers, *self._spares]:
            is_there = name in worker.opened or name in worker.opening
            if is_there and worker.line is not None and not worker.is_lost:
                worker.opened.discard(name)
                worker.closing[name] = self._loop.create_future()
                closing.append(worker.closing[name])
                worker.line.send([(CLOSE, name)])
        try:
            if closing:
                await asyncio.wait(closing)
        finally:
            if not self._steps:
                await self._end()

    async def _end(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for task in list(self._tasks):
            task.cancel()
        self._workers, self._spares = [], []
        await asyncio.gather(*(line.close() for line in self._lines))
        self._lines.clear()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # ---- cells ----------------------------------------------------------------------------------

    async def call(
        self, step: str, who: str, argument: bytes, taken: Taken | None = None
    ) -> Returned:
        """Run a cell in a worker.

        Args:
            step: The name of its step.
            who: The cell's name in messages.
            argument: What the step is called with.
            taken: Called with the name of each worker that takes it.

        Raises:
            WorkerDiedError: Each worker that ran it died, the last one alone with it.
        """
        cell = _Cell(who, current_leave(), contextvars.copy_context())
        cell.leave.pause()
        try:
            while True:
                alone = cell.deaths >= _DEATHS_TOGETHER
                worker = await (self._spare_for(step) if alone else self._worker_for(step))
                if taken is not None:
                    taken(worker.name)
                try:
                    returned = await self._run(worker, step, cell, argument)
                finally:
                    if alone:
                        self._give_back(worker)
                if isinstance(returned, Returned):
                    return returned
                # A worker tells of a suspect before it begins: if it did not, others killed it.
                if cell.deaths and cell.begun_at is None:
                    continue
                cell.deaths += 1
                if alone and not returned.blames_nobody:
                    raise _died(who, returned)
        finally:
            cell.leave.resume()

    async def _run(
        self, worker: _Worker, step: str, cell: _Cell, argument: bytes
    ) -> Returned | Lost:
        number = next(self._numbers)
        cell.worker, cell.begun_at = worker, None
        cell.sent_at = self._loop.time()
        cell.waited_s = cell.leave.waited_s(cell.sent_at)
        cell.done = self._loop.create_future()
        assert worker.line is not None
        worker.cells[number] = cell
        worker.line.send([(CELL, number, step, argument, cell.deaths > 0)])
        try:
            return await cell.done
        except asyncio.CancelledError:
            await self._cancel(worker, number, cell)
            raise
        finally:
            worker.cells.pop(number, None)
            if cell.desk is not None:
                cell.desk.close()
                cell.desk = None

    async def _cancel(self, worker: _Worker, number: int, cell: _Cell) -> None:
        """Have a worker end a cell; one that does not answer is killed."""
        if worker.is_lost or worker.line is None:
            return
        cell.done = self._loop.create_future()  # the other one was cancelled
        cell.begun_at = None
        worker.line.send([(CANCEL, number)])
        kill = self._loop.call_later(CANCEL_GRACE_S, self._kill_deaf, worker)
        try:
            await cell.done
        finally:
            if cell.done.done() and not cell.done.cancelled():
                kill.cancel()

    def _kill_deaf(self, worker: _Worker) -> None:
        if worker.line is not None and not worker.is_lost:
            worker.line.kill("was killed because it did not answer a cancellation")

    # ---- workers for cells ----------------------------------------------------------------------

    async def _worker_for(self, step: str) -> _Worker:
        """Return the worker with the fewest cells; wait until there is one."""
        while True:
            best: _Worker | None = None
            for worker in self._workers:
                is_ready = step in worker.opened and not worker.is_lost
                if is_ready and (best is None or len(worker.cells) < len(best.cells)):
                    best = worker
            if best is not None:
                return best
            if self._broken is not None:
                raise self._broken
            waiting: asyncio.Future[_Worker] = self._loop.create_future()
            self._waiting.append((step, waiting))
            await waiting

    def _give_out(self, step: str) -> None:
        """Wake the cells that wait for a worker."""
        still: deque[tuple[str, asyncio.Future[_Worker]]] = deque()
        while self._waiting:
            wanted, waiting = self._waiting.popleft()
            if wanted != step:
                still.append((wanted, waiting))
            elif not waiting.done():
                waiting.set_result(None)  # type: ignore[arg-type]  # it looks itself
        self._waiting = still

    async def _spare_for(self, step: str) -> _Worker:
        """Return a worker that has no cell, and will get no other."""
        await self._alone.acquire()
        try:
            return await self._new_spare(step)
        except BaseException:
            self._alone.release()
            raise

    async def _new_spare(self, step: str) -> _Worker:
        for spare in self._spares:
            if not (spare.is_busy or spare.is_lost) and step in spare.opened:
                spare.is_busy = True
                return spare
        for _ in range(_FAILED_STARTS):
            spare = _Worker()
            spare.is_spare = spare.is_busy = True
            self._spares.append(spare)
            await self._start(spare)
            if (opening := spare.opening.get(step)) is not None:
                await asyncio.wait({opening})
                if step in spare.opened and not spare.is_lost:
                    return spare
        raise SetupError("a spare worker could not be set up", hint="see the log")

    def _give_back(self, spare: _Worker) -> None:
        spare.is_busy = False
        if spare.is_lost and spare in self._spares:
            self._spares.remove(spare)
        self._alone.release()

    # ---- news -----------------------------------------------------------------------------------

    def _heard(self, worker: _Worker, message: Message) -> None:
        if worker.is_lost:
            return  # given up: its cells run elsewhere
        worker.heard_at = self._loop.time()
        if worker.is_quiet:
            worker.is_quiet = False
            self._free(worker)
        if (hear := self._hearing.get(message[0])) is not None:
            hear(worker, *message[1:])

    def _done(self, worker: _Worker, number: int, *returned: Any) -> None:
        cell = worker.cells.pop(number, None)
        if cell is not None and not cell.done.done():
            worker.completed += 1
            cell.done.set_result(done := Returned(*returned))
            # Its time is what the worker says: news of its beginning may come with its end.
            now = self._loop.time()
            waited_s = cell.leave.waited_s(now) - cell.waited_s
            cell.leave.resume(now - cell.sent_at - waited_s - max(0.0, done.seconds))

    def _blocked(self, worker: _Worker, number: int) -> None:
        """Stop the time of the others while a cell blocks the loop of its worker."""
        worker.paused = [cell for at, cell in worker.cells.items() if at != number != 0]
        for cell in worker.paused:
            cell.leave.pause()
        self._begun(worker, [number])  # it could not say so itself
        if number in worker.cells:
            worker.cells[number].leave.resume()

    def _quiet(self, worker: _Worker, number: int) -> None:
        """Stop the time of the others while a worker is silent: its last cell may be the reason."""
        if not worker.is_quiet and number in worker.cells:
            worker.is_quiet = True
            self._blocked(worker, number)

    def _free(self, worker: _Worker) -> None:
        for cell in worker.paused:
            if cell.worker is worker and cell.begun_at is not None:
                cell.leave.resume()
        worker.paused = []

    def _closed(self, worker: _Worker, step: str, failure: Any) -> None:
        if (closing := worker.closing.pop(step, None)) is not None:
            closing.set_result(failure)

    def _logged(self, _: _Worker, name: str, level: int, text: str) -> None:
        logging.getLogger(name).log(level, "%s", text)

    def _printed(self, _: _Worker, stream: str, text: str) -> None:
        _write(stream, text)

    def _begun(self, worker: _Worker, numbers: list[int]) -> None:
        for number in numbers:
            if (cell := worker.cells.get(number)) is not None and cell.begun_at is None:
                cell.begun_at = self._loop.time()
                cell.leave.resume()

    def _asked(self, worker: _Worker, number: int, question: int, *more: Any) -> None:
        cell = worker.cells.get(number)
        if cell is None:
            return
        if cell.desk is None:
            cell.desk = cell.context.run(Desk, lambda *answer: self._answer(worker, *answer))
        cell.context.run(cell.desk.hear, question, *more)

    def _answer(self, worker: _Worker, question: int, granted: bool) -> None:  # noqa: FBT001 - as asked
        if worker.line is not None and not worker.is_lost:
            worker.line.send([(ANSWER, question, granted)])

    def _replay(self, worker: _Worker, of: int | str, reported: list[Any]) -> None:
        """Record what a cell read, or a step's set-up, or an import, as if it happened here."""
        reads = as_reads(reported)
        if isinstance(of, str):
            context = self._contexts.get(of) or contextvars.Context()
        elif (cell := worker.cells.get(of)) is not None:
            context = cell.context
        else:  # a task that outlived its cell: it counts for all
            context, reads = contextvars.Context(), [read._replace(by=None) for read in reads]
        context.copy().run(replay, reads)

    def _lost(self, worker: _Worker, lost: Lost) -> None:
        if worker.line is not None:
            self._lines.discard(worker.line)
        if worker.is_lost and worker not in self._workers:
            return
        worker.is_lost = True
        cells, worker.cells = worker.cells, {}
        now = self._loop.time()
        facts = {"worker": worker.name, "why": lost.why, "cells": len(cells)}
        facts["had"] = [cell.who for cell in itertools.islice(cells.values(), _MOST_NAMED)]
        self._on_event("worker_lost", facts)
        for cell in cells.values():
            cell.leave.resume(now - cell.begun_at if cell.begun_at is not None else 0.0)
            cell.leave.pause()
            if not cell.done.done():
                cell.done.set_result(lost)
        for future in (*worker.opening.values(), *worker.closing.values()):
            if not future.done():
                future.cancel()
        if worker.is_spare:
            return
        if worker in self._workers:
            self._workers.remove(worker)
        if not self._is_closing:
            self._replace(worker, lost)

    def _replace(self, worker: _Worker, lost: Lost) -> None:
        if not worker.opened:  # it died in its set-up
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                if not self._workers:
                    self._break(_died_in_setup(worker, lost))
                return
        fresh = _Worker()
        self._workers.append(fresh)
        pause_s = 0.0
        if not worker.completed:  # it did nothing: do not spin
            pause_s = min(_LONGEST_PAUSE_S, 0.1 * 2.0 ** min(self._failed_starts, 10))
        self._begin(self._start(fresh, pause_s))

    def _look(self) -> None:
        """Kill workers that show no sign of life."""
        self._watch = self._loop.call_later(_LOOK_EVERY_S, self._look)
        now = self._loop.time()
        was_away = now - self._looked_at > 4 * _LOOK_EVERY_S  # what they said is not read yet
        self._looked_at = now
        for worker in [*self._workers, *self._spares]:
            if worker.line is None or worker.is_lost:
                continue
            if now - worker.heard_at > _QUIET_S and not was_away:
                self._quiet(worker, worker.line.last_begun())
            if was_away or worker.line.is_working():
                worker.heard_at = max(worker.heard_at, now - SILENCE_S / 2)
            if now - worker.heard_at > SILENCE_S:
                worker.line.kill(
                    f"was killed because it showed no sign of life for {SILENCE_S:g} s"
                )

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _died(who: str, lost: Lost) -> WorkerDiedError:
    error = WorkerDiedError(
        f"{who}: the process that ran it {lost.why}; so did two others before, this one had no "
        "other item",
        hint="run this item alone to see why; all others are not affected",
    )
    error.details = lost.details
    return error


def _died_in_setup(worker: _Worker, lost: Lost) -> SetupError:
    error = SetupError(
        f"{worker.name} {lost.why} while it was being set up, and so did {_FAILED_STARTS - 1} "
        "before",
        hint="run it without an engine to see why; finished results are kept",
    )
    error.details = lost.details
    return error


def _write(stream: str, text: str) -> None:
    """Write what a worker printed where this process prints."""
    into = sys.stdout if stream == "stdout" else sys.stderr
    if into is None:
        return
    try:
        into.write(text)
        into.flush()
    except (OSError, ValueError):  # closed, or a full disk: that is no fault of the cell
        logger.debug("could not write what a worker printed", exc_info=True)
