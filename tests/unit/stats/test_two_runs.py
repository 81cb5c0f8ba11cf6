"""Comparisons, failures, gates, trials, people: against references."""

import math

import numpy as np
import pytest
from imported_later import Later

from limpet import stats
from limpet.errors import ScoresError
from limpet.stats.two_runs import tango

optimize, reference = Later("scipy.optimize"), Later("scipy.stats")
contingency_tables = Later("statsmodels.stats.contingency_tables")
inter_rater = Later("statsmodels.stats.inter_rater")
multitest = Later("statsmodels.stats.multitest")


def runs(won, lost, both, neither):
    a = [0] * won + [1] * lost + [1] * both + [0] * neither
    b = [1] * won + [0] * lost + [1] * both + [0] * neither
    return a, b


def test_tango_s_interval_is_the_published_one():
    # Airway hyper-responsiveness, in Fagerland, Lydersen and Laake 2014: -0.517 to -0.026.
    low, high = tango(21, 1, 7, 0.95)
    assert (round(low[0], 3), round(high[0], 3)) == (-0.517, -0.026)


@pytest.mark.parametrize(
    ("n", "won", "lost"), [(20, 5, 1), (50, 0, 3), (200, 30, 30), (10, 10, 0), (100, 1, 0)]
)
def test_tango_s_interval_holds_what_his_score_test_accepts(n, won, lost):
    """The restricted likelihood maximised by a search instead of its formula."""

    def z(d):
        def unlikely(q):
            parts = [(won, q + d), (lost, q), (n - won - lost, 1 - d - 2 * q)]
            return -sum(k * math.log(max(p, 1e-300)) for k, p in parts if k)

        ends = max(0.0, -d), (1 - d) / 2
        q = optimize.minimize_scalar(
            unlikely, bounds=ends, method="bounded", options={"xatol": 1e-12}
        ).x
        return (won - lost - n * d) / math.sqrt(max(n * (2 * q + d - d * d), 1e-12))

    low, high = (float(one[0]) for one in tango(n, won, lost, 0.95))
    delta = (won - lost) / n
    assert low == pytest.approx(
        optimize.brentq(lambda d: z(d) - 1.959964, -0.9999, delta - 1e-9), abs=1e-4
    )
    if high < 1:
        top = optimize.brentq(lambda d: z(d) + 1.959964, delta + 1e-9, 0.9999)
        assert high == pytest.approx(top, abs=1e-4)
    else:
        assert won == n


@pytest.mark.parametrize(("won", "lost"), [(8, 2), (3, 9), (25, 14), (1, 0), (5, 5)])
def test_p_is_mcnemar_s_and_mid_p_the_exact_one_s(won, lost):
    found = stats.paired(*runs(won, lost, 30, 10))
    test = contingency_tables.mcnemar([[30, lost], [won, 10]], exact=False, correction=False)
    assert found.p == pytest.approx(test.pvalue)
    exact = contingency_tables.mcnemar([[30, lost], [won, 10]], exact=True).pvalue
    chance = reference.binom.pmf(won, won + lost, 0.5)
    assert found.mid_p == pytest.approx(1 - chance / 2 if won == lost else exact - chance)
    assert (found.better, found.same, found.worse) == (won, 40, lost)
    assert found.method == "Tango"


def test_the_smallest_difference_that_would_have_been_seen():
    a, b = runs(12, 8, 60, 20)
    d = np.subtract(b, a)
    assert stats.paired(a, b).smallest_seen == pytest.approx(2.8 * d.std(ddof=1) / 10)


def test_scores_without_a_range_are_compared_by_student_s_t():
    a, b = [1.0, 5, 2, 8, 4], [2.0, 9, 2, 11, 3]
    found = stats.paired(a, b, range=None)
    test = reference.ttest_rel(b, a)
    assert found.p == pytest.approx(test.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval()))


def test_trials_are_never_counted_as_items():
    a, b = [0, 0, 0, 0, 1, 1, 1, 1] * 2, [1, 1, 1, 1, 1, 1, 1, 1] * 2
    items = [*"aaaabbbb", *"ccccdddd"]
    found = stats.paired(a, b, items=items)
    assert (found.n, found.better, found.same) == (4, 2, 2)
    assert found.p > 0.05 > stats.paired(a, b).p


def test_a_range_scales_the_difference():
    a, b = [1, 3, 5, 2], [2, 5, 5, 3]
    found = stats.paired(a, b, range=(1, 5))
    unit = stats.paired([0, 0.5, 1, 0.25], [0.25, 1, 1, 0.5])
    assert (found.delta, found.low, found.high) == pytest.approx(
        (4 * unit.delta, 4 * unit.low, 4 * unit.high)
    )
    assert found.p == pytest.approx(unit.p)


def test_a_real_loss_in_a_few_groups_is_seen():
    """8 groups of 25, a loss of 10 points: pseudo-groups would hide it nine times of ten."""
    random = np.random.default_rng(5)
    groups, seen = np.repeat(np.arange(8), 25), 0
    for _ in range(100):
        a = random.random(200) < 0.9
        b = a & (random.random(200) > 0.11)
        seen += stats.paired(a, b, groups=groups).high < 0
    assert seen > 75


def test_pairs_must_be_pairs():
    with pytest.raises(ScoresError, match="2 values against 1: they must be pairs"):
        stats.paired([1, 0], [1])
    with pytest.raises(ScoresError, match="no item has a score in both runs"):
        stats.paired_bounds([1, None], [None, 1])


def test_failures_are_the_worst_at_one_end_and_the_best_at_the_other():
    found = stats.bounds([1] * 80 + [0] * 10, 10)
    assert found.mean == pytest.approx(8 / 9)
    assert found.low == pytest.approx(stats.proportion(80, 100).low)
    assert found.high == pytest.approx(stats.proportion(90, 100).high)
    assert (found.n, found.method) == (100, "Wilson, failures as bounds")


def test_a_failed_trial_belongs_to_its_item():
    values, items = [1, 1, 1, 0, 0.5, 1] * 10, [one // 2 for one in range(60)]
    none = stats.bounds(values, [], items=items)
    part = stats.bounds(values, [0], items=items)
    whole = stats.bounds(values, [30], items=items)
    assert (none.n, part.n, whole.n) == (30, 30, 31)
    assert whole.low < none.low
    assert none.low - 0.04 < part.low < none.low


def test_failures_in_known_groups_are_filled_in_there():
    values = [1, 1, 1, 0, 1, 1, 1] * 30
    groups = [place // 3 for place in range(210)]
    failed = [place * 2 for place in range(30)]
    found = stats.bounds(values, 30, groups=groups, failed_groups=failed)
    worst = stats.interval([*values, *[0] * 30], groups=[*groups, *failed])
    best = stats.interval([*values, *[1] * 30], groups=[*groups, *failed])
    assert found.mean == pytest.approx(6 / 7)
    assert (found.low, found.high) == pytest.approx((worst.low, best.high), abs=1e-3)
    assert (found.n, found.groups) == (240, 70)
    anywhere = stats.bounds(values, 30, groups=groups)
    assert anywhere.low < found.low - 0.03
    assert anywhere.high > found.high + 0.02


def test_a_group_of_nothing_but_failures_may_be_larger_than_all_others():
    found = stats.bounds([1] * 10, 5000, groups=[*range(5)] * 2, failed_groups=["x"] * 5000)
    assert found.low < 0.01
    assert found.high == pytest.approx(1)


def test_an_item_whose_trials_all_failed_is_one_failure_of_its_group():
    values, items = [1, 1, 0, 1] * 10, [place // 2 for place in range(40)]
    groups = [item // 2 for item in items]
    once = stats.bounds(values, ["x"], items=items, groups=groups, failed_groups=[3])
    twice = stats.bounds(values, ["x", "x"], items=items, groups=groups, failed_groups=[3, 3])
    assert once == twice
    assert once.n == 21


def test_the_group_of_a_failure_must_fit():
    with pytest.raises(ScoresError, match="failed_groups without groups"):
        stats.bounds([1, 0], 1, failed_groups=["a"])
    with pytest.raises(ScoresError, match="failed_groups: 1 for 2 failures; each needs one"):
        stats.bounds([1] * 5, 2, groups=range(5), failed_groups=["a"])
    with pytest.raises(ScoresError, match="trials of one item are in different groups"):
        stats.bounds([1] * 5, [0], items=range(5), groups=range(5), failed_groups=[1])
    with pytest.raises(ScoresError, match="trials of one item are in different groups"):
        stats.bounds([1] * 5, [7, 7], items=range(5), groups=range(5), failed_groups=[1, 2])


def test_bounds_need_a_range_and_a_score():
    with pytest.raises(ScoresError, match="no worst and no best"):
        stats.bounds([3, 4], 1, range=None)
    assert stats.bounds([3, 4], [], range=None) == stats.interval([3, 4], range=None)
    with pytest.raises(ScoresError, match="no values"):
        stats.bounds([], 5)
    with pytest.raises(ScoresError, match="failed=-1"):
        stats.bounds([1], -1)


def test_a_missing_value_is_the_worst_and_the_best_it_can_be():
    a, b = runs(10, 5, 60, 25)
    found = stats.paired_bounds([*a, 1, 0], [*b, None, None])
    worst, best = stats.paired([*a, 1, 0], [*b, 0, 0]), stats.paired([*a, 1, 0], [*b, 1, 1])
    assert (found.low, found.high) == (worst.low, best.high)
    assert (found.n, found.delta) == (100, 0.05)
    assert found.p >= max(worst.p, best.p)


@pytest.mark.parametrize(
    ("won", "lost", "margin", "verdict"),
    [(5, 5, 0.05, "not worse"), (0, 60, 0.05, "worse"), (3, 9, 0.02, "inconclusive")],
)
def test_a_gate_has_three_verdicts(won, lost, margin, verdict):
    found = stats.not_worse(*runs(won, lost, 150, 50), margin=margin)
    assert found.verdict == verdict
    assert (found.items_to_decide is not None) == (verdict == "inconclusive")


def test_the_items_that_a_gate_asks_for_decide_it_four_times_of_five():
    asked = stats.not_worse(*runs(10, 10, 60, 20), margin=0.05)
    assert asked.verdict == "inconclusive"
    random = np.random.default_rng(6)
    decided = 0
    for _ in range(200):
        won, lost, other = random.multinomial(asked.items_to_decide, [0.1, 0.1, 0.8])
        decided += stats.not_worse(*runs(won, lost, other, 0), margin=0.05).verdict == "not worse"
    assert 140 <= decided <= 180


def test_no_number_of_items_decides_a_gate_that_missing_scores_leave_open():
    a, b = runs(8, 8, 180, 60)
    few = stats.not_worse([*a, 1], [*b, None], margin=0.02)
    many = stats.not_worse([*a, *[1] * 40], [*b, *[None] * 40], margin=0.05)
    assert (few.verdict, many.verdict) == ("inconclusive", "inconclusive")
    assert few.items_to_decide > 257
    assert many.items_to_decide is None


def test_scores_without_a_range_have_a_gate_but_no_worst():
    a, b = [10.0, 12, 14, 9, 11], [10.5, 12, 15, 9.5, 11]
    assert stats.not_worse(a, b, margin=1, range=None).verdict == "not worse"
    assert stats.paired_bounds(a, b, range=None) == stats.paired(a, b, range=None)
    with pytest.raises(ScoresError, match="no worst and no best"):
        stats.not_worse(a, [*b[:4], None], margin=1, range=None)


def test_a_range_other_than_0_to_1_scales_bounds_and_gates():
    a, b = [1, 3, 5, 2, 4], [2, 5, 5, 3, None]
    found = stats.paired_bounds(a, b, range=(1, 5))
    unit = stats.paired_bounds([0, 0.5, 1, 0.25, 0.75], [0.25, 1, 1, 0.5, None])
    assert (found.delta, found.low, found.high) == pytest.approx(
        (4 * unit.delta, 4 * unit.low, 4 * unit.high)
    )
    assert stats.paired_bounds(a[:4], b[:4], range=(1, 5)) == stats.paired(
        a[:4], b[:4], range=(1, 5)
    )
    gate = stats.not_worse(a, b, margin=0.4, range=(1, 5))
    assert gate.delta == pytest.approx(found.delta)


def test_a_margin_is_not_negative():
    with pytest.raises(ScoresError, match="margin=-1"):
        stats.not_worse([1], [1], margin=-1)


def test_pass_at_k_and_pass_hat_k_are_counted():
    from itertools import combinations

    for n in range(1, 7):
        for c in range(n + 1):
            for k in range(1, n + 1):
                drawn = list(combinations([1] * c + [0] * (n - c), k))
                assert stats.pass_at_k([n], [c], k)[0] == pytest.approx(
                    np.mean([any(one) for one in drawn])
                )
                assert stats.pass_hat_k([n], [c], k)[0] == pytest.approx(
                    np.mean([all(one) for one in drawn])
                )
    with pytest.raises(ScoresError, match="k=4: must be from 1 to the number of trials, 3"):
        stats.pass_at_k([3], [1], 4)


def test_variance_is_split_into_trials_and_items():
    random = np.random.default_rng(7)
    items = np.repeat(np.arange(3000), 4)
    values = random.normal(0, 2, 3000)[items] + random.normal(0, 3, 12_000)
    within, between = stats.variance_parts(values, items)
    assert (within, between) == (pytest.approx(9, rel=0.05), pytest.approx(4, rel=0.1))
    assert stats.helps_more(values, items).more == "items"
    same = random.normal(0, 3, 12_000)
    assert stats.helps_more(same, items).more == "trials"
    with pytest.raises(ScoresError, match="no item has two trials"):
        stats.variance_parts([1, 2], [1, 2])
    with pytest.raises(ScoresError, match="one item"):
        stats.variance_parts([1, 2], [1, 1])


def test_these_questions_are_known_better_than_questions_like_these():
    random = np.random.default_rng(8)
    items = np.repeat(np.arange(100), 5)
    values = random.random(500) < random.beta(0.5, 0.5, 100)[items]
    like, these = stats.interval(values, items=items), stats.these_questions(values, items=items)
    assert these.mean == like.mean
    assert 2 * (these.high - these.low) < like.high - like.low
    with pytest.raises(ScoresError, match="no item has two trials"):
        stats.these_questions([1, 0], items="ab")


def test_p_values_are_adjusted_as_statsmodels_does():
    ps = [0.01, 0.04, 0.03, 0.005, 0.8, 0.03]
    assert stats.holm(ps) == pytest.approx(multitest.multipletests(ps, method="holm")[1])
    assert stats.benjamini_hochberg(ps) == pytest.approx(
        multitest.multipletests(ps, method="fdr_bh")[1]
    )
    assert (stats.holm([]), stats.benjamini_hochberg([])) == ([], [])
    with pytest.raises(ScoresError, match="from 0 to 1"):
        stats.holm([0.2, math.nan])


def test_kappa_is_that_of_statsmodels():
    table = np.array([[20, 5, 1], [3, 30, 4], [0, 6, 11]])
    a = np.repeat(["x", "y", "z"], table.sum(axis=1)).tolist()
    b = [label for row in table for label in np.repeat(["x", "y", "z"], row)]
    found, known = stats.kappa(a, b), inter_rater.cohens_kappa(table)
    assert (found.value, found.low, found.high) == pytest.approx(
        (known.kappa, known.kappa_low, known.kappa_upp)
    )
    assert stats.agreement(a, b).mean == pytest.approx(61 / 80)


def test_perfect_agreement_is_not_certain_and_one_label_says_nothing():
    found = stats.kappa([*"aabbabab"], [*"aabbabab"])
    assert (found.value, found.high) == (1, 1)
    assert 0 < found.low < 0.5
    with pytest.raises(ScoresError, match="every item the same label"):
        stats.kappa("aaa", "aaa")
    with pytest.raises(ScoresError, match="no labels"):
        stats.agreement([], [])


def test_a_judge_s_mean_is_corrected_by_a_few_labels():
    random = np.random.default_rng(9)
    people = random.random(5000) < 0.7
    # This judge lets half of the bad answers pass.
    judge = people | (random.random(5000) < 0.5)
    found = stats.ppi_mean(judge, judge[:300], people[:300])
    assert stats.interval(judge).low > 0.8
    assert found.low < 0.7 < found.high
    alone = stats.interval(people[:300])
    assert found.high - found.low < alone.high - alone.low
    assert 0 < found.lambda_ < 1.5


def test_a_judge_that_knows_nothing_does_no_harm():
    random = np.random.default_rng(10)
    people, judge = random.random(2000) < 0.7, random.random(2000) < 0.5
    found, alone = stats.ppi_mean(judge, judge[:200], people[:200]), stats.interval(people[:200])
    assert found.high - found.low < 1.1 * (alone.high - alone.low)
    assert abs(found.lambda_) < 0.2


@pytest.mark.parametrize("loss", [0.05, 0.1, 0.3, 0.35, 0.7])
def test_the_same_loss_of_a_few_items_is_not_certain_of_others(loss):
    a = np.linspace(0.7, 0.9, 4)
    found = stats.paired(a, a - loss)  # the differences have rounding errors
    assert found.high - found.low > 0.2
    assert stats.not_worse(a, a - loss, margin=loss + 0.01).verdict == "inconclusive"


@pytest.mark.parametrize("b", [[5, 7], [6, 8], [5.1, 7.1], [4, 6]])
def test_equal_differences_without_a_range_decide_nothing(b):
    found = stats.paired([5, 7], b, range=None)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert math.isnan(found.p)  # no interval, no p
    gate = stats.not_worse([5, 7], b, margin=0.5, range=None)
    assert (gate.verdict, gate.items_to_decide) == ("inconclusive", None)


def test_no_number_of_items_decides_a_loss_that_is_the_margin():
    a = np.linspace(0.7, 0.9, 11)
    noise = np.random.default_rng(1).normal(0, 0.05, 11)
    b = a - 0.1 + (noise - noise.mean())  # the loss is the margin, but for rounding errors
    gate = stats.not_worse(a, b, margin=0.1)
    assert (gate.verdict, gate.items_to_decide) == ("inconclusive", None)


@pytest.mark.parametrize(
    ("a", "b"),
    [("x", "y"), ("xy", "yx"), ("x" * 10, "y" * 10), ("x" * 10, "xy" * 5)],
    ids=["one item", "all differ", "other labels", "one label"],
)
def test_kappa_of_a_few_labels_is_not_certain(a, b):
    found = stats.kappa(a, b)
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert found.high - found.low > 0.2


def test_kappa_stays_between_minus_1_and_1():
    labels = ["x"] * 999 + ["y"]
    assert stats.kappa(labels, labels, level=0.99).low == -1
    many = range(20_000)
    assert stats.kappa(many, many).value == 1


@pytest.mark.parametrize("successes", [1.7, math.nan, "a"])
def test_successes_are_whole_numbers(successes):
    with pytest.raises(ScoresError, match="must be whole numbers"):
        stats.pass_at_k([5], [successes], 2)
    assert stats.pass_at_k([5.0], [2.0], 1) == 0.4
