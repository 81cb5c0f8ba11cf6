"""What happens to finished records while the disk is full?

They wait in memory, and the write is retried each second until `patience_s` or `hurry` ends the
wait. Listeners hear when the disk gets full, so that no new work starts, and when there is space
again.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import inf

from limpet.errors import DiskFullError, LimpetError
from limpet.journal.append_file import AppendFile, Job
from limpet.text import size

logger = logging.getLogger("limpet.journal")
RETRY_S = 1.0
_STEP_S = 0.1


class FullDisk:
    """The wait for space. Other threads may use only `hurry` and `is_full`.

    Args:
        patience_s: How long to wait after the disk got full.
        closing: Ends every wait.
        notify: Called with a DiskFullError when the disk gets full, and with None when there is
            space again.
    """

    def __init__(
        self,
        patience_s: float,
        closing: threading.Event,
        notify: Callable[[LimpetError | None], None],
    ) -> None:
        self._patience_s = patience_s
        self._closing = closing
        self._notify = notify
        self._since: float | None = None
        self._give_up_at = inf

    @property
    def is_full(self) -> bool:
        """Whether records wait for space."""
        return self._since is not None

    def hurry(self, within_s: float) -> None:
        """Wait at most this long from now, even if `patience_s` is longer."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + within_s)

    def wait(self, file: AppendFile, jobs: Sequence[Job], error: OSError) -> bool:
        """Wait before the next attempt; return whether to make one."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            full = disk_full(file, jobs, error)
            logger.error("%s; %s", full, full.hint)
            self._notify(full)
        end = self._since + self._patience_s
        if now >= min(end, self._give_up_at):
            return False
        # In short steps: `hurry` may be called meanwhile.
        until = min(now + RETRY_S, end)
        while (step_s := min(until, self._give_up_at) - time.monotonic()) > 0:
            if self._closing.wait(min(step_s, _STEP_S)):
                return False
        return True

    def end(self, file: AppendFile) -> None:
        """Note that a write succeeded."""
        if self._since is not None:
            self._since = None
            logger.warning("%s: there is space again; continuing", file.path)
            self._notify(None)


def disk_full(file: AppendFile, jobs: Sequence[Job], error: OSError) -> DiskFullError:
    """Return the error for records that do not fit on the disk."""
    needed, free = sum(len(job.line) for job in jobs), file.free_bytes()
    space = "" if free is None else f", {size(free)} free"
    full = DiskFullError(
        f"{file.path}: {error.strerror}: {size(needed)} needed{space}",
        hint="free some space on that disk and it continues by itself; "
        "if it has stopped, run it again: no finished result is lost",
    )
    full.__cause__ = error
    return full
