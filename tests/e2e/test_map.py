"""A map in a real process: killed, resumed, interrupted; and the example that shows it."""

import json
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from e2e import ready_limpet

ROOT = Path(__file__).parents[2]

# Each call leaves a line outside of the journal, so that calls are counted by somebody else.
SCRIPT = """
    import os, sys, asyncio, limpet

    async def work(x):
        os.write(log, f"{x}\\n".encode())
        await asyncio.sleep(0.002)
        return {"twice": 2 * x, "text": "y" * (x * 37 % 5000)}

    log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def acknowledged(finished):
        os.write(1, f"{finished.index}\\n".encode())

    result = limpet.map(work, range(int(sys.argv[3])), journal=sys.argv[1], pace=8,
                          watcher=acknowledged)
    total = sum(o["twice"] for o in result.outputs)
    os.write(1, f"done {result.kept} {result.ran} {total}\\n".encode())
"""
COUNT = 800


def start(tmp_path, count=COUNT):
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    return ready_limpet.Popen(
        [*command, str(tmp_path / "out.jsonl"), str(tmp_path / "calls"), str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("kills", "count"), [(3, COUNT), pytest.param(8, 1500, marks=pytest.mark.slow)]
)
def test_kill_9_again_and_again_loses_no_acknowledged_result_and_pays_for_none_twice(
    tmp_path, kills, count
):
    acknowledged, calls, said = set(), tmp_path / "calls", ""
    for kill in range(kills):
        seen_before = calls.stat().st_size if calls.exists() else 0
        process = start(tmp_path, count)
        now = {int(process.stdout.readline()) for _ in range(20 + 7 * kill)}
        process.send_signal(signal.SIGKILL)
        out = process.stdout.read()  # not communicate(), which forgets what was buffered
        said += process.communicate(timeout=100)[1]
        called = {int(x) for x in calls.read_bytes()[seen_before:].split()}
        assert acknowledged.isdisjoint(called)
        acknowledged |= now | {int(line) for line in out.splitlines()}
    seen_before = calls.stat().st_size
    out, err = start(tmp_path, count).communicate(timeout=250)
    word, kept, ran, total = out.splitlines()[-1].split()
    assert (word, int(kept) + int(ran), int(total)) == ("done", count, count * (count - 1))
    assert acknowledged.isdisjoint({int(x) for x in calls.read_bytes()[seen_before:].split()})
    assert int(kept) >= len(acknowledged) >= kills * 20
    assert "may have been paid for" in said + err  # whichever kill found a call in flight


def test_ctrl_c_keeps_what_is_finished_and_the_next_run_goes_on(tmp_path):
    process = start(tmp_path)
    for _ in range(100):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert "stopping:" in err
    assert "done" not in out
    assert process.returncode == -signal.SIGINT
    out, _ = start(tmp_path).communicate(timeout=250)
    word, kept, ran, _ = out.splitlines()[-1].split()
    assert word == "done"
    assert int(kept) >= 100
    assert int(kept) + int(ran) == COUNT
    # What was in flight was waited for, and is on disk: no call was made twice.
    calls = Counter((tmp_path / "calls").read_text().split())
    assert max(calls.values()) == 1


def test_the_journal_is_read_by_pandas_and_jq_like_tools(tmp_path):
    import pandas as pd

    start(tmp_path, 20).communicate(timeout=250)
    frame = pd.read_json(tmp_path / "out.jsonl", lines=True)
    assert list(frame["input"].sort_values()) == list(range(20))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["_limpet"]["status"] for row in rows} == {"completed"}


@pytest.mark.slow  # `make demo`, which shows the same for an evaluation, is in the fast run
def test_the_demo_kills_itself_and_loses_nothing():
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "kill_and_resume.py")],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "240 right" in done.stdout
