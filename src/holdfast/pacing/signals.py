"""What does this failure mean: slow down, try again, give up, or stop?

Exceptions are read by their shape (status, headers, error code, class name), so no provider's
library is imported and any client's errors are understood. What user code and providers put into
an exception is hostile input: reading it never raises.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from holdfast.errors import (
    CallCancelledError,
    PermanentError,
    QuotaExhaustedError,
    RateLimitError,
    TransientError,
)
from holdfast.pacing import clock

PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 413, 422})
QUOTA_STATUSES = frozenset({402})
QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "insufficient_balance",
        "quota_exceeded",
        "exceeded_current_quota_error",
        "billing_hard_limit_reached",
        "billing_not_active",
    }
)
# In user code these are mistakes that the next attempt would only repeat.
PERMANENT_TYPES = (NameError, SyntaxError, ImportError)
_CHAIN_LIMIT = 20
_TOTAL_LIMIT = 1000
_HEADER_LIMIT = 500
_TEXT_LIMIT = 4000


class FailureKind(StrEnum):
    """What to do about a failed attempt."""

    RATE_LIMIT = "rate_limit"
    """Slow down and try again."""
    TRANSIENT = "transient"
    """Try again."""
    PERMANENT = "permanent"
    """Fail at once: another attempt cannot help."""
    QUOTA = "quota"
    """Stop the run: nothing will work until the account is topped up."""


# When several calls inside one attempt failed, the gravest decides.
_GRAVEST_FIRST = (
    FailureKind.QUOTA,
    FailureKind.PERMANENT,
    FailureKind.RATE_LIMIT,
    FailureKind.TRANSIENT,
)


@dataclass(frozen=True, slots=True)
class Signal:
    """What a failure means, and the wait in seconds that the server named, if it did."""

    kind: FailureKind
    retry_after_s: float | None = None


def classify(error: BaseException, *, wall_clock: Callable[[], float] | None = None) -> Signal:
    """Say what a failure means.

    The exception itself is asked first, then its causes (`raise … from …`), and the first that
    is recognised decides. A failure nobody recognises is transient.

    Args:
        error: Whatever the call raised.
        wall_clock: Seconds since the epoch, for a `Retry-After` that is a date in a response
            which carries no `Date` of its own.
    """
    try:
        found = _first_recognised(error, wall_clock or clock.wall_time, set())
    except Exception:  # noqa: BLE001 - an exception may be hostile in ways nobody foresees
        found = None
    return found or Signal(FailureKind.TRANSIENT)


def sane_wait_s(value: object) -> float | None:
    """Return a wait if it is one: a finite number of seconds, 0 or more."""
    return _number(value)


def retry_after_s(headers: Mapping[str, str], *, wall_clock: Callable[[], float]) -> float | None:
    """Return the wait that a response's headers ask for, in seconds, or None.

    `retry-after-ms` is preferred as the finer one; `retry-after` is a number of seconds or an
    HTTP date, counted from the response's own `Date`. Header names must be in lower case.
    """
    fine = _number(headers.get("retry-after-ms"))
    if fine is not None:
        return fine / 1000
    named = headers.get("retry-after")
    plain = _number(named)
    if plain is not None:
        return plain
    until = _timestamp(named)
    if until is None:
        return None
    answered_at = _timestamp(headers.get("date"))
    return max(0.0, until - (wall_clock() if answered_at is None else answered_at))


def _kind_of(exc: BaseException) -> FailureKind | None:
    own = _kind_by_type(exc)
    if own is not None:
        return own
    names = {cls.__name__ for cls in type(exc).__mro__}
    status = _status_of(exc)
    if status == 429 or "RateLimitError" in names:  # noqa: PLR2004 - the status is the name
        return FailureKind.QUOTA if _says_quota(exc) else FailureKind.RATE_LIMIT
    if "PhoenixException" in names or status in PERMANENT_STATUSES:
        return FailureKind.PERMANENT
    if status in QUOTA_STATUSES:
        return FailureKind.QUOTA
    return None if status is None else FailureKind.TRANSIENT


def _kind_by_type(exc: BaseException) -> FailureKind | None:
    match exc:
        case RateLimitError():
            return FailureKind.RATE_LIMIT
        case PermanentError() | CallCancelledError():
            return FailureKind.PERMANENT
        case QuotaExhaustedError():
            return FailureKind.QUOTA
        case TransientError():
            return FailureKind.TRANSIENT
    return FailureKind.PERMANENT if isinstance(exc, PERMANENT_TYPES) else None


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
            kind = _kind_of(error)
            found = None if kind is None else Signal(kind, _wait_named_by(error, wall_clock))
        if found is not None:
            return found
        error = error.__cause__
    return None


def _gravest(signals: list[Signal]) -> Signal | None:
    if not signals:
        return None
    kind = min((signal.kind for signal in signals), key=_GRAVEST_FIRST.index)
    waits = [signal.retry_after_s for signal in signals if signal.retry_after_s is not None]
    return Signal(kind, max(waits, default=None))


def _status_of(exc: BaseException) -> int | None:
    response = _get(exc, "response")
    found = (
        _get(exc, "status_code"),
        _get(exc, "status"),
        _get(response, "status_code"),
        _get(response, "status"),
        _get(exc, "code"),  # google-api-core and urllib keep the status there
        _get(_get(response, "ResponseMetadata"), "HTTPStatusCode"),  # botocore
    )
    for value in found:
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:  # noqa: PLR2004 - HTTP's own range of errors
            return int(value)
    return None


def _says_quota(exc: BaseException) -> bool:
    body = _get(exc, "body")
    inner = _get(body, "error")
    for holder in (exc, body, inner):
        for name in ("code", "type"):
            value = _get(holder, name)
            if isinstance(value, str) and value.lower() in QUOTA_CODES:
                return True
    # Wrappers such as litellm keep only the text of the provider's answer. httpx and requests
    # keep its bytes, here once they were read; their public names would read them now.
    raw = _get(_get(exc, "response"), "_content")
    text = _text(exc) + (_decoded(raw[:_TEXT_LIMIT]).lower() if isinstance(raw, bytes) else "")
    return any(code in text for code in QUOTA_CODES)


def _wait_named_by(exc: BaseException, wall_clock: Callable[[], float]) -> float | None:
    named = _number(_get(exc, "retry_after"))
    if named is not None:
        return named
    response = _get(exc, "response")
    for found in (
        _get(response, "headers"),
        _get(exc, "headers"),
        _get(_get(response, "ResponseMetadata"), "HTTPHeaders"),
    ):
        if found is not None:
            wait = retry_after_s(_lower_cased(found), wall_clock=wall_clock)
            if wait is not None:
                return wait
    return None


def _lower_cased(headers: Any) -> dict[str, str]:
    try:
        pairs = islice(headers.items(), _HEADER_LIMIT)
        return {_decoded(name).lower(): _decoded(value) for name, value in pairs}
    except Exception:  # noqa: BLE001 - not a mapping after all: then it names no wait
        return {}


def _decoded(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _number(value: Any) -> float | None:
    """Read a finite number, 0 or more; anything else is no number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _timestamp(value: str | None) -> float | None:
    """Read an HTTP date as seconds since the epoch."""
    if not value:
        return None
    try:
        date = parsedate_to_datetime(value)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _get(holder: Any, name: str) -> Any:
    """Read an attribute or a key; what is not there, or raises when asked, is None."""
    if holder is None:
        return None
    try:
        if isinstance(holder, Mapping):
            return holder.get(name)
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a foreign property may raise anything; then it tells nothing
        return None


def _text(exc: BaseException) -> str:
    try:
        return str(exc)[:_TEXT_LIMIT].lower()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return ""
