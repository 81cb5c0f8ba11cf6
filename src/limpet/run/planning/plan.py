"""What will a run do, and why, before anything is spent?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # slow to import
    from limpet.fingerprints.explaining.differences import Difference

EarlierRedo = Literal["", "unfinished", "cancelled"]
"""What becomes of the redos of earlier sessions that are not done; empty: there are none."""

HOW_TO_CANCEL = 'cancel it with --keep (in Python: on_change="keep")'
_REDOS: dict[EarlierRedo, str] = {
    "unfinished": f"the earlier redo is unfinished: {HOW_TO_CANCEL}",
    "cancelled": "the unfinished redo is cancelled",
}
_MOST_NAMED = 8
_TENTHS_S = 10.0
_LEAST_COST = 0.005  # a cent, rounded


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort that answers took.

    Attributes:
        answers: The number of answers.
        seconds: How long their calls took.
        cost: What they cost, as far as it is known.
    """

    answers: int
    seconds: float
    cost: float

    def __str__(self) -> str:
        cost = f", ${self.cost:,.2f}" if self.cost >= _LEAST_COST else ""
        digits = 1 if self.seconds < _TENTHS_S else 0
        return f"{self.seconds:,.{digits}f} s of calls{cost}"


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a run will do in one step.

    Attributes:
        name: The name of the step.
        kept: How many cells are on disk.
        new: How many cells never had a result.
        edited: How many cells have no result because their row was edited.
        failed: How many cells failed before and are not retried.
        changed: The names of what changed in the step since its results were made.
        calls: How many calls it will make.
        forced: How many cells are on disk, and run again because of a redo.
        differences: What exactly changed, if known.
        made_again: The answers that are made again without asking, because the workflow changed;
            None: there are none.
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
    made_again: Effort | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do. Print it to read it.

    Attributes:
        items: How many items the session selects.
        trials: How often the workflow answers each item.
        workflow: What the workflow will do.
        evaluators: What each evaluator will do.
        of: How many items the dataset has; None: all are selected.
        redo: What becomes of the redos of earlier sessions that are not done.
    """

    items: int
    trials: int
    workflow: StepPlan
    evaluators: tuple[StepPlan, ...] = ()
    of: int | None = None
    redo: EarlierRedo = ""

    @property
    def calls(self) -> int:
        """How many calls all steps will make."""
        return self.workflow.calls + sum(step.calls for step in self.evaluators)

    @property
    def cost(self) -> str:
        """How many calls each step will make, in words."""
        most = "up to " if self.workflow.calls else ""
        steps = [("", self.workflow), *((most, step) for step in self.evaluators)]
        calls = [
            f"{up_to}{_count(step.calls, f'{step.name} call')}"
            for up_to, step in steps
            if step.calls
        ]
        *others, last = calls or ["no calls"]
        return f"{', '.join(others)} and {last}" if others else last

    def __str__(self) -> str:
        # A new answer that equals the earlier one keeps its scores.
        most = "up to " if self.workflow.forced else ""
        parts = [_evaluator_text(step, most) for step in self.evaluators]
        parts += [_REDOS[self.redo]] if self.redo else []
        return "; ".join([self._workflow_text(), *parts])

    def _workflow_text(self) -> str:
        step = self.workflow
        counts = [f"{step.kept:,} kept"]
        counts += [f"{step.new:,} new"] if step.new else []
        counts += [f"{step.edited:,} edited"] if step.edited else []
        counts += [f"{step.forced:,} forced"] if step.forced else []
        counts += [f"{step.failed:,} failed before, not retried"] if step.failed else []
        if step.made_again is not None:
            counts.append(f"{step.made_again.answers:,} made again ({step.made_again})")
        counts += [f"workflow changed ({named(step.changed)})"] if step.changed else []
        items = _count(self.items, "item")
        if self.of is not None:
            items = f"{self.items:,} of {_count(self.of, 'item')}"
        calls = _count(step.calls, f"{step.name} call")
        return f"{items} × {_count(self.trials, 'trial')}: {', '.join(counts)} → {calls}"


def named(changed: Sequence[str]) -> str:
    """Return the names of what changed, the first few of them."""
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
