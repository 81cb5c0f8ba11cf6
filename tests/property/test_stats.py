"""What holds of every number, whatever the scores."""

import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from limpet import stats

binary = st.lists(st.integers(0, 1), min_size=1, max_size=60)
bounded = st.lists(
    st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)), min_size=1, max_size=40
)
scores = st.one_of(binary, bounded)
pairs = st.one_of(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30),
    st.lists(
        st.tuples(st.sampled_from([0, 0.2, 0.5, 1]), st.sampled_from([0, 0.2, 0.5, 1])),
        min_size=1,
        max_size=30,
    ),
)
levels = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@st.composite
def trials(draw):
    """Return scores of up to 8 items with up to 4 trials each, and the item of each."""
    values, items = [], []
    score = draw(st.sampled_from([st.integers(0, 1), st.floats(0, 1)]))
    for item in range(draw(st.integers(1, 8))):
        for _ in range(draw(st.integers(1, 4))):
            values.append(draw(score))
            items.append(f"item {item}")
    return values, items


@st.composite
def grouped(draw, value=None):
    """Return scores of 5 to 9 groups of up to 6 items, and the group of each."""
    values, groups = [], []
    score = draw(st.sampled_from(value or [st.integers(0, 1), st.floats(0, 1)]))
    for group in range(draw(st.integers(5, 9))):
        for _ in range(draw(st.integers(1, 6))):
            values.append(draw(score))
            groups.append(group)
    return values, groups


def same(found, other):
    return other.mean == pytest.approx(found.mean, abs=1e-9) and (
        (other.low, other.high) == pytest.approx((found.low, found.high), abs=1e-6)
    )


@given(scores, levels)
def test_the_mean_is_inside_the_interval_and_that_inside_the_range(values, level):
    found = stats.interval(values, level=level)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.n == len(values)


@given(trials())
def test_so_it_is_with_trials(data):
    values, items = data
    found = stats.interval(values, items=items)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.n == len(set(items))


@given(grouped())
def test_so_it_is_with_groups(data):
    values, groups = data
    found = stats.interval(values, groups=groups)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.groups == len(set(groups))


@given(st.floats(0, 1), st.integers(1, 60))
def test_values_that_are_all_equal_claim_no_certainty(value, count):
    found = stats.interval([value] * count)
    assert found.high - found.low > 0.5 / (count + 1)


@given(scores, st.randoms())
def test_the_order_of_the_values_does_not_matter(values, random):
    shuffled = random.sample(values, len(values))
    assert same(stats.interval(values), stats.interval(shuffled))


@given(scores)
def test_the_worst_as_the_best_mirrors_the_interval(values):
    found = stats.interval(values)
    mirrored = stats.interval([1 - value for value in values])
    # 1 - 1e-17 is 1: a value so near an end is another one when mirrored.
    assume({value in {0, 1} for value in values} == {1 - value in {0, 1} for value in values})
    assume(all(value in {0, 1} or 1e-9 < value < 1 - 1e-9 for value in values))
    assert mirrored.low == pytest.approx(1 - found.high, abs=1e-6)
    assert mirrored.high == pytest.approx(1 - found.low, abs=1e-6)


@given(binary, st.lists(st.sampled_from([0.25, 0.5, 0.75]), max_size=10))
def test_a_range_is_only_a_unit(ones, others):
    values = [*ones, *others]
    found = stats.interval(values)
    wider = stats.interval([1 + 4 * value for value in values], range=(1, 5))
    assert (wider.mean, wider.low, wider.high) == pytest.approx(
        (1 + 4 * found.mean, 1 + 4 * found.low, 1 + 4 * found.high), abs=1e-9
    )
    assert wider.method == found.method


@given(scores)
def test_a_single_trial_of_each_item_is_as_good_as_no_items(values):
    assert stats.interval(values, items=range(len(values))) == stats.interval(values)


@given(scores, st.integers(0, 30))
def test_one_more_failure_never_narrows_the_bounds(values, failed):
    fewer, more = stats.bounds(values, failed), stats.bounds(values, failed + 1)
    assert 0 <= more.low <= fewer.low + 1e-12
    assert fewer.high - 1e-12 <= more.high <= 1
    assert more.mean == fewer.mean


@given(trials(), st.lists(st.integers(0, 11), max_size=12), st.integers(0, 11))
def test_nor_does_one_more_failed_trial(data, failed, one_more):
    values, items = data
    names = [f"item {item}" for item in failed]
    fewer = stats.bounds(values, names, items=items)
    more = stats.bounds(values, [*names, f"item {one_more}"], items=items)
    assert 0 <= more.low <= fewer.low + 1e-12
    assert fewer.high - 1e-12 <= more.high <= 1


@given(grouped(), st.integers(0, 30))
def test_nor_does_one_more_failure_among_groups(data, failed):
    values, groups = data
    fewer = stats.bounds(values, failed, groups=groups)
    more = stats.bounds(values, failed + 1, groups=groups)
    assert more.low <= fewer.low + 1e-12
    assert more.high >= fewer.high - 1e-12


@given(grouped(), st.lists(st.integers(0, 11), max_size=30), st.integers(0, 11))
def test_nor_does_one_more_failure_in_a_known_group(data, failed, one_more):
    values, groups = data
    fewer = stats.bounds(values, failed, groups=groups, failed_groups=failed)
    with_more = [*failed, one_more]
    more = stats.bounds(values, with_more, groups=groups, failed_groups=with_more)
    assert more.low <= fewer.low + 1e-12
    assert more.high >= fewer.high - 1e-12


@st.composite
def failures_in_groups(draw):
    """Return trials of items in groups, and failures of these items and others."""
    size = draw(st.integers(1, 4))
    item = st.integers(0, 8 * size - 1)
    begun = st.lists(item, min_size=1, max_size=20)
    items = [*(group * size for group in range(5)), *draw(begun)]
    values = [draw(st.sampled_from([0, 0.3, 1])) for _ in items]
    failed = st.tuples(item, st.booleans())
    return size, values, items, draw(st.lists(failed, min_size=1, max_size=20))


@given(failures_in_groups())
def test_nor_does_one_more_failed_trial_whether_its_group_is_known_or_not(data):
    size, values, items, failed = data

    def found(some):
        return stats.bounds(
            values,
            [item if known else -1 - item for item, known in some],
            items=items,
            groups=[item // size for item in items],
            failed_groups=[item // size if known else None for item, known in some],
        )

    fewer, more = found(failed[:-1]), found(failed)
    assert more.low <= fewer.low + 1e-12
    assert more.high >= fewer.high - 1e-12


@example(([0, 1, 1, 1, 1, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 2, 3, 4, 5, 6]), [1])  # right is worse
@given(grouped(), st.lists(st.integers(0, 11), min_size=1, max_size=30))
def test_bounds_by_groups_hold_the_interval_however_the_failures_are_filled(data, failed):
    values, groups = data
    found = stats.bounds(values, len(failed), groups=groups, failed_groups=failed)
    for fill in (0, 1):
        filled = stats.interval([*values, *[fill] * len(failed)], groups=[*groups, *failed])
        within = 0.01  # new groups make the pseudo-group of the filled scores smaller
        assert found.low <= filled.low + within
        assert found.high >= filled.high - within


@given(scores)
def test_without_failures_the_bounds_are_the_interval(values):
    assert same(stats.interval(values), stats.bounds(values, 0))


# they cancel out
@example([(0.2, 1), (1, 0), (0.2, 0), (0.2, 0), (0.2, 0.5), (0.2, 0.5)], 0.8)
@given(pairs, levels)
def test_swapping_two_runs_mirrors_the_comparison_exactly(both, level):
    a, b = zip(*both, strict=True)
    one, other = stats.paired(a, b, level=level), stats.paired(b, a, level=level)
    assert (other.delta, other.low, other.high) == (-one.delta, -one.high, -one.low)
    assert (other.p, other.mid_p, other.smallest_seen) == (one.p, one.mid_p, one.smallest_seen)
    assert (other.better, other.same, other.worse) == (one.worse, one.same, one.better)
    assert -1 <= one.low <= one.delta <= one.high <= 1


@given(pairs)
def test_p_and_the_interval_never_disagree(both):
    found = stats.paired(*zip(*both, strict=True))
    assume(not math.isclose(found.p, 0.05, rel_tol=1e-6))
    assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


@given(grouped([st.tuples(st.integers(0, 1), st.integers(0, 1))]))
def test_nor_do_they_by_groups(data):
    both, groups = data
    a, b = zip(*both, strict=True)
    found, swapped = stats.paired(a, b, groups=groups), stats.paired(b, a, groups=groups)
    assert (swapped.delta, swapped.low, swapped.high) == (-found.delta, -found.high, -found.low)
    assume(not math.isclose(found.p, 0.05, rel_tol=1e-6))
    assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


@given(pairs)
def test_a_run_against_itself_does_not_differ(both):
    a, _ = zip(*both, strict=True)
    found = stats.paired(a, a)
    assert (found.delta, found.p, found.same) == (0, 1, len(a))
    assert found.low < 0 < found.high
    assert 0 < found.smallest_seen <= 1


@given(pairs, st.data())
def test_missing_values_never_narrow_the_comparison(both, data):
    assume(len(both) > 1)
    gone = data.draw(st.sets(st.integers(1, len(both) - 1), min_size=1))
    side = data.draw(st.integers(0, 1))
    holes = [
        tuple(None if at in gone and which == side else one for which, one in enumerate(pair))
        for at, pair in enumerate(both)
    ]
    found = stats.paired_bounds(*zip(*holes, strict=True))
    complete = [pair for at, pair in enumerate(both) if at not in gone]
    there = stats.paired(*zip(*complete, strict=True))
    assert found.low <= there.low <= there.delta <= there.high <= found.high
    assert found.delta == there.delta
    assume(not math.isclose(found.p, 0.05, rel_tol=1e-6))
    assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


@given(trials())
def test_these_questions_stay_in_the_range(data):
    values, items = data
    assume(len(set(items)) < len(items))
    found = stats.these_questions(values, items=items)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    against = stats.paired_these_questions(values, values, items=items)
    assert against.delta == 0
    assert -1 <= against.low < 0 < against.high <= 1


@given(pairs, st.floats(0, 0.5))
def test_a_gate_says_what_its_bounds_say(both, margin):
    found = stats.not_worse(*zip(*both, strict=True), margin=margin)
    assert found.bound_low <= found.delta <= found.bound_high
    assert (found.verdict == "not worse") == (found.bound_low > -margin)
    assert (found.verdict == "worse") == (found.bound_high < -margin)
    if found.items_to_decide is not None:
        assert found.verdict == "inconclusive"
        assert found.items_to_decide > len(both)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_only_grow_and_keep_their_order(ps):
    for adjusted in (stats.holm(ps), stats.benjamini_hochberg(ps)):
        assert all(after >= before for before, after in zip(ps, adjusted, strict=True))
        order = sorted(range(len(ps)), key=ps.__getitem__)
        ranked = [adjusted[at] for at in order]
        assert ranked == sorted(ranked)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=3, max_size=40))
def test_a_corrected_mean_stays_in_the_range(labelled):
    judged, people = zip(*labelled, strict=True)
    found = stats.ppi_mean([*judged, *judged, 1], judged, people)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.low < found.high
