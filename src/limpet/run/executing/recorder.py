"""Appends each result of an executor to the journal before it is used."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

from limpet.engines.tracebacks import logging_failure
from limpet.errors import (
    DiskFullError,
    JournalError,
    LimpetError,
    RecordNotWrittenError,
)
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import Attempt, Cancelled, Finished
from limpet.executors.options import ExecutorOptions
from limpet.fingerprints.files.audit_hook import unattributed, unattributed_context
from limpet.foreign import is_interrupt
from limpet.journal.append_file import Then
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.run.executing.guards import Guards
from limpet.run.executing.outcomes import Outcomes, Step
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.record_fields import MASKED
from limpet.run.watcher import Watcher
from limpet.secrets.masking import Mask
from limpet.shapes import Cell, Outcome
from limpet.text import one_line

logger = logging.getLogger("limpet.run")


class Recorder:
    """Appends finished inputs to a column, and writes their events.

    A full disk pauses the executor until there is room; a broken disk stops it.

    Args:
        journal: The run's journal.
        step: The step.
        mask: Removes secrets from what is written; the user's hooks get the original.
        files: Records which files each call reads.
        watcher: Notified of each attempt and outcome.
        guards: Notified of each call that may cost money, and of each outcome on disk.

    Attributes:
        step: The step.
        last: The last outcome that is on disk.
        lost: Finished inputs that could not be recorded, with the reason, by index.
        error: The disk's failure, if it stopped the run.
        given_up: How many calls in flight were given up when the run stopped. They may have been
            paid for, and have no record.
    """

    def __init__(
        self,
        journal: Journal,
        step: Step,
        mask: Mask,
        files: WatchedFiles,
        watcher: Watcher | None = None,
        guards: Guards | None = None,
    ) -> None:
        self.step = step
        self.last: Outcome | None = None
        self.lost: dict[int, Exception] = {}
        self.error: LimpetError | None = None
        self.given_up = 0
        self._journal = journal
        self._said_masked = False
        self._watcher = watcher
        self._guards = guards
        self._files = files
        self._watches = files.watches(step.name)
        self._outcomes = Outcomes(step, mask, self._files_of if self._watches else lambda _: {})
        self._column: Column = journal.column(step.name)
        self._column.mask = mask.data
        self._executor: AsyncExecutor[Any, Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_complete: Callable[[Any], Any] | None = None
        self._telling: set[asyncio.Future[None]] = set()  # the loop itself keeps no tasks

    def executor(
        self, function: Callable[[Any], Awaitable[Any]], options: ExecutorOptions
    ) -> AsyncExecutor[Any, Any]:
        """Return an executor that records its results before it calls `on_complete`."""
        self._on_complete = options.get("on_complete")
        hooked: ExecutorOptions = {
            **options,
            "on_complete": self._complete,
            "on_attempt_start": self._start,
            "on_attempt_end": self._end,
        }
        self._executor = AsyncExecutor(self._watched(function), **hooked)
        self._journal.listeners.append(self._on_disk_trouble)
        return self._executor

    def _watched(
        self, function: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[Any], Awaitable[Any]]:
        """Return the function with its calls watched for reads of files."""
        files, step, call_of = self._files, self.step.name, self.step.call_of

        async def watched(value: Any) -> Any:
            call, token = files.begin_call(step, *call_of(value))
            try:
                return await function(value)
            finally:
                files.end_call(call, token)

        async def unwatched(value: Any) -> Any:
            with unattributed():
                return await function(value)

        return watched if self._watches else unwatched

    # ---- hooks ----------------------------------------------------------------------------------

    def _start(self, attempt: Attempt) -> None:
        self._loop = asyncio.get_running_loop()
        costs = self.step.costs
        if costs or self._watcher is not None:
            cell = self.step.cell_of(attempt.index, attempt.input)
        if costs:
            event: dict[str, Any] = {"key": cell.key, "id": cell.id, "attempt": attempt.number}
            if generation := self.step.generation_of(cell, attempt.input):
                event["generation"] = generation
            if cell.trial:
                event["trial"] = cell.trial
            self._journal.log_event("started", step=cell.step, **event)
            if self._guards is not None:
                self._guards.started()
        if self._watcher is not None:
            notify(self._watcher.started, cell, attempt.number)

    def _end(self, attempt: Attempt) -> None:
        if self.step.costs and attempt.begun and attempt.cancelled is Cancelled.STOP:
            self.given_up += 1
        if attempt.error is not None:
            cell = self.step.cell_of(attempt.index, attempt.input)
            facts = self._outcomes.add_failed(attempt, cell)
            event = {"key": cell.key, "id": cell.id, "trial": cell.trial, **facts}
            self._journal.log_event("failed", step=cell.step, **event)
            if self._watcher is not None:
                notify(self._watcher.attempt_failed, cell, facts)

    def _complete(self, finished: Finished[Any, Any]) -> Awaitable[None] | None:
        """Record a finished input. Completes once durable and all listeners are notified.

        A task each would cost more than all the rest: callbacks do it, unless a line about a file
        must be on disk first.
        """
        if self._watches and finished.error is None and (lines := self._files.unwritten()):
            return self._record_after(lines, finished)
        return self._record(finished)

    def _record(self, finished: Finished[Any, Any]) -> "asyncio.Future[None] | None":
        told = asyncio.get_running_loop().create_future()
        context = unattributed_context()  # the writer's thread knows nothing of ours

        def then(outcome: Outcome, failure: Exception | None) -> None:
            context.run(self._recorded, finished, told, outcome, failure)

        try:
            self._append(finished, then)
        except JournalError as error:
            self._lose(finished, error)
            return None
        return told

    async def _record_after(
        self, lines: "Sequence[asyncio.Future[Any]]", finished: Finished[Any, Any]
    ) -> None:
        try:
            await asyncio.gather(*lines)
        except JournalError as error:
            self._lose(finished, error)
            return
        if (recorded := self._record(finished)) is not None:
            await recorded

    def _recorded(
        self,
        finished: Finished[Any, Any],
        told: asyncio.Future[None],
        outcome: Outcome,
        failure: Exception | None,
    ) -> None:
        """Continue when the writer is done with an outcome; at the end, set `told`."""
        try:
            telling = None
            if failure is None:
                telling = self._tell(finished, outcome)
            elif isinstance(failure, JournalError):
                self._lose(finished, failure)
            else:
                raise failure  # noqa: TRY301 - as if telling had failed
        except BaseException as error:  # or the run would wait for ever
            _set_done(told, error)
            if is_interrupt(error):
                raise
            return
        if telling is None:
            _set_done(told)
        else:
            task = asyncio.ensure_future(telling)
            self._telling.add(task)
            task.add_done_callback(functools.partial(self._told, told))

    def _told(self, told: asyncio.Future[None], task: asyncio.Future[None]) -> None:
        self._telling.discard(task)
        _set_done(told, None if task.cancelled() else task.exception())

    def _lose(self, finished: Finished[Any, Any], error: JournalError) -> None:
        self.lost[finished.index] = error
        if not isinstance(error, RecordNotWrittenError):
            self._stop(error)

    def _tell(self, finished: Finished[Any, Any], recorded: Outcome) -> Awaitable[None] | None:
        """Notify all listeners of an outcome on disk; return what the user's hook left to await."""
        if recorded.facts is not None and MASKED in recorded.facts:
            self._say_masked(recorded.cell)
        if self._watcher is not None:
            with logging_failure(self._watcher.finished):
                self._watcher.finished(recorded)
        if self._guards is not None:
            self._guards.see(recorded)
        if recorded.failure is None and self._executor is not None:
            self._executor.full_speed()
        if recorded.failure is not None and finished.error is None:
            self.lost[finished.index] = LimpetError(recorded.failure.message)
        self.last = recorded
        answer = None if self._on_complete is None else self._on_complete(finished)
        return answer if answer is not None and isawaitable(answer) else None

    def _append(self, finished: Finished[Any, Any], then: Then) -> None:
        """Append an input's outcome, or a failure if it cannot be written."""
        try:
            self._column.append_then(self._outcomes.outcome(finished), then)
        except (Exception, SystemExit) as error:
            if isinstance(error, JournalError):
                raise
            logger.exception("a result could not be recorded; recording a failure instead")
            self._column.append_then(self._outcomes.not_recorded(finished, error), then)

    def _files_of(self, value: Any) -> dict[str, Any]:
        call, _ = self.step.call_of(value)
        return self._files.facts(self.step.name, call, shared=self.step.shares_calls)

    def _say_masked(self, cell: Cell) -> None:
        if not self._said_masked:
            self._said_masked = True
            logger.warning(
                "%s: the result for %s contains a secret, which is masked on disk; evaluators see "
                "the original. mask=False (in eval.yml: mask: false) turns masking off",
                one_line(cell.step),
                one_line(cell.id),
            )

    # ---- the disk -------------------------------------------------------------------------------

    def _on_disk_trouble(self, trouble: LimpetError | None) -> None:
        """Handle a full disk, a broken one, or space again; called on the writer's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._react, trouble)

    def _react(self, trouble: LimpetError | None) -> None:
        assert self._executor is not None
        if trouble is None:
            self._executor.resume()
        elif isinstance(trouble, DiskFullError):
            self._executor.pause()
        else:
            self._stop(trouble)

    def _stop(self, error: LimpetError) -> None:
        assert self._executor is not None
        self.error = self.error or error
        self._executor.stop(error)


def _set_done(told: asyncio.Future[None], error: BaseException | None = None) -> None:
    if told.done():  # cancelled: it was late
        return
    if error is None:
        told.set_result(None)
    else:
        told.set_exception(error)


def notify(hook: Callable[..., Any], *news: Any) -> None:
    """Tell a watcher something. What it raises is logged."""
    with logging_failure(hook), unattributed():
        hook(*news)
