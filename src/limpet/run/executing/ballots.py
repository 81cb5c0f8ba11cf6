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
from limpet.run.executing.outcomes import AGAIN, masked_record
from limpet.run.planning.work_items import ScoreTask, ballot_key
from limpet.run.record_fields import BALLOTS
from limpet.secrets.masking import Masking
from limpet.shapes import Cell, Outcome
from limpet.usage import Plain, receipts_in


class StepBallots:
    """The ballots of one evaluator. The first opens their column."""

    def __init__(self, journal: Journal, step: str, masking: Masking) -> None:
        self.step = step
        self._journal = journal
        self._masking = masking
        self._column: Column | None = None
        self._opening = asyncio.Lock()

    def of(self, task: ScoreTask, generation: int, used: dict[str, Plain | None]) -> "ScoreBallots":
        """Return the ballots of one score.

        Args:
            task: What is scored.
            generation: The generation that its ballots must have; 0: any.
            used: Filled with the usage of each ballot, by its key.
        """
        return ScoreBallots(self, task, generation, used)

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
        used: dict[str, Plain | None],
    ) -> None:
        self._step = step
        self._scoring = task
        self._generation = generation
        self._used = used
        self.keys: list[str] = []

    async def cast(self, identity: Any, ask: Ask) -> Mapping[str, Any]:
        """Return the ballot of this identity from disk, or ask the model and record the reply."""
        asks_for_each_call()  # a ballot on disk needs none
        work_item = self._scoring.work_item
        key = ballot_key(work_item, identity)
        self.keys.append(key)
        if (kept := await self._kept(key)) is not None:
            return kept
        known = key in self._used
        with receipts_in([]):  # once it is on disk, they are in the ballot
            said = await ask()
            if known or key not in self._used:
                cell = Cell(self._step.step, work_item.item.id, work_item.trial, key)
                await self._step.record(cell, said, self._generation)
        # A call beside this one may have been faster: then both are paid for.
        is_late = not known and key in self._used
        self._used[key + AGAIN if is_late else key] = said.get("usage")
        return (is_late and await self._kept(key)) or said

    async def _kept(self, key: str) -> Mapping[str, Any] | None:
        """Return a ballot that is on disk."""
        column = await self._step.column()
        entry = None
        if column.generation_of(key) >= self._generation:
            entry = await asyncio.to_thread(column.read, key)
        if entry is None:
            return None
        kept: Mapping[str, Any] = entry.record
        self._used[key] = kept.get("usage")
        return kept
