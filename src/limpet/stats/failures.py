"""What do failed calls do to a mean? They widen its interval: all wrong, or all right.

A failure is never a score, and omitting it flatters: calls that fail would often have been wrong.
So the lower end takes each failure as the worst score, the upper end as the best (Manski 1990), and
the interval covers whatever the failures would have been.

One more failure must never narrow the bounds. Rule R alone does not guarantee that: an outlier that
falls reduces the spread. So the lower end is built from parts that only fall:

- items that only failed are zeros. Wilson's lower end falls with each; elsewhere it is the lower
  of R's without them and of the Bayesian bootstrap's with them, which falls with each;
- a failed trial of an item that has scores takes y from the item's mean: the end falls by the mean
  of y and by z times its standard error, at most √(Σy²)/n;
- by groups, items that only failed are zeros in their groups (see `lower_end`). A failed trial
  takes y as above, with the error of the groups' sums of y;
- if the failed groups are unknown, the end falls by the part D that they take from the mean,
  and by its error: D is a mean of numbers in 0..1, so its variance is at most D/n, times the
  groups' average size if they fail together.

Errors added up like this are never too small, whatever the dependencies.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from limpet.errors import ScoresError
from limpet.stats.intervals import fitted, in_range, interval, number_of_groups
from limpet.stats.results import Interval, Paired
from limpet.stats.rule import bootstrap, quantile, wilson
from limpet.stats.samples import (
    Floats,
    Ints,
    Names,
    Range,
    Sample,
    Values,
    confidence,
    limits,
    listed,
    numbered,
    sample,
    scores,
)
from limpet.stats.two_runs import compare, scaled

# ---- How low may a mean by groups be, when items of known groups failed? ------------------------
#
# The problem: with every failure as 0 in its group, the lower end of the interval by groups is
# right, but one more failure may raise it: an outlying group that falls reduces the spread. A
# failure must never make a claim sharper.
#
# Nor is 0 always the worst: a failure that was right, in the largest and best group, increases the
# spread, and the lower end falls.
#
# What we do: take the lowest end over all subsets of the failures, all wrong or all right, so more
# failures only add subsets. If K of them count, the mean is known, and the variance is a sum over
# the groups, each convex in the number of its failures that count. So its largest sum lies on the
# chords: take the steepest first until K are taken. (Part of a group may then count, which is a
# little too careful.) Degrees of freedom likewise. Unless one group is an extreme outlier, the
# lowest end is the one with all failures: the interval of the scores as if filled in by hand.
#
# With many failures, K runs over a grid. A lowest end between two grid points is missed by far less
# than is ever shown.

_FINEST = 25  # all K up to twice as many, then steps of K / 25
_AT_ONCE = 1_000_000


def lower_end(totals: Floats, sizes: Floats, failed: Ints, tail: float) -> float:
    """Return the lowest end in 0..1 over all subsets of the failures, all 0 or all 1.

    Args:
        totals: The sum of the items' means in each group; 0 for a group that only failed.
        sizes: How many items with scores each group has.
        failed: How many items of each group failed: at least one in total.
        tail: The probability that the mean is lower.
    """
    grid = _grid(int(failed.sum()))
    alike, many = np.unique(np.stack([totals, sizes, failed]), axis=1, return_counts=True)
    step = max(_AT_ONCE // len(many), 1)
    parts = (np.array(grid[at : at + step]) for at in range(0, len(grid), step))
    return min(
        float(_ends(part, alike, many, tail, fill).min()) for part in parts for fill in (0, 1)
    )


def _grid(most: int) -> list[int]:
    """Return the numbers of failures to try: points independent of `most`, and `most`."""
    found, k = [], 1
    while k < most:
        found.append(k)
        k += max(k // _FINEST, 1)
    return [*found, most]


def _ends(counted: Ints, alike: Floats, many: Ints, tail: float, fill: int) -> Floats:
    """Return the lower end of `by_groups`, for each K, with the K failures that make it lowest.

    Args:
        counted: Each K.
        alike: Totals, sizes and failures of groups that differ.
        many: How many groups there are of each.
        tail: The probability that the mean is lower.
        fill: What a failure counts as: 0 or 1.
    """
    totals, sizes, failed = alike
    k = counted[:, None]
    n = sizes @ many + k
    pseudo = n / many[sizes > 0].sum()  # 0 and 1 are ends of the range
    total = n + pseudo
    scored = totals @ many + k * fill
    centre = (scored + pseudo / 2) / total
    some = np.minimum(failed, k)
    most = _Most(k, some, many)
    squares = most(
        (totals - sizes * centre) ** 2 / (1 - sizes / total),
        (totals + some * fill - (sizes + some) * centre) ** 2 / (1 - (sizes + some) / total),
    )
    squares += pseudo**2 * (centre**2 + (1 - centre) ** 2) / 2
    before, after = sizes / n, (sizes + some) / n
    # Satterthwaite's, with share² for a term that is hardly smaller but not convex.
    weighted = most(before**2 / (1 - before), after**2 / (1 - after))
    freedom = np.maximum(1 / (most(before**2, after**2) + weighted**2), 1)  # it is never less
    size = centre * (1 - centre) * total**2 / squares
    low, _ = wilson(centre, size, quantile(freedom, tail))
    return np.asarray(np.minimum(low, scored / n))


class _Most:
    """The largest sum over groups, on the chords from none to some of each, with K in all."""

    def __init__(self, k: Ints, some: Floats, many: Ints) -> None:
        self._k = k
        self._many = many
        self._at = some.any(axis=0)
        self._some = some[:, self._at]
        self._room = self._some * many[self._at]

    def __call__(self, none: Floats, with_some: Floats) -> Floats:
        each = (with_some - none)[:, self._at] / self._some
        steepest = np.argsort(-each, axis=-1)
        room = np.take_along_axis(self._room, steepest, axis=-1)
        taken = np.clip(self._k - (room.cumsum(axis=-1) - room), 0, room)
        gains = (np.take_along_axis(each, steepest, axis=-1) * taken).sum(axis=-1)
        return np.asarray((none @ self._many + gains)[:, None])


# ---- What do failed calls do to a mean? ---------------------------------------------------------
#
# They widen its interval: all wrong, or all right.


def bounds(
    values: Values,
    failed: int | Iterable[Hashable],
    *,
    items: Names | None = None,
    groups: Names | None = None,
    failed_groups: Names | None = None,
    range: Range = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Interval:
    """Return the mean of the completed scores, and the interval with failures as worst and best.

    Args:
        values: The scores that completed.
        failed: How many items failed; or, where `items` are given, the item of each failed trial.
            An item with a score and a failed trial has that trial as worst and as best.
        items: The item of each value, where items have several trials.
        groups: The group of each value, where items come in groups.
        failed_groups: The group of each failure, None if unknown. Without them the bounds
            by groups are much wider: the failures may all be in the same few groups.
        range: The lowest and highest score possible.
        level: The confidence.

    Raises:
        ScoresError: Nothing completed, something failed and there is no range, or the values
            cannot be used; see `interval`.
    """
    names = None if items is None else listed(items, "items")
    kinds = None if groups is None else listed(groups, "groups")
    found = scores(values, range)
    taken = sample(found, names, kinds)
    lost = _failures(failed, names, kinds, failed_groups, taken)
    if range is None and not lost:
        return interval(found, items=names, groups=kinds, range=None, level=level)
    ends_of_range = limits(range)
    tail = (1 - confidence(level)) / 2
    low, method = _lower(taken, lost, tail)
    mirrored = Sample(1 - taken.means, taken.group_of, single=taken.single)
    high = 1 - _lower(mirrored, lost, tail)[0]
    ends = in_range(ends_of_range, float(taken.means.mean()), low, high)
    n = len(taken.means) + lost.new + int(lost.by_group.sum())
    return Interval(*ends, method, n, number_of_groups(taken))


@dataclass(frozen=True, slots=True)
class _Failures:
    """The failures.

    Attributes:
        share: The share of failed trials of each item that has scores.
        by_group: How many items only failed, by the number of their group; those of groups
            without scores come last. Empty without groups.
        new: How many more items only failed.
    """

    share: Floats
    by_group: Ints
    new: int

    def __bool__(self) -> bool:
        return bool(self.new or self.by_group.any() or self.share.any())


def _failures(
    failed: int | Iterable[Hashable],
    items: list[Hashable] | None,
    groups: list[Hashable] | None,
    failed_groups: Names | None,
    taken: Sample,
) -> _Failures:
    count = len(taken.means)
    if isinstance(failed, int | np.integer):
        if failed < 0:
            raise ScoresError(f"failed={failed}: must be 0 or more")
        names: list[Hashable] | None = None
        kinds = _failed_groups(failed_groups, groups, int(failed))
    else:
        names = listed(failed, "failed")
        numbered(names, len(names), "failed")
        kinds = _failed_groups(failed_groups, groups, len(names))
    share = np.zeros(count)
    if items is not None and names is not None:
        item_of = numbered(items, len(items), "items")
        numbers = dict(zip(items, item_of.tolist(), strict=True))
        known = [numbers[name] for name in names if name in numbers]
        lost = np.bincount(np.array(known, dtype=np.int64), minlength=count)
        share = lost / (np.bincount(item_of) + lost)
        own = dict(zip(items, groups, strict=True)) if groups is not None else {}
        one_each = dict(zip(names, kinds, strict=True))
        if any(
            kind is not None and own.get(name, one_each[name]) != kind
            for name, kind in zip(names, kinds, strict=True)
        ):
            raise ScoresError("trials of one item are in different groups")
        kinds = [kind for name, kind in one_each.items() if name not in numbers]
    where = {name: number for number, name in enumerate(dict.fromkeys(groups or ()))}
    at = [where.setdefault(kind, len(where)) for kind in kinds if kind is not None]
    by_group = np.bincount(np.array(at, dtype=np.int64), minlength=len(where))
    return _Failures(share, by_group, len(kinds) - len(at))


def _failed_groups(
    failed_groups: Names | None, groups: list[Hashable] | None, count: int
) -> list[Hashable]:
    """Return the group of each failure; None where unknown."""
    if failed_groups is None:
        return [None] * count
    if groups is None:
        raise ScoresError("failed_groups without groups: each value needs its group too")
    found = listed(failed_groups, "failed_groups")
    if len(found) != count:
        raise ScoresError(f"failed_groups: {len(found)} for {count} failures; each needs one")
    numbered(found, count, "failed_groups")
    return found


def _lower(taken: Sample, lost: _Failures, tail: float) -> tuple[float, str]:
    """Return the lower end in 0..1 with the failures as 0, and the method."""
    x, n = taken.means, len(taken.means)
    fit, method = fitted(taken)
    low = float(fit.limits(1 - 2 * tail)[0][0])
    if not lost:
        return low, method
    taken_away = x * lost.share
    if taken.group_of is not None:
        low = _lower_by_groups(taken, taken.group_of, lost, low, tail)
        t = float(quantile(fit.freedom, tail)[0])
        together = np.bincount(taken.group_of, taken_away).astype(np.float64)
        fall = float(x.mean()) * lost.new / (n + lost.new)
        low -= fall + t * math.sqrt(fall * (np.bincount(taken.group_of) ** 2).sum()) / n
    else:
        low = _with_zeros(x, lost.new, low, tail, binary=bool(np.isinf(fit.freedom[0])))
        t, together = float(quantile(math.inf, tail)), taken_away
    low -= float(taken_away.sum()) / n + t * math.sqrt(float((together**2).sum())) / n
    return max(low, 0.0), f"{method}, failures as bounds"


def _lower_by_groups(
    taken: Sample, group_of: Ints, lost: _Failures, low: float, tail: float
) -> float:
    """Return the lower end with the items that only failed, in known groups."""
    if not lost.by_group.any():
        return low
    count = len(lost.by_group)
    totals = np.bincount(group_of, taken.means, minlength=count).astype(np.float64)
    sizes = np.bincount(group_of, minlength=count).astype(np.float64)
    return min(low, lower_end(totals, sizes, lost.by_group, tail))


def _with_zeros(x: Floats, new: int, low: float, tail: float, *, binary: bool) -> float:
    total, n = float(x.sum()), len(x) + new
    if binary:
        return float(wilson(total / n, n, quantile(math.inf, tail))[0])
    if not new:
        return low
    alpha, beta = bootstrap(n, total, float((x**2).sum()))
    return min(low, float(scipy.special.betaincinv(alpha, beta, tail)))


def paired_bounds(
    a: Values,
    b: Values,
    *,
    items: Names | None = None,
    groups: Names | None = None,
    range: Range = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Paired:
    """Compare two runs with missing values: None or NaN in a or b.

    The lower end takes each missing value as the worst for b (highest in a, lowest in b), the upper
    end as the best; both enclose the interval of the complete pairs, which give `delta` and the
    counts. p is the largest that the missing values allow.

    Raises:
        ScoresError: No pair is complete, or the values cannot be used; see `paired`.
    """
    first, second = scores(a, range, missing=True), scores(b, range, missing=True)
    if len(first) != len(second):
        raise ScoresError(f"{len(first)} values against {len(second)}: they must be pairs")
    missing = np.isnan(first) | np.isnan(second)
    if not missing.any():
        known = compare(first, second, items, groups, level, bounded=range is not None)
        return scaled(known, range)
    limits(range)
    if missing.all():
        raise ScoresError("no item has a score in both runs: there is nothing to compare")
    there = np.flatnonzero(~missing)
    names = None if items is None else listed(items, "items")
    kinds = None if groups is None else listed(groups, "groups")
    for each, argument in ((names, "items"), (kinds, "groups")):
        if each is not None:
            numbered(each, len(first), argument)
    some = compare(
        first[there],
        second[there],
        None if names is None else [names[at] for at in there],
        None if kinds is None else [kinds[at] for at in there],
        level,
    )
    worst = compare(np.nan_to_num(first, nan=1), np.nan_to_num(second, nan=0), names, kinds, level)
    best = compare(np.nan_to_num(first, nan=0), np.nan_to_num(second, nan=1), names, kinds, level)
    all_three = (some, worst, best)
    low, high = min(one.low for one in all_three), max(one.high for one in all_three)
    split = min(one.delta for one in all_three) < 0 < max(one.delta for one in all_three)
    mids = [1.0 if split else one.mid_p for one in all_three if one.mid_p is not None]
    found = replace(
        some,
        low=low,
        high=high,
        p=1.0 if split else max(one.p for one in all_three),
        mid_p=max(mids, default=None),
        method=f"{some.method}, missing as bounds",
    )
    return scaled(found, range)
