"""Keeps each reply of a judge on disk before it is used.

The replies have a column of their own, beside that of the evaluator.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from limpet.errors import JournalError, PermanentError, RecordNotWrittenError, SetupError
from limpet.evaluators.judge_votes import Ask
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.pacing.permits import asks_for_each_call
from limpet.run.executing.outcomes import Bill, masked_record
from limpet.run.planning.work_items import ScoreTask, ballot_key
from limpet.run.record_fields import BALLOTS
from limpet.secrets.masking import Masking
from limpet.shapes import Cell, Outcome
from limpet.usage import receipts_in


class StepBallots:
    """The ballots of one evaluator. The first opens their column."""

    def __init__(self, journal: Journal, step: str, masking: Masking) -> None:
        self.step = step
        self._journal = journal
        self._masking = masking
        self._column: Column | None = None
        self._opening = asyncio.Lock()

    def of(self, task: ScoreTask, generation: int, bill: Bill) -> "ScoreBallots":
        """Return the ballots of one score.

        Args:
            task: What is scored.
            generation: The generation that its ballots must have; 0: any.
            bill: What was paid for the score.
        """
        return ScoreBallots(self, task, generation, bill)

    async def column(self) -> Column:
        """Return their column.

        Raises:
            SetupError: It cannot be read, so earlier replies are unknown.
        """
        if self._column is not None:
            return self._column
        async with self._opening:
            if self._column is None:
                step = self.step + BALLOTS
                try:
                    self._column = await asyncio.to_thread(self._journal.column, step)
                except JournalError as error:
                    raise SetupError(f"the replies from the model: {error}") from error
                self._column.mask = self._masking.results.data
        return self._column

    async def record(self, cell: Cell, said: Mapping[str, Any], generation: int) -> None:
        """Append a ballot.

        Raises:
            PermanentError: It cannot be kept.
            SetupError: The disk is full or broken: no further ballot can be kept.
        """
        column = await self.column()
        record, facts = masked_record(self._masking.results, dict(said), tuple(said))
        generation = max(generation, column.next_generation(cell.key))
        outcome = Outcome(cell, record=record, generation=generation, facts=facts or None)
        try:
            recorded = await column.append(outcome)
        except RecordNotWrittenError as error:
            raise PermanentError(f"a reply from the model was not recorded: {error}") from error
        except JournalError as error:
            raise SetupError(f"a reply from the model was not recorded: {error}") from error
        if recorded.failure is not None:
            raise PermanentError(f"a reply from the model: {recorded.failure.message}")


class ScoreBallots:
    """The ballots of one score.

    Attributes:
        keys: The keys of the cast ballots, in the order of the questions.
    """

    def __init__(
        self,
        step: StepBallots,
        task: ScoreTask,
        generation: int,
        bill: Bill,
    ) -> None:
        self._step = step
        self._scoring = task
        self._generation = generation
        self._bill = bill
        self.keys: list[str] = []

    async def cast(self, identity: Any, ask: Ask) -> Mapping[str, Any]:
        """Return the ballot of this identity from disk, or ask the model and record the reply."""
        asks_for_each_call()  # a ballot on disk needs none
        work_item = self._scoring.work_item
        key = ballot_key(work_item, identity)
        self.keys.append(key)
        column, ballots = await self._step.column(), self._bill.ballots
        if column.generation_of(key) >= self._generation:
            entry = await asyncio.to_thread(column.read, key)
            if entry is not None:
                ballots[key] = entry.record
                return ballots[key]
        with receipts_in([]):  # they are in the ballot
            said = await ask()
        if key in ballots:  # a call beside this one was faster, and both are paid for
            self._bill.late.append(said.get("usage"))
            return ballots[key]
        ballots[key] = said
        cell = Cell(self._step.step, work_item.item.id, work_item.trial, key)
        await self._step.record(cell, said, self._generation)
        return said
