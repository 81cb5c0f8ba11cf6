"""When does a worker get no more cells for a while?

Plain functions that compute share one interpreter: eight at once take eight times as long each, and
no more is done. Their times would say nothing, and a long one would run out of time. So a worker
has less room at each look while calls that take long keep its interpreter busy, down to two cells:
one computes, and the next is there. Afterwards it has more, step by step, so that functions which
compute a little and wait a lot stay near what keeps it just busy.

One that uses several processors at once is not crowded: its functions let other threads run.
"""

import time
from pathlib import Path

_LEAST_ROOM, _MOST_ROOM = 2, 256
_LONG_S = 0.25
_FULL, _SEVERAL = 0.8, 1.2  # processors
_LEAST = 0.3  # with less, threads that only wait seem to compute on a machine with much to do
_FORGETS_S = 1.0  # without a long call: they are short when they do not share the interpreter


class Crowding:
    """How many cells this process has room for; ask a few times a second.

    Attributes:
        room: How many; 0: any number.
    """

    def __init__(self) -> None:
        self.room = 0
        self._looked_at, self._cpu_s = time.monotonic(), time.process_time()
        self._waited_s: dict[str, float] = {}
        self._long_at = float("-inf")

    def changes(self, begun_at: list[float]) -> bool:
        """Look again, and return whether the room is another.

        Args:
            begun_at: When each call began that runs in a thread, by `time.monotonic`.
        """
        now, before = time.monotonic(), self.room
        long = sum(now - at >= _LONG_S for at in begun_at)
        if long:
            self._long_at = now
        is_full = self._is_full(now, looks=bool(before) or long > 1)
        if is_full and (long > 1 or (before and now - self._long_at < _FORGETS_S)):
            self.room = max(_LEAST_ROOM, (before or len(begun_at)) * 2 // 3)
        elif before:
            self.room = before + (before + 1) // 2 if before < _MOST_ROOM else 0
        return self.room != before

    def _is_full(self, now: float, *, looks: bool) -> bool:
        """Return whether some thread computed, or was ready to, for most of the time."""
        cpu_s, waited_s = time.process_time(), _waited_for_a_processor() if looks else {}
        passed_s = max(now - self._looked_at, 1e-9)
        used = (cpu_s - self._cpu_s) / passed_s
        waited = sum(
            waited - self._waited_s[thread]
            for thread, waited in waited_s.items()
            if thread in self._waited_s
        )
        self._looked_at, self._cpu_s, self._waited_s = now, cpu_s, waited_s
        return _LEAST <= used <= _SEVERAL and used + waited / passed_s >= _FULL


def _waited_for_a_processor() -> dict[str, float]:
    """Return how many seconds each thread was ready to run while others had the processors."""
    waited = {}
    try:
        for thread in Path("/proc/self/task").iterdir():
            _, waited_ns, *_ = (thread / "schedstat").read_bytes().split()
            waited[thread.name] = int(waited_ns) / 1e9
    except (OSError, ValueError):  # it ended meanwhile, or the system does not say
        pass
    return waited
