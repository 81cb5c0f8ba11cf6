"""Plain functions beside the event loop."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from limpet.executors.threads import Threads, abandoned, is_async

EARLIER: set[threading.Thread] = set()
"""Threads of other tests of this process: some of their functions hang on purpose."""


def alive():
    return [
        one for one in threading.enumerate() if one.name == "limpet-call" and one not in EARLIER
    ]


@pytest.fixture(autouse=True)
def no_thread_stays():
    EARLIER.update(threading.enumerate())
    yield
    for thread in alive():
        thread.join(20)
    assert alive() == []


def run(main):
    async def conduct():
        threads = Threads()
        try:
            return await main(threads)
        finally:
            threads.close()

    return asyncio.run(conduct())


def test_calls_run_at_the_same_time_and_threads_are_used_again():
    together = threading.Barrier(5, timeout=20)

    async def main(threads):
        async def call(x):
            return await threads.run(lambda y: (together.wait(), y)[1], x)

        first = await asyncio.gather(*map(call, range(5)))
        second = await asyncio.gather(*map(call, range(5)))
        return first + second, len(alive())

    assert run(main) == ([0, 1, 2, 3, 4] * 2, 5)


def test_what_a_function_raises_is_raised():
    async def main(threads):
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda x: 1 / x, 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(next, iter(()))

    run(main)


def test_a_call_sees_the_context_of_its_caller():
    who = contextvars.ContextVar("who", default="nobody")

    async def main(threads):
        who.set("me")
        return await threads.run(lambda _: who.get(), None)

    assert run(main) == "me"


def test_a_call_that_ends_as_it_is_cancelled_is_not_abandoned():
    async def main(threads):
        loop, ended, told = asyncio.get_running_loop(), threading.Event(), threading.Event()
        tell = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *words: (tell(*words), told.set())[0]
        call = asyncio.create_task(threads.run(lambda _: ended.wait(20), None))
        await asyncio.sleep(0)
        ended.set()
        told.wait(20)  # the loop is blocked: it sees the end after the cancellation
        call.cancel()
        await asyncio.wait([call])
        return abandoned(0)

    assert run(main) == 0


def test_a_cancelled_call_is_left_to_itself():
    go_on = threading.Event()

    async def main(threads):
        call = asyncio.ensure_future(threads.run(lambda _: go_on.wait(20), None))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(main)
    go_on.set()


def test_a_function_that_hangs_does_not_hold_the_process():
    script = (
        "import limpet, threading\n"
        "result = limpet.map(lambda x: threading.Event().wait(), [1], timeout=0.05,\n"
        "                      retry=0, pace=1)\n"
        "print(result.failures[0].error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    assert "no answer within 0.05 s" in done.stdout


def test_what_is_async_is_seen():
    async def function(x):
        return x

    class Caller:
        async def __call__(self, x):
            return x

    from functools import partial

    assert all(map(is_async, (function, partial(function), Caller(), Caller().__call__)))
    assert not any(map(is_async, (len, lambda x: function(x), Caller)))
