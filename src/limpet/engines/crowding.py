"""When does a worker get no more cells for a while?

Plain functions that compute share one interpreter: eight at once take eight times as long each, and
no more is done. Their times would say nothing, and a long one would run out of time. So a worker
has less room at each look while calls that take long keep its interpreter busy, down to two cells:
one computes, and the next is there. Afterwards it has more, step by step, so that functions which
compute a little and wait a lot stay near what keeps it just busy.
"""

import time

from limpet.executors.processor_use import ProcessorUse

_LEAST_ROOM, _MOST_ROOM = 2, 256
_LONG_S = 0.25
_FORGETS_S = 1.0  # without a long call: they are short when they do not share the interpreter


class Crowding:
    """How many cells this process has room for; ask a few times a second.

    Attributes:
        room: How many; 0: any number.
    """

    def __init__(self) -> None:
        self.room = 0
        self._use = ProcessorUse()
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
        is_full = self._use.is_full(exactly=bool(before) or long > 1)
        if is_full and (long > 1 or (before and now - self._long_at < _FORGETS_S)):
            self.room = max(_LEAST_ROOM, (before or len(begun_at)) * 2 // 3)
        elif before:
            self.room = before + (before + 1) // 2 if before < _MOST_ROOM else 0
        return self.room != before
