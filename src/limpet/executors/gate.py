"""May this call start now? The executor's side of the pacer.

One call at a time stands at the gate and waits for leave; it holds no slot. What became of each
call is told to the pacer here, which in return says whether the call is to be charged for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from limpet.executors.attempts import Attempt, Call
from limpet.executors.progress import Progress
from limpet.pacing.pacer import Cost, Pacer, Ticket
from limpet.pacing.signals import FailureKind, Signal

MOST_REFUSALS = 10
"""Refusals of one call that has itself to blame: it is too large, say."""

CostOf = Callable[[Any], Cost]


class Gate:
    """Asks the pacer for leave, one call at a time.

    Args:
        pacer: Who decides.
        cost: The estimated cost of an input; None: each costs the same.
        start: Called with a call and its ticket, when it has waited for it.
        progress: Where to report a fault of `cost`.
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
        """Return leave if it can be had at once; else the call waits here until `start`."""
        cost = self._cost_of(call)
        # Not the call itself: the pacer remembers for minutes, and would keep the input alive.
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
        except Exception as fault:  # noqa: BLE001 - logged; an estimate must not take the run down
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
        """Take the call away from the gate, if it is this one."""
        call = self.waiting
        if call is None or call.index != index:
            return None
        self.close()
        return call

    def close(self) -> None:
        """Send away whoever waits."""
        self.waiting = None
        if self._task is not None:
            self._task.cancel()


def report_answer(attempt: Attempt) -> None:
    """Tell the pacer that a call was answered."""
    if attempt.ticket is not None:
        seen = attempt.observation
        attempt.ticket.ok(headers=seen and seen.headers, usage=seen and seen.usage)


def report_void(attempt: Attempt) -> None:
    """Tell the pacer that we cancelled a call ourselves."""
    if attempt.ticket is not None:
        attempt.ticket.void()


def report_timeout(attempt: Attempt) -> bool:
    """Tell the pacer of a time-out; returns whether the call is to be charged."""
    return attempt.ticket is None or attempt.ticket.failed(timeout=True)


def report_failure(attempt: Attempt, signal: Signal) -> bool:
    """Tell the pacer of a failure; returns whether the call is to be charged."""
    ticket = attempt.ticket
    if ticket is None:
        return True
    if signal.pushback:
        wait_s, limits = signal.retry_after_s, signal.limits
        ticket.refused(retry_after=wait_s, limits=limits, at_once=signal.at_once)
        return False
    if signal.outage and signal.kind is FailureKind.TRANSIENT:
        return ticket.failed()
    # The endpoint did its part: what went wrong is between the call and its own code.
    report_answer(attempt)
    return True
