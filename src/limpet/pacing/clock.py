"""What time is it?

Inside an event loop it is the loop's time, so that a loop on virtual time controls every wait.
Outside a loop it is the monotonic clock, which a real loop uses too.
"""

import asyncio
import time


def now() -> float:
    """Return the running loop's time, or `time.monotonic()` without a running loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return time.monotonic()
    return loop.time()
