"""How is each item answered, recorded and passed on to the evaluators?"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from limpet.copies import own_copy
from limpet.engines.places import Places
from limpet.engines.returned_values import read_output
from limpet.engines.tracebacks import logging_failure
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import Finished
from limpet.journal.lines import Entry
from limpet.json_values import NotPlainError
from limpet.run.executing.cells import cell_status
from limpet.run.executing.omissions import Omissions
from limpet.run.executing.outcomes import message_of
from limpet.run.executing.paid import Paid
from limpet.run.executing.step_queue import StepQueue
from limpet.run.executing.step_runner import StepRunner, output_of
from limpet.run.planning.work_items import Call
from limpet.run.record_fields import CUT_OFF, METADATA, answer_record, digests_of
from limpet.run.request import Request
from limpet.run.results.costs import usage_facts
from limpet.run.results.evaluation_result import ItemResult
from limpet.run.run_file import WORKFLOW
from limpet.trace import kept_events
from limpet.types import CellStatus, Output


class AnsweringStep:
    """The workflow's step.

    `pass_on` is called with each call and its unmasked answer, or None if it failed, once that is
    on disk, and returns what is left to wait for; it is None if there are no evaluators.

    Attributes:
        name: The step's name.
        who: The step's name in messages.
        target: The workflow.
        place: Where it runs.
        executor: The step's executor; None before `run`.
    """

    name, who = WORKFLOW, "the workflow"

    def __init__(
        self,
        runner: StepRunner,
        request: Request,
        omissions: Omissions,
        places: Places,
        pass_on: Callable[[Call, Entry | None], Awaitable[object] | None] | None,
    ) -> None:
        self.target = request.workflow
        self.place = places.of(WORKFLOW, self.target, self.who, self._read_returned, omissions)
        self.executor: AsyncExecutor[Any, Any] | None = None
        self._runner = runner
        self._omissions = omissions
        self._pass_on = pass_on
        self._trace_filter = request.trace_filter
        self._names = request.names
        self._prices = request.prices
        self._paid = Paid()
        self._on_complete = request.options.get("on_complete")
        self._on_item_complete = request.on_item_complete
        self._lost: Mapping[int, Exception] = {}
        self._digests: dict[int, dict[str, Any]] = {}  # of answers that are being recorded

    async def run(self, calls: "Sequence[Call] | StepQueue[Call]") -> None:
        recorder = self._runner.recorder(
            WORKFLOW,
            lambda call: call[1],
            lambda call: call[0],
            self._record_of,
            facts_of=self._facts_of,
            returned=(self._names.answer, self._names.trace, METADATA),
            traced=(self._names.trace, METADATA),
        )
        self._lost, target = recorder.lost, self.target
        self.executor = self._runner.executor(
            recorder,
            self._answer,
            target.endpoint,
            self._completed,
            target.concurrency,
            self.place,
        )
        await self._runner.run(recorder, self.executor, calls)

    async def _answer(self, call: Call) -> Output:
        item = own_copy(call[0].item)  # a copy: the next attempt must not see its changes
        with self._paid.attempt(call[1].key):
            return await self.place.call(item, self._runner.taken(call[1]))

    def _read_returned(self, returned: Any) -> Output:
        return read_output(returned, self._omissions)

    def _completed(self, finished: Finished[Call, Output]) -> Awaitable[object] | None:
        lost, digests = self._lost.get(finished.index), self._digests.pop(finished.index, {})
        entry = None
        has_hooks = self._on_complete is not None or self._on_item_complete is not None
        if lost is None and self._pass_on is not None and (output := output_of(finished)):
            # Unmasked; and a copy, if there are hooks: what they change must not be scored.
            trace = kept_events(output.trace, self._trace_filter)
            scored = {self._names.answer: output.value, self._names.trace: trace}
            entry = Entry(digests, own_copy(scored) if has_hooks else scored)
        if has_hooks:
            return self._tell(finished, lost, entry)
        return None if self._pass_on is None else self._pass_on(finished.input, entry)

    async def _tell(
        self, finished: Finished[Call, Output], lost: Exception | None, entry: Entry | None
    ) -> None:
        """Call the user's hooks, then pass the answer on."""
        if self._on_complete is not None:
            await _notify("on_complete", self._on_complete, finished)
        if self._on_item_complete is not None:
            item = item_result(finished if lost is None else replace(finished, error=lost))
            await _notify("watcher", self._on_item_complete, item)
        if self._pass_on is not None and (passing := self._pass_on(finished.input, entry)):
            await passing

    def _facts_of(self, finished: Finished[Call, Output]) -> dict[str, Any]:
        """Return an answer's usage, and its digests, by which readers find its scores."""
        output = output_of(finished)
        facts: dict[str, Any] = {}
        if output is not None:
            with suppress(NotPlainError):  # the cell is then recorded as a failure
                facts = digests_of(output.value, kept_events(output.trace, self._trace_filter))
                facts |= self._names.facts
                self._digests[finished.index] = facts
        if output is not None and is_cut_off(output.metadata):
            facts = {**facts, CUT_OFF: True}
        used = self._paid.settle(finished.input[1].key, output)
        return facts | usage_facts(used, self._prices)

    def _record_of(self, finished: Finished[Call, Output]) -> dict[str, Any]:
        work_item, output = finished.input[0], output_of(finished)
        if output is None:
            return {"id": work_item.item.id}
        trace = kept_events(output.trace, self._trace_filter)
        item = work_item.item
        metadata = output.metadata
        return answer_record(self._names, item.id, item.row, output.value, trace, metadata)


def item_result(finished: Finished[Call, Output]) -> ItemResult:
    """Return a finished item as the results will show it, still without scores."""
    work_item, cell = finished.input
    own = own_copy(work_item.item)
    item = ItemResult(work_item.item.id, work_item.trial, own.input, own.expected)
    item.seconds = finished.details.execution_seconds
    if output := output_of(finished):
        item.status, item.output = cell_status(finished), own_copy(output.value)
        item.trace, item.metadata = own_copy(output.trace), own_copy(output.metadata)
    else:
        error = finished.error
        item.status = CellStatus.FAILED
        message = "" if error is None else message_of(error, finished.index, cell)
        item.error = {"type": type(error).__name__, "message": message}
    return item


def is_cut_off(metadata: Any) -> bool:
    """Return whether an answer's metadata says that the model reached its limit of tokens."""
    return isinstance(metadata, dict) and metadata.get("finish") == "length"


async def _notify(name: str, hook: Callable[[Any], Any], news: Any) -> None:
    with logging_failure(name):
        if isawaitable(returned := hook(news)):
            await returned
