"""How does each result of an executor get into the journal, before anybody counts it?"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from limpet.errors import (
    DiskFullError,
    JournalError,
    LimpetError,
    RecordNotWrittenError,
    TransientError,
)
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.attempts import Attempt, Finished
from limpet.executors.details import ExecutionStatus
from limpet.executors.options import ExecutorOptions
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.run.redaction import Redaction
from limpet.run.watcher import Watcher
from limpet.text import text_of
from limpet.types import Cell, CellStatus, Failure, Outcome

_STATUSES = {
    ExecutionStatus.COMPLETED: CellStatus.COMPLETED,
    ExecutionStatus.COMPLETED_WITH_RETRIES: CellStatus.COMPLETED_WITH_RETRIES,
    ExecutionStatus.FAILED: CellStatus.FAILED,
}


class Keeping:
    """Stands between an executor and a column: appends what finishes, tells the story.

    A full disk pauses the executor until there is room; a broken disk stops it.

    Args:
        journal: Where it all goes.
        step: Which column.
        cell_of: Returns the cell of an input, given its index and itself.
        record_of: Makes the public record of an input's output.
        permanent: What a failure is called that trying again cannot mend.
        facts_of: Returns what else is known of an outcome.
        redaction: Keeps secrets from being written; None: nothing is changed.
        costs: Whether a call may have to be paid for: then the story tells when it starts.
        watcher: Told of what happens.
        generation_of: Returns the generation of an input's record, given its cell and itself.

    Attributes:
        lost: Finished inputs that could not be recorded, with the reason, by their index.
        error: What was wrong with the disk, if it stopped the run.
    """

    def __init__(
        self,
        journal: Journal,
        step: str,
        cell_of: Callable[[int, Any], Cell],
        record_of: Callable[[Finished[Any, Any]], dict[str, Any]],
        *,
        permanent: str = "permanent",
        facts_of: Callable[[Finished[Any, Any]], dict[str, Any] | None] = lambda _: None,
        redaction: Redaction | None = None,
        costs: bool = True,
        watcher: Watcher | None = None,
        generation_of: Callable[[Cell, Any], int] = lambda *_: 0,
    ) -> None:
        self.lost: dict[int, Exception] = {}
        self.error: LimpetError | None = None
        self._journal = journal
        self._cell_of = cell_of
        self._record_of = record_of
        self._permanent = permanent
        self._facts_of = facts_of
        self._redaction = redaction
        self._costs = costs
        self._watcher = watcher
        self._generation_of = generation_of
        self._attempts: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._column: Column = journal.column(step)
        self._executor: AsyncExecutor[Any, Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own: ExecutorOptions = {}

    def executor(
        self, function: Callable[[Any], Awaitable[Any]], options: ExecutorOptions
    ) -> AsyncExecutor[Any, Any]:
        """Return an executor that keeps what it does. The caller's own hooks are told too."""
        self._own = options
        hooked: ExecutorOptions = {
            **options,
            "on_complete": self._complete,
            "on_attempt_start": self._start,
            "on_attempt_end": self._end,
        }
        self._executor = AsyncExecutor(function, **hooked)
        self._journal.listeners.append(self._hear_trouble)
        return self._executor

    # ---- hooks ----------------------------------------------------------------------------------

    def _start(self, attempt: Attempt) -> Awaitable[None] | None:
        self._loop = asyncio.get_running_loop()
        if self._costs or self._watcher is not None:
            cell = self._cell(attempt.index, attempt.input)
        if self._costs:
            told: dict[str, Any] = {"key": cell.key, "id": cell.id, "attempt": attempt.number}
            if generation := self._generation_of(cell, attempt.input):
                told["generation"] = generation
            self._journal.tell("started", step=cell.step, **told)
        if self._watcher is not None:
            self._watcher.started(cell, attempt.number)
        hook = self._own.get("on_attempt_start")
        return None if hook is None else hook(attempt)

    def _end(self, attempt: Attempt) -> Awaitable[None] | None:
        if attempt.error is not None:
            cell = self._cell(attempt.index, attempt.input)
            met = self._safe(_met(attempt))
            self._attempts[attempt.index].append(met)
            self._journal.tell("failed", step=cell.step, key=cell.key, id=cell.id, **met)
            if self._watcher is not None:
                self._watcher.attempt_failed(cell, met)
        hook = self._own.get("on_attempt_end")
        return None if hook is None else hook(attempt)

    async def _complete(self, finished: Finished[Any, Any]) -> None:
        outcome = self._outcome(finished)
        try:
            recorded = await self._column.append(outcome)
        except JournalError as error:
            self.lost[finished.index] = error
            if not isinstance(error, RecordNotWrittenError):
                self._stop(error)
            return
        if self._watcher is not None:
            self._watcher.finished(recorded)
        if recorded.failure is not None and finished.error is None:
            self.lost[finished.index] = LimpetError(recorded.failure.message)
        hook = self._own.get("on_complete")
        if hook is not None and isawaitable(answer := hook(finished)):
            await answer

    def _outcome(self, finished: Finished[Any, Any]) -> Outcome:
        attempts = self._attempts.pop(finished.index, [])
        failure = None
        if finished.error is not None:
            kind = attempts[-1]["class"] if attempts else self._permanent
            if kind == "permanent" or (kind == "transient" and not _may_pass(finished.error)):
                kind = self._permanent if self._permanent != "permanent" else kind
            message = self._safe(text_of(finished.error))
            failure = Failure(kind, message, type(finished.error).__name__, tuple(attempts))
        details = finished.details
        cell = self._cell(finished.index, finished.input)
        return Outcome(
            cell,
            _STATUSES[details.status],
            self._safe(self._record_of(finished)),
            attempts=len(attempts) + (finished.error is None),
            seconds=round(details.execution_seconds, 6),
            failure=failure,
            generation=self._generation_of(cell, finished.input),
            facts=self._facts_of(finished),
        )

    def _cell(self, index: int, one: Any) -> Cell:
        cell = self._cell_of(index, one)
        return cell if self._redaction is None else cell._replace(id=self._safe(cell.id))

    def _safe(self, value: Any) -> Any:
        return value if self._redaction is None else self._redaction.plain(value)

    # ---- the disk -------------------------------------------------------------------------------

    def _hear_trouble(self, trouble: LimpetError | None) -> None:
        """On the writer's thread: there is no room, or there is room again."""
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


def _may_pass(error: BaseException) -> bool:
    """Tell whether it was the provider or the network, and not the user's own code."""
    return isinstance(error, (TransientError, OSError))


def _met(attempt: Attempt) -> dict[str, Any]:
    """Return what an attempt met, as plain data."""
    kind = attempt.kind
    if kind is None:
        kind_name = "timeout" if isinstance(attempt.error, TimeoutError) else "cancelled"
    else:
        kind_name = kind.value
    met: dict[str, Any] = {
        "attempt": attempt.number,
        "class": kind_name,
        "type": type(attempt.error).__name__,
        "message": text_of(attempt.error)[:1000] if attempt.error else "",
        "seconds": round(attempt.seconds or 0.0, 6),
    }
    if attempt.retry_in is not None:
        met["retry_in"] = round(attempt.retry_in, 3)
    return met
