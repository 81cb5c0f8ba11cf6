"""What will be done, and why, before anything is spent?"""

from dataclasses import dataclass


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
    """

    name: str
    kept: int
    new: int
    edited: int = 0
    failed: int = 0
    changed: tuple[str, ...] = ()
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do. Its text is what a person is told."""

    items: int
    trials: int
    workflow: StepPlan
    evaluators: tuple[StepPlan, ...] = ()

    @property
    def calls(self) -> int:
        """How many calls it will make in all."""
        return self.workflow.calls + sum(one.calls for one in self.evaluators)

    def __str__(self) -> str:
        parts = [self._workflow_text(), *map(_evaluator_text, self.evaluators)]
        return "; ".join(parts)

    def _workflow_text(self) -> str:
        step = self.workflow
        counts = [f"{step.kept:,} kept"]
        counts += [f"{step.new:,} new"] if step.new else []
        counts += [f"{step.edited:,} edited"] if step.edited else []
        counts += [f"{step.failed:,} failed before and left"] if step.failed else []
        counts += [f"workflow changed ({', '.join(step.changed)})"] if step.changed else []
        asked = f"{_count(self.items, 'item')} × {_count(self.trials, 'trial')}: "
        return f"{asked}{', '.join(counts)} → {_count(step.calls, f'{step.name} call')}"


def _evaluator_text(step: StepPlan) -> str:
    if not step.calls:
        return f"{step.name} kept"
    if step.changed:
        return f"{step.name} changed → {_count(step.calls, f'{step.name} call')}"
    return _count(step.calls, f"{step.name} call")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
