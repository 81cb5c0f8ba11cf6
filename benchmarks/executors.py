"""How much do the executors cost, beside a bare semaphore and beside the peer?

Every figure that is a ratio was measured in one run: `make bench`.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from machine import describe, peak_bytes, print_table, verdict

from limpet import AsyncExecutor

ROUNDS = 5
MEBI = 2**20
OPTIONS: dict[str, Any] = {"max_retries": 0, "exit_on_error": False}


async def yield_once(payload: int) -> int:
    await asyncio.sleep(0)
    return payload


async def take_100_ms(payload: int) -> int:
    await asyncio.sleep(0.1)
    return payload


async def bare_semaphore(count: int, concurrency: int) -> None:
    """Run the same calls with what a careful person would write in five lines."""
    semaphore = asyncio.Semaphore(concurrency)

    async def one(payload: int) -> int:
        async with semaphore:
            return await yield_once(payload)

    await asyncio.gather(*(one(payload) for payload in range(count)))


def run_ours(function: Any, count: int, concurrency: int) -> None:
    outputs, _ = AsyncExecutor(function, concurrency, **OPTIONS).run(range(count))
    assert outputs == list(range(count))


def run_peer(function: Any, count: int, concurrency: int) -> None:
    # Not at the top: the memory of a million inputs is measured without the peer's own imports.
    from phoenix.evals.executors import AsyncExecutor as PeerExecutor  # noqa: PLC0415

    outputs, _ = PeerExecutor(function, concurrency, **OPTIONS).run(range(count))
    assert outputs == list(range(count))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def throughput(concurrency: int, peer_count: int) -> list[str]:
    count, ratios, ours_best = 20_000, [], 0.0
    for _ in range(ROUNDS):
        bare = seconds(lambda: asyncio.run(bare_semaphore(count, concurrency)))
        ours = seconds(lambda: run_ours(yield_once, count, concurrency))
        ratios.append(bare / ours)
        ours_best = max(ours_best, count / ours)
    peer = peer_count / seconds(lambda: run_peer(yield_once, peer_count, concurrency))
    ratio = statistics.median(ratios)
    return [
        f"calls/s of one `sleep(0)`, concurrency {concurrency}",
        f"{peer:,.0f}",
        f"{ours_best:,.0f} ({ours_best / peer:,.0f} × the peer, {ratio:.2f} × a bare semaphore)",
        "≥ 0.5 × a bare semaphore",
        verdict(ratio >= 0.5),
    ]


def steady_calls() -> list[str]:
    ideal = 5.0
    ours = statistics.median(seconds(lambda: run_ours(take_100_ms, 5000, 100)) for _ in range(3))
    peer = seconds(lambda: run_peer(take_100_ms, 5000, 100))
    return [
        "5,000 calls of 100 ms, concurrency 100",
        f"{peer / ideal:.2f} × the ideal 5 s",
        f"{ours / ideal:.3f} × the ideal 5 s",
        "≤ 1.05 × ideal",
        verdict(ours / ideal <= 1.05),
    ]


def end_of_run(run: Callable[[Any, int, int], None]) -> float:
    """Return the seconds between the end of the last call and the end of the run."""
    last = 0.0

    async def note_the_time(payload: int) -> int:
        nonlocal last
        await asyncio.sleep(0.001)
        last = time.perf_counter()
        return payload

    run(note_the_time, 200, 100)
    return time.perf_counter() - last


def quick_end() -> list[str]:
    ours = max(end_of_run(run_ours) for _ in range(ROUNDS))
    peer = end_of_run(run_peer)
    return [
        "end of the run after its last call",
        f"{peer * 1000:.0f} ms",
        f"{ours * 1000:.1f} ms (the worst of {ROUNDS})",
        "≤ 10 ms",
        verdict(ours <= 0.010),
    ]


def peak_mib() -> float:
    # Not getrusage: a child inherits the peak of its parent, which would hide its own.
    return peak_bytes() / MEBI


def a_million() -> Iterator[dict[str, int]]:
    for number in range(1_000_000):
        yield {"number": number}


async def take_in(payload: dict[str, int]) -> int:
    await asyncio.sleep(0)
    return payload["number"]


async def stream_a_million() -> float:
    executor: AsyncExecutor[dict[str, int], int] = AsyncExecutor(take_in, 100)
    async for _ in executor.stream([{"number": 0}] * 1000):
        pass
    start, seen = peak_mib(), 0
    async for _ in executor.stream(a_million()):
        seen += 1
    assert seen == 1_000_000
    return peak_mib() - start


def memory() -> list[str]:
    # In a process of its own: the peak so far would hide what this run needs.
    command = [sys.executable, __file__, "--stream-a-million"]
    grown = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603 - our own file
    return [
        "memory over 1,000,000 inputs from a generator",
        "holds them all",
        f"{grown:.1f} MB above the start, by `stream`",
        "≤ 50 MB",
        verdict(grown <= 50),
    ]


def main() -> None:
    run_peer(yield_once, 1, 1)  # so that no figure holds its import
    print("## Executors\n")
    print(describe("limpet", "arize-phoenix-evals") + "\n")
    rows = [throughput(3, 45), throughput(100, 1000), steady_calls(), quick_end(), memory()]
    print_table(["measure", "arize-phoenix-evals", "limpet", "must reach", "reached"], rows)
    if any(row[-1] != "yes" for row in rows):
        sys.exit("a figure was missed")


if __name__ == "__main__":
    if "--stream-a-million" in sys.argv:
        print(asyncio.run(stream_a_million()))
    else:
        main()
