"""By how much does one score differ between two runs?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limpet import stats
from limpet.errors import LimpetError, ScoresError
from limpet.run.comparing.pairs import Rows
from limpet.run.comparing.results import Bounds, GateResult, ScoreDifference, Verdict
from limpet.run.reading.score_table import Flags, Floats
from limpet.run.results.score_words import ScoreName
from limpet.text import one_line

SIGNIFICANT = 0.05
SAME = 1e-12  # differences of means this small are rounding errors


@dataclass(frozen=True, slots=True)
class PairedScores:
    """The values of one score in both runs: a row per item, a column per trial; NaN: none.

    Attributes:
        name: The score.
        at: The items, by their position among the pairs.
        base: The values of the base.
        new: The values of the new run.
        range: The lowest and the highest value; None: any number.
        higher_is_better: Whether a higher value is better.
        groups: The group of each item; None: no groups.
    """

    name: ScoreName
    at: Rows
    base: Floats
    new: Floats
    range: tuple[float, float] | None
    higher_is_better: bool
    groups: Rows | None = None

    def only(self, which: Flags) -> "PairedScores":
        """Return some of the items."""
        groups = None if self.groups is None else self.groups[which]
        return PairedScores(
            self.name,
            self.at[which],
            self.base[which],
            self.new[which],
            self.range,
            self.higher_is_better,
            groups,
        )

    @property
    def missing(self) -> Flags:
        """The pairs that lack a value."""
        return np.isnan(self.base) | np.isnan(self.new)

    def changes(self) -> Floats:
        """Return by how much the mean of each item changed; NaN: it has no complete pair."""
        complete = ~self.missing
        there = complete.sum(axis=1)
        with np.errstate(invalid="ignore"):
            found: Floats = np.where(complete, self.new - self.base, 0.0).sum(axis=1) / there
        found[np.abs(found) <= SAME] = 0.0
        return found


class _Flat:
    """The pairs as arguments for `limpet.stats`."""

    def __init__(self, scores: PairedScores) -> None:
        items, trials = scores.base.shape
        self.a, self.b = scores.base.ravel(), scores.new.ravel()
        self.items = None if trials == 1 else np.repeat(np.arange(items), trials)
        self.groups = None if scores.groups is None else np.repeat(scores.groups, trials)

    def only(self, which: Flags) -> dict[str, Any]:
        """Return the arguments for some of the pairs."""
        given = {"a": self.a, "b": self.b, "items": self.items, "groups": self.groups}
        return {name: None if one is None else one[which] for name, one in given.items()}

    def filled(self, of_base: float, of_new: float) -> dict[str, Any]:
        """Return the arguments for all pairs, with these values where one is missing."""
        whole = self.only(np.ones(len(self.a), np.bool_))
        whole["a"] = np.where(np.isnan(self.a), of_base, self.a)
        whole["b"] = np.where(np.isnan(self.b), of_new, self.b)
        return whole


def difference(scores: PairedScores, *, these_questions: bool = False) -> ScoreDifference | None:
    """Return by how much a score differs; None: no item has it in both runs.

    Raises:
        ScoresError: It cannot be computed, for example because there are too few groups.
    """
    flat, missing = _Flat(scores), scores.missing.ravel()
    if missing.all():
        return None
    found = _paired(flat.only(~missing), scores.range, these_questions=these_questions)
    base_mean, new_mean = _means(scores)
    bounds = None
    if missing.any() and scores.range is not None:
        bounds = _bounds(flat, scores.range, found, these_questions=these_questions)
    low, high, _ = bounds or (found.low, found.high, found.p)
    verdict = _verdict(found.delta, low, high, higher_is_better=scores.higher_is_better)
    counts = (found.better, found.same, found.worse)
    better, same, worse = counts if scores.higher_is_better else counts[::-1]
    return ScoreDifference(
        n=found.n,
        base_mean=base_mean,
        new_mean=new_mean,
        delta=found.delta,
        low=found.low,
        high=found.high,
        p=found.p,
        mid_p=found.mid_p,
        method=found.method,
        better=better,
        same=same,
        worse=worse,
        smallest_seen=found.smallest_seen,
        missing=int(missing.sum()),
        bounds=bounds,
        verdict=verdict,
        items_to_decide=to_decide(found.n, found.delta, found.smallest_seen, verdict),
    )


def _paired(
    given: dict[str, Any], limits: tuple[float, float] | None, *, these_questions: bool
) -> stats.Paired:
    if not these_questions:
        return stats.paired(given.pop("a"), given.pop("b"), range=limits, **given)
    if limits is None:
        raise ScoresError(
            "without a range, nothing can be said about these very questions",
            hint="say which values the score can have: range: [1, 5]",
        )
    a, b, items = given["a"], given["b"], given["items"]
    return stats.paired_these_questions(a, b, items=items, range=limits)


def _bounds(
    flat: _Flat, limits: tuple[float, float], found: stats.Paired, *, these_questions: bool
) -> Bounds:
    low, high = limits
    if these_questions:
        worst = _paired(flat.filled(high, low), limits, these_questions=True)
        best = _paired(flat.filled(low, high), limits, these_questions=True)
        p = 1.0 if worst.delta < 0 < best.delta else max(found.p, worst.p, best.p)
        return Bounds(min(found.low, worst.low), max(found.high, best.high), p)
    given: dict[str, Any] = {"items": flat.items, "groups": flat.groups}
    whole = stats.paired_bounds(flat.a, flat.b, range=limits, **given)
    return Bounds(whole.low, whole.high, whole.p)


def _means(scores: PairedScores) -> tuple[float, float]:
    """Return both means over the items with a complete pair, each averaged over its trials."""
    complete = ~scores.missing
    there = complete.sum(axis=1)
    some = there > 0
    base, new = (
        np.where(complete, one, 0.0)[some].sum(axis=1) / there[some]
        for one in (scores.base, scores.new)
    )
    return float(base.mean()), float(new.mean())


def _verdict(delta: float, low: float, high: float, *, higher_is_better: bool) -> Verdict:
    if math.isinf(low) and abs(delta) > SAME:
        return "not known"
    if low <= 0 <= high or math.isnan(low) or math.isnan(high):
        return "no difference seen"
    return "better" if (low > 0) == higher_is_better else "worse"


def to_decide(n: int, delta: float, smallest_seen: float, verdict: Verdict) -> int | None:
    """Return how many items would show a difference of this size four times out of five."""
    if verdict != "no difference seen" or not delta or not math.isfinite(smallest_seen):
        return None
    needed = n * (smallest_seen / abs(delta)) ** 2
    return math.ceil(needed) if n < needed < 2**53 else None


def gate(scores: PairedScores, run: str, margin: float) -> GateResult:
    """Return whether the new run is worse than the base by more than a margin.

    Raises:
        LimpetError: No item has the score in both runs.
    """
    flat, missing = _Flat(scores), scores.missing.ravel()
    if missing.all():
        raise LimpetError(f"no item has a score of {one_line(str(scores.name))} in both runs")
    given: dict[str, Any] = {"items": flat.items, "groups": flat.groups}
    # If lower is better, the base and the new run are swapped, and the result is swapped back.
    a, b = (flat.a, flat.b) if scores.higher_is_better else (flat.b, flat.a)
    why = ""
    if scores.range is None and missing.any():
        why = "scores are missing, and without a range they could be any number"
    elif scores.range is None and len(scores.at) == 1:
        why = "one item without a range decides nothing"
    if why:
        found = _undecided(flat.only(~missing) | {"a": a[~missing], "b": b[~missing]})
    else:
        found = stats.not_worse(a, b, margin=margin, range=scores.range, **given)
        if math.isinf(found.bound_low):
            same = "all items changed by the same amount"
            why = f"{same}, which without a range says nothing about others"
    ends = (found.delta, found.bound_low, found.bound_high)
    delta, low, high = ends if scores.higher_is_better else (-ends[0], -ends[2], -ends[1])
    return GateResult(
        str(scores.name), run, margin, found.verdict, delta, low, high, int(missing.sum()),
        found.items_to_decide, scores.higher_is_better, why,
    )  # fmt: skip


def _undecided(given: dict[str, Any]) -> stats.Gate:
    found = stats.paired(given.pop("a"), given.pop("b"), range=None, level=0.9, **given)
    return stats.Gate("inconclusive", found.delta, found.low, found.high, None)


def sliced(
    scores: PairedScores, codes: Rows, values: Sequence[Any], *, these_questions: bool
) -> list[tuple[Any, ScoreDifference | None]]:
    """Return by how much a score differs for each value of a field."""
    found: list[tuple[Any, ScoreDifference | None]] = []
    for code, value in enumerate(values):
        some = scores.only(codes[scores.at] == code)
        try:
            found.append((value, difference(some, these_questions=these_questions)))
        except ScoresError:  # too few groups in a slice
            found.append((value, None))
    return found
