"""What does a crew do when a worker sends a message, or falls silent?

A cell's clock runs only while the cell does. It is stopped until its worker begins it, and while
another cell blocks the worker; a silent worker may be blocked by the cell it began last. A worker
that shows no sign of life at all is killed.
"""

import asyncio
import contextvars
import logging
import sys
from collections.abc import Callable
from typing import Any

from limpet.engines.crew_worker import CrewCell, CrewWorker
from limpet.engines.messages import (
    ANSWER,
    ASK,
    BEGUN,
    BLOCKED,
    CLOSED,
    DONE,
    FREE,
    HUNG,
    LOG,
    OPENED,
    READS,
    TEXT,
    Message,
    Returned,
)
from limpet.engines.outbox import as_reads
from limpet.engines.remote_permits import Desk
from limpet.engines.staffing import Staffing
from limpet.fingerprints.files.audit_hook import replay

SILENCE_S = 15.0
"""How long a worker may show no sign of life."""
_LOOK_EVERY_S = 0.5
_QUIET_S = 1.0  # then the clocks of its cells stop, except the last one's

logger = logging.getLogger("limpet.engines")


class WorkerNews:
    """Handles the messages of a crew's workers.

    Args:
        staffing: The workers.
    """

    def __init__(self, staffing: Staffing) -> None:
        self._staffing = staffing
        self._contexts: dict[str, contextvars.Context] = {}
        self._loop = asyncio.get_running_loop()
        self._looked_at = self._loop.time()
        self._watch = self._loop.call_later(_LOOK_EVERY_S, self._look)
        self._handlers: dict[str, Callable[..., None]] = {
            DONE: self._done,
            BEGUN: self._begun,
            BLOCKED: self._blocked,
            FREE: self._free,
            HUNG: staffing.retire,
            ASK: self._question,
            READS: self._replay,
            OPENED: staffing.opened,
            CLOSED: staffing.closed,
            TEXT: _printed,
            LOG: _logged,
        }

    def attribute(self, step: str) -> None:
        """Attribute files that a step's set-up reads in a worker to this context."""
        self._contexts[step] = contextvars.copy_context()

    def close(self) -> None:
        self._watch.cancel()

    def receive(self, worker: CrewWorker, message: Message) -> None:
        """Handle a message from a worker."""
        if worker.is_lost:
            return  # given up: its cells run elsewhere
        worker.heard_at = self._loop.time()
        if worker.is_quiet:
            worker.is_quiet = False
            self._free(worker)
        if (handle := self._handlers.get(message[0])) is None:
            return
        try:
            handle(worker, *message[1:])
        except Exception as error:  # a worker that was taken over must not block the run
            logger.warning("%s sent an invalid %r", worker.name, message[0], exc_info=True)
            if worker.line is not None:
                worker.line.kill(f"was killed because it sent an invalid message: {error}")

    # ---- cells ----------------------------------------------------------------------------------

    def _begun(self, worker: CrewWorker, numbers: list[int]) -> None:
        for number in numbers:
            if (cell := worker.cells.get(number)) is not None and cell.begun_at is None:
                cell.begun_at = self._loop.time()
                cell.permits.resume()

    def _done(self, worker: CrewWorker, ended: list[Any]) -> None:
        now = self._loop.time()
        for number, *said in ended:
            returned = Returned(*said)
            cell = worker.cells.pop(number, None)
            if cell is None or cell.done.done():
                continue
            worker.completed += 1
            cell.done.set_result(returned)
            # The worker's time is used: the message that it began may arrive with its result.
            waited_s = cell.permits.waited_s(now) - cell.waited_s
            cell.permits.resume(now - cell.sent_at - waited_s - max(0.0, returned.seconds))

    def _question(self, worker: CrewWorker, number: int, question: int, *more: Any) -> None:
        cell = worker.cells.get(number)
        if cell is None:
            return
        if cell.desk is None:
            cell.desk = cell.context.run(Desk, lambda *answer: _answer(worker, *answer))
        cell.context.run(cell.desk.receive, question, *more)

    def _replay(self, worker: CrewWorker, of: int | str, reported: list[Any]) -> None:
        """Record files read by a cell, a step's set-up, or an import, as if read here."""
        reads = as_reads(reported)
        if isinstance(of, str):
            context = self._contexts.get(of) or contextvars.Context()
        elif (cell := worker.cells.get(of)) is not None:
            context = cell.context
        else:  # a task that outlived its cell: attribute it to all
            context, reads = contextvars.Context(), [read._replace(by=None) for read in reads]
        context.copy().run(replay, reads)

    # ---- what blocks a worker -------------------------------------------------------------------

    def _blocked(self, worker: CrewWorker, number: int) -> None:
        """Stop the clocks of the others while a cell blocks its worker's loop."""
        worker.paused = [cell for at, cell in worker.cells.items() if at != number != 0]
        for cell in worker.paused:
            cell.permits.pause()
        self._begun(worker, [number])  # it could not say so itself
        if number in worker.cells:
            worker.cells[number].permits.resume()

    def _free(self, worker: CrewWorker) -> None:
        for cell in worker.paused:
            if cell.worker is worker and cell.begun_at is not None:
                cell.permits.resume()
        worker.paused = []

    def _look(self) -> None:
        """Kill workers that show no sign of life."""
        self._watch = self._loop.call_later(_LOOK_EVERY_S, self._look)
        now = self._loop.time()
        was_away = now - self._looked_at > 4 * _LOOK_EVERY_S  # their messages are still unread
        self._looked_at = now
        for worker in list(self._staffing.workers):
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

    def _quiet(self, worker: CrewWorker, number: int) -> None:
        """Stop the clocks of the others while a worker is silent: its last cell may block it."""
        if not worker.is_quiet and number in worker.cells:
            worker.is_quiet = True
            self._blocked(worker, number)


def give_up(cell: CrewCell, now: float) -> None:
    """Stop the clock of a cell whose worker is lost, and discard its time there."""
    waited_s = cell.permits.waited_s(now) - cell.waited_s  # its clock may have been stopped there
    cell.permits.resume(now - cell.sent_at - waited_s)
    cell.permits.pause()


def _answer(worker: CrewWorker, question: int, granted: bool | str) -> None:  # noqa: FBT001
    if worker.line is not None and not worker.is_lost:
        worker.line.send([(ANSWER, question, granted)])


def _logged(_: CrewWorker, name: str, level: int, text: str) -> None:
    logging.getLogger(name).log(level, "%s", text)


def _printed(_: CrewWorker, stream: str, text: str) -> None:
    """Print a worker's output in this process."""
    into = sys.stdout if stream == "stdout" else sys.stderr
    if into is None:
        return
    try:
        into.write(text)
        into.flush()
    except (OSError, ValueError):  # closed, or a full disk: not the cell's fault
        logger.debug("could not print a worker's output", exc_info=True)
