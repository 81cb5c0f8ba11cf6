"""How do many cells run on a few workers that may die at any time?

The problem. A worker that dies takes all its cells with it, and usually one of them is the cause:
it crashes every process that runs it. If each death were charged to all cells, the neighbours would
fail too; if it were charged to none, the guilty one would kill workers forever.

What we do. A cell goes to the worker with the fewest cells. Plain functions would share one
interpreter, so a worker runs one at a time. When a worker dies, its cells go to others, and no cell
is charged. A cell whose workers died twice runs alone from then on; if that worker dies too, the
cell fails for good, and the error names it. A worker that ignores a cancellation or shows no sign
of life is killed and replaced. If the thread of an abandoned call keeps running, its worker
finishes its cells and is replaced.

Messages that a worker sent before it died are used. Messages after it was given up are ignored: its
cells run elsewhere by then, and each has only one result.

`staffing` starts and replaces workers, `worker_news` handles their messages, and a `line` carries
the messages.
"""

import asyncio
import contextvars
import itertools
from collections.abc import Callable

from limpet.engines.crew_worker import CrewCell, CrewWorker
from limpet.engines.messages import CANCEL, CELL, Lost, Message, Returned, StartLine
from limpet.engines.sent_steps import SentStep
from limpet.engines.staffing import OnEvent, Staffing
from limpet.engines.worker_news import WorkerNews, give_up
from limpet.errors import WorkerDiedError
from limpet.pacing.permits import current_permits

CANCEL_GRACE_S = 0.9
"""How long a worker has to answer a cancellation: slightly less than a cancelled call has."""
_DEATHS_TOGETHER = 2  # then a cell runs alone
_MOST_NAMED = 100

Taken = Callable[[str], None]
"""Called with the name of the worker that takes a cell."""


class Crew:
    """A few workers that run the cells of some steps.

    Args:
        size: How many workers there are.
        start: Starts one.
        on_event: Called when workers start or are lost.
        at_once: How many may be starting at a time; None: all.
    """

    def __init__(
        self,
        size: int,
        start: StartLine,
        on_event: OnEvent,
        at_once: int | None = None,
    ) -> None:
        self.size = size
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._staffing = Staffing(
            size,
            at_once or size,
            start,
            on_event,
            self._heard,
            self._lost,
        )
        self._news = WorkerNews(self._staffing)

    @property
    def ready(self) -> int:
        """How many workers can take cells."""
        return self._staffing.ready

    async def open(self, sent: SentStep) -> tuple[list[str], dict[str, str]]:
        """Open a step in all workers; return when it is open in the first.

        Returns:
            The secrets the step declares in a worker, and the variables it set there.

        Raises:
            Exception: It cannot be opened in any worker.
        """
        self._news.attribute(sent.name)
        return await self._staffing.open(sent)

    async def close_step(self, name: str) -> None:
        """Close a step in all workers. The last step ends the workers."""
        try:
            await self._staffing.close_step(name)
        finally:
            if self._staffing.is_closing:
                self._news.close()

    # ---- cells ----------------------------------------------------------------------------------

    async def call(
        self, step: str, who: str, argument: bytes, taken: Taken | None = None
    ) -> Returned:
        """Run a cell in a worker.

        Args:
            step: The name of its step.
            who: The cell's name in messages.
            argument: The argument of the step's call, packed.
            taken: Called with the name of each worker that takes it.

        Raises:
            WorkerDiedError: Each worker that ran it died, the last one alone with it.
        """
        staffing = self._staffing
        cell = CrewCell(step, who, current_permits(), contextvars.copy_context())
        cell.permits.pause()
        try:
            while True:
                alone = cell.deaths >= _DEATHS_TOGETHER
                worker = await staffing.worker_for(step, alone=alone)
                try:
                    if taken is not None:
                        taken(worker.name)
                    returned = await self._run(worker, step, cell, argument)
                finally:
                    staffing.release(worker, step, alone=alone)
                if isinstance(returned, Returned):
                    return returned
                # A worker announces a suspect before it starts. If not, another cell is guilty.
                if cell.deaths and cell.begun_at is None:
                    continue
                cell.deaths += 1
                if alone and not returned.blames_nobody:
                    raise _died(who, returned)
        finally:
            cell.permits.resume()

    async def _run(
        self, worker: CrewWorker, step: str, cell: CrewCell, argument: bytes
    ) -> Returned | Lost:
        number = next(self._numbers)
        cell.worker, cell.begun_at = worker, None
        cell.sent_at = self._loop.time()
        cell.waited_s = cell.permits.waited_s(cell.sent_at)
        cell.done = self._loop.create_future()
        assert worker.line is not None
        worker.cells[number] = cell
        worker.line.send([(CELL, number, step, argument, cell.deaths > 0)])
        try:
            return await cell.done
        except asyncio.CancelledError:
            if cell.done.cancelled():  # otherwise it ended in the same turn: no answer will come
                await self._cancel(worker, number, cell)
            raise
        finally:
            worker.cells.pop(number, None)
            if cell.desk is not None:
                cell.desk.close()
                cell.desk = None

    async def _cancel(self, worker: CrewWorker, number: int, cell: CrewCell) -> None:
        """Have a worker cancel a cell; kill the worker if it does not answer."""
        if worker.is_lost or worker.line is None:
            return
        cell.done = self._loop.create_future()  # the other one was cancelled
        cell.begun_at = None
        worker.line.send([(CANCEL, number)])
        kill = self._loop.call_later(CANCEL_GRACE_S, _kill_deaf, worker)
        try:
            await cell.done
        finally:
            if cell.done.done() and not cell.done.cancelled():
                kill.cancel()

    def _heard(self, worker: CrewWorker, message: Message) -> None:
        self._news.receive(worker, message)

    def _lost(self, worker: CrewWorker, lost: Lost) -> None:
        """Take back the cells of a lost worker."""
        cells, worker.cells = worker.cells, {}
        facts = {"worker": worker.name, "why": lost.why, "cells": len(cells)}
        had = itertools.islice(cells.values(), _MOST_NAMED)
        facts["had"] = [f"{cell.step}: {cell.who}" for cell in had]
        self._on_event("worker_lost", facts)
        now = self._loop.time()
        for cell in cells.values():
            give_up(cell, now)
            if not cell.done.done():
                cell.done.set_result(lost)


def _kill_deaf(worker: CrewWorker) -> None:
    if worker.line is not None and not worker.is_lost:
        worker.line.kill("was killed because it did not answer a cancellation")


def _died(who: str, lost: Lost) -> WorkerDiedError:
    error = WorkerDiedError(
        f"{who}: the process that ran it {lost.why}; it ran alone there, after two other processes "
        "had died while running it",
        hint="run this item alone to see why; no other item is affected",
    )
    error.details = lost.details
    return error
