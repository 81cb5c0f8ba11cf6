"""One writer per journal: whoever holds the lock, until it is closed or dead."""

import asyncio
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

import pytest
from crash.laboratory import (
    STEP,
    key_of,
    kill,
    outcome_of,
    read_all,
    reports_of,
    start,
    write,
)
from e2e import ready_limpet

from limpet.errors import JournalError, RunLockedError
from limpet.journal import Journal, repair
from limpet.run.reading.run_files import holder_of

CONTENDER = Path(__file__).with_name("contender.py")


@contextmanager
def contenders(count):
    processes = [
        ready_limpet.Popen(
            [sys.executable, str(CONTENDER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for _ in range(count)
    ]
    try:
        for process in processes:  # both are up before they race
            assert ask([process], "close") == [{"closed": True}]
        yield processes
    finally:
        for process in processes:
            with process:
                kill(process)


def ask(processes, word):
    for process in processes:
        process.stdin.write(word + "\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in processes]


def race(home, times, count=2):
    """Let them race for one journal again and again; return what each round said."""
    with contenders(count) as processes:
        rounds = []
        for turn in range(times):
            order = processes[turn % count :] + processes[: turn % count]
            rounds.append(ask(order, f"open {home}"))
            ask(order, "close")
        return rounds


def test_of_two_that_race_exactly_one_wins_fifty_times(tmp_path):
    rounds = race(tmp_path / "journal", 50)
    assert [sum("won" in answer for answer in answers) for answers in rounds] == [1] * 50


def test_of_two_that_race_for_a_single_file_exactly_one_wins(tmp_path):
    rounds = race(tmp_path / "out.jsonl", 10)
    assert [sum("won" in answer for answer in answers) for answers in rounds] == [1] * 10


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_of_four_that_race_exactly_one_wins_a_thousand_times(tmp_path):
    rounds = race(tmp_path / "journal", 1000, count=4)
    assert [sum("won" in answer for answer in answers) for answers in rounds] == [1] * 1000


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_whoever_loses_a_race_is_never_told_to_kill_somebody_else(tmp_path):
    for answers in race(tmp_path / "journal", 2000):
        won = next(answer["won"] for answer in answers if "won" in answer)
        for answer in answers:
            if "lost" in answer:
                assert answer["holder"].get("pid", won) == won, answer


def test_the_one_who_is_refused_is_told_who_where_since_when_and_what_to_do(tmp_path):
    with contenders(1) as [other]:
        [answer] = ask([other], f"open {tmp_path}")
        with pytest.raises(RunLockedError) as refused:
            Journal(tmp_path)
        text, hint, holder = str(refused.value), refused.value.hint, refused.value.holder
        assert answer == {"won": other.pid}
        assert str(tmp_path) in text
        assert f"process {other.pid} on {platform.node()}" in text
        assert holder["pid"] == other.pid
        assert holder["host"] == platform.node()
        assert holder["started"] in text
        assert "boot_id" in holder
        assert f"kill -INT {other.pid}" in hint
        assert "wait" in hint
        with pytest.raises(RunLockedError):
            write(tmp_path, [outcome_of(0)])


def test_a_killed_holders_lock_is_free_at_once(tmp_path):
    for turn in range(3):
        config = {"path": tmp_path, "first": turn * 1000, "at_once": 4, "sizes": [50_000]}
        with start(config) as process:
            for report in reports_of(process):
                if "ack" in report:
                    kill(process)
                    break
            process.wait()
            with Journal(tmp_path):
                pass


def test_the_lock_file_is_never_deleted(tmp_path):
    write(tmp_path, [outcome_of(0)])
    lock = tmp_path / "LOCK"
    node = lock.stat().st_ino
    write(tmp_path, [outcome_of(1)])
    repair(tmp_path, say=lambda _: None)
    with Journal(tmp_path), pytest.raises(RunLockedError):
        Journal(tmp_path)
    assert lock.stat().st_ino == node
    assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_an_opening_that_fails_lets_go_of_the_lock(tmp_path):
    (tmp_path / "events.jsonl").mkdir()
    with pytest.raises(JournalError):
        Journal(tmp_path)
    (tmp_path / "events.jsonl").rmdir()
    with Journal(tmp_path):
        pass


def test_a_second_opening_in_the_same_process_is_refused(tmp_path):
    with Journal(tmp_path) as journal:
        with pytest.raises(RunLockedError) as refused:
            Journal(tmp_path)
        assert "this process" in str(refused.value)
        assert "close" in refused.value.hint
        with pytest.raises(RunLockedError):
            repair(tmp_path, say=print)
        asyncio.run(append_one(journal.column(STEP), outcome_of(0)))
    with Journal(tmp_path) as journal:
        assert key_of(0) in journal.column(STEP)


async def append_one(column, outcome):
    return await column.append(outcome)


# ---- forked children ---------------------------------------------------------------------------


def in_a_forked_child(function):
    """Run a function in a forked child, and return what it returned or how it failed, as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(20)
            answer = function()
        except BaseException:
            answer = traceback.format_exc()
        os.write(writing, str(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


def test_a_forked_child_cannot_append_and_disturbs_nobody(tmp_path):
    with Journal(tmp_path) as journal:
        column = journal.column(STEP)
        asyncio.run(append_one(column, outcome_of(0)))

        def append_in_child():
            try:
                asyncio.run(append_one(column, outcome_of(1)))
            except JournalError as error:
                journal.close()
                return f"refused: {error}"

        answer = in_a_forked_child(append_in_child)
        assert answer.startswith("refused: ")
        assert "forked child" in answer
        asyncio.run(append_one(column, outcome_of(2)))
        with pytest.raises(RunLockedError):  # the child's letting go is not ours
            Journal(tmp_path)
    found = read_all(tmp_path, [key_of(number) for number in range(3)])
    assert found.keys() == {key_of(0), key_of(2)}


def test_a_forked_child_that_writes_is_seen_as_alive(tmp_path, monkeypatch):
    # A child that is born long after its parent took up its work, as each variant of a matrix is.
    monkeypatch.setattr("limpet.journal.lock._started_at", time.time() - 3600)

    def hold_in_child():
        with Journal(tmp_path):
            return holder_of(tmp_path / "LOCK").is_alive

    assert in_a_forked_child(hold_in_child) == "True"


def linger_in_child(ready, done):
    ready.set()
    done.wait()


FORKER = """
import multiprocessing, os, sys
from limpet.journal import Journal

journal = Journal(sys.argv[1])
pid = os.fork()
if pid == 0:
    os.write(1, b"child\\n")
    sys.stdin.read()  # until the test is done with us
    os._exit(0)
os.waitpid(pid, 0)
"""


def test_a_forked_child_does_not_hold_the_lock_of_its_dead_parent(tmp_path):
    with ready_limpet.Popen(
        [sys.executable, "-c", FORKER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout.readline() == b"child\n"
        with pytest.raises(RunLockedError):
            Journal(tmp_path)
        kill(parent)
        parent.wait()
        with Journal(tmp_path):  # the child is still alive
            pass
        parent.stdin.close()
        assert parent.stdout.read() == b""  # until the child has gone


def test_a_child_of_multiprocessing_fork_lets_go_as_well(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    journal = Journal(tmp_path)
    child = context.Process(target=linger_in_child, args=(ready, done))
    child.start()
    try:
        ready.wait()
        journal.close()
        with Journal(tmp_path):
            pass
    finally:
        done.set()
        child.join()


def test_a_spawned_program_does_not_hold_the_lock(tmp_path):
    journal = Journal(tmp_path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as child:  # noqa: S607
        journal.close()
        with Journal(tmp_path):
            pass
        child.stdin.close()


CLOSER = """
import asyncio, os, signal, sys, threading
from crash.laboratory import STEP, outcome_of
from limpet.journal import Journal

really = os.fdatasync

def sync_slowly(fd):
    sys.stdin.readline()  # a disk that takes as long as the test wants
    really(fd)

def interrupt(*_):
    raise KeyboardInterrupt

async def put(column):
    column.append(outcome_of(0)).add_done_callback(lambda done: done.exception())

journal = Journal(sys.argv[1])
column = journal.column(STEP)
os.fdatasync = sync_slowly
asyncio.run(put(column))
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    journal.close()
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
[thread.join() for thread in threading.enumerate() if thread.name == "limpet-journal"]
"""


def test_an_interrupted_close_lets_nobody_in_while_its_writer_still_writes(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    with ready_limpet.Popen(
        [sys.executable, "-c", CLOSER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        try:
            assert process.stdout.readline() == b"interrupted\n"
            with pytest.raises(RunLockedError):
                Journal(tmp_path)
        finally:
            process.stdin.close()  # the disk is done, and so is the process
