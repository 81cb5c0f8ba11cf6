"""How precise is this mean, for questions like these?"""

import math
from collections.abc import Hashable, Mapping

import numpy as np

from limpet.errors import ScoresError
from limpet.stats.results import Interval
from limpet.stats.rule import (
    BOOTSTRAP,
    GROUPED,
    SCORE_T,
    STUDENT,
    WHOLE,
    WILSON,
    Fit,
    by_groups,
    quantile,
    rule_r,
    wilson,
)
from limpet.stats.samples import (
    ROUNDING,
    Floats,
    Names,
    Range,
    Sample,
    Values,
    confidence,
    limits,
    sample,
    scores,
    whole_number,
)


def interval(
    values: Values,
    *,
    items: Names | None = None,
    groups: Names | None = None,
    range: Range = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Interval:
    """Return the mean and its confidence interval over all questions like these.

    Rule R of `limpet.stats.rule`. A single value other than yes or no gives the full range.

    Args:
        values: The scores, booleans or numbers.
        items: The item of each value, where items have several trials: they are averaged first.
        groups: The group of each value, where items come in groups (questions on one document).
        range: The lowest and highest possible score; None: unbounded, with Student's t.
        level: The confidence.

    Raises:
        ScoresError: There are no values, one is not a finite number in the range, or there are
            fewer than 5 groups.
    """
    taken = sample(scores(values, range), items, groups)
    if range is None:
        return _student(taken, confidence(level))
    fit, method = fitted(taken)
    low, high = fit.limits(confidence(level))
    ends = in_range(range, float(fit.mean[0]), float(low[0]), float(high[0]))
    return Interval(*ends, method, len(taken.means), number_of_groups(taken))


def in_range(
    among: tuple[float, float], mean: float, low: float, high: float
) -> tuple[float, float, float]:
    """Map a mean and its interval from 0..1 to the scores' range, clipped to it."""
    start, end = limits(among)
    mean, low, high = (min(start + (end - start) * one, end) for one in (mean, low, high))
    return mean, min(low, mean), max(high, mean)


def fitted(taken: Sample, *, pseudo: bool = True) -> tuple[Fit, str]:
    """Fit one sample of item means in 0..1 and name the method.

    Args:
        taken: The sample.
        pseudo: Whether groups may be joined by a pseudo-group; see `by_groups`.
    """
    if taken.group_of is not None:
        ends = pseudo and bool(((taken.means == 0) | (taken.means == 1)).any())
        return by_groups(*_groups(taken), ends=ends), GROUPED
    fit = rule_r(taken.means, single=taken.single)
    if not np.isnan(fit.alpha[0]):
        return fit, BOOTSTRAP
    if np.isinf(fit.freedom[0]):
        return fit, WILSON
    return fit, WHOLE if len(taken.means) == 1 else SCORE_T


def _groups(taken: Sample) -> tuple[Floats, Floats]:
    group_of = taken.group_of
    assert group_of is not None
    sizes = np.bincount(group_of).astype(np.float64)
    return np.bincount(group_of, taken.means).astype(np.float64), sizes


def number_of_groups(taken: Sample) -> int | None:
    """Return the number of groups; None without groups."""
    return None if taken.group_of is None else int(taken.group_of.max()) + 1


def _student(taken: Sample, level: float) -> Interval:
    mean, error, freedom = moments(taken)
    half = float(quantile(freedom, (1 - level) / 2)) * error
    count = number_of_groups(taken)
    method = STUDENT if count is None else f"{STUDENT} by groups"
    return Interval(mean, mean - half, mean + half, method, len(taken.means), count)


def moments(taken: Sample, size: float | None = None) -> tuple[float, float, float]:
    """Return the mean of unbounded scores, its standard error and the degrees of freedom.

    Values without spread are no better than one value: any mean is possible.

    Args:
        taken: The scores, or differences of them.
        size: The largest score, which scales the rounding errors.
    """
    n = len(taken.means)
    mean = float(taken.means.mean())
    least = ROUNDING * (float(np.abs(taken.means).max()) if size is None else size)
    error, freedom = 0.0, max(n - 1.0, 1.0)
    if np.ptp(taken.means) > least and taken.group_of is not None:
        fit = by_groups(*_groups(taken))
        error, freedom = float(fit.error[0]), float(fit.freedom[0])
    elif np.ptp(taken.means) > least:
        error = float(taken.means.std(ddof=1)) / math.sqrt(n)
    return mean, error or math.inf, freedom


def proportion(k: int, n: int, *, level: float = 0.95) -> Interval:
    """Return Wilson's interval for k of n (Wilson 1927)."""
    if whole_number(n=n) < 1 or not 0 <= whole_number(k=k) <= n:
        raise ScoresError(f"{k} of {n}: n must be at least 1, and k from 0 to n")
    z = quantile(math.inf, (1 - confidence(level)) / 2)
    low, high = wilson(k / n, n, z)
    return Interval(k / n, min(float(low), k / n), max(float(high), k / n), WILSON, n)


def label_intervals(
    counts: Mapping[Hashable, int], *, level: float = 0.95
) -> dict[Hashable, Interval]:
    """Return Wilson's interval for each label's share."""
    if not isinstance(counts, Mapping):
        raise ScoresError(f"counts must map labels to their counts, not {counts!r:.80}")
    n = sum(whole_number(**{f"counts[{label!r:.40}]": one}) for label, one in counts.items())
    return {label: proportion(count, n, level=level) for label, count in counts.items()}
