"""How often may Python look for garbage while a thousand calls are in flight?

By default it looks after each 700 new objects, and every so often at all there are: the dataset,
and what a thousand calls hold. That took a quarter of the time of a run (benchmarks/remote.py).
While connections are open it looks less often; a few megabytes more wait for it.
"""

import gc
import threading

OBJECTS = 10_000
_lock = threading.Lock()
_before: list[int] = []


def relax() -> None:
    """Look less often, until as many have called `restore`."""
    with _lock:
        least, *others = gc.get_threshold()
        _before.append(least)
        if 0 < least < OBJECTS:  # 0: somebody has turned it off
            gc.set_threshold(OBJECTS, *others)


def restore() -> None:
    """Look as often as before, once nobody needs it otherwise."""
    with _lock:
        first = _before[0]
        _before.pop()
        least, *others = gc.get_threshold()
        if not _before and least == OBJECTS:  # unless somebody else has changed it since
            gc.set_threshold(first, *others)
