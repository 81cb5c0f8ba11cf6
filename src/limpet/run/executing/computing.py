"""Do plain functions compute so much that several processes would help?

They run in threads, and Python lets one thread compute at a time. Calls that only wait for others
do not mind. Of those that compute, the user sees that each takes long, and nothing of the reason.
"""

import logging
import os
import time

from limpet.executors.processor_use import THREADS, ProcessorUse
from limpet.executors.threads import begun_at

_LOOK_EVERY_S = 0.5
_LONG_S = 0.5
_LOOKS = 4  # in a row

logger = logging.getLogger("limpet.run")


class ComputingWatch:
    """Says once that several calls compute on one processor.

    Args:
        loop_thread: The thread of the event loop, by its native id: it computes for Limpet.
    """

    def __init__(self, loop_thread: int) -> None:
        self._use = ProcessorUse(but=loop_thread)
        self._looked_at = time.monotonic()
        self._looks = 0
        # Without what each thread does, the work of the loop would seem to be the calls'.
        self._is_over = os.cpu_count() == 1 or not THREADS.exists()

    def look(self) -> None:
        """Look whether that is so; call it often, on any thread."""
        now = time.monotonic()
        if self._is_over or now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = now
        long = sum(now - at >= _LONG_S for at in begun_at())
        is_full = self._use.is_full(exactly=long > 1)
        self._looks = self._looks + 1 if long > 1 and is_full else 0
        if self._looks == _LOOKS:
            self._is_over = True
            logger.warning(
                "%d calls compute in this process, and Python lets one of them run at a time: "
                "engine: processes uses all %d processors (reported once)",
                long,
                os.cpu_count(),
            )
