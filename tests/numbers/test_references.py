"""The references hold against SciPy, statsmodels and published examples."""

import warnings

import pytest

from tests.numbers.references import (
    beta_rule,
    holm,
    kappa,
    mcnemar_mid_p,
    mcnemar_score_p,
    pass_at_k,
    pass_hat_k,
    tango,
    wilson,
)


def statsmodels(path):
    pytest.importorskip("statsmodels")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return __import__(f"statsmodels.stats.{path}", fromlist=["x"])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "n"), [(0, 5), (8, 10), (97, 100), (3, 3)])
def test_wilson_is_that_of_statsmodels(count, n):
    theirs = statsmodels("proportion").proportion_confint(count, n, method="wilson")
    assert wilson(count, n) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "n"), [(3, 10), (8, 10), (97, 100)])
def test_the_beta_rule_on_binary_data_is_jeffreys(count, n):
    theirs = statsmodels("proportion").proportion_confint(count, n, method="jeffreys")
    assert beta_rule([1] * count + [0] * (n - count)) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(
    ("better", "worse", "n"), [(1, 0, 44), (12, 2, 50), (0, 0, 20), (4, 9, 30)]
)
def test_tango_ends_where_the_score_statistic_at_the_constrained_maximum_is_z(better, worse, n):
    optimize = pytest.importorskip("scipy.optimize")
    special = pytest.importorskip("scipy.special")

    def statistic(delta):
        def unlikely(q):
            return -(
                special.xlogy(better, q + delta)
                + special.xlogy(worse, q)
                + special.xlogy(n - better - worse, 1 - 2 * q - delta)
            )

        least, most = max(0.0, -delta), (1 - delta) / 2
        q = optimize.minimize_scalar(
            unlikely, bounds=(least, most), method="bounded", options={"xatol": 1e-12}
        ).x
        return (better - worse - n * delta) / (n * (2 * q + delta * (1 - delta))) ** 0.5

    low, high = tango(better, worse, n)
    assert (statistic(low), statistic(high)) == pytest.approx((1.96, -1.96), abs=2e-3)


@pytest.mark.parametrize(("better", "worse"), [(9, 2), (5, 5), (0, 6), (20, 8), (14, 4)])
def test_tango_and_the_score_test_never_disagree(better, worse):
    low, high = tango(better, worse, 60)
    assert (mcnemar_score_p(better, worse) < 0.05) == (not low <= 0 <= high)


def test_the_small_formulas_are_those_of_the_textbooks():
    assert mcnemar_mid_p(1, 9) == pytest.approx(0.01171875)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert kappa(list("aaabbb"), list("aabbbb")) == pytest.approx(2 / 3)
    assert pass_at_k(3, 1, 2) == pytest.approx(2 / 3)
    assert pass_hat_k(3, 2, 2) == pytest.approx(1 / 3)
