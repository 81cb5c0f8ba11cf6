"""In real time: a real server with a token bucket and headers, and nothing to configure."""

import asyncio
import time

import aiohttp
from aiohttp import web

import limpet
from limpet import AsyncExecutor

RATE, BURST, COUNT = 100.0, 100.0, 400


class Server:
    """100 requests a second, said in headers as OpenAI does, and refused above."""

    def __init__(self):
        self.level, self.at = BURST, time.monotonic()
        self.refused = 0

    async def answer(self, request):
        now = time.monotonic()
        self.level, self.at = min(BURST, self.level + (now - self.at) * RATE), now
        fits = self.level >= 1
        self.level -= fits
        headers = {
            "x-ratelimit-limit-requests": str(int(BURST)),
            "x-ratelimit-remaining-requests": str(int(self.level)),
            "x-ratelimit-reset-requests": f"{(BURST - self.level) / RATE:.3f}s",
        }
        if not fits:
            self.refused += 1
            return web.json_response({}, status=429, headers=headers)
        await asyncio.sleep(0.2)
        return web.json_response({"answer": (await request.json())["x"]}, headers=headers)


async def run():
    server = Server()
    app = web.Application()
    app.router.add_post("/", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = "http://{}:{}/".format(*runner.addresses[0][:2])
    async with aiohttp.ClientSession(raise_for_status=True) as session:

        async def ask(x):
            async with session.post(url, json={"x": x}) as response:
                limpet.pacing.observe(headers=response.headers)
                return (await response.json())["answer"]

        executor = AsyncExecutor(ask, "auto", exit_on_error=False)
        outputs, _ = await executor.execute(range(COUNT))
    await runner.cleanup()
    return outputs, server, executor.pacer.state


def test_a_real_server_is_found_out_and_hardly_ever_has_to_refuse():
    started = time.monotonic()
    outputs, server, state = asyncio.run(run())
    seconds = time.monotonic() - started
    assert outputs == list(range(COUNT))
    assert server.refused <= 0.03 * COUNT
    assert state.refused == server.refused
    # Not a measurement of this machine: the server's own limit allows no less than 3 s, and twice
    # that would mean that half of it was left unused.
    assert (COUNT - BURST) / RATE <= seconds <= 2 * COUNT / RATE
