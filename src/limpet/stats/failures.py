"""What do calls that failed do to a mean? They are bounds: all of them wrong, or all of them right.

A failure is never a score, and leaving it out flatters: what fails is often what would have been
wrong. So the lower end is that of the scores with each failure as the worst, the upper end with
each as the best (Manski 1990), and the interval covers whatever the failures would have been.

One more failure must never narrow the bounds, and rule R alone would not promise that: a value that
stood out and falls makes the spread smaller. So the lower end is built of parts that only fall:

- items that only failed are zeros. Wilson's lower end falls with each; elsewhere it is the lower
  of R's without them and of the Bayesian bootstrap's with them, which falls with each;
- a failed trial of an item that has scores takes y from the item's mean: the end falls by the mean
  of y and by z times its standard error, at most √(Σy²)/n;
- by groups, the end falls by the part D that all failures take from the mean, and by its error: D
  is a mean of numbers in 0..1, so its variance is at most D/n, times the groups' average size if
  they fail together.

Errors that are added up like this are never too small, whatever depends on what.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace

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
    numbered,
    sample,
    scores,
)
from limpet.stats.two_runs import compare, scaled


def bounds(
    values: Values,
    failed: int | Iterable[Hashable],
    *,
    items: Names | None = None,
    groups: Names | None = None,
    range: Range = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Interval:
    """Return the mean of what completed and the interval with failures as worst and as best.

    Args:
        values: The scores that completed.
        failed: How many items failed; or, where `items` are given, the item of each failed trial.
            An item with a score and a failed trial has that trial as worst and as best.
        items: The item of each value, where items have several trials.
        groups: The group of each value, where items come in groups.
        range: The lowest and highest score possible.
        level: The confidence.

    Raises:
        ScoresError: Nothing completed, something failed and there is no range, or the values
            cannot be used; see `interval`.
    """
    names = None if items is None else list(items)
    found = scores(values, range)
    trials, lost, new = _failures(failed, names, len(found))
    if range is None and not new and not lost.any():
        return interval(found, items=names, groups=groups, range=None, level=level)
    ends_of_range = limits(range)
    taken = sample(found, names, groups)
    tail = (1 - confidence(level)) / 2
    low, method = _lower(taken, trials, lost, new, tail)
    mirrored = Sample(1 - taken.means, taken.group_of, single=taken.single)
    high = 1 - _lower(mirrored, trials, lost, new, tail)[0]
    ends = in_range(ends_of_range, float(taken.means.mean()), low, high)
    n = len(taken.means) + new
    return Interval(*ends, method, n, number_of_groups(taken))


def _failures(
    failed: int | Iterable[Hashable], items: list[Hashable] | None, count: int
) -> tuple[Ints, Ints, int]:
    """Return each item's completed and failed trials, and how many items have only failures."""
    if isinstance(failed, int | np.integer):
        if failed < 0:
            raise ScoresError(f"failed={failed}: must be 0 or more")
        names: list[Hashable] = []
        new = int(failed)
    else:
        names, new = list(failed), 0
    if items is None:
        return np.ones(count, np.int64), np.zeros(count, np.int64), new + len(names)
    item_of = numbered(items, count, "items")
    numbers = dict(zip(items, item_of.tolist(), strict=True))
    trials = np.bincount(item_of)
    known = [numbers[name] for name in names if name in numbers]
    lost = np.bincount(np.array(known, dtype=np.int64), minlength=len(trials))
    return trials, lost, new + len({name for name in names if name not in numbers})


def _lower(taken: Sample, trials: Ints, lost: Ints, new: int, tail: float) -> tuple[float, str]:
    """Return the lower end in 0..1 with the failures as 0, and the method."""
    x, n = taken.means, len(taken.means)
    fit, method = fitted(taken)
    low = float(fit.limits(1 - 2 * tail)[0][0])
    if not new and not lost.any():
        return low, method
    taken_away = x * (lost / (trials + lost))
    if taken.group_of is not None:
        fall = float(x.mean()) - float((x - taken_away).sum()) / (n + new)
        sizes = np.bincount(taken.group_of)
        error = float(quantile(fit.freedom, tail)[0]) * math.sqrt(fall * (sizes**2).sum()) / n
    else:
        low = _with_zeros(x, new, low, tail, binary=bool(np.isinf(fit.freedom[0])))
        fall = float(taken_away.sum()) / n
        error = float(quantile(math.inf, tail)) * math.sqrt(float((taken_away**2).sum())) / n
    return max(low - fall - error, 0.0), f"{method}, failures as bounds"


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
    """Compare two runs of which some values are missing: None or NaN in a or in b.

    The lower end has each missing value as the worst for b (highest in a, lowest in b), the upper
    end as the best, and both hold the interval of the complete pairs, from which `delta` and the
    counts are. p is the largest that the missing values can give.

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
    names, kinds = (None if one is None else list(one) for one in (items, groups))
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
