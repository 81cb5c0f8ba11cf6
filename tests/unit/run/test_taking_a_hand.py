"""A run that is paused, goes on, or is stopped for a reason its calls do not know of."""

import asyncio

from virtual_time import in_virtual_time

from limpet import AsyncExecutor, LimpetError
from limpet.executors import ExecutionStatus
from limpet.executors.inputs import NumberedInputs


@in_virtual_time
async def test_a_paused_run_starts_nothing_and_goes_on_when_told():
    started = []

    async def call(x):
        started.append((x, asyncio.get_running_loop().time()))
        if x == 1:
            executor.pause()
            asyncio.get_running_loop().call_later(100, executor.resume)
        await asyncio.sleep(1)
        return x

    executor = AsyncExecutor(call, concurrency=2)
    begin = asyncio.get_running_loop().time()
    outputs, _ = await executor.execute(range(4))
    assert outputs == [0, 1, 2, 3]
    assert [round(at - begin) for _, at in started] == [0, 0, 100, 100]


@in_virtual_time
async def test_a_stopped_run_lets_calls_in_flight_end_and_says_why():
    async def call(x):
        if x == 2:
            executor.stop(LimpetError("enough", hint="come back later"))
        await asyncio.sleep(1)
        return x

    executor = AsyncExecutor(call, concurrency=3)
    outputs, details = await executor.execute(range(10))
    assert outputs[:3] == [0, 1, 2]
    assert {one.status for one in details[3:]} == {ExecutionStatus.DID_NOT_RUN}
    assert str(executor.stop_reason) == "enough"


@in_virtual_time
async def test_pausing_stopping_or_resuming_without_a_run_does_nothing():
    executor = AsyncExecutor(asyncio.sleep)
    executor.pause()
    executor.resume()
    executor.stop(LimpetError("no"))
    outputs, _ = await executor.execute([0, 0])
    assert outputs == [None, None]


@in_virtual_time
async def test_inputs_may_keep_the_numbers_they_have_elsewhere():
    seen = []

    async def call(x):
        if x == "c":
            raise ValueError("no")
        return x.upper()

    executor = AsyncExecutor(
        call,
        max_retries=0,
        exit_on_error=False,
        fallback_return_value="-",
        on_complete=lambda finished: seen.append((finished.index, finished.output)),
    )
    outputs, details = await executor.execute(NumberedInputs({7: "a", 3: "b", 9: "c"}))
    assert outputs == ["A", "B", "-"]
    assert [one.status.name for one in details] == ["COMPLETED", "COMPLETED", "FAILED"]
    assert sorted(seen) == [(3, "B"), (7, "A"), (9, "-")]


@in_virtual_time
async def test_the_bar_counts_an_input_when_its_hook_has_heard(monkeypatch):
    from limpet.executors import progress

    counted = []
    monkeypatch.setattr(progress.ProgressReporter, "advance", lambda self: counted.append(now()))
    now = asyncio.get_running_loop().time

    async def slow_disk(finished):
        await asyncio.sleep(5)

    async def call(x):
        return x

    begin = now()
    await AsyncExecutor(call, on_complete=slow_disk).execute([1])
    assert [at - begin for at in counted] == [5]
