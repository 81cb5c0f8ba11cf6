"""When was that, in seconds?"""

import time
from datetime import UTC, datetime


def seconds_of(text: object) -> float | None:
    """Return a time as our files write it, in seconds since 1970; None if it is none."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def age_s(text: object) -> float | None:
    """Return how long ago a time was; None if it is none."""
    at = seconds_of(text)
    return None if at is None else max(0.0, time.time() - at)
