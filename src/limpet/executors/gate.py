"""May this call start now? The concurrency, the controller and the pacer decide.

One call at a time waits at the gate for the pacer's ticket; it holds no slot.
"""

import asyncio
from collections.abc import Callable

from limpet.executors.details import Call
from limpet.executors.options import Settings
from limpet.executors.progress import Progress
from limpet.pacing.pacer import Cost, Pacer
from limpet.pacing.ticket import Ticket


class Gate:
    """Lets calls start.

    Args:
        settings: The executor's settings.
        start: Called with a call and its ticket when the call may start.
        pump: Called when more calls may start, because the waiting call has started.
        progress: Logs failures of `cost`.

    Attributes:
        waiting: The call that waits for its ticket, if any.
    """

    def __init__(
        self,
        settings: Settings,
        start: Callable[[Call, Ticket | None], None],
        pump: Callable[[], None],
        progress: Progress,
    ) -> None:
        self._settings = settings
        self._start = start
        self._pump = pump
        self._progress = progress
        self.waiting: Call | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def target(self) -> int:
        """How many calls may be in flight now."""
        controller = self._settings.controller
        return self._settings.concurrency if controller is None else controller.target_concurrency

    @property
    def blocked(self) -> bool:
        """Whether the pacer sends only probes."""
        pacer = self._settings.pacer
        return pacer is not None and pacer.blocked

    def admit(self, call: Call) -> None:
        """Start the call now, or as soon as the pacer issues a ticket."""
        pacer = self._settings.pacer
        if pacer is None:
            self._start(call, None)
            return
        cost = self._cost_of(call)
        # Not the call itself: the pacer keeps owners for minutes, which would keep inputs alive.
        owner = (id(self), call.index)
        ticket = pacer.acquire_nowait(cost, owner=owner)
        if ticket is None:
            self.waiting = call
            waiting = self._wait(pacer, call, cost, owner)
            self._task = asyncio.get_running_loop().create_task(waiting)
        else:
            self._start(call, ticket)

    def _cost_of(self, call: Call) -> Cost:
        cost = self._settings.cost
        if cost is None:
            return 1.0
        try:
            return cost(call.input)
        except Exception as fault:  # noqa: BLE001 - logged; an estimate must not stop the run
            self._progress.log_fault(fault, "cost=%s failed on input %s", cost, call.index)
            return 1.0

    async def _wait(self, pacer: Pacer, call: Call, cost: Cost, owner: object) -> None:
        ticket = await pacer.acquire(cost, owner=owner)
        if self.waiting is not call:
            ticket.void()
            return
        self.waiting = None
        self._start(call, ticket)
        self._pump()

    def remove(self, index: int) -> Call | None:
        """Remove the waiting call if it has this index."""
        call = self.waiting
        if call is None or call.index != index:
            return None
        self.close()
        return call

    def close(self) -> None:
        self.waiting = None
        if self._task is not None:
            self._task.cancel()
