"""`limpet.stats`: the functions themselves, against the references, and what always holds."""

import importlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.numbers import references as ref
from tests.numbers.reading import about


@pytest.fixture(scope="module")
def stats():
    try:
        return importlib.import_module("limpet.stats")
    except ModuleNotFoundError:
        return None  # and each test fails, which says it better than an error of this fixture


# Twelfths: no rounding decides whether a score is exactly 0 or 1.
shares = st.integers(0, 12).map(lambda n: n / 12)
lists = st.lists(shares, min_size=2, max_size=30)
pairs = st.lists(st.tuples(shares, shares), min_size=2, max_size=30)
binary = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60)


def ends(found):
    return found.low, found.high


@given(values=lists)
def test_an_interval_is_inside_the_range_and_around_the_mean(stats, values):
    found = stats.interval(values)
    assert found.n == len(values)
    assert found.mean == about(sum(values) / len(values), 1e-9)
    if found.low is not None:
        assert 0 <= found.low <= found.mean + 1e-9
        assert found.mean - 1e-9 <= found.high <= 1
        assert not math.isnan(found.low + found.high)


@given(values=binary)
def test_yes_and_no_are_always_wilson(stats, values):
    assert ends(stats.interval(values)) == about(ref.wilson(sum(values), len(values)), 1e-6)


@given(values=lists)
def test_turning_the_scores_around_turns_the_interval_around(stats, values):
    there, back = stats.interval(values), stats.interval([1 - value for value in values])
    if there.low is not None:
        assert ends(back) == about((1 - there.high, 1 - there.low), 1e-6)


@given(values=lists)
def test_a_range_only_stretches(stats, values):
    plain = stats.interval(values)
    stars = stats.interval([1 + 4 * value for value in values], range=(1, 5))
    if plain.low is not None:
        assert ends(stars) == about((1 + 4 * plain.low, 1 + 4 * plain.high), 1e-6)


@given(both=pairs)
def test_swapping_mirrors(stats, both):
    a, b = zip(*both, strict=True)
    there, back = stats.paired(list(a), list(b)), stats.paired(list(b), list(a))
    assert back.delta == about(-there.delta, 1e-9)
    if there.low is not None:
        assert ends(back) == about((-there.high, -there.low), 1e-6)
        assert -1 <= there.low <= there.delta + 1e-9
        assert there.delta - 1e-9 <= there.high <= 1


@given(values=binary)
def test_two_equal_lists_differ_by_nothing_and_the_interval_knows_how_few_they_are(stats, values):
    found = stats.paired(values, values)
    assert found.delta == 0
    assert ends(found) == about(ref.tango(0, 0, len(values)), 1e-4)


@given(values=binary, failures=st.integers(0, 10))
def test_another_failure_never_narrows_the_bounds(stats, values, failures):
    def honest(count):
        worst, best = (
            stats.interval([*values, *[0.0] * count]),
            stats.interval([*values, *[1.0] * count]),
        )
        return worst.low, best.high

    (low, high), (wider_low, wider_high) = honest(failures), honest(failures + 1)
    assert wider_high - wider_low >= high - low - 1e-9


def test_items_say_which_trials_belong_together(stats):
    found = stats.interval([1, 1, 0, 0, 1, 0], items=["a", "a", "b", "b", "c", "c"])
    assert found.n == 3
    assert ends(found) == about(ref.beta_rule([1, 0, 0.5]))


NO_NUMBERS = {
    "nothing": [],
    "not a number": [0.5, float("nan")],
    "infinity": [0.5, float("inf")],
    "beyond the range": [0.5, 1.5],
    "a word": [0.5, "high"],
    "nothing among numbers": [0.5, None],
}


@pytest.mark.parametrize("values", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_what_has_no_interval_is_an_error_or_none_and_never_nan(stats, values):
    assert stats is not None
    try:
        found = stats.interval(values)
    except (ValueError, TypeError) as error:
        assert str(error)  # noqa: PT017 - either way out is right
    else:
        assert found.low is None
        assert found.high is None


def test_lists_of_two_lengths_cannot_be_paired(stats):
    assert stats is not None
    with pytest.raises(ValueError, match=r"2|3"):
        stats.paired([0.5, 0.5], [0.5, 0.5, 0.5])


def test_the_smaller_functions_are_those_of_the_literature(stats):
    assert stats.pass_at_k(3, 1, 2) == about(2 / 3)
    assert stats.pass_hat_k(3, 2, 2) == about(1 / 3)
