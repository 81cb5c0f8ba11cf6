"""A server that speaks the toolkit's protocol, and a project with a NAT configuration."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager

from aiohttp import web
from e2e.project import run

STEP = {
    "event_type": "TOOL_END",
    "event_timestamp": 1794702532.43,
    "span_event_timestamp": None,
    "framework": None,
    "name": "repeat",
    "tags": None,
    "metadata": None,
    "data": {"input": "x", "output": "y", "chunk": None, "payload": None},
    "usage_info": None,
    "UUID": "u1",
}


class Server:
    """Answers `POST /generate/full` by repeating the last word of what it is asked.

    Attributes:
        asked: What was asked, in order.
        requests: How: the path, the headers and the name of the parameter.
        broken: Questions that fail on the server's side.
        refused: Questions that are no valid request.
        silent: Questions that are answered with nothing.
        odd: Questions whose last step the toolkit's own model rejects.
        most_in_flight: How many it was asked at once, at most.
        gate: Answers wait for it while it is not set; the first `free` do not.
    """

    def __init__(self):
        self.asked = []
        self.requests = []
        self.broken = set()
        self.refused = set()
        self.silent = set()
        self.odd = set()
        self.free = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.gate = threading.Event()
        self.gate.set()
        self.answer = lambda question: question.split()[-1]
        self.url = ""

    async def generate(self, request):
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.answered(request)
        finally:
            self.in_flight -= 1

    async def answered(self, request):
        [(name, question)] = (await request.json()).items()
        number = len(self.asked)
        self.asked.append(question)
        self.requests.append((request.path, request.headers, name))
        if question in self.refused:
            wrong = {"loc": ["body", name], "msg": "too odd"}
            return web.json_response({"detail": [wrong]}, status=422)
        if number >= self.free:
            await asyncio.to_thread(self.gate.wait)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        for kind in ("FUNCTION_START", "TOOL_END", *["TOOL_END_OF_TIME"] * (question in self.odd)):
            step = {"id": f"s{number}", "parent_id": "root", "type": kind, "name": "repeat"}
            step["payload"] = json.dumps({**STEP, "event_type": kind})
            await reply.write(f"intermediate_data: {json.dumps(step)}\n\n".encode())
        if question in self.broken:
            error = {"code": "workflow_error", "message": "no idea", "details": "ImportError"}
            await reply.write(json.dumps(error).encode())
        elif question not in self.silent:
            value = json.dumps({"value": self.answer(question)})
            await reply.write(f"data: {value}\n\n".encode())
        await reply.write_eof()
        return reply


@contextmanager
def serving():
    """Serve on a free port of 127.0.0.1, in a thread."""
    server, ready, loop = Server(), threading.Event(), asyncio.new_event_loop()
    app = web.Application()
    for path in ("/generate/full", "/v1/workflow/full", "/agents/one"):
        app.router.add_post(path, server.generate)

    async def start():
        runner = web.AppRunner(app, handle_signals=False)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        ready.set()
        return runner

    def work():
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(100)
    try:
        yield server
    finally:
        server.gate.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


CLEANUP = "    output: {dir: ./out, cleanup: true%s}\n"
HOLD = """
import sys
from limpet.journal.journal import Journal
with Journal(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
"""Holds the lock of a run until its stdin is closed."""
CONFIG = """\
general:
  front_end: {{_type: fastapi}}
llms:
  nim: {{_type: nim, model_name: meta/llama, temperature: 0.0}}
workflow:
  _type: react_agent
  llm_name: nim
eval:
  general:
    max_concurrency: 4
    output_dir: ./out
    dataset:
      _type: json
      file_path: data.json
{general}
  evaluators:
    correct: {{_type: exact_match}}
{evaluators}
"""


def make(folder, *, rows=6, general="", evaluators=""):
    """Write config.yml and data.json; return the folder."""
    data = [
        {"id": f"{n:03d}", "question": f"Repeat {n}", "answer": str(n), "level": "easy"}
        for n in range(rows)
    ]
    (folder / "data.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    text = CONFIG.format(general=general, evaluators=evaluators)
    (folder / "config.yml").write_text(text, encoding="utf-8")
    return folder


def go(folder, server, *more):
    """Run config.yml against a served agent."""
    return run(folder, "config.yml", "--endpoint", server.url, *more)


def aside(folder):
    """Return the directories that out/ was set aside as."""
    return list(folder.glob("out.2*"))


def column(folder, step="workflow", where="out"):
    """Return the records of a column."""
    elsewhere = folder / where / f"{step}_column.jsonl"  # where there is a live file beside it
    path = elsewhere if elsewhere.exists() else folder / where / f"{step}_output.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def output(folder, name="workflow", where="out"):
    """Return what one of the files for others holds."""
    return json.loads((folder / where / f"{name}_output.json").read_bytes())


def wait_until(true, seconds=100):
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
