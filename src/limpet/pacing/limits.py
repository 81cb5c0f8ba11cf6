"""What do a response's headers say about the provider's limits?

One table of header families. What a provider sends is hostile input: a value that makes no sense
is left out, and none makes anybody wait beyond a bound.
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
_EPOCH_FROM = 1e9  # a reset this large is a moment, not a number of seconds
_EPOCH_MS_FROM = 1e11
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_SCOPED = re.compile(r"x-ratelimit-([^-]+)-limit-(.+)")
SCOPE = ":"
"""Between whose limit it is and what is limited."""
_DURATIONS = re.compile(rf"(?:{_DURATION.pattern})+")


@dataclass(frozen=True, slots=True)
class Limit:
    """One bucket of the provider's: its size, what is left, and the seconds until it is full."""

    name: str
    limit: float
    remaining: float
    reset_s: float


def read_limits(headers: Mapping[str, str], wall_clock: Callable[[], float]) -> list[Limit]:
    """Return what the headers tell of limits. Header names must be in lower case."""

    def now() -> float:
        answered_at = http_date(headers.get("date"))
        return wall_clock() if answered_at is None else answered_at

    found: dict[str, Limit] = {}
    for name, limit, remaining, reset in _triples(headers):
        size, left = number(limit), number(remaining)
        if size is None or left is None or size <= 0:
            continue  # Azure sends -1 for what it does not know
        reset_s = seconds_until(reset, now)
        found.setdefault(name, Limit(name, size, min(left, size), min(reset_s, LONGEST_RESET_S)))
        if len(found) == MOST_LIMITS:
            break
    return list(found.values())


def _triples(headers: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (name, limit, remaining, reset) of each family that is there."""
    for header, limit in headers.items():
        # OpenAI, Azure, Groq and those who follow them: x-ratelimit-limit-tokens
        if header.startswith("x-ratelimit-limit-"):
            name = header.removeprefix("x-ratelimit-limit-")
            left = headers.get(f"x-ratelimit-remaining-{name}", "")
            yield name, limit, left, headers.get(f"x-ratelimit-reset-{name}", "")
        # Anthropic, the other way round: anthropic-ratelimit-tokens-limit
        elif header.startswith("anthropic-ratelimit-") and header.endswith("-limit"):
            stem = header.removesuffix("-limit")
            left, reset = headers.get(f"{stem}-remaining", ""), headers.get(f"{stem}-reset", "")
            yield stem.removeprefix("anthropic-ratelimit-"), limit, left, reset
        # LiteLLM, of a key, a user or a team: x-ratelimit-api_key-limit-requests
        elif scoped := _SCOPED.fullmatch(header):
            whose, name = scoped.groups()
            left = headers.get(f"x-ratelimit-{whose}-remaining-{name}", "")
            reset = headers.get(f"x-ratelimit-{whose}-reset-{name}", "")
            yield f"{whose}{SCOPE}{name}", limit, left, reset
    # The IETF's drafts, the older and the newer, and the custom that they came from.
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
    """Read one parameter of each item of a structured header: "name";q=100;w=60."""
    for item in text[:2000].split(","):
        name, *parameters = item.split(";")
        for parameter in parameters:
            which, _, value = parameter.strip().partition("=")
            if which == key:
                yield name.strip().strip('"'), value


def number(value: object) -> float | None:
    """Read a finite number, 0 or more; anything else is no number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) and parsed >= 0 else None


def duration_s(text: str) -> float | None:
    """Read a duration as Go writes it ("12ms", "6m0s"), or a plain number of seconds."""
    text = text.strip()
    if len(text) > _LONGEST_DURATION:
        return None
    if not _DURATIONS.fullmatch(text):
        return number(text)
    return number(sum(float(count) * _UNITS[unit] for count, unit in _DURATION.findall(text)))


def seconds_until(text: str, now: Callable[[], float]) -> float:
    """Read a reset: a duration, a moment since the epoch, or a date; 0 if it is none of them."""
    plain = duration_s(text)
    if plain is not None:
        if plain > _EPOCH_MS_FROM:
            plain /= 1000
        return max(0.0, plain - now()) if plain > _EPOCH_FROM else plain
    moment = _iso_date(text) or http_date(text)
    return 0.0 if moment is None else max(0.0, moment - now())


def http_date(text: str | None) -> float | None:
    """Read an HTTP date as seconds since the epoch."""
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
