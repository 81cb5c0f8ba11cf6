"""Which input is tried next, and when may its attempt start?

One input at a time waits at the gate for the pacer's ticket; it holds no slot.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from limpet.executors.details import InputState
from limpet.executors.options import Settings
from limpet.executors.progress import ProgressReporter
from limpet.pacing.pacer import Cost, Pacer, Ticket

# ---- Which input is retried next, and which must still wait? ------------------------------------
#
# Inputs run in the order (priority, index); each retry raises an input's priority by one. A new
# input always comes last: its priority is the lowest and its index the highest. So new inputs are
# taken straight from the source, and only retries are queued here.

MOST_DEFERRED = 1000
"""Maximum inputs kept for a second pass: memory must not grow with the inputs."""


class RetryQueue:
    """Inputs to retry: ready to run, still waiting, held back, or of the second pass."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._ready: list[tuple[int, int, InputState]] = []  # a heap by (priority, index)
        self._waiting: list[tuple[float, int, InputState]] = []  # a heap by (when it is due, index)
        self._held: list[tuple[float, int, InputState]] = []  # a heap by (how long it waits, index)
        self._last: deque[InputState] = deque()
        self._deferred: list[InputState] = []
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many inputs are queued, without those of the second pass."""
        return len(self._ready) + len(self._waiting) + len(self._held) + len(self._last)

    def put(self, state: InputState) -> None:
        """Run the input as soon as its priority allows. A timeout does not raise it."""
        heappush(self._ready, (-state.retries, state.index, state))

    def put_later(self, state: InputState, wait_s: float) -> None:
        """Run the input after a wait, during which it holds no slot."""
        if wait_s <= 0:
            self.put(state)
            return
        due = asyncio.get_running_loop().time() + wait_s
        heappush(self._waiting, (due, state.index, state))
        if self._waiting[0][2] is state:
            self._set_timer()

    def hold(self, state: InputState, wait_s: float) -> None:
        """Keep the input until it is released; its wait begins then."""
        heappush(self._held, (wait_s, state.index, state))

    def release(self) -> None:
        """Release an input that is held back, if there is one."""
        if self._held:
            wait_s, _, state = heappop(self._held)
            self.put_later(state, wait_s)

    def release_all(self) -> None:
        while self._held:
            self.release()

    def put_last(self, state: InputState) -> None:
        """Run the input when no other is left."""
        self._last.append(state)

    def pop_last(self) -> InputState | None:
        return self._last.popleft() if self._last else None

    def pop(self) -> InputState | None:
        return heappop(self._ready)[2] if self._ready else None

    def defer(self, state: InputState) -> bool:
        """Keep the input for the second pass. Returns whether there was room for it."""
        if len(self._deferred) >= MOST_DEFERRED:
            return False
        state.deferred = True
        self._deferred.append(state)
        return True

    def begin_second_pass(self) -> int:
        """Make the deferred inputs ready to run. Returns how many there are."""
        states, self._deferred = self._deferred, []
        for state in states:
            state.refusals = state.seen_completed = 0
            self.put(state)
        return len(states)

    def states(self) -> list[InputState]:
        """Return all inputs, in no order."""
        heaps = (self._ready, self._waiting, self._held)
        states = [state for heap in heaps for *_, state in heap]
        return [*states, *self._last, *self._deferred]

    def remove(self, index: int) -> InputState | None:
        heaps: list[list[tuple[Any, int, InputState]]]
        heaps = [self._ready, self._waiting, self._held]
        for heap in heaps:
            for position, (_, found, state) in enumerate(heap):
                if found == index:
                    del heap[position]
                    heapify(heap)
                    self._set_timer()
                    return state
        for states in (self._last, self._deferred):
            for state in states:
                if state.index == index:
                    states.remove(state)
                    return state
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
        # A loop may fire a timer up to one clock tick early: the first input is due regardless.
        due = max(asyncio.get_running_loop().time(), self._waiting[0][0])
        while self._waiting and self._waiting[0][0] <= due:
            self.put(heappop(self._waiting)[2])
        self._set_timer()
        self._on_due()


# ---- When may its attempt start? ----------------------------------------------------------------


class PacerGate:
    """Starts attempts when the pacer issues their tickets.

    Args:
        settings: The executor's settings.
        start: Called with an input and its ticket when its attempt may start.
        pump: Called when more may start, because the waiting input has started.
        progress: Logs failures of `cost`.

    Attributes:
        waiting: The input that waits for its ticket, if any.
    """

    def __init__(
        self,
        settings: Settings,
        start: Callable[[InputState, Ticket | None], None],
        pump: Callable[[], None],
        progress: ProgressReporter,
    ) -> None:
        self._settings = settings
        self._start = start
        self._pump = pump
        self._progress = progress
        self.waiting: InputState | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def blocked(self) -> bool:
        """Whether the pacer sends only probes."""
        pacer = self._settings.pacer
        return pacer is not None and pacer.blocked

    def admit(self, state: InputState, pacer: Pacer) -> None:
        """Start an attempt now, or as soon as the pacer issues a ticket."""
        cost = self._cost_of(state)
        # Not the state itself: the pacer keeps owners for minutes, which would keep inputs alive.
        owner = (id(self), state.index)
        ticket = pacer.acquire_nowait(cost, owner=owner)
        if ticket is None:
            self.waiting = state
            waiting = self._wait(pacer, state, cost, owner)
            self._task = asyncio.get_running_loop().create_task(waiting)
        else:
            self._start(state, ticket)

    def _cost_of(self, state: InputState) -> Cost:
        cost = self._settings.cost
        if cost is None:
            return 1.0
        try:
            return cost(state.input)
        except Exception as fault:  # noqa: BLE001 - logged; an estimate must not stop the run
            self._progress.log_fault(fault, "cost=%s failed on input %s", cost, state.index)
            return 1.0

    async def _wait(self, pacer: Pacer, state: InputState, cost: Cost, owner: object) -> None:
        ticket = await pacer.acquire(cost, owner=owner)
        if self.waiting is not state:
            ticket.void()
            return
        self.waiting = None
        self._start(state, ticket)
        self._pump()

    def remove(self, index: int) -> InputState | None:
        """Remove the waiting input if it has this index."""
        state = self.waiting
        if state is None or state.index != index:
            return None
        self.close()
        return state

    def close(self) -> None:
        self.waiting = None
        if self._task is not None:
            self._task.cancel()
