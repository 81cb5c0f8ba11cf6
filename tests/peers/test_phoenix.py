"""One import changed, the rest as it was: the same code on Phoenix's executors and on ours."""

import asyncio
import inspect
import os
import signal
import threading

import phoenix.evals.executors as phoenix_executors
import pytest
from phoenix.evals.exceptions import PhoenixTemplateMappingError
from phoenix.evals.rate_limiters import RateLimitError as PhoenixRateLimitError

import limpet.executors as our_executors


def shown(result):
    outputs, details = result
    return outputs, [(one.status.name, [type(e) for e in one.exceptions]) for one in details]


async def minus_one(x):
    return x - 1


async def negative_fails(x):
    if x < 0:
        raise ValueError(x)
    return x - 1


def fails_twice():
    calls = []

    async def fn(x):
        calls.append(x)
        if calls.count(x) < 3:
            raise ValueError(x)
        return x

    return fn


async def template_error(x):
    raise PhoenixTemplateMappingError("no such variable")


def refused_once():
    calls = []

    async def fn(x):
        calls.append(x)
        if calls.count(x) == 1:
            raise PhoenixRateLimitError("slow down")
        return x

    return fn


def hangs_once():
    calls = []

    async def fn(x):
        calls.append(x)
        if len(calls) == 1:
            await asyncio.sleep(1000)
        return x

    return fn


SCENARIOS = {
    "all well": lambda m: m.AsyncExecutor(minus_one, concurrency=10).run([1, 2, 3]),
    "nothing to do": lambda m: m.AsyncExecutor(minus_one).run([]),
    "exits at the first error": lambda m: m.AsyncExecutor(
        negative_fails, concurrency=1, max_retries=0, fallback_return_value=52
    ).run([1, 2, -1, 3, 4]),
    "goes on after an error": lambda m: m.AsyncExecutor(
        negative_fails, max_retries=0, exit_on_error=False, fallback_return_value=52
    ).run([1, -2, 3]),
    "completes with retries": lambda m: m.AsyncExecutor(fails_twice(), max_retries=3).run([7]),
    "runs out of retries": lambda m: m.AsyncExecutor(
        fails_twice(), max_retries=1, fallback_return_value=None
    ).run([7]),
    "its own errors are permanent": lambda m: m.AsyncExecutor(
        template_error, exit_on_error=False, fallback_return_value=None
    ).run([1, 2]),
    "its own rate limits are not": lambda m: m.AsyncExecutor(refused_once()).run([1]),
    "a timeout is tried again": lambda m: m.AsyncExecutor(hangs_once(), timeout=1).run([1]),
    "sync all well": lambda m: m.SyncExecutor(lambda x: x - 1).run([1, 2, 3]),
    "sync exits": lambda m: m.SyncExecutor(
        lambda x: 1 / x, max_retries=0, fallback_return_value=-1
    ).run([1, 0, 2]),
    "sync goes on": lambda m: m.SyncExecutor(
        lambda x: 1 / x, max_retries=1, exit_on_error=False, fallback_return_value=-1
    ).run([1, 0, 2]),
    "the factory": lambda m: m.get_executor_on_sync_context(len, minus_one).run([3]),
    "the factory, sync": lambda m: m.get_executor_on_sync_context(
        len, minus_one, run_sync=True
    ).run(["abc"]),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_the_same_code_gives_the_same_results(scenario):
    assert shown(scenario(our_executors)) == shown(scenario(phoenix_executors))


def interrupted(module):
    async def fn(x):
        if x == 0:
            return x
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(1000)

    executor = module.AsyncExecutor(fn, concurrency=1, fallback_return_value="-")
    return executor.run(range(5))


def test_an_interrupt_gives_the_same_results():
    assert shown(interrupted(our_executors)) == shown(interrupted(phoenix_executors))


def test_off_the_main_thread_the_factory_picks_the_same():
    for module in (our_executors, phoenix_executors):
        picked = []
        thread = threading.Thread(
            target=lambda m=module, p=picked: p.append(
                m.get_executor_on_sync_context(len, minus_one)
            )
        )
        thread.start()
        thread.join()
        assert type(picked[0]).__name__ == "SyncExecutor"


@pytest.mark.parametrize(
    "name",
    ["AsyncExecutor", "SyncExecutor", "ConcurrencyController", "get_executor_on_sync_context"],
)
def test_every_parameter_of_theirs_is_ours_in_the_same_place_with_the_same_default(name):
    theirs = inspect.signature(getattr(phoenix_executors, name)).parameters
    ours = inspect.signature(getattr(our_executors, name)).parameters
    for (our_name, our), (their_name, their) in zip(ours.items(), theirs.items(), strict=False):
        assert (our_name, our.kind) == (their_name, their.kind)
        if their_name != "fallback_return_value":
            assert our.default == their.default
    assert len(ours) >= len(theirs)


def test_every_public_name_of_theirs_is_ours():
    theirs = {
        name
        for name, value in vars(phoenix_executors).items()
        if getattr(value, "__module__", "") == phoenix_executors.__name__ and name[0] != "_"
    }
    assert theirs <= set(vars(our_executors))
