"""`workflow: {command: …}` with the real command: what a user sees, and which processes survive."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e import project, ready_limpet

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

AGENT = """
import json, os, pathlib, subprocess, sys, time

row = json.load(sys.stdin)
number = int(row["question"].split()[-1])
with open("calls.txt", "a") as notes:
    notes.write(row["id"] + "\\n")
if number >= {free} and not os.path.exists("go"):
    child = subprocess.Popen(["sleep", "600"])
    with open("pids", "a") as pids:
        pids.write(f"{{os.getpid()}}\\n{{child.pid}}\\n")
    time.sleep(600)
print("thinking with", os.environ.get("SERVICE_API_KEY"), file=sys.stderr)
print(number)
"""


def make(folder, *, free=10**9, more="", rows=6):
    (folder / "agent.py").write_text(AGENT.format(free=free))
    command = json.dumps([sys.executable, "-S", "agent.py"])
    return project.make(folder, rows=rows, workflow=f"{{command: {command}}}", more=more)


def pids(folder):
    file = folder / "pids"
    return list(map(int, file.read_text().split("\n")[:-1])) if file.exists() else []


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def wait_for(condition):
    while not condition():
        time.sleep(0.01)


def wait_for_the_end_of_all(folder):
    assert pids(folder)
    wait_for(lambda: not any(map(is_alive, pids(folder))))


def started(folder):
    """Start the command, and wait until two programs are running with a child each."""
    process = ready_limpet.Popen(
        [*project.COMMAND, "run", "--set", "pace=2"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(pids(folder)) >= 4 and len(project.answered(folder)) >= 2)
    return process


def finish(folder):
    """Run the rest, and return how often each item was asked."""
    (folder / "go").touch()
    done = project.run(folder)
    assert done.returncode == 0, done.stderr
    asked = project.calls(folder)
    return {item: asked.count(item) for item in set(asked)}


def test_a_program_is_evaluated_and_its_edit_is_noticed(tmp_path):
    make(tmp_path)
    assert project.run(tmp_path).returncode == 0
    assert len(project.calls(tmp_path)) == 6
    assert project.run(tmp_path).returncode == 0
    assert len(project.calls(tmp_path)) == 6
    agent = tmp_path / "agent.py"
    agent.write_text(agent.read_text().replace("print(number)", "print(number + 0)"))
    assert project.run(tmp_path, "--set", "on_change=redo").returncode == 0
    assert len(project.calls(tmp_path)) == 12


def test_as_many_run_at_once_as_there_are_processors(tmp_path):
    make(tmp_path)
    project.run(tmp_path)
    events = (tmp_path / "runs/trial/events.jsonl").read_text()
    assert f'"words":"{len(os.sched_getaffinity(0))} at a time"' in events


def test_a_missing_program_is_said_before_the_first_call(tmp_path):
    project.make(tmp_path, workflow="{command: ./agnet.sh}")
    (tmp_path / "agent.sh").write_text("echo 1")
    done = project.run(tmp_path)
    assert done.returncode == 2
    assert "error: there is no program './agnet.sh'" in done.stderr
    assert "hint: did you mean 'agent.sh'?" in done.stderr
    assert not project.answered(tmp_path)


def test_a_failure_shows_what_the_program_wrote_to_stderr(tmp_path):
    code = "import sys; print('asking the model', file=sys.stderr); sys.exit('no key')"
    command = json.dumps([sys.executable, "-S", "-c", code])
    project.make(tmp_path, rows=2, workflow=f"{{command: {command}}}")
    assert project.run(tmp_path).returncode == 1
    shown = project.run(tmp_path, "--failed", command="show").stdout
    assert "exit status 1: no key" in shown
    assert "stderr:\n  asking the model\n  no key" in shown


def test_a_secret_on_stderr_or_in_an_answer_is_masked_on_disk(tmp_path):
    make(tmp_path)
    secret = "sk-proj-Ab3dEf6hIj9kLm2nOp5q"  # noqa: S105 - none
    assert project.run(tmp_path, env={**os.environ, "SERVICE_API_KEY": secret}).returncode == 0
    column = (tmp_path / "runs/trial/workflow_output.jsonl").read_text()
    assert "thinking with" in column
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert not any(secret in path.read_text(errors="replace") for path in files)


def test_a_program_that_is_too_slow_is_killed_with_its_children(tmp_path):
    make(tmp_path, free=2, rows=3, more="timeout: 1s\nretry: {max_retries: 0, max_timeouts: 0}\n")
    done = project.run(tmp_path)
    assert done.returncode == 1, done.stderr
    wait_for_the_end_of_all(tmp_path)
    failures = (tmp_path / "runs/trial/failures.jsonl").read_text()
    assert '"class":"timeout"' in failures


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGINT, signal.SIGINT], 130),
        pytest.param([signal.SIGTERM], 143, marks=pytest.mark.slow),
    ],
)
def test_a_stop_leaves_no_process_and_the_rest_runs_next_time(tmp_path, signals, code):
    make(tmp_path, free=2)
    with started(tmp_path) as process:
        process.send_signal(signals[0])
        # Two signals at the same moment are one to the kernel: the first must have been heard.
        assert any("stopping" in line for line in process.stderr)
        for signum in signals[1:]:
            process.send_signal(signum)
        process.communicate()
    assert process.returncode == code
    wait_for_the_end_of_all(tmp_path)
    asked = finish(tmp_path)
    assert (asked["q0"], asked["q1"]) == (1, 1)
    assert len(asked) == 6


def test_kill_9_leaves_no_process_and_the_rest_runs_next_time(tmp_path):
    make(tmp_path, free=2)
    with started(tmp_path) as process:
        process.kill()
        process.communicate()
    wait_for_the_end_of_all(tmp_path)
    asked = finish(tmp_path)
    assert (asked["q0"], asked["q1"]) == (1, 1)
    assert len(asked) == 6
