"""What does a judge cost on our side, and does it share its provider's limit with the workflow?

A server of its own process replies to each chat completion after 50 ms. The same calls are made by
a judge of ours, with journal and pacing, and by the openai SDK with nothing around it, each in a
process of its own. The shared limit is measured in virtual time. `python benchmarks/judges.py
calls` (or `shared`, or `memory`: 100,000 calls) measures one of these alone.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import providers
from aiohttp import web
from machine import describe, peak_bytes, print_table, verdict

import limpet
from limpet.evaluators.judge import judge as judge_by
from limpet.executors import AsyncExecutor
from limpet.models import Model, Reply, openai_api
from limpet.pacing import PacerRegistry, endpoint, observe
from limpet.pacing.registry import pacing_with
from limpet.shapes import Usage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from virtual_time import run as run_in_virtual_time

MEBI = 2**20
COUNT, IN_FLIGHT, WAIT_S = 5_000, 50, 0.05
MANY = 100_000
SHARED = 5_000
MOST_OF_SDK = 0.33
"""A call's CPU, of that of the SDK in the same minutes: milliseconds depend on the machine."""
REPLY = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"finish_reason":"stop","message":{"role":"assistant","content":'
    b'"{\\"reason\\":\\"It names the right city.\\",\\"label\\":\\"correct\\"}"}}],'
    b'"usage":{"prompt_tokens":210,"completion_tokens":19,"total_tokens":229}}'
)


# ---- the server ---------------------------------------------------------------------------------


async def reply(request: web.Request) -> web.Response:
    await request.read()
    await asyncio.sleep(WAIT_S)
    return web.Response(body=REPLY, content_type="application/json")


async def serve() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", reply)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2_000).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@contextmanager
def server() -> Iterator[int]:
    """Start one, and yield its port."""
    command = [sys.executable, __file__, "serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


# ---- a judge of ours, and the SDK ---------------------------------------------------------------


def rows(count: int) -> Iterator[dict[str, str]]:
    for n in range(count):
        question = f"What is the capital of country {n}?"
        yield {"id": f"q{n}", "question": question, "answer": f"City {n}"}


async def copied(question: str) -> str:
    return f"The answer to {question!r} is a city."


def measure_judge(port: int, folder: Path, count: int) -> tuple[float, int]:
    """Return the CPU seconds that judging takes, and the peak of memory.

    The answers are there before. All that it takes to judge them counts: planning, the calls, and
    reading back and writing the results. The rows are in a file: a list would be memory of ours.
    """
    dataset = folder.with_suffix(".jsonl")
    with dataset.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count))
    limpet.evaluate(dataset, copied, run=folder, pace=IN_FLIGHT, show=False)
    model = openai_api(f"http://127.0.0.1:{port}/v1", model="m", key=None)
    judge = judge_by(model, of="correctness")
    before = time.process_time()
    result = limpet.evaluate(dataset, copied, [judge], run=folder, pace=IN_FLIGHT, show=False)
    used = time.process_time() - before
    assert result.summary["evaluators"]["correctness"]["completed"] == count, result.summary
    return used, peak_bytes()


def measure_sdk(port: int, _: Path, count: int) -> tuple[float, int]:
    """Return the CPU seconds of the SDK, and the peak of memory."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - slow to import

    async def main() -> None:
        client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        left: Iterator[int] = iter(range(count))

        async def ask() -> None:
            for n in left:
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": f"Is {n} the answer?"}]
                )

        await asyncio.gather(*(ask() for _ in range(IN_FLIGHT)))

    before = time.process_time()
    asyncio.run(main())
    return time.process_time() - before, peak_bytes()


def in_a_process(kind: str, port: int, folder: Path, count: int) -> tuple[float, int]:
    command = [sys.executable, __file__, kind, str(port), str(folder), str(count)]
    out = subprocess.check_output(command, env={**os.environ}, text=True)  # noqa: S603 - ourselves
    used, memory = out.split()
    return float(used), int(memory)


# ---- one limit for the workflow and its judge ---------------------------------------------------


class FiftyPerSecond(providers.TokenBucket):
    """50 requests a second, burst 50."""

    rate = burst = 50.0


class Simulated(Model):
    """A model at a provider that allows so many requests a second."""

    name, endpoint, fingerprint = "simulated", "simulated", {"model": "simulated"}

    def __init__(self, provider: providers.Provider) -> None:
        self._provider = provider
        self._items = itertools.cycle(provider.items)

    async def ask(self, messages: Sequence[Any], *, schema: Any = None, **params: Any) -> Reply:
        del messages, params
        async with endpoint(self.endpoint):
            await self._provider.call(next(self._items))
            observe(usage={"total_tokens": 229})
        parsed = None if schema is None else {"reason": "fits", "label": "correct"}
        return Reply("", parsed=parsed, usage=Usage(210, 19), finish="stop")


def share(count: int) -> tuple[float, float]:
    """Return the share of the limit that a workflow and its judge use, and of refused calls."""
    provider = FiftyPerSecond(0, 2 * count)
    model = Simulated(provider)
    judge = judge_by(model, of="correctness")

    async def main() -> float:
        registry = PacerRegistry()
        pacer, queue = registry.get(model.endpoint), asyncio.Queue[str | None]()

        async def answer(row: dict[str, str]) -> None:
            await model.ask([{"role": "user", "content": row["question"]}])
            queue.put_nowait(row["id"])

        async def judged(id_: str) -> None:
            given = limpet.Item(id_, "which?", "a city", {})
            await judge.call(limpet.types.Scored("a city", "a city", "which?", given))

        async def answered() -> Any:
            while (id_ := await queue.get()) is not None:
                yield id_

        async def run(function: Any, inputs: Any) -> None:
            executor: AsyncExecutor[Any, Any] = AsyncExecutor(
                function, pacer=pacer, concurrency=1_000, tqdm_bar_format=None,
                termination_signal=None,
            )  # fmt: skip
            async for done in executor.stream(inputs):
                assert done.error is None, done.error

        with pacing_with(registry):
            judging = asyncio.create_task(run(judged, answered()))
            await run(answer, rows(count))
            queue.put_nowait(None)
            await judging
        return asyncio.get_running_loop().time()

    seconds = run_in_virtual_time(main())
    return provider.oracle() / seconds, provider.seen["429"] / (2 * count)


def calls(port: int, folder: Path) -> list[list[str]]:
    in_a_process("judge", port, folder / "warm", 100)
    used, _ = in_a_process("judge", port, folder / "run", COUNT)
    sdk, _ = in_a_process("sdk", port, folder, COUNT)
    each, theirs = used / COUNT * 1000, sdk / COUNT * 1000
    ratio = each / theirs
    return [
        ["a judge call, with journal and pacing: CPU",
         f"{ratio:.2f} × a call of the SDK ({each:.2f} ms)", f"≤ {MOST_OF_SDK} ×",
         verdict(ratio <= MOST_OF_SDK)],
        ["a call of the openai SDK, nothing around it: CPU", f"{theirs:.2f} ms", "", ""],
    ]  # fmt: skip


def shared(_: int, __: Path) -> list[list[str]]:
    limit, refused = share(SHARED)
    return [
        [f"{SHARED:,} items, workflow and judge at one provider: of its limit", f"{limit:.1%}",
         "≥ 97%", verdict(limit >= 0.97)],
        ["the same: calls refused", f"{refused:.2%}", "< 1%", verdict(refused < 0.01)],
    ]  # fmt: skip


def memory(port: int, folder: Path) -> list[list[str]]:
    used, peak = in_a_process("judge", port, folder / "many", MANY)
    return [
        [f"{MANY:,} items judged: peak of memory", f"{peak / MEBI:.0f} MB", "≤ 200 MB",
         verdict(peak <= 200 * MEBI)],
        ["the same: CPU for each", f"{used / MANY * 1000:.2f} ms", "", ""],
    ]  # fmt: skip


PARTS = {"calls": calls, "shared": shared, "memory": memory}


def main(names: Sequence[str]) -> None:
    with server() as port, tempfile.TemporaryDirectory(dir=".") as folder:
        table = [row for name in names for row in PARTS[name](port, Path(folder))]
    print(describe("limpet", "aiohttp", "openai"))
    print()
    print_table(["measure", "measured", "must reach", "reached"], table)
    if any(row[-1] == "NO" for row in table):
        raise SystemExit("a figure was missed")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    elif len(sys.argv) == 5:
        kind, given_port, given_folder, given_count = sys.argv[1:]
        measured = measure_judge if kind == "judge" else measure_sdk
        print(*measured(int(given_port), Path(given_folder), int(given_count)))
    else:
        main(sys.argv[1:] or list(PARTS))
