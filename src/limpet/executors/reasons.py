"""What do we say when a call or a run ends otherwise than by its own doing?"""

import asyncio
import math
from datetime import UTC, datetime

from limpet.errors import (
    CallCancelledError,
    EndpointDownError,
    InterruptedRunError,
    QuotaExhaustedError,
    TransientError,
)
from limpet.pacing import clock
from limpet.text import one_line


def overdue(index: int, number: int, timeout_s: float) -> TimeoutError:
    """Say that an attempt took too long."""
    return TimeoutError(f"input {index}: no answer within {timeout_s:g} s (attempt {number})")


def cancelled_on_request(index: int) -> CallCancelledError:
    """Say that somebody asked for it."""
    return CallCancelledError(f"the call for input {index} was cancelled on request")


def cancelled_from_inside(index: int, error: asyncio.CancelledError) -> TransientError:
    """Say that it was not us who cancelled it."""
    inside = TransientError(f"the call for input {index} was cancelled from inside")
    inside.__cause__ = error
    return inside


def quota_exhausted(error: Exception, retry_after_s: float | None) -> QuotaExhaustedError:
    """Say why the run stops, and when to come back."""
    if isinstance(error, QuotaExhaustedError):
        return error
    if retry_after_s is None:
        hint = "top up the account or wait for its reset, then run what did not run again"
    else:
        hint = f"run what did not run again after {come_back(retry_after_s)}"
    stop = QuotaExhaustedError(f"the provider's quota is exhausted: {one_line(error)}", hint=hint)
    stop.__cause__ = error
    return stop


def nothing_gets_through(seconds: float, error: Exception) -> EndpointDownError:
    """Say why the run stops, and what to do."""
    stop = EndpointDownError(
        f"no call has got through for {seconds / 60:.0f} minutes; the last one: {one_line(error)}",
        hint="run what did not run again when the provider answers",
    )
    stop.__cause__ = error
    return stop


def come_back(seconds: float) -> str:
    """Name a moment: how far away, and when by this machine's clock."""
    minutes = math.ceil(min(seconds, 366 * 86_400) / 60)
    days, hours, rest = minutes // 1440, minutes // 60 % 24, minutes % 60
    away = " ".join(f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (rest, "min")) if n)
    moment = datetime.fromtimestamp(clock.wall_time() + minutes * 60, tz=UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M} (in {away})"


def interrupted() -> InterruptedRunError:
    """Say why the run stops, and what to do."""
    return InterruptedRunError(
        "a signal stopped the run", hint="run what did not run again to go on"
    )
