"""May a call inside a cell start, and how did the calls of a cell end?

An executor gets a permit from the pacer, a `Ticket`, before it starts a cell. A function that does
not declare its calls counts as one call from start to end. A function that does (`endpoint`) may
make any number: the first call to the same endpoint uses the ticket, each further one requests its
own, and an unused ticket is returned.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from limpet.pacing.observation import observe_into
from limpet.pacing.pacer import Cost, Pacer, Ticket
from limpet.pacing.signals import Signal, classify

_WORKER = object()


def _always() -> bool:
    """A call that waits for the budget is not made once the run stops."""
    return True


class Permits:
    """The permits of one attempt of a cell.

    Args:
        ticket: The executor's ticket for the attempt; None without a pacer.
        owner: The cell, the same for all its attempts.

    Attributes:
        overdue: Set when the attempt is cancelled because its time is up.
        makes_own: Whether each of its calls requests a permit; it may make none.
    """

    __slots__ = (
        "_charged", "_failed", "_gave_up", "_open", "_owner", "_shared", "_ticket", "_waited_s",
        "_waiting", "_waiting_since", "makes_own", "overdue",
    )  # fmt: skip

    def __init__(self, ticket: Ticket | None = None, owner: object = None) -> None:
        self.overdue = False
        self.makes_own = False
        self._ticket = ticket  # not used by a call yet
        self._owner = (owner or object()) if ticket is None else ticket.owner
        # Invariant: unsettled tickets, oldest first, with the loop's time when each came into use.
        # A ticket that is missing here is already settled.
        self._open: dict[Ticket, float] = {}
        self._shared: Permits | None = None
        self._failed: Ticket | None = None
        self._charged = True
        self._gave_up = False
        # What waits, and whether that is in vain; `_WORKER` while the attempt waits for a worker.
        self._waiting: dict[Any, Callable[[], bool]] = {}
        self._waiting_since = 0.0
        self._waited_s = 0.0

    # ---- calls ----------------------------------------------------------------------------------

    async def acquire(self, pacer: Pacer, cost: Cost) -> Ticket:
        """Wait until a call of the cell may start.

        Raises:
            CancelledError: The cell gave up the calls that have not started.
        """
        self.makes_own = True
        if self._gave_up:
            raise asyncio.CancelledError
        ticket, self._ticket = self._ticket, None
        if ticket is not None and ticket.asked is not pacer:
            # Holding one ticket while waiting for another could deadlock two cells.
            ticket.void()
            ticket = None
        if ticket is None:
            task = asyncio.current_task()
            self._wait_for(task, lambda: pacer.state.blocked == "down")
            try:
                ticket = await pacer.acquire(cost, owner=self._owner)
            finally:
                self._go_on(task)
        self._open[ticket] = asyncio.get_running_loop().time()
        return ticket

    async def wait(self, something: Awaitable[Any]) -> None:
        """Wait before a call starts, off the attempt's clock; in vain after a stop.

        A call that has its permit, the last one in use, gives it back and then gets another.
        """
        task, is_used = asyncio.current_task(), bool(self._open)
        ticket = self._open.popitem()[0] if is_used else self._ticket
        self._ticket = None
        self._wait_for(task, _always)
        try:
            await (something if ticket is None else ticket.wait(something))
        finally:
            self._go_on(task)
        if is_used and ticket is not None:
            self._open[ticket] = asyncio.get_running_loop().time()
        else:
            self._ticket = ticket

    def give_up_waiting(self) -> None:
        """Cancel the calls that have not started: the attempt fails and is retried."""
        self._gave_up = True
        for task in self._waiting:
            if isinstance(task, asyncio.Future):
                task.cancel()

    def share(self, permits: "Permits") -> None:
        """Make the cell's next call under `permits`, which several cells share."""
        if self._shared is not None:
            self._waited_s += self._shared.waited_s(asyncio.get_running_loop().time())
        self._shared = permits

    def end(self, ticket: Ticket, error: BaseException | None = None) -> None:
        """Settle the ticket of a call that ended, unless the attempt was already given up."""
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
        """Settle the ticket of a call that failed in a worker, like `end`."""
        if self._open.pop(ticket, None) is not None:
            self._failed, self._charged = ticket, ticket.settle(signal)

    # ---- waits ----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop the attempt's clock until `resume`: it waits for a worker."""
        self._wait_for(_WORKER, lambda: False)

    def resume(self, lost_s: float = 0.0) -> None:
        """Restart the attempt's clock, if it is paused.

        Args:
            lost_s: Seconds before this to ignore as well, because a worker died.
        """
        self._waited_s += lost_s
        if _WORKER in self._waiting:
            self._go_on(_WORKER)

    def _wait_for(self, who: Any, in_vain: Callable[[], bool]) -> None:
        if not self._waiting:
            self._waiting_since = asyncio.get_running_loop().time()
        self._waiting[who] = in_vain

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
        """The attempt failed. Returns whether the cell is charged for it."""
        if (ticket := self._take()) is not None:
            self._failed, self._charged = ticket, ticket.settle(signal)
        elif not (signal.pushback or signal.outage):
            return True  # the calls were answered: the code after them failed
        elif self._shared is not None:
            shared = self._shared
            self._failed, self._charged = shared._failed, shared._charged  # noqa: SLF001
        return self._charged

    def timed_out(self) -> bool:
        """The attempt took too long. Returns whether the cell is charged for it."""
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
        """Return the ticket if the cell was a single call; void it if it was not used."""
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
        """The pacer that was asked for the call that failed; None if none did."""
        return None if self._failed is None else self._failed.asked

    @property
    def is_waiting(self) -> bool:
        """Whether a call of the cell is waiting to start."""
        return bool(self._waiting) or (self._shared is not None and self._shared.is_waiting)

    @property
    def is_stranded(self) -> bool:
        """Whether the cell has no call in flight, and waits in vain when the run stops.

        All its calls wait for an endpoint that is down, or one waits for the budget.
        """
        if not self._waiting or self._open:
            return False
        waits = self._waiting.values()
        return _always in waits or all(in_vain() for in_vain in waits)

    def oldest_call_s(self, now: float) -> float:
        """Return how long the oldest call in flight has taken; 0 if there is none."""
        return now - next(iter(self._open.values()), now)

    def waited_s(self, now: float) -> float:
        """Return how long the cell's calls have waited, by the loop's clock."""
        shared_s = 0.0 if self._shared is None else self._shared.waited_s(now)
        return self._waited_s + shared_s + (now - self._waiting_since if self._waiting else 0.0)


_current: ContextVar[Permits | None] = ContextVar("limpet_permits", default=None)


def current_permits() -> Permits:
    """Return the permits of the current attempt; new ones outside an executor."""
    return _current.get() or Permits()


def use_permits(permits: Permits) -> None:
    """Use these permits for everything that runs in this context from now on.

    Observations outside a call then go to the attempt's ticket, if it has one.
    """
    _current.set(permits)
    if permits._ticket is not None:  # noqa: SLF001 - our own class
        observe_into(permits._ticket.observation)  # noqa: SLF001


def asks_for_each_call() -> None:
    """Declare that the current cell requests a permit for each of its calls; it may make none."""
    current_permits().makes_own = True
