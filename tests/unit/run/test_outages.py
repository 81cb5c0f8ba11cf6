"""An outage of a provider fails no cell, of the workflow or of a judge."""

import asyncio
import socket

import pytest

import limpet
from limpet.executors.retry import Backoff

DOWN = 8
"""How many calls find nobody listening."""

ITEMS = 30


class Judge:
    """Asks a real server, which starts only after some calls were refused."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.calls = 0
        self.answered = 0
        self.called = asyncio.Semaphore(1)
        self.server = None

    async def ask(self):
        self.calls += 1
        if self.calls == DOWN + 1:
            self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            value = float(await reader.read())
        finally:
            writer.close()
        self.answered += 1
        if self.answered == ITEMS:  # an open one would be reported in another test
            self.server.close()
        return value

    @staticmethod
    async def _serve(_, writer):
        writer.write(b"1.0")
        writer.close()


@pytest.mark.parametrize("retries", [1, 2])
def test_a_judge_that_is_asked_now_and_then_outlives_an_outage(tmp_path, retries):
    judge = Judge()

    async def answer(question):
        await judge.called.acquire()  # the next answer comes when the judge was asked about this
        return question

    async def score(output):
        try:
            return await judge.ask()
        finally:
            judge.called.release()

    result = limpet.evaluate(
        [{"id": f"q{n}", "question": f"what {n}"} for n in range(ITEMS)],
        answer,
        [score],
        tmp_path / "run",
        retry=limpet.Retry(retries, Backoff(0, 0)),
        version="1",
    )
    assert result.stop_reason is None
    assert result.summary["evaluators"]["score"]["failed"] == {}
    assert result.summary["scores"]["score"]["mean"] == 1.0
    assert judge.calls == DOWN + ITEMS
