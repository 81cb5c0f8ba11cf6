"""What does this failure mean: slow down, retry, give up, or stop?

Exceptions are recognised by their shape (status, headers, error code, class name), so no client
library is imported and any client's errors work. Their contents are untrusted input: reading them
never raises.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from limpet.errors import (
    CallCancelledError,
    InvalidReplyError,
    PermanentError,
    QuotaExhaustedError,
    RateLimitError,
    SetupError,
    TransientError,
    WorkerDiedError,
)
from limpet.foreign import is_interrupt
from limpet.pacing.limits import Limit, duration_s, http_date, number, read_limits

# ---- Where does a client's exception keep its status, headers and error code? -------------------
#
# Each client library stores them differently: the provider's answer may be a mapping, bytes or a
# string. All of it is untrusted input: reading it never raises, and reads a bounded amount.

_HEADER_LIMIT = 500
_FORWARDED = "llm_provider-"  # LiteLLM: headers of the model's provider
TEXT_LIMIT = 4000


def status_of(exc: BaseException) -> int | None:
    """Return the HTTP error status, wherever the client keeps it."""
    response = get(exc, "response")
    candidates = (
        get(exc, "status_code"),
        get(exc, "status"),
        get(response, "status_code"),
        get(response, "status"),
        get(exc, "code"),  # google-api-core and urllib keep the status there
        get(get(response, "ResponseMetadata"), "HTTPStatusCode"),  # botocore
    )
    for value in candidates:
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:  # noqa: PLR2004 - HTTP's own range of errors
            return int(value)
    return None


def codes_of(exc: BaseException) -> Iterator[str]:
    """Yield an exception's error codes and types, in lower case."""
    body = get(exc, "body")
    holders = (exc, body, get(body, "error"), get(get(exc, "response"), "Error"))
    for holder in holders:
        for name in ("code", "type", "status", "Code"):
            value = get(holder, name)
            if callable(value):  # gRPC: code() is an enum
                value = get(_called(value), "name")
            if isinstance(value, str):
                yield value.lower()


def lower_cased(headers: Any) -> dict[str, str]:
    """Read any client's headers: a mapping or pairs, up to a limit.

    Headers that a proxy forwards under its own prefix are used where it sends none itself.
    """
    try:
        pairs = headers.items() if hasattr(headers, "items") else headers
        lowered = {
            # Most are strings, and this runs for each call.
            (name if isinstance(name, str) else decoded(name)).lower(): (
                value if type(value) is str else decoded(value)
            )
            for name, value in islice(pairs, _HEADER_LIMIT)
        }
    except Exception:  # noqa: BLE001 - not headers: nothing to read
        return {}
    forwarded = [name for name in lowered if name.startswith(_FORWARDED)]
    for name in forwarded:
        lowered.setdefault(name.removeprefix(_FORWARDED), lowered[name])
    return lowered


def headers_of(exc: BaseException) -> dict[str, str]:
    """Return the response's headers, wherever the client keeps them, in lower case."""
    response = get(exc, "response")
    trailing = get(exc, "trailing_metadata")
    merged: dict[str, str] = {}
    for headers in (
        _called(trailing) if callable(trailing) else None,  # gRPC
        get(get(response, "ResponseMetadata"), "HTTPHeaders"),  # botocore
        get(exc, "headers"),
        get(response, "headers"),
    ):
        if headers is not None:
            merged.update(lower_cased(headers))
    return merged


def gemini_details(exc: BaseException) -> list[Any]:
    """Return the details of an error response in Google's format."""
    for name in ("details", "response_json", "body"):
        body = get(exc, name)
        details = get(get(body, "error"), "details") if isinstance(body, Mapping) else body
        if isinstance(details, list):
            return details[:20]
    return []


def gemini_quota_ids(exc: BaseException) -> Iterator[str]:
    """Yield the quota ids in such a response, in lower case."""
    for detail in gemini_details(exc):
        violations = get(detail, "violations")
        for violation in violations[:20] if isinstance(violations, list) else ():
            quota = get(violation, "quotaId")
            if isinstance(quota, str):
                yield quota.lower()


def get(holder: Any, name: str) -> Any:
    """Read an attribute or a key; None if it is missing or raises."""
    if holder is None:
        return None
    try:
        if isinstance(holder, Mapping):
            return holder.get(name)
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property may raise anything
        return None


def _called(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception:  # noqa: BLE001 - it may need arguments or raise anything
        return None


def decoded(value: Any) -> str:
    """Return a header's name or value as a string."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def rate_limit_types_of(exc: BaseException, headers: Mapping[str, str]) -> set[str]:
    """Return the kinds of limit that a proxy reports as exceeded, in headers, body or error."""
    body = get(exc, "body")
    holders = (headers, exc, body, get(body, "error"))
    types = (get(holder, "rate_limit_type") for holder in holders)
    return {str(kind).lower() for kind in types if isinstance(kind, str)}


def texts_of(exc: BaseException) -> Iterator[str]:
    """Yield the exception's message and the response's text, in lower case.

    Wrappers like litellm keep only the text of the provider's answer. httpx and requests store the
    bytes they have read in `_content`; their public properties would read from the network.
    """
    try:
        yield str(exc)[:TEXT_LIMIT].lower()
    except Exception:  # noqa: BLE001 - __str__ may raise anything
        yield ""
    raw = get(get(exc, "response"), "_content")
    if isinstance(raw, bytes):
        yield decoded(raw[:TEXT_LIMIT]).lower()


# ---- What does this failure mean: slow down, retry, give up, or stop? ---------------------------

PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 413, 422})
QUOTA_STATUSES = frozenset({402})
OVERLOADED_STATUSES = frozenset({529})  # Anthropic
LONGEST_WAIT_S = 600.0
"""The run stops on a longer wait, to be resumed later."""

# Lower case; a match anywhere in the error code, type or message is enough.
QUOTA_WORDS = (
    "insufficient_quota",
    "insufficient_balance",
    "quota_exceeded",
    "exceeded_current_quota",
    "billing_hard_limit",
    "billing_not_active",
    "perday",  # Gemini: GenerateRequestsPerDayPerProject
    "per_day",  # OpenAI: "on requests per day (RPD)"
    "budget_exceeded",  # LiteLLM, as are the next
    "budget_has_been_exceeded",
)
AT_ONCE_TYPES = frozenset({"max_parallel_requests", "concurrent_requests"})  # LiteLLM
AT_ONCE_WORDS = (
    "limit type: max_parallel_requests",  # LiteLLM, a key; the next: a model
    "all max_parallel_requests slots in use",
    "concurrent requests",
    "concurrent connections",
    "maximum pending requests exceeded",  # Ollama
)
# LiteLLM's older limiter names all its limits, whichever was crossed.
_PARALLEL = re.compile(
    r"current max_parallel_requests: (\d{1,9}), max_parallel_requests: (\d{1,9})"
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
# Mistakes in user code that the next attempt would only repeat.
PERMANENT_TYPES = (NameError, SyntaxError, ImportError)
# Clients' own class names for broken connections.
OUTAGE_NAMES = re.compile("Connect|Network|Transport|Timeout|Protocol|Disconnected|gaierror")
_UNSENT_NAMES = re.compile("ClientConnector|ConnectError|Connect(ion)?Timeout|RefusedError")
_TIMED_OUT = (408, 504)
_QUOTA_ID = re.compile(r"generate\w{0,100}per(?:minute|day)")
_CHAIN_LIMIT = 20
_TOTAL_LIMIT = 1000


class FailureKind(StrEnum):
    """What to do about a failed attempt."""

    RATE_LIMIT = "rate_limit"
    """Slow down and retry."""
    TRANSIENT = "transient"
    """Retry."""
    MISTAKE = "mistake"
    """Retry once at most: it looks like a mistake in the code."""
    PERMANENT = "permanent"
    """Fail at once: a retry cannot help."""
    INVALID_REPLY = "invalid_reply"
    """Fail at once: a model's reply is unusable, and was already requested again."""
    WORKER_DIED = "worker_died"
    """Fail at once: the process that ran the call died, alone with it."""
    QUOTA = "quota"
    """Stop the run: nothing works until the account is topped up or the quota resets."""
    SETUP = "setup"
    """Stop the run: every call would fail the same way."""


_KIND_BY_STATUS = {
    **dict.fromkeys(PERMANENT_STATUSES, FailureKind.PERMANENT),
    **dict.fromkeys(QUOTA_STATUSES, FailureKind.QUOTA),
}
_REFUSALS = (FailureKind.RATE_LIMIT, FailureKind.QUOTA, FailureKind.SETUP)
# If several exceptions are grouped, the most serious one decides.
_GRAVEST_FIRST = (
    FailureKind.SETUP,
    FailureKind.QUOTA,
    FailureKind.PERMANENT,
    FailureKind.WORKER_DIED,
    FailureKind.INVALID_REPLY,
    FailureKind.MISTAKE,
    FailureKind.RATE_LIMIT,
    FailureKind.TRANSIENT,
)


@dataclass(frozen=True, slots=True)
class Signal:
    """What a failure means.

    Attributes:
        kind: What to do about it.
        retry_after_s: Seconds the server requests to wait, if it does.
        overloaded: The server is overloaded, though it does not call it a rate limit.
        outage: The server seems to be down: 5xx, a broken connection, a timeout.
        limits: The provider's limits, from the response.
        at_once: The server says that too many calls are in flight.
        unpaid: The call cost nothing: it was refused, or never sent.
    """

    kind: FailureKind
    retry_after_s: float | None = None
    overloaded: bool = False
    outage: bool = False
    limits: tuple[Limit, ...] = ()
    at_once: bool = False
    unpaid: bool = False

    @property
    def ends_account(self) -> bool:
        """Whether no call with the same key can succeed soon: it is refused, or exhausted."""
        is_long = self.pushback and (self.retry_after_s or 0) > LONGEST_WAIT_S
        return is_long or self.kind in (FailureKind.SETUP, FailureKind.QUOTA)

    @property
    def pushback(self) -> bool:
        """Whether the server refused the call because there are too many."""
        overload = self.overloaded and self.kind is FailureKind.TRANSIENT
        return overload or self.kind is FailureKind.RATE_LIMIT


def classify(error: BaseException, *, wall_clock: Callable[[], float] | None = None) -> Signal:
    """Return what a failure means.

    The exception is checked first, then its causes (`raise … from …`); the first one recognised
    decides. A failure that is not recognised is transient.

    Args:
        error: The exception the call raised.
        wall_clock: Returns seconds since the epoch, for a `Retry-After` date in a response
            without a `Date` header.
    """
    return recognised(error, wall_clock=wall_clock) or Signal(FailureKind.TRANSIENT)


def recognised(
    error: BaseException, *, wall_clock: Callable[[], float] | None = None
) -> Signal | None:
    """Return what a failure means, like `classify`; None if it is not recognised."""
    try:
        return _first_recognised(error, wall_clock or time.time, set())
    except BaseException as odd:  # reading an exception's attributes may raise anything
        if is_interrupt(odd):
            raise
        return None


def is_unpaid(error: BaseException) -> bool:
    """Return whether a call that failed cost nothing: it was refused, or never sent."""
    signal = recognised(error)
    return signal is not None and signal.unpaid


def retry_after_s(headers: Mapping[str, str], *, wall_clock: Callable[[], float]) -> float | None:
    """Return the wait that a response's headers request, in seconds, or None.

    Headers in milliseconds are preferred. `retry-after` is a number of seconds or an HTTP date,
    relative to the response's `Date`. Header names must be lower case.
    """
    for name in ("retry-after-ms", "grpc-retry-pushback-ms"):
        milliseconds = number(headers.get(name))
        if milliseconds is not None:
            return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = number(value)
    if seconds is not None:
        return seconds
    until = http_date(value)
    if until is None:
        return None
    answered_at = http_date(headers.get("date"))
    return max(0.0, until - (wall_clock() if answered_at is None else answered_at))


# ---- the chain of exceptions -----------------------------------------------------------------


def _first_recognised(
    error: BaseException | None, wall_clock: Callable[[], float], seen: set[int]
) -> Signal | None:
    # The limits and `seen` end chains that are circular or maliciously long.
    for _ in range(_CHAIN_LIMIT):
        if error is None or id(error) in seen or len(seen) >= _TOTAL_LIMIT:
            return None
        seen.add(id(error))
        if isinstance(error, BaseExceptionGroup):
            inner = [_first_recognised(member, wall_clock, seen) for member in error.exceptions]
            signal = _gravest([signal for signal in inner if signal is not None])
        else:
            signal = _signal_of(error, wall_clock)
        if signal is not None:
            return _with_details(signal, error.__cause__, wall_clock)
        error = error.__cause__
    return None


def _with_details(
    signal: Signal, cause: BaseException | None, wall_clock: Callable[[], float]
) -> Signal:
    """Return a refusal with the wait and limits that only its cause contains.

    Wrappers often keep the status and drop the headers.
    """
    tells_all = signal.retry_after_s is not None or signal.limits or signal.at_once
    if signal.kind is not FailureKind.RATE_LIMIT or tells_all:
        return signal
    for _ in range(_CHAIN_LIMIT):
        if cause is None:
            break
        inner = _signal_of(cause, wall_clock)
        if inner is not None and inner.kind is FailureKind.RATE_LIMIT:
            return inner
        cause = cause.__cause__
    return signal


def _gravest(signals: list[Signal]) -> Signal | None:
    if not signals:
        return None
    waits = [signal.retry_after_s for signal in signals if signal.retry_after_s is not None]
    return Signal(
        min((signal.kind for signal in signals), key=_GRAVEST_FIRST.index),
        max(waits, default=None),
        overloaded=any(signal.overloaded for signal in signals),
        outage=any(signal.outage for signal in signals),
        at_once=any(signal.at_once for signal in signals),
        unpaid=all(signal.unpaid for signal in signals),
    )


# ---- one exception -----------------------------------------------------------------------------


def _signal_of(exc: BaseException, wall_clock: Callable[[], float]) -> Signal | None:
    status, headers = status_of(exc), headers_of(exc)
    kind = _kind_of(exc, status, headers)
    outage = _is_outage(exc, status)
    if kind is None and not outage:
        return None
    at_once = _says_at_once(exc, headers)
    # A slot is free as soon as a call ends: a named wait belongs to another limit.
    wait = None if at_once else _requested_wait(exc, headers, wall_clock)
    codes = set(codes_of(exc))
    return Signal(
        kind or FailureKind.TRANSIENT,
        wait,
        overloaded=status in OVERLOADED_STATUSES
        or bool(codes & OVERLOAD_CODES)
        or (status == 503 and (wait is not None or at_once or _says_overloaded(exc))),  # noqa: PLR2004 - the status is the name
        outage=outage,
        limits=tuple(read_limits(headers, wall_clock)),
        at_once=at_once,
        unpaid=_is_unpaid(exc, kind, status),
    )


def _says_overloaded(exc: BaseException) -> bool:
    return any("overloaded" in text for text in texts_of(exc))  # Gemini: "the model is overloaded"


def _is_unpaid(exc: BaseException, kind: FailureKind | None, status: int | None) -> bool:
    if status is not None:
        return status not in _TIMED_OUT
    links = (type(link).__name__ for link in (exc, exc.__cause__))
    return kind in _REFUSALS or any(map(_UNSENT_NAMES.search, links))


def _kind_of(
    exc: BaseException, status: int | None, headers: Mapping[str, str]
) -> FailureKind | None:
    own = _kind_by_type(exc)
    if own is not None:
        return own
    names = {cls.__name__ for cls in type(exc).__mro__}
    refused = status == 429 or "RateLimitError" in names  # noqa: PLR2004 - the status is the name
    if refused or THROTTLE_CODES.intersection(codes_of(exc)):
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
        case InvalidReplyError():
            return FailureKind.INVALID_REPLY
        case WorkerDiedError():
            return FailureKind.WORKER_DIED
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
    if OUTAGE_CODES.intersection(codes_of(exc)):
        return True
    return any(OUTAGE_NAMES.search(cls.__name__) for cls in type(exc).__mro__)


def _says_quota(exc: BaseException) -> bool:
    texts = [*codes_of(exc), *texts_of(exc)]
    # Gemini says "quota exceeded" of a minute, too: its ids tell, wherever they are.
    if ids := [*gemini_quota_ids(exc), *_QUOTA_ID.findall(" ".join(texts))]:
        return any("perday" in quota for quota in ids)
    normalized = [re.sub("[- ]", "_", text) for text in texts]
    return any(word in text for word in QUOTA_WORDS for text in normalized)


def _says_at_once(exc: BaseException, headers: Mapping[str, str]) -> bool:
    types = rate_limit_types_of(exc, headers)
    if types:
        return bool(AT_ONCE_TYPES.intersection(types))
    texts = [*codes_of(exc), *texts_of(exc)]
    counts = [found.groups() for text in texts if (found := _PARALLEL.search(text))]
    if counts:
        return any(int(current) >= int(most) for current, most in counts)
    return any(word in text for word in AT_ONCE_WORDS for text in texts)


def _requested_wait(
    exc: BaseException, headers: Mapping[str, str], wall_clock: Callable[[], float]
) -> float | None:
    wait = number(get(exc, "retry_after"))
    if wait is None:
        wait = retry_after_s(headers, wall_clock=wall_clock)
    if wait is not None:
        return wait
    for detail in gemini_details(exc):
        delay = get(detail, "retryDelay")
        if isinstance(delay, str):
            return duration_s(delay)
    return None
