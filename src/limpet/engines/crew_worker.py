"""What does a crew know of one of its workers, and of a cell that it gave to one?"""

import asyncio
import contextvars
from collections.abc import Callable

from limpet.engines.leave_elsewhere import Desk
from limpet.engines.messages import CLOSE, OPEN, Line, Lost, Returned
from limpet.engines.sent_steps import SentStep
from limpet.pacing.leave import Leave


class CrewCell:
    """A cell that a worker has, or that waits for one.

    Attributes:
        step: The name of its step.
        who: Its name in messages.
        leave: The leave of its attempt, whose time stands still while no worker runs it.
        context: The context of its attempt.
        deaths: How many workers died while they had it.
        begun_at: When its worker began it; None: not yet, as far as is known.
        done: What it returned, or how its worker was lost.
    """

    __slots__ = (
        "begun_at", "context", "deaths", "desk", "done", "leave", "sent_at", "step", "waited_s",
        "who", "worker",
    )  # fmt: skip

    def __init__(self, step: str, who: str, leave: Leave, context: contextvars.Context) -> None:
        self.step = step
        self.who = who
        self.leave = leave
        self.context = context
        self.deaths = 0
        self.sent_at = self.waited_s = 0.0
        self.begun_at: float | None = None
        self.desk: Desk | None = None
        self.worker: CrewWorker | None = None
        self.done: asyncio.Future[Returned | Lost]


class CrewWorker:
    """A worker, and what it has.

    Attributes:
        line: The way to it; None: it is not started yet.
        cells: What it was given, by number.
        opened: The steps that are open in it.
        opening: For each step, done when it is open, cancelled when that failed.
        closing: For each step, done when it is closed, cancelled when the worker was lost before.
        idle: Done when it has no more cells; None: it is not retired, and gets others.
        room: How many cells it may have while calls that compute keep it busy; 0: any number.
        is_lost: Whether it was given up: what it says does not count.
        is_quiet: Whether it was silent for a while, so that the time of its cells stands still.
        is_spare: Whether it runs one suspect at a time: a cell that may have killed a worker.
        is_busy: Whether a spare worker runs a suspect.
        completed: How many cells it completed.
        heard_at: When it last showed a sign of life.
        paused: The cells whose time stands still because another one blocks the worker.
    """

    def __init__(self) -> None:
        self.line: Line | None = None
        self.cells: dict[int, CrewCell] = {}
        self.opened: set[str] = set()
        self.opening: dict[str, asyncio.Future[None]] = {}
        self.closing: dict[str, asyncio.Future[None]] = {}
        self.idle: asyncio.Future[None] | None = None
        self.is_lost = self.is_quiet = False
        self.is_spare = self.is_busy = False
        self.room = 0
        self.completed = 0
        self.heard_at = 0.0
        self.paused: list[CrewCell] = []

    # ---- its steps ------------------------------------------------------------------------------

    def open_step(self, sent: SentStep) -> None:
        """Have it open a step, unless it is lost or not started yet."""
        if self.line is not None and not self.is_lost:
            main = None if sent.main is None else tuple(sent.main)
            self.opening[sent.name] = asyncio.get_running_loop().create_future()
            parts = dict(sent.identity)
            self.line.send([(OPEN, sent.name, sent.who, sent.step, main, parts)])

    def close_step(self, name: str, *, gives_up: bool = False) -> asyncio.Future[None] | None:
        """Have it close a step.

        Args:
            name: The step.
            gives_up: Whether a set-up that still runs is cancelled.

        Returns:
            What is done when it has; None: it has no such step.
        """
        is_there = (name in self.opened or name in self.opening) and not self.is_lost
        if is_there and self.line is not None and name not in self.closing:
            self.opened.discard(name)
            self.closing[name] = asyncio.get_running_loop().create_future()
            self.line.send([(CLOSE, name, gives_up)])
        return self.closing.get(name)

    # ---- its cells ------------------------------------------------------------------------------

    def forget(self, number: int) -> None:
        """Note that a cell has ended, or was taken back."""
        self.cells.pop(number, None)
        if self.idle is not None and not self.cells and not self.idle.done():
            self.idle.set_result(None)

    def cancel_waits(self) -> None:
        """Wake whoever waits for something that it was to do: it is lost."""
        idle = () if self.idle is None else (self.idle,)
        for future in (*self.opening.values(), *self.closing.values(), *idle):
            if not future.done():
                future.cancel()

    @property
    def has_room(self) -> bool:
        """Whether it may get another cell."""
        return not self.room or len(self.cells) < self.room

    @property
    def name(self) -> str:
        return "a worker" if self.line is None else self.line.name


# ---- What happens to a worker in which the thread of an abandoned call keeps running? -----------
#
# Nothing can end a thread. This one may hold memory, locks and the interpreter for ever. So its
# worker is retired: it gets no more cells and finishes those it has, a successor takes its place,
# and in the end its process is closed, whatever its threads do.

_CLOSING_S = 10.0  # how long a retired worker has to close its steps


class Retirement:
    """The retired workers of a crew.

    Args:
        most: How many may be finishing their cells while their successors already work.
        overlaps: Whether a successor starts while the retired worker still runs, not after it.
        start: Starts a successor.

    Attributes:
        workers: Those that only finish what they have.
    """

    def __init__(self, most: int, start: Callable[[CrewWorker], None], *, overlaps: bool) -> None:
        self.workers: list[CrewWorker] = []
        self._start = start
        self._overlaps = overlaps
        self._slots = asyncio.Semaphore(most)

    def add(self, worker: CrewWorker) -> None:
        """Note that a worker gets no more cells."""
        worker.idle = asyncio.get_running_loop().create_future()
        if not worker.cells:
            worker.idle.set_result(None)
        self.workers.append(worker)

    async def end(self, worker: CrewWorker, successor: CrewWorker | None) -> None:
        """Close a worker when it has no more cells; start its successor, if it has one."""
        assert worker.idle is not None
        async with self._slots:
            if successor is not None and self._overlaps:
                self._start(successor)
            await asyncio.wait({worker.idle})
            if not worker.is_lost:
                await self._close(worker)
            self.workers = [other for other in self.workers if other is not worker]
        if successor is not None and not self._overlaps:
            self._start(successor)

    async def _close(self, worker: CrewWorker) -> None:
        assert worker.line is not None
        names = {*worker.opened, *worker.opening, *worker.closing}
        closing = [worker.close_step(name) for name in names]
        if left := [future for future in closing if future is not None]:
            await asyncio.wait(left, timeout=_CLOSING_S)
        worker.is_lost = True
        worker.cancel_waits()
        await worker.line.close()
