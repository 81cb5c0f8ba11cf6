"""How long does it take to read a run of 100,000 items and two evaluators?

In CPU seconds, as others may use the machine: reading waits for nothing but the page cache.

    python benchmarks/reading.py [ITEMS]
"""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import describe, print_table, verdict

import limpet
from limpet.datasets.columns import Roles
from limpet.datasets.items import PackedItems, pack
from limpet.journal.layout import directory_at
from limpet.run.planning.items_file import Contents, write_items
from limpet.run.reading import RunReader

NEW = 334
"""So many items are a thousand cells: an answer and two scores each."""
MILLION = 1_000_000


async def answer(question: str) -> limpet.Output:
    await asyncio.sleep(0)
    return limpet.Output(question.split()[2], limpet.Usage(300, 20))


def row(number: int) -> dict[str, str]:
    question = f"What is {number} and why? {'A sentence of the question. ' * 5}"
    return {"id": f"q{number}", "question": question, "answer": f"{number}"}


def make(run: Path, items: int, limit: int | None) -> None:
    evaluators = [limpet.exact_match(), limpet.contains()]
    rows = [row(number) for number in range(items)]
    limpet.evaluate(
        limpet.Dataset(rows, limit=limit),
        answer,
        evaluators,
        run=limpet.Run(run, durability="flush"),
        version="1",
        pace=64,
        early_stop=False,
    )


def cpu(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def status(run: Path) -> float:
    """Return the CPU seconds of the whole command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "limpet", "status", str(run)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ourselves
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_a_million(folder: Path) -> float:
    rows = [pack(row(number)) for number in range(MILLION)]
    names = [f"q{number}" for number in range(MILLION)]
    items = PackedItems(names, rows, Roles("id", "question", "answer"))
    contents = Contents(os.urandom(16 * MILLION), {})
    return cpu(lambda: write_items(directory_at(folder), items, contents, {}))


def main() -> None:
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    folder = Path(tempfile.mkdtemp(dir="."))
    run = folder / "run"
    try:
        make(run, items, items - NEW)
        with RunReader(run) as reader:
            reader.snapshot()
            make(run, items, None)
            refresh = cpu(reader.refresh) + cpu(reader.snapshot)
        with RunReader(run) as reader:
            summary = cpu(reader.summary)
            one = cpu(lambda: reader.item(f"q{items // 2}"))
        figures = [
            ("`limpet status`, the whole process", min(status(run) for _ in range(3)), 0.5),
            ("`summary()`", summary, 1.0),
            ("all about one item", one, 0.3),
            ("refresh and counts after 1,000 new cells", refresh, 0.02),
        ]
        shutil.rmtree(run)
        (folder / "million").mkdir()
        written = write_a_million(folder / "million")
        figures.append((f"`items.jsonl` of {MILLION:,} items written", written, 6.0))
    finally:
        shutil.rmtree(folder)
    print(f"\n{describe('limpet')}; {items:,} items\n")
    table = [
        [name, f"{seconds:.3f} s", f"≤ {limit:g} s", verdict(seconds <= limit)]
        for name, seconds, limit in figures
    ]
    print_table(["reading", "CPU", "must reach", "reached"], table)
    sys.exit(any(line[-1] == "NO" for line in table))


if __name__ == "__main__":
    main()
