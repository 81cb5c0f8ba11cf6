"""What does a crew know of one of its workers, and of a cell that it gave to one?"""

import asyncio
import contextvars
from typing import Any

from limpet.engines.leave_elsewhere import Desk
from limpet.engines.line import Line, Lost
from limpet.engines.messages import Returned
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
        opening: Done when a step is open in it, cancelled when that failed.
        closing: Done when a step is closed in it, cancelled when it was lost before.
        idle: Done when it has no more cells; None: it gets others, and was not retired.
        room: How many cells it may have while calls that compute keep it busy; 0: any number.
        is_lost: Whether it was given up: what it says does not count.
        is_quiet: Whether it was silent for a while, so that the time of its cells stands still.
        is_spare: Whether it runs one cell at a time, which may be the reason of a death.
        completed: How many cells it completed.
        heard_at: When it last showed a sign of life.
        paused: The cells whose time stands still because another one blocks the worker.
    """

    def __init__(self) -> None:
        self.line: Line | None = None
        self.cells: dict[int, CrewCell] = {}
        self.opened: set[str] = set()
        self.opening: dict[str, asyncio.Future[None]] = {}
        self.closing: dict[str, asyncio.Future[Any]] = {}
        self.idle: asyncio.Future[None] | None = None
        self.is_lost = self.is_quiet = False
        self.is_spare = self.is_busy = False
        self.room = 0
        self.completed = 0
        self.heard_at = 0.0
        self.paused: list[CrewCell] = []

    def forget(self, number: int) -> None:
        """Note that a cell has ended, or was taken back."""
        self.cells.pop(number, None)
        if self.idle is not None and not self.cells and not self.idle.done():
            self.idle.set_result(None)

    @property
    def has_room(self) -> bool:
        """Whether it may get another cell."""
        return not self.room or len(self.cells) < self.room

    @property
    def name(self) -> str:
        return "a worker" if self.line is None else self.line.name
