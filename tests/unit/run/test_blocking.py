"""An async function that blocks the event loop is named once, and nobody else is."""

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
import time

import pytest
from e2e import ready_limpet

import limpet
from limpet.evaluators import as_evaluator
from limpet.executors import threads as processor_use
from limpet.run.executing import blocking
from limpet.run.executing import steps as answering

FEW = [{"id": f"q{n}", "question": f"Say {n}", "answer": "x"} for n in range(8)]
MANY = [{"id": f"q{n}", "question": f"Say {n}", "answer": "x"} for n in range(200)]
THIS_FILE = "test_blocking.py"


def said_in(caplog):
    return [one.getMessage() for one in caplog.records if "event loop" in one.getMessage()]


def slow_client():
    time.sleep(0.3)  # blocks, as a client does that is not async


def line_of(function):
    """Return the line of a function's first statement."""
    return function.__code__.co_firstlineno + 1


def blocking_answer(caplog):
    async def answer(question):
        if not said_in(caplog):  # until it is said, however long a slow machine takes for that
            slow_client()
        return question

    return answer


@pytest.mark.parametrize("concurrency", [1, 16])
def test_an_async_workflow_that_blocks_is_said_once_with_its_line_and_the_remedy(
    tmp_path, caplog, concurrency
):
    answer = blocking_answer(caplog)
    run = tmp_path / "run"
    limpet.evaluate(MANY, answer, run=run, version="1", pace=concurrency)
    (said,) = said_in(caplog)
    assert "answer repeatedly blocks the event loop" in said
    assert f"{THIS_FILE}:{line_of(slow_client)}" in said
    assert "plain def" in said
    assert "asyncio.to_thread" in said
    events = [json.loads(one) for one in (run / "events.jsonl").read_bytes().splitlines()]
    (told,) = [one for one in events if one["event"] == "blocking"]
    assert told["function"] == "answer"
    assert THIS_FILE in told["at_line"]


def test_an_async_evaluator_that_blocks_is_said(tmp_path, caplog):
    async def judge(output):
        if not said_in(caplog):
            slow_client()
        return 1

    judging = as_evaluator(judge, version="1")
    limpet.evaluate(MANY, lambda question: "x", [judging], run=tmp_path / "run", version="1")
    (said,) = said_in(caplog)
    assert "judge repeatedly blocks the event loop" in said


async def waits(question):
    await asyncio.sleep(0.3)
    return question


def in_a_thread(question):
    time.sleep(0.3)
    return question


async def hands_it_on(question):
    await asyncio.to_thread(time.sleep, 0.3)
    return question


async def holds_the_interpreter(question):
    # Nobody else runs meanwhile, as when garbage is collected.
    ctypes.PyDLL(None).usleep(300_000)
    return question


async def many_short_steps(question):
    for _ in range(30):
        time.sleep(0.01)  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0)
    return question


@pytest.mark.parametrize(
    "answer", [waits, in_a_thread, hands_it_on, holds_the_interpreter, many_short_steps]
)
def test_what_does_not_block_the_loop_is_not_said_to(tmp_path, caplog, answer):
    limpet.evaluate(FEW, answer, run=tmp_path / "run", version="1", pace=4)
    assert said_in(caplog) == []


def test_a_block_or_two_are_not_said(tmp_path, caplog):
    blocks = []

    async def answer(question):
        if len(blocks) < 2:  # a model that is loaded with the first call
            blocks.append(question)
            time.sleep(0.5)  # noqa: ASYNC251 - that is the point
        return question

    limpet.evaluate(FEW, answer, run=tmp_path / "run", version="1")
    assert said_in(caplog) == []


def test_one_long_block_is_one_also_while_the_interpreter_stops_now_and_then(tmp_path, caplog):
    async def answer(question):
        if question == "Say 0":
            for _ in range(6):
                time.sleep(0.3)  # noqa: ASYNC251 - that is the point
                ctypes.PyDLL(None).usleep(100_000)
        return question

    limpet.evaluate(FEW, answer, run=tmp_path / "run", version="1", pace=1)
    assert said_in(caplog) == []


def test_code_of_ours_that_is_slow_is_nobodys_fault(tmp_path, caplog, monkeypatch):
    real = answering.AnsweringStep.record_of

    def slow(self, finished):
        time.sleep(0.2)
        return real(self, finished)

    monkeypatch.setattr(slow, "__code__", slow.__code__.replace(co_filename=blocking.__file__))
    monkeypatch.setattr(answering.AnsweringStep, "record_of", slow)
    limpet.evaluate(FEW, lambda question: "x", run=tmp_path / "run", version="1")
    assert said_in(caplog) == []


def test_time_spent_waiting_for_a_processor_does_not_count(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(blocking, "waited_for_processor_s", lambda _: time.monotonic())

    async def answer(question):
        time.sleep(0.3)  # noqa: ASYNC251 - that is the point
        return question

    limpet.evaluate(FEW, answer, run=tmp_path / "run", version="1")
    assert said_in(caplog) == []


SUSPENDED = """
import os, signal, subprocess, sys, limpet

async def answer(question):
    # Suspended in the midst of it, and woken by somebody else.
    subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    return question

rows = [{"id": f"q{n}", "question": str(n)} for n in range(6)]
limpet.evaluate(rows, answer, run=sys.argv[1], pace=1)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs POSIX signals")
def test_a_machine_that_sleeps_is_nobodys_fault(tmp_path):
    (tmp_path / "suspended.py").write_text(SUSPENDED)
    done = ready_limpet.run_python(
        [sys.executable, "suspended.py", "run"],
        cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "event loop" not in done.stderr
    assert '"blocking"' not in (tmp_path / "run/events.jsonl").read_text()


def test_nothing_is_left_behind(tmp_path):
    limpet.evaluate(FEW, in_a_thread, run=tmp_path / "run", version="1")
    assert not [one for one in threading.enumerate() if one.name == "limpet-watch"]


# ---- plain functions that compute ---------------------------------------------------------------


def computing_said_in(caplog):
    return [one.getMessage() for one in caplog.records if "engine: processes" in one.getMessage()]


@pytest.mark.skipif(
    os.cpu_count() == 1 or not processor_use.THREADS.exists(),
    reason="several processes would not help, or nobody says what threads do",
)
def test_plain_functions_that_compute_are_told_of_processes_once(tmp_path, caplog):
    def answer(question):
        while not computing_said_in(caplog):  # however long a busy machine takes
            pass
        return question

    result = limpet.evaluate(MANY, answer, run=tmp_path / "run", version="1", pace=3)
    assert len(result.items) == len(MANY)
    (said,) = computing_said_in(caplog)
    assert "3 calls compute in this process" in said
    assert f"uses all {os.cpu_count()} processors" in said


@pytest.mark.slow  # each waits for something that must not be said
@pytest.mark.parametrize("calls", ["wait", "one at a time"])
def test_plain_functions_that_wait_or_run_alone_are_told_nothing(tmp_path, caplog, calls):
    def answer(question):
        until = time.monotonic() + 3
        while time.monotonic() < until:
            if calls == "wait":
                time.sleep(0.1)
        return question

    pace = 8 if calls == "wait" else 1
    limpet.evaluate(FEW[:pace], answer, run=tmp_path / "run", version="1", pace=pace)
    assert not computing_said_in(caplog)
