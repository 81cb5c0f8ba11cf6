"""Answers that arrived while the loop was suspended are read before anything times out."""

import asyncio
import socket
import time

import pytest
from virtual_time import in_virtual_time

import limpet
from limpet import AsyncExecutor
from limpet.executors.countdown import Countdown
from limpet.executors.threads import Threads
from limpet.transport.failures import TooSlowError
from limpet.transport.reply import within


def now():
    return asyncio.get_running_loop().time()


class Answers:
    """Calls answered over real sockets, and a loop that can be suspended."""

    def __init__(self):
        self.calls = 0
        self._lines = []

    async def call(self, x):
        self.calls += 1
        ours, theirs = socket.socketpair()
        self._lines.append(theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            return (await reader.readline()).decode().strip()
        finally:
            writer.close()
            self._lines.remove(theirs)
            theirs.close()

    def away(self, seconds, *, answered):
        """Suspend the loop; meanwhile the answers arrive, or do not."""
        loop = asyncio.get_running_loop()
        loop._now += seconds
        for line in self._lines if answered else ():
            line.sendall(b"an answer\n")


@pytest.mark.parametrize("pace", [32, "auto"])
@pytest.mark.parametrize("seconds", [18.9, 18.99, 19.1, 30, 3600])
@in_virtual_time
async def test_answers_that_arrived_while_the_loop_was_away_are_taken(seconds, pace):
    answers = Answers()
    executor = AsyncExecutor(answers.call, pace, timeout=20, exit_on_error=False)
    asyncio.get_running_loop().call_later(1, lambda: answers.away(seconds, answered=True))
    outputs, details = await executor.execute(range(16))
    assert outputs == ["an answer"] * 16
    assert answers.calls == 16


@in_virtual_time
async def test_an_answer_that_takes_many_turns_is_taken_too():
    answers = Answers()

    async def call(x):
        answer = await answers.call(x)
        for _ in range(100):
            await asyncio.sleep(0.004)  # reading on, unpacking, asking a thread
        return answer

    asyncio.get_running_loop().call_later(1, lambda: answers.away(18.999, answered=True))
    outputs, _ = await AsyncExecutor(call, 8, timeout=20).execute(range(8))
    assert outputs == ["an answer"] * 8
    assert answers.calls == 8


@in_virtual_time
async def test_what_has_not_arrived_times_out_soon_after_all_the_same():
    answers = Answers()
    executor = AsyncExecutor(answers.call, 4, timeout=20, max_retries=0, exit_on_error=False)
    asyncio.get_running_loop().call_later(15, lambda: answers.away(30, answered=False))
    _, details = await executor.execute(range(4))
    assert [type(one.exceptions[0]) for one in details] == [TimeoutError] * 4
    assert 45 < now() < 47


@in_virtual_time
async def test_a_loop_that_is_late_again_and_again_still_has_its_time_limits():
    async def hold_up():
        while True:
            asyncio.get_running_loop()._now += 0.3
            await asyncio.sleep(0)

    async def hang(_):
        await asyncio.sleep(1e6)

    holding = asyncio.create_task(hold_up())
    executor = AsyncExecutor(hang, 2, timeout=5, max_retries=0, exit_on_error=False)
    _, details = await executor.execute(range(2))
    holding.cancel()
    assert [type(one.exceptions[0]) for one in details] == [TimeoutError] * 2
    assert now() < 8


@in_virtual_time
async def test_a_call_that_ends_when_it_is_cancelled_is_not_abandoned_after_an_absence():
    async def slow_to_end(_):
        try:
            await asyncio.sleep(1e6)
        finally:
            asyncio.get_running_loop().call_soon(skip)
            for _ in range(20):
                await asyncio.sleep(0.01)

    def skip():
        asyncio.get_running_loop()._now += 60

    executor = AsyncExecutor(slow_to_end, 1, timeout=5, max_retries=0, exit_on_error=False)
    await executor.execute([1])
    assert executor.abandoned == 0


@in_virtual_time
async def test_when_a_run_stops_what_arrived_in_an_absence_still_counts():
    answers = Answers()
    executor = AsyncExecutor(answers.call, 4, exit_on_error=False, fallback_return_value=None)
    loop = asyncio.get_running_loop()
    loop.call_later(1, lambda: executor.stop(limpet.errors.InterruptedRunError("enough"), 2.0))
    loop.call_later(2, lambda: answers.away(60, answered=True))
    outputs, _ = await executor.execute(range(8))
    assert outputs == ["an answer"] * 4 + [None] * 4


@in_virtual_time
async def test_the_time_limits_of_a_remote_call_wait_for_what_has_arrived():
    answers = Answers()
    asyncio.get_running_loop().call_later(1, lambda: answers.away(60, answered=True))
    assert await within(5, answers.call(1), "no answer") == "an answer"
    with pytest.raises(TooSlowError, match="no answer within 5 s"):
        await within(5, answers.call(1), "no answer")


@in_virtual_time
async def test_without_an_absence_a_countdown_ends_in_time_and_can_be_called_off():
    ended = []
    for seconds in (0.01, 1, 20):
        Countdown(seconds, lambda: ended.append(now()))
    Countdown(2, lambda: ended.append("never")).cancel()
    await asyncio.sleep(30)
    assert ended == [0.01, 1, 20]


def test_plain_functions_whose_threads_have_ended_while_the_loop_was_blocked():
    calls = []

    def fn(x):
        calls.append(x)
        return x

    def block_once(attempt):
        if attempt.index == 3 and attempt.number == 1:
            time.sleep(1.0)

    threads = Threads()
    executor = AsyncExecutor(
        threads.as_async(fn), 4, timeout=0.4, on_attempt_start=block_once, max_retries=3
    )
    outputs, _ = executor.run(range(4))
    threads.close()
    assert outputs == [0, 1, 2, 3]
    assert sorted(calls) == [0, 1, 2, 3]
