"""May this call start now? The executor's side of the pacer.

One call at a time waits at the gate for a ticket; it holds no slot. The gate also reports how each
call ended, and the pacer answers whether the failure counts against the call.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from limpet.executors.attempts import Attempt, Call
from limpet.executors.progress import Progress
from limpet.pacing.pacer import Cost, Pacer
from limpet.pacing.signals import FailureKind, Signal
from limpet.pacing.ticket import Ticket

MOST_REFUSALS = 10
"""Maximum refusals of a call while others pass: it may be too large, for example."""

CostOf = Callable[[Any], Cost]


class Gate:
    """Asks the pacer for tickets, one call at a time.

    Args:
        pacer: The pacer.
        cost: Returns the estimated cost of an input; None: all cost the same.
        start: Called with a call and its ticket when the call had to wait.
        progress: Logs failures of `cost`.
    """

    def __init__(
        self,
        pacer: Pacer,
        cost: CostOf | None,
        start: Callable[[Call, Ticket], None],
        progress: Progress,
    ) -> None:
        self._progress = progress
        self.pacer = pacer
        self._cost = cost
        self._start = start
        self.waiting: Call | None = None
        self._task: asyncio.Task[None] | None = None

    def ask(self, call: Call) -> Ticket | None:
        """Return a ticket if one is available now; otherwise the call waits until `start`."""
        cost = self._cost_of(call)
        # Not the call itself: the pacer keeps owners for minutes, which would keep inputs alive.
        owner = (id(self), call.index)
        ticket = self.pacer.acquire_nowait(cost, owner=owner)
        if ticket is None:
            self.waiting = call
            waiting = self._wait(call, cost, owner)
            self._task = asyncio.get_running_loop().create_task(waiting)
        return ticket

    def _cost_of(self, call: Call) -> Cost:
        if self._cost is None:
            return 1.0
        try:
            return self._cost(call.input)
        except Exception as fault:  # noqa: BLE001 - logged; an estimate must not stop the run
            self._progress.log_fault(fault, "cost=%s failed on input %s", self._cost, call.index)
            return 1.0

    async def _wait(self, call: Call, cost: Cost, owner: object) -> None:
        ticket = await self.pacer.acquire(cost, owner=owner)
        if self.waiting is not call:
            ticket.void()
            return
        self.waiting = None
        self._start(call, ticket)

    def remove(self, index: int) -> Call | None:
        """Remove the waiting call if it has this index."""
        call = self.waiting
        if call is None or call.index != index:
            return None
        self.close()
        return call

    def close(self) -> None:
        """Drop the waiting call."""
        self.waiting = None
        if self._task is not None:
            self._task.cancel()


def report_answer(attempt: Attempt) -> None:
    """Tell the pacer that a call was answered."""
    if attempt.ticket is not None:
        observed = attempt.observation
        attempt.ticket.ok(headers=observed and observed.headers, usage=observed and observed.usage)


def report_void(attempt: Attempt) -> None:
    """Tell the pacer that the run cancelled a call."""
    if attempt.ticket is not None:
        attempt.ticket.void()


def report_timeout(attempt: Attempt) -> bool:
    """Tell the pacer about a timeout. Returns whether it counts against the call."""
    return attempt.ticket is None or attempt.ticket.failed(timeout=True)


def report_failure(attempt: Attempt, signal: Signal) -> bool:
    """Tell the pacer about a failure. Returns whether it counts against the call."""
    ticket = attempt.ticket
    if ticket is None:
        return True
    if signal.pushback:
        wait_s, limits = signal.retry_after_s, signal.limits
        ticket.refused(retry_after=wait_s, limits=limits, at_once=signal.at_once)
        return False
    if signal.outage and signal.kind is FailureKind.TRANSIENT:
        return ticket.failed()
    # The endpoint answered: the fault is in the call or its code.
    report_answer(attempt)
    return True
