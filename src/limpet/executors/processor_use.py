"""Is this process busy computing?

Python lets one thread compute at a time. A process is full if some thread computed for most of the
time, or was ready to: on a machine with much to do, others have the processors meanwhile. One that
uses several processors at once is not full: its functions let other threads run.
"""

import time
from pathlib import Path

THREADS = Path("/proc/self/task")
"""Where the system says what each thread does, if it does."""
_FULL, _SEVERAL = 0.8, 1.2  # processors
_LEAST = 0.3  # with less, threads that only wait seem to compute on a machine with much to do


class ProcessorUse:
    """What this process uses, from look to look.

    Args:
        but: A thread that does not count, by its native id.
    """

    def __init__(self, but: int | None = None) -> None:
        self._but = but
        self._looked_at, self._cpu_s = time.monotonic(), self._computed_s()
        self._waited_s: dict[str, float] = {}

    def is_full(self, *, exactly: bool = True) -> bool:
        """Return whether it was full since the last look.

        Args:
            exactly: Whether to look at each thread. If not, being ready counts neither now nor in
                the next look, and nothing is read.
        """
        now, cpu_s = time.monotonic(), self._computed_s()
        waited_s = _waited_s() if exactly else {}
        passed_s = max(now - self._looked_at, 1e-9)
        used = (cpu_s - self._cpu_s) / passed_s
        waited = sum(
            waited - self._waited_s[thread]
            for thread, waited in waited_s.items()
            if thread in self._waited_s and thread != str(self._but)
        )
        self._looked_at, self._cpu_s, self._waited_s = now, cpu_s, waited_s
        return _LEAST <= used <= _SEVERAL and used + waited / passed_s >= _FULL

    def _computed_s(self) -> float:
        return time.process_time() - (0 if self._but is None else _times_s(self._but)[0])


def waited_for_processor_s(thread: int | str) -> float:
    """Return how long a thread was ready to run while others had the processors.

    Args:
        thread: Its native id.

    Returns:
        0 where the system does not say.
    """
    return _times_s(thread)[1]


def _times_s(thread: int | str) -> tuple[float, float]:
    """Return how long a thread computed, and how long it was ready to."""
    try:
        numbers = (THREADS / str(thread) / "schedstat").read_bytes().split()
        return int(numbers[0]) / 1e9, int(numbers[1]) / 1e9
    except (OSError, ValueError, IndexError):  # it ended, or this is another system
        return 0.0, 0.0


def _waited_s() -> dict[str, float]:
    try:
        threads = [path.name for path in THREADS.iterdir()]
    except OSError:
        return {}
    return {thread: waited_for_processor_s(thread) for thread in threads}
