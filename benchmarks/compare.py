"""How long does it take to compare two runs of 100,000 items, and how much memory?

In CPU seconds of the whole command, as others may use the machine.

    python benchmarks/compare.py [ITEMS]
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import describe, print_table, verdict

import limpet

MOST_S, MOST_MB = 3.0, 300.0


def make(run: Path, items: int, wrong: int) -> None:
    """Make a run in which each so-manieth answer is wrong."""

    async def answer(question: str) -> limpet.Output:
        await asyncio.sleep(0)
        number = int(question.split()[2])
        return limpet.Output(str(-1 if number % wrong == 0 else number), limpet.Usage(300, 20))

    rows = [
        {"id": f"q{n}", "question": f"What is {n} and why?{' A sentence.' * 12}", "answer": f"{n}"}
        for n in range(items)
    ]
    limpet.evaluate(
        rows,
        answer,
        [limpet.exact_match()],
        run=limpet.Run(run, durability="flush"),
        version=str(wrong),
        pace=64,
        fail_fast=False,
        show=False,
    )


def compare(folder: Path, *words: str) -> tuple[float, float]:
    """Return the CPU seconds and the megabytes of the whole command, with its bytecode on disk."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "limpet", "compare", str(folder / "a"), str(folder / "b")]
    process = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, env=environment)  # noqa: S603 - ourselves
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def least(folder: Path, *words: str) -> tuple[float, float]:
    """Return the least of three."""
    tries = [compare(folder, *words) for _ in range(3)]
    return min(seconds for seconds, _ in tries), min(memory for _, memory in tries)


def main() -> None:
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    folder = Path(tempfile.mkdtemp(dir="."))
    try:
        make(folder / "a", items, 7)
        make(folder / "b", items, 6)
        compare(folder)  # writes the bytecode
        figures = [
            ("`limpet compare`", *least(folder)),
            ("the same with a gate, as JSON",
             *least(folder, "--json", "--fail-if-worse", "exact_match=0.1")),
        ]  # fmt: skip
        for run in ("a", "b"):
            (folder / run / "index" / "numbers").unlink()  # as after a kill
        slow = least(folder)
    finally:
        shutil.rmtree(folder)
    print(f"\n{describe('limpet')}; two runs of {items:,} items\n")
    table = [
        [name, f"{seconds:.2f} s", f"≤ {MOST_S:g} s", f"{memory:.0f} MB", f"≤ {MOST_MB:g} MB",
         verdict(seconds <= MOST_S and memory <= MOST_MB)]
        for name, seconds, memory in figures
    ]  # fmt: skip
    table.append(["without the notes in `index/`", f"{slow[0]:.2f} s", "", f"{slow[1]:.0f} MB", "",
                  ""])  # fmt: skip
    print_table(["whole process", "CPU", "must reach", "memory", "must reach", "reached"], table)
    sys.exit(any(line[-1] == "NO" for line in table))


if __name__ == "__main__":
    main()
