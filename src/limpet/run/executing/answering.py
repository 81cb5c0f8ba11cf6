"""How is each item answered, and who hears of it?"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from limpet.copies import own_copy
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.attempts import Finished
from limpet.executors.forks import end_if_forked
from limpet.executors.hooks import OnComplete
from limpet.journal.lines import Entry
from limpet.json_values import NotPlainError, kept_form
from limpet.run.executing.cells import (
    ANSWER,
    METADATA,
    TRACE,
    Call,
    answer_record,
    cell_status,
    digests_of,
)
from limpet.run.executing.returned_values import Remarks, read_output
from limpet.run.executing.step_runner import StepRunner, output_of, run_cell
from limpet.run.executing.tracebacks import safe_traceback
from limpet.run.request import OnItem
from limpet.run.results.costs import Prices, usage_facts
from limpet.run.results.evaluation_result import ItemResult
from limpet.run.run_file import WORKFLOW
from limpet.text import text_of
from limpet.trace import kept_events
from limpet.types import CellStatus, Output
from limpet.workflows.protocol import Workflow

logger = logging.getLogger("limpet.run")


class AnsweringStep:
    """The workflow's step.

    Args:
        runner: Runs it.
        workflow: What answers.
        remarks: Says what was left out.
        pass_on: Called with each call and its answer as it is, not yet masked, when that is on
            disk; with None if it has none. None: nobody scores it.
        trace_filter: Which types of events are kept; None: all.
        prices: What a million tokens cost, by model.
        on_complete: Told of each call that is done, when it is on disk.
        on_item_complete: Told of each item, then.

    Attributes:
        name: The step's.
        who: What messages call it.
        target: The workflow.
        executor: What runs it; None before.
    """

    name, who = WORKFLOW, "the workflow"

    def __init__(
        self,
        runner: StepRunner,
        workflow: Workflow,
        remarks: Remarks,
        pass_on: Callable[[Call, Entry | None], Awaitable[None]] | None,
        *,
        trace_filter: Sequence[str] | None = None,
        prices: Prices | None = None,
        on_complete: OnComplete | None = None,
        on_item_complete: OnItem | None = None,
    ) -> None:
        self.executor: AsyncExecutor[Any, Any] | None = None
        self._runner = runner
        self.target = workflow
        self._remarks = remarks
        self._pass_on = pass_on
        self._trace_filter = trace_filter
        self._prices = prices
        self._on_complete = on_complete
        self._on_item_complete = on_item_complete
        self._lost: Mapping[int, Exception] = {}
        self._digests: dict[int, dict[str, Any]] = {}  # of answers that are being recorded

    async def run(self, calls: Sequence[Call]) -> None:
        """Answer them all."""
        recorder = self._runner.recorder(
            WORKFLOW,
            lambda call: call[1],
            lambda call: call[0],
            self._record_of,
            facts_of=self._facts_of,
            returned=(ANSWER, TRACE, METADATA),
        )
        self._lost, endpoint = recorder.lost, self.target.endpoint
        self.executor = self._runner.executor(recorder, self._answer, endpoint, self._completed)
        await self._runner.run(recorder, self.executor, calls)

    async def _answer(self, call: Call) -> Output:
        item = own_copy(call[0].item)  # its own: the next attempt sees none of what it changes
        return await run_cell(self.who, self.target.call, item, self._taken)

    def _taken(self, returned: Any) -> Output:
        return read_output(returned, self._remarks)

    async def _completed(self, finished: Finished[Call, Output]) -> None:
        lost = self._lost.get(finished.index)
        entry = None
        if finished.error is None and lost is None and self._pass_on is not None:
            # As it is, not yet masked; and before anybody else sees it: what they do to it is not
            # scored.
            record = kept_form(self._record_of(finished))
            entry = Entry(self._digests.pop(finished.index, {}), record)
        if self._on_complete is not None:
            await _told("on_complete", self._on_complete, finished)
        if self._on_item_complete is not None:
            told = item_told(finished if lost is None else replace(finished, error=lost))
            await _told("on_item_complete", self._on_item_complete, told)
        if self._pass_on is not None:
            await self._pass_on(finished.input, entry)

    def _facts_of(self, finished: Finished[Call, Output]) -> dict[str, Any]:
        """Return the digests of an answer, by which its scores are found, and what it used."""
        output = output_of(finished)
        facts: dict[str, Any] = {}
        if output is not None:
            with suppress(NotPlainError):  # then it is not recorded, and its failure is
                facts = digests_of(output.value, kept_events(output.trace, self._trace_filter))
                self._digests[finished.index] = facts
        return facts | (usage_facts(output, self._prices) or {})

    def _record_of(self, finished: Finished[Call, Output]) -> dict[str, Any]:
        work_item, output = finished.input[0], output_of(finished)
        if output is None:
            return {"id": work_item.item.id}
        trace = kept_events(output.trace, self._trace_filter)
        item = work_item.item
        return answer_record(item.id, item.row, output.value, trace, output.metadata)


def item_told(finished: Finished[Call, Output]) -> ItemResult:
    """Return an item that is done, as the results will have it, without scores yet."""
    work_item, _ = finished.input
    own = own_copy(work_item.item)
    item = ItemResult(work_item.item.id, work_item.trial, own.input, own.expected)
    item.seconds = finished.details.execution_seconds
    if output := output_of(finished):
        item.status, item.output = cell_status(finished), own_copy(output.value)
        item.trace, item.metadata = own_copy(output.trace), own_copy(output.metadata)
    else:
        error = finished.error
        item.status = CellStatus.FAILED
        item.error = {"type": type(error).__name__, "message": text_of(error) if error else ""}
    return item


async def _told(name: str, hook: Callable[[Any], Any], news: Any) -> None:
    """Call a user's hook: whoever looks on must not keep the item from its scores."""
    home = os.getpid()
    try:
        if isawaitable(told := hook(news)):
            await told
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is theirs, and said
        end_if_forked(home, error)
        logger.error("%s failed: %s", name, safe_traceback(error))  # noqa: TRY400 - without secrets
