"""What happens to finished records while the disk has no room for them?

They wait in memory and the write is tried again each second, for as long as `patience_s` and
whoever is in a hurry allow. Whoever starts new work is told, and told again when there is room.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import inf

from limpet.errors import DiskFullError, LimpetError
from limpet.journal.append_file import AppendFile, Job

logger = logging.getLogger("limpet.journal")
RETRY_S = 1.0
_STEP_S = 0.1


class FullDisk:
    """The wait for room. All but `hurry` and `is_full` belongs to the writer's thread.

    Args:
        patience_s: How long to wait, from when the disk got full.
        closing: Ends every wait.
        tell: Told a DiskFullError when the disk gets full, and None when there is room again.
    """

    def __init__(
        self,
        patience_s: float,
        closing: threading.Event,
        tell: Callable[[LimpetError | None], None],
    ) -> None:
        self._patience_s = patience_s
        self._closing = closing
        self._tell = tell
        self._since: float | None = None
        self._give_up_at = inf

    @property
    def is_full(self) -> bool:
        """Whether records wait for room."""
        return self._since is not None

    def hurry(self, within_s: float) -> None:
        """Wait no longer than that, however long `patience_s` is."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + within_s)

    def wait(self, file: AppendFile, jobs: Sequence[Job], error: OSError) -> bool:
        """Wait before the next try; tell whether there should be one."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            full = disk_full(file, jobs, error)
            logger.error("%s; %s", full, full.hint)
            self._tell(full)
        end = self._since + self._patience_s
        if now >= min(end, self._give_up_at):
            return False
        # By short steps: it may be told meanwhile that it has to hurry.
        until = min(now + RETRY_S, end)
        while (step_s := min(until, self._give_up_at) - time.monotonic()) > 0:
            if self._closing.wait(min(step_s, _STEP_S)):
                return False
        return True

    def end(self, file: AppendFile) -> None:
        """Take note that something could be written."""
        if self._since is not None:
            self._since = None
            logger.warning("%s: there is room again; going on", file.path)
            self._tell(None)


def disk_full(file: AppendFile, jobs: Sequence[Job], error: OSError) -> DiskFullError:
    """Return the error for records that there is no room for."""
    needed, free = sum(len(job.line) for job in jobs), file.free_bytes()
    room = "" if free is None else f", {free / 1e6:,.1f} MB are free"
    full = DiskFullError(
        f"{file.path}: {error.strerror}: {needed / 1e6:,.1f} MB are needed{room}",
        hint="make room on that disk and it goes on by itself; "
        "if it has stopped, run it again: nothing that was finished is lost",
    )
    full.__cause__ = error
    return full
