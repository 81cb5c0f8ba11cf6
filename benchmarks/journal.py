"""What does durability cost, beside the naive way and beside the bare system calls?

The naive way is what most people write: `asyncio.to_thread` of open, append, flush, close, for
each item. Every figure that is a ratio was measured in one run: `make bench`.
"""

import asyncio
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from machine import describe, peak_bytes, print_table, verdict

from limpet.journal import Cell, Column, ColumnReader, Journal, Outcome
from limpet.journal.lines import encode_outcome

ROUNDS = 5
AT_ONCE = 1000
MILLION = 1_000_000
SMALL = 500
FLUSHED = "items/s against naive, not synced"
RAW = "items/s against raw `os.write`"
SYNCED = "items/s synced, against unsynced naive"
CPU = "CPU per item against naive"
Measured = tuple[float, float]
"""Items a second, and CPU seconds per item."""


def record_of(size: int) -> dict[str, Any]:
    """Return an answer as it is kept, of about so many bytes."""
    return {
        "id": "q001",
        "row": {"id": "q001", "question": "x" * 80, "answer": "y" * 40},
        "output": "z" * (size - 330),
        "trace": [],
    }


def key_of(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


async def many(items: Iterable[Any], append: Callable[[Any], Awaitable[object]]) -> Measured:
    """Append with up to a thousand under way, and wait for each."""
    under_way: deque[Awaitable[object]] = deque()
    count, start, cpu = 0, time.perf_counter(), time.process_time()
    for item in items:
        if len(under_way) == AT_ONCE:
            await under_way.popleft()
        under_way.append(append(item))
        count += 1
    for one in under_way:
        await one
    return count / (time.perf_counter() - start), (time.process_time() - cpu) / count


def naive(folder: Path, size: int, count: int) -> Measured:
    record, path = record_of(size), folder / "naive.jsonl"

    def write() -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()

    def append(_: int) -> Awaitable[object]:
        return asyncio.ensure_future(asyncio.to_thread(write))

    return asyncio.run(many(range(count), append))


def raw(folder: Path, size: int, count: int) -> float:
    line = json.dumps(record_of(size)).encode() + b"\n"
    fd = os.open(folder / "raw.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    start = time.perf_counter()
    for _ in range(count):
        os.write(fd, line)
    seconds = time.perf_counter() - start
    os.close(fd)
    return count / seconds


def ours(folder: Path, size: int, count: int, durability: Any) -> Measured:
    record = record_of(size)
    outcomes = [
        Outcome(Cell("workflow", f"q{number}", 0, key_of(number)), record=record)
        for number in range(count)
    ]
    with Journal(folder / "run", durability=durability) as journal:
        measured = asyncio.run(many(outcomes, journal.column("workflow").append))
    with Journal(folder / "run") as journal:
        assert len(journal.column("workflow")) == count
    return measured


def in_a_new_folder(work: Callable[..., Any], *arguments: Any) -> Any:
    folder = Path(tempfile.mkdtemp(dir="."))
    os.sync()  # else one way pays for what the one before it left to be written
    try:
        return work(folder, *arguments)
    finally:
        shutil.rmtree(folder)


def throughput(size: int, count: int, must: dict[str, float]) -> list[list[str]]:
    """Compare the four ways, interleaved, and take the median of the ratios."""
    ratios: list[tuple[float, float, float, float]] = []
    cpus = []
    for _ in range(ROUNDS):
        bare, bare_cpu = in_a_new_folder(naive, size, count // 10)
        system = in_a_new_folder(raw, size, count)
        flushed, cpu = in_a_new_folder(ours, size, count, "flush")
        synced, _ = in_a_new_folder(ours, size, count, "sync")
        print(
            f"  {size:>7,} B: naive {bare:,.0f}/s, {bare_cpu * 1e6:,.0f} µs CPU; "
            f"raw {system:,.0f}/s; flush {flushed:,.0f}/s, {cpu * 1e6:,.1f} µs CPU; "
            f"sync {synced:,.0f}/s",
            file=sys.stderr,
        )
        ratios.append((flushed / bare, flushed / system, synced / bare, bare_cpu / cpu))
        cpus.append(cpu * 1e6)
    rows = []
    names = (FLUSHED, RAW, SYNCED, CPU)
    for name, values in zip(names, zip(*ratios, strict=True), strict=True):
        ratio = statistics.median(values)
        shown, least = ("1/{:.1f}", "≤ 1/{:g}") if name == CPU else ("{:.2f} ×", "≥ {:g} ×")
        row = [f"{size:,} bytes: {name}", shown.format(ratio), "", ""]
        if name in must:
            row[2:] = least.format(must[name]), verdict(ratio >= must[name])
        rows.append(row)
    cpu = statistics.median(cpus)
    row = [f"{size:,} bytes: CPU per item", f"{cpu:.1f} µs", "", ""]
    if size == SMALL:
        row[2:] = "≤ 25 µs", verdict(cpu <= 25)
    return [*rows, row]


# ---- the event loop's lag -------------------------------------------------------------------


async def lag(append: Callable[[int], object] | None, seconds: float = 4.0) -> float:
    """Return the 99th percentile of how late a timer is, at 2,000 records a second."""
    late: list[float] = []
    loop, number = asyncio.get_running_loop(), 0
    end = loop.time() + seconds
    while loop.time() < end:
        due = loop.time() + 0.001
        await asyncio.sleep(0.001)
        late.append(loop.time() - due)
        for _ in range(2):
            if append is not None:
                append(number)
            number += 1
    return statistics.quantiles(late, n=100)[98] * 1000


def loop_lag(folder: Path) -> list[str]:
    record, without, with_journal = record_of(5_000), [], []
    for turn in range(ROUNDS):
        without.append(asyncio.run(lag(None)))
        with Journal(folder / str(turn)) as journal:
            column = journal.column("workflow")

            def append(number: int, column: Column = column) -> object:
                return column.append(
                    Outcome(Cell("workflow", str(number), 0, key_of(number)), record=record)
                )

            with_journal.append(asyncio.run(lag(append)))
    before, after = statistics.median(without), statistics.median(with_journal)
    most = 1.5 * before + 2
    return [
        "loop lag p99 at 2,000 records/s, synced",
        f"{after:.2f} ms (without a journal {before:.2f} ms)",
        f"≤ {most:.2f} ms (1.5 × without + 2 ms)",
        verdict(after <= most),
    ]


# ---- opening --------------------------------------------------------------------------------


def write_million(folder: Path) -> Path:
    path = folder / "workflow_output.jsonl"
    record = record_of(560)
    with path.open("wb", buffering=2**20) as file:
        for number in range(MILLION):
            cell = Cell("workflow", f"q{number}", 0, key_of(number))
            file.write(encode_outcome(Outcome(cell, record=record)))
    return path


def opening(folder: Path) -> list[list[str]]:
    path = write_million(folder)
    size = path.stat().st_size / MILLION
    with Journal(folder) as journal:  # makes the index
        journal.column("workflow")
    index = folder / "index" / "workflow_output.idx"
    ratios, with_index = [], []
    for _ in range(3):
        naive_s = seconds(lambda: parse_all(path))
        scan_s = seconds(lambda: ColumnReader(path))
        index_s = seconds(lambda: ColumnReader(path, index))
        print(
            f"  1,000,000 records of {size:.0f} B: json.loads {naive_s:.2f} s, "
            f"scan {scan_s:.2f} s, index {index_s:.2f} s",
            file=sys.stderr,
        )
        ratios.append(naive_s / scan_s)
        with_index.append(index_s)
    scanned, indexed = statistics.median(ratios), statistics.median(with_index)
    command = [sys.executable, __file__, "memory", str(path), str(index)]
    memory = int(subprocess.check_output(command))  # noqa: S603 - ourselves
    return [
        [
            f"opening 1,000,000 records of {size / 1000:.1f} KB, checked scan against `json.loads`",
            f"1/{scanned:.1f}",
            "≤ 1/1.5",
            verdict(scanned >= 1.5),
        ],
        ["the same with its index", f"{indexed:.2f} s", "≤ 2 s", verdict(indexed <= 2)],
        [
            "memory per record, open",
            f"{memory / MILLION:.0f} bytes",
            "≤ 150 bytes",
            verdict(memory <= 150 * MILLION),
        ],
    ]


def parse_all(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def print_memory(path: Path, index: Path) -> None:
    """Print how much the peak grows while a column is opened, in a process of its own."""
    # Not getrusage: a child inherits the peak of its parent.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_bytes()
    reader = ColumnReader(path, index)
    assert len(reader) == MILLION
    print(peak_bytes() - before)


def main() -> None:
    rows = [
        *throughput(SMALL, 40_000, {SYNCED: 5, CPU: 5}),
        *throughput(5_000, 20_000, {FLUSHED: 5, SYNCED: 2.5, CPU: 4}),
        *throughput(100_000, 2_000, {FLUSHED: 2.5, RAW: 0.125, SYNCED: 1.25, CPU: 2}),
        in_a_new_folder(loop_lag),
        *in_a_new_folder(opening),
    ]
    print(describe("limpet", "orjson"))
    print()
    print_table(["measure", "measured", "must reach", "reached"], rows)
    if any(row[-1] == "NO" for row in rows):
        raise SystemExit("a figure was missed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        print_memory(*map(Path, sys.argv[2:]))
    else:
        main()
