"""By how much do two sets of paired yes-or-no answers differ? Tango's score interval."""

import math
from typing import Any

import numpy as np
import scipy

from limpet.stats.samples import Floats

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
    Medicine 17:891.) z falls as D grows, so halving finds both ends.
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
    # Only where all pairs are won is a difference of 1 accepted, and halving just misses it.
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
    """Return the mid-p of McNemar's exact test: the binomial's, less half of what was seen.

    Fagerland, Lydersen and Laake 2013, BMC Medical Research Methodology 13:91.
    """
    n, fewer = won + lost, min(won, lost)
    if not n:
        return 1.0
    if won == lost:
        # The distribution is symmetric: all of it, less half of the middle.
        return 1 - float(_chance(n, fewer)) / 2
    return 2 * float(scipy.special.bdtr(fewer, n, 0.5)) - float(_chance(n, fewer))


def _chance(n: int, k: int) -> Any:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return np.exp(ways - n * np.log(2))
