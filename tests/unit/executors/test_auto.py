"""`concurrency="auto"`: who is charged for what, and how every run ends."""

import asyncio
import math

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor, RateLimitError
from limpet.executors import ExecutionStatus
from limpet.pacing import Pacer
from limpet.pacing.registry import PacerRegistry, pacing_with

COMPLETED = ExecutionStatus.COMPLETED
RETRIED = ExecutionStatus.COMPLETED_WITH_RETRIES
DID_NOT_RUN = ExecutionStatus.DID_NOT_RUN
FAILED = ExecutionStatus.FAILED


class HttpError(Exception):
    def __init__(self, status, headers=None):
        super().__init__(f"status {status}")
        self.status = status
        self.headers = headers or {}


def now():
    return asyncio.get_running_loop().time()


def auto(fn, **options):
    return AsyncExecutor(fn, "auto", **{"exit_on_error": False, **options})


def statuses(details):
    return [one.status for one in details]


@in_virtual_time
async def test_a_refused_call_is_never_charged():
    level, at = 5.0, 0.0

    async def fn(x):
        nonlocal level, at
        level, at = min(5.0, level + (now() - at) * 2), now()
        if level < 1:
            raise HttpError(429)
        level -= 1
        await asyncio.sleep(0.5)
        return x

    outputs, details = await auto(fn, max_retries=0).execute(range(100))
    assert outputs == list(range(100))
    assert set(statuses(details)) == {COMPLETED, RETRIED}
    assert now() < 60  # 48 s is what 2 a second allow


@in_virtual_time
async def test_in_an_outage_nobody_is_charged():
    async def fn(x):
        await asyncio.sleep(0.5)
        if 5 <= now() < 300:
            raise HttpError(503)
        return x

    executor = auto(fn, max_retries=2)
    outputs, _ = await executor.execute(range(400))
    assert outputs == list(range(400))


@in_virtual_time
async def test_a_mistake_in_the_code_is_no_outage_and_ends_the_run():
    calls = 0

    async def fn(x):
        nonlocal calls
        calls += 1
        raise ValueError("a mistake of mine")

    _, details = await auto(fn, max_retries=2).execute(range(50))
    assert statuses(details) == [FAILED] * 50
    assert calls == 50 * 3


@in_virtual_time
async def test_without_retries_there_is_no_second_pass_either():
    calls = []

    async def fn(x):
        calls.append(x)
        raise HttpError(500)

    await auto(fn, max_retries=0).execute([1])
    assert calls == [1]


@pytest.mark.parametrize("how", ["times out", "fails"])
@pytest.mark.parametrize("others", [0, 40])
@in_virtual_time
async def test_one_input_that_never_works_ends_failed_and_so_does_the_run(how, others):
    async def fn(x):
        if x < others:
            await asyncio.sleep(0.5)
            return x
        if how == "times out":
            await asyncio.sleep(1e6)
        await asyncio.sleep(0.05)
        raise HttpError(503)

    _, details = await auto(fn, max_retries=3, timeout=5).execute(range(others + 1))
    assert statuses(details) == [COMPLETED] * others + [FAILED]


@in_virtual_time
async def test_an_input_that_is_refused_while_others_pass_is_at_fault_itself():
    async def fn(x):
        if x == 7:
            await asyncio.sleep(0.05)
            raise HttpError(429)  # "request too large", say
        await asyncio.sleep(0.5)
        return x

    _, details = await auto(fn, max_retries=3).execute(range(3000))
    assert statuses(details).count(FAILED) == 1
    assert details[7].status is FAILED


@in_virtual_time
async def test_the_only_input_that_is_refused_may_not_be_at_fault_and_the_run_stops():
    async def fn(x):
        await asyncio.sleep(0.05)
        raise HttpError(429)

    executor = auto(fn)
    _, details = await executor.execute([1])
    assert isinstance(executor.stop_reason, limpet.errors.EndpointDownError)
    assert statuses(details) == [DID_NOT_RUN]


@in_virtual_time
async def test_the_last_input_that_times_out_once_does_not_keep_the_run_from_ending():
    seen = []

    async def fn(x):
        seen.append(x)
        if x == 99 and seen.count(x) == 1:
            await asyncio.sleep(1e6)
        await asyncio.sleep(0.5)
        return x

    outputs, _ = await auto(fn, timeout=10).execute(range(100))
    assert outputs == list(range(100))
    assert now() < 40


@in_virtual_time
async def test_what_failed_in_a_bad_spell_gets_a_second_pass():
    async def fn(x):
        await asyncio.sleep(0.1)
        if x in (3, 4) and now() < 20:
            raise HttpError(500)
        if x == 90:
            await asyncio.sleep(30)
        return x

    outputs, details = await auto(fn, max_retries=2).execute(range(100))
    assert outputs == list(range(100))
    assert statuses(details)[3:5] == [RETRIED, RETRIED]


@in_virtual_time
async def test_with_exit_on_error_there_is_no_second_pass():
    calls = []

    async def fn(x):
        calls.append(x)
        raise HttpError(500)

    executor = auto(fn, max_retries=1, exit_on_error=True)
    _, details = await executor.execute([1])
    assert statuses(details) == [FAILED]
    assert len(calls) == 2


@in_virtual_time
async def test_no_more_in_flight_than_the_ceiling():
    running, peak = 0, 0

    async def fn(x):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(1)
        running -= 1

    await auto(fn, max_concurrency=40).execute(range(1000))
    assert peak == 40
    peak = 0
    await AsyncExecutor(fn, 7, pacer=Pacer()).execute(range(100))
    assert peak == 7


@in_virtual_time
async def test_two_executors_share_one_pacer_and_its_limit():
    accepted = []

    async def fn(x):
        while accepted and accepted[0] < now() - 1:
            accepted.pop(0)
        if len(accepted) >= 10:
            raise HttpError(429)
        accepted.append(now())
        await asyncio.sleep(0.5)
        return x

    pacer = Pacer("the one provider")
    results = await asyncio.gather(*(auto(fn, pacer=pacer).execute(range(200)) for _ in range(2)))
    for outputs, _ in results:
        assert outputs == list(range(200))
    assert pacer.state.refused < 20
    assert pacer.state.in_flight == 0


@in_virtual_time
async def test_cost_is_asked_of_each_input():
    estimated = []

    async def fn(x):
        await asyncio.sleep(0.1)

    await auto(fn, cost=lambda x: estimated.append(x) or {"tokens": x}).execute([100, 200, 300])
    assert estimated == [100, 200, 300]


# ---- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HttpError(429, {"retry-after": "7200"}), "2 h"),
        (HttpError(402), "top up"),
        (RateLimitError("on requests per day (RPD)", retry_after=60), "top up"),
    ],
    ids=["Retry-After", "402", "per day"],
)
@in_virtual_time
async def test_hard_stops_are_resumable_and_say_when_to_come_back(error, reason):
    if isinstance(error, RateLimitError):
        error = type("RateLimitError", (Exception,), {})("on requests per day (RPD)")

    async def fn(x):
        await asyncio.sleep(1)
        if x == 5:
            raise error
        return x

    executor = auto(fn)
    _, details = await executor.execute(range(50))
    assert isinstance(executor.stop_reason, limpet.errors.QuotaExhaustedError)
    assert reason in executor.stop_reason.hint
    assert FAILED not in statuses(details)
    assert details[5].status is DID_NOT_RUN


@in_virtual_time
async def test_when_nothing_gets_through_for_ten_minutes_the_run_stops():
    async def fn(x):
        await asyncio.sleep(0.5)
        if now() > 5:
            raise ConnectionRefusedError("nobody there")
        return x

    executor = auto(fn)
    _, details = await executor.execute(range(5000))
    assert isinstance(executor.stop_reason, limpet.errors.EndpointDownError)
    assert "10 minutes" in str(executor.stop_reason)
    assert FAILED not in statuses(details)
    assert 600 <= now() < 700


@in_virtual_time
async def test_a_call_that_waits_at_the_gate_can_be_cancelled_and_holds_no_slot():
    async def fn(x):
        if x == 0:
            raise HttpError(429, {"retry-after": "300"})
        return x

    executor = auto(fn)
    task = asyncio.ensure_future(executor.execute(range(3)))
    await asyncio.sleep(10)
    assert executor.in_flight() == {}
    assert executor.cancel(0)
    outputs, details = await task
    assert outputs == [limpet.executors.UNSET, 1, 2]
    assert statuses(details)[0] is FAILED


@in_virtual_time
async def test_stopping_while_a_call_waits_at_the_gate_leaves_nothing_behind():
    async def fn(x):
        await asyncio.sleep(1)
        if x == 3:
            raise limpet.PermanentError("no")
        return x

    executor = auto(fn, exit_on_error=True)
    await executor.execute(range(100))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert executor.pacer.state.waiting == 0
    assert executor.pacer.state.in_flight == 0


@in_virtual_time
async def test_streaming_holds_the_inputs_back_with_auto_too():
    taken = 0

    def inputs():
        nonlocal taken
        for x in range(3000):
            taken += 1
            yield x

    async def fn(x):
        return x

    read = 0
    async for _ in auto(fn, max_concurrency=10).stream(inputs()):
        read += 1
        assert taken - read <= 50
    assert read == 3000


# ---- observing -----------------------------------------------------------------------------------


@in_virtual_time
async def test_what_a_function_observes_reaches_its_pacer():
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "10",
        "x-ratelimit-reset-requests": "50s",
    }

    async def fn(x):
        limpet.pacing.observe(headers=headers, usage={"total_tokens": 7})

    executor = auto(fn)
    await executor.execute(range(5))
    assert executor.pacer.state.usage == {"total_tokens": 35}
    assert executor.pacer._limits.mirrors["requests"].limit == 60


def test_observing_from_a_thread_and_elsewhere():
    limpet.pacing.observe(headers={"x": "y"})  # no call is under way: nothing happens

    async def fn(x):
        await asyncio.to_thread(limpet.pacing.observe, usage={"total_tokens": 3})

    executor = auto(fn)
    executor.run(range(4))
    assert executor.pacer.state.usage == {"total_tokens": 12}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"concurrency": "fast"}, "concurrency='fast': must be a whole number, 1 or more, or"),
        ({"concurrency": "auto", "max_concurrency": 0}, "max_concurrency=0: must be"),
        ({"concurrency": "auto", "cost": 5}, "cost=5: must be a function"),
        ({"concurrency": "auto", "pacer": 5}, "pacer=5: must be a Pacer"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, message):
    async def fn(x):
        return x

    with pytest.raises((TypeError, ValueError)) as caught:
        AsyncExecutor(fn, **arguments)
    assert str(caught.value).startswith(message)


# ---- what a review found -------------------------------------------------------------------


async def run_with_bad_inputs(bad, count, status):
    async def fn(x):
        await asyncio.sleep(0.2)
        if x in bad:
            raise HttpError(status)
        await asyncio.sleep(0.8)
        return x

    executor = auto(fn)
    _, details = await executor.execute(range(count))
    return statuses(details), executor


@pytest.mark.parametrize(
    ("bad", "count", "status"),
    [
        (range(1), 600, 429),
        (range(3), 600, 429),
        (range(10), 300, 500),
        (range(0, 300, 30), 300, 500),
    ],
    ids=["1 refused", "3 refused", "10 broken", "every 30th broken"],
)
@in_virtual_time
async def test_a_few_bad_inputs_do_not_stop_a_healthy_run(bad, count, status):
    ended, executor = await run_with_bad_inputs(bad, count, status)
    assert executor.stop_reason is None
    assert [ended[x] for x in bad] == [FAILED] * len(bad)
    assert ended.count(FAILED) == len(bad)


@in_virtual_time
async def test_inputs_that_always_hang_end_failed():
    async def fn(x):
        await asyncio.sleep(1e6 if x < 12 else 1)
        return x

    executor = auto(fn, timeout=5, max_retries=3)
    _, details = await executor.execute(range(300))
    assert executor.stop_reason is None
    assert statuses(details) == [FAILED] * 12 + [COMPLETED] * 288


@pytest.mark.parametrize("how", ["interrupt", "quota"])
@in_virtual_time
async def test_a_failure_within_the_grace_of_a_stop_does_not_hang_it(how):
    async def fn(x):
        await asyncio.sleep(1 if x == 0 else 2)
        raise HttpError(402) if how == "quota" and x == 0 else ValueError

    executor = auto(fn, max_retries=0)
    task = asyncio.ensure_future(executor.execute(range(3)))
    await asyncio.sleep(1)
    if how == "interrupt":
        executor._latest.interrupt()
    await asyncio.wait_for(task, 60)


@in_virtual_time
async def test_an_answer_and_a_stop_in_the_same_turn():
    answer = asyncio.Event()

    async def fn(x):
        await answer.wait()
        return x

    executor = auto(fn)
    task = asyncio.ensure_future(executor.execute(range(100)))
    await asyncio.sleep(5)
    executor._latest.interrupt()
    answer.set()
    outputs, _ = await task
    assert outputs[:16] == list(range(16))


@pytest.mark.parametrize("retry_after", [30, 60, 110])
@in_virtual_time
async def test_a_short_incident_with_long_waits_does_not_ruin_the_run(retry_after):
    async def fn(x):
        await asyncio.sleep(0.2)
        if 1 <= now() < 120:
            raise HttpError(429, {"retry-after": str(retry_after)})
        return x

    outputs, _ = await auto(fn, max_concurrency=20).execute(range(400))
    assert outputs == list(range(400))
    assert now() < 1000  # it looks like a quota per minute at first; it was hours once


@in_virtual_time
async def test_endless_refusals_with_a_named_wait_stop_the_run_too():
    async def fn(x):
        await asyncio.sleep(0.2)
        if now() > 1:
            raise HttpError(429, {"retry-after": "30"})
        return x

    executor = auto(fn)
    await executor.execute(range(400))
    assert isinstance(executor.stop_reason, limpet.errors.EndpointDownError)
    assert now() < 1000


@in_virtual_time
async def test_a_wait_beyond_ten_minutes_stops_the_run_with_no_retries_left_either():
    async def fn(x):
        raise HttpError(429, {"retry-after": "3600"})

    executor = auto(fn, max_retries=0)
    await executor.execute(range(10))
    assert isinstance(executor.stop_reason, limpet.errors.QuotaExhaustedError)


@in_virtual_time
async def test_permanent_is_permanent_even_when_overloaded():
    calls = []

    async def fn(x):
        calls.append(x)
        raise HttpError(529)

    executor = auto(fn, classify=lambda _: "permanent")
    _, details = await executor.execute([1])
    assert statuses(details) == [FAILED]
    assert len(calls) == 1


@in_virtual_time
async def test_the_pacer_does_not_keep_inputs_alive():
    import gc
    import weakref

    class Input:
        pass

    alive = weakref.WeakSet()

    def inputs():
        for _ in range(1000):
            one = Input()
            alive.add(one)
            yield one

    async def fn(x):
        await asyncio.sleep(0.1)

    most = 0
    async for _ in auto(fn, max_concurrency=10).stream(inputs()):
        most = max(most, len(alive))
    gc.collect()
    assert most <= 60


@pytest.mark.parametrize("estimate", [1 / 3, None, "abc", {"tokens": None}, float("inf"), 1e9])
@in_virtual_time
async def test_an_odd_estimate_of_one_input_does_not_take_the_run_down(estimate, caplog):
    async def fn(x):
        await asyncio.sleep(0.1)
        return x

    def cost(x):
        if x == 5:
            return estimate
        if x == 6:
            raise KeyError("no such size")
        return 100

    outputs, _ = await auto(fn, cost=cost).execute(range(30))
    assert outputs == list(range(30))
    assert now() < 300
    assert "KeyError: 'no such size'" in caplog.text


@in_virtual_time
async def test_a_voided_probe_makes_room_for_the_next():
    pacer = Pacer()
    for _ in range(10):
        (await pacer.acquire()).failed()
    probe = await pacer.acquire()
    waiting = asyncio.ensure_future(pacer.acquire())
    await asyncio.sleep(1)
    probe.void()
    (await asyncio.wait_for(waiting, 60)).ok()
    assert not pacer.blocked


@in_virtual_time
async def test_cancelling_and_settling_in_the_same_turn():
    pacer = Pacer(max_in_flight=1)
    ticket = await pacer.acquire()
    waiting = asyncio.ensure_future(pacer.acquire())
    await asyncio.sleep(1)
    waiting.cancel()
    ticket.ok()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pacer.state.in_flight == 0
    assert pacer.state.failed == 0


def test_a_ticket_of_a_closed_loop_does_not_disturb_the_next():
    import virtual_time

    pacer, old = Pacer(max_in_flight=2), []

    async def one():
        old.append(await pacer.acquire())

    async def two():
        tickets = [await pacer.acquire() for _ in range(2)]
        old[0].ok()
        assert pacer.state.in_flight == 2
        tickets[0].ok()

    virtual_time.run(one())
    virtual_time.run(two())
    with pytest.raises(limpet.LimpetError, match="already settled"):
        virtual_time.run(settle(old[0]))


async def settle(ticket):
    ticket.ok()


@pytest.mark.parametrize(
    "memory",
    [
        {"rate": 1e-300},
        {"per_minute": 1e-9},
        {"rate": 1e-6},
        {"mean_cost": 1e300},
        {"latency_s": 1.7e308},
        {"rate": 0.2, "mean_cost": 1.0},
    ],
    ids=str,
)
@in_virtual_time
async def test_no_memory_makes_a_run_crawl_or_crash(memory):
    async def fn(x):
        await asyncio.sleep(0.1)
        if x == 9 and now() < 5:
            raise HttpError(429)
        return x

    pacer = Pacer()
    pacer.memory = {"version": 1, **memory}
    outputs, _ = await auto(fn, pacer=pacer).execute(range(20))
    assert outputs == list(range(20))
    assert now() < 3600


@pytest.mark.slow  # thousands of calls
@in_virtual_time
async def test_calls_that_take_no_time_at_all_break_nothing():
    async def fn(x):
        if x == 2900 and not refused:
            refused.append(x)
            raise HttpError(429)
        return x

    refused = []
    outputs, _ = await auto(fn).execute(range(3000))
    assert outputs == list(range(3000))


@in_virtual_time
async def test_a_stop_does_not_wait_for_calls_that_wait_for_an_endpoint_that_is_down():
    made = []

    async def vote():
        async with limpet.pacing.endpoint("judge"):
            made.append(asyncio.get_running_loop().time())
            raise ConnectionRefusedError("nobody listens")

    async def score(_):
        votes = await asyncio.gather(*(vote() for _ in range(3)), return_exceptions=True)
        raise votes[0]

    def stop():
        executor.stop(limpet.errors.InterruptedRunError("enough"), grace_s=math.inf)
        made.clear()

    executor = AsyncExecutor(score, 8, exit_on_error=False, max_retries=1_000)
    with pacing_with(PacerRegistry()):
        asyncio.get_running_loop().call_later(20, stop)
        await executor.execute(range(8))
    assert len(made) <= 1  # a probe that was under way
    assert asyncio.get_running_loop().time() < 25
