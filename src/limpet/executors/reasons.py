"""Which error explains why a call or a run was ended from outside?"""

import asyncio
import math
import time
from datetime import UTC, datetime

from limpet.errors import (
    CallCancelledError,
    EndpointDownError,
    InterruptedRunError,
    QuotaExhaustedError,
    TransientError,
)
from limpet.text import one_line


def overdue(index: int, number: int, timeout_s: float, *, last: bool = False) -> TimeoutError:
    """Return the error of an attempt that took too long, and the last one's with what to do."""
    what = f"input {index}: no answer within {timeout_s:g} s (attempt {number})"
    more = "; a higher timeout gives it more time, a higher max_timeouts more attempts"
    return TimeoutError(what + (more if last else ""))


def cancelled_on_request(index: int) -> CallCancelledError:
    """Return the error of a call cancelled by its index."""
    return CallCancelledError(f"the call for input {index} was cancelled on request")


def cancelled_from_inside(index: int, error: asyncio.CancelledError) -> TransientError:
    """Return the error of a call whose own code cancelled it."""
    cancelled = TransientError(f"the call for input {index} was cancelled from inside")
    cancelled.__cause__ = error
    return cancelled


def quota_exhausted(error: Exception, retry_after_s: float | None) -> QuotaExhaustedError:
    """Return the reason for a stop on an exhausted quota, with the time to resume."""
    if isinstance(error, QuotaExhaustedError):
        return error
    if retry_after_s is None:
        hint = "top up the account or wait for its reset, then run the remaining inputs"
    else:
        hint = f"run the remaining inputs after {resume_time(retry_after_s)}"
    stop = QuotaExhaustedError(f"the provider's quota is exhausted: {one_line(error)}", hint=hint)
    stop.__cause__ = error
    return stop


def nothing_gets_through(seconds: float, error: Exception) -> EndpointDownError:
    """Return the reason for a stop after a long outage."""
    stop = EndpointDownError(
        f"no call has succeeded for {seconds / 60:.0f} minutes; the last error: {one_line(error)}",
        hint="run the remaining inputs when the provider is back",
    )
    stop.__cause__ = error
    return stop


def resume_time(seconds: float) -> str:
    """Format a moment in the future: its local time, and how far away it is."""
    minutes = math.ceil(min(seconds, 366 * 86_400) / 60)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    distance = " ".join(f"{count} {unit}" for count, unit in parts if count)
    moment = datetime.fromtimestamp(time.time() + minutes * 60, tz=UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M} (in {distance})"


def interrupted() -> InterruptedRunError:
    """Return the reason for a stop on a signal."""
    return InterruptedRunError(
        "a signal stopped the run", hint="run the remaining inputs to continue"
    )
