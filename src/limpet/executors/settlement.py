"""What becomes of a call, now that an attempt of it has ended?

Here it is decided, and the pacer or the controller is told; `dispatch` carries it out.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from limpet.executors import gate, reasons
from limpet.executors.attempts import Attempt, Call, Cancelled
from limpet.executors.flight import NotAwaitableError
from limpet.executors.gate import MOST_REFUSALS
from limpet.executors.progress import Progress
from limpet.executors.settings import Settings
from limpet.pacing.signals import LONGEST_WAIT_S, FailureKind

OUTAGE_PATIENCE_S = 600.0
"""When nothing has got through for this long, the run stops, to be resumed."""


class Then(Enum):
    """What to do with the call."""

    COMPLETE = auto()
    AGAIN = auto()
    FAIL = auto()
    LEAVE = auto()
    """It did not run: the run stops."""
    STOP = auto()
    """As above, and this is why."""
    CRASH = auto()
    """The run raises the error."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with the call, and why.

    Attributes:
        then: What to do.
        error: Why, unless it completed.
        wait_s: Seconds until the next attempt, if there is one.
        charge: What the attempt counts against, "retries" or "timeouts"; None: it is not the
            call's own fault.
        last: Only one more attempt is left, and time may heal the failure: it is best made late.
        on_request: Somebody asked for the failure, so that it does not end the run.
    """

    then: Then
    error: BaseException | None = None
    wait_s: float = 0.0
    charge: str | None = None
    last: bool = False
    on_request: bool = False


COMPLETE = Verdict(Then.COMPLETE)
_PUSHBACK = (FailureKind.RATE_LIMIT, FailureKind.TRANSIENT)


class Judge:
    """Decides what becomes of calls, by the rules the executor was given."""

    def __init__(
        self, settings: Settings, progress: Progress, has_itself_to_blame: Callable[[Call], bool]
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._has_itself_to_blame = has_itself_to_blame

    def decide(self, attempt: Attempt, error: BaseException | None) -> Verdict:
        """Say what becomes of the call; `error` is what the attempt raised."""
        match attempt.cancelled:
            # What a cancelled call returned is no answer: code that catches everything answers
            # a cancellation with None.
            case Cancelled.TIMEOUT:
                return self._timed_out(attempt)
            case Cancelled.REQUEST:
                gate.report_void(attempt)
                error = reasons.cancelled_on_request(attempt.index)
                return Verdict(Then.FAIL, error, on_request=True)
            case Cancelled.STOP:
                gate.report_void(attempt)
                return Verdict(Then.LEAVE)
        if error is None:
            return self._completed(attempt)
        if isinstance(error, asyncio.CancelledError):
            return self._failed(attempt, reasons.cancelled_from_inside(attempt.index, error))
        if isinstance(error, Exception):
            return self._failed(attempt, error)
        gate.report_void(attempt)
        return Verdict(Then.CRASH, error)

    def _completed(self, attempt: Attempt) -> Verdict:
        if self._settings.controller is not None:
            self._settings.controller.record_success(attempt.seconds or 0.0)
        gate.report_answer(attempt)
        return COMPLETE

    def _timed_out(self, attempt: Attempt) -> Verdict:
        settings, call = self._settings, attempt.call
        error = reasons.overdue(call.index, attempt.number, settings.timeout_s)
        if settings.controller is not None:
            settings.controller.record_timeout()
        charged = gate.report_timeout(attempt) or self._has_itself_to_blame(call)
        most = settings.max_timeouts
        spent, most = (call.timeouts, most) if most is not None else self._retries(call)
        if charged and spent >= most:
            return Verdict(Then.FAIL, error)
        charge = "timeouts" if charged else None
        again = Verdict(Then.AGAIN, error, charge=charge, last=charged and spent + 1 == most)
        return self._unless_blocked(again)

    def _failed(self, attempt: Attempt, error: Exception) -> Verdict:
        if isinstance(error, NotAwaitableError) and attempt.index == 0 and attempt.number == 1:
            gate.report_void(attempt)
            return Verdict(Then.CRASH, error)
        settings, call = self._settings, attempt.call
        spent, most = self._retries(call)
        signal, wait_s = settings.rules.judge(error, spent, self._progress, call.mistakes)
        attempt.kind = signal.kind
        call.mistakes += signal.kind is FailureKind.MISTAKE
        if signal.kind is FailureKind.RATE_LIMIT and settings.controller is not None:
            settings.controller.record_error()
        charged = gate.report_failure(attempt, signal)
        blamed = self._has_itself_to_blame(call)
        # Without a pacer, a wait the server named is honoured exactly, whatever it is.
        endless = settings.pacer is not None and (signal.retry_after_s or 0) > LONGEST_WAIT_S
        if signal.kind is FailureKind.SETUP:
            return Verdict(Then.STOP, error)
        if signal.kind is FailureKind.QUOTA or (endless and signal.kind in _PUSHBACK):
            return Verdict(Then.STOP, reasons.quota_exhausted(error, signal.retry_after_s))
        if not charged and blamed and signal.pushback:
            # Others pass and this one is refused: some refusals are bad luck, many are not.
            call.refusals += 1
            then = Then.FAIL if call.refusals > MOST_REFUSALS else Then.AGAIN
            return Verdict(then, error, self._own_wait_s(attempt))
        if not charged and not blamed:
            return self._unless_blocked(Verdict(Then.AGAIN, error, self._own_wait_s(attempt)))
        if wait_s is None:
            return Verdict(Then.FAIL, error)
        # A mistake in the call's own code does not heal: it had better show soon.
        last = signal.outage and spent + 1 == most
        return Verdict(Then.AGAIN, error, wait_s, charge="retries", last=last)

    def _own_wait_s(self, attempt: Attempt) -> float:
        """Return how long the call alone has to wait; what all have to wait, the pacer knows."""
        ticket = attempt.ticket
        if ticket is None or ticket.own_wait_s is None:
            return 0.0
        return ticket.own_wait_s or self._settings.rules.backoff.wait_s(attempt.call.refusals)

    def _retries(self, call: Call) -> tuple[int, int]:
        """Return how many retries a call has had, and how many it may have."""
        together = self._settings.max_timeouts is None
        spent = call.retries + (call.timeouts if together else 0)
        return spent, self._settings.rules.max_retries

    def _unless_blocked(self, verdict: Verdict) -> Verdict:
        """Stop instead, if nothing has got through for very long."""
        pacer = self._settings.pacer
        if pacer is None or pacer.blocked_s < OUTAGE_PATIENCE_S:
            return verdict
        assert isinstance(verdict.error, Exception)
        return Verdict(Then.STOP, reasons.nothing_gets_through(pacer.blocked_s, verdict.error))
