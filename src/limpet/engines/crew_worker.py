"""What does a crew know about each of its workers, and about each cell?"""

import asyncio
import contextvars

from limpet.engines.messages import CLOSE, OPEN, Lost, Returned, WorkerLine
from limpet.engines.remote_permits import Desk
from limpet.engines.sent_steps import SentStep
from limpet.pacing.permits import Permits


class CrewCell:
    """A cell that a worker has, or that waits for one.

    Attributes:
        step: The name of its step.
        who: Its name in messages.
        permits: The permits of its attempt, whose clock stops while no worker runs it.
        context: The context of its attempt.
        deaths: How many workers died while they had it.
        begun_at: When its worker began it; None: not yet, as far as we know.
        done: Its result, or how its worker was lost.
    """

    __slots__ = (
        "begun_at", "context", "deaths", "desk", "done", "permits", "sent_at", "step", "waited_s",
        "who", "worker",
    )  # fmt: skip

    def __init__(self, step: str, who: str, permits: Permits, context: contextvars.Context) -> None:
        self.step = step
        self.who = who
        self.permits = permits
        self.context = context
        self.deaths = 0
        self.sent_at = self.waited_s = 0.0
        self.begun_at: float | None = None
        self.desk: Desk | None = None
        self.worker: CrewWorker | None = None
        self.done: asyncio.Future[Returned | Lost]


class CrewWorker:
    """A worker, with its steps and cells.

    Attributes:
        line: The connection to it; None: it has not started yet.
        cells: Its cells, by number.
        opened: The steps that are open in it.
        opening: By step: done when it is open, cancelled if opening failed.
        closing: By step: done when it is closed, cancelled if the worker was lost first.
        load: How many cells it has, or is about to get.
        has_plain: Whether one of them is a plain function: it gets no second one.
        is_reserved: Whether it is reserved for a suspect: a cell that may have killed a worker.
        idle: Done when it has fewer cells; None: nobody waits for that.
        is_retiring: Whether it gets no more cells, because a thread of an abandoned call stays.
        is_lost: Whether it was given up: its messages are ignored.
        is_quiet: Whether it has been silent for a while, and the clocks of its cells are stopped.
        completed: How many cells it completed.
        heard_at: When it last showed a sign of life.
        paused: The cells whose clocks are stopped because another cell blocks the worker.
    """

    def __init__(self) -> None:
        self.line: WorkerLine | None = None
        self.cells: dict[int, CrewCell] = {}
        self.opened: set[str] = set()
        self.opening: dict[str, asyncio.Future[None]] = {}
        self.closing: dict[str, asyncio.Future[None]] = {}
        self.idle: asyncio.Future[None] | None = None
        self.load = self.completed = 0
        self.has_plain = self.is_reserved = self.is_retiring = False
        self.is_lost = self.is_quiet = False
        self.heard_at = 0.0
        self.paused: list[CrewCell] = []

    # ---- its steps ------------------------------------------------------------------------------

    def open_step(self, sent: SentStep) -> None:
        """Have it open a step, unless it is lost or has not started."""
        if self.line is not None and not self.is_lost:
            main = None if sent.main is None else tuple(sent.main)
            self.opening[sent.name] = asyncio.get_running_loop().create_future()
            parts = dict(sent.identity)
            self.line.send([(OPEN, sent.name, sent.who, sent.step, main, parts)])

    def close_step(self, name: str, *, gives_up: bool = False) -> asyncio.Future[None] | None:
        """Have it close a step.

        Args:
            name: The step.
            gives_up: Whether to cancel a set-up that is still running.

        Returns:
            A future, done when the step is closed; None: it has no such step.
        """
        is_there = (name in self.opened or name in self.opening) and not self.is_lost
        if is_there and self.line is not None and name not in self.closing:
            self.opened.discard(name)
            self.closing[name] = asyncio.get_running_loop().create_future()
            self.line.send([(CLOSE, name, gives_up)])
        return self.closing.get(name)

    # ---- its cells ------------------------------------------------------------------------------

    def takes(self, step: str, *, is_plain: bool) -> bool:
        """Return whether it can take a cell of this step."""
        is_open = step in self.opened and not (self.is_lost or self.is_retiring or self.is_reserved)
        return is_open and not (is_plain and self.has_plain)

    async def wait_until_idle(self, rest: int) -> None:
        """Wait until it has at most `rest` cells, or is lost, or retires while `rest` is not 0."""
        while self.load > rest and not (self.is_lost or (rest and self.is_retiring)):
            if self.idle is None or self.idle.done():
                self.idle = asyncio.get_running_loop().create_future()
            await asyncio.wait({self.idle})

    def cancel_waits(self) -> None:
        """Wake everyone who waits for this worker: it is lost."""
        for future in (*self.opening.values(), *self.closing.values()):
            if not future.done():
                future.cancel()
        self.wake()

    def wake(self) -> None:
        """Wake those who wait for it to be idle."""
        if self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    @property
    def name(self) -> str:
        return "a worker" if self.line is None else self.line.name
