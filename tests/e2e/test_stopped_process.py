"""A process that is stopped while its answers come in, and goes on: nothing is paid twice."""

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from aiohttp import web
from e2e import ready_limpet
from e2e.servers import site

CALLS, TIMEOUT_S, STOPPED_S = 12, 3.0, 4.5
SCRIPT = """
    import sys
    import limpet
    from limpet.workflows import http

    url, run, where = sys.argv[1:]
    limit = {limit}
    client = dict(first_byte_timeout=limit, between_bytes_timeout=limit, timeout=limit)
    workflow = http(url, answer="$.a", **(client if where == "client" else dict()))
    rows = [dict(id=str(n), question=str(n)) for n in range({calls})]
    result = limpet.evaluate(
        rows, workflow, run=run, pace={calls}, timeout=limit if where == "executor" else 600
    )
    print([item.output.value for item in result.items])
"""


class Holding:
    """A server that answers nobody before it is told to."""

    def __init__(self):
        self.asked = threading.Semaphore(0)
        self.answered = threading.Semaphore(0)
        self.may_answer = threading.Event()

    async def __call__(self, request):
        self.asked.release()
        while not self.may_answer.is_set():  # noqa: ASYNC110 - set on another thread
            await asyncio.sleep(0.01)
        response = web.json_response({"a": "yes"})
        await response.prepare(request)
        await response.write_eof()
        self.answered.release()
        return response


def wait_for(semaphore, count):
    for _ in range(count):
        assert semaphore.acquire(timeout=250)


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("where", ["executor", "client"])
def test_answers_that_arrived_while_the_process_was_stopped_are_taken(tmp_path, where):
    script = textwrap.dedent(SCRIPT).format(limit=TIMEOUT_S, calls=CALLS)
    holding = Holding()
    with site(holding) as server:
        process = ready_limpet.Popen(
            [sys.executable, "-c", script, server.url, str(tmp_path / "run"), where],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(holding.asked, CALLS)
            process.send_signal(signal.SIGSTOP)
            while not is_stopped(process.pid):
                time.sleep(0.01)
            holding.may_answer.set()
            wait_for(holding.answered, CALLS)
            time.sleep(STOPPED_S)  # longer than the time limit: that is what is tested
            process.send_signal(signal.SIGCONT)
            out, _ = process.communicate(timeout=250)
        finally:
            process.kill()
            process.communicate()
    assert out == f"{['yes'] * CALLS}\n"
    assert process.returncode == 0
    assert len(server.seen) == CALLS
