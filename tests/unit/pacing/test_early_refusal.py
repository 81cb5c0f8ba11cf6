"""A refusal among the first calls measures nothing: it may cost seconds, and no more."""

import asyncio
import math

import pytest
import virtual_time

import limpet
from limpet import AsyncExecutor
from limpet.pacing.estimates import Ceiling
from limpet.pacing.known_limits import Suspicion

REFUSAL_S = 0.01


def now():
    return asyncio.get_running_loop().time()


def run(fn, count):
    """Return the virtual seconds that these calls take; all succeed."""

    async def main():
        executor = AsyncExecutor(fn, "auto", exit_on_error=False, termination_signal=None)
        outputs, _ = await executor.execute(range(count))
        assert outputs == list(range(count))
        return now()

    return virtual_time.run(main())


def seconds(refused, *, calls=100, call_s=0.01, retry_after=None):
    """Return how long a run takes in which only the n-th calls are refused."""
    made = 0

    async def fn(x):
        nonlocal made
        made += 1
        if made in refused:
            await asyncio.sleep(REFUSAL_S)
            raise limpet.RateLimitError("not now", retry_after=retry_after)
        await asyncio.sleep(call_s)
        return x

    return run(fn, calls)


@pytest.mark.quick(5)
@pytest.mark.parametrize("nth", range(1, 21))
def test_one_refusal_among_the_first_calls_costs_only_seconds(nth):
    assert seconds({nth}) < 5
    assert seconds({nth}, retry_after=1) < 5
    assert seconds({nth}, calls=1000) < 10
    assert seconds({nth}, call_s=1.0) < 7  # 4 s without any


@pytest.mark.quick(4)
@pytest.mark.parametrize("nth", [1, 2, 5, 8, 12, 16, 17, 18])
def test_with_long_calls_too(nth):
    assert seconds({nth}, calls=1000, call_s=10.0) < 60  # 56 s without any


@pytest.mark.parametrize(
    "refused", [{1, 5}, {4, 8}, {1, 2, 3}, {2, 4, 6}, {3, 6, 9}, {4, 7, 10}, {8, 9, 10}], ids=str
)
def test_two_or_three_refusals_among_the_first_ten_cost_only_seconds(refused):
    assert seconds(refused) < 10


@pytest.mark.quick(3)
@pytest.mark.parametrize("nth", [1, 2, 4, 10, 20])
@pytest.mark.parametrize("wait_s", [5, 20])
def test_a_long_named_wait_is_waited_for_and_is_no_quota_yet(nth, wait_s):
    assert seconds({nth}, retry_after=wait_s) < wait_s + 3  # an hour, once
    assert seconds({nth, nth + 2}, retry_after=wait_s) < 2 * wait_s + 10


@pytest.mark.parametrize("first", [1, 4, 10])
def test_a_beginning_that_is_refused_for_some_seconds_costs_only_seconds(first):
    assert seconds(set(range(first, first + 5))) < 25  # an hour, once


@pytest.mark.parametrize("names_wait", [True, False])
def test_a_small_quota_is_found_all_the_same(names_wait):
    accepted, refused = [], 0

    async def fn(x):
        nonlocal refused
        while accepted and accepted[0] <= now() - 60:
            accepted.pop(0)
        if len(accepted) >= 15:
            refused += 1
            left = accepted[0] + 60 - now()
            raise limpet.RateLimitError("full", retry_after=left if names_wait else None)
        accepted.append(now())
        await asyncio.sleep(0.5)
        return x

    took = run(fn, 300)  # 19 minutes at the least
    assert took < 1.2 * 19 * 60
    assert refused <= 15


@pytest.mark.parametrize("cap", [2, 3])
def test_a_small_cap_is_no_crawl(cap):
    busy = refused = 0

    async def fn(x):
        nonlocal busy, refused
        if busy >= cap:
            refused += 1
            await asyncio.sleep(REFUSAL_S)
            raise limpet.RateLimitError("busy")
        busy += 1
        await asyncio.sleep(0.1)
        busy -= 1
        return x

    assert run(fn, 300) < 2 * 300 * 0.1 / cap + 5
    assert refused <= 15


# ---- the rules alone -----------------------------------------------------------------------------


def test_a_guess_is_soon_left_behind_and_a_measurement_is_not():
    guess, measured = Ceiling(), Ceiling()
    guess.guess(10, 0)
    measured.lower_to(10, 0, math.inf)
    assert guess.at(0) == pytest.approx(9.8)
    assert guess.at(5) > 100
    assert measured.at(5) == pytest.approx(10)


def test_a_small_quota_is_believed_when_it_is_seen_in_another_minute():
    suspicion = Suspicion()
    assert not suspicion.confirmed_by(5, 5.0, at=0)
    assert not suspicion.confirmed_by(6, 6.0, at=10)  # the same minute
    assert suspicion.fits(6.0)
    assert not suspicion.fits(30.0)
    assert suspicion.confirmed_by(6, 6.0, at=60)
    assert not suspicion.confirmed_by(40, 40.0, at=120)  # another quota: to be seen again
    suspicion.forget()
    assert not suspicion.confirmed_by(40, 40.0, at=180)


def test_a_large_quota_is_believed_at_once():
    assert Suspicion().confirmed_by(1200, 1200.0, at=0)
