"""What time is it, for whoever asks?

Inside an event loop the time is the loop's, so that a loop on virtual time moves everything that
waits. Outside of one it is the monotonic clock, which is also what a real loop uses.
"""

import asyncio
import time


def now() -> float:
    """Return the running loop's time, or `time.monotonic()` where no loop runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return time.monotonic()
    return loop.time()


def wall_time() -> float:
    """Return seconds since the epoch. Only dates in headers need it."""
    return time.time()
