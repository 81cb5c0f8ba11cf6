"""A second run, in another process, starts from what the first one learned of the server."""

import asyncio
import json
import os
import subprocess
import sys

import pytest
from aiohttp import web
from e2e.servers import served_by

from limpet.pacing.memory import PaceMemory, digest_of


class Server:
    """Answers anything after a while; counts the most calls in flight at once."""

    def __init__(self):
        self.seconds = 1.0  # long beside what a busy machine adds
        self.now = self.most = 0

    async def answer(self, request):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        choice = {"index": 0, "message": {"role": "assistant", "content": "x"}}
        return web.json_response({"choices": [choice], "model": "m"})


@pytest.fixture
def server():
    found = Server()
    with served_by(found.answer) as url:
        found.url = url
        yield found


@pytest.fixture
def limpet(tmp_path):
    """Return a function that runs limpet in a process of its own, with a state of its own."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "LIMPET_REMEMBER_PACE": "1"}

    def run(*arguments):
        command = [sys.executable, "-m", "limpet", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env={**environment, "KEY": "sk-of-a-test"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    return run


def most_of(server, limpet, tmp_path, name, count, *options):
    """Return the most calls in flight at once in a run of so many items."""
    rows = [json.dumps({"id": f"q{n}", "question": str(n)}) for n in range(count)]
    (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    model = f'{{openai: "{server.url}/v1", model: m, key: "${{KEY}}"}}'
    (tmp_path / "eval.yml").write_text(
        f'models: {{m: {model}}}\nworkflow: {{model: m, prompt: "{{{{question}}}}"}}\n'
    )
    server.most = 0
    limpet("run", "eval.yml", "--set", f"name={name}", "--set", f"dataset={name}.jsonl", *options)
    return server.most


@pytest.mark.slow
def test_the_second_run_is_at_its_pace_at_once(server, limpet, tmp_path):
    cold = most_of(server, limpet, tmp_path, "cold", 120, "--set", "pace.remember=false")
    assert not (tmp_path / "limpet").exists()
    most_of(server, limpet, tmp_path, "learns", 1200)
    assert "sk-of-a-test" not in (tmp_path / "limpet" / "pace.json").read_text()
    [line] = limpet("pace", "--json").stdout.splitlines()
    assert json.loads(line)["endpoint"] == f"{server.url} m"
    assert "in flight" in limpet("pace").stdout
    assert most_of(server, limpet, tmp_path, "warm", 120) > 1.3 * cold
    limpet("pace", "forget", server.url)
    assert limpet("pace", "--json").stdout == ""


@pytest.mark.slow
def test_a_server_that_is_slower_now_is_not_flooded(server, limpet, tmp_path):
    most_of(server, limpet, tmp_path, "learns", 1200)
    server.seconds = 3.0
    assert most_of(server, limpet, tmp_path, "slow", 60) <= 48


def test_what_is_not_remembered_is_in_no_forecast(server, limpet, tmp_path):
    server.seconds = 0.01
    most_of(server, limpet, tmp_path, "learns", 8)
    a_call_in_a_quarter_of_an_hour = (f"{server.url} m", digest_of("sk-of-a-test"), {"rate": 0.001})
    PaceMemory(tmp_path / "limpet").save([a_call_in_a_quarter_of_an_hour])
    (tmp_path / "next.jsonl").write_text((tmp_path / "learns.jsonl").read_text())
    plan = ("run", "eval.yml", "--plan", "--set", "name=next", "--set", "dataset=next.jsonl")
    assert " h " in limpet(*plan).stdout
    assert " h " not in limpet(*plan, "--set", "pace.remember=false").stdout
