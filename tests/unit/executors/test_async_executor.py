"""The executor's contract: order, retries, timeouts, bounds and ends. All on virtual time."""

import asyncio
import contextvars

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor, RateLimitError
from limpet.executors import Backoff, ExecutionStatus, Executor

DID_NOT_RUN = ExecutionStatus.DID_NOT_RUN
COMPLETED = ExecutionStatus.COMPLETED
RETRIED = ExecutionStatus.COMPLETED_WITH_RETRIES
FAILED = ExecutionStatus.FAILED

NO_WAIT = Backoff(base_s=0)


def now():
    return asyncio.get_running_loop().time()


def statuses(details):
    return [one.status for one in details]


async def double(x):
    await asyncio.sleep(1)
    return 2 * x


def failing(times, error=ValueError):
    """A function that fails `times` times for each input, then returns it."""
    seen = {}

    async def fn(x):
        seen[x] = seen.get(x, 0) + 1
        if seen[x] <= times:
            raise error(f"{x} for the {seen[x]}. time")
        return x

    fn.calls = seen
    return fn


# ---- order and results -------------------------------------------------------------------


@in_virtual_time
async def test_outputs_and_details_come_in_input_order():
    async def slowest_first(x):
        await asyncio.sleep(10 - x)
        return -x

    outputs, details = await AsyncExecutor(slowest_first, concurrency=10).execute(range(10))
    assert outputs == [-x for x in range(10)]
    assert statuses(details) == [COMPLETED] * 10
    assert [one.execution_seconds for one in details] == [10 - x for x in range(10)]


@in_virtual_time
async def test_no_inputs_are_done_at_once():
    assert await AsyncExecutor(double).execute([]) == ([], [])
    assert now() == 0


@in_virtual_time
async def test_never_more_than_concurrency_in_flight_and_every_slot_busy():
    running, peak = 0, 0

    async def fn(x):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(1)
        running -= 1
        return x

    await AsyncExecutor(fn, concurrency=7).execute(range(70))
    assert peak == 7
    assert now() == 10


@in_virtual_time
async def test_a_failed_input_holds_the_fallback_and_the_others_go_on():
    async def fn(x):
        if x == 2:
            raise limpet.PermanentError("never")
        return x

    executor = AsyncExecutor(fn, exit_on_error=False, fallback_return_value="nothing")
    outputs, details = await executor.execute(range(5))
    assert outputs == [0, 1, "nothing", 3, 4]
    assert statuses(details) == [COMPLETED, COMPLETED, FAILED, COMPLETED, COMPLETED]
    assert executor.stop_reason is None


@in_virtual_time
async def test_without_a_fallback_the_unset_value_stands_in():
    async def fn(x):
        raise limpet.PermanentError("never")

    outputs, _ = await AsyncExecutor(fn).execute([1])
    assert outputs == [limpet.executors.UNSET]
    assert repr(limpet.executors.UNSET) == "<unset>"


@in_virtual_time
async def test_an_executor_can_run_again_and_twice_at_once():
    executor = AsyncExecutor(double, concurrency=2)
    assert (await executor.execute([1, 2]))[0] == [2, 4]
    first, second = await asyncio.gather(executor.execute([3]), executor.execute([4, 5]))
    assert (first[0], second[0]) == ([6], [8, 10])


# ---- stopping at the first error ---------------------------------------------------------


@in_virtual_time
async def test_exit_on_error_returns_what_was_finished_and_runs_nothing_more():
    started = []

    async def fn(x):
        started.append(x)
        await asyncio.sleep(1 if x < 3 else 100)
        if x == 2:
            raise ValueError(x)
        return x

    executor = AsyncExecutor(fn, concurrency=2, max_retries=0, fallback_return_value=-1)
    outputs, details = await executor.execute(range(10))
    assert outputs == [0, 1, -1, -1, -1, -1, -1, -1, -1, -1]
    assert statuses(details) == [COMPLETED, COMPLETED, FAILED] + [DID_NOT_RUN] * 7
    assert started == [0, 1, 2, 3]
    assert now() == 2  # input 3 was cancelled, not waited for
    assert isinstance(executor.stop_reason, ValueError)


@in_virtual_time
async def test_a_call_cancelled_by_the_stop_before_its_first_step_holds_nothing_up():
    async def fn(x):
        if x == 0:
            raise limpet.PermanentError("at once")
        await asyncio.sleep(100)

    _, details = await AsyncExecutor(fn, concurrency=50).execute(range(50))
    assert statuses(details) == [FAILED] + [DID_NOT_RUN] * 49
    assert now() == 0


# ---- retries -----------------------------------------------------------------------------


@in_virtual_time
async def test_completed_after_retries_says_so_and_keeps_every_exception():
    outputs, details = await AsyncExecutor(failing(2), max_retries=2).execute(["a"])
    assert outputs == ["a"]
    assert statuses(details) == [RETRIED]
    assert [str(one) for one in details[0].exceptions] == [
        "a for the 1. time",
        "a for the 2. time",
    ]


@in_virtual_time
async def test_after_max_retries_the_input_is_failed():
    fn = failing(99)
    _, details = await AsyncExecutor(fn, max_retries=3).execute(["a"])
    assert statuses(details) == [FAILED]
    assert fn.calls == {"a": 4}
    assert len(details[0].exceptions) == 4


@in_virtual_time
async def test_a_retry_runs_before_fresh_work_and_the_most_retried_first():
    order = []

    async def fn(x):
        order.append(x)
        await asyncio.sleep(1)
        if (x, order.count(x)) in {("a", 1), ("a", 2), ("b", 1)}:
            raise ValueError(x)

    executor = AsyncExecutor(fn, concurrency=1, backoff=NO_WAIT)
    await executor.execute("abcd")
    assert order == ["a", "a", "a", "b", "b", "c", "d"]


@in_virtual_time
async def test_of_two_that_are_ready_the_one_retried_more_often_runs_first():
    order = []

    async def fn(x):
        order.append(x)
        await asyncio.sleep(1)
        if x == "late" and order.count(x) <= 2:
            raise RateLimitError(retry_after=0 if order.count(x) == 1 else 5)
        if x == "early" and order.count(x) == 1:
            raise RateLimitError(retry_after=6)

    # late: runs 0-1, 1-2, due at 7; early: runs 2-3, due at 9; one call blocks 3-12.
    async def with_a_long_one(x):
        if x == "long":
            order.append(x)
            await asyncio.sleep(9)
        else:
            await fn(x)

    executor = AsyncExecutor(with_a_long_one, concurrency=1, enable_dynamic_concurrency=False)
    await executor.execute(["late", "early", "long", "fresh"])
    assert order == ["late", "late", "early", "long", "late", "early", "fresh"]


@in_virtual_time
async def test_a_waiting_call_holds_no_worker():
    finished_at = {}

    async def fn(x):
        if x == 0 and 0 not in finished_at:
            finished_at[0] = None
            raise RateLimitError(retry_after=1000)
        await asyncio.sleep(1)
        finished_at[x] = now()

    executor = AsyncExecutor(fn, concurrency=1, enable_dynamic_concurrency=False)
    await executor.execute(range(5))
    assert finished_at == {0: 1001, 1: 1, 2: 2, 3: 3, 4: 4}


@in_virtual_time
async def test_retries_back_off_with_full_jitter_up_to_the_cap():
    gaps, last = [], None

    async def fn(_):
        nonlocal last
        if last is not None:
            gaps.append(now() - last)
        last = now()
        raise ValueError

    await AsyncExecutor(fn, max_retries=200, backoff=Backoff(0.1, 8.0)).execute([1])
    ceilings = [min(8.0, 0.1 * 2**n) for n in range(200)]
    assert all(0 <= gap <= top + 1e-9 for gap, top in zip(gaps, ceilings, strict=True))
    late = gaps[10:]
    assert max(late) > 6 > 2 > min(late)  # the draw is over the whole range
    assert len({round(gap, 6) for gap in gaps}) > 150


@in_virtual_time
async def test_a_wait_named_by_the_server_is_honoured_exactly():
    started = []

    async def fn(_):
        started.append(now())
        if len(started) <= 3:
            raise RateLimitError(retry_after=[7.25, 0.5, 3600][len(started) - 1])

    await AsyncExecutor(fn).execute([1])
    assert started == [0, 7.25, 7.75, 3607.75]


@in_virtual_time
async def test_a_permanent_error_fails_at_once_and_burns_no_retries():
    fn = failing(99, limpet.PermanentError)
    _, details = await AsyncExecutor(fn).execute(["a"])
    assert fn.calls == {"a": 1}
    assert statuses(details) == [FAILED]


@in_virtual_time
async def test_the_user_can_decide_what_an_error_means():
    def classify(error):
        return "permanent" if "hopeless" in str(error) else None

    calls = []

    async def fn(x):
        calls.append(x)
        if calls.count(x) < 3:
            raise ValueError(x)

    executor = AsyncExecutor(fn, exit_on_error=False, classify=classify, backoff=NO_WAIT)
    _, details = await executor.execute(["hopeless", "hopeful"])
    assert statuses(details) == [FAILED, RETRIED]
    assert calls.count("hopeless") == 1


@pytest.mark.parametrize("verdict", ["nonsense", 7])
@in_virtual_time
async def test_a_faulty_classify_is_logged_and_the_built_in_judgement_stands_in(verdict, caplog):
    _, details = await AsyncExecutor(failing(1), classify=lambda _: verdict).execute([1])
    assert statuses(details) == [RETRIED]
    assert "using the built-in classification" in caplog.text
    assert "Traceback" in caplog.text


# ---- an exhausted quota ------------------------------------------------------------------


class OpenAIQuotaError(Exception):
    status_code = 429
    code = "insufficient_quota"


@in_virtual_time
async def test_an_exhausted_quota_stops_the_run_and_fails_nothing(caplog):
    async def fn(x):
        await asyncio.sleep(1 if x != 1 else 1.5)
        if x == 2:
            raise OpenAIQuotaError("You exceeded your current quota")
        return x

    executor = AsyncExecutor(fn, concurrency=2, exit_on_error=False)
    outputs, details = await executor.execute(range(10))
    # 0 and 1 were done, 2 met the wall, 3 was in flight and had time to end: no more was requested.
    assert statuses(details) == [COMPLETED, COMPLETED, DID_NOT_RUN, COMPLETED] + [DID_NOT_RUN] * 6
    assert outputs[:4] == [0, 1, limpet.executors.UNSET, 3]
    assert isinstance(executor.stop_reason, limpet.errors.QuotaExhaustedError)
    assert "quota is exhausted" in caplog.text
    assert "top up" in caplog.text
    assert isinstance(details[2].exceptions[0], OpenAIQuotaError)


# ---- timeouts ----------------------------------------------------------------------------


@in_virtual_time
async def test_the_time_limit_is_60_s_by_default():
    async def hang(_):
        await asyncio.sleep(1e6)

    executor = AsyncExecutor(hang, max_timeouts=0)
    _, details = await executor.execute([1])
    assert executor.timeout == 60
    assert now() == 60
    assert statuses(details) == [FAILED]
    assert isinstance(details[0].exceptions[0], TimeoutError)


@in_virtual_time
async def test_a_hung_input_ends_failed_after_its_own_budget_of_timeouts():
    starts = []

    async def hang(_):
        starts.append(now())
        await asyncio.sleep(1e6)

    executor = AsyncExecutor(hang, timeout=5, max_retries=0, max_timeouts=3)
    _, details = await executor.execute([1])
    assert starts == [0, 5, 10, 15]
    assert statuses(details) == [FAILED]
    assert details[0].execution_seconds == 20


@in_virtual_time
async def test_the_timeout_budget_equals_max_retries_unless_told():
    assert AsyncExecutor(double, max_retries=4).max_timeouts == 4


@in_virtual_time
async def test_a_timeout_does_not_burn_the_retry_budget():
    attempts = []

    async def fn(_):
        attempts.append(now())
        if len(attempts) in (1, 3):
            await asyncio.sleep(1e6)
        if len(attempts) == 2:
            raise RateLimitError(retry_after=1)
        return "done"

    executor = AsyncExecutor(fn, timeout=5, max_retries=1, max_timeouts=2)
    outputs, details = await executor.execute([1])
    assert outputs == ["done"]
    assert statuses(details) == [RETRIED]
    assert attempts == [0, 5, 6, 11]


@in_virtual_time
async def test_a_timed_out_attempt_is_cancelled_and_comes_back_at_the_same_priority():
    order, cancelled = [], []

    async def fn(x):
        order.append(x)
        try:
            if x == "hangs" and order.count(x) == 1:
                await asyncio.sleep(1e6)
            await asyncio.sleep(1)
            if x == "retried" and order.count(x) == 1:
                raise RateLimitError(retry_after=4)
        except asyncio.CancelledError:
            cancelled.append((x, now()))
            raise

    executor = AsyncExecutor(fn, concurrency=2, timeout=5, enable_dynamic_concurrency=False)
    await executor.execute(["hangs", "retried", "a", "b", "c", "d", "e", "f"])
    assert cancelled == [("hangs", 5)]
    # At 5 s both came back: the retry, one priority step up, before the timeout; then the rest.
    assert order == ["hangs", "retried", "a", "b", "c", "d", "retried", "hangs", "e", "f"]


@in_virtual_time
async def test_a_task_that_ignores_its_cancellation_is_abandoned_after_a_second(caplog):
    release = asyncio.Event()

    async def stubborn(x):
        if x == 0:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    pass
            return "too late"
        return x

    executor = AsyncExecutor(stubborn, timeout=5, max_timeouts=1, exit_on_error=False)
    outputs, details = await executor.execute([0, 1])
    assert now() == 12  # two attempts of 5 s and a grace of 1 s each
    assert outputs == [limpet.executors.UNSET, 1]
    assert statuses(details) == [FAILED, COMPLETED]
    assert executor.abandoned == 2
    assert "ignored its cancellation" in caplog.text
    release.set()  # its result comes too late and is ignored
    await asyncio.sleep(1)
    assert outputs == [limpet.executors.UNSET, 1]


@in_virtual_time
async def test_what_a_cancelled_call_returns_is_no_answer():
    async def swallow(_):
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            return "half an answer"

    executor = AsyncExecutor(swallow, timeout=5, max_timeouts=0)
    outputs, details = await executor.execute([1])
    assert outputs == [limpet.executors.UNSET]
    assert statuses(details) == [FAILED]


@in_virtual_time
async def test_only_the_overdue_attempt_is_cancelled():
    async def fn(x):
        await asyncio.sleep(x)
        return x

    executor = AsyncExecutor(fn, 3, timeout=10, max_timeouts=0, exit_on_error=False)
    outputs, _ = await executor.execute([4, 9, 11, 9, 9])
    assert outputs == [4, 9, limpet.executors.UNSET, 9, 9]


# ---- inputs and bounds -------------------------------------------------------------------


@pytest.mark.parametrize(
    "inputs",
    [[1, 2, 3], (1, 2, 3), range(1, 4), {1: "a", 2: "b", 3: "c"}, iter([1, 2, 3])],
    ids=["list", "tuple", "range", "dict", "iterator"],
)
@in_virtual_time
async def test_inputs_may_be_anything_iterable(inputs):
    assert (await AsyncExecutor(double).execute(inputs))[0] == [2, 4, 6]


@in_virtual_time
async def test_inputs_may_be_an_async_iterable():
    async def slowly():
        for x in range(4):
            await asyncio.sleep(10)
            yield x

    outputs, details = await AsyncExecutor(double, concurrency=2).execute(slowly())
    assert outputs == [0, 2, 4, 6]
    assert statuses(details) == [COMPLETED] * 4
    assert now() == 41


@in_virtual_time
async def test_a_stopped_run_has_an_output_for_every_input_of_a_sized_one():
    async def fn(x):
        raise limpet.PermanentError("no")

    outputs, details = await AsyncExecutor(fn, 1).execute(range(100))
    assert len(outputs) == len(details) == 100
    outputs, details = await AsyncExecutor(fn, 1).execute(iter(range(100)))
    assert len(outputs) == len(details) == 1  # as many as were taken; the rest are unknown


@pytest.mark.parametrize("source", ["iterable", "async iterable"])
@in_virtual_time
async def test_what_is_held_stays_within_five_times_the_concurrency(source):
    taken, done, most = 0, 0, 0

    def inputs():
        nonlocal taken, most
        for x in range(500):
            taken += 1
            most = max(most, taken - done)
            yield x

    async def async_inputs():
        for x in inputs():
            yield x

    async def fn(x):
        nonlocal done
        await asyncio.sleep(1)
        if x % 2 and x not in seen:
            seen.add(x)
            raise RateLimitError(retry_after=60)  # so many wait at once
        done += 1

    seen = set()
    executor = AsyncExecutor(fn, concurrency=4, enable_dynamic_concurrency=False)
    _, details = await executor.execute(inputs() if source == "iterable" else async_inputs())
    assert done == 500
    assert most == 20  # the bound is used, and kept
    assert statuses(details) == [COMPLETED, RETRIED] * 250


@pytest.mark.parametrize("source", ["iterable", "async iterable"])
@in_virtual_time
async def test_inputs_that_raise_end_the_run_after_what_was_taken(source):
    done = []

    def inputs():
        yield 1
        yield 2
        raise OSError("line 3 is broken")

    async def async_inputs():
        for x in inputs():
            yield x

    async def fn(x):
        await asyncio.sleep(1)
        done.append(x)

    with pytest.raises(OSError, match="line 3 is broken"):
        await AsyncExecutor(fn).execute(inputs() if source == "iterable" else async_inputs())
    assert done == [1, 2]


# ---- the controller and the slots --------------------------------------------------------


@in_virtual_time
async def test_a_rate_limit_tells_the_controller_and_an_ordinary_error_does_not():
    peaks = {}

    async def run(error):
        running, count = 0, 0

        async def fn(x):
            nonlocal running, count
            running += 1
            count += 1
            mine = count
            await asyncio.sleep(1)
            if mine > 20:  # after the trouble
                peaks[error] = max(peaks.get(error, 0), running)
            running -= 1
            if mine in (1, 2):
                raise error("x")
            return x

        await AsyncExecutor(fn, concurrency=10, dynamic_window_seconds=1000).execute(range(60))

    await run(RateLimitError)
    await run(ValueError)
    assert peaks == {RateLimitError: 1, ValueError: 10}


@in_virtual_time
async def test_the_target_recovers_and_wakes_the_resting_slots():
    running, over_time = 0, {}

    async def fn(x):
        nonlocal running
        running += 1
        over_time[int(now())] = running
        await asyncio.sleep(1)
        running -= 1
        if x < 2 and x not in seen:
            seen.add(x)
            raise RateLimitError(retry_after=0)
        return x

    seen = set()
    await AsyncExecutor(fn, concurrency=4, dynamic_window_seconds=10).execute(range(120))
    assert over_time[5] == 1  # collapsed by two refusals
    assert over_time[25] == 2  # the window of the refusals, then a clean one
    assert max(over_time.values()) == 4


@in_virtual_time
async def test_a_change_of_target_from_outside_starts_calls_at_once():
    executor = AsyncExecutor(
        double, concurrency=3, dynamic_initial_target=1, dynamic_window_seconds=0.5
    )
    task = asyncio.ensure_future(executor.execute(range(2)))
    await asyncio.sleep(0.75)
    assert len(executor.in_flight()) == 1
    executor._settings.controller.record_success(0.1)  # a clean window: the target becomes 2
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(executor.in_flight()) == 2
    await task


@in_virtual_time
async def test_resting_slots_do_not_poll():
    async def an_hour(_):
        await asyncio.sleep(3600)

    executor = AsyncExecutor(an_hour, 100, timeout=7200, dynamic_initial_target=1)
    await executor.execute(range(3))
    assert now() == 2 * 3600  # the first call alone, then the target has grown to two
    assert asyncio.get_running_loop().jumps < 10


@in_virtual_time
async def test_without_dynamic_concurrency_refusals_change_nothing():
    fn = failing(1, RateLimitError)
    executor = AsyncExecutor(fn, 4, enable_dynamic_concurrency=False, backoff=NO_WAIT)
    _, details = await executor.execute(range(8))
    assert statuses(details) == [RETRIED] * 8


# ---- hygiene -----------------------------------------------------------------------------

WHO = contextvars.ContextVar("WHO", default="nobody")


@in_virtual_time
async def test_each_attempt_sees_the_callers_context_and_not_another_attempts():
    async def fn(x):
        before = WHO.get()
        WHO.set(x)
        await asyncio.sleep(1)
        return before

    WHO.set("caller")
    outputs, _ = await AsyncExecutor(fn, concurrency=2).execute(range(10))
    assert outputs == ["caller"] * 10
    assert WHO.get() == "caller"


@in_virtual_time
async def test_a_run_leaves_no_task_and_no_timer_behind():
    loop = asyncio.get_running_loop()
    await AsyncExecutor(failing(1), concurrency=5).execute(range(50))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await asyncio.sleep(0)
    assert [one for one in loop._scheduled if not one.cancelled()] == []


@in_virtual_time
async def test_cancelling_the_caller_cancels_what_is_in_flight():
    ended = []

    async def fn(x):
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(x)

    task = asyncio.ensure_future(AsyncExecutor(fn, concurrency=3).execute(range(10)))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [0, 1, 2]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_a_call_cancelled_from_inside_is_tried_again():
    calls = []

    async def fn(x):
        calls.append(x)
        if len(calls) == 1:
            raise asyncio.CancelledError
        return x

    outputs, details = await AsyncExecutor(fn).execute([1])
    assert outputs == [1]
    assert "cancelled from inside" in str(details[0].exceptions[0])


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_goes_through(fatal, virtual_loops):
    async def fn(x):
        await asyncio.sleep(1)
        raise fatal

    with pytest.raises(fatal):
        AsyncExecutor(fn, concurrency=2).run(range(5))


def test_it_is_an_executor():
    assert isinstance(AsyncExecutor(double), Executor)
