"""How far can this mean be trusted for these very questions, if they were only asked again?

The items are fixed; only their trials are a sample. With items of k trials and variance s², the
mean over n items has the variance V = Σ s²/k / n². Items that never varied would make it 0, so half
a squared unit, that of one item which said yes once and no once, is spread over all of them:
s² stands for (Σ s² + ½)/(n + 1). The interval is Student's, with all items' degrees of freedom
Σ(k - 1), and ends at the range. Items with one trial get the others' mean variance.
"""

import math

import numpy as np

from limpet.errors import ScoresError
from limpet.stats.intervals import in_range
from limpet.stats.results import Interval, Paired
from limpet.stats.rule import quantile, tail_of
from limpet.stats.samples import Floats, Names, Values, confidence, limits, listed, scores
from limpet.stats.trials import per_item
from limpet.stats.two_runs import SEEN, counts, scaled

METHOD = "t over trials"


def these_questions(
    values: Values,
    *,
    items: Names,
    range: tuple[float, float] = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Interval:
    """Return the mean and the interval of what these very questions would give on average.

    Args:
        values: The scores of all trials.
        items: The item of each.
        range: The lowest and highest score possible.
        level: The confidence.

    Raises:
        ScoresError: No item has two trials, or the values cannot be used; see `interval`.
    """
    means, variance, freedom = _trials(scores(values, range), items)
    half = float(quantile(freedom, (1 - confidence(level)) / 2)) * math.sqrt(variance)
    mean = float(means.mean())
    ends = in_range(range, mean, max(mean - half, 0.0), min(mean + half, 1.0))
    return Interval(*ends, METHOD, len(means))


def paired_these_questions(
    a: Values,
    b: Values,
    *,
    items: Names,
    range: tuple[float, float] = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Paired:
    """Compare two runs on these very questions; see `these_questions` and `paired`.

    The trials of the two runs are independent of each other, so their variances add up.
    """
    limits(range)
    names = listed(items, "items")
    first, second = scores(a, range), scores(b, range)
    if len(first) != len(second):
        raise ScoresError(f"{len(first)} values against {len(second)}: they must be pairs")
    (means_a, variance_a, freedom), (means_b, variance_b, _) = (
        _trials(first, names),
        _trials(second, names),
    )
    d = means_b - means_a
    delta, error = float(d.mean()), math.sqrt(variance_a + variance_b)
    freedom *= (variance_a + variance_b) ** 2 / (variance_a**2 + variance_b**2)
    half = float(quantile(freedom, (1 - confidence(level)) / 2)) * error
    better, same, worse = counts(d)
    found = Paired(
        delta=delta,
        low=max(delta - half, -1.0),
        high=min(delta + half, 1.0),
        p=float(2 * tail_of(freedom, abs(delta) / error)),
        mid_p=None,
        method=METHOD,
        n=len(d),
        better=better,
        same=same,
        worse=worse,
        smallest_seen=SEEN * error,
    )
    return scaled(found, range)


def _trials(values: Floats, items: Names) -> tuple[Floats, float, float]:
    """Return the items' means, the variance of their mean, and its degrees of freedom."""
    means, variances, trials = per_item(values, items)
    repeated = trials > 1
    within = (variances[repeated].sum() + 0.5) / (repeated.sum() + 1)
    variance = within * (1 / trials).mean() / len(means)
    return means, float(variance), float(np.sum(trials - 1))
