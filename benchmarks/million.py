"""What does a million rows cost: memory, and the time to find that all of it is done?

Rows of 0.3 KB in a JSONL file, a workflow that does nothing but yield once, and one evaluator,
journal on and synced; then the same again, when every byte on disk is checked and nothing is left
to do.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe, peak_bytes, print_table, verdict

import limpet

ROWS = 1_000_000
MOST_MB, MOST_SECONDS = 1_200, 8


async def answer(question: str) -> str:
    await asyncio.sleep(0)
    return question


def write_rows(path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(ROWS):
            row = {
                "id": f"q{number}",
                "question": f"What is the {number}th number, and why would anybody ask for it?",
                "answer": f"{number}",
                "topic": ("mathematics", "history", "law")[number % 3],
                "difficulty": number % 5,
                "context": f"Paragraph {number}. " + "The quick brown fox jumps over a dog. " * 3,
            }
            file.write(json.dumps(row) + "\n")


def measure(dataset: Path, run: Path) -> dict[str, float]:
    """Run once; return the seconds, the CPU seconds and the peak of memory."""
    start, cpu = time.perf_counter(), time.process_time()
    result = limpet.evaluate(dataset, answer, [limpet.exact_match()], run=run, pace=64)
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    step = result.summary["evaluators"]["exact_match"]
    return {
        "completed": step["completed"],
        "calls": result.plan.calls,
        "seconds": seconds,
        "cpu": used,
        "memory": peak_bytes(),
    }


def parse(dataset: Path) -> dict[str, float]:
    """Only parse the rows: what the times are compared with."""
    cpu = time.process_time()
    with dataset.open("rb") as file:
        for line in file:
            json.loads(line)
    return {"cpu": time.process_time() - cpu}


def in_a_process(*arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, *map(str, arguments)]
    out = subprocess.check_output(command, env={**os.environ})  # noqa: S603 - ourselves
    return dict(json.loads(out))


def main() -> None:
    folder = Path(tempfile.mkdtemp(dir="."))
    dataset, run = folder / "rows.jsonl", folder / "run"
    try:
        write_rows(dataset)
        size = dataset.stat().st_size / ROWS
        first = in_a_process("measure", dataset, run)
        parsed = in_a_process("parse", dataset)
        again = in_a_process("measure", dataset, run)
    finally:
        shutil.rmtree(folder)
    assert first["completed"] == again["completed"] == ROWS
    assert again["calls"] == 0
    peak, peak_again = first["memory"] / 1e6, again["memory"] / 1e6
    table = [
        [f"{ROWS:,} rows of {size:.0f} B, peak of memory", f"{peak:,.0f} MB",
         f"≤ {MOST_MB:,} MB", verdict(peak <= MOST_MB)],
        ["the same, CPU per cell", f"{first['cpu'] / (2 * ROWS) * 1000:.3f} ms", "", ""],
        ["run again, peak of memory", f"{peak_again:,.0f} MB",
         f"≤ {MOST_MB:,} MB", verdict(peak_again <= MOST_MB)],
        ["run again: every byte checked, nothing to do",
         f"{again['seconds']:.1f} s, {again['cpu']:.1f} s of CPU", f"≤ {MOST_SECONDS} s",
         verdict(again["seconds"] <= MOST_SECONDS)],
        ["the same against `json.loads` of the rows", f"{again['cpu'] / parsed['cpu']:.1f} ×",
         "", ""],
    ]  # fmt: skip
    print(describe("limpet"))
    print()
    print_table(["measure", "measured", "must reach", "reached"], table)
    if any(row[-1] == "NO" for row in table):
        raise SystemExit("a figure was missed")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", dataset, run]:
            print(json.dumps(measure(Path(dataset), Path(run))))
        case ["parse", dataset]:
            print(json.dumps(parse(Path(dataset))))
        case _:
            main()
