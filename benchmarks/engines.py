"""What does an engine cost and gain, beside one process?

The same evaluation in one process and on two workers, journal on and synced, in turns: cells that
do nothing, calls that wait, and pure Python. The rate is that between the first and the last
result: it leaves out the start of the workers, which is told apart. The processor time is that of
all processes.
"""

import asyncio
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from machine import describe, peak_bytes, print_table, verdict

import limpet

WORKERS = 2
ROUNDS = 3
CASES: dict[str, tuple[str, int, int]] = {
    # The function, the items, the calls in flight.
    "nothing": ("nothing", 20_000, 64),
    "200 ms of waiting": ("wait", 4_000, 200),
    "20 ms of pure Python": ("compute", 400, 16),
}
LEAST = {"nothing": 0.6, "200 ms of waiting": 0.95, "20 ms of pure Python": 1.7}
MOST_CPU_MS, MOST_MB = 0.25, 400
MILLION = 1_000_000


async def nothing(question: int) -> int:
    return question


async def wait(question: int) -> int:
    await asyncio.sleep(0.2)
    return question


def compute(question: int) -> int:
    until = time.thread_time() + 0.02
    total = question
    while time.thread_time() < until:
        total += sum(range(100))
    return question


class Ends(limpet.Watcher):
    """Notes when the first and the last cell ended."""

    def __init__(self) -> None:
        self.first = self.last = 0.0

    def finished(self, outcome: Any) -> None:  # noqa: ARG002 - each counts
        self.last = time.perf_counter()
        self.first = self.first or self.last


def measure(name: str, items: int, pace: int, engine: str, folder: str) -> dict[str, float]:
    """Run once, in a process of its own."""
    functions: dict[str, Callable[..., Any]] = {
        "nothing": nothing,
        "wait": wait,
        "compute": compute,
    }
    rows = [{"id": str(number), "question": number} for number in range(items)]
    ends, begin = Ends(), time.perf_counter()
    engines: dict[str, Any] = {} if engine == "one" else {"engine": {"processes": WORKERS}}
    result = limpet.evaluate(rows, functions[name], run=folder, pace=pace, watcher=ends, **engines)
    assert result.summary["workflow"]["completed"] == items
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "rate": (items - 1) / (ends.last - ends.first),
        "until_first": ends.first - begin,
        "cpu": sum(one.ru_utime + one.ru_stime for one in used),
        "memory": peak_bytes(),
    }


def in_a_process(name: str, items: int, pace: int, engine: str) -> dict[str, float]:
    folder = tempfile.mkdtemp(dir=".")
    try:
        words = [name, str(items), str(pace), engine, f"{folder}/run"]
        command = [sys.executable, __file__, *words]
        return dict(json.loads(subprocess.check_output(command)))  # noqa: S603 - ourselves
    finally:
        shutil.rmtree(folder)


def compare(case: str) -> list[str]:
    """Return the row of a case: the best of a few rounds of each, in turns."""
    name, items, pace = CASES[case]
    rounds = [
        {engine: in_a_process(name, items, pace, engine) for engine in ("one", "processes")}
        for _ in range(ROUNDS)
    ]
    one, two = (max(each[engine]["rate"] for each in rounds) for engine in ("one", "processes"))
    ratio = two / one
    bar = f"≥ {LEAST[case]}"
    return [case, f"{one:,.0f}/s", f"{two:,.0f}/s", f"{ratio:.2f}", bar,
            verdict(ratio >= LEAST[case])]  # fmt: skip


def cpu_ms(engine: str) -> float:
    """Return the processor time of a cell that does nothing, without that of the start."""
    name, items, pace = CASES["nothing"]
    whole = min(in_a_process(name, items, pace, engine)["cpu"] for _ in range(ROUNDS))
    start = min(in_a_process(name, 100, pace, engine)["cpu"] for _ in range(ROUNDS))
    return (whole - start) / (items - 100) * 1000


def main() -> None:
    rows = [compare(case) for case in CASES]
    cpu = {engine: cpu_ms(engine) for engine in ("one", "processes")}
    rows.append(["CPU of a cell that does nothing", f"{cpu['one']:.2f} ms",
                 f"{cpu['processes']:.2f} ms", "", f"≤ {MOST_CPU_MS} ms",
                 verdict(cpu["processes"] <= MOST_CPU_MS)])  # fmt: skip
    if "--million" in sys.argv:
        memory = {
            engine: in_a_process("nothing", MILLION, 64, engine)["memory"] / 1e6
            for engine in ("one", "processes")
        }
        more = memory["processes"] - memory["one"]
        rows.append([f"{MILLION:,} cells, the driver's memory", f"{memory['one']:,.0f} MB",
                     f"{memory['processes']:,.0f} MB", f"+ {more:,.0f} MB", f"≤ + {MOST_MB} MB",
                     verdict(more <= MOST_MB)])  # fmt: skip
    print(f"Engines: {describe('limpet')}\n")
    print_table(["", "one process", f"{WORKERS} workers", "ratio", "bar", ""], rows)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        name, items, pace, engine, run = sys.argv[1:]
        print(json.dumps(measure(name, int(items), int(pace), engine, run)))
    else:
        main()
