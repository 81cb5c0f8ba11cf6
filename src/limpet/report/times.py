"""How is a time shown to a person?"""

import time

from limpet.run.reading.progress import age_s, seconds_of

_STEPS = ((90, 1, "s"), (5_400, 60, "min"), (129_600, 3_600, "h"))
_DAY_S = 86_400


def moment(text: str) -> str:
    """Return a timestamp in local time: `2026-11-14 10:00:00`; a dash if there is none."""
    at = seconds_of(text)
    return "–" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def ago(text: str) -> str:
    """Return how long ago a time was: `12 min ago`; a dash if unknown."""
    seconds = age_s(text)
    if seconds is None:
        return "–"
    for most, unit_s, name in _STEPS:
        if seconds < most:
            return f"{seconds / unit_s:.0f} {name} ago"
    return f"{seconds / _DAY_S:.0f} days ago"
