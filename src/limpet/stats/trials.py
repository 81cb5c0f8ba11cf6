"""Several trials of each item: does one succeed, do all, and would more trials help?"""

import math
from typing import Any

import numpy as np

from limpet.errors import ScoresError
from limpet.stats.intervals import in_range
from limpet.stats.results import HelpsMore, Interval, Paired
from limpet.stats.rule import quantile, tail_of
from limpet.stats.samples import (
    Floats,
    Ints,
    Names,
    Values,
    confidence,
    limits,
    listed,
    numbered,
    scores,
    whole_number,
)
from limpet.stats.two_runs import SEEN, counts, scaled

# Trials need no new data: they win unless more items are clearly better.
_ABOUT_AS_GOOD = 1.1


def pass_at_k(n: Any, c: Any, k: int) -> Floats:
    """Return the probability that one of k trials succeeds, given c of n did, for each item.

    1 - C(n - c, k) / C(n, k), unbiased (Chen et al. 2021). The mean over items and its interval:
    `interval(pass_at_k(n, c, k))`.

    Args:
        n: The trials of each item.
        c: How many of them succeeded.
        k: How many trials are drawn; at most n.
    """
    trials, successes = _checked(n, c, k)
    return 1 - _all_from(trials, trials - successes, k)


def pass_hat_k(n: Any, c: Any, k: int) -> Floats:
    """Return the probability that all of k trials succeed, given c of n did, for each item.

    C(c, k) / C(n, k), unbiased (Yao et al. 2024, "pass^k"). The mean over items and its interval:
    `interval(pass_hat_k(n, c, k))`.

    Args:
        n: The trials of each item.
        c: How many of them succeeded.
        k: How many trials are drawn; at most n.
    """
    return _all_from(*_checked(n, c, k), k)


def _all_from(n: Ints, some: Ints, k: int) -> Floats:
    chance = np.ones(np.broadcast(n, some).shape)
    for drawn in range(k):
        chance = chance * np.maximum(some - drawn, 0) / (n - drawn)
    return chance


def _checked(n: Any, c: Any, k: int) -> tuple[Ints, Ints]:
    try:
        trials, successes = np.broadcast_arrays(n, c)
    except ValueError as error:
        raise ScoresError("trials and successes must be two numbers for each item") from error
    if not all(one.dtype.kind in "biuf" and (one % 1 == 0).all() for one in (trials, successes)):
        raise ScoresError("trials and successes must be whole numbers")
    trials, successes = trials.astype(np.int64), successes.astype(np.int64)
    if whole_number(k=k) < 1 or (trials < k).any():
        most = f", {trials.min()}" if trials.size else ""
        raise ScoresError(f"k={k}: must be from 1 to the number of trials{most}")
    if ((successes < 0) | (successes > trials)).any():
        raise ScoresError("an item has more successes than trials, or fewer than 0")
    return trials, successes


def variance_parts(values: Values, items: Names) -> tuple[float, float]:
    """Return the variance within items, from trial to trial, and between items.

    Within: the mean of the items' s². Between: s² of the items' means, less within/k, the trials'
    contribution to it; at least 0.

    Raises:
        ScoresError: There are fewer than two items, or no item has two trials.
    """
    within, between, _ = _parts(values, items)
    return within, between


def helps_more(values: Values, items: Names) -> HelpsMore:
    """Return whether more items or more trials would better narrow the mean's interval.

    The mean's variance is (between + within/k)/n. Twice the items halve it; twice the trials halve
    only within/k. So trials never help more; where they help about as much (the interval at most a
    tenth wider), they win, since they need no new data.
    """
    within, between, rate = _parts(values, items)
    now = between + within * rate
    trials = np.sqrt((between + within * rate / 2) / now) if now else np.sqrt(0.5)
    more = np.sqrt(0.5)
    return HelpsMore(
        more="trials" if trials <= _ABOUT_AS_GOOD * more else "items",
        items=float(more),
        trials=float(trials),
    )


def _parts(values: Values, items: Names) -> tuple[float, float, float]:
    """Return within, between and the mean of 1/k."""
    found = scores(values, None)
    means, variances, trials = per_item(found, items)
    if len(means) < 2:  # noqa: PLR2004
        raise ScoresError("one item: the variance between items needs at least two")
    within = float(variances[trials > 1].mean())
    rate = float((1 / trials).mean())
    return within, max(float(means.var(ddof=1)) - within * rate, 0.0), rate


def per_item(values: Floats, items: Names) -> tuple[Floats, Floats, Ints]:
    """Return each item's mean, the variance of its trials (0 if only one) and their number."""
    item_of = numbered(items, len(values), "items")
    trials = np.bincount(item_of)
    if trials.max() < 2:  # noqa: PLR2004
        raise ScoresError(
            "no item has two trials, so the variation of an answer is unknown",
            hint="Run the items with trials: 2 or more.",
        )
    means = np.bincount(item_of, values) / trials
    squares = np.bincount(item_of, (values - means[item_of]) ** 2)
    return means, squares / np.maximum(trials - 1, 1), trials


# ---- How precise is this mean for exactly these questions, if they were asked again? ------------
#
# The items are fixed; only their trials are a sample. With items of k trials and variance s², the
# mean over n items has the variance V = Σ s²/k / n². Items that never varied would make it 0, so
# half a squared unit, the variance of one item with one yes and one no, is spread over all of them:
# s² becomes (Σ s² + ½)/(n + 1). The interval is Student's, with all items' degrees of freedom
# Σ(k - 1), clipped to the range. Items with one trial get the others' mean variance.

METHOD = "t over trials"


def these_questions(
    values: Values,
    *,
    items: Names,
    range: tuple[float, float] = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Interval:
    """Return the mean and its interval for exactly these questions.

    Args:
        values: The scores of all trials.
        items: The item of each.
        range: The lowest and highest possible score.
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
    """Compare two runs on exactly these questions; see `these_questions` and `paired`.

    The trials of the two runs are independent, so their variances add up.
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
