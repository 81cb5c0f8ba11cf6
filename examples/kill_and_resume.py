"""240 questions, a provider that takes 40 a second, and a kill -9 half-way: nothing is lost.

The provider is a stand-in on this machine that answers 429 to what is too much, and breaks now and
then. `holdfast.map` runs in a process of its own, which is killed and started again. No network,
no key.
"""

import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from aiohttp import ClientSession, web

import holdfast

QUESTIONS = [f"What is {n} + {n}?" for n in range(240)]
RATE, BURST, LATENCY_S = 40.0, 10.0, 0.15


class Provider:
    """Answers sums, at its own pace, and counts what it answered."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.refused = self.broken = 0
        self._level, self._at = BURST, time.monotonic()
        self._rng = random.Random(7)  # noqa: S311 - a stand-in's mood, not a secret
        self.half_way = asyncio.Event()

    def _admits(self) -> bool:
        now = time.monotonic()
        self._level, self._at = min(BURST, self._level + (now - self._at) * RATE), now
        if self._level < 1:
            return False
        self._level -= 1
        return True

    async def answer(self, request: web.Request) -> web.Response:
        """Take a question, or refuse it."""
        question = (await request.json())["question"]
        if not self._admits():
            self.refused += 1
            return web.Response(status=429, headers={"Retry-After": "0.5"})
        await asyncio.sleep(LATENCY_S * self._rng.uniform(0.5, 1.5))
        if self._rng.random() < 0.02:
            self.broken += 1
            return web.Response(status=503)
        self.answered[question] += 1
        if self.answered.total() == len(QUESTIONS) // 2:
            self.half_way.set()
        return web.json_response({"answer": str(2 * int(question.split()[2]))})


async def ask_all(url: str, journal: str) -> None:
    """What a user writes: a function, and one call of `amap`."""
    async with ClientSession(raise_for_status=True) as session:

        async def ask(question: str) -> str:
            async with session.post(url, json={"question": question}) as response:
                answer: str = (await response.json())["answer"]
                return answer

        result = await holdfast.amap(ask, QUESTIONS, journal=journal)
    right = sum(output == str(2 * n) for n, output in enumerate(result.outputs))
    print(json.dumps({"kept": result.kept, "ran": result.ran, "right": right}))


async def start(provider: Provider) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_post("/answer", provider.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return runner, f"http://{host}:{port}/answer"


async def main() -> None:
    provider = Provider()
    runner, url = await start(provider)
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "answers.jsonl"
        command = [sys.executable, __file__, url, str(journal)]

        print(f"{len(QUESTIONS)} questions for a provider that takes {RATE:.0f} a second …")
        first = await asyncio.create_subprocess_exec(*command)
        await provider.half_way.wait()
        first.send_signal(signal.SIGKILL)
        await first.wait()
        on_disk = journal.read_bytes().count(b"\n")
        print(f"  kill -9 half-way: {provider.answered.total()} answered, {on_disk} on disk")

        print("once more, the same command …")
        second = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        out, _ = await second.communicate()
    await runner.cleanup()

    result = json.loads(out)
    twice = [question for question, count in provider.answered.items() if count > 1]
    print(f"  {result['kept']} kept, {result['ran']} asked, {result['right']} right")
    print(f"  {provider.refused} refused and {provider.broken} broken: tried again by themselves")
    print(f"  {len(twice)} asked twice: they were in flight when it was killed")
    if result["right"] != len(QUESTIONS) or result["kept"] < on_disk:
        raise SystemExit("an answer was lost")


if __name__ == "__main__":
    asyncio.run(ask_all(*sys.argv[1:]) if len(sys.argv) > 1 else main())
