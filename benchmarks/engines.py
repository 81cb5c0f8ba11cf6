"""What does an engine cost and gain, beside one process?

The same evaluation in one process and on two workers, journal on and synced, in turns: cells that
do nothing, calls that wait, and pure Python. The rate and the processor time are those between the
first and the last result, the time of all processes: they leave out the start of the workers, which
is told apart. What an engine adds is its processor time less that of one process in the same run.
The garbage collector is set as `limpet run` sets it; with Python's own setting, as in a script, a
cell takes about 0.03 ms more, on either.
"""

import gc
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from by_ray_calls import by_calls, tree_cpu
from machine import describe, peak_bytes, print_table, verdict

import limpet

WORKERS = 2
ROUNDS = 3
CASES: dict[str, tuple[str, int, int]] = {
    # The function, the items, the calls in flight.
    "nothing": ("nothing", 20_000, 64),
    "200 ms of waiting": ("wait", 12_000, 200),
    "20 ms of pure Python": ("compute", 400, 16),
}
RAY_LEAST = {"nothing": 0.3, "200 ms of waiting": 0.92, "20 ms of pure Python": 1.4}
RAY_CPU_MS, CALLS_LEAST = 0.7, 3.5
LEAST = {"nothing": 0.6, "200 ms of waiting": 0.95, "20 ms of pure Python": 1.7}
MOST_CPU_MS, MOST_ADDED_MS, MOST_MB = 0.25, 0.1, 400
MILLION = 1_000_000
PROGRAM = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    "import engines; engines.print_measured(*sys.argv[1:])"
)


class Ends(limpet.types.Watcher):
    """Notes when the first and the last cell ended, and the processor time between them."""

    def __init__(self, items: int) -> None:
        self.first = self.last = self.cpu = 0.0
        self._left = items

    def finished(self, outcome: Any) -> None:  # noqa: ARG002 - each counts
        self.last = time.perf_counter()
        self._left -= 1
        if not self.first:
            self.first, self.cpu = self.last, -tree_cpu()
        elif not self._left:
            self.cpu += tree_cpu()


def measure(name: str, items: int, pace: int, engine: str, folder: str) -> dict[str, float]:
    """Run once, in a process of its own."""
    gc.set_threshold(10_000, 10, 10)
    rows = [{"id": str(number), "question": number} for number in range(items)]
    ends, begin = Ends(items), time.perf_counter()
    engines: dict[str, Any] = {
        "processes": {"engine": {"processes": WORKERS}},
        "ray": {"engine": {"ray": {"address": "local", "workers": WORKERS}}},
    }
    function = by_calls(name, WORKERS) if engine == "calls" else f"engine_steps:{name}"
    chosen = engines.get(engine, {})
    result = limpet.evaluate(rows, function, run=folder, pace=pace, watcher=ends, **chosen)
    assert result.summary["workflow"]["completed"] == items
    return {
        "rate": (items - 1) / (ends.last - ends.first),
        "until_first": ends.first - begin,
        "tree_cpu_ms": ends.cpu / items * 1000,
        "memory": peak_bytes(),
    }


def print_measured(name: str, items: str, pace: str, engine: str, folder: str) -> None:
    print(json.dumps(measure(name, int(items), int(pace), engine, folder)))


def in_a_process(name: str, items: int, pace: int, engine: str) -> dict[str, float]:
    folder = tempfile.mkdtemp(dir=".")
    try:
        words = [name, str(items), str(pace), engine, f"{folder}/run"]
        command = [sys.executable, "-c", PROGRAM, *words]
        return dict(json.loads(subprocess.check_output(command)))  # noqa: S603 - ourselves
    finally:
        shutil.rmtree(folder)


Rounds = list[dict[str, dict[str, float]]]
"""What was measured of each engine, in each round."""


def measured(case: str) -> Rounds:
    """Return a few rounds of a case, the engines in turns."""
    name, items, pace = CASES[case]
    return [
        {engine: in_a_process(name, items, pace, engine) for engine in ("one", "processes")}
        for _ in range(ROUNDS)
    ]


def rate_row(case: str, rounds: Rounds) -> list[str]:
    """Return the row of a case: the best round of each."""
    one, two = (max(each[engine]["rate"] for each in rounds) for engine in ("one", "processes"))
    ratio = two / one
    bar = f"≥ {LEAST[case]}"
    return [case, f"{one:,.0f}/s", f"{two:,.0f}/s", f"{ratio:.2f}", bar,
            verdict(ratio >= LEAST[case])]  # fmt: skip


JOB = """\
run: run
dataset: rows.jsonl
workflow: engine_steps:{function}
evaluators: {{exact: exact_match}}
pace: {pace}
"""
JOB_ITEMS = 20_000
JOBS = {
    # The function, the pace, what a cell may cost more; None: only told.
    "async, 64 in flight": ("nothing", "64", 0.2),
    "async, a pace of its own": ("nothing", "auto", None),
    "a plain function": ("plainly_nothing", "64", None),
}


def job_cpu(function: str, pace: str, *words: str) -> float:
    """Return the CPU seconds of all processes of a command, from its start to its end."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        (folder / "eval.yml").write_text(JOB.format(function=function, pace=pace))
        rows = ({"id": str(n), "question": n, "answer": n} for n in range(JOB_ITEMS))
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        command = [sys.executable, "-m", "limpet", "run", "eval.yml", "--quiet", *words]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        here = str(Path(__file__).parent.resolve())
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run(command, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": path})  # noqa: S603 - ourselves
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def job_rows() -> list[list[str]]:
    """Return what the workers cost a whole command: their start, their end, and each cell."""
    rows = []
    engine = ("--set", f"engine={{processes: {WORKERS}}}")
    for name, (function, pace, most) in JOBS.items():
        rounds = [
            (job_cpu(function, pace), job_cpu(function, pace, *engine)) for _ in range(ROUNDS)
        ]
        one, two = (min(seconds) for seconds in zip(*rounds, strict=True))
        more_ms = (two - one) / JOB_ITEMS * 1000
        bar = ["", ""] if most is None else [f"≤ {most} ms", verdict(more_ms <= most)]
        rows.append([f"{JOB_ITEMS:,} cells and scores, the command: {name}", f"{one:.1f} s",
                     f"{two:.1f} s", f"+ {more_ms:.2f} ms a cell", *bar])  # fmt: skip
    return rows


def cost_rows(rounds: Rounds) -> list[list[str]]:
    """Return what a cell that does nothing costs, and what a run costs before its first result."""
    one, two = (
        min(each[engine]["tree_cpu_ms"] for each in rounds) for engine in ("one", "processes")
    )
    first = [min(each[engine]["until_first"] for each in rounds) for engine in ("one", "processes")]
    return [
        ["CPU of a cell that does nothing", f"{one:.2f} ms", f"{two:.2f} ms", "",
         f"≤ {MOST_CPU_MS} ms", verdict(two <= MOST_CPU_MS)],
        ["of which the engine adds", "", f"{two - one:.2f} ms", "", f"≤ {MOST_ADDED_MS} ms",
         verdict(two - one <= MOST_ADDED_MS)],
        ["until the first result", f"{first[0]:.1f} s", f"{first[1]:.1f} s", "", "", ""],
    ]  # fmt: skip


def ray_rows() -> list[list[str]]:
    """Return the rows of Ray: beside one process, and beside a Ray call for each cell."""
    rows, cpu, rate = [], 0.0, 0.0
    for case, (name, items, pace) in CASES.items():
        rounds = [
            {engine: in_a_process(name, items, pace, engine) for engine in ("one", "ray")}
            for _ in range(ROUNDS)
        ]
        one, ray = (max(each[engine]["rate"] for each in rounds) for engine in ("one", "ray"))
        if name == "nothing":
            rate, cpu = ray, min(each["ray"]["tree_cpu_ms"] for each in rounds)
        rows.append([f"Ray: {case}", f"{one:,.0f}/s", f"{ray:,.0f}/s", f"{ray / one:.2f}",
                     f"≥ {RAY_LEAST[case]}", verdict(ray / one >= RAY_LEAST[case])])  # fmt: skip
    name, items, pace = CASES["nothing"]
    calls = max(in_a_process(name, items, pace, "calls")["rate"] for _ in range(ROUNDS))
    return [
        *rows,
        ["Ray: beside a Ray call for each cell", f"{calls:,.0f}/s", f"{rate:,.0f}/s",
         f"{rate / calls:.1f}", f"≥ {CALLS_LEAST}", verdict(rate / calls >= CALLS_LEAST)],
        ["Ray: CPU of a cell that does nothing", "", f"{cpu:.2f} ms", "", f"≤ {RAY_CPU_MS} ms",
         verdict(cpu <= RAY_CPU_MS)],
    ]  # fmt: skip


def main() -> None:
    if "--job" in sys.argv:
        print_table(["", "one process", f"{WORKERS} workers", "", "bar", ""], job_rows())
        return
    if "--ray" in sys.argv:
        print(f"Engines: {describe('limpet', 'ray')}\n")
        print_table(["", "beside", f"{WORKERS} Ray workers", "ratio", "bar", ""], ray_rows())
        return
    rounds = {case: measured(case) for case in CASES}
    rows = [rate_row(case, rounds[case]) for case in CASES]
    rows += cost_rows(rounds["nothing"])
    rows += job_rows()
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
    main()
