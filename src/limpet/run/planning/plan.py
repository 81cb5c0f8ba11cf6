"""What will a run do, and why, before anything is spent?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal

from limpet.run.planning.forecast import FEWEST, Between
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
class Forecast:
    """What the missing cells will take, as ranges.

    If the missing cells are like those seen, a range holds the truth in about 90% of cases, as
    measured by `benchmarks/forecast.py`.

    Kept cells take nothing, and of a score that lacks votes only these count. Cells that fail are
    not foreseen. Print it to read it.

    Attributes:
        calls: How many calls there will be to workflows and models.
        tokens: How many tokens; None: unknown.
        cost: What they cost; None: unknown.
        seconds: How long the session takes; None: unknown.
        source: From what: "30 cells of this run"; empty: nothing is known.
        unseen: The steps of which no cells are known.
    """

    calls: Between
    tokens: Between | None = None
    cost: Between | None = None
    seconds: Between | None = None
    source: str = ""
    unseen: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.source:
            cells = f"fewer than {FEWEST} cells of {' and '.join(self.unseen)}"
            return f"tokens, cost and time unknown: {cells} have run"
        calls = f"{_span(self.calls, '{:,.0f}'.format)} call{'s' * (self.calls.high != 1)}"
        known = {
            "tokens": _scaled(self.tokens, _TOKENS) if self.tokens else "",
            "cost": f"${_span(self.cost, money)}" if self.cost else "",
            "time": _scaled(self.seconds, _TIMES) if self.seconds else "",
        }
        words = ", ".join([calls, *filter(None, known.values())])
        unknown = " and ".join(name for name, value in known.items() if not value)
        text = f"about {words} (from {self.source})"
        return f"{text}; {unknown} unknown" if unknown else text

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data: the ends of the ranges, and from what."""
        data = asdict(self)
        return data | {"from": data.pop("source") or None}


_TOKENS = {"M tokens": 1e6, "k tokens": 1e3, " tokens": 1.0}
_TIMES = {" days": 86_400.0, " h": 3_600.0, " min": 60.0, " s": 1.0}


def _scaled(ends: Between, units: Mapping[str, float]) -> str:
    """Return a range in the largest unit of which there are two, with two digits or more."""
    fitting = (unit for unit, size in units.items() if ends.high >= 2 * size)
    unit = next(fitting, [*units][-1])

    def shown(number: float) -> str:
        amount = round(number / units[unit], 3)
        return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"  # noqa: PLR2004 - two digits

    return f"{_span(ends, shown)}{unit}"


def _span(ends: Between, shown: Callable[[float], str]) -> str:
    """Return a range; one number if its ends look the same."""
    low, high = shown(ends.low), shown(ends.high)
    return low if low == high else f"{low}–{high}"


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
        forced: How many cells are on disk, and run again because of a redo.
        differences: What exactly changed, if known.
        made_again: The answers redone without asking because the workflow changed; None: none.
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
    forced: int = 0
    differences: tuple[Difference, ...] = ()
    made_again: Effort | None = None

    @property
    def model_calls(self) -> str:
        """How many model calls its cells take, in words; empty: one each."""
        if self.calls and self.asks == 0:
            return "no calls: all replies are on disk"
        return "" if self.asks in (None, self.calls) else f"up to {_count(self.asks or 0, 'call')}"


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
        forecast: What the missing cells will take; None: nothing is missing.
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
    forecast: Forecast | None = None

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
                calls = f" ({step.model_calls})" if step.model_calls else ""
                words.append(f"{up_to}{number} of {step.name}{calls}")
        return ", ".join(words) or "no calls"

    @property
    def price(self) -> str:
        """How many calls each step will make, and what they will take, in words."""
        return f"{self.cost}: {self.forecast}" if self.forecast else self.cost

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
        text = f"{text}; not part of the identity: {self._unseen}" if self.unseen else text
        return f"{text}\n{self.forecast}" if self.forecast else text

    @property
    def _unseen(self) -> str:
        return f"{named(self.unseen)} (declare what matters with depends_on)"

    def _repr_html_(self) -> str:
        rows = [_html_row(step) for step in (self.workflow, *self.evaluators)]
        heads = ("step", "kept", "to do again", "new", "calls", "changed")
        text = escape(str(self)).replace("\n", "<br>")
        return f"<p>{text}</p>{table_html(heads, rows)}"

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
