"""Random refusals are no limit; limits behind them are, and so are proxies' own words."""

import asyncio
import math
import random

import pytest
import virtual_time

from limpet import AsyncExecutor, RateLimitError
from limpet.executors.retry import Backoff
from limpet.pacing import Pacer, observe
from limpet.pacing.chance import Chance, Refusal
from limpet.pacing.limits import Limit, read_limits
from limpet.pacing.signals import FailureKind, classify


class HttpError(Exception):
    def __init__(self, headers=None, status=429, text="refused"):
        super().__init__(text)
        self.status_code = status
        self.headers = headers or {}


def now():
    return asyncio.get_running_loop().time()


class Server:
    """32 slots and a queue; some calls are refused, at any pace."""

    def __init__(self, share, call_s, wait_s=None, seed=0):
        self.rng = random.Random(seed)
        self.share, self.call_s, self.wait_s = share, call_s, wait_s
        self.slots = asyncio.Semaphore(32)
        self.refused = 0

    async def call(self, x):
        await asyncio.sleep(self.call_s / 10)
        if self.rng.random() < self.share:
            self.refused += 1
            raise RateLimitError("bad luck", retry_after=self.wait_s)
        async with self.slots:
            await asyncio.sleep(self.rng.lognormvariate(math.log(self.call_s), 0.5))
        return x


class Bucket:
    """A rate limit; some of the calls within it are refused at random."""

    def __init__(self, rate, share, seed=0):
        self.rng = random.Random(seed)
        self.rate, self.share = rate, share
        self.level, self.at, self.refused = rate, 0.0, 0

    async def call(self, x):
        await asyncio.sleep(0.025)
        self.level = min(self.rate, self.level + (now() - self.at) * self.rate)
        self.at = now()
        if self.rng.random() < self.share or self.level < 1:
            self.refused += 1
            await asyncio.sleep(0.025)
            raise RateLimitError("refused")
        self.level -= 1
        await asyncio.sleep(self.rng.lognormvariate(0, 0.5))
        return x


def seconds(make, count, concurrency="auto"):
    """Return the virtual seconds that `count` calls take, and the server; all succeed."""
    server = None

    async def main():
        nonlocal server
        server = make()
        executor = AsyncExecutor(
            server.call,
            concurrency,
            timeout=600,
            exit_on_error=False,
            termination_signal=None,
            enable_dynamic_concurrency=False,
            backoff=Backoff(rng=random.Random(0)),  # the same on every run
        )
        outputs, _ = await executor.execute(range(count))
        assert outputs == list(range(count))
        return now()

    return virtual_time.run(main()), server


# ---- runs ----------------------------------------------------------------------------------------


@pytest.mark.slow  # others of this file have other shares
def test_5_in_100_refused_of_calls_of_20_ms_are_as_fast_as_16_at_a_time():
    took, _ = seconds(lambda: Server(0.05, 0.02), 2000)
    fixed, _ = seconds(lambda: Server(0.05, 0.02), 2000, 16)
    assert took <= fixed / 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "call_s", "count"),
    [
        (0.05, 0.02, 15_000),
        (0.05, 0.2, 8000),
        (0.2, 0.2, 12_000),
        (0.01, 2, 2000),
        (0.05, 10, 1500),
    ],
)
def test_with_refusals_by_chance_auto_reaches_80_in_100_of_the_best_number(share, call_s, count):
    took, server = seconds(lambda: Server(share, call_s), count)
    best = min(seconds(lambda: Server(share, call_s), count, n)[0] for n in (16, 32, 64))
    assert took <= best / 0.8
    assert server.refused <= 1.4 * count * share / (1 - share) + 20


@pytest.mark.slow  # the named wait belongs to such calls
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_so_it_does_with_calls_of_two_seconds(share):
    took, _ = seconds(lambda: Server(share, 2), 1500)
    best = min(seconds(lambda: Server(share, 2), 1500, n)[0] for n in (32, 64))
    assert took <= best / 0.8


@pytest.mark.quick(3)
@pytest.mark.parametrize("wait_s", [0.02, 1, 5])
def test_a_wait_that_is_named_by_chance_holds_up_one_call_and_not_all(wait_s):
    took, _ = seconds(lambda: Server(0.05, 2, wait_s), 2000)
    best, _ = seconds(lambda: Server(0.05, 2, wait_s), 2000, 32)
    assert took <= best / 0.7


def test_a_real_limit_is_held_where_others_are_refused_by_chance():
    took, server = seconds(lambda: Bucket(20, 0.05), 4000)
    assert took <= 4000 / 20 / 0.85
    by_chance = 4000 * 0.05 / 0.95
    assert server.refused <= 3 * by_chance


@pytest.mark.slow  # the real limit above is one beside chance
def test_a_limit_alone_is_not_taken_for_chance():
    took, server = seconds(lambda: Bucket(20, 0.0), 4000)
    assert took <= 4000 / 20 / 0.95
    assert server.refused <= 0.01 * 4000


# ---- the rules alone -----------------------------------------------------------------------------


def refusal(number, taken, **more):
    facts = {
        "tried_more": False,
        "long_wait": False,
        "tells": True,
    }
    return Refusal(number, taken, **{**facts, **more})


def believing(every=20):
    """Return one who has seen four refusals below what was known, every so many calls."""
    chance = Chance()
    explained = []
    for turn in range(1, 5):
        for _ in range(every):
            chance.sent(climbing=False)
        explained.append(chance.explains(refusal(turn * every, every)))
    assert explained == [False, False, False, True]
    return chance


def test_four_refusals_in_a_row_where_nothing_more_was_tried_are_chance():
    assert believing().share == pytest.approx(1 / 20, rel=0.35)


def test_refusals_where_more_was_tried_are_none():
    chance = Chance()
    for turn in range(1, 30):
        for _ in range(20):
            chance.sent(climbing=True)
        assert not chance.explains(refusal(20 * turn, 20, tried_more=True))
    assert not chance.share


def test_more_refusals_than_the_share_explains_are_a_limit():
    chance = believing()
    explained = []
    for number in range(100, 140):
        chance.sent(climbing=False)
        explained.append(chance.explains(refusal(number, number, tried_more=True)))
    assert explained[:3] == [True] * 3
    assert False in explained[:15]


def test_a_limit_that_was_taken_for_chance_shows_in_the_next_calls():
    chance = believing()
    for number in range(81, 100):
        chance.sent(climbing=False)
        if not chance.explains(refusal(number, number, tried_more=None)):
            break
    assert not chance.share
    assert not chance.doubtful


def test_a_share_that_is_true_no_more_is_forgotten():
    chance = believing()
    for _ in range(1000):
        chance.sent(climbing=False)
    assert not chance.share


def early(chance, numbers, **more):
    """Send calls and have those with these numbers refused; returns what was explained."""
    explained = []
    for number in range(1, max(numbers) + 1):
        chance.sent(climbing=False)
        if number in numbers:
            explained.append(chance.explains(refusal(number, number, tried_more=None, **more)))
    return explained


def test_while_no_limit_is_known_refusals_close_together_show_one():
    assert early(Chance(), {50}) == [True]
    assert early(Chance(), {50, 60}) == [True, True]
    assert early(Chance(), {50, 51, 52}) == [True, True, False]
    assert early(Chance(), {50}, long_wait=True) == [False]


def test_while_no_limit_is_known_four_that_are_apart_are_chance():
    chance = Chance()
    assert early(chance, {50, 100, 150, 200}) == [True] * 4
    assert chance.share == pytest.approx(0.02)


# ---- proxies -------------------------------------------------------------------------------------

AT_ONCE = {"Retry-After": "60", "rate_limit_type": "max_parallel_requests"}


def test_a_wait_that_a_proxy_passes_on_is_read():
    assert classify(HttpError({"llm_provider-retry-after": "60"})).retry_after_s == 60
    own = HttpError({"llm_provider-retry-after": "60", "retry-after": "2"})
    assert classify(own).retry_after_s == 2


def test_the_limit_of_a_key_at_a_proxy_is_read():
    headers = {
        "x-ratelimit-api_key-limit-requests": "100",
        "x-ratelimit-api_key-remaining-requests": "7",
        "llm_provider-x-ratelimit-limit-tokens": "5000",
        "llm_provider-x-ratelimit-remaining-tokens": "40",
    }
    found = {one.name: one for one in classify(HttpError(headers)).limits}
    assert found["api_key:requests"] == Limit("api_key:requests", 100, 7, 0.0)
    assert found["tokens"].remaining == 40
    assert read_limits({"x-ratelimit--limit-": "1"}, lambda: 0.0) == []


@pytest.mark.parametrize(
    "error",
    [
        HttpError(AT_ONCE),
        HttpError({"Retry-After": "60"}, text="Limit type: max_parallel_requests. Try again"),
        HttpError(text="Number of concurrent connections has exceeded your rate limit"),
    ],
    ids=["header", "text", "anthropic"],
)
def test_too_many_at_once_is_told_from_too_many_in_all(error):
    signal = classify(error)
    assert signal.kind is FailureKind.RATE_LIMIT
    assert signal.at_once
    assert signal.retry_after_s is None


def test_at_a_proxy_that_takes_8_at_once_nobody_waits_for_a_minute():
    busy = refused = 0

    class Proxy:
        async def call(self, x):
            nonlocal busy, refused
            await asyncio.sleep(0.01)
            if busy >= 8:
                refused += 1
                raise HttpError(AT_ONCE)
            busy += 1
            await asyncio.sleep(0.5)
            busy -= 1
            return x

    took, _ = seconds(Proxy, 800)
    assert took <= 800 * 0.5 / 8 / 0.85
    assert refused <= 20


def test_at_a_proxy_that_names_the_providers_wait_it_is_waited_for():
    sent = []

    class Proxy:
        used, minute = 0, 0

        async def call(self, x):
            sent.append(now())
            minute = int(now() // 60)
            self.used = self.used + 1 if minute == self.minute else 1
            self.minute = minute
            if self.used > 300:
                await asyncio.sleep(0.02)
                raise HttpError({"llm_provider-retry-after": "60"})
            await asyncio.sleep(0.5)
            return x

    took, _ = seconds(Proxy, 1500)
    assert took <= 1.5 * 5 * 60
    assert len(sent) - 1500 <= 60


def test_at_a_proxy_that_names_the_limit_of_a_key_hardly_any_is_refused():
    refused = 0

    async def main():
        nonlocal refused
        level, at = 100.0, 0.0
        pacer = Pacer()

        async def call(x):
            nonlocal level, at, refused
            level, at = min(100.0, level + (now() - at) * 100 / 60), now()
            if level < 1:
                refused += 1
                raise HttpError
            level -= 1
            headers = {
                "x-ratelimit-api_key-limit-requests": "100",
                "x-ratelimit-api_key-remaining-requests": str(int(level)),
            }
            await asyncio.sleep(0.2)
            observe(headers=headers)
            return x

        executor = AsyncExecutor(call, "auto", pacer=pacer, exit_on_error=False)
        await executor.execute(range(400))
        assert "api_key:requests" in pacer._limits.mirrors
        return now()

    took = virtual_time.run(main())
    assert took <= 300 / (100 / 60) / 0.9
    assert refused <= 3
