"""How does an evaluator score the answers that it has not scored yet?"""

from collections.abc import Callable, Iterable
from typing import Any

from limpet.evaluators.protocol import Evaluator
from limpet.evaluators.reads import given
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.attempts import Finished
from limpet.journal.lines import Entry
from limpet.run.executing.cells import (
    SAW_MASKED,
    SCORED,
    Scoring,
    score_record,
    scoring_of,
)
from limpet.run.executing.returned_values import Remarks, read_scores
from limpet.run.executing.step_queue import StepQueue
from limpet.run.executing.step_runner import StepRunner, output_of, run_cell
from limpet.run.planning.work_items import WorkItem
from limpet.run.results.costs import Prices, usage_facts
from limpet.text import one_line
from limpet.types import Output

_QUEUE_SIZE = 256


class ScoringStep:
    """The step of one evaluator.

    Args:
        runner: Runs the step.
        evaluator: The evaluator.
        fingerprint: Its fingerprint.
        remarks: Reports what was left out.
        is_given_up: Tells whether a cell failed before and is not retried, given its step, its key
            and the required generation.
        prices: What a million tokens cost, by model.

    Attributes:
        name: The step's name.
        who: The step's name in messages.
        target: The evaluator.
        queue: The answers to score.
        executor: The step's executor; None before `run`.
    """

    def __init__(
        self,
        runner: StepRunner,
        evaluator: Evaluator,
        fingerprint: str,
        remarks: Remarks,
        is_given_up: Callable[[str, str, int], bool],
        prices: Prices | None = None,
    ) -> None:
        self.name = evaluator.name
        self.who = f"the evaluator {one_line(evaluator.name)}"
        self.queue: StepQueue[Scoring] = StepQueue(_QUEUE_SIZE)
        self.executor: AsyncExecutor[Any, Any] | None = None
        self._runner = runner
        self.target = evaluator
        self._fingerprint = fingerprint
        self._remarks = remarks
        self._is_given_up = is_given_up
        self._prices = prices
        self._column = runner.journal.column(evaluator.name)

    def missing(self, work_item: WorkItem, entry: Entry) -> Scoring | None:
        """Return what to score for an answer; None if it is scored."""
        scoring = scoring_of(work_item, entry, self.target, self._fingerprint)
        key = scoring.cell.key
        needed = self._runner.redos.needed(self.name, work_item.item.id, key)
        if self._is_given_up(self.name, key, needed) or self._column.reaches(key, needed):
            return None
        return scoring

    def scored_masked(self, work_item: WorkItem, entry: Entry) -> Scoring | None:
        """Return what to score again: the score is of masked text, and the original is here."""
        scoring = scoring_of(work_item, entry, self.target, self._fingerprint)
        lines: Iterable[tuple[str, Entry]] = self._column.read_many([scoring.cell.key])
        return scoring if any(line.facts.get(SAW_MASKED) for _, line in lines) else None

    async def run(self) -> None:
        """Score what arrives in the queue, until it ends."""
        recorder = self._runner.recorder(
            self.name,
            lambda scoring: scoring.cell,
            lambda scoring: scoring.work_item,
            _record_of,
            permanent="evaluator",
            facts_of=self._facts_of,
            returned=SCORED,
            costs=self.target.endpoint is not None,
        )
        endpoint = self.target.endpoint
        self.executor = self._runner.executor(recorder, self._score, endpoint)
        try:
            await self._runner.run(recorder, self.executor, self.queue)
        finally:
            self.queue.stop()

    async def _score(self, scoring: Scoring) -> Output:
        reads = self.target.reads
        scored = given(scoring.work_item.item, scoring.output, scoring.trace, reads)
        return await run_cell("the evaluator", self.target.call, scored, self._read_returned)

    def _read_returned(self, returned: Any) -> Output:
        return read_scores(returned, self.name, self._remarks)

    def _facts_of(self, done: Finished[Scoring, Output]) -> dict[str, Any]:
        used = usage_facts(output_of(done), self._prices)
        return {**done.input.facts, **(used or {})}


def _record_of(done: Finished[Scoring, Output]) -> dict[str, Any]:
    output = output_of(done)
    return score_record(done.input.work_item, None if output is None else output.value)
