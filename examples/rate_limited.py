"""240 questions, a provider that takes 40 a second and refuses the rest: nothing is lost.

The provider is a stand-in on this machine: a token bucket that answers 429 with a Retry-After,
an error now and then, and one question it never answers at first. No network, no key.
"""

import asyncio
import random
import time
from collections import Counter

from aiohttp import ClientSession, web

from holdfast import AsyncExecutor, Pacer, RateLimitError, TransientError

QUESTIONS = [f"What is {n} + {n}?" for n in range(240)]
RATE, BURST, LATENCY_S = 40.0, 10.0, 0.15
HANGS_ONCE = QUESTIONS[100]


class Provider:
    """Answers sums, at its own pace."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._level, self._at = BURST, time.monotonic()
        self._rng = random.Random(7)  # noqa: S311 - a stand-in's mood, not a secret

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
            self.seen["refused"] += 1
            return web.Response(status=429, headers={"Retry-After": "0.5"})
        self.seen["answered"] += 1
        if question == HANGS_ONCE and not self.seen["hung"]:
            self.seen["hung"] = 1
            await asyncio.sleep(60)
        await asyncio.sleep(LATENCY_S * self._rng.uniform(0.5, 1.5))
        if self._rng.random() < 0.02:
            self.seen["broken"] += 1
            return web.Response(status=503)
        number = int(question.split()[2])
        return web.json_response({"answer": str(2 * number)})


async def start(provider: Provider) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_post("/answer", provider.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return runner, f"http://{host}:{port}/answer"


async def main() -> None:
    provider = Provider()
    runner, url = await start(provider)

    async with ClientSession() as session:

        async def ask(question: str) -> str:
            async with session.post(url, json={"question": question}) as response:
                if response.status == 429:
                    wait = float(response.headers["Retry-After"])
                    raise RateLimitError(f"refused: {question}", retry_after=wait)
                if response.status != 200:
                    raise TransientError(f"status {response.status}: {question}")
                answer: str = (await response.json())["answer"]
                return answer

        print(f"{len(QUESTIONS)} questions for a provider at {url}: {RATE:.0f}/s and no more\n")
        pacer = Pacer("stand-in")
        executor = AsyncExecutor(
            ask,
            concurrency="auto",
            pacer=pacer,
            tqdm_bar_format="{l_bar}{bar:30}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]",
            timeout=3,
            exit_on_error=False,
        )
        started = time.monotonic()
        outputs, details = await executor.execute(QUESTIONS)
        seconds = time.monotonic() - started
    await runner.cleanup()

    statuses = Counter(one.status.value.lower() for one in details)
    right = sum(output == str(2 * n) for n, output in enumerate(outputs))
    fits = seconds * RATE + BURST
    print(f"\n{right} of {len(QUESTIONS)} answers are right, in {seconds:.1f} s")
    print("  " + ", ".join(f"{count} {status}" for status, count in statuses.items()))
    seen = provider.seen
    print(f"  {seen['refused']} refused, {seen['broken']} broken, {seen['hung']} hung: tried again")
    print(f"  {len(QUESTIONS) / fits:.0%} of what the provider would have taken in that time")
    found = pacer.state.rate
    print("  the pacer " + (f"found {found:.0f} calls a second" if found else "met no limit"))
    if right != len(QUESTIONS):
        raise SystemExit("an answer was lost")


if __name__ == "__main__":
    asyncio.run(main())
