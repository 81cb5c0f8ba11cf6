"""`run()`: with no loop, under a running loop, under a patched one, in a thread."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from limpet import AsyncExecutor
from limpet.executors import ExecutionStatus

WHO = contextvars.ContextVar("WHO", default="nobody")


async def double(x):
    await asyncio.sleep(0)
    return 2 * x


def test_run_with_no_loop(virtual_loops):
    assert AsyncExecutor(double).run([1, 2, 3])[0] == [2, 4, 6]


def test_run_in_another_thread(virtual_loops):
    outputs = []
    thread = threading.Thread(target=lambda: outputs.extend(AsyncExecutor(double).run([1, 2])[0]))
    thread.start()
    thread.join()
    assert outputs == [2, 4]


def test_run_under_a_running_loop_uses_a_thread_of_its_own():
    where = []

    async def fn(x):
        where.append((threading.current_thread(), asyncio.get_running_loop(), WHO.get()))
        return x

    async def notebook():
        WHO.set("caller")
        return asyncio.get_running_loop(), AsyncExecutor(fn).run([1, 2])

    loop, (outputs, _) = asyncio.run(notebook())
    assert outputs == [1, 2]
    assert all(thread is not threading.main_thread() for thread, _, _ in where)
    assert all(used is not loop for _, used, _ in where)
    assert {who for _, _, who in where} == {"caller"}


def test_an_error_in_that_thread_is_raised_here():
    def inputs():
        yield 1
        raise OSError("broken")

    async def notebook():
        AsyncExecutor(double).run(inputs())

    with pytest.raises(OSError, match="broken"):
        asyncio.run(notebook())


def test_an_interrupt_under_a_running_loop_stops_the_run_cleanly():
    started = threading.Event()

    async def fn(x):
        if x == 0:
            return x
        started.set()
        await asyncio.sleep(1000)

    def interrupt():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    async def notebook():
        return AsyncExecutor(fn, 1).run([0, 1, 2])

    before = signal.getsignal(signal.SIGINT)
    threading.Thread(target=interrupt).start()
    outputs, details = asyncio.run(notebook())
    assert outputs[0] == 0
    assert [one.status for one in details] == [
        ExecutionStatus.COMPLETED,
        ExecutionStatus.DID_NOT_RUN,
        ExecutionStatus.DID_NOT_RUN,
    ]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_keyboard_interrupt_while_waiting_ends_the_thread_and_goes_through():
    started = threading.Event()

    async def fn(x):
        started.set()
        await asyncio.sleep(1000)

    def interrupt():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    async def notebook():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook's kernel has it
        AsyncExecutor(fn, termination_signal=None).run([1])

    before = threading.enumerate()
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(notebook())
    left = [one.name for one in threading.enumerate() if one not in before]
    assert [name for name in left if "limpet" in name] == []


def test_run_on_a_loop_that_nest_asyncio_patched_stays_on_it():
    # In a separate process: the patch cannot be undone.
    script = """
        import asyncio, nest_asyncio, threading
        from limpet import AsyncExecutor, SyncExecutor, get_executor_on_sync_context

        async def fn(x):
            assert threading.current_thread() is threading.main_thread()
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            return 2 * x

        async def notebook():
            nest_asyncio.apply()
            executor = get_executor_on_sync_context(lambda x: 0, fn)
            assert isinstance(executor, AsyncExecutor), executor
            return executor.run([1, 2])

        loop = asyncio.new_event_loop()
        print(loop.run_until_complete(notebook())[0])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[2, 4]\n", "")


def test_a_stuck_call_or_thread_does_not_hold_the_finished_run():
    # asyncio.run would wait for both without bound; the process must end by itself.
    script = """
        import asyncio, threading, os
        from limpet import AsyncExecutor

        stuck = threading.Event()

        async def fn(x):
            if x == 0:
                await asyncio.to_thread(stuck.wait)
            while x == 1:
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    pass
            return x

        executor = AsyncExecutor(fn, timeout=0.05, max_timeouts=0, exit_on_error=False)
        print(executor.run([0, 1, 2])[0], executor.abandoned)
        stuck.set()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stdout == "[<unset>, <unset>, 2] 1\n"
    assert "Task was destroyed" not in done.stderr
