"""`pace: N` over real HTTP, for every kind of call: the server counts how many are in flight.

Never more than N; on average over time at least 0.95 N, from one latency after the first success
until fewer than N calls are left to start.
"""

import importlib
import importlib.util
import json
import sys
import urllib.request

import pytest
from aiohttp import ClientSession
from e2e.counting_server import CountingServer

import limpet
from limpet.models import openai_api
from limpet.workflows import command, http, nat, openai

SECONDS = 1.5
CALLS = {64: 600, 256: 2_000}
# If 256 answers came in the same moment, again and again, one processor would need a third of a
# second for them each time, and its speed would be measured: 0.91 to 0.98 N where it is busy.
SPREAD = {64: 0.0, 256: 0.2}

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install 'limpet[ray]' to test it",
)


@pytest.fixture
def pace():
    return 64


@pytest.fixture
def server(pace):
    counting = CountingServer(SECONDS, SPREAD[pace])
    yield counting
    counting.close()


def plain(server):
    def answer(question):
        with urllib.request.urlopen(server.url, data=b"{}") as reply:  # noqa: S310 - loopback
            return json.loads(reply.read())["value"]

    return answer


def asynchronous(server):
    async def answer(question):
        async with ClientSession() as session, session.post(server.url, json={}) as reply:
            return (await reply.json())["value"]

    return answer


def judged(server):
    model = openai_api(server.url, model="m", key=None, reply="text")
    judge = limpet.judge(model, "Is {{output}} right?", choices={"correct": 1, "incorrect": 0})
    return lambda question: question, [judge]


PROGRAM = (
    "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], data=b'{}').read(); print('x')"
)
KINDS = {
    "plain": lambda server: (plain(server),),
    "async": lambda server: (asynchronous(server),),
    "http": lambda server: (http(server.url, answer="$.value"),),
    "nat": lambda server: (nat(server.url, path="/generate"),),
    "model": lambda server: (openai(server.url, model="m", prompt="{{question}}", key=None),),
    "command": lambda server: (command([sys.executable, "-c", PROGRAM, server.url]),),
    "judge": judged,
}
MANY = ("async", "http", "model", "judge")  # as many calls as one process can have


def evaluate(calls, *steps, **more):
    rows = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(calls)]
    result = limpet.evaluate(rows, *steps, save=False, show=False, retry=0, **more)
    assert result.summary["workflow"]["completed"] == calls
    assert not result.failed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pace", "kind"), [*((64, kind) for kind in KINDS), *((256, kind) for kind in MANY)]
)
def test_so_many_calls_are_in_flight(server, pace, kind):
    evaluate(CALLS[pace], *KINDS[kind](server), pace=pace)
    most, mean = server.in_flight(pace, CALLS[pace])
    assert most <= pace
    if kind != "command":  # starting so many processes takes two processors a while
        assert mean >= 0.95 * pace


ON_WORKERS = """
import urllib.request

import aiohttp

session = None


async def asynchronous(question):
    global session
    session = session or aiohttp.ClientSession()
    async with session.post("URL", json={}) as reply:
        return (await reply.json())["value"]


def plain(question):
    with urllib.request.urlopen("URL", data=b"{}") as reply:
        return reply.read().decode()
"""


@pytest.fixture
def on_workers(server, tmp_path, monkeypatch):
    (tmp_path / "answers_on_workers.py").write_text(ON_WORKERS.replace("URL", server.url))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    yield importlib.import_module("answers_on_workers")
    del sys.modules["answers_on_workers"]


two_workers = pytest.mark.parametrize(
    "engine",
    [
        pytest.param({"processes": {"workers": 2}}, id="processes"),
        pytest.param({"ray": {"address": "local", "workers": 2}}, id="ray", marks=needs_ray),
    ],
)


@pytest.mark.slow
@two_workers
def test_two_workers_have_so_many_calls_in_flight_together(server, pace, on_workers, engine):
    evaluate(CALLS[pace], on_workers.asynchronous, pace=pace, engine=engine)
    most, mean = server.in_flight(pace, CALLS[pace])
    assert most <= pace
    assert mean >= 0.95 * pace


@pytest.mark.slow
@two_workers
def test_two_workers_have_at_most_two_calls_of_a_plain_function_in_flight(
    server, pace, on_workers, engine
):
    evaluate(20, on_workers.plain, pace=pace, engine=engine)
    most, _ = server.in_flight(2, 20)  # how many on average depends on when the second one starts
    assert most <= 2
