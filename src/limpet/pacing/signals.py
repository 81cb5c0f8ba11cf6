"""What does this failure mean: slow down, try again, give up, or stop?

Exceptions are read by their shape (status, headers, error code, class name), so no provider's
library is imported and any client's errors are understood. What user code and providers put into
an exception is hostile input: reading it never raises.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from limpet.errors import (
    CallCancelledError,
    PermanentError,
    QuotaExhaustedError,
    RateLimitError,
    SetupError,
    TransientError,
)
from limpet.foreign import is_interrupt
from limpet.pacing import clock, shapes
from limpet.pacing.limits import Limit, duration_s, http_date, number, read_limits

PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 413, 422})
QUOTA_STATUSES = frozenset({402})
OVERLOADED_STATUSES = frozenset({529})  # Anthropic
LONGEST_WAIT_S = 600.0
"""A wait beyond this is no pushback: the run stops, to be resumed."""

# What an error code or type says, wherever it stands: lower case, a part is enough.
QUOTA_WORDS = (
    "insufficient_quota",
    "insufficient_balance",
    "quota_exceeded",
    "exceeded_current_quota",
    "billing_hard_limit",
    "billing_not_active",
    "perday",  # Gemini: GenerateRequestsPerDayPerProject
    "per_day",  # OpenAI: "on requests per day (RPD)"
)
THROTTLE_CODES = frozenset(
    {
        "throttling",
        "throttlingexception",
        "throttledexception",
        "toomanyrequestsexception",
        "requestlimitexceeded",
        "slowdown",
        "resource_exhausted",
        "provisionedthroughputexceededexception",
    }
)
OUTAGE_CODES = frozenset({"unavailable", "deadline_exceeded"})  # gRPC
OVERLOAD_CODES = frozenset({"overloaded_error", "overloaded", "slow_down"})
# In user code these are mistakes that the next attempt would only repeat.
PERMANENT_TYPES = (NameError, SyntaxError, ImportError)
# A client's own names for a connection that broke, beside the built-in ones.
OUTAGE_NAMES = re.compile("Connect|Network|Transport|Timeout|Protocol|Disconnected|gaierror")
_CHAIN_LIMIT = 20
_TOTAL_LIMIT = 1000


class FailureKind(StrEnum):
    """What to do about a failed attempt."""

    RATE_LIMIT = "rate_limit"
    """Slow down and try again."""
    TRANSIENT = "transient"
    """Try again."""
    MISTAKE = "mistake"
    """Try once more at most: it looks like a fault of the code, which stays."""
    PERMANENT = "permanent"
    """Fail at once: another attempt cannot help."""
    QUOTA = "quota"
    """Stop the run: nothing will work until the account is topped up or the day is over."""
    SETUP = "setup"
    """Stop the run: every call would be refused in the way it is made."""


_KIND_BY_STATUS = {
    **dict.fromkeys(PERMANENT_STATUSES, FailureKind.PERMANENT),
    **dict.fromkeys(QUOTA_STATUSES, FailureKind.QUOTA),
}
# When several calls inside one attempt failed, the gravest decides.
_GRAVEST_FIRST = (
    FailureKind.SETUP,
    FailureKind.QUOTA,
    FailureKind.PERMANENT,
    FailureKind.MISTAKE,
    FailureKind.RATE_LIMIT,
    FailureKind.TRANSIENT,
)


@dataclass(frozen=True, slots=True)
class Signal:
    """What a failure means.

    Attributes:
        kind: What to do about it.
        retry_after_s: The wait in seconds that the server named, if it did.
        overloaded: The server pushes back, though it calls it no rate limit.
        outage: It looks as if the server itself were down: 5xx, a broken connection, a time-out.
        limits: What the response said of the provider's limits.
    """

    kind: FailureKind
    retry_after_s: float | None = None
    overloaded: bool = False
    outage: bool = False
    limits: tuple[Limit, ...] = ()

    @property
    def pushback(self) -> bool:
        """The server took no notice of the call, because it has enough of them."""
        overload = self.overloaded and self.kind is FailureKind.TRANSIENT
        return overload or self.kind is FailureKind.RATE_LIMIT


def classify(error: BaseException, *, wall_clock: Callable[[], float] | None = None) -> Signal:
    """Say what a failure means.

    The exception itself is asked first, then its causes (`raise … from …`), and the first that
    is recognised decides. A failure nobody recognises is transient.

    Args:
        error: Whatever the call raised.
        wall_clock: Seconds since the epoch, for a `Retry-After` that is a date in a response
            which carries no `Date` of its own.
    """
    return recognised(error, wall_clock=wall_clock) or Signal(FailureKind.TRANSIENT)


def recognised(
    error: BaseException, *, wall_clock: Callable[[], float] | None = None
) -> Signal | None:
    """Say what a failure means, as `classify` does; None if nobody recognises it."""
    try:
        return _first_recognised(error, wall_clock or clock.wall_time, set())
    except BaseException as odd:  # an exception may be hostile in ways nobody foresees
        if is_interrupt(odd):
            raise
        return None


def retry_after_s(headers: Mapping[str, str], *, wall_clock: Callable[[], float]) -> float | None:
    """Return the wait that a response's headers ask for, in seconds, or None.

    The finer ones in milliseconds are preferred; `retry-after` is a number of seconds or an
    HTTP date, counted from the response's own `Date`. Header names must be in lower case.
    """
    for name in ("retry-after-ms", "grpc-retry-pushback-ms"):
        fine = number(headers.get(name))
        if fine is not None:
            return fine / 1000
    named = headers.get("retry-after")
    plain = number(named)
    if plain is not None:
        return plain
    until = http_date(named)
    if until is None:
        return None
    answered_at = http_date(headers.get("date"))
    return max(0.0, until - (wall_clock() if answered_at is None else answered_at))


# ---- the chain of exceptions -----------------------------------------------------------------


def _first_recognised(
    error: BaseException | None, wall_clock: Callable[[], float], seen: set[int]
) -> Signal | None:
    # The limits and `seen` end chains that are circular or so long that somebody means harm.
    for _ in range(_CHAIN_LIMIT):
        if error is None or id(error) in seen or len(seen) >= _TOTAL_LIMIT:
            return None
        seen.add(id(error))
        if isinstance(error, BaseExceptionGroup):
            inner = [_first_recognised(one, wall_clock, seen) for one in error.exceptions]
            found = _gravest([signal for signal in inner if signal is not None])
        else:
            found = _signal_of(error, wall_clock)
        if found is not None:
            return found
        error = error.__cause__
    return None


def _gravest(signals: list[Signal]) -> Signal | None:
    if not signals:
        return None
    waits = [signal.retry_after_s for signal in signals if signal.retry_after_s is not None]
    return Signal(
        min((signal.kind for signal in signals), key=_GRAVEST_FIRST.index),
        max(waits, default=None),
        overloaded=any(signal.overloaded for signal in signals),
        outage=any(signal.outage for signal in signals),
    )


# ---- one exception -----------------------------------------------------------------------------


def _signal_of(exc: BaseException, wall_clock: Callable[[], float]) -> Signal | None:
    status, headers = shapes.status_of(exc), shapes.headers_of(exc)
    kind = _kind_of(exc, status, headers)
    outage = _is_outage(exc, status)
    if kind is None and not outage:
        return None
    wait = _wait_named_by(exc, headers, wall_clock)
    codes = set(shapes.codes_of(exc))
    return Signal(
        kind or FailureKind.TRANSIENT,
        wait,
        overloaded=status in OVERLOADED_STATUSES
        or bool(codes & OVERLOAD_CODES)
        or (status == 503 and wait is not None),  # noqa: PLR2004 - the status is the name
        outage=outage,
        limits=tuple(read_limits(headers, wall_clock)),
    )


def _kind_of(
    exc: BaseException, status: int | None, headers: Mapping[str, str]
) -> FailureKind | None:
    own = _kind_by_type(exc)
    if own is not None:
        return own
    names = {cls.__name__ for cls in type(exc).__mro__}
    refused = status == 429 or "RateLimitError" in names  # noqa: PLR2004 - the status is the name
    if refused or THROTTLE_CODES.intersection(shapes.codes_of(exc)):
        return FailureKind.QUOTA if _says_quota(exc) else FailureKind.RATE_LIMIT
    if "PhoenixException" in names or headers.get("x-should-retry") == "false":
        return FailureKind.PERMANENT
    if status is None or headers.get("x-should-retry") == "true":
        return None if status is None else FailureKind.TRANSIENT
    return _KIND_BY_STATUS.get(status, FailureKind.TRANSIENT)


def _kind_by_type(exc: BaseException) -> FailureKind | None:
    match exc:
        case RateLimitError():
            return FailureKind.RATE_LIMIT
        case PermanentError() | CallCancelledError():
            return FailureKind.PERMANENT
        case QuotaExhaustedError():
            return FailureKind.QUOTA
        case SetupError():
            return FailureKind.SETUP
        case TransientError():
            return FailureKind.TRANSIENT
    return FailureKind.PERMANENT if isinstance(exc, PERMANENT_TYPES) else None


def _is_outage(exc: BaseException, status: int | None) -> bool:
    if status is not None:
        return status >= 500 or status == 408  # noqa: PLR2004 - the statuses are the names
    if isinstance(exc, ConnectionError | TimeoutError):
        return True
    if OUTAGE_CODES.intersection(shapes.codes_of(exc)):
        return True
    return any(OUTAGE_NAMES.search(cls.__name__) for cls in type(exc).__mro__)


def _says_quota(exc: BaseException) -> bool:
    # Wrappers such as litellm keep only the text of the provider's answer. httpx and requests
    # keep its bytes, here once they were read; their public names would read them now.
    raw = shapes.get(shapes.get(exc, "response"), "_content")
    told = [*shapes.codes_of(exc), *shapes.gemini_quota_ids(exc), shapes.text_of(exc)]
    if isinstance(raw, bytes):
        told.append(shapes.decoded(raw[: shapes.TEXT_LIMIT]).lower())
    plain = [re.sub("[- ]", "_", one) for one in told]
    return any(word in one for word in QUOTA_WORDS for one in plain)


def _wait_named_by(
    exc: BaseException, headers: Mapping[str, str], wall_clock: Callable[[], float]
) -> float | None:
    named = number(shapes.get(exc, "retry_after"))
    if named is None:
        named = retry_after_s(headers, wall_clock=wall_clock)
    if named is not None:
        return named
    for detail in shapes.gemini_details(exc):
        delay = shapes.get(detail, "retryDelay")
        if isinstance(delay, str):
            return duration_s(delay)
    return None
