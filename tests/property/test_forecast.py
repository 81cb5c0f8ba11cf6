"""A forecast is a range of amounts, whatever was recorded, and more is never cheaper."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from limpet.run.planning.forecast import Amounts, Limits
from limpet.run.planning.plan import Forecast
from limpet.run.planning.seen_cells import Missing, Seen, foreseen, learned_limits, read_seen

AMOUNTS = st.one_of(
    st.integers(-5, 10**6),
    st.floats(),
    st.sampled_from([None, True, "7", "nan", [], {}, 10**400, 1e308, 5e-324, -math.inf]),
)
FACTS = st.fixed_dictionaries(
    {"id": st.text(max_size=3) | st.integers(), "trial": AMOUNTS},
    optional={
        "seconds": AMOUNTS,
        "attempts": AMOUNTS,
        "usage": AMOUNTS | st.fixed_dictionaries({"total_tokens": AMOUNTS, "cost": AMOUNTS}),
        "models": AMOUNTS | st.dictionaries(st.just("m"), st.just({"prompt_tokens": 10**400})),
        "requested": AMOUNTS,
        "made_of": AMOUNTS | st.lists(st.text(), max_size=3),
    },
)
PRICES = {"m": {"prompt": 1.0}}


def missing(seen, cells, limits=None, fewest=None):
    calls = (cells if fewest is None else fewest, cells)
    return Missing("workflow", "e", seen, cells, calls, 0, limits or Limits(8, 8))


def assert_is_a_range(ends):
    assert ends is None or (0 <= ends.low <= ends.high and math.isfinite(ends.high))


@given(st.lists(FACTS, max_size=40), st.integers(1, 3000), st.sampled_from([None, PRICES]))
def test_hostile_records_give_a_range_or_nothing(facts, cells, prices):
    forecast = foreseen([missing(read_seen("this run", facts, prices), cells)], 600.0)
    for ends in (forecast.calls, forecast.tokens, forecast.cost, forecast.seconds):
        assert_is_a_range(ends)
    assert "nan" not in str(forecast)
    assert "inf" not in str(forecast)


@given(st.dictionaries(st.sampled_from(
    ["mean_cost", "rate", "per_minute", "in_flight", "window", "found", "idle_s", "steady_rate"]
), AMOUNTS), st.integers(1, 60))  # fmt: skip
@example({"in_flight": 1e308, "mean_cost": 1e-9}, 500)
@example({"window": 1e308, "found": True, "idle_s": 5e-324}, 5)
@example({"rate": 2.2250738585e-313}, 1)
def test_whatever_is_remembered_of_an_endpoint_gives_a_time_or_nothing(learned, cells):
    seen = amounts([1.0, 2.0, 3.0, 2.0, 1.0])
    limits = learned_limits(learned, 100)
    assert 1 <= limits.least <= limits.most <= 100
    assert_is_a_range(foreseen([missing(seen, cells, limits)], 600.0).seconds)


def amounts(values):
    known = Amounts(values)
    return Seen("this run", len(values), {"seconds": known, "tokens": known, "cost": known})


SOME = st.lists(st.floats(1e-3, 1e4), min_size=5, max_size=50)


@given(SOME, st.integers(1, 60), st.integers(1, 60))
@example([1.0, 2.0, 3.0, 2.0, 1.0], 400, 400)
def test_more_cells_are_never_cheaper(values, cells, more):
    few, many = (
        foreseen([missing(amounts(values), number)], 600.0) for number in (cells, cells + more)
    )
    assert few.cost.high <= many.cost.high * (1 + 1e-9)
    assert few.calls.high < many.calls.high


@given(SOME, st.integers(1, 60), st.integers(0, 60))
@example([1.0, 2.0, 3.0, 2.0, 1.0], 400, 399)
def test_what_may_be_kept_lowers_the_lower_end_alone(values, cells, kept):
    certain = foreseen([missing(amounts(values), cells)], 600.0)
    perhaps = foreseen([missing(amounts(values), cells, fewest=max(0, cells - kept))], 600.0)
    assert perhaps.cost.high == certain.cost.high
    assert perhaps.cost.low <= certain.cost.low * (1 + 1e-9)


@given(st.floats(1e-6, 1e6), st.integers(5, 50), st.integers(1, 200))
@example(1e-6, 5, 1000)
def test_equal_cells_are_foreseen_exactly(value, seen, cells):
    cost = foreseen([missing(amounts([value] * seen), cells)], 600.0).cost
    assert math.isclose(cost.low, value * cells, rel_tol=1e-6)
    assert math.isclose(cost.high, value * cells, rel_tol=1e-6)


def test_without_cells_the_words_say_so():
    forecast = foreseen([missing(Seen(), 7)])
    assert isinstance(forecast, Forecast)
    assert str(forecast) == (
        "tokens, cost and time unknown: fewer than 5 cells of workflow have run"
    )
    assert forecast.as_data()["from"] is None
