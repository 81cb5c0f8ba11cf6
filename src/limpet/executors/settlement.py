"""An attempt has ended: complete its input, retry it, fail it, or stop the run?

The decision is made here, and reported to the pacer or the controller; `dispatch` carries it out.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto

from limpet.errors import (
    CallCancelledError,
    EndpointDownError,
    InterruptedRunError,
    QuotaExhaustedError,
    TransientError,
)
from limpet.executors.details import Attempt, Cancelled, InputState
from limpet.executors.flight import NotAwaitableError
from limpet.executors.options import Settings
from limpet.executors.progress import ProgressReporter
from limpet.pacing.pacer import Pacer
from limpet.pacing.signals import LONGEST_WAIT_S, FailureKind
from limpet.text import one_line


def is_timeout(error: BaseException) -> bool:
    """Return whether a reply timed out: the server may have produced one and charged for it.

    Clients' exceptions are recognised by name. Without a connection, nothing was requested.
    """
    names = [base.__name__ for base in type(error).__mro__]
    return any("Timeout" in name for name in names) and "Connect" not in names[0]


# ---- Which error explains why a call or a run was ended from outside? ---------------------------


def overdue(index: int, number: int, timeout_s: float, *, last: bool = False) -> TimeoutError:
    """Return the error of an attempt that took too long; for the last one, with advice."""
    what = f"input {index}: no answer within {timeout_s:g} s (attempt {number})"
    more = "; a higher timeout gives it more time, a higher max_timeouts more attempts"
    return TimeoutError(what + (more if last else ""))


def cancelled_on_request(index: int) -> CallCancelledError:
    """Return the error of a call cancelled by its index."""
    return CallCancelledError(f"the call for input {index} was cancelled on request")


def cancelled_from_inside(index: int, error: asyncio.CancelledError) -> TransientError:
    """Return the error of a call whose own code cancelled it."""
    cancelled = TransientError(f"the call for input {index} was cancelled from inside")
    cancelled.__cause__ = error
    return cancelled


def quota_exhausted(error: Exception, retry_after_s: float | None) -> QuotaExhaustedError:
    """Return the reason for a stop on an exhausted quota, with the time to resume."""
    if isinstance(error, QuotaExhaustedError):
        return error
    if retry_after_s is None:
        hint = "top up the account or wait for its reset, then run the remaining inputs"
    else:
        hint = f"run the remaining inputs after {resume_time(retry_after_s)}"
    stop = QuotaExhaustedError(f"the provider's quota is exhausted: {one_line(error)}", hint=hint)
    stop.__cause__ = error
    return stop


def nothing_gets_through(seconds: float, error: Exception) -> EndpointDownError:
    """Return the reason for a stop after a long outage."""
    stop = EndpointDownError(
        f"no call has succeeded for {seconds / 60:.0f} minutes; the last error: {one_line(error)}",
        hint="run the remaining inputs when the provider is back",
    )
    stop.__cause__ = error
    return stop


def resume_time(seconds: float) -> str:
    """Format a moment in the future: its local time, and how far away it is."""
    minutes = math.ceil(min(seconds, 366 * 86_400) / 60)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    distance = " ".join(f"{count} {unit}" for count, unit in parts if count)
    moment = datetime.fromtimestamp(time.time() + minutes * 60, tz=UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M} (in {distance})"


def interrupted() -> InterruptedRunError:
    """Return the reason for a stop on a signal."""
    return InterruptedRunError(
        "a signal stopped the run", hint="run the remaining inputs to continue"
    )


# ---- An attempt has ended: complete its input, retry it, fail it, or stop the run? --------------

OUTAGE_PATIENCE_S = 600.0
"""When no call has succeeded for this long, the run stops, to be resumed."""
MOST_REFUSALS = 10, 50
"""Maximum refusals of an input while others pass: it may be too large, for example.

More if a number of calls in flight is set: the provider may allow far fewer. With the waits in
between, that takes five minutes.
"""


class Action(Enum):
    """What to do with the input."""

    COMPLETE = auto()
    RETRY = auto()
    FAIL = auto()
    SKIP = auto()
    """The run is stopping: the input did not run."""
    STOP = auto()
    """The input did not run, and its error stops the run."""
    CRASH = auto()
    """The run raises the error."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with the input, and why.

    Attributes:
        action: What to do.
        error: Why, unless it completed.
        wait_s: Seconds until the next attempt, if there is one.
        defer: Only one attempt is left, and the failure may pass: make it at the end of the run.
        on_request: The user cancelled the input, so its failure does not stop the run.
    """

    action: Action
    error: BaseException | None = None
    wait_s: float = 0.0
    defer: bool = False
    on_request: bool = False


COMPLETE = Decision(Action.COMPLETE)
_PUSHBACK = (FailureKind.RATE_LIMIT, FailureKind.TRANSIENT)


class Settlement:
    """Decides what happens to an input after an attempt, by the executor's settings.

    `more_to_come` returns whether there are inputs that have not been taken.

    Attributes:
        completed: How many inputs have completed.
    """

    def __init__(
        self, settings: Settings, progress: ProgressReporter, more_to_come: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._more_to_come = more_to_come
        self.completed = 0

    def decide(self, attempt: Attempt, error: BaseException | None) -> Decision:
        """Decide what happens to the input, and record it in the attempt and the details.

        Args:
            attempt: The attempt that ended.
            error: The exception it raised, if any.
        """
        if error is None and attempt.cancelled is None:
            return self._completed(attempt)
        state, decision = attempt.state, self._without_result(attempt, error)
        attempt.error = raised = decision.error
        if decision.action is Action.RETRY:
            attempt.retry_in = decision.wait_s
            if state.seen_completed < 0:
                state.seen_completed = self.completed
        elif decision.action is Action.STOP and raised is not None:
            # The input keeps the original error, not the reason for the stop.
            raised = raised.__cause__ or raised
        if isinstance(raised, Exception):
            state.details.log_exception(raised)
        return decision

    def _without_result(self, attempt: Attempt, error: BaseException | None) -> Decision:
        match attempt.cancelled:
            # The value of a cancelled call is ignored: code that catches every exception returns
            # None on a cancellation.
            case Cancelled.TIMEOUT:
                return self._timed_out(attempt)
            case Cancelled.REQUEST:
                attempt.permits.void()
                return Decision(Action.FAIL, attempt.error, on_request=True)
            case Cancelled.AGAIN:
                attempt.permits.void()
                return Decision(Action.RETRY, attempt.error)
            case Cancelled.STOP | Cancelled.IN_VAIN:
                attempt.permits.void()
                return Decision(Action.SKIP)
        if isinstance(error, asyncio.CancelledError):
            return self._failed(attempt, cancelled_from_inside(attempt.index, error))
        if isinstance(error, Exception):
            return self._failed(attempt, error)
        attempt.permits.void()
        return Decision(Action.CRASH, error)

    def _completed(self, attempt: Attempt) -> Decision:
        if self._settings.controller is not None:
            self._settings.controller.record_success(attempt.seconds or 0.0)
        attempt.permits.ok()
        attempt.state.details.complete()
        self.completed += 1
        return COMPLETE

    def _timed_out(self, attempt: Attempt) -> Decision:
        settings, state = self._settings, attempt.state
        error = overdue(state.index, attempt.number, settings.timeout_s)
        if settings.controller is not None:
            settings.controller.record_timeout()
        charged = attempt.permits.timed_out() or self._is_at_fault(state)
        most = settings.max_timeouts
        spent, most = (state.timeouts, most) if most is not None else self._retries(state)
        if charged and spent >= most:
            if settings.max_timeouts is not None:
                error = overdue(state.index, attempt.number, settings.timeout_s, last=True)
            return Decision(Action.FAIL, error)
        state.timeouts += charged
        # If nothing has worked so far, the failure should show soon.
        may_defer = self.completed > 0 and self._may_defer(state)
        defer = charged and spent + 1 == most and may_defer
        return self._unless_blocked(attempt, Decision(Action.RETRY, error, defer=defer))

    def _failed(self, attempt: Attempt, error: Exception) -> Decision:
        if isinstance(error, NotAwaitableError) and attempt.index == 0 and attempt.number == 1:
            attempt.permits.void()
            return Decision(Action.CRASH, error)
        settings, state = self._settings, attempt.state
        spent, most = self._retries(state)
        signal, wait_s = settings.rules.decide(error, spent, self._progress, state.mistakes)
        attempt.kind = signal.kind
        state.mistakes += signal.kind is FailureKind.MISTAKE
        if signal.kind is FailureKind.RATE_LIMIT and settings.controller is not None:
            settings.controller.record_error()
        charged = attempt.permits.settle(signal)
        at_fault = self._is_at_fault(state)
        pacer = self._pacer(attempt)
        # Without a pacer, a wait named by the server is honoured exactly, however long.
        endless = pacer is not None and (signal.retry_after_s or 0) > LONGEST_WAIT_S
        if signal.kind is FailureKind.SETUP:
            return Decision(Action.STOP, error)
        if signal.kind is FailureKind.QUOTA or (endless and signal.kind in _PUSHBACK):
            return Decision(Action.STOP, quota_exhausted(error, signal.retry_after_s))
        fixed = pacer is not None and pacer.fixed
        blocked = pacer is not None and pacer.blocked
        if not charged and (at_fault or (fixed and not blocked)) and signal.pushback:
            # Others pass and this one is refused: a few refusals are bad luck, many are not.
            state.refusals += 1
            action = Action.FAIL if state.refusals > MOST_REFUSALS[fixed] else Action.RETRY
            return Decision(action, error, self._own_wait_s(attempt))
        if not charged and not at_fault:
            retry = Decision(Action.RETRY, error, self._own_wait_s(attempt))
            return self._unless_blocked(attempt, retry)
        if settings.max_timeouts is not None and is_timeout(error):
            state.timeouts += 1
            if state.timeouts > settings.max_timeouts:
                return Decision(Action.FAIL, error)
        if wait_s is None:
            return Decision(Action.FAIL, error)
        # A mistake in user code does not go away: it should show soon. So should a server that
        # never worked, but one input alone cannot show that: with inputs that arrive one by one,
        # an outage would use up all attempts of each before it is recognised.
        may_defer = (self.completed > 0 or self._more_to_come()) and self._may_defer(state)
        defer = signal.outage and spent + 1 == most and may_defer
        state.retries += 1
        return Decision(Action.RETRY, error, wait_s, defer=defer)

    def _own_wait_s(self, attempt: Attempt) -> float:
        """Return how long this input alone must wait, beyond what the pacer imposes on all."""
        own_wait_s = attempt.permits.own_wait_s
        if own_wait_s is None:
            return 0.0
        return own_wait_s or self._settings.rules.backoff.wait_s(attempt.state.refusals)

    def _retries(self, state: InputState) -> tuple[int, int]:
        """Return how many retries an input has used, and how many it has in all."""
        timeouts_count = self._settings.max_timeouts is None
        spent = state.retries + (state.timeouts if timeouts_count else 0)
        return spent, self._settings.rules.max_retries

    def _is_at_fault(self, state: InputState) -> bool:
        """Return whether only this input fails: others completed since it first failed."""
        return 0 <= state.seen_completed < self.completed

    def _may_defer(self, state: InputState) -> bool:
        """Return whether an input's last retry can wait until the end of the run."""
        settings = self._settings
        return settings.pacer is not None and not settings.exit_on_error and not state.deferred

    def _pacer(self, attempt: Attempt) -> Pacer | None:
        """Return the pacer of the call that failed, or else the executor's."""
        return attempt.permits.pacer or self._settings.pacer

    def _unless_blocked(self, attempt: Attempt, decision: Decision) -> Decision:
        """Stop instead if no call has succeeded for too long."""
        pacer = self._pacer(attempt)
        if pacer is None or pacer.blocked_s < OUTAGE_PATIENCE_S:
            return decision
        assert isinstance(decision.error, Exception)
        return Decision(Action.STOP, nothing_gets_through(pacer.blocked_s, decision.error))
