"""What does an evaluation cost beside its calls, and how does the cost grow?

A workflow that does nothing but yield once and one evaluator, journal on and synced.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe, peak_bytes, print_table, verdict, yardstick_ms

import limpet

MEBI = 2**20
MOST_YARDSTICKS = 0.0255
"""Of a cell, by the tree that took 0.218 ms on another machine: 0.0248 to 0.0262 in five runs."""


async def answer(question: str) -> str:
    await asyncio.sleep(0)
    return question


def rows(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"q{n}", "question": f"What is the {n}th number?", "answer": f"{n}"}
        for n in range(count)
    ]


def measure(count: int, folder: Path) -> tuple[float, float, int]:
    """Run once; return the seconds, the CPU seconds and how the peak of memory grew."""
    dataset = rows(count)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_bytes()
    start, cpu = time.perf_counter(), time.process_time()
    result = limpet.evaluate(dataset, answer, [limpet.exact_match()], run=folder / "run", pace=64)
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    assert result.summary["workflow"]["completed"] == count
    assert result.summary["evaluators"]["exact_match"]["completed"] == count
    return seconds, used, peak_bytes() - before


def in_a_process(count: int, folder: Path) -> tuple[float, float, int]:
    command = [sys.executable, __file__, str(count), str(folder)]
    out = subprocess.check_output(command, env={**os.environ}, text=True)  # noqa: S603 - ourselves
    seconds, used, memory = out.split()
    return float(seconds), float(used), int(memory)


def main() -> None:
    table = []
    growth = []
    folder = Path(tempfile.mkdtemp(dir="."))
    try:
        in_a_process(100, folder / "warm")  # imports, byte code
        for count in (1_000, 10_000, 100_000):
            before = yardstick_ms()
            _, used, memory = in_a_process(count, folder / str(count))
            per_cell = used / (2 * count) * 1000
            yardsticks = per_cell / ((before + yardstick_ms()) / 2)
            growth.append(f"{count:,}: {per_cell:.3f} ms")
            if count == 10_000:
                table.append(
                    ["10,000 items, CPU per cell", f"{per_cell:.3f} ms", "≤ 0.22 ms",
                     verdict(per_cell <= 0.22)]
                )  # fmt: skip
                table.append(
                    ["the same, in yardsticks", f"{yardsticks:.4f}", f"≤ {MOST_YARDSTICKS}",
                     verdict(yardsticks <= MOST_YARDSTICKS)]
                )  # fmt: skip
                table.append(
                    ["10,000 items, growth of memory", f"{memory / MEBI:.0f} MB", "≤ 80 MB",
                     verdict(memory <= 80 * MEBI)]
                )  # fmt: skip
        seconds, _, memory = in_a_process(100_000, folder / "100000")
        table.append(
            ["100,000 finished items, run again", f"{seconds:.2f} s", "≤ 2 s",
             verdict(seconds <= 2)]
        )  # fmt: skip
        table.append(
            ["the same, growth of memory", f"{memory / MEBI:.0f} MB", "≤ 200 MB",
             verdict(memory <= 200 * MEBI)]
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    table.append(["CPU per cell as items grow", ", ".join(growth), "linear", ""])
    print(describe("limpet"))
    print()
    print_table(["measure", "measured", "must reach", "reached"], table)
    if any(row[-1] == "NO" for row in table):
        raise SystemExit("a figure was missed")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*measure(int(sys.argv[1]), Path(sys.argv[2])))
    else:
        main()
