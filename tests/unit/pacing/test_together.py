"""Several keys for one model: their pacers carry calls together, each as many as it allows."""

import asyncio
from collections import Counter

import pytest
from virtual_time import in_virtual_time

from limpet.errors import QuotaExhaustedError, RateLimitError, SetupError
from limpet.executors import AsyncExecutor
from limpet.pacing import PacerRegistry, endpoint
from limpet.pacing.observation import carrying_endpoint
from limpet.pacing.permits import Permits
from limpet.pacing.registry import endpoints_for, members_of, pacing_with

ADDRESS = "https://several.example m"


class Account:
    """An account with a limit per second, as a bucket of one second, or of calls in flight."""

    def __init__(self, per_s=1e9, most=1000, refuses=None):
        self.per_s, self.most, self.refuses = per_s, most, refuses
        self.level, self.at, self.in_flight = per_s, 0.0, 0
        self.seen = Counter()

    async def call(self, seconds):
        now = asyncio.get_running_loop().time()
        self.level = min(self.per_s, self.level + (now - self.at) * self.per_s)
        self.at = now
        if self.refuses is not None and self.seen["answered"] >= self.refuses[0]:
            self.seen["ended"] += 1
            raise self.refuses[1]
        if self.level < 1 or self.in_flight >= self.most:
            self.seen["refused"] += 1
            raise RateLimitError("too many")
        self.level -= 1
        self.in_flight += 1
        self.seen["most"] = max(self.seen["most"], self.in_flight)
        await asyncio.sleep(seconds)
        self.in_flight -= 1
        self.seen["answered"] += 1


async def carried(accounts, count, *, seconds=1.0, calls=1, registry=None, **options):
    """Run the cells over these accounts; return how long it takes, and the pacer."""
    registry = registry or PacerRegistry()
    name, keys = endpoints_for(ADDRESS, [f"key-{number}" for number in range(len(accounts))])
    by_key = dict(zip(keys, accounts, strict=True))

    aside = set()

    async def call():  # as a model does
        while True:
            try:
                async with endpoint(name):
                    key = carrying_endpoint()
                    return await by_key[key].call(seconds)
            except (SetupError, QuotaExhaustedError):
                aside.add(key)
                if len(aside) == len(accounts):
                    raise

    async def cell(_):
        await asyncio.gather(*[call() for _ in range(calls)])

    pacer = registry.get(name)
    executor = AsyncExecutor(
        cell, pacer=pacer, **{"concurrency": "auto", "exit_on_error": False, **options},
        tqdm_bar_format=None, termination_signal=None, timeout=600,
    )  # fmt: skip
    begun = asyncio.get_running_loop().time()
    with pacing_with(registry):
        _, details = await executor.execute(range(count))
    assert {each.status.name for each in details} <= {"COMPLETED", "COMPLETED_WITH_RETRIES"}
    return asyncio.get_running_loop().time() - begun, pacer


@in_virtual_time
async def test_two_keys_carry_what_both_allow():
    slow, fast = Account(10), Account(30)
    took, pacer = await carried([slow, fast], 8000)
    assert 8000 / took >= 0.9 * 40
    assert slow.seen["answered"] / took >= 0.85 * 10
    assert fast.seen["answered"] / took >= 0.85 * 30
    assert slow.seen["refused"] + fast.seen["refused"] <= 0.02 * 8000
    state = pacer.state
    assert (state.sent - state.refused, state.in_flight, state.waiting) == (8000, 0, 0)


@in_virtual_time
async def test_a_judge_with_many_votes_is_carried_by_both():
    slow, fast = Account(10), Account(30)
    took, _ = await carried([slow, fast], 1600, calls=5)
    assert 8000 / took >= 0.9 * 40
    assert slow.seen["refused"] + fast.seen["refused"] <= 0.02 * 8000


@in_virtual_time
async def test_limits_of_calls_in_flight_add_up_too():
    accounts = [Account(most=8), Account(most=16)]
    took, _ = await carried(accounts, 4000)
    assert 4000 / took >= 0.85 * 24
    assert sum(account.seen["refused"] for account in accounts) <= 0.02 * 4000


@in_virtual_time
async def test_a_number_is_the_number_of_each_key():
    accounts = [Account(), Account()]
    registry = PacerRegistry(max_in_flight=8, fixed=True)
    took, _ = await carried(accounts, 1600, registry=registry, concurrency=16)
    assert [account.seen["most"] for account in accounts] == [8, 8]
    assert 1600 / took >= 0.9 * 16


@in_virtual_time
async def test_few_calls_take_turns():
    accounts = [Account(), Account()]
    await carried(accounts, 40, concurrency=1)
    assert [account.seen["answered"] for account in accounts] == [20, 20]


@pytest.mark.parametrize("end", [SetupError("refused"), QuotaExhaustedError("used up")])
def test_a_key_that_ends_is_set_aside_and_costs_few_calls(end):
    @in_virtual_time
    async def check():
        ending, other = Account(30, refuses=(500, end)), Account(30)
        took, pacer = await carried([ending, other], 3000, calls=3)
        assert other.seen["answered"] + ending.seen["answered"] >= 9000
        assert ending.seen["ended"] <= 100  # those that were in flight with it
        assert [member.key for member in pacer.members] == [members_of(pacer.key)[1]]
        assert 9000 / took >= 0.85 * 30

    check()


@in_virtual_time
async def test_a_call_that_gives_up_waiting_leaves_no_trace():
    registry = PacerRegistry(max_in_flight=1, fixed=True)
    name, keys = endpoints_for(ADDRESS, ["a", "b"])
    group = registry.get(name)
    held = [await group.acquire(), await group.acquire()]
    assert {ticket.pacer.key for ticket in held} == set(keys)
    waiting = [asyncio.ensure_future(group.acquire()) for _ in range(3)]
    await asyncio.sleep(1)
    assert group.state.waiting == 3
    waiting[0].cancel()
    await asyncio.sleep(0)
    held[0].ok()
    waiting[1].cancel()  # granted and cancelled in the same turn: the next one has it
    await asyncio.sleep(1)
    ticket = waiting[2].result()
    assert (group.state.waiting, group.state.in_flight) == (0, 2)
    ticket.ok()
    held[1].ok()
    assert (group.state.in_flight, group.state.sent) == (0, 3)


@in_virtual_time
async def test_the_executors_ticket_of_either_key_is_used_by_the_cells_call():
    registry = PacerRegistry()
    name, _ = endpoints_for(ADDRESS, ["a", "b"])
    group = registry.get(name)
    permits = Permits(await group.acquire())
    ticket = await permits.acquire(group, 1)
    assert group.state.sent == 1
    permits.end(ticket)


@in_virtual_time
async def test_a_key_that_is_down_does_not_stop_the_other():
    registry = PacerRegistry()
    name, _ = endpoints_for(ADDRESS, ["a", "b"])
    group = registry.get(name)
    down = group.members[0]
    for owner in range(10):
        (await down.acquire(owner=owner)).failed()
        await asyncio.sleep(10)
    assert down.blocked
    assert (group.blocked, group.blocked_s, group.held_s) == (False, 0.0, 0.0)


def test_each_key_keeps_the_pacer_that_it_has_alone():
    registry = PacerRegistry()
    (alone, _), (name, keys) = endpoints_for(ADDRESS, ["b"]), endpoints_for(ADDRESS, ["a", "b"])
    assert alone in keys
    assert registry.get(alone) in registry.get(name).members
    assert registry.get(members_of(name)) is registry.get(name)  # as a worker asks for it
    assert list(registry) == [registry.get(name)]
