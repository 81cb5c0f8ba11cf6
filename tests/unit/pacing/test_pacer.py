"""The pacer: fair, cancellable, leaking nothing, explaining itself, remembering."""

import asyncio
import gc
import json
import sys
from pathlib import Path

import pytest
import virtual_time
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor
from limpet.pacing import Pacer, PacerRegistry
from limpet.pacing.traffic import LargeCalls

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import providers


def now():
    return asyncio.get_running_loop().time()


async def settle_all(pacer, count):
    for _ in range(count):
        (await pacer.acquire()).ok()


@in_virtual_time
async def test_the_first_window_is_spread_over_a_round_trip():
    pacer = Pacer()
    started = []
    tickets = []
    for _ in range(16):
        tickets.append(await pacer.acquire())
        started.append(now())
    assert started[0] == 0
    assert started[-1] == pytest.approx(0.75, rel=0.05)
    assert pacer.acquire_nowait() is None  # 16 in flight is where it begins
    tickets[0].ok()
    assert await pacer.acquire()


@in_virtual_time
async def test_first_come_first_served():
    pacer = Pacer(max_in_flight=1)
    order = []

    async def ask(name):
        ticket = await pacer.acquire()
        order.append(name)
        await asyncio.sleep(1)
        ticket.ok()

    await asyncio.gather(*(ask(name) for name in "abcdef"))
    assert order == list("abcdef")


@in_virtual_time
async def test_whoever_waits_is_not_overtaken():
    pacer = Pacer(max_in_flight=1)
    first = await pacer.acquire()
    waiting = asyncio.ensure_future(pacer.acquire())
    await asyncio.sleep(1)
    first.ok()
    assert pacer.acquire_nowait() is None
    assert (await waiting) is not None


@in_virtual_time
async def test_a_ticket_is_settled_exactly_once():
    ticket = await Pacer().acquire()
    ticket.ok()
    with pytest.raises(limpet.LimpetError, match="already settled"):
        ticket.failed()


@in_virtual_time
async def test_a_dropped_ticket_gives_its_place_back():
    pacer = Pacer(max_in_flight=1)
    ticket = await pacer.acquire()
    waiting = asyncio.ensure_future(pacer.acquire())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    del ticket
    gc.collect()
    await waiting
    assert pacer.state.failed == 1


@in_virtual_time
async def test_waiting_can_be_cancelled_at_any_point_and_nothing_leaks():
    pacer = Pacer(max_in_flight=1)
    first = await pacer.acquire()
    waiting = [asyncio.ensure_future(pacer.acquire()) for _ in range(3)]
    await asyncio.sleep(0.1)
    waiting[0].cancel()  # while it waits
    first.ok()  # grants the second, which is cancelled before it wakes
    waiting[1].cancel()
    last = await asyncio.wait_for(waiting[2], 60)
    last.ok()
    assert pacer.state.in_flight == 0
    assert pacer.state.waiting == 0


@in_virtual_time
async def test_nothing_polls_while_it_waits():
    pacer = Pacer(max_in_flight=1)
    ticket = await pacer.acquire()
    waiting = asyncio.ensure_future(pacer.acquire())
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().jumps < 5
    ticket.ok()
    await waiting


@in_virtual_time
async def test_a_wait_named_by_the_provider_holds_everybody():
    pacer = Pacer()
    tickets = [await pacer.acquire() for _ in range(5)]
    at = now()
    tickets[0].refused(retry_after=30)
    await pacer.acquire()
    assert now() >= at + 30


@in_virtual_time
async def test_no_named_wait_holds_longer_than_ten_minutes():
    pacer = Pacer()
    (await pacer.acquire()).refused(retry_after=1e12)
    await pacer.acquire()
    assert now() <= 601


@pytest.mark.parametrize("wait", [float("nan"), -5, float("inf"), "soon", None])
@in_virtual_time
async def test_an_odd_wait_is_no_wait(wait):
    pacer = Pacer()
    (await pacer.acquire()).refused(retry_after=wait)
    await pacer.acquire()
    assert now() < 2


@pytest.mark.parametrize("cost", [1, 900, {"tokens": 900}, {"requests": 2}, 0, -1, float("nan")])
@in_virtual_time
async def test_any_cost_is_taken(cost):
    pacer = Pacer()
    for _ in range(20):
        (await pacer.acquire(cost)).ok()
    assert pacer.state.sent == 20


@in_virtual_time
async def test_headers_hold_the_pace_before_anything_is_refused():
    pacer = Pacer()
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "60s",
    }
    ticket = await pacer.acquire()
    at = now()
    ticket.ok(headers=headers)
    assert pacer.state.binding == "headers"
    await pacer.acquire()
    assert now() - at == pytest.approx(1.6, rel=0.1)  # one more, and the reserve of 1%


@in_virtual_time
async def test_hostile_headers_never_make_it_wait_beyond_a_bound():
    pacer = Pacer()
    headers = {
        "x-ratelimit-limit-requests": "1e300",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "99999h",
        "x-ratelimit-limit-tokens": "1e-300",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "99999h",
    }
    for _ in range(5):
        at = now()
        (await pacer.acquire()).ok(headers=headers)
        assert now() - at <= 61


@pytest.mark.parametrize("amount", [0, 1e300, 1.7e308, float("nan"), -5, "many"])
@in_virtual_time
async def test_hostile_usage_never_makes_it_wait_beyond_a_bound(amount):
    pacer = Pacer()
    usage = {"prompt_tokens": amount, "completion_tokens": amount}
    for left in (500, 100, 0, 900, 0):
        headers = {
            "x-ratelimit-limit-tokens": "1000",
            "x-ratelimit-remaining-tokens": str(left),
        }
        at = now()
        (await pacer.acquire()).ok(headers=headers, usage=usage)
        assert now() - at <= 61


def test_a_call_refused_again_and_again_is_taken_for_a_large_one_until_it_is_answered():
    calls = LargeCalls()
    sizes = []
    for _ in range(5):
        calls.refused("large")
        calls.refused("large")  # nothing passed in between: no news
        sizes.append(calls.size_of("large"))
        calls.answered("another")
    assert sizes == [1, 1, 2, 4, 8]
    assert calls.size_of("another") == 1
    calls.answered("large")
    assert calls.size_of("large") == 1


def test_calls_that_gave_up_are_forgotten():
    calls = LargeCalls()
    for _ in range(3):
        calls.refused("gave up")
        calls.answered("another")
    assert calls.size_of("gave up") == 2
    for number in range(2000):
        calls.refused(number)
    assert calls.size_of("gave up") == 1


@in_virtual_time
async def test_usage_is_added_up():
    pacer = Pacer()
    (await pacer.acquire()).ok(usage={"total_tokens": 100})
    (await pacer.acquire()).ok(usage={"total_tokens": 50, "odd": "x"})
    assert pacer.state.usage["total_tokens"] == 150


# ---- explaining itself -----------------------------------------------------------------------


@in_virtual_time
async def test_the_state_says_in_words_what_holds_the_pace():
    pacer = Pacer("openai/gpt")
    assert str(pacer.state) == "0 in flight · 0.0/s · finding the limit"
    tickets = [await pacer.acquire() for _ in range(16)]
    assert str(pacer.state).endswith("finding the limit")
    for ticket in tickets[:3]:
        ticket.refused()
    assert pacer.state.refused == 3
    assert pacer.state.rate is not None
    assert "a short pause after a refusal (3 refused)" in str(pacer.state)
    await asyncio.sleep(1)
    while pacer.acquire_nowait():
        pass
    assert str(pacer.state).endswith("at the provider's limit (3 refused)")
    tickets[3].failed(timeout=True)
    assert str(pacer.state).endswith("(3 refused, 1 failed)")


@pytest.mark.parametrize(
    ("model", "binding"),
    [
        (providers.TokenBucket, "rate"),
        (providers.FewPerMinute, "quota"),
        (providers.cap_of(8), "cap"),
        (providers.QueueingServer, "in_flight"),
    ],
)
@in_virtual_time
async def test_what_holds_the_pace_does_not_flicker(model, binding):
    provider, pacer = model(0, 1500), Pacer()
    executor = AsyncExecutor(
        provider.call, "auto", pacer=pacer, exit_on_error=False, termination_signal=None
    )
    running = asyncio.create_task(executor.execute(provider.items))
    await asyncio.sleep(0.5 * provider.oracle())
    until, seen = 0.9 * provider.oracle(), set()
    while now() < until:
        seen.add(pacer.state.binding)
        await asyncio.sleep(0.071)
    await running
    assert seen == {binding}


@in_virtual_time
async def test_while_calls_wait_and_the_rate_is_known_it_is_the_limit():
    late_s = 0.0
    pacer = Pacer(clock=lambda: now() + late_s)
    pacer.memory = {"version": 1, "rate": 20.0}
    (await pacer.acquire()).ok()
    waiting = asyncio.create_task(pacer.acquire())
    await asyncio.sleep(0.01)
    late_s = 1.0  # the timer of the next call is overdue
    assert pacer.state.binding == "rate"
    (await waiting).ok()
    await asyncio.sleep(1)
    assert pacer.state.binding == "nothing"


@in_virtual_time
async def test_an_event_tells_every_change_and_only_changes(caplog):
    pacer = Pacer("openai/gpt")
    events = []
    stop = pacer.subscribe(events.append)
    pacer.subscribe(lambda _: 1 / 0)  # another listener's trouble is its own
    tickets = [await pacer.acquire() for _ in range(16)]
    tickets.pop().refused()  # one or two prove nothing
    tickets.pop().refused()
    tickets.pop().refused()
    count = len(events)
    assert count >= 1
    assert (events[-1].key, events[-1].after) == ("openai/gpt", "refused")
    assert events[-1].state.rate == pacer.state.rate
    tickets.pop().refused()  # late news: nothing changed
    assert len(events) == count
    stop()
    assert "ZeroDivisionError" in caplog.text


# ---- remembering -------------------------------------------------------------------------------


@in_virtual_time
async def test_what_it_learned_is_plain_json_and_a_later_one_starts_there():
    pacer = Pacer()
    for _ in range(16):
        tickets = [await pacer.acquire() for _ in range(4)]
        await asyncio.sleep(0.3)
        for ticket in tickets:
            ticket.ok()
    (await pacer.acquire()).refused()
    learned = json.loads(json.dumps(pacer.memory))
    later = Pacer()
    later.memory = learned
    (await later.acquire()).ok()
    assert later.state.rate == pytest.approx(pacer.state.rate)


@pytest.mark.parametrize(
    "memory",
    [
        {},
        {"version": 99, "rate": 1},
        {"version": 1, "rate": "fast", "latency_s": -1, "window": float("nan"), "in_flight": None},
        {"version": 1, "rate": 0, "per_minute": float("inf"), "mean_cost": 0},
    ],
    ids=["empty", "another version", "nonsense", "zeros"],
)
@in_virtual_time
async def test_a_memory_that_makes_no_sense_is_left_out(memory):
    pacer = Pacer()
    pacer.memory = memory
    await asyncio.wait_for(settle_all(pacer, 20), 30)
    assert pacer.state.rate is None


def test_a_pacer_goes_on_with_what_it_knows_on_the_next_loop():
    pacer = Pacer()

    async def learn():
        tickets = [await pacer.acquire() for _ in range(10)]
        tickets[0].refused()
        for ticket in tickets[1:]:
            ticket.ok()
        return pacer.state.rate

    async def look():
        (await pacer.acquire()).ok()
        return pacer.state.rate

    learned = virtual_time.run(learn())
    assert virtual_time.run(look()) == pytest.approx(learned)


@in_virtual_time
async def test_one_pacer_per_key_and_their_memory_together():
    registry = PacerRegistry()
    one, other = registry.get("openai/gpt"), registry.get("judge")
    assert registry.get("openai/gpt") is one is not other
    (await one.acquire()).refused()
    later = PacerRegistry(memory=json.loads(json.dumps(registry.memory)))
    again = later.get("openai/gpt")
    (await again.acquire()).ok()
    assert again.state.rate == pytest.approx(one.state.rate)
    assert set(later.memory) == {"openai/gpt", "judge"}
    assert [pacer.key for pacer in later] == ["openai/gpt"]


def test_bad_arguments():
    with pytest.raises(ValueError, match="max_in_flight=0"):
        Pacer(max_in_flight=0)


async def _ten_at_a_time(pacer, calls):
    async def ask():
        ticket = await pacer.acquire()
        await asyncio.sleep(1)
        ticket.ok()

    await asyncio.gather(*(ask() for _ in range(calls)))


@in_virtual_time
async def test_how_fast_an_endpoint_is_was_measured_while_calls_waited():
    pacer = Pacer(max_in_flight=10)
    await _ten_at_a_time(pacer, 100)
    assert pacer.memory["steady_rate"] == 0  # 10 s tell little
    await _ten_at_a_time(pacer, 300)
    assert pacer.memory["steady_rate"] == pytest.approx(10, rel=0.1)
    for _ in range(20):  # nobody waits: it could do more
        await asyncio.sleep(30)
        await _ten_at_a_time(pacer, 1)
    assert pacer.memory["steady_rate"] == pytest.approx(10, rel=0.1)


@in_virtual_time
async def test_how_fast_an_endpoint_was_before_counts_as_a_minute():
    pacer = Pacer(max_in_flight=10)
    pacer.memory = {"version": 1, "steady_rate": 20.0}
    await _ten_at_a_time(pacer, 30)
    assert pacer.memory["steady_rate"] == pytest.approx(20, rel=0.05)
    await _ten_at_a_time(pacer, 570)
    assert pacer.memory["steady_rate"] == pytest.approx(15, rel=0.05)
