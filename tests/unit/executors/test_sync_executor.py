"""The sequential executor: the same retry rules, one call at a time."""

import pytest

import limpet
from limpet import RateLimitError, SyncExecutor
from limpet.executors import Backoff, ExecutionStatus, Executor
from limpet.executors.factory import _SyncRun

NO_WAIT = Backoff(base_s=0)


@pytest.fixture
def waits(monkeypatch):
    """The waits it requests, without waiting."""
    slept = []
    monkeypatch.setattr(_SyncRun, "_sleep", lambda _, seconds: slept.append(seconds))
    return slept


def failing(times, error):
    calls = []

    def fn(x):
        calls.append(x)
        if calls.count(x) <= times:
            raise error
        return x

    fn.calls = calls
    return fn


def test_outputs_come_in_order_one_after_the_other():
    executor = SyncExecutor(lambda x: 2 * x)
    outputs, details = executor.run([1, 2, 3])
    assert outputs == [2, 4, 6]
    assert {one.status for one in details} == {ExecutionStatus.COMPLETED}
    assert isinstance(executor, Executor)
    assert executor.run(iter([4]))[0] == [8]


def test_a_failure_is_tried_again_and_said():
    fn = failing(2, ValueError("no"))
    outputs, details = SyncExecutor(fn, max_retries=2, backoff=NO_WAIT).run(["a"])
    assert outputs == ["a"]
    assert details[0].status is ExecutionStatus.COMPLETED_WITH_RETRIES
    assert len(details[0].exceptions) == 2


def test_after_max_retries_it_is_failed_and_the_run_stops():
    fn = failing(99, ValueError("no"))
    executor = SyncExecutor(fn, max_retries=2, fallback_return_value="-", backoff=NO_WAIT)
    outputs, details = executor.run(["a", "b"])
    assert fn.calls == ["a", "a", "a"]
    assert outputs == ["-", "-"]
    assert [one.status.name for one in details] == ["FAILED", "DID_NOT_RUN"]
    assert isinstance(executor.stop_reason, ValueError)


def test_without_exit_on_error_the_others_go_on():
    def fn(x):
        if x == "b":
            raise limpet.PermanentError("no")
        return x

    outputs, details = SyncExecutor(fn, exit_on_error=False, fallback_return_value="-").run("abc")
    assert outputs == ["a", "-", "c"]
    assert len(details[1].exceptions) == 1


def test_a_wait_named_by_the_server_is_honoured_exactly(waits):
    SyncExecutor(failing(1, RateLimitError(retry_after=12.5))).run([1])
    assert waits == [12.5]


def test_waits_back_off(waits):
    SyncExecutor(failing(6, ValueError()), backoff=Backoff(1, 8)).run([1])
    assert all(0 <= wait <= top for wait, top in zip(waits, [1, 2, 4, 8, 8, 8], strict=True))


def test_an_exhausted_quota_stops_the_run_and_fails_nothing(caplog):
    def fn(x):
        if x == 2:
            raise limpet.errors.QuotaExhaustedError("all spent", hint="pay")
        return x

    executor = SyncExecutor(fn, exit_on_error=False)
    _, details = executor.run([1, 2, 3])
    assert [one.status.name for one in details] == ["COMPLETED", "DID_NOT_RUN", "DID_NOT_RUN"]
    assert isinstance(executor.stop_reason, limpet.errors.QuotaExhaustedError)
    assert "all spent; pay" in caplog.text


def test_an_async_function_is_a_type_error_that_points_to_the_other_executor():
    async def answer(x):
        return x

    with pytest.raises(TypeError, match="answer returned a coroutine.*AsyncExecutor"):
        SyncExecutor(answer).run([1])


def test_inputs_that_raise_raise_here():
    def inputs():
        yield 1
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        SyncExecutor(lambda x: x).run(inputs())


def test_progress_goes_through_the_bar(capsys):
    fn = failing(1, ValueError("first"))
    executor = SyncExecutor(fn, "{desc}{n_fmt}/{total_fmt}\n", backoff=NO_WAIT)
    executor.run([1, 2])
    shown = capsys.readouterr()
    assert "2/2" in shown.err
    assert "ValueError('first'); retrying" in shown.err
    assert shown.out == ""
