"""A number for `pace` is that number: nothing but the provider's own word makes it fewer."""

import asyncio
import random

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet.executors import AsyncExecutor, Backoff
from limpet.pacing import Pacer, PacerRegistry, endpoint
from limpet.pacing.registry import pacing_with

N, CALLS, SECONDS = 64, 600, 1.5


class Server:
    """Answers calls through a run's pacers, and counts those in flight over time."""

    def __init__(self, answer, n=N):
        self.pacers = PacerRegistry(max_in_flight=n, fixed=True)
        self.pacer = self.pacers.get("server")
        self.in_flight = self.most = self.number = 0
        self.at = []  # (the time, how many are in flight from then on)
        self._answer = answer

    async def call(self, value):
        async with endpoint("server"):
            self._count(1)
            self.number += 1
            try:
                return await self._answer(self, self.number, value)
            finally:
                self._count(-1)

    def _count(self, more):
        self.in_flight += more
        self.most = max(self.most, self.in_flight)
        self.at.append((asyncio.get_running_loop().time(), self.in_flight))

    async def run(self, calls=CALLS, n=N, careful=False, **options):
        """Return how long so many calls took."""
        executor = AsyncExecutor(
            self.call, n, exit_on_error=False, termination_signal=None, timeout=600,
            enable_dynamic_concurrency=False,
            backoff=Backoff(rng=random.Random(7)),
            on_complete=lambda _: executor.full_speed(), **options,
        )  # fmt: skip
        if careful:
            executor.start_slowly(16, 5, 60)
        with pacing_with(self.pacers):
            _, details = await executor.execute(range(calls))
        assert all(one.status.value.startswith("COMPLETED") for one in details)
        return asyncio.get_running_loop().time()

    def mean_in_flight(self, since, until):
        """Return how many were in flight on average, over time."""
        total, (at, many) = 0.0, (since, 0)
        for moment, now in self.at:
            if moment > until:
                break
            total += many * max(0.0, moment - max(at, since))
            at, many = moment, now
        return (total + many * (until - max(at, since))) / (until - since)


async def waits(server, number, value):
    await asyncio.sleep(SECONDS)


@in_virtual_time
async def test_so_many_are_in_flight_from_the_first_moment():
    server = Server(waits)
    assert await server.run() <= 15.1
    assert server.most == N
    assert server.mean_in_flight(0, 13.4) >= 0.999 * N


@in_virtual_time
async def test_a_careful_start_costs_one_latency():
    server = Server(waits)
    assert await server.run(careful=True) <= 16.8
    assert server.mean_in_flight(SECONDS, 14.9) >= 0.99 * N


@pytest.mark.parametrize("n", [1, 7, 256, 1000])
@in_virtual_time
async def test_any_number_is_that_number(n):
    server = Server(waits, n)
    await server.run(calls=4 * n, n=n)
    assert server.most == n


@in_virtual_time
async def test_calls_that_take_longer_when_there_are_more_are_no_reason():
    async def queues(server, number, value):
        await asyncio.sleep(0.1 * server.in_flight)

    server = Server(queues)
    took = await server.run()
    assert server.mean_in_flight(1, took - 10) >= 0.99 * N


@in_virtual_time
async def test_calls_of_very_different_length_are_no_reason():
    chance = random.Random(3)

    async def varies(server, number, value):
        await asyncio.sleep(chance.lognormvariate(0, 1.5))

    server = Server(varies)
    await server.run(calls=2000)
    last_start = max(at for at, now in server.at if now == N)
    assert server.mean_in_flight(0, last_start) >= 0.99 * N


@in_virtual_time
async def test_a_refusal_without_a_wait_concerns_only_its_call():
    async def refuses(server, number, value):
        await asyncio.sleep(SECONDS)
        if number % 10 == 0:
            raise limpet.RateLimitError("slow down")

    server = Server(refuses)
    took = await server.run()
    assert server.mean_in_flight(0, took - 8) >= 0.95 * N
    assert server.pacer.state.refused > 50


@pytest.mark.parametrize(("n", "rate", "calls"), [(64, 20, 600), (256, 20, 600), (8, 0.2, 40)])
@in_virtual_time
async def test_a_number_above_the_limit_loses_nothing(n, rate, calls):
    level, filled_at = float(min(n, rate)), 0.0

    async def bucket(server, number, value):
        nonlocal level, filled_at
        now = asyncio.get_running_loop().time()
        level, filled_at = min(max(1.0, rate), level + (now - filled_at) * rate), now
        if level < 1:
            raise limpet.RateLimitError("slow down")
        level -= 1
        await asyncio.sleep(1)

    server = Server(bucket, n)
    assert await server.run(calls, n) < 2 * calls / rate
    assert server.pacer.state.refused < 20 * calls


@in_virtual_time
async def test_where_everything_is_refused_single_calls_are_tried():
    async def refuses(server, number, value):
        await asyncio.sleep(0.05)
        if 5 < asyncio.get_running_loop().time() < 305:
            raise limpet.RateLimitError("slow down")

    server = Server(refuses)
    assert await server.run(10_000) < 340
    assert server.pacer.state.refused < 200


@in_virtual_time
async def test_items_that_always_fail_at_once_are_no_outage():
    async def fails(server, number, value):
        if value % 5 == 0:
            raise ConnectionError("this one cannot be answered")
        await asyncio.sleep(SECONDS)

    server = Server(fails)
    executor = AsyncExecutor(
        server.call, N, exit_on_error=False, termination_signal=None, max_retries=3,
        pacer=server.pacer, backoff=Backoff(rng=random.Random(7)),
    )  # fmt: skip
    with pacing_with(server.pacers):
        outputs, details = await executor.execute(range(1000))
    assert len(outputs) == 1000
    failed = [index for index, one in enumerate(details) if one.status.value == "FAILED"]
    assert failed == list(range(0, 1000, 5))
    assert server.mean_in_flight(0, 17) >= 0.95 * N


@in_virtual_time
async def test_items_that_wait_for_their_next_attempt_keep_no_others_from_starting():
    async def fails(server, number, value):
        await asyncio.sleep(0.05)
        if 10 <= value < 18:
            raise ConnectionError("this one cannot be answered")

    server = Server(fails, 1)
    executor = AsyncExecutor(
        server.call, 1, exit_on_error=False, termination_signal=None, max_retries=3,
        pacer=server.pacer, backoff=Backoff(base_s=10, cap_s=10, rng=random.Random(7)),
    )  # fmt: skip
    with pacing_with(server.pacers):
        await executor.execute(range(100))
    assert server.mean_in_flight(0, 5) >= 0.95


@in_virtual_time
async def test_a_wait_that_the_provider_names_is_kept_by_all():
    async def refuses(server, number, value):
        await asyncio.sleep(SECONDS)
        if number == 100:
            raise limpet.RateLimitError("slow down", retry_after=20)

    server = Server(refuses)
    await server.run()
    starts = [at for (at, now), (_, before) in zip(server.at[1:], server.at, strict=False)
              if now > before]  # fmt: skip
    refused_at = 2 * SECONDS
    assert not [at for at in starts if refused_at + 0.01 < at < refused_at + 19.9]
    assert server.mean_in_flight(refused_at + 20.1, refused_at + 25) >= 0.99 * N


@in_virtual_time
async def test_timeouts_are_no_reason():
    async def hangs(server, number, value):
        await asyncio.sleep(SECONDS if number % 5 else 50)
        if not number % 5:
            raise TimeoutError

    server = Server(hangs)
    await server.run(max_timeouts=50)
    assert server.mean_in_flight(0, 60) >= 0.95 * N


@in_virtual_time
async def test_an_outage_pauses_it_and_then_it_goes_on():
    def is_down():
        return 5 < asyncio.get_running_loop().time() < 65

    async def down(server, number, value):
        await asyncio.sleep(0.05 if is_down() else SECONDS)
        if is_down():
            raise ConnectionError("down")

    server = Server(down)
    took = await server.run()
    assert server.number < CALLS + 200
    assert took < 65 + 15 + 15
    assert server.most == N


@in_virtual_time
async def test_limits_in_headers_are_kept():
    async def answers(server, number, value):
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(0.1)
        left = max(0, 10 + 5 * now - number)
        headers = {
            "x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": f"{left:.0f}",
            "x-ratelimit-reset-requests": f"{(10 - min(left, 10)) / 5:.3f}s",
        }  # fmt: skip
        limpet.pacing.observe(headers=headers)

    server = Server(answers)
    took = await server.run(calls=200)
    assert took > 0.8 * 200 / 5


@in_virtual_time
async def test_it_says_what_holds_it():
    pacer = Pacer(max_in_flight=2, fixed=True)
    await pacer.acquire()
    assert pacer.words == "at the number you set"
    ticket = await pacer.acquire()
    assert pacer.acquire_nowait() is None
    assert pacer.words == "at the number you set"
    ticket.refused()
    assert pacer.acquire_nowait() is None  # the refused call keeps its place
    assert pacer.words == "at the number you set (1 refused)"


@pytest.mark.parametrize("wait_s", [None, 1])
@in_virtual_time
async def test_a_number_far_above_the_limit_is_said_to_be_too_high(wait_s):
    level, filled_at = 20.0, 0.0

    async def bucket(server, number, value):
        nonlocal level, filled_at
        now = asyncio.get_running_loop().time()
        level, filled_at = min(20.0, level + (now - filled_at) * 20), now
        if level < 1:
            raise limpet.RateLimitError("slow down", retry_after=wait_s)
        level -= 1
        await asyncio.sleep(SECONDS)

    assert await share_said("resting", Server(bucket)) > 0.9


@pytest.mark.parametrize("wait_s", [None, 1])
@in_virtual_time
async def test_refusals_by_chance_are_no_sign_that_a_number_is_too_high(wait_s):
    chance = random.Random(3)

    async def refuses(server, number, value):
        await asyncio.sleep(0.2)
        if chance.random() < 0.05:
            raise limpet.RateLimitError("slow down", retry_after=wait_s)

    assert await share_said("resting", Server(refuses, 32)) == 0


async def share_said(binding, server):
    """Return the share of the time, after the first seconds, in which this held the pace."""
    running = asyncio.create_task(server.run(2000, server.pacer.max_in_flight))
    seen = []
    await asyncio.sleep(5)
    while server.pacer.state.sent < 2000:
        seen.append(server.pacer.state.binding == binding)
        await asyncio.sleep(0.071)
    await running
    return sum(seen) / len(seen)
