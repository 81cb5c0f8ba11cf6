"""May this call start now? The concurrency, the controller and the pacer decide.

One call at a time waits at the gate for the pacer's ticket; it holds no slot.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from limpet.executors.details import Call
from limpet.executors.options import Settings
from limpet.executors.progress import Progress
from limpet.pacing.pacer import Cost, Pacer, Ticket

# ---- Which call is retried next, and which must still wait? -------------------------------------
#
# Calls run in the order (priority, index); each retry raises a call's priority by one. A new input
# always comes last: its priority is the lowest and its index the highest. So new inputs are taken
# straight from the source, and only retries are queued here.

MOST_DEFERRED = 1000
"""Maximum calls kept for a second pass: memory must not grow with the inputs."""


class CallQueue:
    """Calls to retry: ready to run, still waiting, held back, or of the second pass."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._ready: list[tuple[int, int, Call]] = []  # a heap by (priority, index)
        self._waiting: list[tuple[float, int, Call]] = []  # a heap by (when it is due, index)
        self._held: list[tuple[float, int, Call]] = []  # a heap by (how long it waits, index)
        self._last: deque[Call] = deque()
        self._deferred: list[Call] = []
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many calls there are, without those of the second pass."""
        return len(self._ready) + len(self._waiting) + len(self._held) + len(self._last)

    def put(self, call: Call) -> None:
        """Run the call as soon as its priority allows: a timeout does not change it."""
        heappush(self._ready, (-call.retries, call.index, call))

    def put_later(self, call: Call, wait_s: float) -> None:
        """Run the call after a wait, during which it holds no slot."""
        if wait_s <= 0:
            self.put(call)
            return
        due = asyncio.get_running_loop().time() + wait_s
        heappush(self._waiting, (due, call.index, call))
        if self._waiting[0][2] is call:
            self._set_timer()

    def hold(self, call: Call, wait_s: float) -> None:
        """Keep the call until it is released; its wait begins then."""
        heappush(self._held, (wait_s, call.index, call))

    def release(self) -> None:
        """Release a call that is held back, if there is one."""
        if self._held:
            wait_s, _, call = heappop(self._held)
            self.put_later(call, wait_s)

    def release_all(self) -> None:
        while self._held:
            self.release()

    def put_last(self, call: Call) -> None:
        """Run the call when no other call is left."""
        self._last.append(call)

    def pop_last(self) -> Call | None:
        return self._last.popleft() if self._last else None

    def pop(self) -> Call | None:
        return heappop(self._ready)[2] if self._ready else None

    def defer(self, call: Call) -> bool:
        """Keep the call for the second pass. Returns whether there was room for it."""
        if len(self._deferred) >= MOST_DEFERRED:
            return False
        call.deferred = True
        self._deferred.append(call)
        return True

    def begin_second_pass(self) -> int:
        """Make the deferred calls ready to run. Returns how many there are."""
        calls, self._deferred = self._deferred, []
        for call in calls:
            call.refusals = call.seen_completed = 0
            self.put(call)
        return len(calls)

    def remove(self, index: int) -> Call | None:
        heaps: tuple[list[tuple[Any, int, Call]], ...] = (self._ready, self._waiting, self._held)
        for heap in heaps:
            for position, (_, call_index, call) in enumerate(heap):
                if call_index == index:
                    del heap[position]
                    heapify(heap)
                    self._set_timer()
                    return call
        for calls in (self._last, self._deferred):
            for call in calls:
                if call.index == index:
                    calls.remove(call)
                    return call
        return None

    def clear(self) -> None:
        self._ready.clear()
        self._waiting.clear()
        self._held.clear()
        self._last.clear()
        self._deferred.clear()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._waiting[0][0], self._wake)

    def _wake(self) -> None:
        # A loop may fire a timer up to one clock tick early: the first call is due regardless.
        due = max(asyncio.get_running_loop().time(), self._waiting[0][0])
        while self._waiting and self._waiting[0][0] <= due:
            self.put(heappop(self._waiting)[2])
        self._set_timer()
        self._on_due()


# ---- May this call start now? The concurrency, the controller and the pacer decide. -------------


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
    def blocked(self) -> bool:
        """Whether the pacer sends only probes."""
        pacer = self._settings.pacer
        return pacer is not None and pacer.blocked

    def admit(self, call: Call, pacer: Pacer) -> None:
        """Start the call now, or as soon as the pacer issues a ticket."""
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
