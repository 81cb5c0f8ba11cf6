"""A bad argument is an error at construction that names it, its value and what is allowed."""

import functools

import pytest
from virtual_time import in_virtual_time

from limpet import AsyncExecutor, SyncExecutor, get_executor_on_sync_context
from limpet.executors import Backoff


async def fn(x):
    return x


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"concurrency": 0}, ValueError, "concurrency=0: must be a whole number, 1 or more"),
        ({"concurrency": -3}, ValueError, "concurrency=-3: must be a whole number, 1 or more"),
        ({"concurrency": 2.5}, TypeError, "concurrency=2.5: must be a whole number"),
        ({"concurrency": True}, TypeError, "concurrency=True: must be a whole number"),
        ({"concurrency": "3"}, TypeError, "concurrency='3': must be a whole number"),
        ({"max_retries": -1}, ValueError, "max_retries=-1: must be a whole number, 0 or more"),
        ({"max_timeouts": -1}, ValueError, "max_timeouts=-1: must be a whole number, 0 or more"),
        ({"timeout": -1}, ValueError, "timeout=-1: must be a finite number above 0"),
        ({"timeout": 0}, ValueError, "timeout=0: must be a finite number above 0"),
        ({"timeout": float("nan")}, ValueError, "timeout=nan: must be a finite number above 0"),
        ({"timeout": "60"}, TypeError, "timeout='60': must be a finite number above 0"),
        ({"dynamic_window_seconds": 0}, ValueError, "dynamic_window_seconds=0: must be"),
        ({"dynamic_decrease_ratio": 2}, ValueError, "dynamic_decrease_ratio=2: must be"),
        ({"dynamic_increase_step": -1}, ValueError, "dynamic_increase_step=-1: must be"),
        ({"dynamic_initial_target": 0}, ValueError, "dynamic_initial_target=0: must be"),
        (
            {"dynamic_inactive_check_interval": -1},
            ValueError,
            "dynamic_inactive_check_interval=-1: must be",
        ),
        ({"classify": "permanent"}, TypeError, "classify='permanent': must be a function"),
        ({"on_complete": 1}, TypeError, "on_complete=1: must be a function"),
        ({"on_attempt_start": 1}, TypeError, "on_attempt_start=1: must be a function"),
        ({"on_attempt_end": 1}, TypeError, "on_attempt_end=1: must be a function"),
        ({"generation_fn": 7}, TypeError, "generation_fn=7: must be a function"),
        ({"termination_signal": "SIGINT"}, TypeError, "termination_signal='SIGINT': must be"),
        ({"termination_signal": 4000}, ValueError, "termination_signal=4000: must be"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_async_executor(arguments, error, message):
    with pytest.raises(error) as caught:
        AsyncExecutor(**{"generation_fn": fn, **arguments})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_retries": -1}, ValueError, "max_retries=-1: must be a whole number, 0 or more"),
        ({"generation_fn": None}, TypeError, "generation_fn=None: must be a function"),
        ({"classify": 1}, TypeError, "classify=1: must be a function"),
        ({"termination_signal": "x"}, TypeError, "termination_signal='x': must be"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_sync_executor(arguments, error, message):
    with pytest.raises(error) as caught:
        SyncExecutor(**{"generation_fn": len, **arguments})
    assert str(caught.value).startswith(message)


def test_the_factory_passes_the_errors_on():
    with pytest.raises(ValueError, match="concurrency=0"):
        get_executor_on_sync_context(len, fn, concurrency=0)


def test_backoff():
    with pytest.raises(ValueError, match="base_s=-1: must be a finite number, 0 or more"):
        Backoff(base_s=-1)


@in_virtual_time
async def test_a_function_that_is_not_async_is_a_type_error_at_the_first_call():
    calls = []

    def answer(x):
        calls.append(x)
        return x

    with pytest.raises(TypeError, match=r"answer returned int.*cannot be awaited.*SyncExecutor"):
        await AsyncExecutor(answer, concurrency=1).execute(range(10))
    assert calls == [0]


@in_virtual_time
async def test_a_later_result_that_is_not_awaitable_fails_only_its_input():
    def sometimes(x):
        return fn(x) if x != 3 else x

    outputs, details = await AsyncExecutor(sometimes, exit_on_error=False).execute(range(5))
    assert [one.status.name for one in details].count("FAILED") == 1
    assert len(details[3].exceptions) == 1  # another attempt could not help


class CallsAsync:
    async def __call__(self, x):
        return x


@pytest.mark.parametrize(
    "function",
    [lambda x: fn(x), functools.partial(fn), CallsAsync()],
    ids=["lambda", "partial", "object"],
)
@in_virtual_time
async def test_whatever_returns_an_awaitable_is_fine(function):
    assert (await AsyncExecutor(function).execute([1, 2]))[0] == [1, 2]


@pytest.mark.parametrize("executor", [AsyncExecutor(fn), SyncExecutor(len)])
def test_inputs_that_cannot_be_iterated_over(executor):
    with pytest.raises(TypeError, match="inputs=7: must be an iterable"):
        executor.run(7)
