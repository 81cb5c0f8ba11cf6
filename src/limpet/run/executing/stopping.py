"""How does a session stop before its end: all its steps together, and why?"""

import asyncio
import logging
import math
import signal
from typing import Any

from limpet.errors import InterruptedRunError
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.journal.journal import Journal
from limpet.run.executing.opened_step import OpenedStep
from limpet.run.progress.watcher import Watcher
from limpet.secrets.masking import Masking
from limpet.text import text_of

logger = logging.getLogger("limpet.run")


class Stopping:
    """Stops the steps of a session when it is asked to, and says so.

    Args:
        journal: Where it is told.
        masking: What keeps secrets from being told.
        watcher: Told too.
        grace_s: How long calls in flight may go on once it is asked.

    Attributes:
        reason: Why it stopped before all cells were done; None if it did not.
        loop: The event loop of the session, once it runs.
        executors: Those of the steps.
        opening: The step that is being opened.
    """

    def __init__(
        self, journal: Journal, masking: Masking, watcher: Watcher | None, grace_s: float
    ) -> None:
        self.reason: Exception | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.executors: list[AsyncExecutor[Any, Any]] = []
        self.opening: OpenedStep | None = None
        self._journal = journal
        self._masking = masking
        self._watcher = watcher
        self._grace_s = grace_s
        self._asked = 0

    def ask(self, signum: int | None = None) -> None:
        """Stop, from any thread: asked once, calls in flight may end; asked again, at once.

        SIGTERM is the wish of a machine that will not wait long: then the grace is short. What is
        finished and cannot be written, as the disk is full, waits for room no longer than that.
        """
        reason = InterruptedRunError("the run was interrupted", hint="run it again to go on")
        reason.signum = signum
        self._asked += 1
        grace_s = self._grace_s if self._asked == 1 else 0.0
        if signum not in (None, signal.SIGINT):
            grace_s = min(grace_s, STOP_GRACE_S)
        # Sooner than the calls, so that those who wait for it are told before they are cancelled.
        room_s = grace_s / 2
        if room_s < math.inf:
            self._journal.hurry(room_s)
        # Said at once, and not by the event loop: user code may be blocking it.
        self.because(reason)
        if self._journal.waits_for_room:
            logger.warning("what is finished waits for room on the disk%s", _how_long(room_s))
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._stop_all, reason, grace_s)

    def stop(self, reason: Exception) -> None:
        """Stop for a reason of the run's own, on its event loop: calls in flight may end."""
        if self.because(reason):
            self._asked += 1  # whoever asks now does not want to wait
            self._stop_all(reason, self._grace_s)

    def because(self, reason: Exception) -> bool:
        """Say why it stops; return False if that has been said already."""
        if self.reason is not None:
            return False
        self.reason = reason
        self._journal.tell("stopping", reason=self._masking.certain.text(text_of(reason)))
        if self._watcher is not None:
            self._watcher.stopping(reason)
        return True

    def _stop_all(self, reason: Exception, grace_s: float) -> None:
        if self.opening is not None:
            self.opening.give_up_opening()  # nothing has been sent yet
        for executor in self.executors:
            executor.stop(reason, grace_s=grace_s)


def _how_long(room_s: float) -> str:
    if room_s == math.inf:
        return "; make some, or stop it again to give that up"
    return f", {room_s:g} s at most" if room_s else " no longer"
