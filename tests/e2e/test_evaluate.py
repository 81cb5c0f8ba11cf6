"""An evaluation in a real process: killed again and again, interrupted, terminated."""

import json
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter

import pytest
from e2e import ready_limpet

from tests.exported import exported

# Each call leaves a line outside of the run, so that calls are counted by somebody else.
SCRIPT = """
    import asyncio, os, random, sys
    import limpet

    log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def answer(question):
        os.write(log, f"w {question}\\n".encode())
        await asyncio.sleep(random.random() * 0.01)
        return question + "y" * (int(question) * 37 % 3000)

    async def judge(output):
        os.write(log, f"j {output.rstrip('y')}\\n".encode())
        await asyncio.sleep(random.random() * 0.01)
        return len(output)

    rows = [{"id": f"q{n}", "question": str(n)} for n in range(int(sys.argv[3]))]
    os.write(1, b"ready\\n")
    result = limpet.evaluate(rows, answer, [judge], run=sys.argv[1], pace=16)
    os.write(1, f"done {result.summary['n']} {type(result.stop_reason).__name__}\\n".encode())
"""


def start(tmp_path, count):
    arguments = [str(tmp_path / "run"), str(tmp_path / "calls"), str(count)]
    return ready_limpet.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def on_disk(run):
    """What a reader of the columns may count on: whole lines only."""
    found = set()
    for step in ("workflow", "judge"):
        column = run / f"{step}_output.jsonl"
        if column.exists():
            for line in column.read_bytes().split(b"\n")[:-1]:
                found.add((step[0], json.loads(line)["id"].removeprefix("q")))
    return found


def kill_again_and_again(tmp_path, kills, count):
    rng, calls = random.Random(5), tmp_path / "calls"
    calls.touch()
    for _ in range(kills):
        done_before, seen = on_disk(tmp_path / "run"), calls.stat().st_size
        process = start(tmp_path, count)
        assert process.stdout.readline() == "ready\n"
        # At a random moment: after so many more calls as somebody else counts them.
        target = seen + rng.randrange(0, 600)
        while calls.stat().st_size < target and process.poll() is None:
            time.sleep(0.001)  # leave the processor to it
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=100)
        made = {tuple(line.split()) for line in calls.read_text()[seen:].splitlines()}
        assert done_before.isdisjoint(made), "a finished cell ran twice"
        assert done_before <= on_disk(tmp_path / "run"), "a line was lost"
    done_before, seen = on_disk(tmp_path / "run"), calls.stat().st_size
    out, _ = start(tmp_path, count).communicate(timeout=250)
    assert out.splitlines()[-1] == f"done {count} NoneType"
    made = {tuple(line.split()) for line in calls.read_text()[seen:].splitlines()}
    assert done_before.isdisjoint(made)
    assert on_disk(tmp_path / "run") == {(s, str(n)) for s in "wj" for n in range(count)}
    answers = exported(tmp_path / "run")
    expected = [str(n) + "y" * (n * 37 % 3000) for n in range(count)]
    assert [one["generated_answer"] for one in answers] == expected


def test_three_kills_at_random_moments_lose_nothing_and_pay_for_nothing_twice(tmp_path):
    kill_again_and_again(tmp_path, kills=3, count=150)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_thirty_kills_at_random_moments_lose_nothing_and_pay_for_nothing_twice(tmp_path):
    kill_again_and_again(tmp_path, kills=30, count=1000)


@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_stops_it_in_good_order_and_it_goes_on_later(tmp_path, how):
    calls = tmp_path / "calls"
    calls.touch()
    process = start(tmp_path, 300)
    while calls.stat().st_size < 500:
        time.sleep(0.001)
    process.send_signal(how)
    out = process.stdout.read()
    process.communicate(timeout=100)
    # A shell calls both 128 and the signal; and the script does not go on.
    assert process.returncode == (-how if how == signal.SIGINT else 128 + how)
    assert out.splitlines()[-1] == "ready"
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert 0 < summary["workflow"]["completed"] < 300
    out, _ = start(tmp_path, 300).communicate(timeout=250)
    assert out.splitlines()[-1] == "done 300 NoneType"
    # What was in flight was waited for and kept: no call was made twice.
    assert max(Counter(calls.read_text().splitlines()).values()) == 1
