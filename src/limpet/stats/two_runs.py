"""By how much do two runs of the same items differ, and could it be chance?"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from limpet.errors import ScoresError
from limpet.stats.intervals import fitted, moments, number_of_groups
from limpet.stats.results import Paired
from limpet.stats.rule import STUDENT, quantile, tail_of
from limpet.stats.samples import (
    Floats,
    Names,
    Range,
    Sample,
    Values,
    confidence,
    floats,
    limits,
    sample,
    scores,
)

# ---- By how much do two sets of paired yes-or-no answers differ? Tango's score interval. --------

_HALVINGS = 60


def tango(n: Any, won: Any, lost: Any, level: float) -> tuple[Floats, Floats]:
    """Return Tango's interval for (won - lost) / n: every difference his score test accepts.

    Args:
        n: Pairs.
        won: Pairs in which only the second is a yes.
        lost: Pairs in which only the first is a yes.
        level: The confidence, like 0.95.

    The test of a difference D: z = (won - lost - nD) / √(n(2q + D(1 - D))), q being the
    likeliest share of lost pairs given D: the larger root of 2nq² + Bq - lost·D(1 - D) = 0 with
    B = (2n - won + lost)D - won - lost. At D = 0 it is McNemar's. (Tango 1998, Statistics in
    Medicine 17:891.) z falls as D grows, so bisection finds both ends.
    """
    n, won, lost = (np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in (n, won, lost))
    n, won, lost = np.broadcast_arrays(n, won, lost)
    z = -scipy.special.ndtri((1 - level) / 2)
    return -_upper(n, lost, won, z), _upper(n, won, lost, z)


def _upper(n: Floats, won: Floats, lost: Floats, z: float) -> Floats:
    low, high = (won - lost) / n, np.ones_like(n)
    for _ in range(_HALVINGS):
        d = (low + high) / 2
        accepted = _distance(n, won, lost, d) <= z
        low, high = np.where(accepted, d, low), np.where(accepted, high, d)
    # A difference of 1 is accepted only if all pairs are won, and bisection just misses it.
    return np.where(won == n, 1.0, low)


def _distance(n: Floats, won: Floats, lost: Floats, d: Floats) -> Floats:
    b = (2 * n - won + lost) * d - won - lost
    free = d * (1 - d)
    q = (np.sqrt(np.maximum(b * b + 8 * n * lost * free, 0)) - b) / (4 * n)
    variance = np.maximum(n * (2 * q + free), 1e-300)
    return (n * d - won + lost) / np.sqrt(variance)


def mcnemar(won: Any, lost: Any) -> Floats:
    """Return p of McNemar's score test: z = (won - lost) / √(won + lost) (McNemar 1947)."""
    won, lost = np.asarray(won, dtype=np.float64), np.asarray(lost, dtype=np.float64)
    z = np.abs(won - lost) / np.sqrt(np.maximum(won + lost, 1))
    return np.asarray(2 * scipy.special.ndtr(-z))


def mid_p(won: int, lost: int) -> float:
    """Return the mid-p of McNemar's exact test: the binomial p less half of the observed point.

    Fagerland, Lydersen and Laake 2013, BMC Medical Research Methodology 13:91.
    """
    n, fewer = won + lost, min(won, lost)
    if not n:
        return 1.0
    if won == lost:
        # The distribution is symmetric: 1 less half of the middle.
        return 1 - float(_chance(n, fewer)) / 2
    return 2 * float(scipy.special.bdtr(fewer, n, 0.5)) - float(_chance(n, fewer))


def _chance(n: int, k: int) -> Any:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return np.exp(ways - n * np.log(2))


# ---- Several tests at once: which p values are still significant? -------------------------------


def holm(ps: Values) -> list[float]:
    """Return p values adjusted to keep the chance of any false alarm as low as for one test.

    For "which of these metrics moved". The i-th smallest of m becomes the largest of
    (m - j + 1)·p_j over j ≤ i (Holm 1979).
    """
    p = _checked(ps)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _in_order(steps, order)


def benjamini_hochberg(ps: Values) -> list[float]:
    """Return p values adjusted to keep the share of false alarms among the significant ones low.

    For slices of a dataset. The i-th smallest of m becomes the smallest of m/j·p_j over j ≥ i
    (Benjamini and Hochberg 1995).
    """
    p = _checked(ps)
    order = np.argsort(p, kind="stable")
    ratios = p[order] * len(p) / np.arange(1, len(p) + 1)
    steps = np.minimum.accumulate(ratios[::-1])[::-1]
    return _in_order(np.maximum(steps, p[order]), order)  # p·m/m may round to less than p


def _checked(ps: Values) -> Floats:
    p = floats(ps, "p values")
    if not ((p >= 0) & (p <= 1)).all():
        raise ScoresError("p values must be numbers from 0 to 1")
    return p


def _in_order(steps: Floats, order: np.typing.NDArray[np.intp]) -> list[float]:
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(one) for one in adjusted]


# ---- By how much do two runs of the same items differ, and could it be chance? ------------------

TANGO = "Tango"
# z of a test at 5% plus z of 80% power: 1.96 + 0.84.
SEEN = 2.80
_SAME = 1e-12  # differences of means this small are rounding errors


def paired(
    a: Values,
    b: Values,
    *,
    items: Names | None = None,
    groups: Names | None = None,
    range: Range = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Paired:
    """Compare two runs item by item; `delta` is the mean of b minus the mean of a.

    Yes or no with one trial: Tango's score interval, whose test is McNemar's. Otherwise rule R on
    (d + 1)/2 of the items' differences d, by groups without pseudo-groups: they would hide a real
    loss of 10 points in 8 groups of 25 items nine times out of ten. p is 1 - level of the interval
    that just touches 0, so the two never disagree. If all differences are equal and the range is
    unknown, the ends are infinite and p is NaN. Swapping a and b mirrors everything.

    Args:
        a: The scores of the first run.
        b: The scores of the second, in the same order of items and trials.
        items: The item of each pair, where items have several trials: they are averaged first.
        groups: The group of each pair, where items come in groups.
        range: The lowest and highest possible score; None: unbounded, with Student's t.
        level: The confidence.

    Raises:
        ScoresError: a and b differ in length, or the values cannot be used; see `interval`.
    """
    first, second = scores(a, range), scores(b, range)
    found = compare(first, second, items, groups, level, bounded=range is not None)
    return scaled(found, range)


def compare(
    first: Floats,
    second: Floats,
    items: Names | None,
    groups: Names | None,
    level: float,
    *,
    bounded: bool = True,
) -> Paired:
    """Compare scores in 0..1, or unbounded ones; see `paired`."""
    if len(first) != len(second):
        raise ScoresError(f"{len(first)} values against {len(second)}: they must be pairs")
    difference = sample(second - first, items, groups)
    if not bounded:
        size = float(max(np.abs(first).max(), np.abs(second).max()))
        return _student(difference, size, confidence(level))
    if difference.single and groups is None and _binary(first) and _binary(second):
        return _tango(difference, confidence(level))
    return _rule_r(difference, confidence(level))


def _binary(values: Floats) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _tango(difference: Sample, level: float) -> Paired:
    d = difference.means
    n, won, lost = len(d), int((d > 0).sum()), int((d < 0).sum())
    low, high = tango(n, won, lost, level)
    error = math.sqrt(max(won + lost - (won - lost) ** 2 / n, 0) / max(n - 1, 1) / n)
    p = float(mcnemar(won, lost))
    ends = (won - lost) / n, float(low[0]), float(high[0])
    return _paired(difference, ends, error, p, TANGO, level, mid_p(won, lost))


def _rule_r(difference: Sample, level: float) -> Paired:
    # One direction is computed and the other mirrored, so swapping is exact to the last digit. If
    # they cancel out, the first difference decides which.
    turned = (difference.means.sum() or _first_difference(difference.means)) < 0
    d = -difference.means if turned else difference.means
    fit, method = fitted(Sample((d + 1) / 2, difference.group_of, single=False), pseudo=False)
    low, high = (2 * float(one[0]) - 1 for one in fit.limits(level))
    delta = 0.0 if not d.sum() else float(d.mean())
    low, high = min(low, delta), max(high, delta)
    if not delta:
        high = max(high, -low)
        low = -high
    p = float(fit.p_value(0.5)[0]) if delta else 1.0
    ends = (-delta, -high, -low) if turned else (delta, low, high)
    return _paired(difference, ends, 2 * float(fit.error[0]), p, method, level)


def _first_difference(d: Floats) -> float:
    return float(next(iter(d[d != 0]), 0.0))


def _student(difference: Sample, size: float, level: float) -> Paired:
    delta, error, freedom = moments(difference, size)
    half = float(quantile(freedom, (1 - level) / 2)) * error
    # Without spread there is no interval, and no p.
    p = float(2 * tail_of(freedom, abs(delta) / error)) if math.isfinite(error) else math.nan
    method = STUDENT if difference.group_of is None else f"{STUDENT} by groups"
    return _paired(difference, (delta, delta - half, delta + half), error, p, method, level)


def _paired(
    difference: Sample,
    ends: tuple[float, float, float],
    error: float,
    p: float,
    method: str,
    level: float,
    mid: float | None = None,
) -> Paired:
    delta, low, high = ends
    better, same, worse = counts(difference.means)
    if not error > 0:
        # Equal runs have no spread, so the interval's width is used.
        error = (high - low) / 2 / float(quantile(math.inf, (1 - level) / 2))
    return Paired(
        delta=delta,
        low=low,
        high=high,
        p=p,
        mid_p=mid,
        method=method,
        n=len(difference.means),
        better=better,
        same=same,
        worse=worse,
        smallest_seen=SEEN * error,
        groups=number_of_groups(difference),
    )


def counts(d: Floats) -> tuple[int, int, int]:
    """Return how many items did better, the same and worse."""
    better, worse = int((d > _SAME).sum()), int((d < -_SAME).sum())
    return better, len(d) - better - worse, worse


def scaled(found: Paired, among: Range) -> Paired:
    """Return the differences in the scores' own range, clipped to its width."""
    if among is None:
        return found
    start, end = limits(among)
    scale = end - start
    return replace(
        found,
        delta=found.delta * scale,
        low=found.low * scale,
        high=found.high * scale,
        smallest_seen=min(found.smallest_seen, 1.0) * scale,
    )
