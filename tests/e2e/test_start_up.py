"""How much CPU does a start take? Ratios to a bare Python start that imports click, in one run."""

import os
import subprocess
import sys
import time

import pytest

ROUNDS = 5
APP = """
import sys, time

LATER = ["numpy", "scipy", "aiohttp", "jsonpath", "tqdm", "limpet.integrations.nat.loading",
         "limpet.run.calibrating.corrected"]

def answer(question):
    print("CPU", time.process_time(), *(name for name in LATER if name in sys.modules), flush=True)
    return question
"""
# Where each start would compile everything, that would be measured.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
LIMPET = [sys.executable, "-m", "limpet"]


def started(command, folder):
    return subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def cpu_of(command, folder):
    with started(command, folder) as process:
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def cpu_so_far(pid):
    """Return the CPU seconds of a running process: Linux has a clock for each."""
    return time.clock_gettime((~pid << 3) | 2)


def test_a_start_costs_little(tmp_path):
    cost = {"click": [], "--help": [], "first line": [], "first call": []}
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rows.jsonl").write_text('{"id": "q1", "question": "a", "answer": "a"}\n')
    (tmp_path / "eval.yml").write_text(
        "dataset: rows.jsonl\nworkflow: app:answer\nevaluators: {right: exact_match}\n"
    )
    for number in range(ROUNDS):
        cost["click"].append(cpu_of([sys.executable, "-c", "import click"], tmp_path))
        cost["--help"].append(cpu_of([*LIMPET, "--help"], tmp_path))
        if sys.platform != "linux":
            continue
        with started([*LIMPET, "run", "--set", f"run=runs/{number}"], tmp_path) as process:
            first = process.stdout.readline()
            cost["first line"].append(cpu_so_far(process.pid))
            (call,) = (one for one in process.stdout if one.startswith("CPU"))
        assert first.rstrip().endswith(f"runs/{number}")
        assert process.returncode == 0
        _, seconds, *too_early = call.split()
        assert too_early == []
        cost["first call"].append(float(seconds))
    bare = min(cost["click"])
    ratios = {name: round(min(seconds) / bare, 1) for name, seconds in cost.items() if seconds}
    print(ratios)  # noqa: T201 - docs/project/dependencies.md has them
    assert ratios["--help"] <= 3
    if sys.platform != "linux":
        pytest.skip("no clock for the CPU of another process")
    # Wanted: 5 and 8. What is reached, and why not more: docs/project/dependencies.md.
    assert ratios["first line"] <= 15
    assert ratios["first call"] <= 16
