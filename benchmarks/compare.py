"""How long does it take to compare two runs of 100,000 items, and how much memory?

In CPU seconds of the whole command, as others may use the machine; and of the page Compare of
`limpet view`, once both runs are read.

    python benchmarks/compare.py [ITEMS]
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import describe, print_table, verdict
from multidict import MultiDict

import limpet
from limpet.view.compare_answers import Compared
from limpet.view.viewed_runs import ViewedRuns

MOST_S, MOST_MB = 3.0, 300.0
MOST_OPEN_S, MOST_ROWS_MS = 2.0, 100.0


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


def used_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def page(folder: Path) -> tuple[float, float]:
    """Return the seconds until the page Compare has its data, and the most for 100 rows of it."""
    runs = ViewedRuns(folder)
    try:
        for name in "ab":
            with runs.use(name) as opened:
                opened.run_table.refresh()
        opens = used_s(lambda: Compared(runs, "a", ["b"]))
        changes = Compared(runs, "a", ["b"]).changes
        assert changes is not None
        answer = changes.answer
        answer(MultiDict({}))  # finds where the lines of both runs are
        some = [{"sort": sort, "from": at} for sort in ("", "-change", "position")
                for at in ("0", "9000", "20000")]  # fmt: skip
        return opens, max(used_s(lambda one=one: answer(MultiDict(one))) for one in some)  # type: ignore[misc]
    finally:
        runs.close()


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
        opens, rows = page(folder)
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
    print()
    of_page = [
        ["opens, both runs being read", f"{opens:.2f} s", f"≤ {MOST_OPEN_S:g} s",
         verdict(opens <= MOST_OPEN_S)],
        ["100 rows, the slowest of nine", f"{rows * 1000:.0f} ms", f"≤ {MOST_ROWS_MS:g} ms",
         verdict(rows * 1000 <= MOST_ROWS_MS)],
    ]  # fmt: skip
    print_table(["the page Compare", "CPU", "must reach", "reached"], of_page)
    table += of_page
    sys.exit(any(line[-1] == "NO" for line in table))


if __name__ == "__main__":
    main()
