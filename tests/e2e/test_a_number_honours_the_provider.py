"""With a number for `pace`, what the provider says still counts, whatever makes the calls."""

import asyncio
import json
import time

import pytest
from aiohttp import web
from e2e.servers import served_by

import limpet
from limpet.pacing import endpoint
from limpet.workflows import http, openai

ROWS = [{"id": f"q{n}", "question": str(n)} for n in range(60)]


class Refusing:
    """Refuses the twentieth call and names a wait of three seconds; knows when calls started."""

    def __init__(self):
        self.starts = []
        self.refused_at = None

    async def answer(self, request):
        await request.read()
        self.starts.append(time.monotonic())
        if len(self.starts) == 20:
            self.refused_at = time.monotonic()
            return web.json_response({}, status=429, headers={"Retry-After": "3"})
        await asyncio.sleep(0.1)
        message = {"role": "assistant", "content": "x"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"value": "x", "choices": [choice], "model": "m"})


@pytest.mark.parametrize("kind", ["http", "model"])
def test_a_wait_it_names_is_kept_by_all(kind, tmp_path):
    server = Refusing()
    with served_by(server.answer) as url:
        workflow = (
            http(url, body={"q": "{{question}}"}, answer="$.value")
            if kind == "http"
            else openai(url, model="m", key=None, prompt="{{question}}")
        )
        result = limpet.evaluate(ROWS, workflow, [], run=tmp_path / "run", pace=4, show=False)
    assert "60 of 60 completed" in str(result)
    # Calls that are on their way may still arrive, and a loaded machine is late, never early.
    early = [at for at in server.starts if server.refused_at + 1.5 < at < server.refused_at + 2.9]
    assert not early
    words = [
        event["words"]
        for event in map(json.loads, (tmp_path / "run" / "events.jsonl").read_text().splitlines())
        if event.get("event") == "pace"
    ]
    assert "at the number you set" in words[0]
    assert any("1 refused" in one for one in words)


def test_an_evaluator_that_paces_its_own_calls_has_that_number(tmp_path):
    now = most = 0

    @limpet.evaluator(endpoint=None)
    async def judged(output):
        nonlocal now, most
        async with endpoint("provider/x"):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.3)
            now -= 1
        return 1

    rows = [{"id": f"q{n}", "question": str(n)} for n in range(200)]
    limpet.evaluate(rows, lambda question: question, [judged], save=False, show=False, pace=64)
    assert most == 64
