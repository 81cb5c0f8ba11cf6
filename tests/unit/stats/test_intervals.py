"""The interval of a mean, against SciPy and statsmodels."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest
from imported_later import Later

from limpet import stats
from limpet.errors import ScoresError

proportion, reference = Later("statsmodels.stats.proportion"), Later("scipy.stats")


def test_a_value_within_a_millionth_of_the_range_is_its_end():
    assert stats.interval([1 + 9e-7, 0, -9e-7, 1]) == stats.interval([1, 0, 0, 1])
    assert stats.interval([5.000003, 1], range=(1, 5)) == stats.interval([5, 1], range=(1, 5))
    with pytest.raises(ScoresError, match="outside the range 0 to 1"):
        stats.interval([1 + 2e-6, 0])


@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (9, 10), (10, 10), (50, 100), (999, 1000)])
def test_yes_or_no_is_wilson_s_interval(k, n):
    found = stats.interval([1] * k + [0] * (n - k))
    low, high = proportion.proportion_confint(k, n, method="wilson")
    assert (found.mean, found.low, found.high) == pytest.approx((k / n, low, high), abs=1e-12)
    assert (found.method, found.n) == ("Wilson", n)
    assert stats.proportion(k, n) == found


def test_all_right_is_not_certain():
    found = stats.interval([True] * 10)
    assert (found.mean, found.high) == (1, 1)
    assert found.low == pytest.approx(0.7225, abs=1e-4)


@pytest.mark.parametrize("ones", [1, 5, 9])
def test_trials_that_are_all_or_nothing_are_jeffreys_interval(ones):
    values = [1, 1] * ones + [0, 0] * (10 - ones)
    found = stats.interval(values, items=np.repeat(np.arange(10), 2))
    low, high = proportion.proportion_confint(ones, 10, method="jeffreys")
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert (found.method, found.n) == ("Bayesian bootstrap", 10)


def test_the_bootstrap_has_the_mean_and_variance_of_the_real_one():
    from limpet.stats.rule import bootstrap

    x = np.array([0, 0.3, 0.5, 0.9, 1, 1])
    random = np.random.default_rng(1)
    weights = random.dirichlet([*[1.0] * len(x), 0.5, 0.5], 400_000)
    drawn = weights @ np.array([*x, 0, 1])
    alpha, beta = bootstrap(len(x), x.sum(), (x**2).sum())
    assert alpha / (alpha + beta) == pytest.approx(drawn.mean(), abs=1e-3)
    found = stats.interval(x, items=range(len(x)))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.01)


def test_scores_far_from_the_ends_have_about_student_s_interval():
    x = np.random.default_rng(1).uniform(0.4, 0.6, 200)
    found = stats.interval(x)
    low, high = reference.t.interval(0.95, 199, x.mean(), x.std(ddof=1) / math.sqrt(200))
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_scores_without_a_range_have_student_s_interval():
    x = [3.0, 14.0, 15.0, 92.0, 65.0]
    found = stats.interval(x, range=None, level=0.9)
    low, high = reference.t.interval(0.9, 4, np.mean(x), reference.sem(x))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.method == "Student's t"


def test_trials_are_averaged_before_anything_else():
    items = ["a", "b", "a", "b", "c"]
    found = stats.interval([0.2, 0.9, 0.4, 0.5, 0.6], items=items)
    means = stats.interval([0.3, 0.7, 0.6])
    assert (found.mean, found.low, found.high, found.n) == pytest.approx(
        (means.mean, means.low, means.high, 3)
    )


def test_groups_of_one_item_are_about_student_s_interval():
    x = np.random.default_rng(2).uniform(0.4, 0.6, 100)
    found = stats.interval(x, groups=range(100))
    low, high = reference.t.interval(0.95, 99, x.mean(), x.std(ddof=1) / 10)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    assert (found.n, found.groups) == (100, 100)


def test_the_variance_by_groups_is_cr2_with_its_degrees_of_freedom():
    """The definition by matrices, as in Pustejovsky and Tipton 2018."""
    from limpet.stats.rule import by_groups

    sizes = [1, 4, 7, 2, 11, 5]
    x = np.random.default_rng(3).uniform(0.2, 0.8, sum(sizes))
    of = np.repeat(np.arange(6), sizes)
    n = len(x)
    hat = np.full((n, n), 1 / n)
    columns = []
    for group in range(6):
        mine = np.flatnonzero(of == group)
        values, vectors = np.linalg.eigh(np.eye(len(mine)) - hat[np.ix_(mine, mine)])
        adjust = vectors @ np.diag(values**-0.5) @ vectors.T
        columns.append((np.eye(n) - hat)[:, mine] @ adjust @ np.ones(len(mine)) / n)
    columns = np.array(columns)
    variance = ((columns @ x) ** 2).sum()
    cross = columns @ columns.T
    freedom = np.trace(cross) ** 2 / (cross**2).sum()
    fit = by_groups(np.bincount(of, x), np.array(sizes, dtype=float))
    assert fit.error[0] ** 2 == pytest.approx(variance)
    assert fit.freedom[0] == pytest.approx(freedom)


def test_items_of_one_group_widen_the_interval():
    values = [1] * 40 + [0] * 10
    alone = stats.interval(values)
    together = stats.interval(values, groups=np.repeat(np.arange(10), 5))
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_one_value_is_told_honestly():
    assert stats.interval([1]).low == pytest.approx(
        proportion.proportion_confint(1, 1, method="wilson")[0]
    )
    lone = stats.interval([0.7])
    assert (lone.low, lone.high, lone.method) == (0, 1, "whole range")
    unbounded = stats.interval([7], range=None)
    assert (unbounded.low, unbounded.high) == (-math.inf, math.inf)


def test_values_that_are_all_equal_are_not_certain_either():
    few, many = stats.interval([3] * 10, range=(1, 5)), stats.interval([3] * 1000, range=(1, 5))
    assert few.low < 2.7 < 3.3 < few.high
    assert 2.99 < many.low < 3 < many.high < 3.01


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ([], {}, "no values"),
        ([0.5, math.nan], {}, "value 1 is nan"),
        ([math.inf], {"range": None}, "value 0 is inf"),
        ([0.5, 3], {}, "value 1 is 3: outside the range 0 to 1"),
        ([1, None], {}, "must be numbers, not None"),
        ([1, "good"], {}, "must be numbers, not 'good'"),
        ([[1], [0]], {}, "must be numbers"),
        ([1, 0], {"items": ["a"]}, "items: 1 for 2 values"),
        ([1, 0, 1, 1], {"groups": "abab"}, "2 groups: an interval by groups needs at least 5"),
        ([1, 0], {"items": "aa", "groups": "ab"}, "trials of one item are in different groups"),
        ([1, 0], {"range": (1, 0)}, "range=(1, 0): must be two finite numbers"),
        ([1, 0], {"level": 95}, "level=95: must be between 0 and 1"),
    ],
)
def test_what_cannot_be_summed_up_is_a_clear_error(values, options, words):
    with pytest.raises(ScoresError) as caught:
        stats.interval(values, **options)
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_each_label_has_its_interval():
    found = stats.label_intervals({"yes": 3, "no": 5, "unclear": 0})
    low, high = proportion.proportion_confint(3, 8, method="wilson")
    assert (found["yes"].mean, found["yes"].low) == pytest.approx((3 / 8, low))
    assert found["yes"].high == pytest.approx(high)
    assert found["unclear"].low == 0 < found["unclear"].high
    with pytest.raises(ScoresError, match="0 of 0"):
        stats.label_intervals({"yes": 0})


def test_the_results_of_stats_can_be_had_without_numpy():
    script = (
        "import sys, limpet; limpet.stats.Interval; from limpet.stats import Gate;"
        "print('numpy' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"


def test_all_names_exactly_what_can_be_had():
    assert stats.__all__ == sorted(stats.__all__, key=lambda name: (not name[0].isupper(), name))
    assert all(callable(getattr(stats, name)) for name in stats.__all__)
    assert dir(stats) == stats.__all__
    with pytest.raises(AttributeError, match="no attribute 'average'"):
        _ = stats.average


@pytest.mark.parametrize(
    "values",
    [[0.1 + 0.2, 0.3], [0.7, 0.1 * 7], [0.8 - 0.5, 0.9 - 0.6, 0.7 - 0.4]],
)
def test_values_that_differ_by_a_rounding_error_are_equal(values):
    one = stats.interval(values)
    equal = stats.interval([values[0]] * len(values))
    assert (one.low, one.high) == pytest.approx((equal.low, equal.high))
    assert one.high - one.low > 0.3


@pytest.mark.parametrize("values", [[5], [5, 5, 5], [5.1 + 0.2, 5.3], [0, 0], [0, 5e-324]])
def test_scores_without_a_range_and_a_spread_say_nothing_of_others(values):
    found = stats.interval(values, range=None)
    assert (found.low, found.high) == (-math.inf, math.inf)
    by_groups = stats.interval(values * 5, range=None, groups=[*range(5)] * len(values))
    assert by_groups.low == -math.inf


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ([1e308, 1e308], {"range": None}, "value 0 is 1e+308: too large"),
        ([10**400, 1], {"range": None}, "too large"),
        ([1, 2], {"range": (-1e308, 1e308)}, "must be two finite numbers"),
        ([1, 0], {"items": [math.nan, math.nan]}, "items: one is NaN"),
        ([1, 0], {"groups": np.array([math.nan, 1])}, "groups: one is NaN"),
    ],
)
def test_what_would_give_a_number_that_means_nothing_is_refused(values, options, words):
    with pytest.raises(ScoresError, match=re.escape(words)):
        stats.interval(values, **options)


def test_whole_numbers_may_be_of_any_size():
    assert stats.interval([2**70, 0], range=None).mean == 2**69
