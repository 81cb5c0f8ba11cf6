"""A budget holds over HTTP and over kills: the server counts what it charges for."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from aiohttp import web
from e2e.servers import served_by

MOST = 40  # completion tokens of a call
PRICE = {"prompt": 1000, "completion": 10_000}  # dollars for a million tokens


class Server:
    """Charges for each call it begins, also if nobody waits for the answer."""

    def __init__(self):
        self.random = random.Random(0)
        self.cost, self.tokens, self.calls = 0.0, 0, 0
        self.seconds = 0.05

    async def answer(self, request):
        asked = await request.json()
        assert asked["max_tokens"] == MOST
        is_stream = asked.get("stream")
        # A tokenizer for which each byte of the request is a token is the worst there is.
        prompt = len(await request.read()) if is_stream else len(json.dumps(asked["messages"])) // 4
        completion = MOST if is_stream else self.random.choice([1, 5, MOST])
        self.calls += 1
        self.tokens += prompt + completion
        self.cost += (prompt * PRICE["prompt"] + completion * PRICE["completion"]) / 1e6
        await asyncio.sleep(self.random.uniform(0, 2 * self.seconds))
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        message = {"role": "assistant", "content": "x"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        if is_stream:
            chunk = {"choices": [{**choice, "delta": message}], "model": "m", "usage": usage}
            return web.Response(
                text=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n",
                content_type="text/event-stream",
            )
        return web.json_response({"choices": [choice], "model": "m", "usage": usage})


@pytest.fixture
def server():
    found = Server()
    with served_by(found.answer) as url:
        found.url = url
        yield found


@pytest.fixture
def command(server, tmp_path):
    """Return the start of the command, in a folder with 1,500 items and a model with a price."""
    rows = [json.dumps({"id": f"q{n}", "question": str(n)}) for n in range(1500)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    model = {"openai": f"{server.url}/v1", "model": "m", "key": "${KEY}"}
    content = {
        "name": "eval",
        "dataset": "rows.jsonl",
        "pace": 16,
        "models": {"m": {**model, "params": {"max_tokens": MOST}}},
        "prices": {"m": PRICE},
        "workflow": {"model": "m", "prompt": "{{question}}"},
    }
    (tmp_path / "eval.yml").write_text(json.dumps(content))
    return [sys.executable, "-m", "limpet", "run", "eval.yml"]


def limpet(command, folder, *options):
    return subprocess.run(
        [*command, *options], cwd=folder, env={**os.environ, "KEY": "sk-of-a-test"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def spent(folder):
    summary = json.loads((folder / "runs/eval/summary.json").read_text())
    return summary["budget"]["spent"]


def test_with_max_tokens_the_cap_is_hard_and_the_command_to_go_on_finishes(
    command, server, tmp_path
):
    done = limpet(command, tmp_path, "--budget", "cost=50")
    assert done.returncode == 3, done.stderr
    assert 48 < server.cost <= 50
    assert spent(tmp_path)["cost"] == pytest.approx(server.cost)
    assert "budget" in done.stderr
    assert " answers on disk; the rest: " in done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("resume with:")]
    again = limpet([*command, *line.split()[-2:]], tmp_path)
    assert again.returncode == 0, again.stderr
    assert server.calls == 1500
    assert spent(tmp_path)["cost"] == pytest.approx(server.cost)


def test_of_a_stream_each_byte_of_the_request_is_reserved(command, server, tmp_path):
    options = ("--set", "models.m.stream=true", "--set", "pace=1")
    limpet(command, tmp_path, *options, "--budget", "calls=1")
    cap = 5 * server.cost - 0.01  # the next questions are as long
    done = limpet(command, tmp_path, *options, "--budget", f"cost={cap}")
    assert done.returncode == 3, done.stderr
    assert server.calls == 4
    assert server.cost <= cap


def test_of_calls_a_budget_is_exact(command, server, tmp_path):
    done = limpet(command, tmp_path, "--budget", "calls=37", "--budget", "tokens=1M,time=2h")
    assert done.returncode == 3
    assert server.calls == 37
    assert "37 calls of 37 calls" in done.stderr


def test_what_a_budget_left_is_an_event(command, server, tmp_path):
    done = limpet(command, tmp_path, "--budget", "tokens=1000", "--json")
    assert done.returncode == 3
    (left,) = [
        event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "left"
    ]
    assert left["calls"] + server.calls == 1500
    assert left["forecast"]["tokens"]["low"] > 0


def test_time_ends_a_run_and_what_is_in_flight_is_kept(command, server, tmp_path):
    server.seconds = 0.5
    done = limpet(command, tmp_path, "--budget", "time=3s")
    assert done.returncode == 3
    kept = (tmp_path / "runs/eval/workflow_output.jsonl").read_text().count("\n")
    assert kept == server.calls < 1500


@pytest.mark.slow
def test_sixty_kills_around_a_cap(command, server, tmp_path):
    rng = random.Random(1)
    for _ in range(60):
        process = subprocess.Popen(
            [*command, "--budget", "tokens=100k"], cwd=tmp_path,
            env={**os.environ, "KEY": "sk-of-a-test"}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        before, until = server.calls, time.monotonic() + 30
        while server.calls < before + rng.randrange(5, 40) and time.monotonic() < until:
            if process.poll() is not None:
                break
            time.sleep(0.005)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        assert server.tokens <= 100_000
        if code == 3:
            break
    done = limpet(command, tmp_path, "--budget", "tokens=100k")
    assert done.returncode == 3, done.stderr
    assert server.tokens <= 100_000
    assert spent(tmp_path)["tokens"] >= server.tokens
    assert "estimated" in done.stderr  # what was in flight at the kills
    kept = (tmp_path / "runs/eval/workflow_output.jsonl").read_text().count("\n")
    assert kept > 10
    finished = limpet(command, tmp_path)
    assert finished.returncode == 0, finished.stderr
