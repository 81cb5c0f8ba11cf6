"""Kill `limpet.map` halfway with kill -9, and resume it. Nothing is lost.

The map runs in its own process and asks 240 questions of a local stand-in for a provider that
accepts 40 calls a second. No network, no key.
"""

import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path

from aiohttp import ClientSession
from provider import RATE, Provider

import limpet

QUESTIONS = [f"What is {n} + {n}?" for n in range(240)]


async def ask_all(url: str, journal: str) -> None:
    """Ask every question. This is all you write: a function, and a call of `amap`."""
    async with ClientSession(raise_for_status=True) as session:

        async def ask(question: str) -> str:
            async with session.post(url, json={"question": question}) as response:
                answer: str = (await response.json())["answer"]
                return answer

        result = await limpet.amap(ask, QUESTIONS, journal=journal)
    right = sum(output == str(2 * n) for n, output in enumerate(result.outputs))
    print(json.dumps({"kept": result.kept, "ran": result.ran, "right": right}))


async def main() -> None:
    provider = Provider(half=len(QUESTIONS) // 2)
    runner, url = await provider.start()
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "answers.jsonl"
        command = [sys.executable, __file__, url, str(journal)]

        print(f"{len(QUESTIONS)} questions for a provider that accepts {RATE:.0f} calls a second …")
        first = await asyncio.create_subprocess_exec(*command)
        await provider.half_way.wait()
        first.send_signal(signal.SIGKILL)
        await first.wait()
        on_disk = journal.read_bytes().count(b"\n")
        print(f"  killed halfway: {provider.answered.total()} answered, {on_disk} on disk")

        print("the same command again …")
        second = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        out, _ = await second.communicate()
    await runner.cleanup()

    result = json.loads(out)
    twice = [question for question, count in provider.answered.items() if count > 1]
    print(f"  {result['kept']} kept, {result['ran']} asked, {result['right']} right")
    print(f"  {provider.refused} refused and {provider.broken} failed calls were retried")
    print(f"  {len(twice)} asked twice, because they were in flight at the kill")
    if result["right"] != len(QUESTIONS) or result["kept"] < on_disk:
        raise SystemExit("error: an answer was lost")


if __name__ == "__main__":
    asyncio.run(ask_all(*sys.argv[1:]) if len(sys.argv) > 1 else main())
