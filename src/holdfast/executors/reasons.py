"""What do we say when a call or a run ends otherwise than by its own doing?"""

import asyncio

from holdfast.errors import (
    CallCancelledError,
    InterruptedRunError,
    QuotaExhaustedError,
    TransientError,
)
from holdfast.text import one_line


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


def quota_exhausted(error: Exception) -> QuotaExhaustedError:
    """Say why the run stops, and what to do."""
    if isinstance(error, QuotaExhaustedError):
        return error
    stop = QuotaExhaustedError(
        f"the provider's quota is exhausted: {one_line(error)}",
        hint="top up the account or wait for its reset, then run what did not run again",
    )
    stop.__cause__ = error
    return stop


def interrupted() -> InterruptedRunError:
    """Say why the run stops, and what to do."""
    return InterruptedRunError(
        "a signal stopped the run", hint="run what did not run again to go on"
    )
