"""A writer in a container of its own: its process number means nothing outside."""

import fcntl
import json
import os
import shutil
import subprocess
import sys

import pytest

import limpet
from limpet.errors import RunLockedError
from limpet.journal import Journal, lock
from limpet.journal.lock import Lock
from limpet.run.reading import open_run
from limpet.run.reading.run_files import holder_of

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
WRITER = """
import os, sys, time, limpet

def answer(question):
    if question == "slow":
        while not os.path.getsize(os.path.join(sys.argv[1], "workflow_output.jsonl")):
            time.sleep(0.005)  # until the first answer is on disk
        print(os.getpid(), flush=True)
        sys.stdin.read()
    return question

rows = [{"id": one, "input": one} for one in ("quick", "slow")]
limpet.evaluate(rows, answer, (), sys.argv[1], version="1", pace=1)
"""


def may_have_containers():
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def elsewhere(tmp_path):
    """A run under way in another container."""
    if not may_have_containers():
        pytest.skip("nobody may make a pid namespace here")
    process = subprocess.Popen(
        [*CONTAINER, sys.executable, "-c", WRITER, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "1\n"  # the first process there
        yield process, tmp_path / "run"
        process.kill()


def test_who_writes_in_another_container_is_told_and_nobody_is_told_to_kill_number_1(elsewhere):
    _, run = elsewhere
    with pytest.raises(RunLockedError, match="in another container on this machine") as refused:
        Journal(run)
    assert "this process" not in str(refused.value)
    assert "kill" not in refused.value.hint
    with open_run(str(run)) as reader:
        assert reader.state == "running"
        assert reader.holder.pid == 1


def test_killed_there_it_is_not_running_any_more(elsewhere):
    process, run = elsewhere
    process.kill()
    process.wait()
    process.stdout.read()  # until the last of its processes is gone
    with open_run(str(run)) as reader:
        assert reader.holder.is_alive is False
        assert reader.state == "cut off"


def test_number_1_of_another_container_does_not_take_us_for_itself(tmp_path):
    if not may_have_containers():
        pytest.skip("nobody may make a pid namespace here")
    code = "import sys; from limpet.journal import Journal; Journal(sys.argv[1])"
    with Journal(tmp_path):
        done = subprocess.run(
            [*CONTAINER, sys.executable, "-c", code, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "in another container on this machine" in done.stderr
    assert f"there {os.getpid()}" in done.stderr
    assert "kill -INT" not in done.stderr


def test_a_lock_of_another_container_is_asked_itself_whatever_its_text_says(tmp_path):
    """Without a container: what the lock says is changed to be from one."""
    held = Lock(tmp_path / "LOCK")
    who = json.loads((tmp_path / "LOCK").read_text())
    (tmp_path / "LOCK").write_text(
        json.dumps({**who, "pid_namespace": "pid:[1]", "host": "box", "path": "/other/LOCK"})
    )
    assert holder_of(tmp_path / "LOCK").is_alive is True
    with pytest.raises(RunLockedError, match="in another container"):
        Lock(tmp_path / "LOCK")
    held.release()
    assert holder_of(tmp_path / "LOCK").is_alive is False


def test_whoever_asks_the_lock_keeps_no_writer_out(tmp_path, monkeypatch):
    Lock(tmp_path / "LOCK").release()
    with (tmp_path / "LOCK").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as `is_held` does, for a moment
        monkeypatch.setattr(lock.time, "sleep", lambda _: fcntl.flock(file, fcntl.LOCK_UN))
        Lock(tmp_path / "LOCK").release()


def test_the_run_itself_goes_on_from_what_a_killed_container_left(elsewhere):
    process, run = elsewhere
    process.kill()
    process.wait()
    process.stdout.read()
    rows = [{"id": one, "input": one} for one in ("quick", "slow")]
    result = limpet.evaluate(rows, lambda question: question, (), run, version="1")
    assert result.plan.workflow.kept == 1
