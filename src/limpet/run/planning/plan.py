"""What will a run do, and why, before anything is spent?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from limpet.shapes import Difference, Scale
from limpet.text import money, table_html

EarlierRedo = Literal["", "unfinished", "cancelled"]
"""What happens to unfinished redos of earlier sessions; empty: there are none."""

HOW_TO_CANCEL = 'cancel it with --keep (in Python: on_change="keep")'
_REDOS: dict[EarlierRedo, str] = {
    "unfinished": f"the earlier redo is unfinished: {HOW_TO_CANCEL}",
    "cancelled": "the unfinished redo is cancelled",
}
_MOST_NAMED = 8
_TENTHS_S = 10.0


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort that answers took.

    Attributes:
        answers: The number of answers.
        seconds: How long their calls took.
        cost: What they cost, as far as known.
    """

    answers: int
    seconds: float
    cost: float

    def __str__(self) -> str:
        cost = f", ${money(self.cost)}" if self.cost else ""
        digits = 1 if self.seconds < _TENTHS_S else 0
        return f"{self.seconds:,.{digits}f} s of calls{cost}"


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a run will do in one step.

    Attributes:
        name: The name of the step.
        kept: How many cells are on disk.
        new: How many cells never ran.
        edited: How many cells have no result because their row was edited.
        failed: How many cells failed before and are not retried.
        retried: How many cells failed before and are retried.
        earlier: How many cells have results only of an earlier version, and run again.
        changed: The names of what changed in the step since its results were made.
        calls: How many cells it will run.
        asks: The most model calls that these take; None: one each.
        replies_each: How many replies a result took in the last session.
        forced: How many cells are on disk, and run again because of a redo.
        differences: What exactly changed, if known.
        made_again: The answers redone without asking because the workflow changed; None: none.
        tokens_each: How many tokens a result took on average in the last session, if known.
        cost_each: What a result cost on average in the last session, if known.
    """

    name: str
    kept: int
    new: int
    edited: int = 0
    failed: int = 0
    retried: int = 0
    earlier: int = 0
    changed: tuple[str, ...] = ()
    calls: int = 0
    asks: int | None = None
    replies_each: int = 1
    forced: int = 0
    differences: tuple[Difference, ...] = ()
    made_again: Effort | None = None
    tokens_each: float | None = None
    cost_each: float | None = None

    @property
    def expected_cost(self) -> str:
        """How many calls its cells take, and their cost at the average of the last session."""
        asks = self.calls if self.asks is None else self.asks
        if not asks:
            return "no calls: all replies are on disk"
        words: list[str] = []
        if asks != self.calls:
            words.append(f"up to {_count(asks, 'call')}")
        replies = asks / self.replies_each
        if self.cost_each is not None:
            words.append(f"about ${money(replies * self.cost_each)}")
        elif self.tokens_each is not None:
            words.append(f"about {_count(round(replies * self.tokens_each), 'token')}")
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do. Print it to read it.

    Attributes:
        items: How many items the session selects.
        trials: How many times the workflow answers each item.
        workflow: What the workflow will do.
        evaluators: What each evaluator will do.
        of: How many items the dataset has; None: all are selected.
        redo: What happens to unfinished redos of earlier sessions.
        scales: The scale of each evaluator's scores, where it is not the default.
        engine: Which steps run in other processes, in words; empty: none.
        prices: The models without a price and the prices without a model, in words.
        stop_when: The half-width of each score at which it stops early; empty: none.
        unseen: What the steps use that is outside their identity, and could be declared.
        skipped: How many rows of the dataset were skipped as invalid.
    """

    items: int
    trials: int
    workflow: StepPlan
    evaluators: tuple[StepPlan, ...] = ()
    of: int | None = None
    redo: EarlierRedo = ""
    scales: Mapping[str, Scale] = field(default_factory=dict, repr=False)
    stop_when: Mapping[str, float] = field(default_factory=dict)
    engine: str = ""
    unseen: tuple[str, ...] = ()
    skipped: int = 0
    prices: str = ""

    @property
    def calls(self) -> int:
        """How many calls all steps will make."""
        return self.workflow.calls + sum(step.calls for step in self.evaluators)

    @property
    def cost(self) -> str:
        """How many calls each step will make, in words."""
        workflow = self.workflow
        # A new answer that equals the earlier one keeps its scores.
        most = "up to " if workflow.calls > workflow.new + workflow.retried else ""
        words: list[str] = []
        for up_to, step in (("", workflow), *((most, step) for step in self.evaluators)):
            if step.calls:
                noun = "call" if step.asks in (None, step.calls) else "score"
                number = f"{step.calls:,}" if words else _count(step.calls, noun)
                cost = f" ({step.expected_cost})" if step.expected_cost else ""
                words.append(f"{up_to}{number} of {step.name}{cost}")
        return ", ".join(words) or "no calls"

    def __str__(self) -> str:
        items = _count(self.items, "item")
        if self.of is not None:
            items = f"{self.items:,} of {_count(self.of, 'item')}"
        if self.skipped:
            items += f" ({_count(self.skipped, 'row')} skipped)"
        counts = [", ".join(self._workflow_counts())]
        for step in self.evaluators:
            counts += [f"{step.forced:,} {step.name} forced"] if step.forced else []
            counts += [f"{step.name} changed"] if step.changed and not step.forced else []
        text = f"{items} × {_count(self.trials, 'trial')}: {'; '.join(counts)} → {self.cost}"
        if self.stop_when and self.calls:
            goals = " and ".join(f"{name} ± {width:g}" for name, width in self.stop_when.items())
            text += f"; fewer if {goals} is reached sooner"
        if self.engine and self.calls:
            text += f"; {self.engine}"
        if self.prices and self.calls:
            text += f"; {self.prices}"
        text = f"{text}; {_REDOS[self.redo]}" if self.redo else text
        return f"{text}; not part of the identity: {self._unseen}" if self.unseen else text

    @property
    def _unseen(self) -> str:
        return f"{named(self.unseen)} (declare what matters with depends_on)"

    def _repr_html_(self) -> str:
        rows = [_html_row(step) for step in (self.workflow, *self.evaluators)]
        heads = ("step", "kept", "to do again", "new", "calls", "changed")
        return f"<p>{escape(str(self))}</p>{table_html(heads, rows)}"

    def _workflow_counts(self) -> Iterator[str]:
        step = self.workflow
        yield f"{step.kept:,} kept"
        if step.new:
            yield f"{step.new:,} new"
        if step.retried:
            yield f"{step.retried:,} failed before"
        if step.edited:
            yield f"{step.edited:,} edited"
        if step.forced:
            yield f"{step.forced:,} forced"
        if step.failed:
            yield f"{step.failed:,} failed before, not retried"
        if step.made_again is not None:
            yield f"{step.made_again.answers:,} redone ({step.made_again})"
        elif step.earlier:
            yield f"{step.earlier:,} from an earlier version"
        if step.changed:
            yield f"workflow changed ({named(step.changed)})"


def _html_row(step: StepPlan) -> list[str]:
    again = step.retried + step.edited + step.forced + step.earlier
    numbers = [f"{number:,}" if number else "" for number in (again, step.new, step.calls)]
    return [escape(step.name), f"{step.kept:,}", *numbers, escape(named(step.changed))]


def named(changed: Sequence[str]) -> str:
    """Return the names of what changed, the first few of them."""
    more = len(changed) - _MOST_NAMED
    return ", ".join(changed[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def quoted(changed: Sequence[str]) -> str:
    """Return the names of what changed, for a sentence: code in backquotes."""
    return named([_quoted(name) for name in changed])


def _quoted(name: str) -> str:
    code, bracket, change = name.partition(" (")
    is_code = all(part.isidentifier() for part in code.split("."))
    return f"`{code}`{bracket}{change}" if is_code else name


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
