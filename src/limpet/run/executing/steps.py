"""How is each item answered, and each answer scored?"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from limpet.copies import own_copy
from limpet.engines.returned_values import read_output, read_scores
from limpet.engines.step_engines import StepEngines
from limpet.engines.tracebacks import logging_failure
from limpet.evaluators.judge_votes import casting_into
from limpet.evaluators.protocol import Evaluator
from limpet.evaluators.reads import given
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import Finished
from limpet.executors.inputs import NOTHING, InputSource
from limpet.journal.lines import Entry
from limpet.json_values import NotPlainError
from limpet.run.executing.outcomes import (
    Omissions,
    Paid,
    Step,
    message_of,
)
from limpet.run.executing.recorder import Recorder
from limpet.run.executing.step_runner import StepRunner, output_of
from limpet.run.planning.work_items import AnswerTask, ScoreTask, WorkItem, score_task
from limpet.run.record_fields import (
    ANSWER,
    MADE_OF,
    METADATA,
    RETURNED,
    SAW_MASKED,
    SCORED,
    TRACE,
    TRUNCATED,
    answer_record,
    digests_of,
    score_record,
)
from limpet.run.request import OnItem, Request
from limpet.run.results.costs import Prices, usage_facts
from limpet.run.results.item_result import ItemResult, usage_in
from limpet.run.run_file import WORKFLOW
from limpet.shapes import Cell, Outcome, Output
from limpet.text import one_line

# ---- How do answers get from the workflow to an evaluator? --------------------------------------
#
# They wait in a bounded queue, so that they do not pile up before a slow evaluator. The queue is
# the input of the evaluator's executor: an arriving answer starts its call at once, without a task
# of its own.

T = TypeVar("T")


class StepQueue(InputSource, Generic[T]):
    """A bounded queue that either side can end.

    Once the consumer has closed it, it drops what is put: the next run does these cells.

    Attributes:
        on_move: Called when the consumer starts or ends calls, and when it stops.
    """

    def __init__(self, size: int) -> None:
        super().__init__(())
        self.total = None
        self._size = size
        self._items: deque[T] = deque()
        # Invariant: nothing waits for a slot while one is free.
        self._waiting: deque[tuple[T, asyncio.Future[None]]] = deque()
        self._on_arrival: Callable[[], None] = lambda: None
        self._closed = False
        self.on_move: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """How many items wait, in the queue or for a slot in it."""
        return len(self._items) + len(self._waiting)

    def put(self, item: T) -> "asyncio.Future[None] | None":
        """Queue an item. If the queue is full, return a future that is done once it has a slot."""
        if self._closed:
            return None
        if len(self._items) >= self._size:
            slot = asyncio.get_running_loop().create_future()
            self._waiting.append((item, slot))
            return slot
        self._items.append(item)
        self._on_arrival()
        return None

    def end(self) -> None:
        """Tell the consumer that no more items follow."""
        self._ended = True
        self._on_arrival()

    # ---- for the executor -----------------------------------------------------------------------

    @property
    def exhausted(self) -> bool:
        return self._closed or (self._ended and not self._items)

    def open(self, has_room: Callable[[], bool], on_arrival: Callable[[], None]) -> None:
        del has_room  # nothing is fetched ahead
        self._on_arrival = on_arrival

    def take(self) -> Any:
        if not self._items:
            return NOTHING
        item = self._items.popleft()
        while self._waiting and len(self._items) < self._size:
            waiting, slot = self._waiting.popleft()
            if not slot.done():  # cancelled: its producer is gone
                self._items.append(waiting)
                slot.set_result(None)
        return item

    def refill(self) -> None:
        self.on_move()

    def close(self) -> None:
        self._closed = True
        self.on_move()
        self._items.clear()
        for _, slot in self._waiting:
            if not slot.done():
                slot.set_result(None)
        self._waiting.clear()


# ---- How is each item answered, recorded and passed on to the evaluators? -----------------------


class _CellStep(Step):
    """A step of an evaluation: each of its inputs has a work item."""

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner

    def work_item_of(self, value: Any) -> WorkItem:
        """Return the work item of an input."""
        raise NotImplementedError

    def generation_of(self, cell: Cell, value: Any) -> int:
        return self._runner.generation(cell, self.work_item_of(value))

    def call_of(self, value: Any) -> tuple[Any, Any]:
        item = self.work_item_of(value).item
        return self.cell_of(0, value).key, (item.id, item.input, item.row)


class AnsweringStep(_CellStep):
    """The workflow's step.

    `pass_on` is called with each task and its unmasked answer, or None if it failed, once it is on
    disk, and returns what is left to wait for; it is None without evaluators.

    Attributes:
        name: The step's name.
        who: The step's name in messages.
        target: The workflow.
        engine: Where it runs.
        executor: The step's executor; None before `run`.
    """

    name, who = WORKFLOW, "the workflow"
    returned, traced = RETURNED, (TRACE, METADATA)

    def __init__(
        self,
        runner: StepRunner,
        request: Request,
        omissions: Omissions,
        engines: StepEngines,
        pass_on: Callable[[AnswerTask, Entry | None], Awaitable[object] | None] | None,
    ) -> None:
        super().__init__(runner)
        self.target = request.workflow
        self.engine = engines.of(WORKFLOW, self.target, self.who, self._read_returned, omissions)
        self.executor: AsyncExecutor[Any, Any] | None = None
        self._omissions = omissions
        self._pass_on = pass_on
        self._prices = request.prices
        self._paid = Paid()
        self._spending = runner.spending.step(self.name, self.target)
        self._on_item_complete = request.on_item_complete
        self._recorder: Recorder | None = None
        self._digests: dict[int, dict[str, Any]] = {}  # of answers that are being recorded

    async def run(self, tasks: "Sequence[AnswerTask] | StepQueue[AnswerTask]") -> None:
        recorder = self._runner.recorder(self)
        self._recorder, target = recorder, self.target
        self.executor = self._runner.executor(
            recorder,
            self._answer,
            target.endpoint,
            self._completed,
            target.concurrency,
            self.engine,
        )
        await self._runner.run(recorder, self.executor, tasks)

    def cell_of(self, index: int, value: AnswerTask) -> Cell:
        del index
        return value[1]

    def work_item_of(self, value: AnswerTask) -> WorkItem:
        return value[0]

    async def _answer(self, task: AnswerTask) -> Output:
        item = own_copy(task[0].item)  # the next attempt must not see its changes
        call = partial(self.engine.call, item, self._runner.taken(task[1]))
        with (attempt := self._paid.attempt(task[1].key)):
            attempt.output = await self._spending.attempt(call)
            return attempt.output

    def _read_returned(self, returned: Any) -> Output:
        return read_output(returned, self._omissions)

    def _completed(self, finished: Finished[AnswerTask, Output]) -> Awaitable[object] | None:
        recorder, digests = self._recorder, self._digests.pop(finished.index, {})
        assert recorder is not None
        lost = recorder.lost.get(finished.index)
        entry, hook = None, self._on_item_complete
        if lost is None and self._pass_on is not None and (output := output_of(finished)):
            # Unmasked; a copy if there is a hook, whose changes must not be scored.
            scored = {ANSWER: output.value, TRACE: list(output.trace)}
            entry = Entry(digests, scored if hook is None else own_copy(scored))
        if hook is not None:
            assert recorder.last is not None
            finished = finished if lost is None else replace(finished, error=lost)
            return self._tell(hook, finished, item_result(finished, recorder.last), entry)
        return None if self._pass_on is None else self._pass_on(finished.input, entry)

    async def _tell(
        self,
        hook: OnItem,
        finished: Finished[AnswerTask, Output],
        item: ItemResult,
        entry: Entry | None,
    ) -> None:
        """Call the user's hook, then pass the answer on."""
        with logging_failure("watcher"):
            if isawaitable(returned := hook(item)):
                await returned
        if self._pass_on is not None and (passing := self._pass_on(finished.input, entry)):
            await passing

    def facts_of(self, finished: Finished[AnswerTask, Output]) -> dict[str, Any]:
        """Return an answer's usage and digests, by which readers find its scores."""
        output = output_of(finished)
        facts: dict[str, Any] = {}
        if output is not None:
            with suppress(NotPlainError):  # the cell is then recorded as a failure
                facts = digests_of(output.value, list(output.trace))
                self._digests[finished.index] = facts
        if output is not None and is_truncated(output.metadata):
            facts = {**facts, TRUNCATED: True}
        used = self._paid.settle(finished.input[1].key, output)
        return facts | usage_facts(used, self._prices)

    def record_of(self, finished: Finished[AnswerTask, Output]) -> dict[str, Any]:
        work_item, output = finished.input[0], output_of(finished)
        if output is None:
            return {"id": work_item.item.id}
        item, trace = work_item.item, list(output.trace)
        metadata = output.metadata
        return answer_record(item.id, item.row, output.value, trace, metadata)


def item_result(finished: Finished[AnswerTask, Output], outcome: Outcome) -> ItemResult:
    """Return a finished item as in the results, without scores yet, and with nothing masked."""
    work_item, cell = finished.input
    own, output, error = own_copy(work_item.item), output_of(finished), finished.error
    failure, usage = None, usage_in(outcome.facts or {})
    if error is not None:
        failed, message = outcome.failure, message_of(error, finished.index, cell)
        failure = {"class": failed.kind, "type": failed.type} if failed else {}
        failure |= {"message": message, "traceback": failed.traceback if failed else ""}
    elif output is not None:
        output = Output(output.value, usage, output.trace or (), output.metadata)
    return ItemResult(
        own.id,
        work_item.trial,
        own.input,
        own.expected,
        own.row,
        own_copy(output),
        status=outcome.status,
        error=failure,
        attempts=outcome.attempts,
        seconds=outcome.seconds,
        usage=usage,
    )


def is_truncated(metadata: Any) -> bool:
    """Return whether an answer's metadata says that the model reached its token limit."""
    return isinstance(metadata, dict) and metadata.get("finish") == "length"


# ---- How does an evaluator score the answers that it has not scored yet? ------------------------

_QUEUE_SIZE = 256


class ScoringStep(_CellStep):
    """The step of one evaluator.

    Args:
        runner: Runs the step.
        evaluator: The evaluator.
        fingerprint: Its fingerprint.
        omissions: Reports what was left out.
        engines: Where the steps run.
        prices: What a million tokens cost, by model.

    Attributes:
        name: The step's name.
        who: The step's name in messages.
        target: The evaluator.
        engine: Where it runs.
        queue: The answers to score.
        executor: The step's executor; None before `run`.
    """

    own_kind, returned = "evaluator", SCORED

    def __init__(
        self,
        runner: StepRunner,
        evaluator: Evaluator,
        fingerprint: str,
        omissions: Omissions,
        engines: StepEngines,
        prices: Prices | None,
    ) -> None:
        super().__init__(runner)
        self.name = evaluator.name
        self.costs = evaluator.endpoint is not None
        self.who = f"the evaluator {one_line(evaluator.name)}"
        self.queue: StepQueue[ScoreTask] = StepQueue(_QUEUE_SIZE)
        self.executor: AsyncExecutor[Any, Any] | None = None
        self.target = evaluator
        self.engine = engines.of(
            evaluator.name, evaluator, "the evaluator", self._read_returned, omissions
        )
        self._fingerprint = fingerprint
        self._omissions = omissions
        self._prices = prices
        self._paid = Paid()
        self._spending = runner.spending.step(self.name, self.target)
        self._ballots = runner.ballots(evaluator.name)
        self._column = runner.journal.column(evaluator.name)

    def missing(self, work_item: WorkItem, entry: Entry) -> ScoreTask | None:
        """Return what to score for an answer; None if it is scored."""
        task = score_task(work_item, entry, self.target, self._fingerprint)
        key, counting = task.cell.key, self._runner.counting
        generation = self._column.generation_of(key)
        verdict = counting.verdict(self.name, key, generation, work_item.item.id)
        stays_failed = counting.stays_failed(self.name, key, verdict.needed)
        return None if stays_failed or verdict.is_done else task

    def kept(self, work_item: WorkItem, entry: Entry) -> Mapping[str, Any] | None:
        """Return the record of an answer's score; None if it has none."""
        task = score_task(work_item, entry, self.target, self._fingerprint)
        line = self._column.read(task.cell.key)
        return None if line is None else line.record

    def scored_masked(self, work_item: WorkItem, entry: Entry) -> ScoreTask | None:
        """Return what to score again: the score saw masked text, and the original is here."""
        task = score_task(work_item, entry, self.target, self._fingerprint)
        lines: Iterable[tuple[str, Entry]] = self._column.read_many([task.cell.key])
        return task if any(line.facts.get(SAW_MASKED) for _, line in lines) else None

    async def run(self) -> None:
        """Score what arrives in the queue, until it ends."""
        recorder = self._runner.recorder(self)
        endpoint = self.target.endpoint
        self.executor = self._runner.executor(recorder, self._score, endpoint, engine=self.engine)
        try:
            await self._runner.run(recorder, self.executor, self.queue)
        finally:
            self.queue.close()

    def cell_of(self, index: int, value: ScoreTask) -> Cell:
        del index
        return value.cell

    def work_item_of(self, value: ScoreTask) -> WorkItem:
        return value.work_item

    async def _score(self, task: ScoreTask) -> Output:
        reads, item = self.target.reads, task.work_item.item
        scored = given(item, task.output, task.trace, reads)
        needed = self._runner.counting.needed(self.name, item.id, task.cell.key)
        call = partial(self.engine.call, scored, self._runner.taken(task.cell))
        with (attempt := self._paid.attempt(key := task.cell.key)):
            ballots = self._ballots.of(task, needed, self._paid.bill(key))
            with casting_into(ballots):
                attempt.output = await self._spending.attempt(call)
        if len(ballots.keys) > 1:
            task.facts[MADE_OF] = ballots.keys
        return attempt.output

    def _read_returned(self, returned: Any) -> Output:
        return read_scores(returned, self.name, self._omissions)

    def facts_of(self, finished: Finished[ScoreTask, Output]) -> dict[str, Any]:
        used = self._paid.settle(finished.input.cell.key, output_of(finished))
        return {**finished.input.facts, **usage_facts(used, self._prices)}

    def record_of(self, finished: Finished[ScoreTask, Output]) -> dict[str, Any]:
        output = output_of(finished)
        return score_record(
            finished.input.work_item.item.id, None if output is None else output.value
        )
