"""On a loop whose tasks run at once, until they first wait, a run ends as on any other loop."""

import asyncio

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor

pytestmark = pytest.mark.skipif(
    not hasattr(asyncio, "eager_task_factory"), reason="Python 3.12 or newer"
)


async def ends_at_once(x):
    return x


async def waits(x):
    await asyncio.sleep(x % 3)
    return x


async def fails(x):
    if x % 5 == 2:
        raise limpet.PermanentError("no")
    return x


async def fails_once(x, seen):
    if x % 4 == 1 and x not in seen:
        seen.add(x)
        raise limpet.TransientError("again")
    await asyncio.sleep(0.5)
    return x


async def hangs(x):
    await asyncio.sleep(10_000 if x == 3 else 0)
    return x


async def cancels_itself(x):
    if x == 3:
        asyncio.current_task().cancel()
    await asyncio.sleep(0)
    return x


FUNCTIONS = [ends_at_once, waits, fails, fails_once, hangs, cancels_itself]


def told(outputs, details):
    return outputs, [(one.status, len(one.exceptions)) for one in details]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_outputs_attempts_and_failures_are_those_of_any_loop(function):
    found = []

    @in_virtual_time
    async def run(factory):
        seen = set()

        async def fn(x):
            return await (function(x, seen) if function is fails_once else function(x))

        asyncio.get_running_loop().set_task_factory(factory)
        executor = AsyncExecutor(fn, concurrency=7, timeout=30, max_retries=2, exit_on_error=False)
        found.append(told(*await executor.execute(range(200))))

    run(None)
    run(asyncio.eager_task_factory)
    assert found[0] == found[1]
    assert len(found[1][0]) == 200


def test_a_run_without_a_single_wait_is_kept_whole(tmp_path):
    async def run():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        rows = [{"id": str(one), "input": one} for one in range(300)]
        run = tmp_path / "run"
        return await limpet.aevaluate(rows, ends_at_once, [good], run, version="1")

    def good(output):
        return output >= 0

    result = asyncio.run(run())
    assert [item.output.value for item in result.items] == [*range(300)]
    assert all(item.scores["good"].value is True for item in result.items)
