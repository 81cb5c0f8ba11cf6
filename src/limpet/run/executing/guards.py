"""Should the run go on, now that this outcome is on disk?

A guard sees each outcome once it is durable, on the event loop of the run, and may stop the run by
saying why. All steps stop then, in good order: what is in flight may end, what is done stays.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from limpet.errors import EarlyStopError, LimpetError
from limpet.journal.journal import Journal
from limpet.run.executing.failure_kinds import alike
from limpet.text import harmless, one_line
from limpet.types import CellStatus, Failure, Outcome

FIRST_FAILURES = 5
"""So many failures that are alike, with nothing through, stop the run."""
FIRST_CALLS, FIRST_CALLS_S = 16, 10.0
"""So many cells of a step are begun with, until one is through or so many seconds have passed."""
MEND = "mend it and run again: what is done is kept"
FAILURES_IN_A_ROW = 50
"""So many that are alike, one after the other, are said aloud."""

logger = logging.getLogger("limpet.run")


class Guard(Protocol):
    """Looks on, and may stop the run: a budget, an early stop, a mistake that repeats itself."""

    def see(self, outcome: Outcome) -> LimpetError | None:
        """Return why the run has to stop; None: it goes on.

        Args:
            outcome: What is on disk now: which cell of which step, how it ended, how long it took,
                and among its facts the `usage` with its `cost`, where that is known.
        """


class Spent:
    """What a session has spent so far.

    Attributes:
        calls: Attempts that were started, of all steps that may cost something.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._usage: Counter[str] = Counter()

    def see(self, outcome: Outcome) -> None:
        """Add what an outcome used."""
        if outcome.facts and failure_of(outcome) is None and "usage" in outcome.facts:
            self._usage.update(outcome.facts["usage"])

    def __str__(self) -> str:
        said = [f"{self.calls:,} {'call' if self.calls == 1 else 'calls'}"]
        if tokens := self._usage["total_tokens"]:
            said.append(f"{tokens:,} tokens")
        if cost := self._usage["cost"]:
            said.append(f"cost {cost:,.4g}")
        return ", ".join(said)


class Guards:
    """All guards of a session, and what it spends.

    Args:
        guards: Asked in this order.
        spent: Kept up to date.
        stop: Called with the first reason to stop that a guard gives.
    """

    def __init__(
        self, guards: Sequence[Guard], spent: Spent, stop: Callable[[LimpetError], None]
    ) -> None:
        self._guards = guards
        self._spent = spent
        self._stop = stop

    def started(self) -> None:
        """A call that may cost something has started."""
        self._spent.calls += 1

    def see(self, outcome: Outcome) -> None:
        """An outcome is on disk."""
        self._spent.see(outcome)
        for guard in self._guards:
            reason = guard.see(outcome)
            if reason is not None:
                self._stop(reason)


class EarlyStop:
    """Stops the run when the first cells of a step fail alike, and none is through.

    Args:
        cells: How many cells each step has to do; one that is not named is not watched.
        spent: Asked for what to say.
    """

    def __init__(self, cells: Mapping[str, int], spent: Spent) -> None:
        self._cells = cells
        self._spent = spent
        self._through: set[str] = set()
        self._failures: dict[str, dict[str, list[Outcome]]] = {}

    def see(self, outcome: Outcome) -> EarlyStopError | None:
        step, failure = outcome.cell.step, failure_of(outcome)
        if step not in self._cells or step in self._through:
            return None
        if failure is None:
            self._through.add(step)
            self._failures.pop(step, None)
            return None
        by_kind = self._failures.setdefault(step, {})
        same = by_kind.setdefault(_alike(failure), [])
        same.append(outcome)
        if len(same) != FIRST_FAILURES or sum(map(len, by_kind.values())) >= self._cells[step]:
            return None  # or nothing is left that it could save
        return self._reason(same[0], failure_of(same[0]) or failure)

    def _reason(self, first: Outcome, failure: Failure) -> EarlyStopError:
        step, many = first.cell.step, self._cells[first.cell.step]
        where = "the workflow" if step == "workflow" else f"the evaluator {one_line(step)}"
        said = one_line(f"{failure.type}: {failure.message}" if failure.message else failure.type)
        error = EarlyStopError(
            f"{where} failed the same way {FIRST_FAILURES} times, and none of its {many:,} cells "
            f"is done: {said}; spent so far: {self._spent}",
            hint=f"{MEND}; early_stop=False goes on all the same",
        )
        error.step, error.id, error.traceback = step, first.cell.id, failure.traceback
        if failure.traceback:
            traceback = harmless(failure.traceback)
            logger.error("the first failure, of %s:\n%s", one_line(first.cell.id), traceback)
        return error


class Repetition:
    """Says aloud that a step fails alike again and again; once for each such row.

    Args:
        journal: Where it is told.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rows: dict[str, tuple[str, int]] = {}

    def see(self, outcome: Outcome) -> None:
        step, failure = outcome.cell.step, failure_of(outcome)
        if failure is None:
            self._rows.pop(step, None)
            return
        kind = _alike(failure)
        before, many = self._rows.get(step, (kind, 0))
        many = many + 1 if before == kind else 1
        self._rows[step] = kind, many
        if many == FAILURES_IN_A_ROW:
            said = one_line(f"{failure.type}: {failure.message}")
            self._journal.tell("repeating", step=step, failures=many, alike=kind)
            logger.warning(
                "%s: %s cells in a row failed the same way: %s",
                one_line(step),
                many,
                one_line(said),
            )


def failure_of(outcome: Outcome) -> Failure | None:
    """Return why a cell failed; None if it did not."""
    return outcome.failure if outcome.status is CellStatus.FAILED else None


def _alike(failure: Failure) -> str:
    return alike(failure.kind, failure.type, failure.message)
