"""`pace: N` over real HTTP, for every kind of call: the server counts how many are in flight.

Never more than N; on average over time at least 0.95 N, from one latency after the first success
until fewer than N calls are left to start.
"""

import asyncio
import importlib
import itertools
import json
import sys
import threading
import time
import urllib.request
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from e2e.servers import on_a_thread

import limpet
from limpet.models import openai_api
from limpet.workflows import command, http, nat, openai

N, CALLS, SECONDS = 64, 600, 1.5


class CountingServer:
    """Answers anything after a while, and counts."""

    def __init__(self):
        self.starts, self.ends = [], []

    @asynccontextmanager
    async def serving(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _answer(self, request):
        self.starts.append(time.monotonic())
        await request.read()
        await asyncio.sleep(SECONDS)
        self.ends.append(time.monotonic())
        message = {"role": "assistant", "content": json.dumps({"reason": "x", "label": "correct"})}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"value": "x", "choices": [choice], "model": "m"})

    def in_flight(self):
        """Return the most in flight at once, and how many on average over time, when there are."""
        assert len(self.starts) == CALLS
        begin = self.ends[0] + SECONDS
        end = self.starts[-N]
        moments = sorted([*((at, 1) for at in self.starts), *((at, -1) for at in self.ends)])
        most, now, total = 0, 0, 0.0
        for (at, more), (following, _) in itertools.pairwise([*moments, (moments[-1][0], 0)]):
            now += more
            most = max(most, now)
            total += now * max(0.0, min(following, end) - max(at, begin))
        return most, total / (end - begin)


@pytest.fixture
def server():
    counting = CountingServer()
    with on_a_thread(counting.serving()) as url:
        counting.url = url
        yield counting


def plain(server):
    def answer(question):
        with urllib.request.urlopen(server.url, data=b"{}") as reply:  # noqa: S310 - loopback
            return json.loads(reply.read())["value"]

    return answer


def asynchronous(server):
    session = threading.local()

    async def answer(question):
        if not hasattr(session, "client"):
            session.client = ClientSession()
        async with session.client.post(server.url, json={}) as reply:
            return (await reply.json())["value"]

    return answer


PROGRAM = (
    "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], data=b'{}').read(); print('x')"
)
KINDS = {
    "plain": plain,
    "async": asynchronous,
    "http": lambda server: http(server.url, answer="$.value"),
    "nat": lambda server: nat(server.url, path="/generate"),
    "model": lambda server: openai(server.url, model="m", prompt="{{question}}", key=None),
    "command": lambda server: command([sys.executable, "-c", PROGRAM, server.url]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_workflow_has_so_many_calls_in_flight(server, kind):
    rows = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(CALLS)]
    result = limpet.evaluate(rows, KINDS[kind](server), pace=N, save=False, show=False, retry=0)
    assert result.summary["workflow"]["completed"] == CALLS
    most, mean = server.in_flight()
    assert most <= N
    if kind != "command":  # starting so many processes takes two processors a while
        assert mean >= 0.95 * N


ON_WORKERS = """
import aiohttp

session = None


async def answer(question):
    global session
    session = session or aiohttp.ClientSession()
    async with session.post("URL", json={}) as reply:
        return (await reply.json())["value"]
"""


@pytest.mark.slow
def test_two_processes_have_so_many_calls_in_flight_together(server, tmp_path, monkeypatch):
    (tmp_path / "answers_on_workers.py").write_text(ON_WORKERS.replace("URL", server.url))
    monkeypatch.syspath_prepend(tmp_path)
    answer = importlib.import_module("answers_on_workers").answer
    rows = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(CALLS)]
    engine = {"processes": {"workers": 2}}
    result = limpet.evaluate(rows, answer, pace=N, engine=engine, save=False, show=False, retry=0)
    assert result.summary["workflow"]["completed"] == CALLS
    most, mean = server.in_flight()
    assert most <= N
    assert mean >= 0.95 * N


@pytest.mark.slow
def test_a_judge_has_so_many_calls_in_flight(server):
    rows = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(CALLS)]
    model = openai_api(server.url, model="m", key=None, reply="text")
    judge = limpet.judge(model, "Is {{output}} right?", choices={"correct": 1, "incorrect": 0})
    result = limpet.evaluate(
        rows, lambda question: question, [judge], pace=N, save=False, show=False, retry=0
    )
    assert result.summary["evaluators"]["judge"]["completed"] == CALLS
    most, mean = server.in_flight()
    assert most <= N
    assert mean >= 0.95 * N
