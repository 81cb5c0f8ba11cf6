"""How are numbers shown to a person?"""

from collections.abc import Mapping

from limpet.text import one_line

_MINUTE, _HOUR = 60, 3600


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


def count(number: float, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 call`, `2,000 calls`."""
    return f"{number:,.0f} {noun if number == 1 else plural or f'{noun}s'}"


def by_class(failed: Mapping[str, int]) -> str:
    """Return failures by their class, the most frequent first: `timeout 12, permanent 3`."""
    ranked = sorted(failed.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{one_line(kind)} {number:,}" for kind, number in ranked)


def mean(value: float | None) -> str:
    """Return a mean; a dash if there is none."""
    return "–" if value is None else f"{value:.4g}"


def by_current(current: int, of: int) -> str:
    """Return how many results are by the current version: `11 of 240 by the current version`."""
    return f"{current:,} of {of:,} by the current version"
