"""How precise is a mean of bounded scores? Rule R, for one sample or many at once.

The problem: Student's t and the bootstrap ignore the range. If all of ten items pass, they claim
exactly 100%; at 98% right, they cover the truth in one case of five. Wilson's interval is right for
yes and no, with one trial each.

What we do, on item means x in 0..1 (`benchmarks/coverage.py` proves it by simulation):

- all x are 0 or 1: Wilson's score interval (Wilson 1927);
- some x is 0 or 1, or all are equal: a Bayesian bootstrap (Rubin 1981) with half a pseudo-item at
  each end of the range. Its mean E and variance V are exact:
  A = n + 1, E = (Σx + ½) / A, V = ((Σx² + ½) / A - E²) / (A + 1);
  its quantiles are those of the Beta distribution with that mean and variance,
  T = E(1 - E)/V - 1, Beta(ET, (1 - E)T). Of binary x this is Jeffreys' interval;
- otherwise: Wilson's with n' = m(1 - m)n/s² in place of n, and Student's t(n - 1) in place of z;
- by groups: Wilson's with n' = m(1 - m)/V, V being the cluster-robust variance CR2 of the mean
  (Bell and McCaffrey 2002), and t with Satterthwaite's degrees of freedom; where some x is 0 or 1,
  with half a pseudo-group at each end. Without it, coverage is 85% where one group of fifty fails;
- one item other than yes or no: the full range, since one value says nothing about others.

Still open: no interval includes a rare, large loss that has not occurred yet. With 3% of scores far
below the rest, fewer than 100 items give poor coverage.

`scipy.special` takes 0.2 s to import, twice as long as NumPy. SciPy imports it on first use.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy

from limpet.errors import ScoresError
from limpet.stats.samples import FEWEST_GROUPS, ROUNDING, Floats

WILSON = "Wilson"
BOOTSTRAP = "Bayesian bootstrap"
SCORE_T = "Wilson with t"
GROUPED = "Wilson by groups"
STUDENT = "Student's t"
WHOLE = "whole range"
_ROUNDING = 1e-24  # the variance of groups that are all alike


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit of means in 0..1; each field has one number per sample.

    Attributes:
        mean: The sample's mean.
        centre: The mean that Wilson's interval is built around.
        error: Its standard error.
        size: n of Wilson's interval; NaN where the Beta distribution is used.
        freedom: Degrees of freedom of t; infinite: z.
        alpha: First parameter of the Beta distribution; NaN where Wilson's is used.
        beta: Its second.
    """

    mean: Floats
    centre: Floats
    error: Floats
    size: Floats
    freedom: Floats
    alpha: Floats
    beta: Floats

    def limits(self, level: float) -> tuple[Floats, Floats]:
        """Return the lower and the upper ends."""
        tail = (1 - level) / 2
        low, high = wilson(self.centre, self.size, quantile(self.freedom, tail))
        bayesian = ~np.isnan(self.alpha)
        if bayesian.any():
            alpha, beta = self.alpha[bayesian], self.beta[bayesian]
            low[bayesian] = scipy.special.betaincinv(alpha, beta, tail)
            high[bayesian] = 1 - scipy.special.betaincinv(beta, alpha, tail)
        # The quantiles stop just short of a mean that is almost at an end.
        return np.minimum(low, self.mean), np.maximum(high, self.mean)

    def p_value(self, mean: float) -> Floats:
        """Return 1 - level of the interval that just touches this mean."""
        with np.errstate(invalid="ignore"):
            distance = np.abs(self.centre - mean) * np.sqrt(self.size / (mean * (1 - mean)))
            p = 2 * tail_of(self.freedom, distance)
            below = scipy.special.betainc(self.alpha, self.beta, mean)
            above = scipy.special.betainc(self.beta, self.alpha, 1 - mean)
        found = np.where(np.isnan(self.alpha), p, 2 * np.minimum(below, above))
        return np.minimum(found, 1.0)


def rule_r(means: Floats, *, single: bool = True) -> Fit:
    """Fit the means of items along the last axis.

    Args:
        means: Numbers in 0..1.
        single: Whether each is one trial: zeros and ones are then no and yes.
    """
    x = np.atleast_2d(means)
    n = x.shape[-1]
    mean = x.mean(axis=-1)
    squares = ((x - mean[:, None]) ** 2).sum(axis=-1)
    at_end = (x == 0) | (x == 1)
    binary = at_end.all(axis=-1) & single
    # Equal values may differ by a rounding error, and so may their variance.
    equal = np.ptp(x, axis=-1) <= ROUNDING
    squares = np.where(equal, 0.0, squares)
    return from_moments(n, mean, squares, binary=binary, ends=at_end.any(axis=-1) | equal)


def from_moments(n: Any, mean: Floats, squares: Floats, *, binary: Any, ends: Any) -> Fit:
    """Fit samples from n, the mean and the sum of squares around it."""
    n, mean, squares, binary, ends = np.broadcast_arrays(
        np.asarray(n, dtype=np.float64), mean, squares, binary, ends
    )
    lone = ~binary & (n == 1)
    bayesian = ~binary & ends & ~lone
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(binary, mean * (1 - mean), squares / (n - 1))
        size = np.where(binary, n, mean * (1 - mean) * n / variance)
        alpha, beta = bootstrap(n, n * mean, squares + n * mean**2)
    return Fit(
        mean,
        mean,
        np.sqrt(variance / n),
        np.where(bayesian, np.nan, np.where(lone, 0.0, size)),  # 0: Wilson's gives the full range
        np.where(binary, np.inf, np.maximum(n - 1, 1)),
        np.where(bayesian, alpha, np.nan),
        np.where(bayesian, beta, np.nan),
    )


def bootstrap(n: Any, total: Any, total_squares: Any) -> tuple[Floats, Floats]:
    """Return the Beta distribution of the bootstrap with half a pseudo-item at each end."""
    a = n + 1
    e = (total + 0.5) / a
    v = ((total_squares + 0.5) / a - e**2) / (a + 1)
    t = e * (1 - e) / v - 1
    return e * t, (1 - e) * t


def by_groups(totals: Floats, sizes: Floats, *, ends: Any = False) -> Fit:
    """Fit means of items that come in groups, from each group's total and number of items.

    With N items, n_g of them in group g, and e_g the sum of x - m over the group:
    V = Σ e_g² / (1 - n_g/N) / N². Under independence, Σ w_g e_g² has the degrees of freedom
    (tr B)² / tr B² with B = √w_g (n_g δ_gh - n_g n_h / N) √w_h (Bell and McCaffrey 2002).

    Args:
        totals: The sum of the items' means in each group, along the last axis.
        sizes: How many items each group has.
        ends: Whether an item's mean is 0 or 1. Then half a pseudo-group of average size is added at
            each end, as in `bootstrap`: ten groups without a fault do not prove perfection.
    """
    totals, sizes = np.broadcast_arrays(np.atleast_2d(totals), np.atleast_2d(sizes))
    count = sizes.shape[-1]
    if count < FEWEST_GROUPS:
        noun = "group" if count == 1 else "groups"
        raise ScoresError(
            f"{count} {noun}: an interval by groups needs at least {FEWEST_GROUPS}",
            hint="Omit the groups; the interval then holds for these groups only.",
        )
    n = sizes.sum(axis=-1)
    mean = totals.sum(axis=-1) / n
    pseudo = np.where(ends, n / count, 0.0)
    total = n + pseudo
    centre = (totals.sum(axis=-1) + pseudo / 2) / total
    excess = totals - sizes * centre[:, None]
    squares = (excess**2 / (1 - sizes / total[:, None])).sum(axis=-1)
    squares += pseudo**2 * (centre**2 + (1 - centre) ** 2) / 2
    variance = squares / total**2
    still = variance <= _ROUNDING
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(still, count, centre * (1 - centre) / variance)
    none = np.full_like(mean, np.nan)
    return Fit(mean, centre, np.sqrt(variance), size, _satterthwaite(sizes), none, none)


def _satterthwaite(sizes: Floats) -> Floats:
    share = sizes / sizes.sum(axis=-1)[:, None]
    weight = 1 / (1 - share)
    traced = (weight**2 * share**2 * (1 - 2 * share)).sum(axis=-1)
    return np.asarray(1 / (traced + (weight * share**2).sum(axis=-1) ** 2))


def wilson(mean: Any, n: Any, z: Any) -> tuple[Floats, Floats]:
    """Return Wilson's score interval: all p with |mean - p| ≤ z √(p(1 - p)/n)."""
    middle = mean * n + z * z / 2
    half = z * np.sqrt(mean * (1 - mean) * n + z * z / 4)
    low = np.where(mean == 0, 0.0, (middle - half) / (n + z * z))
    high = np.where(mean == 1, 1.0, (middle + half) / (n + z * z))
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def quantile(freedom: Any, tail: float) -> Floats:
    """Return the value that t exceeds with this probability; z for infinite degrees of freedom."""
    is_z, z = np.isinf(freedom), -NormalDist().inv_cdf(tail)
    if np.all(is_z):  # yes and no, as most scores are: no need to import scipy.special
        return np.full(np.shape(freedom), z)
    t = -scipy.special.stdtrit(np.where(is_z, 1.0, freedom), tail)
    return np.asarray(np.where(is_z, z, t))


def tail_of(freedom: Any, t: Any) -> Floats:
    """Return the probability that t is exceeded; the inverse of `quantile`."""
    finite = np.where(np.isinf(freedom), 1.0, freedom)
    found = np.where(np.isinf(freedom), scipy.special.ndtr(-t), scipy.special.stdtr(finite, -t))
    return np.asarray(found)
