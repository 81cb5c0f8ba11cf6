"""What a comparison found."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

from limpet.text import count, one_line, table_html

Verdict = Literal["better", "worse", "no difference seen", "not known"]
GateVerdict = Literal["not worse", "worse", "inconclusive"]
MOST_IDS = 10
"""How many ids of left out items are named."""


class Bounds(NamedTuple):
    """The interval with each missing score as the worst and as the best.

    Attributes:
        low: The lower end.
        high: The upper end.
        p: The largest p that the missing scores can give.
    """

    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """By how much a score differs, over the items that have it in both runs.

    Attributes:
        n: The number of items.
        base_mean: The mean of the base over these items.
        new_mean: The mean of the new run over the same items.
        delta: `new_mean` minus `base_mean`.
        low: The lower end of its 95% interval.
        high: The upper end.
        p: How often a difference like this arises by chance; NaN: there is no interval.
        mid_p: The mid-p of McNemar's exact test; None unless it is yes or no in one trial.
        method: The method of the interval.
        better: The number of items on which the new run did better (a lower score may be better).
        same: The number on which it did as well.
        worse: The number on which it did worse.
        smallest_seen: The smallest difference that would be seen four times out of five.
        missing: The number of pairs in which a score is missing.
        bounds: The interval with missing scores as worst and as best; None: none are missing, or
            the score has no range.
        verdict: Whether the new run is better. "not known": there is a difference, and no interval.
        items_to_decide: About how many items would show a difference of this size; None: it is
            seen, or zero.
    """

    n: int
    base_mean: float
    new_mean: float
    delta: float
    low: float
    high: float
    p: float
    mid_p: float | None
    method: str
    better: int
    same: int
    worse: int
    smallest_seen: float
    missing: int
    bounds: Bounds | None
    verdict: Verdict
    items_to_decide: int | None

    @property
    def headline(self) -> Bounds:
        """The ends and the p to report: those of `bounds`, if there are any."""
        return self.bounds or Bounds(self.low, self.high, self.p)

    @property
    def why_not_known(self) -> str:
        """Why there is no interval and no p, although the runs differ; empty: there are."""
        if self.verdict != "not known":
            return ""
        all_items = (
            f"all {self.n:,} items changed by the same amount, which" if self.n > 1 else "one item"
        )
        return f"no interval: {all_items} says nothing about others without a range; declare it"


@dataclass(frozen=True, slots=True)
class Slice:
    """The items with one value of a field.

    Attributes:
        value: The value; None: an item does not have the field.
        difference: Their difference; None: no item has a score in both runs.
        p_bh: The p of the headline, corrected for the number of slices by Benjamini and Hochberg.
    """

    value: Any
    difference: ScoreDifference | None
    p_bh: float | None = None


@dataclass(frozen=True, slots=True)
class ScoreComparison(ScoreDifference):
    """By how much a score differs between two runs.

    Attributes:
        range: The lowest and the highest score; None: any number.
        higher_is_better: Whether a higher score is better.
        p_holm: The p of the headline, corrected for the number of scores and runs, by Holm.
        groups: How many groups the items form; None: they form none.
        slices: The differences for each value of a field, if one was named.
    """

    range: tuple[float, float] | None
    higher_is_better: bool
    p_holm: float
    groups: int | None = None
    slices: Sequence[Slice] = ()


@dataclass(frozen=True, slots=True)
class LabelComparison:
    """How often the label of a score changed. It has no number, and gets none.

    Attributes:
        n: The number of cells that have a label in both runs.
        base: How many of them have each label in the base.
        new: How many have it in the new run.
        changes: From which label to which, and how often, the most frequent first.
        missing: The number of cells that have a label in only one of them, or in none.
    """

    n: int
    base: Mapping[str, int]
    new: Mapping[str, int]
    changes: Mapping[tuple[str, str], int]
    missing: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not compared, or only widens an interval.

    Attributes:
        kind: "rows", "items", "evaluators", "trials" or "scores".
        name: The name, for example the evaluator's.
        why: The reason, in a sentence.
        n: How many items or trials it concerns; 0: all.
        ids: The ids of the first of these items.
        allow: The value of `allow` that compares it anyway; None: none does.
    """

    kind: Literal["rows", "items", "evaluators", "trials", "scores"]
    name: str
    why: str
    n: int = 0
    ids: Sequence[str] = ()
    allow: Literal["rows", "evaluators", "trials"] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one run answered, and how it was scored: a number or a label."""

    output: Any
    value: float | str


@dataclass(frozen=True, slots=True)
class Flip:
    """An item whose score changed.

    Attributes:
        score: The name of the score.
        id: The item's id.
        trial: The trial of the two answers: the one with the largest change.
        delta: The change of the item's mean; None: it has labels.
        is_worse: Whether the new run did worse.
        base: The base's answer.
        new: The new run's answer.
    """

    score: str
    id: str
    trial: int
    delta: float | None
    is_worse: bool
    base: Answer
    new: Answer


@dataclass(frozen=True, slots=True)
class Amounts:
    """Seconds or dollars of one run, over the answers that both runs have."""

    total: float
    mean: float
    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class AmountDifference:
    """By how much the latency or the cost of an answer differs.

    Attributes:
        n: The number of items.
        base: The amounts of the base.
        new: The amounts of the new run.
        delta: The difference of the means.
        low: The lower end of its 95% interval, by Student's t.
        high: The upper end.
    """

    n: int
    base: Amounts
    new: Amounts
    delta: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RunAbout:
    """One of the runs.

    Attributes:
        run: Its directory.
        items: The number of its items.
        trials: The number of trials.
        failed: The number of cells that the workflow failed.
        not_run: The number of cells that did not run.
        failed_scores: By evaluator, how many answers it failed to score.
        is_running: Whether it is running: its numbers are interim.
        notes: What else to know, a sentence each.
    """

    run: str
    items: int
    trials: int
    failed: int
    not_run: int
    failed_scores: Mapping[str, int]
    is_running: bool
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A run against the base.

    Attributes:
        about: The run.
        scores: The difference of each score.
        left_out: What is not compared, and why.
        notes: What was compared only because it was allowed, and what is not known.
        flips: The items that changed most, those that got worse first.
        cost: What the answers cost; None: not known.
        latency: How long they took; None: no item has an answer in both runs.
    """

    about: RunAbout
    scores: Mapping[str, ScoreComparison | LabelComparison]
    left_out: Sequence[LeftOut] = ()
    notes: Sequence[str] = ()
    flips: Sequence[Flip] = ()
    cost: AmountDifference | None = None
    latency: AmountDifference | None = None

    @property
    def run(self) -> str:
        """The run's directory."""
        return self.about.run


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether a run is worse than the base by more than a margin.

    Attributes:
        name: The score.
        run: The run.
        margin: The largest acceptable loss.
        verdict: "not worse", "worse" or "inconclusive".
        delta: The difference of the means.
        low: With 95% confidence, the difference is not below this.
        high: With 95% confidence, the difference is not above this.
        missing: The number of pairs in which a score is missing: they only widen the interval.
        items_to_decide: About how many items would decide it; None: it is decided, or no number
            would.
        higher_is_better: Whether a higher score is better.
        why: Why no items could decide it; empty: they could.
    """

    name: str
    run: str
    margin: float
    verdict: GateVerdict
    delta: float
    low: float
    high: float
    missing: int
    items_to_decide: int | None
    higher_is_better: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs against a base, item by item: what `limpet.compare` returns.

    Attributes:
        base: The base.
        new: The runs that were compared with it.
        gates: Whether they are worse than `fail_if_worse` allows.
        by: The field of the slices; None: there are none.
        group: The field of the groups, if one was named.
        these_questions: Whether the conclusion is about these very questions.
    """

    base: RunAbout
    new: Sequence[RunComparison]
    gates: Sequence[GateResult] = ()
    by: str | None = None
    group: str | None = None
    these_questions: bool = False

    @property
    def verdict(self) -> GateVerdict | None:
        """The verdict of all gates: the worst of them; None: there are none."""
        found = {gate.verdict for gate in self.gates}
        order: Sequence[GateVerdict] = ("worse", "inconclusive", "not worse")
        return next((verdict for verdict in order if verdict in found), None)

    def __repr__(self) -> str:
        words = [
            f"{one_line(name)} {_words(score)}"
            for run in self.new
            for name, score in run.scores.items()
        ]
        left = [one for run in self.new for one in run.left_out if one.kind == "evaluators"]
        names = ", ".join(dict.fromkeys(one_line(one.name) for one in left))
        parts = [", ".join(words), f"left out: {names}" if names else "", self.verdict or ""]
        runs = " and ".join(one_line(run.run) for run in self.new)
        said = "; ".join(filter(None, parts))
        return f"<Comparison of {runs} with {one_line(self.base.run)}: {said}>"

    def _repr_html_(self) -> str:

        return comparison_html(self)


def _words(score: ScoreComparison | LabelComparison) -> str:
    if isinstance(score, LabelComparison):
        changed = sum(score.changes.values())
        return f"{changed:,} of {score.n:,} labels changed"
    low, high, _ = score.headline
    ends = f"{low:+.3g} to {high:+.3g}" if math.isfinite(high - low) else "–"
    return f"{score.delta:+.3g} ({ends}, {score.verdict}, n={score.n:,})"


# ---- What does a comparison look like in a notebook? --------------------------------------------

_HEADS = ("score", "base", "new", "change", "95% interval", "verdict", "better / same / worse")


def comparison_html(comparison: Comparison) -> str:
    """Return a table for each new run, followed by what is left out."""
    found = ""
    for run in comparison.new:
        title = f"{one_line(run.run)} compared with {one_line(comparison.base.run)}"
        rows = [_row(name, score) for name, score in run.scores.items()]
        notes = [*run.about.notes, *run.notes, *(one.why for one in run.left_out)]
        found += f"<p>{escape(title)}</p>{table_html(_HEADS, rows)}"
        found += "".join(f"<p>{escape(one_line(note))}</p>" for note in notes)
    for gate in comparison.gates:
        words = f"{gate.name} in {gate.run}: {gate.verdict} (margin {gate.margin:g})"
        found += f"<p>{escape(one_line(words))}</p>"
    return found


def _row(name: str, score: ScoreComparison | LabelComparison) -> list[str]:
    if isinstance(score, LabelComparison):
        changed = f"{sum(score.changes.values()):,} of {count(score.n, 'label')} changed"
        return [escape(one_line(name)), changed, *[""] * (len(_HEADS) - 2)]
    low, high, _ = score.headline
    missing = f", {score.missing:,} missing" if score.missing else ""
    return [
        escape(one_line(name)),
        f"{score.base_mean:.3f}",
        f"{score.new_mean:.3f}",
        f"{score.delta:+.3f}",
        f"{low:+.3f} to {high:+.3f}" if math.isfinite(high - low) else "–",
        score.verdict,
        f"{score.better:,} / {score.same:,} / {score.worse:,}{missing}",
    ]
