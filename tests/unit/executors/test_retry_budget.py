"""`max_retries=N` is N retries: at most N + 1 attempts, whatever went wrong. On virtual time."""

import asyncio
from collections import Counter
from itertools import cycle

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor
from limpet.executors.details import ExecutionStatus

FAILED = ExecutionStatus.FAILED
HANG = "hang"


class HttpError(Exception):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status_code = status


def failing_on(bad, *ways):
    """Return a function that fails on some inputs, in turn in each of these ways; and its calls."""
    calls = Counter()
    turns = {x: cycle(ways) for x in bad}

    async def fn(x):
        calls[x] += 1
        await asyncio.sleep(0.1)
        if x in turns:
            way = next(turns[x])
            if way == HANG:
                await asyncio.sleep(1e6)
            raise way
        return x

    return fn, calls


WAYS = {
    "errors": (ValueError("mine"),),
    "a server's errors": (HttpError(500),),
    "timeouts": (HANG,),
    "timeouts and errors": (HANG, HttpError(503), ValueError("mine")),
}


@pytest.mark.parametrize("retries", [0, 1, 2, 10])
@pytest.mark.parametrize("pace", [4, "auto"])
@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
@in_virtual_time
async def test_n_retries_are_n_plus_one_attempts_of_a_call_that_fails_while_others_pass(
    retries, pace, ways
):
    fn, calls = failing_on({3, 40}, *ways)
    executor = AsyncExecutor(fn, pace, max_retries=retries, timeout=5, exit_on_error=False)
    _, details = await executor.execute(range(60))
    assert (details[3].status, details[40].status) == (FAILED, FAILED)
    assert (calls[3], calls[40]) == (retries + 1, retries + 1)
    assert len(details[3].exceptions) == retries + 1
    assert sum(calls.values()) == 58 + 2 * (retries + 1)


@in_virtual_time
async def test_a_number_of_its_own_for_timeouts_stands_beside_the_retries():
    fn, calls = failing_on({0}, HANG, ValueError("mine"))
    executor = AsyncExecutor(fn, 1, max_retries=1, max_timeouts=2, timeout=5, exit_on_error=False)
    await executor.execute([0])
    assert calls[0] == 4  # hangs, fails, hangs, fails: the second failure is one too many


@in_virtual_time
async def test_refusals_and_outages_are_not_charged():
    state = {"refused": 0, "down": 0}

    async def fn(x):
        await asyncio.sleep(0.1)
        if x == 5 and state["refused"] < 4:
            state["refused"] += 1
            raise HttpError(429)
        if 20 <= asyncio.get_running_loop().time() < 60:
            state["down"] += 1
            raise HttpError(503)
        return x

    executor = AsyncExecutor(fn, "auto", max_concurrency=2, max_retries=1, exit_on_error=False)
    outputs, _ = await executor.execute(range(1000))
    assert outputs == list(range(1000))
    assert state["refused"] == 4
    assert state["down"] > 0


@in_virtual_time
async def test_the_last_retry_after_a_bad_spell_is_left_for_the_end():
    tried_at = []

    async def fn(x):
        await asyncio.sleep(0.1)
        if x == 3:
            tried_at.append(asyncio.get_running_loop().time())
            if tried_at[-1] < 20:
                raise HttpError(500)
        if x == 90:
            await asyncio.sleep(30)
        return x

    executor = AsyncExecutor(fn, "auto", max_retries=1, exit_on_error=False)
    outputs, _ = await executor.execute(range(100))
    assert outputs == list(range(100))
    assert len(tried_at) == 2


@in_virtual_time
async def test_where_nothing_works_nothing_is_left_for_the_end():
    fn, _ = failing_on(range(40), HANG)
    executor = AsyncExecutor(
        fn, "auto", max_retries=1, timeout=5, exit_on_error=False, max_concurrency=1
    )
    stream = executor.stream(range(40))
    async for finished in stream:
        assert isinstance(finished.error, TimeoutError)
        break
    await stream.aclose()
    assert asyncio.get_running_loop().time() < 5 * 5


def test_retry_in_evaluate_is_so_many_retries(tmp_path):
    calls = Counter()

    async def workflow(question):
        calls[question] += 1
        raise HttpError(500)

    rows = [{"id": str(n), "question": str(n)} for n in range(3)]
    limpet.evaluate(
        rows,
        workflow,
        run=tmp_path / "run",
        retry=limpet.Retry(max_retries=1, backoff=limpet.executors.Backoff(0, 0)),
        pace=2,
    )
    assert set(calls.values()) == {2}


class Outage:
    """A function whose server is down for the first seconds, and inputs that arrive one by one."""

    def __init__(self, until, error):
        self._until, self._error = until, error

    async def call(self, x):
        await asyncio.sleep(0.1)
        if asyncio.get_running_loop().time() < self._until:
            raise self._error
        return x

    @staticmethod
    async def inputs(number, every_s):
        for n in range(number):
            yield n
            await asyncio.sleep(every_s)


@pytest.mark.parametrize("error", [HttpError(503), ConnectionRefusedError(111, "refused")])
@pytest.mark.parametrize("every_s", [0, 2, 10, 60])
@in_virtual_time
async def test_an_outage_is_not_charged_however_slowly_the_inputs_arrive(every_s, error):
    outage = Outage(180, error)
    executor = AsyncExecutor(outage.call, "auto", exit_on_error=False)
    outputs, _ = await executor.execute(outage.inputs(30, every_s))
    assert outputs == list(range(30))


@pytest.mark.parametrize("every_s", [0, 10])
@in_virtual_time
async def test_an_outage_that_stays_stops_the_run_and_fails_no_call(every_s):
    outage = Outage(1e9, HttpError(503))
    executor = AsyncExecutor(outage.call, "auto", exit_on_error=False)
    _, details = await executor.execute(outage.inputs(100, every_s))
    assert isinstance(executor.stop_reason, limpet.LimpetError)
    assert {call.status for call in details} == {ExecutionStatus.DID_NOT_RUN}
    assert asyncio.get_running_loop().time() < 800


@in_virtual_time
async def test_a_few_inputs_that_all_fail_still_end():
    outage = Outage(1e9, HttpError(503))
    executor = AsyncExecutor(outage.call, "auto", exit_on_error=False)
    _, details = await executor.execute(outage.inputs(6, 1))
    assert [call.status for call in details] == [FAILED] * 6
    assert [len(call.exceptions) for call in details] == [11] * 6
