"""A million rows fit into a gigabyte: what each of them takes, measured with fewer."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MOST_BYTES = 1_150
GROUPS = 4 * 2**20  # lines are read and added up in groups, which few rows do not fill
"""For a row of 0.3 KB, all told: with the process itself, a million stay below 1.2 GB."""
FEW = 4_000
"""By then what does not grow with the rows (buffers, a group of the journal) has its size."""

EVALUATE = textwrap.dedent("""
    import asyncio, json, sys
    from pathlib import Path
    import limpet

    async def answer(question):
        await asyncio.sleep(0)
        return question

    result = limpet.evaluate(
        sys.argv[1], answer, [limpet.exact_match()] if sys.argv[3:] else [],
        limpet.Run(sys.argv[2], durability="flush"), version="1", pace=64,
    )
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    steps = {"workflow": result.summary["workflow"], **result.summary["evaluators"]}
    step = steps["exact_match" if sys.argv[3:] else "workflow"]
    print(json.dumps([peak, step["completed"], result.plan.workflow.calls]))
""")


def write_rows(path, count):
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {
                "id": f"q{number}",
                "question": f"What is the {number}th number, and who would ask for it? " + "x" * 90,
                "answer": str(number),
                "topic": "mathematics",
                "context": "y" * 70,
            }
            file.write(json.dumps(row) + "\n")
    return path


def evaluate(dataset, run, *scored):
    """Evaluate in a process of its own; return the peak of its memory, and the calls it made."""
    command = [sys.executable, "-c", EVALUATE, str(dataset), str(run), *scored]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, completed, calls = json.loads(done.stdout)
    return peak, completed, calls


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak")
@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("many", "scored"),
    [
        pytest.param(many, scored, id=f"{many}-{name}")
        for many in (20_000, 100_000)
        for name, scored in (("scored", ["scored"]), ("answered", []))
    ],
)
def test_each_row_takes_little_memory_when_it_runs_and_when_all_is_done(tmp_path, many, scored):
    peaks = {}
    for count in (FEW, many):
        dataset = write_rows(tmp_path / f"{count}.jsonl", count)
        first, completed, calls = evaluate(dataset, tmp_path / str(count), *scored)
        assert (completed, calls) == (count, count)
        again, completed, calls = evaluate(dataset, tmp_path / str(count), *scored)
        assert (completed, calls) == (count, 0)
        peaks[count] = first, again
    for little, much in zip(peaks[FEW], peaks[many], strict=True):
        assert much - little <= MOST_BYTES * (many - FEW) + GROUPS
