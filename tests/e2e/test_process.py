"""Real processes, real signals."""

import signal
import subprocess
import sys
import textwrap

import pytest
from e2e import ready_limpet

SCRIPT = """
    import asyncio, sys
    from limpet import AsyncExecutor

    async def fn(x):
        if x < 5:
            return x
        print("in flight", flush=True)
        await asyncio.sleep(1000)

    executor = AsyncExecutor(fn, concurrency=2, fallback_return_value=None)
    outputs, details = executor.run(range(10))
    print(outputs[:6], type(executor.stop_reason).__name__, flush=True)
"""


@pytest.fixture
def process():
    started = ready_limpet.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "in flight\n"
    assert started.stdout.readline() == "in flight\n"
    yield started
    started.kill()
    started.communicate()


def test_ctrl_c_returns_what_is_finished(process):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=250)
    assert out == "[0, 1, 2, 3, 4, None] InterruptedRunError\n"
    assert err == "stopping: 2 calls in flight, signal again to stop now\n"
    assert process.returncode == 0


def test_ctrl_c_twice_returns_what_is_finished(process):
    process.send_signal(signal.SIGINT)
    # Two signals at the same moment are one to the kernel: the first must have been heard.
    assert process.stderr.readline().startswith("stopping: 2 calls in flight")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=250)
    assert out == "[0, 1, 2, 3, 4, None] InterruptedRunError\n"
    assert process.returncode == 0
