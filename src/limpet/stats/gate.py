"""Does the second run pass: is it at most a margin worse than the first?"""

import math

import numpy as np
import scipy

from limpet.errors import ScoresError
from limpet.stats.failures import paired_bounds
from limpet.stats.results import Gate
from limpet.stats.samples import (
    ROUNDING,
    Floats,
    Names,
    Range,
    Values,
    listed,
    number,
    sample,
    scores,
)

_ONE_SIDED = 0.95
_POWER = 0.80
_MOST_ITEMS = 1e9


def not_worse(
    a: Values,
    b: Values,
    *,
    margin: float,
    items: Names | None = None,
    groups: Names | None = None,
    range: Range = (0, 1),  # noqa: A002 - the word of eval.yml
) -> Gate:
    """Test whether b is worse than a by more than the margin (non-inferiority).

    "not worse": the one-sided 95% lower bound of mean(b) - mean(a) is above -margin. "worse": the
    upper bound is below it. Otherwise: "inconclusive". The bounds are the ends of the 90% interval
    of `paired`; missing values (None, NaN) widen it, as in `paired_bounds`.

    Args:
        a: The scores of the first run.
        b: The scores of the second, in the same order of items and trials.
        margin: The loss that would not matter, in the scores' own unit.
        items: The item of each pair, where items have several trials.
        groups: The group of each pair, where items come in groups.
        range: The lowest and highest possible score; None: unbounded.

    Raises:
        ScoresError: The margin is negative, or the values cannot be used; see `paired_bounds`.
    """
    if not (math.isfinite(number(margin=margin)) and margin >= 0):
        raise ScoresError(f"margin={margin!r}: must be a finite number, 0 or more")
    a, b = listed(a, "values"), listed(b, "values")
    items = None if items is None else listed(items, "items")
    level = 2 * _ONE_SIDED - 1
    found = paired_bounds(a, b, items=items, groups=groups, range=range, level=level)
    delta, low, high = found.delta, found.low, found.high
    if low > -margin:
        return Gate("not worse", delta, low, high, None)
    if high < -margin:
        return Gate("worse", delta, low, high, None)
    worst = _differences(a, b, items, range, missing=(1, 0))
    best = _differences(a, b, items, range, missing=(0, 1))
    ends = (float(worst.mean()), low), (float(best.mean()), high)
    return Gate("inconclusive", delta, low, high, _to_decide(len(worst), *ends, -margin))


def _differences(
    a: Values, b: Values, items: Names | None, among: Range, *, missing: tuple[int, int]
) -> Floats:
    """Return each item's difference, with these ends of the range for missing values."""
    first, second = (
        np.nan_to_num(scores(values, among, missing=True), nan=end)
        for values, end in zip((a, b), missing, strict=True)
    )
    width = 1.0 if among is None else among[1] - among[0]
    return sample(second - first, items, None).means * width


def _to_decide(
    n: int, worst: tuple[float, float], best: tuple[float, float], line: float
) -> int | None:
    """Return how many items would put the bound on the right side of the line, 80% of the time.

    A bound is z.95 standard errors away; for 80% power, delta must be z.95 + z.80 of them away from
    the line; a standard error shrinks with √n. The share of missing values does not shrink: if they
    alone cross the line, no number of items decides it.

    Args:
        n: The number of items.
        worst: The difference with missing values as worst, and the lower bound.
        best: The difference with missing values as best, and the upper bound.
        line: The margin, below 0.
    """
    delta, bound = worst if worst[0] > line else best
    if worst[0] <= line <= best[0] or abs(delta - line) <= ROUNDING or not math.isfinite(bound):
        return None
    needed = 1 + float(scipy.special.ndtri(_POWER) / scipy.special.ndtri(_ONE_SIDED))
    times = (needed * (delta - bound) / (delta - line)) ** 2
    return max(math.ceil(n * times), n + 1) if n * times < _MOST_ITEMS else None
