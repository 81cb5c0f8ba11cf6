"""What does a crew know of one of its workers, and of a cell that it gave to one?"""

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
        begun_at: When its worker began it; None: not yet, as far as is known.
        done: What it returned, or how its worker was lost.
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
    """A worker, and what it has.

    Attributes:
        line: The way to it; None: it is not started yet.
        cells: What it was given, by number.
        opened: The steps that are open in it.
        opening: For each step, done when it is open, cancelled when that failed.
        closing: For each step, done when it is closed, cancelled when the worker was lost before.
        load: How many cells it was given, or is about to get.
        has_plain: Whether one of them is a plain function: it gets no other of these.
        is_reserved: Whether it is for one suspect alone: a cell that may have killed a worker.
        idle: Done when it has fewer cells; None: nobody waits for that.
        is_leaving: Whether it gets no more cells, because a thread of an abandoned call stays.
        is_lost: Whether it was given up: what it says does not count.
        is_quiet: Whether it was silent for a while, so that the time of its cells stands still.
        completed: How many cells it completed.
        heard_at: When it last showed a sign of life.
        paused: The cells whose time stands still because another one blocks the worker.
    """

    def __init__(self) -> None:
        self.line: WorkerLine | None = None
        self.cells: dict[int, CrewCell] = {}
        self.opened: set[str] = set()
        self.opening: dict[str, asyncio.Future[None]] = {}
        self.closing: dict[str, asyncio.Future[None]] = {}
        self.idle: asyncio.Future[None] | None = None
        self.load = self.completed = 0
        self.has_plain = self.is_reserved = self.is_leaving = False
        self.is_lost = self.is_quiet = False
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

    def takes(self, step: str, *, is_plain: bool) -> bool:
        """Return whether it may get a cell of a step."""
        is_open = step in self.opened and not (self.is_lost or self.is_leaving or self.is_reserved)
        return is_open and not (is_plain and self.has_plain)

    async def wait_until_idle(self, rest: int) -> None:
        """Wait until it has no more cells than `rest`, is lost, or will not take those."""
        while self.load > rest and not (self.is_lost or (rest and self.is_leaving)):
            if self.idle is None or self.idle.done():
                self.idle = asyncio.get_running_loop().create_future()
            await asyncio.wait({self.idle})

    def cancel_waits(self) -> None:
        """Wake whoever waits for something that it was to do: it is lost."""
        for future in (*self.opening.values(), *self.closing.values()):
            if not future.done():
                future.cancel()
        self.wake()

    def wake(self) -> None:
        """Let whoever waits for it to be idle look again."""
        if self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    @property
    def name(self) -> str:
        return "a worker" if self.line is None else self.line.name
