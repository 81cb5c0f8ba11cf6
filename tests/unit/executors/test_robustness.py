"""Regressions: each of these hung a run, lost its results or misreported them."""

import asyncio
import gc
import os
import signal
import sys
import threading
import weakref

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor, RateLimitError, SyncExecutor
from limpet.executors import Backoff, ExecutionStatus
from limpet.pacing import FailureKind, Signal, classify

COMPLETED = ExecutionStatus.COMPLETED
DID_NOT_RUN = ExecutionStatus.DID_NOT_RUN
FAILED = ExecutionStatus.FAILED


def now():
    return asyncio.get_running_loop().time()


async def echo(x):
    await asyncio.sleep(1)
    return x


# ---- inputs ------------------------------------------------------------------------------


@in_virtual_time
async def test_an_async_source_that_is_cancelled_from_inside_ends_the_run_with_an_error():
    async def source():
        yield 1
        raise asyncio.CancelledError

    with pytest.raises(limpet.LimpetError, match="inputs were cancelled from inside"):
        await AsyncExecutor(echo).execute(source())


@in_virtual_time
async def test_a_source_that_raises_a_cancellation_ends_the_run_with_an_error():
    def source():
        yield 1
        raise asyncio.CancelledError

    with pytest.raises(limpet.LimpetError, match="inputs were cancelled from inside"):
        await AsyncExecutor(echo).execute(source())


@in_virtual_time
async def test_an_async_source_that_delivers_after_the_stop_holds_nothing_up():
    async def fn(x):
        if x == 0:
            await asyncio.sleep(0.2)
            raise limpet.PermanentError("stop")
        try:
            await asyncio.sleep(50)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
            raise

    async def source():
        yield 0
        yield 1
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            pass
        yield 99

    _, details = await AsyncExecutor(fn).execute(source())
    assert [one.status for one in details] == [FAILED, DID_NOT_RUN]


@in_virtual_time
async def test_an_iterable_whose_length_cannot_be_told_is_still_an_iterable():
    class OddLength:
        def __len__(self):
            raise TypeError("not now")

        def __iter__(self):
            return iter([1, 2])

    assert (await AsyncExecutor(echo).execute(OddLength()))[0] == [1, 2]


@in_virtual_time
async def test_a_generator_is_let_go_when_the_run_stops_early():
    closed = []

    def source():
        try:
            yield from range(100)
        finally:
            closed.append(True)

    async def fn(x):
        raise limpet.PermanentError("stop")

    executor = AsyncExecutor(fn)
    await executor.execute(source())
    gc.collect()
    assert closed == [True]


@in_virtual_time
async def test_the_executor_does_not_keep_the_results_of_its_latest_run():
    class Answer:
        pass

    async def fn(x):
        return Answer()

    executor = AsyncExecutor(fn)
    outputs, _ = await executor.execute([1])
    answer = weakref.ref(outputs[0])
    del outputs
    gc.collect()
    assert answer() is None


def test_the_sync_executor_refuses_an_async_iterable():
    async def source():
        yield 1

    with pytest.raises(TypeError, match="inputs=.*async iterable.*AsyncExecutor"):
        SyncExecutor(len).run(source())


# ---- hooks -------------------------------------------------------------------------------


@in_virtual_time
async def test_cancelling_every_call_as_it_starts_does_not_recurse():
    executor = AsyncExecutor(
        echo, on_attempt_start=lambda one: executor.cancel(one.index), exit_on_error=False
    )
    _, details = await executor.execute(range(2000))
    assert {one.status for one in details} == {FAILED}


@in_virtual_time
async def test_a_hook_that_hangs_does_not_hold_the_stop_and_is_reported(caplog):
    async def hang(_):
        await asyncio.sleep(3600)

    loop = asyncio.get_running_loop()
    loop.call_later(1.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    await AsyncExecutor(echo, on_complete=hang).execute(range(3))
    assert now() < 10
    assert "was cancelled before it ended" in caplog.text
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_a_failing_hook_does_not_write_across_the_bar(capsys):
    import logging

    def fail(_):
        raise RuntimeError("the hook's own trouble")

    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("limpet.executors")
    logger.addHandler(handler)
    try:
        await AsyncExecutor(echo, tqdm_bar_format="|{n_fmt}|", on_complete=fail).execute([1])
    finally:
        logger.removeHandler(handler)
    shown = capsys.readouterr().err
    assert "RuntimeError: the hook's own trouble" in shown
    assert all(
        "hook" not in line.rsplit("\r")[-1] or "|" not in line.rsplit("\r")[-1]
        for line in shown.split("\n")
    )


# ---- stops -------------------------------------------------------------------------------


@in_virtual_time
async def test_a_failure_within_a_signals_grace_does_not_cut_it_short():
    async def fn(x):
        if x == 0:
            await asyncio.sleep(1.5)
            raise limpet.PermanentError("no")
        await asyncio.sleep(2)
        return x

    loop = asyncio.get_running_loop()
    loop.call_later(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    _, details = await AsyncExecutor(fn).execute(range(5))
    assert [one.status for one in details] == [FAILED, COMPLETED, COMPLETED] + [DID_NOT_RUN] * 2


@in_virtual_time
async def test_after_the_second_signal_every_attempt_has_ended_and_none_is_called_stubborn():
    ended = []
    executor = AsyncExecutor(echo, on_attempt_end=ended.append)
    loop = asyncio.get_running_loop()
    for at in (0.25, 0.5):
        loop.call_later(at, lambda: os.kill(os.getpid(), signal.SIGINT))
    _, details = await executor.execute(range(3))
    assert len(ended) == 3
    assert executor.abandoned == 0
    assert [one.execution_seconds for one in details] == [0.5] * 3


@in_virtual_time
async def test_a_run_that_raises_leaves_no_call_behind():
    class FatalError(BaseException):
        pass

    async def fn(x):
        if x == 0:
            await asyncio.sleep(0.1)
            raise FatalError
        try:
            await asyncio.sleep(50)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
            raise

    with pytest.raises(FatalError):
        await AsyncExecutor(fn).execute(range(3))
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_a_stopped_run_leaves_no_timer_behind():
    loop = asyncio.get_running_loop()
    loop.call_later(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    await AsyncExecutor(echo, timeout=0.7, max_timeouts=0).execute(range(3))
    await asyncio.sleep(0)
    assert [one for one in loop._scheduled if not one.cancelled()] == []


@in_virtual_time
async def test_a_cancellation_error_from_user_code_is_a_failure_like_any_other():
    async def fn(x):
        raise limpet.errors.CallCancelledError("of another executor's call")

    executor = AsyncExecutor(fn, concurrency=1)
    _, details = await executor.execute(range(3))
    assert [one.status for one in details] == [FAILED, DID_NOT_RUN, DID_NOT_RUN]


# ---- progress ----------------------------------------------------------------------------


class BrokenStderr:
    encoding = "utf-8"

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_bar_whose_terminal_is_gone_does_not_take_the_run_with_it(
    kind, monkeypatch, virtual_loops, caplog
):
    def break_off(x):
        monkeypatch.setattr(sys, "stderr", BrokenStderr())
        if x == 1 and not refused:
            refused.append(x)
            raise RateLimitError(retry_after=0)
        return x

    async def async_break_off(x):
        return break_off(x)

    refused = []
    if kind == "async":
        executor = AsyncExecutor(async_break_off, tqdm_bar_format="{bar}")
    else:
        executor = SyncExecutor(break_off, tqdm_bar_format="{bar}")
    outputs, _ = executor.run(range(5))
    assert outputs == list(range(5))
    assert "the run continues without it" in caplog.text


# ---- classification ----------------------------------------------------------------------


@pytest.mark.parametrize("wait", [float("nan"), float("inf"), -1, "soon"])
@in_virtual_time
async def test_an_odd_wait_from_classify_is_no_wait(wait):
    calls = []

    async def fn(x):
        calls.append(x)
        raise ValueError

    executor = AsyncExecutor(
        fn,
        max_retries=2,
        classify=lambda _: Signal(FailureKind.RATE_LIMIT, wait),
        backoff=Backoff(base_s=0),
    )
    await executor.execute([1])
    assert len(calls) == 3


@in_virtual_time
async def test_a_signal_may_name_its_kind_by_its_string():
    async def fn(x):
        raise ValueError

    executor = AsyncExecutor(fn, classify=lambda _: Signal("quota"))
    await executor.execute([1])
    assert isinstance(executor.stop_reason, limpet.errors.QuotaExhaustedError)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_quota_error_that_cannot_be_shown_still_stops_in_good_order(kind, virtual_loops):
    class NastyError(Exception):
        status_code = 429
        code = "insufficient_quota"

        def __str__(self):
            raise ValueError("boom")

        __repr__ = __str__

    def fn(x):
        if x == 2:
            raise NastyError
        return x

    async def async_fn(x):
        return fn(x)

    executor = AsyncExecutor(async_fn, 1) if kind == "async" else SyncExecutor(fn)
    outputs, _ = executor.run(range(4))
    assert outputs[:2] == [0, 1]
    assert isinstance(executor.stop_reason, limpet.errors.QuotaExhaustedError)


def test_an_attribute_that_lies_about_its_class_breaks_nothing():
    class Liar:
        @property
        def __class__(self):
            raise RuntimeError("no context")

    class OddError(Exception):
        status = Liar()

    assert classify(OddError()).kind is FailureKind.TRANSIENT


def test_an_exhausted_quota_is_read_from_a_body_the_client_has_read():
    class Response:
        status_code = 429
        headers = {}  # noqa: RUF012
        _content = b'{"error": {"code": "insufficient_quota"}}'

    class HTTPStatusError(Exception):
        response = Response()

    assert classify(HTTPStatusError("429 Too Many Requests")).kind is FailureKind.QUOTA


def test_every_member_of_a_large_group_is_asked_and_then_the_groups_cause():
    class HttpError(Exception):
        def __init__(self, status):
            self.status = status

    many = [ValueError() for _ in range(100)]
    assert classify(ExceptionGroup("g", [*many, HttpError(401)])).kind is FailureKind.PERMANENT
    group = ExceptionGroup("g", many)
    group.__cause__ = HttpError(429)
    assert classify(group).kind is FailureKind.RATE_LIMIT


def test_headers_are_looked_for_in_both_places():
    class OddError(Exception):
        class response:  # noqa: N801
            status_code = 429
            headers = {"x": "y"}  # noqa: RUF012

        headers = {"retry-after": "5"}  # noqa: RUF012

    assert classify(OddError()).retry_after_s == 5


# ---- threads and the sync executor ---------------------------------------------------------


def test_one_executor_in_two_threads_keeps_each_run_on_its_own():
    seen = set()

    async def record(attempt):
        seen.add((attempt.input, threading.current_thread().name))

    async def fn(x):
        await asyncio.sleep(0.002 if x == "A" else 0.1)

    executor = AsyncExecutor(
        fn, 50, dynamic_initial_target=1, dynamic_window_seconds=0.005, on_attempt_start=record
    )
    threads = [
        threading.Thread(target=executor.run, args=([name] * count,), name=name)
        for name, count in (("B", 30), ("A", 400))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {("A", "A"), ("B", "B")}


def test_a_huge_wait_named_by_the_server_does_not_break_the_sync_executor():
    def fn(x):
        if x == 2:
            timer.start()
            raise RateLimitError(retry_after=1e300)
        return x

    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    outputs, _ = SyncExecutor(fn, fallback_return_value=None).run(range(4))
    assert outputs == [0, 1, None, None]


def test_the_signal_handler_of_the_sync_executor_neither_prints_nor_locks(monkeypatch):
    from limpet.executors import progress

    def fn(x):
        if x == 1:
            with monkeypatch.context() as patch:
                patch.setattr(
                    progress.ProgressReporter, "say_stop", None
                )  # would raise if called here
                os.kill(os.getpid(), signal.SIGINT)
        return x

    outputs, _ = SyncExecutor(fn, fallback_return_value=None).run(range(4))
    assert outputs == [0, 1, None, None]


# ---- arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"backoff": 5}, TypeError, "backoff=5: must be a Backoff"),
        ({"termination_signal": signal.SIGKILL}, ValueError, "termination_signal="),
        ({"timeout": 10**400}, ValueError, "timeout=1000"),
        ({"timeout": float("inf")}, ValueError, "timeout=inf: must be a finite number"),
    ],
    ids=["backoff", "SIGKILL", "huge", "inf"],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error) as caught:
        AsyncExecutor(echo, **arguments)
    assert str(caught.value).startswith(message)


def test_the_factory_names_its_own_arguments():
    with pytest.raises(TypeError, match="sync_fn=5: must be a function"):
        limpet.get_executor_on_sync_context(5, echo)
    with pytest.raises(TypeError, match="async_fn=5: must be a function"):
        limpet.get_executor_on_sync_context(len, 5, run_sync=True)
