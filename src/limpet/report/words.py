"""How are numbers, times and values written on one line?"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.json_values import encode
from limpet.run.reading.progress import age_s, seconds_of
from limpet.text import count, harmless, one_line

_MOST_TEXT = 20_000
_MOST_ROWS = 3
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LEAST_P = 0.0001
_AGES = ((90, 1, "s"), (90 * _MINUTE, _MINUTE, "min"), (36 * _HOUR, _HOUR, "h"))


def duration(seconds: float) -> str:
    """Return a length of time: `4.2 s`, `2:05 min`, `1:02:05 h`."""
    if seconds < 10:  # noqa: PLR2004 - tenths matter only below
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02} min"
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02}:{whole % _MINUTE:02} h"


def latency(seconds: float) -> str:
    """Return how long a call took: `0.4 ms`, `0.15 s`, `1.2 s`, `2:05 min`."""
    if seconds < 0.001:  # noqa: PLR2004 - no exponents
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 1 else duration(seconds)


def p_value(p: float) -> str:
    """Return a p value: `0.63`, `0.018`, `<0.0001`; a dash if there is none."""
    if math.isnan(p):
        return "–"
    return f"<{_LEAST_P}" if p < _LEAST_P else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"  # noqa: PLR2004


def by_error(errors: Mapping[str, int]) -> str:
    """Return failures by exception, the most frequent first: `12 TimeoutError, 3 KeyError`."""
    ranked = sorted(errors.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number:,} {one_line(name)}" for name, number in ranked)


def by_current(current: int, of: int) -> str:
    """Return how many answers are current: `11 of 240 answers are from the current version`."""
    return f"{current:,} of {of:,} answers are from the current version"


def without_answer(items: int) -> str:
    """Return why an evaluator has fewer cells than the workflow: `2 without an answer`."""
    return f"{items:,} without an answer"


def skipped_rows(rows: Sequence[str]) -> list[str]:
    """Return how many rows were skipped, with the first three; empty if none were."""
    if not rows:
        return []
    more = f" and {len(rows) - _MOST_ROWS:,} more" if len(rows) > _MOST_ROWS else ""
    return [
        f"{count(len(rows), 'row')} skipped: {'; '.join(map(one_line, rows[:_MOST_ROWS]))}{more}"
    ]


def moment(text: str) -> str:
    """Return a timestamp in local time: `2026-11-14 10:00:00`; a dash if there is none."""
    at = seconds_of(text)
    return "–" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def ago(text: str) -> str:
    """Return how long ago a time was: `12 min ago`; a dash if unknown."""
    seconds = age_s(text)
    if seconds is None:
        return "–"
    for most, unit_s, name in _AGES:
        if seconds < most:
            return f"{seconds / unit_s:.0f} {name} ago"
    return f"{seconds / _DAY:.0f} days ago"


def shown(value: Any) -> str:
    """Return any value on one line, without control characters."""
    if value is None:
        return ""
    return one_line(value if isinstance(value, str) else json_line(value))


def in_full(value: Any) -> str:
    """Return any value without control characters; only a very long one is shortened."""
    text = value if isinstance(value, str) else json_line(value)
    return harmless(text[:_MOST_TEXT]) + ("…" if len(text) > _MOST_TEXT else "")


def json_line(value: Any) -> str:
    """Return a value as one line of JSON, with control characters escaped."""
    return escaped(encode(value)[0].decode())


def escaped(text: str) -> str:
    """Return one line of JSON with all control characters escaped."""
    if text.isprintable():
        return text
    # Outside its strings, one line of JSON has only printable characters.
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
