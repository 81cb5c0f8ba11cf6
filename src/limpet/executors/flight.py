"""Which attempts are in flight, for how long, and how do they end?

Each attempt is a task that settles itself as its last act. One that does not end when cancelled is
abandoned after a grace, and settled on its behalf.

All attempts have the same time limit, so the oldest reaches it first, unless its calls waited for
the pacer. So one timer for the oldest suffices. Answers that arrived while the loop was suspended
are read before anything is overdue (`countdown`).
"""

import asyncio
import contextvars
import math
import os
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from limpet.errors import PermanentError
from limpet.executors.countdown import Countdown
from limpet.executors.details import Attempt, Cancelled, InputState
from limpet.executors.loops import end_if_forked, silence
from limpet.foreign import readable
from limpet.pacing.pacer import Ticket
from limpet.pacing.permits import Permits, use_permits

CANCEL_GRACE_S = 1.0
"""How long a cancelled call has to end before it is abandoned."""
_LOOK_AGAIN_S = 1.0  # between looks at an attempt whose time is up while its call waits

Settle = Callable[[Attempt, Any, BaseException | None], None]


class NotAwaitableError(PermanentError, TypeError):
    """The function is not an async one."""


class Flight:
    """The attempts in flight.

    Args:
        function: The function an attempt calls.
        timeout_s: How long an attempt may take.
        settle: Called once per attempt, with its value or its error.
        on_abandoned: Called when an attempt ignores its cancellation, before it is settled.

    Attributes:
        attempts: The attempts by the index of their input, in the order in which they started.
    """

    def __init__(
        self,
        function: Callable[[Any], Awaitable[Any]],
        timeout_s: float,
        settle: Settle,
        on_abandoned: Callable[[Attempt], None],
    ) -> None:
        self._function = function
        self._timeout_s = timeout_s
        self._settle = settle
        self._on_abandoned = on_abandoned
        self.attempts: dict[int, Attempt] = {}
        self._watch: Countdown | None = None
        self.abandoned = 0
        """How many attempts ignored their cancellation."""
        self.given_up: set[asyncio.Task[None]] = set()
        """Tasks no longer waited for."""

    def open(self) -> None:
        """Bind to the running loop and to the caller's context."""
        self._loop = asyncio.get_running_loop()
        self._parent = os.getpid()
        # Attempts start from within one another, but each must see the caller's context, not the
        # changes an earlier attempt made to its own.
        self._context = contextvars.copy_context()

    def ages(self) -> dict[int, float]:
        """Return the age in seconds of each attempt, oldest first."""
        if not self.attempts:
            return {}
        now = self._loop.time()
        return {index: now - attempt.started_at for index, attempt in self.attempts.items()}

    def start(self, state: InputState, ticket: Ticket | None = None) -> Attempt:
        """Start the input's next attempt, with the pacer's ticket if there is a pacer."""
        number = len(state.details.exceptions) + 1
        attempt = Attempt(
            state, number, self._loop.time(), Permits(ticket, (id(self), state.index))
        )
        self.attempts[state.index] = attempt
        attempt.task = self._loop.create_task(self._fly(attempt), context=self._context.copy())
        if attempt.cancelled is not None:
            attempt.task.cancel()  # an eager task was cancelled by its own code
        if self._watch is None:
            self._watch = Countdown(self._timeout_s, self._cancel_overdue)
        return attempt

    async def _fly(self, attempt: Attempt) -> None:
        attempt.begun = True
        use_permits(attempt.permits)
        value, error = None, None
        try:
            awaitable = self._function(attempt.state.input)
            if type(awaitable) is not CoroutineType and not isawaitable(awaitable):
                raise _not_awaitable(self._function, awaitable)  # noqa: TRY301 - fails this attempt
            value = await awaitable
        except BaseException as raised:  # noqa: BLE001 - settled like any other end
            error = readable(raised)
        end_if_forked(self._parent, error)
        self._land(attempt, value, error)

    def _land(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        if self.attempts.get(attempt.index) is not attempt:
            return  # abandoned: its result is too late
        del self.attempts[attempt.index]
        if attempt.grace is not None:
            attempt.grace.cancel()
        now = self._loop.time()
        attempt.seconds = seconds = now - attempt.started_at - attempt.permits.waited_s(now)
        attempt.state.details.execution_seconds += seconds
        self._settle(attempt, value, error)

    def cancel(self, index: int, why: Cancelled, error: Exception | None = None) -> bool:
        """Cancel one attempt. Returns whether it was in flight.

        Args:
            index: The input's index.
            why: Why it is cancelled.
            error: What the attempt failed with; None: that follows from `why`.
        """
        attempt = self.attempts.get(index)
        if attempt is None:
            return False
        attempt.cancelled, attempt.error = why, error
        attempt.permits.overdue = why is Cancelled.TIMEOUT
        if attempt.task is not None:
            attempt.task.cancel()
        if not attempt.begun:
            # A task cancelled before its first step never runs `_fly`.
            self._land(attempt, None, None)
        elif attempt.grace is None:
            attempt.grace = Countdown(CANCEL_GRACE_S, partial(self._abandon, attempt))
        return True

    def cancel_all(self) -> None:
        for index, attempt in list(self.attempts.items()):
            if attempt.cancelled is None:
                self.cancel(index, Cancelled.STOP)

    def cancel_stranded(self) -> None:
        """Cancel the attempts that only wait in vain: nothing is lost."""
        for index, attempt in list(self.attempts.items()):
            if attempt.cancelled is None and attempt.permits.is_stranded:
                self.cancel(index, Cancelled.IN_VAIN)

    def drop_all(self) -> None:
        """Cancel all attempts without waiting for them."""
        self.cancel_all()
        for attempt in list(self.attempts.values()):
            self._give_up(attempt)
            self._land(attempt, None, None)

    def close(self) -> None:
        """Stop the timer. Abandoned attempts keep running until they end."""
        if self._watch is not None:
            self._watch.cancel()

    def _abandon(self, attempt: Attempt) -> None:
        if self.attempts.get(attempt.index) is attempt:
            self._give_up(attempt)
            self.abandoned += 1
            self._on_abandoned(attempt)
            self._land(attempt, None, None)

    def _give_up(self, attempt: Attempt) -> None:
        if attempt.task is not None:
            silence(attempt.task)
            self.given_up.add(attempt.task)

    def _cancel_overdue(self) -> None:
        self._watch = None
        now = self._loop.time()
        soonest_s = math.inf
        for attempt in list(self.attempts.values()):
            remaining_s = attempt.started_at + self._timeout_s - now
            if remaining_s > 0:  # so have all that started later
                soonest_s = min(soonest_s, remaining_s)
                break
            # Time that its calls spent waiting for the pacer is not its own.
            remaining_s += attempt.permits.waited_s(now)
            if attempt.permits.is_waiting:
                # A hanging call may hold the permit that the cell's other calls wait for.
                call_s = attempt.permits.oldest_call_s(now)
                own_s = max(remaining_s, _LOOK_AGAIN_S)
                remaining_s = self._timeout_s - call_s if call_s else own_s
            if remaining_s > 0:
                soonest_s = min(soonest_s, remaining_s)
            elif attempt.cancelled is None:
                self.cancel(attempt.index, Cancelled.TIMEOUT)
        if soonest_s < math.inf:
            self._watch = Countdown(soonest_s, self._cancel_overdue)


def _not_awaitable(function: Any, result: Any) -> NotAwaitableError:
    name = getattr(function, "__qualname__", None) or repr(function)
    return NotAwaitableError(
        f"{name} returned {type(result).__name__}, which cannot be awaited: AsyncExecutor needs "
        f"an async function; use SyncExecutor for a sync one"
    )
