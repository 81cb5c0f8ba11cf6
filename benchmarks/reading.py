"""How long does it take to read a run of 100,000 items and two evaluators?

In CPU seconds, as others may use the machine: reading waits for nothing but the page cache.

    python benchmarks/reading.py [ITEMS]
"""

import asyncio
import multiprocessing
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe, print_table, verdict

import limpet
from limpet.datasets.columns import Roles
from limpet.datasets.items import PackedItems, pack
from limpet.journal.index import ENTRY_BYTES
from limpet.journal.layout import directory_at
from limpet.run.planning.items_file import Contents, write_items
from limpet.run.reading import RunReader
from limpet.run.reading.run_table import RunTable, TableQuery
from limpet.view.run_answers import first_answer, run_answer
from limpet.view.viewed_runs import ViewedRun

NEW = 334
"""So many items are a thousand cells: an answer and two scores each."""
LINE_BYTES = 650
"""An answer's line has about so many."""
MILLION = 1_000_000


async def answer(question: str) -> limpet.Output:
    await asyncio.sleep(0)
    number = question.split()[2]
    return limpet.Output(f"{number}!" if number.endswith("7") else number, limpet.Usage(300, 20))


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
        fail_fast=False,
    )


@contextmanager
def paused(run: Path, items: int, until: float) -> Iterator[None]:
    """Make a run whose process stands still when so much is written, and is killed at the end."""
    writer = multiprocessing.get_context("spawn").Process(target=make, args=(run, items, None))
    writer.start()
    scored = run / "contains_output.jsonl"
    try:
        while lines_in(scored) < until * items:
            assert writer.is_alive()
            time.sleep(0.05)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGSTOP)
        yield
    finally:
        writer.kill()
        writer.join()


def make_and_kill(run: Path, items: int, until: float) -> None:
    """Make a run whose process is killed when so much of its answers is written."""
    with paused(run, items, until):
        pass


def lines_in(path: Path) -> int:
    """Return about how many lines a column of scores has."""
    if not path.exists() or not path.stat().st_size:
        return 0
    with path.open("rb") as file:
        return path.stat().st_size // len(file.readline())


def cpu(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def refresh_live(run: Path, items: int) -> float:
    """Return the CPU seconds of a refresh with its counts, per 1,000 cells of a run that runs."""
    writer = multiprocessing.get_context("spawn").Process(target=make, args=(run, items, None))
    writer.start()
    try:
        column = run / "workflow_output.jsonl"
        wait_for_bytes(column, 20_000)
        with RunReader(run) as reader:
            reader.snapshot()
            seconds = []
            for _ in range(5):
                before = sum(map(len, reader.columns.values()))
                wait_for_bytes(column, column.stat().st_size + NEW * LINE_BYTES)
                spent = cpu(reader.refresh) + cpu(reader.snapshot)
                new = sum(map(len, reader.columns.values())) - before
                seconds.append(spent * 1_000 / new)
            return statistics.median(seconds)
    finally:
        writer.kill()
        writer.join()


def wait_for_bytes(path: Path, size: int) -> None:
    while not path.exists() or path.stat().st_size < size:
        time.sleep(0.01)


def status(run: Path) -> float:
    """Return the CPU seconds of the whole command, with its bytecode on disk as if installed."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(run.parent / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "limpet", "status", str(run)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603 - ourselves
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_a_million(folder: Path) -> float:
    """Return the CPU seconds of the items."""
    rows = [pack(row(number)) for number in range(MILLION)]
    names = [f"q{number}" for number in range(MILLION)]
    items = PackedItems(names, rows, Roles("id", "question", "answer"))
    contents = Contents(os.urandom(16 * MILLION), {})
    return cpu(lambda: write_items(directory_at(folder), items, contents, {}))


def open_table(run: Path) -> RunTable:
    """Return the table of all items, as a page opens it."""
    run_table = RunTable(RunReader(run))
    run_table.refresh()
    run_table.summary()
    list(run_table.read(range(100)))  # the first rows
    return run_table


def open_page(run: Path) -> None:
    """Read all that the page of a run shows first."""
    opened = ViewedRun(run)
    answer = run_answer(opened, run.name, can_label=False)
    assert answer["state"] == "running", answer["state"]
    list(opened.run_table.read(range(100)))  # the first rows


def open_first(run: Path) -> None:
    """Read the name and the progress of a run."""
    assert first_answer(run, run.name) is not None


def look(
    reading: Callable[[Path], Any], run: Path, results: "multiprocessing.Queue[tuple[float, float]]"
) -> None:
    """Send the CPU seconds of a first look at a run, and the most memory of it in MB."""
    seconds = cpu(lambda: reading(run))
    results.put((seconds, most_memory()))


def most_memory() -> float:
    """Return the most memory that this process had, in MB.

    Not `ru_maxrss`: on Linux, that of a child begins with the memory of its parent.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def first_look(run: Path, reading: Callable[[Path], Any] = open_table) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[tuple[float, float]] = context.Queue()
    process = context.Process(target=look, args=(reading, run, results))
    process.start()
    found = results.get()
    process.join()
    return found


def pages(folder: Path, cells: int) -> list[tuple[str, float, float]]:
    """Return what the pages need of a run with so many cells, three for each item."""
    run, named = folder / "pages", f"pages, {cells:,} cells"
    make(run, cells // 3, None)
    ended, megabytes = first_look(run)
    shutil.rmtree(run)
    with paused(run, cells // 3, 0.97):
        first, _ = first_look(run, open_first)
        page, page_megabytes = first_look(run, open_page)
    rest = {path: cut_off(path, NEW) for path in run.glob("*_output.jsonl")}
    killed, more_megabytes = first_look(run)
    run_table = open_table(run)
    for path, lines in rest.items():
        with path.open("ab") as file:
            file.write(lines)
    refresh = cpu(run_table.refresh)
    query = TableQuery(below={"exact_match": 0.5}, sort="-seconds")
    found = query.ordered(run_table.table, np.flatnonzero(query.holds(run_table.table)))
    assert 0 < len(found) < len(run_table) / 5, len(found)  # a tenth
    sort = cpu(lambda: query.ordered(run_table.table, np.flatnonzero(query.holds(run_table.table))))
    return [
        (f"{named}: first look at a run that ended", ended, 3.0),
        (f"{named}: the same, memory in GB", megabytes / 1000, 0.3),
        (f"{named}: name and progress of a run that runs", first, 2.5),
        (f"{named}: the page of a run that runs, opened first", page, 12.0),
        (f"{named}: the same, memory in GB", page_megabytes / 1000, 0.3),
        (f"{named}: first look at a run that was killed", killed, 12.0),
        (f"{named}: the same, memory in GB", more_megabytes / 1000, 0.3),
        (f"{named}: refresh after 1,000 new cells", refresh, 0.03),
        (f"{named}: a tenth filtered and sorted", sort, 0.1),
    ]


def cut_off(path: Path, lines: int) -> bytes:
    """Cut the last lines of a column off, and their entries in its index; return the lines."""
    content = path.read_bytes()
    at = len(content)
    for _ in range(lines + 1):
        at = content.rfind(b"\n", 0, at)
    os.truncate(path, at + 1)
    index = directory_at(path.parent).index(path)
    os.truncate(index, max(0, index.stat().st_size - lines * ENTRY_BYTES))
    return content[at + 1 :]


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
        make_and_kill(folder / "killed", items, 0.97)
        with RunReader(folder / "killed") as reader:
            added_up = cpu(reader.summary)
        figures = [
            ("`limpet status`, the whole process", min(status(run) for _ in range(3)), 0.5),
            ("`summary()` of a run that ended: every byte is checked", summary, 1.0),
            ("`summary()` of a run that was killed: all is added up", added_up, 3.5),
            ("all about one item", one, 0.3),
            ("refresh and counts after 1,000 new cells", refresh, 0.03),
            ("the same while the run runs", refresh_live(folder / "live", items), 0.03),
        ]
        shutil.rmtree(run)
        figures += pages(folder, MILLION)
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
