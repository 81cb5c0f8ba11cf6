"""What will be done, and why, before anything is spent?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for a plan alone it is too much
    from limpet.fingerprints.explaining.differences import Difference

_MOST_NAMED = 8
_TENTHS_S = 10.0
_LEAST_COST = 0.005  # a cent, rounded


@dataclass(frozen=True, slots=True)
class Anew:
    """Answers that are made anew without asking: the workflow changed, and they took little.

    Attributes:
        answers: How many.
        seconds: How long their calls took.
        cost: What they cost, as far as that is known.
    """

    answers: int
    seconds: float
    cost: float

    @property
    def effort(self) -> str:
        """What they took, for people."""
        cost = f", ${self.cost:,.2f}" if self.cost >= _LEAST_COST else ""
        digits = 1 if self.seconds < _TENTHS_S else 0
        return f"{self.seconds:,.{digits}f} s of calls{cost}"

    def __str__(self) -> str:
        are = "is" if self.answers == 1 else "are"
        return f"{_count(self.answers, 'answer')} {are} made anew ({self.effort})"


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a run will do in one step.

    Attributes:
        name: The workflow, or an evaluator.
        kept: How many cells are on disk.
        new: How many are not, and were never asked for before.
        edited: How many are not, because their row was edited since.
        failed: How many failed before and are not tried again.
        changed: What changed in the step itself since its results were made.
        calls: How many calls it will make.
        forced: How many are on disk, and run again because that was asked.
        differences: What exactly changed, where that is known.
        anew: What is made anew without asking, because the step changed.
    """

    name: str
    kept: int
    new: int
    edited: int = 0
    failed: int = 0
    changed: tuple[str, ...] = ()
    calls: int = 0
    forced: int = 0
    differences: "tuple[Difference, ...]" = ()
    anew: Anew | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do. Its text is what a person is told.

    Attributes:
        items: How many items it is about.
        trials: How often each is asked.
        workflow: What the workflow will do.
        evaluators: What each evaluator will do.
        of: How many items there are, where `items` is a selection of them; else None.
    """

    items: int
    trials: int
    workflow: StepPlan
    evaluators: tuple[StepPlan, ...] = ()
    of: int | None = None

    @property
    def calls(self) -> int:
        """How many calls it will make in all."""
        return self.workflow.calls + sum(one.calls for one in self.evaluators)

    @property
    def cost(self) -> str:
        """How many calls of each step it will make, for people."""
        most = "up to " if self.workflow.calls else ""
        told = [_count(self.workflow.calls, f"{self.workflow.name} call")]
        told = told if self.workflow.calls else []
        told += [
            f"{most}{_count(one.calls, f'{one.name} call')}" for one in self.evaluators if one.calls
        ]
        return " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told) or "no calls"

    def __str__(self) -> str:
        # An answer that comes out as it was before keeps its scores.
        most = "up to " if self.workflow.forced else ""
        parts = [_evaluator_text(one, most) for one in self.evaluators]
        return "; ".join([self._workflow_text(), *parts])

    def _workflow_text(self) -> str:
        step = self.workflow
        counts = [f"{step.kept:,} kept"]
        counts += [f"{step.new:,} new"] if step.new else []
        counts += [f"{step.edited:,} edited"] if step.edited else []
        counts += [f"{step.forced:,} forced"] if step.forced else []
        counts += [f"{step.failed:,} failed before and left"] if step.failed else []
        if step.anew is not None:
            counts.append(f"{step.anew.answers:,} made anew ({step.anew.effort})")
        counts += [f"workflow changed ({named(step.changed)})"] if step.changed else []
        items = _count(self.items, "item")
        items = items if self.of is None else f"{self.items:,} of {_count(self.of, 'item')}"
        asked = f"{items} × {_count(self.trials, 'trial')}: "
        return f"{asked}{', '.join(counts)} → {_count(step.calls, f'{step.name} call')}"


def named(changed: Sequence[str]) -> str:
    """Return the names of what changed, a few of them where there are many."""
    more = len(changed) - _MOST_NAMED
    return ", ".join(changed[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _evaluator_text(step: StepPlan, most: str) -> str:
    if not step.calls:
        return f"{step.name} kept"
    calls = f"{most}{_count(step.calls, f'{step.name} call')}"
    if step.forced:
        return f"{step.forced:,} {step.name} forced → {calls}"
    return f"{step.name} changed → {calls}" if step.changed else calls


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
