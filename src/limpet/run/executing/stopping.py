"""Stops all steps of a session together, and remembers why."""

import asyncio
import logging
import math
import os
import shlex
import signal
from typing import Any, TypeVar

from limpet.engines.opened_step import OpenedStep
from limpet.errors import InterruptedRunError, RunPausedError
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.results.map_result import MapResult
from limpet.run.run_file import RunFile
from limpet.run.watcher import Watcher
from limpet.secrets.masking import Masking
from limpet.text import harmless, text_of

logger = logging.getLogger("limpet.run")


def interrupted(signum: int | None) -> InterruptedRunError:
    """Return the reason for a stop on a signal."""
    reason = InterruptedRunError("the run was interrupted", hint="run it again to resume")
    reason.signum = signum
    return reason


def unpaused(layout: Layout) -> RunFile:
    """Return the content of `run.json`.

    Raises:
        RunPausedError: The run is paused, so no session begins.
    """
    run_file = RunFile.load(layout)
    if run_file.paused:
        run = shlex.quote(harmless(os.path.relpath(layout.home)))
        raise RunPausedError(
            f"{run}: limpet ctl paused this run at {run_file.paused}: nothing was done",
            hint=f"limpet ctl {run} resume, then run it again",
        )
    return run_file


class Stopping:
    """Stops the steps of a session on request, and reports it.

    Args:
        journal: The run's journal.
        masking: Keeps secrets out of events.
        watcher: Notified of the stop.
        grace_s: How long calls in flight may continue after a request.

    Attributes:
        reason: Why the session stopped before all cells were done; None if it did not.
        loop: The session's event loop, once it runs.
        executors: The executors of the steps.
        opening: The step that is being opened.
        closing: The step that is being closed.
    """

    def __init__(
        self, journal: Journal, masking: Masking, watcher: Watcher | None, grace_s: float
    ) -> None:
        self.reason: Exception | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.executors: list[AsyncExecutor[Any, Any]] = []
        self.opening: OpenedStep | None = None
        self.closing: OpenedStep | None = None
        self._journal = journal
        self._masking = masking
        self._watcher = watcher
        self._grace_s = grace_s
        self._requests = 0
        self._is_urgent = False

    def request_stop(self, signum: int | None = None) -> None:
        """Stop, from any thread: a first request lets calls in flight finish, a second does not.

        After SIGTERM the grace is short: its sender will not wait long. Results that wait for space
        on a full disk wait no longer than that.
        """
        reason = interrupted(signum)
        self._requests += 1
        grace_s = self._grace_s if self._requests == 1 else 0.0
        if signum not in (None, signal.SIGINT):
            grace_s = min(grace_s, STOP_GRACE_S)
        self._is_urgent |= self._requests > 1 or signum not in (None, signal.SIGINT)
        # Shorter than for calls: a result that waits for the disk must fail before it is cancelled.
        room_s = grace_s / 2
        if room_s < math.inf:
            self._journal.hurry(room_s)
        # Not on the event loop: user code may be blocking it.
        self.because(reason)
        if self._journal.waits_for_room:
            logger.warning("%s", _waiting_words(room_s))
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._stop_all, reason, grace_s)

    def stop(self, reason: Exception, grace_s: float | None = None) -> None:
        """Stop for an internal reason, on the event loop. Calls in flight may finish."""
        if self.because(reason):
            self._requests += 1  # the user's first request then stops at once
            self._stop_all(reason, self._grace_s if grace_s is None else grace_s)

    def because(self, reason: Exception) -> bool:
        """Set the reason and report it; return False if one is set already."""
        if self.reason is not None:
            return False
        self.reason = reason
        said = self._masking.certain.text(text_of(reason))
        self._journal.log_event("stopping", at_once=True, reason=said)
        if self._watcher is not None:
            self._watcher.stopping(reason)
        return True

    def _stop_all(self, reason: Exception, grace_s: float) -> None:
        if self.opening is not None:
            self.opening.give_up_opening()  # no call has been made yet
        for executor in self.executors:
            executor.stop(reason, grace_s=grace_s)
        if self.closing is not None and self._is_urgent:
            self._limit_closing(self.closing, grace_s)

    async def close(self, step: OpenedStep) -> None:
        """Close a step. In an urgent stop, its tear-down has as long as calls in flight."""
        self.closing = step
        if self._is_urgent:
            self._limit_closing(step, STOP_GRACE_S)
        try:
            await step.close()
        finally:
            self.closing = None

    def _limit_closing(self, step: OpenedStep, grace_s: float) -> None:
        def give_up() -> None:
            if self.closing is step:
                step.give_up_closing()

        asyncio.get_running_loop().call_later(grace_s, give_up)


def _waiting_words(room_s: float) -> str:
    if not room_s:
        return "finished results no longer wait for disk space"
    limit = "; free some, or stop again to give them up"
    if room_s < math.inf:
        limit = f", {room_s:g} s at most"
    return f"finished results are waiting for disk space{limit}"


# ---- What does a script get from a run that stopped before it was done? -------------------------
#
# An error, so that the script does not continue as if this run were done. It is raised once all
# finished results are on disk, and has them as its `result`.

ResultT = TypeVar("ResultT", EvaluationResult, MapResult)  # type: ignore[type-arg]  # of any types


def unless_stopped(result: ResultT) -> ResultT:
    """Return the result of a run that was not stopped.

    Raises:
        KeyboardInterrupt: SIGINT stopped it.
        SystemExit: Another signal stopped it; the exit code is 128 + its number.
        LimpetError: It was stopped for this reason.
    """
    reason = result.stop_reason
    if reason is None:
        return result
    error: BaseException = reason
    if isinstance(reason, InterruptedRunError):
        signum = reason.signum or signal.SIGINT
        error = SystemExit(128 + signum)
        if signum == signal.SIGINT:
            is_kept = isinstance(result, MapResult) or result.run is not None
            how = reason.hint if is_kept else "nothing is kept; what finished is in its `result`"
            error = KeyboardInterrupt(f"{reason}; {how}")
    vars(error)["result"] = result
    raise error
