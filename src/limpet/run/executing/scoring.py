"""How does an evaluator score the answers that it has not scored yet?

They arrive in a bounded queue, so that a slow evaluator does not let them pile up.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from limpet.engines.places import Places
from limpet.engines.returned_values import read_scores
from limpet.evaluators.ballots import casting_into
from limpet.evaluators.protocol import Evaluator
from limpet.evaluators.reads import given
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import Finished
from limpet.journal.lines import Entry
from limpet.run.executing.cells import score_record
from limpet.run.executing.omissions import Omissions
from limpet.run.executing.paid import Paid
from limpet.run.executing.step_queue import StepQueue
from limpet.run.executing.step_runner import StepRunner, output_of
from limpet.run.planning.scorings import Scoring, scoring_of
from limpet.run.planning.work_items import WorkItem
from limpet.run.record_fields import MADE_OF, SAW_MASKED, SCORED
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
        omissions: Reports what was left out.
        places: Where the steps run.
        not_retried: Cells that failed before and are not retried, by step and key, with the
            generation in which they failed.
        prices: What a million tokens cost, by model.

    Attributes:
        name: The step's name.
        who: The step's name in messages.
        target: The evaluator.
        place: Where it runs.
        queue: The answers to score.
        executor: The step's executor; None before `run`.
    """

    def __init__(
        self,
        runner: StepRunner,
        evaluator: Evaluator,
        fingerprint: str,
        omissions: Omissions,
        places: Places,
        not_retried: Mapping[tuple[str, str], int],
        prices: Prices | None,
    ) -> None:
        self.name = evaluator.name
        self.who = f"the evaluator {one_line(evaluator.name)}"
        self.queue: StepQueue[Scoring] = StepQueue(_QUEUE_SIZE)
        self.executor: AsyncExecutor[Any, Any] | None = None
        self._runner = runner
        self.target = evaluator
        self.place = places.of(
            evaluator.name, evaluator, "the evaluator", self._read_returned, omissions
        )
        self._fingerprint = fingerprint
        self._omissions = omissions
        self._not_retried = not_retried
        self._prices = prices
        self._paid = Paid()
        self._ballots = runner.ballots(evaluator.name)
        self._column = runner.journal.column(evaluator.name)

    def missing(self, work_item: WorkItem, entry: Entry) -> Scoring | None:
        """Return what to score for an answer; None if it is scored."""
        scoring = scoring_of(work_item, entry, self.target, self._fingerprint)
        key = scoring.cell.key
        needed = self._runner.redos.needed(self.name, work_item.item.id, key)
        stays_failed = self._not_retried.get((self.name, key), -1) >= needed
        return None if stays_failed or self._column.reaches(key, needed) else scoring

    def kept(self, work_item: WorkItem, entry: Entry) -> Mapping[str, Any] | None:
        """Return the record of the score that an answer has; None if it has none."""
        scoring = scoring_of(work_item, entry, self.target, self._fingerprint)
        line = self._column.read(scoring.cell.key)
        return None if line is None else line.record

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
            own_kind="evaluator",
            facts_of=self._facts_of,
            returned=SCORED,
            costs=self.target.endpoint is not None,
        )
        endpoint = self.target.endpoint
        self.executor = self._runner.executor(recorder, self._score, endpoint, place=self.place)
        try:
            await self._runner.run(recorder, self.executor, self.queue)
        finally:
            self.queue.close()

    async def _score(self, scoring: Scoring) -> Output:
        reads, item = self.target.reads, scoring.work_item.item
        scored = given(item, scoring.output, scoring.trace, reads)
        needed = self._runner.redos.needed(self.name, item.id, scoring.cell.key)
        with self._paid.attempt(key := scoring.cell.key):
            ballots = self._ballots.of(scoring, needed, self._paid.ballots(key))
            with casting_into(ballots):
                output = await self.place.call(scored, self._runner.taken(scoring.cell))
        if len(ballots.keys) > 1:
            scoring.facts[MADE_OF] = ballots.keys
        return output

    def _read_returned(self, returned: Any) -> Output:
        return read_scores(returned, self.name, self._omissions)

    def _facts_of(self, done: Finished[Scoring, Output]) -> dict[str, Any]:
        used = self._paid.settle(done.input.cell.key, output_of(done))
        return {**done.input.facts, **usage_facts(used, self._prices)}


def _record_of(done: Finished[Scoring, Output]) -> dict[str, Any]:
    output = output_of(done)
    return score_record(done.input.work_item, None if output is None else output.value)
