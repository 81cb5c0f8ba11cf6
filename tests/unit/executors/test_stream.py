"""Streaming, hooks, ages and cancelling one call."""

import asyncio
import gc
import weakref

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor, RateLimitError
from limpet.executors import ExecutionStatus, Finished


def now():
    return asyncio.get_running_loop().time()


async def sleep_for(seconds):
    await asyncio.sleep(seconds)
    return f"slept {seconds}"


@in_virtual_time
async def test_each_input_is_yielded_the_moment_it_is_done():
    seen = []
    async for done in AsyncExecutor(sleep_for, concurrency=3).stream([3, 1, 2]):
        assert isinstance(done, Finished)
        seen.append((done.index, done.input, done.output, done.error, now()))
    assert seen == [
        (1, 1, "slept 1", None, 1),
        (2, 2, "slept 2", None, 2),
        (0, 3, "slept 3", None, 3),
    ]


@in_virtual_time
async def test_a_failed_input_is_yielded_with_its_error_and_the_fallback():
    async def fn(x):
        raise limpet.PermanentError(f"no {x}")

    executor = AsyncExecutor(fn, exit_on_error=False, fallback_return_value="-")
    done = [one async for one in executor.stream([7])]
    assert [(one.output, str(one.error)) for one in done] == [("-", "no 7")]
    assert done[0].details.status is ExecutionStatus.FAILED


@in_virtual_time
async def test_exit_on_error_ends_the_stream_after_the_failure():
    async def fn(x):
        await asyncio.sleep(x)
        if x == 2:
            raise limpet.PermanentError("no")

    done = [one.index async for one in AsyncExecutor(fn, 2).stream([1, 2, 3, 4])]
    assert done == [0, 1]


@in_virtual_time
async def test_a_slow_reader_holds_the_inputs_back():
    taken = 0

    def inputs():
        nonlocal taken
        for x in range(1000):
            taken += 1
            yield x

    async def fn(x):
        return x

    read = 0
    async for _ in AsyncExecutor(fn, concurrency=3).stream(inputs()):
        read += 1
        await asyncio.sleep(1)
        assert taken - read <= 15
    assert read == 1000


@in_virtual_time
async def test_a_slow_reader_of_async_inputs_gets_them_all():
    async def inputs():
        for x in range(100):
            yield x

    async def fn(x):
        return x

    read = []
    async for done in AsyncExecutor(fn, concurrency=2).stream(inputs()):
        await asyncio.sleep(1)
        read.append(done.output)
    assert sorted(read) == list(range(100))


@in_virtual_time
async def test_finished_inputs_are_not_held():
    class Input:
        pass

    alive = weakref.WeakSet()

    def inputs():
        for _ in range(300):
            one = Input()
            alive.add(one)
            yield one

    async def fn(x):
        await asyncio.sleep(1)

    most = 0
    gc.freeze()  # do not scan other tests' objects three hundred times
    try:
        async for _ in AsyncExecutor(fn, concurrency=4).stream(inputs()):
            gc.collect()
            most = max(most, len(alive))
    finally:
        gc.unfreeze()
    assert most <= 20 + 2  # the bound, the one just yielded, and the generator's own


@in_virtual_time
async def test_leaving_the_stream_early_cancels_what_is_in_flight():
    cancelled = []

    async def fn(x):
        try:
            await asyncio.sleep(x)
        except asyncio.CancelledError:
            cancelled.append(x)
            raise

    stream = AsyncExecutor(fn, concurrency=3).stream([1, 50, 60, 70])
    async for _ in stream:
        break
    await stream.aclose()
    assert sorted(cancelled) == [50, 60, 70] or sorted(cancelled) == [50, 60]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert now() < 3


@in_virtual_time
async def test_inputs_that_raise_raise_out_of_the_stream_after_what_was_done():
    def inputs():
        yield 1
        raise OSError("broken")

    got = []
    with pytest.raises(OSError, match="broken"):
        async for done in AsyncExecutor(sleep_for).stream(inputs()):
            got.append(done.output)
    assert got == ["slept 1"]


# ---- hooks -------------------------------------------------------------------------------


@in_virtual_time
async def test_on_complete_may_be_sync():
    seen = []
    await AsyncExecutor(sleep_for, on_complete=lambda done: seen.append(done.index)).execute([2, 1])
    assert seen == [1, 0]


@in_virtual_time
async def test_on_complete_may_be_async_and_the_run_waits_for_it():
    written = []

    async def write(done):
        await asyncio.sleep(5)
        written.append((done.index, now()))

    await AsyncExecutor(sleep_for, on_complete=write).execute([1, 2])
    assert written == [(0, 6), (1, 7)]
    assert now() == 7


@in_virtual_time
async def test_async_callbacks_hold_the_inputs_back():
    under_way, most = 0, 0

    async def write(done):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(100)
        under_way -= 1

    async def fn(x):
        return x

    await AsyncExecutor(fn, concurrency=2, on_complete=write).execute(range(50))
    assert most == 10


@pytest.mark.parametrize("kind", ["sync", "async"])
@in_virtual_time
async def test_a_callback_that_fails_is_logged_with_its_traceback_and_harms_nothing(kind, caplog):
    def fail(done):
        raise RuntimeError("the callback's own trouble")

    async def async_fail(done):
        fail(done)

    executor = AsyncExecutor(sleep_for, on_complete=fail if kind == "sync" else async_fail)
    outputs, details = await executor.execute([1, 2])
    assert outputs == ["slept 1", "slept 2"]
    assert {one.status for one in details} == {ExecutionStatus.COMPLETED}
    assert caplog.text.count("RuntimeError: the callback's own trouble") == 2
    assert "Traceback" in caplog.text


@in_virtual_time
async def test_the_start_and_the_end_of_each_attempt_are_told():
    story = []

    def started(attempt):
        story.append(("start", attempt.index, attempt.number, attempt.started_at))

    def ended(attempt):
        story.append(("end", attempt.index, attempt.number, attempt.seconds, attempt.retry_in))
        if attempt.error:
            kinds.append((type(attempt.error), attempt.kind))

    async def fn(x):
        await asyncio.sleep(1)
        if len(kinds) == 0:
            raise RateLimitError(retry_after=10)
        if len(kinds) == 1:
            await asyncio.sleep(1e6)
        return x

    kinds = []
    executor = AsyncExecutor(fn, timeout=5, on_attempt_start=started, on_attempt_end=ended)
    await executor.execute(["x"])
    assert story == [
        ("start", 0, 1, 0),
        ("end", 0, 1, 1, 10),
        ("start", 0, 2, 11),
        ("end", 0, 2, 5, 0),
        ("start", 0, 3, 16),
        ("end", 0, 3, 1, None),
    ]
    assert kinds == [(RateLimitError, "rate_limit"), (TimeoutError, None)]


@in_virtual_time
async def test_a_hook_that_cancels_another_call_does_not_end_the_run_early():
    def ended(attempt):
        if attempt.number == 1:
            executor.cancel(1)

    async def fn(x):
        await asyncio.sleep(1)
        if x == 0 and now() < 5:
            raise RateLimitError(retry_after=10)
        await asyncio.sleep(x * 100)
        return x

    executor = AsyncExecutor(fn, 2, on_attempt_end=ended)
    _, details = await executor.execute([0, 1])
    assert [one.status for one in details] == [
        ExecutionStatus.COMPLETED_WITH_RETRIES,
        ExecutionStatus.FAILED,
    ]


# ---- looking in, and cancelling one --------------------------------------------------------


@in_virtual_time
async def test_the_ages_of_what_is_in_flight_oldest_first():
    executor = AsyncExecutor(sleep_for, concurrency=2)
    assert executor.in_flight() == {}
    task = asyncio.ensure_future(executor.execute([5, 1, 10]))
    await asyncio.sleep(3)
    assert list(executor.in_flight().items()) == [(0, 3), (2, 2)]
    await task
    assert executor.in_flight() == {}


@in_virtual_time
async def test_one_call_in_flight_can_be_cancelled_and_the_run_goes_on():
    executor = AsyncExecutor(sleep_for, concurrency=2, fallback_return_value="gone")
    task = asyncio.ensure_future(executor.execute([50, 1, 2]))
    await asyncio.sleep(0.5)
    assert executor.cancel(0)
    outputs, details = await task
    assert outputs == ["gone", "slept 1", "slept 2"]
    assert details[0].status is ExecutionStatus.FAILED
    assert isinstance(details[0].exceptions[0], limpet.errors.CallCancelledError)
    assert now() == 2.5
    assert executor.stop_reason is None


@in_virtual_time
async def test_a_call_that_waits_can_be_cancelled():
    async def fn(x):
        raise RateLimitError(retry_after=1000)

    executor = AsyncExecutor(fn)
    task = asyncio.ensure_future(executor.execute([1]))
    await asyncio.sleep(1)
    assert executor.cancel(0)
    _, details = await task
    assert details[0].status is ExecutionStatus.FAILED
    assert now() == 1


@in_virtual_time
async def test_cancelling_what_is_not_there_says_so():
    executor = AsyncExecutor(sleep_for)
    assert not executor.cancel(0)
    await executor.execute([1])
    assert not executor.cancel(0)
    assert not executor.cancel(99)


@in_virtual_time
async def test_drain_runs_all_and_only_the_hook_sees_the_results():
    seen = []
    executor = AsyncExecutor(sleep_for, concurrency=2, on_complete=lambda done: seen.append(done))
    assert await executor.drain([2, 1, 3]) is None
    assert [done.output for done in seen] == ["slept 1", "slept 2", "slept 3"]
    assert now() == 4


@in_virtual_time
async def test_a_run_ends_when_the_future_that_its_hook_returned_is_done(caplog):
    futures = []

    def hook(_):
        futures.append(asyncio.get_running_loop().create_future())
        asyncio.get_running_loop().call_later(5, futures[-1].set_exception, ValueError("late"))
        return futures[-1]

    await AsyncExecutor(sleep_for, on_complete=hook).execute([1])
    assert now() == 6
    assert "the hook" in caplog.text
    assert "late" in caplog.text
