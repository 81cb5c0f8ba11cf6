"""Two runs at once, in processes of their own, share the limit of a server that counts."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import pytest
from aiohttp import web
from e2e.servers import served_by

MOST = 24  # calls in flight


class Server:
    """Answers up to `MOST` calls at once, each after half a second, and counts by path."""

    def __init__(self):
        self.now, self.most_now = Counter(), Counter()
        self.answered, self.refused = Counter(), Counter()

    async def answer(self, request):
        asked = await request.json()
        who = asked["messages"][0]["content"].partition(" ")[0]
        if self.now.total() >= MOST:
            self.refused[who] += 1
            return web.json_response({"error": {"message": "too many"}}, status=429)
        self.now[who] += 1
        try:
            await asyncio.sleep(0.5)
        finally:
            self.now[who] -= 1
        self.answered[who] += 1
        choice = {"index": 0, "message": {"role": "assistant", "content": "x"}}
        return web.json_response({"choices": [choice], "model": "m"})


@pytest.fixture
def server():
    found = Server()
    with served_by(found.answer) as url:
        found.url = url
        yield found


@pytest.fixture
def start(server, tmp_path):
    """Return a function that starts a run of many items in a process of its own."""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "LIMPET_SHARE_PACE": "1"}
    started = []

    def run(name, count, *options, pace="auto"):
        rows = [json.dumps({"id": f"q{n}", "question": str(n)}) for n in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
        model = f'{{openai: "{server.url}/v1", model: m, key: "${{KEY}}"}}'
        (tmp_path / f"{name}.yml").write_text(
            f"name: {name}\ndataset: {name}.jsonl\npace: {pace}\nmodels: {{m: {model}}}\n"
            f'workflow: {{model: m, prompt: "{name} {{{{question}}}}"}}\n'
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "limpet", "run", f"{name}.yml", *options],
            cwd=tmp_path, env={**environment, "KEY": "sk-of-a-test"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()


def when(true, patience_s=60):
    """Wait until something is true."""
    until = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
def test_two_runs_share_a_limit_and_a_killed_one_leaves_its_part(server, start, tmp_path):
    first = start("first", 2500)
    when(lambda: server.now["first"] >= MOST - 3)
    start("second", 5000)
    when(lambda: server.now["second"] >= MOST // 3)
    before = Counter(server.answered)
    refused = server.refused.total()
    when(lambda: server.answered["second"] - before["second"] > 200)
    gained = server.answered - before
    assert gained["first"] > 0.6 * gained["second"]
    assert gained["second"] > 0.6 * gained["first"]
    assert server.refused.total() - refused < 0.03 * gained.total()
    assert "sk-of-a-test" not in "".join(map(str, (tmp_path / "limpet").iterdir()))

    os.killpg(first.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    when(lambda: server.now["second"] >= MOST - 3)
    assert time.monotonic() - killed_at < 20  # seconds, on a busy machine


@pytest.mark.slow
def test_a_run_with_a_number_keeps_it_and_the_other_takes_the_rest(server, start):
    start("number", 4000, pace=16)
    when(lambda: server.now["number"] == 16)
    start("auto", 4000)
    when(lambda: server.now["auto"] >= MOST - 16 - 1)
    before, refused = Counter(server.answered), Counter(server.refused)
    when(lambda: server.answered["auto"] - before["auto"] > 100)
    gained = server.answered - before
    assert gained["number"] > 1.5 * gained["auto"]
    assert (server.refused - refused).total() < 0.05 * gained.total()


@pytest.mark.slow
def test_a_folder_that_others_can_change_is_named_and_the_run_goes_on_alone(start, tmp_path):
    (tmp_path / "limpet").mkdir()
    (tmp_path / "limpet").chmod(0o777)
    process = start("alone", 20)
    _, errors = process.communicate()
    assert process.returncode == 0
    assert errors.count("the pace is not shared with other runs") == 1
