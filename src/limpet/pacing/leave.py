"""May a call inside a cell start, and how did the calls of a cell end?

An executor asks the pacer for a ticket before it starts a cell. A function that does not say when
it calls its endpoint is one call, from its beginning to its end. A function that does (`endpoint`)
may make one call, several or none: the first to the same endpoint uses the ticket, and each further
one asks for its own. What was not used is given back.
"""

import asyncio
from contextvars import ContextVar
from typing import Any

from limpet.pacing.observation import observe_into
from limpet.pacing.pacer import Cost, Pacer, Ticket
from limpet.pacing.signals import Signal, classify

_WORKER = object()


class Leave:
    """The tickets of one attempt of a cell.

    Args:
        ticket: What the executor got for it; None if it has no pacer.

    Attributes:
        overdue: Set when the attempt is cancelled because its time is up.
        makes_own: Whether it asks for each of its calls, and may make none.
    """

    __slots__ = (
        "_charged", "_failed", "_gave_up", "_open", "_owner", "_shared", "_ticket", "_waited_s",
        "_waiting", "_waiting_since", "makes_own", "overdue",
    )  # fmt: skip

    def __init__(self, ticket: Ticket | None = None) -> None:
        self.overdue = False
        self.makes_own = False
        self._ticket = ticket  # not used by a call yet
        self._owner = object() if ticket is None else ticket.owner
        # Invariant: tickets that are not settled, oldest first, with the loop's time at which they
        # came into use; one that is missing here was settled for it.
        self._open: dict[Ticket, float] = {}
        self._shared: Leave | None = None
        self._failed: Ticket | None = None
        self._charged = True
        self._gave_up = False
        # The calls that wait, with what they wait for; and the attempt itself, for a worker.
        self._waiting: dict[Any, Pacer | None] = {}
        self._waiting_since = 0.0
        self._waited_s = 0.0

    # ---- calls ----------------------------------------------------------------------------------

    async def acquire(self, pacer: Pacer, cost: Cost) -> Ticket:
        """Wait until a call of the cell may start.

        Raises:
            CancelledError: The cell gave up its calls that have not started.
        """
        self.makes_own = True
        if self._gave_up:
            raise asyncio.CancelledError
        ticket, self._ticket = self._ticket, None
        if ticket is not None and ticket.pacer is not pacer:
            # Held while it waits elsewhere, it could block who waits the other way round.
            ticket.void()
            ticket = None
        if ticket is None:
            task = asyncio.current_task()
            self._wait_for(task, pacer)
            try:
                ticket = await pacer.acquire(cost, owner=self._owner)
            finally:
                self._go_on(task)
        self._open[ticket] = asyncio.get_running_loop().time()
        return ticket

    def give_up_waiting(self) -> None:
        """Cancel the calls that have not started: the attempt fails, and is made again."""
        self._gave_up = True
        for task in self._waiting:
            if isinstance(task, asyncio.Future):
                task.cancel()

    def share(self, leave: "Leave") -> None:
        """Have the cell's next call made by another leave, for several cells at once."""
        if self._shared is not None:
            self._waited_s += self._shared.waited_s(asyncio.get_running_loop().time())
        self._shared = leave

    def end(self, ticket: Ticket, error: BaseException | None = None) -> None:
        """Settle the ticket of a call that ended, unless the attempt was given up before."""
        if ticket not in self._open:
            return
        del self._open[ticket]
        if error is None:
            ticket.ok()
        elif isinstance(error, TimeoutError) or self.overdue:
            self._failed, self._charged = ticket, ticket.failed(timeout=True)
        elif isinstance(error, Exception):
            self._failed, self._charged = ticket, ticket.settle(classify(error))
        else:
            ticket.void()

    def settle_call(self, ticket: Ticket, signal: Signal) -> None:
        """Settle the ticket of a call that failed elsewhere, like `end`."""
        if self._open.pop(ticket, None) is not None:
            self._failed, self._charged = ticket, ticket.settle(signal)

    # ---- waits ----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop the attempt's time until `resume`: it waits for a worker."""
        self._wait_for(_WORKER, None)

    def resume(self, lost_s: float = 0.0) -> None:
        """Let the attempt's time go on, if it is paused.

        Args:
            lost_s: Seconds before this that do not count either: a worker died.
        """
        self._waited_s += lost_s
        if _WORKER in self._waiting:
            self._go_on(_WORKER)

    def _wait_for(self, who: Any, pacer: Pacer | None) -> None:
        if not self._waiting:
            self._waiting_since = asyncio.get_running_loop().time()
        self._waiting[who] = pacer

    def _go_on(self, who: Any) -> None:
        del self._waiting[who]
        if not self._waiting:
            self._waited_s += asyncio.get_running_loop().time() - self._waiting_since

    # ---- the end of the attempt -----------------------------------------------------------------

    def ok(self) -> None:
        """The attempt succeeded."""
        if (ticket := self._take()) is not None:
            ticket.ok()

    def settle(self, signal: Signal) -> bool:
        """The attempt failed. Returns whether that counts against the cell."""
        if (ticket := self._take()) is not None:
            self._failed, self._charged = ticket, ticket.settle(signal)
        elif not (signal.pushback or signal.outage):
            return True  # the calls were answered: the fault is in what came after
        elif self._shared is not None:
            shared = self._shared
            self._failed, self._charged = shared._failed, shared._charged  # noqa: SLF001
        return self._charged

    def timed_out(self) -> bool:
        """The attempt took too long. Returns whether that counts against the cell."""
        unused = self._take()
        for ticket in [*self._open, *([] if unused is None else [unused])]:
            self._failed, self._charged = ticket, ticket.failed(timeout=True)
        self._open.clear()
        return self._charged

    def void(self) -> None:
        """The attempt was cancelled: it says nothing about the endpoint."""
        for ticket in [*self._open, *([] if self._ticket is None else [self._ticket])]:
            ticket.void()
        self._ticket = None
        self._open.clear()

    def _take(self) -> Ticket | None:
        """Return the ticket if the whole cell was one call; give it back if it was not used."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None and self.makes_own:
            ticket.void()
            return None
        return ticket

    # ---- for the executor -----------------------------------------------------------------------

    @property
    def own_wait_s(self) -> float | None:
        """Seconds this cell alone must wait after a random refusal; None otherwise."""
        return None if self._failed is None else self._failed.own_wait_s

    @property
    def pacer(self) -> Pacer | None:
        """The pacer of the call that failed; None if none did."""
        return None if self._failed is None else self._failed.pacer

    @property
    def is_waiting(self) -> bool:
        """Whether a call of the cell waits until it may start."""
        return bool(self._waiting) or (self._shared is not None and self._shared.is_waiting)

    @property
    def is_stranded(self) -> bool:
        """Whether no call of the cell is under way, and all wait for endpoints that are down."""
        return bool(self._waiting) and not self._open and all(map(_is_down, self._waiting.values()))

    def oldest_call_s(self, now: float) -> float:
        """Return how long the oldest call in flight has taken; 0 if there is none."""
        return now - next(iter(self._open.values()), now)

    def waited_s(self, now: float) -> float:
        """Return for how long the cell's calls waited, in seconds of the loop's time."""
        shared_s = 0.0 if self._shared is None else self._shared.waited_s(now)
        return self._waited_s + shared_s + (now - self._waiting_since if self._waiting else 0.0)


def _is_down(pacer: Pacer | None) -> bool:
    if pacer is None:  # a worker
        return False
    return pacer.state.blocked == "down"  # one that refuses calls will accept them again


_current: ContextVar[Leave | None] = ContextVar("limpet_leave", default=None)


def current_leave() -> Leave:
    """Return the leave of the attempt that runs; a new one outside an executor."""
    return _current.get() or Leave()


def take_leave(leave: Leave) -> None:
    """Make this the leave of everything that runs in this context from now on.

    What is observed outside of a call then belongs to the leave's ticket, if it has one.
    """
    _current.set(leave)
    if leave._ticket is not None:  # noqa: SLF001 - our own class
        observe_into(leave._ticket.observation)  # noqa: SLF001


def asks_for_each_call() -> None:
    """Say that the cell that runs asks for each of its calls, and may make none."""
    current_leave().makes_own = True
