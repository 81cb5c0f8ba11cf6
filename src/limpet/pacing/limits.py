"""What do a response's headers say about the provider's limits?

Headers are untrusted input: values that make no sense are ignored, and none can cause an unbounded
wait.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_RESET_S = 86_400.0
MOST_LIMITS = 16
_LONGEST_DURATION = 40  # characters
_EPOCH_FROM = 1e9  # a reset this large is a timestamp, not a number of seconds
_EPOCH_MS_FROM = 1e11
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_SCOPED = re.compile(r"x-ratelimit-([^-]+)-limit-(.+)")
_IN_EVERY_NAME = "ratelimit"
_AT_ONCE = "parallel"  # LiteLLM: a number of calls in flight, which no time refills
SCOPE = ":"
"""Separates the owner of a limit from its name."""
_DURATIONS = re.compile(rf"(?:{_DURATION.pattern})+")


@dataclass(frozen=True, slots=True)
class Limit:
    """One of the provider's buckets: its size, what remains, and the seconds until it is full."""

    name: str
    limit: float
    remaining: float
    reset_s: float


def read_limits(headers: Mapping[str, str], wall_clock: Callable[[], float]) -> list[Limit]:
    """Return the limits in the headers. Header names must be lower case."""

    def now() -> float:
        answered_at = http_date(headers.get("date"))
        return wall_clock() if answered_at is None else answered_at

    if not any(_IN_EVERY_NAME in name for name in headers):
        return []
    limits: dict[str, Limit] = {}
    for name, limit, remaining, reset in _limit_headers(headers):
        size, left = number(limit), _remaining(remaining)
        if size is None or left is None or size <= 0 or _AT_ONCE in name:
            continue
        reset_s = seconds_until(reset, now)
        limits.setdefault(name, Limit(name, size, min(left, size), min(reset_s, LONGEST_RESET_S)))
        if len(limits) == MOST_LIMITS:
            break
    return list(limits.values())


def _remaining(text: str) -> float | None:
    """Parse what remains: LiteLLM goes below zero; Azure sends -1 for an unknown value."""
    left = number(text)
    if left is None and text.strip() != "-1":
        owed = number(text.strip().removeprefix("-"))
        return None if owed is None else 0.0
    return left


def _limit_headers(headers: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (name, limit, remaining, reset) for each known family of headers."""
    for header, limit in headers.items():
        # OpenAI, Azure, Groq and compatible ones: x-ratelimit-limit-tokens
        if header.startswith("x-ratelimit-limit-"):
            name = header.removeprefix("x-ratelimit-limit-")
            left = headers.get(f"x-ratelimit-remaining-{name}", "")
            yield name, limit, left, headers.get(f"x-ratelimit-reset-{name}", "")
        # Anthropic, the other way round: anthropic-ratelimit-tokens-limit
        elif header.startswith("anthropic-ratelimit-") and header.endswith("-limit"):
            stem = header.removesuffix("-limit")
            left, reset = headers.get(f"{stem}-remaining", ""), headers.get(f"{stem}-reset", "")
            yield stem.removeprefix("anthropic-ratelimit-"), limit, left, reset
        # LiteLLM, for a key, a user or a team: x-ratelimit-api_key-limit-requests
        elif scoped := _SCOPED.fullmatch(header):
            owner, name = scoped.groups()
            left = headers.get(f"x-ratelimit-{owner}-remaining-{name}", "")
            reset = headers.get(f"x-ratelimit-{owner}-reset-{name}", "")
            yield f"{owner}{SCOPE}{name}", limit, left, reset
    # The IETF drafts, old and new, and the convention they are based on.
    for prefix in ("ratelimit-", "x-ratelimit-"):
        if f"{prefix}limit" in headers:
            limit = re.split(r"[,;]", headers[f"{prefix}limit"])[0]
            left = headers.get(f"{prefix}remaining", "")
            yield "requests", limit, left, headers.get(f"{prefix}reset", "")
    sizes = dict(_policies(headers.get("ratelimit-policy", ""), "q"))
    resets = dict(_policies(headers.get("ratelimit", ""), "t"))
    for name, remaining in _policies(headers.get("ratelimit", ""), "r"):
        yield name, sizes.get(name, ""), remaining, resets.get(name, "")


def _policies(text: str, key: str) -> Iterator[tuple[str, str]]:
    """Yield one parameter of each item in a structured header: "name";q=100;w=60."""
    for item in text[:2000].split(","):
        name, *parameters = item.split(";")
        for parameter in parameters:
            which, _, value = parameter.strip().partition("=")
            if which == key:
                yield name.strip().strip('"'), value


def number(value: object) -> float | None:
    """Parse a finite number, 0 or more; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) and parsed >= 0 else None


def duration_s(text: str) -> float | None:
    """Parse a Go duration ("12ms", "6m0s") or a number of seconds."""
    text = text.strip()
    if len(text) > _LONGEST_DURATION:
        return None
    if not _DURATIONS.fullmatch(text):
        return number(text)
    return number(sum(float(count) * _UNITS[unit] for count, unit in _DURATION.findall(text)))


def seconds_until(text: str, now: Callable[[], float]) -> float:
    """Parse a reset: a duration, a Unix timestamp, or a date; 0 for anything else."""
    plain = duration_s(text)
    if plain is not None:
        if plain > _EPOCH_MS_FROM:
            plain /= 1000
        return max(0.0, plain - now()) if plain > _EPOCH_FROM else plain
    moment = _iso_date(text) or http_date(text)
    return 0.0 if moment is None else max(0.0, moment - now())


def http_date(text: str | None) -> float | None:
    """Parse an HTTP date to seconds since the epoch."""
    if not text:
        return None
    try:
        return _epoch(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _iso_date(text: str) -> float | None:
    try:
        return _epoch(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        return None


def _epoch(date: datetime) -> float:
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
