"""Signals: one stops, two stop at once, and the previous handler is always restored."""

import asyncio
import os
import signal
import threading

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor, SyncExecutor
from limpet.errors import InterruptedRunError
from limpet.executors import ExecutionStatus

DID_NOT_RUN = ExecutionStatus.DID_NOT_RUN
COMPLETED = ExecutionStatus.COMPLETED


def now():
    return asyncio.get_running_loop().time()


def send(signum=signal.SIGINT):
    os.kill(os.getpid(), signum)


@pytest.fixture(autouse=True)
def the_handler_is_restored():
    def mine(signum, frame):
        raise AssertionError("nobody handled the signal")

    before = {one: signal.signal(one, mine) for one in (signal.SIGINT, signal.SIGUSR1)}
    yield
    after = {one: signal.signal(one, before[one]) for one in before}
    assert set(after.values()) == {mine}


async def sleep_for(seconds):
    await asyncio.sleep(seconds)
    return seconds


@in_virtual_time
async def test_the_first_signal_stops_new_work_and_lets_calls_in_flight_end_in_a_short_grace(
    caplog,
):
    executor = AsyncExecutor(sleep_for, concurrency=2)
    task = asyncio.ensure_future(executor.execute([1, 11, 100, 1, 1]))
    await asyncio.sleep(10)
    send()
    outputs, details = await task
    assert outputs[:2] == [1, 11]
    assert [one.status for one in details] == [COMPLETED, COMPLETED] + [DID_NOT_RUN] * 3
    assert now() == 12
    assert isinstance(executor.stop_reason, InterruptedRunError)
    assert "stopping: 2 calls in flight, signal again to stop now" in caplog.text


@in_virtual_time
async def test_the_second_signal_stops_at_once():
    release = asyncio.Event()

    async def stubborn(x):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    executor = AsyncExecutor(stubborn, timeout=1e7)
    task = asyncio.ensure_future(executor.execute(range(5)))
    await asyncio.sleep(1)
    send()
    await asyncio.sleep(0.5)
    send()
    _, details = await task
    assert now() == 1.5
    assert {one.status for one in details} == {DID_NOT_RUN}
    release.set()


@in_virtual_time
async def test_a_call_that_waits_does_not_hold_up_the_stop():
    async def fn(x):
        raise limpet.RateLimitError(retry_after=1000)

    executor = AsyncExecutor(fn)
    task = asyncio.ensure_future(executor.execute([1]))
    await asyncio.sleep(1)
    send()
    _, details = await task
    assert now() == 1
    assert details[0].status is DID_NOT_RUN
    assert len(details[0].exceptions) == 1


@in_virtual_time
async def test_another_signal_can_be_chosen():
    executor = AsyncExecutor(sleep_for, termination_signal=signal.SIGUSR1)
    task = asyncio.ensure_future(executor.execute([50, 60]))
    await asyncio.sleep(1)
    send(signal.SIGUSR1)
    await task
    assert now() == 3


@in_virtual_time
async def test_with_no_termination_signal_no_handler_is_touched():
    executor = AsyncExecutor(sleep_for, termination_signal=None)
    task = asyncio.ensure_future(executor.execute([5]))
    before = signal.getsignal(signal.SIGINT)
    await asyncio.sleep(1)
    assert signal.getsignal(signal.SIGINT) is before
    await task


@in_virtual_time
async def test_overlapping_runs_all_hear_the_signal_and_restore_in_any_order():
    tasks = [
        asyncio.ensure_future(AsyncExecutor(sleep_for).execute(inputs))
        for inputs in ([5], [100], [200])
    ]
    await asyncio.sleep(10)  # the first that installed a handler is gone by now
    send()
    results = await asyncio.gather(*tasks)
    assert [details[0].status for _, details in results] == [COMPLETED, DID_NOT_RUN, DID_NOT_RUN]
    assert now() == 12


@in_virtual_time
async def test_the_handler_is_restored_when_the_run_raises():
    def inputs():
        yield 1
        raise OSError

    with pytest.raises(OSError):
        await AsyncExecutor(sleep_for).execute(inputs())


@in_virtual_time
async def test_a_stream_hears_the_signal_and_yields_what_is_finished():
    got = []
    async for done in AsyncExecutor(sleep_for, concurrency=2).stream([1, 2, 100, 100]):
        got.append(done.output)
        if len(got) == 2:
            send()
    assert got == [1, 2]
    assert now() == 4


def test_off_the_main_thread_no_handler_is_touched(virtual_loops):
    seen = []

    async def fn(x):
        seen.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: AsyncExecutor(fn).run([1]))
    thread.start()
    thread.join()
    thread = threading.Thread(target=lambda: SyncExecutor(lambda x: x).run([1]))
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_third_signal_goes_to_the_previous_handler(virtual_loops):
    heard = []
    previous = signal.signal(signal.SIGINT, lambda *_: heard.append("previous"))

    async def blocks_the_loop(x):
        send()
        send()
        send()

    AsyncExecutor(blocks_the_loop).run([1])
    assert heard == ["previous"]
    signal.signal(signal.SIGINT, previous)


# ---- the sync executor ---------------------------------------------------------------------


def test_sync_the_first_signal_lets_the_current_call_end():
    def fn(x):
        if x == 2:
            send()
        return x

    executor = SyncExecutor(fn, fallback_return_value="-")
    outputs, details = executor.run(range(5))
    assert outputs == [0, 1, 2, "-", "-"]
    assert [one.status for one in details] == [COMPLETED] * 3 + [DID_NOT_RUN] * 2
    assert isinstance(executor.stop_reason, InterruptedRunError)


def test_sync_the_second_signal_breaks_the_call_off():
    def fn(x):
        if x == 2:
            send()
            send()
            raise AssertionError("not broken off")
        return x

    outputs, details = SyncExecutor(fn, fallback_return_value="-").run(range(5))
    assert outputs == [0, 1, "-", "-", "-"]
    assert [one.status for one in details] == [COMPLETED] * 2 + [DID_NOT_RUN] * 3


def test_sync_a_signal_ends_the_wait_for_a_retry():
    def fn(x):
        timer.start()
        raise limpet.RateLimitError(retry_after=1000)

    timer = threading.Timer(0.05, send)
    _, details = SyncExecutor(fn).run([1, 2])
    assert [one.status for one in details] == [DID_NOT_RUN] * 2


def test_sync_an_interrupt_that_is_not_ours_goes_through():
    def fn(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SyncExecutor(fn).run([1])
