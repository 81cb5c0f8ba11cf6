"""A local stand-in for a model provider. No network, no key.

It accepts 40 calls a second, refuses the rest with 429, and sometimes fails with 503.
"""

import asyncio
import random
import time
from collections import Counter

from aiohttp import web

RATE, BURST, LATENCY_S = 40.0, 10.0, 0.15


class Provider:
    """Answers sums, and counts its answers.

    Args:
        half: Set `half_way` after this many answers.
    """

    def __init__(self, half: int) -> None:
        self.answered: Counter[str] = Counter()
        self.refused = self.broken = 0
        self.half_way = asyncio.Event()
        self._half = half
        self._level, self._at = BURST, time.monotonic()
        self._rng = random.Random(7)  # noqa: S311 - not used for security

    def _admits(self) -> bool:
        now = time.monotonic()
        self._level, self._at = min(BURST, self._level + (now - self._at) * RATE), now
        if self._level < 1:
            return False
        self._level -= 1
        return True

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a question, or refuse it."""
        question = (await request.json())["question"]
        if not self._admits():
            self.refused += 1
            return web.Response(status=429, headers={"Retry-After": "0.5"})
        await asyncio.sleep(LATENCY_S * self._rng.uniform(0.5, 1.5))
        if self._rng.random() < 0.02:
            self.broken += 1
            return web.Response(status=503)
        self.answered[question] += 1
        if self.answered.total() == self._half:
            self.half_way.set()
        return web.json_response({"answer": str(2 * int(question.split()[2]))})

    async def start(self) -> tuple[web.AppRunner, str]:
        """Start the server; return its runner and its URL."""
        app = web.Application()
        app.router.add_post("/answer", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return runner, f"http://{host}:{port}/answer"
