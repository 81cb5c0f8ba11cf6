"""One task opens a workflow, holds it and closes it; a closing that fails costs no result."""

import asyncio
import json
import logging
import os
import signal

import pytest
from cut_short import cut_short

import limpet
from limpet.engines.opened_step import OpenedStep
from limpet.workflows.python import FunctionWorkflow
from tests.exported import exported

ROWS = [{"id": str(n), "question": f"q{n}"} for n in range(6)]


class Scope:
    """Stands in for a cancel scope of anyio: it is left in the task that entered it."""

    def __init__(self):
        self._task = asyncio.current_task()

    def leave(self):
        if asyncio.current_task() is not self._task:
            raise RuntimeError("attempted to exit it in another task than it was entered in")


class Echo(FunctionWorkflow):
    """A workflow with a scope of its own, told what to do as it is opened and closed."""

    def __init__(self, opening=None, closing=None):
        async def echo(question):
            return question

        super().__init__(echo, version="1")
        self.story = []
        self._opening, self._closing = opening, closing

    async def open(self):
        await super().open()
        self._scope = Scope()
        if self._opening is not None:
            await self._opening()
        self.story.append("opened")

    async def close(self):
        await super().close()
        if self._closing is not None:
            await self._closing()
        self._scope.leave()
        self.story.append("closed")


def read(path):
    return json.loads(path.read_bytes())


def exact(output):
    return 1.0


# ---- one task -----------------------------------------------------------------------------------


def test_what_a_set_up_enters_is_left_in_the_same_task(tmp_path, caplog):
    class Bot:
        async def setup(self):
            self.scope = Scope()

        async def __call__(self, question):
            return question

        async def teardown(self):
            self.scope.leave()

    result = limpet.evaluate(ROWS, Bot, [exact], tmp_path / "run")
    assert result.summary["workflow"]["completed"] == 6
    assert caplog.records == []


def test_an_interrupted_opening_is_closed_in_the_same_task(tmp_path, caplog):
    async def wait():
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(600)

    workflow = Echo(wait)
    result = cut_short(limpet.evaluate, ROWS, workflow, run=tmp_path / "run")
    assert isinstance(result.stop_reason, limpet.errors.InterruptedRunError)
    assert result.summary["workflow"]["not_run"] == 6
    assert workflow.story == ["closed"]
    assert caplog.records == []


def test_a_run_that_is_cancelled_as_it_opens_closes_in_the_same_task(tmp_path):
    async def main():
        begun = asyncio.Event()

        async def wait():
            begun.set()
            await asyncio.sleep(600)

        workflow = Echo(wait)
        task = asyncio.create_task(limpet.aevaluate(ROWS, workflow, run=tmp_path / "run"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert workflow.story == ["closed"]

    asyncio.run(main())


def test_an_opening_that_fails_says_so_and_is_not_closed(tmp_path):
    async def fail():
        raise LookupError("no such model")

    workflow = Echo(fail)
    with pytest.raises(limpet.errors.SetupError, match="no such model") as raised:
        limpet.evaluate(ROWS, workflow, run=tmp_path / "run")
    assert isinstance(raised.value.__cause__, LookupError)
    assert workflow.story == []


def test_an_opening_is_given_up_and_a_closing_is_not():
    async def main():
        async def wait():
            await asyncio.sleep(600)

        async def give_up_again():
            held.give_up_opening()
            async with asyncio.timeout(60):
                await asyncio.sleep(0.01)

        workflow = Echo(wait, give_up_again)
        held = OpenedStep(workflow, "the workflow", lambda: pytest.fail("nothing broke"))
        asyncio.get_running_loop().call_later(0.01, held.give_up_opening)
        with pytest.raises(asyncio.CancelledError):
            await held.open()
        assert workflow.story == ["closed"]
        early = OpenedStep(workflow, "the workflow", lambda: pytest.fail("nothing broke"))
        asyncio.get_running_loop().call_soon(early.give_up_opening)
        with pytest.raises(asyncio.CancelledError):
            await early.open()  # given up before its first step

    asyncio.run(main())


# ---- closing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()])
def test_a_closing_that_raises_is_logged_and_costs_no_result(tmp_path, caplog, error):
    async def fail():
        raise error

    run = tmp_path / "run"
    result = limpet.evaluate(ROWS, Echo(closing=fail), [exact], run)
    assert (result.stop_reason, result.summary["scores"]["exact"]["mean"]) == (None, 1.0)
    assert [row["generated_answer"] for row in exported(run)] == [f"q{n}" for n in range(6)]
    assert read(run / "summary.json")["workflow"]["completed"] == 6
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "limpet.run")
    assert "failed while closing" in record.message
    assert type(error).__name__ in record.message


def test_a_closing_that_raises_tells_no_secret(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-Planted/0123+456789")

    async def fail():
        raise ValueError("refused for sk-Planted/0123+456789")

    def told(_):
        raise ValueError("told sk-Planted/0123+456789")

    run = tmp_path / "run"
    limpet.evaluate(ROWS, Echo(closing=fail), [exact], run, watcher=told)
    assert "refused for [redacted]" in caplog.text
    assert "watcher failed" in caplog.text
    assert "Planted" not in caplog.text


def test_a_closing_that_raises_after_an_interrupt_leaves_the_files(tmp_path, caplog):
    async def wait():
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(600)

    async def fail():
        raise ValueError("half open")

    result = cut_short(limpet.evaluate, ROWS, Echo(wait, fail), run=tmp_path / "run")
    assert isinstance(result.stop_reason, limpet.errors.InterruptedRunError)
    assert (tmp_path / "run/summary.json").exists()
    assert "half open" in caplog.text


def test_who_is_cancelled_as_it_closes_hears_of_it(tmp_path):
    async def main():
        closing = asyncio.Event()

        async def wait():
            closing.set()
            await asyncio.sleep(600)

        run = tmp_path / "run"
        task = asyncio.create_task(limpet.aevaluate(ROWS, Echo(closing=wait), run=run))
        await closing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(exported(run)) == 6

    asyncio.run(main())


# ---- what the set-up started --------------------------------------------------------------------


class Connected:
    """Its set-up leaves a task group open, in which something fails when it is told to."""

    def __init__(self):
        self.fail = asyncio.Event()

    async def setup(self):
        self.group = asyncio.TaskGroup()
        await self.group.__aenter__()
        self.group.create_task(self.listen())

    async def listen(self):
        await self.fail.wait()
        raise ConnectionError("the connection was lost")

    async def __call__(self, question):
        if question == "q3":
            self.fail.set()
            await asyncio.sleep(600)
        return question

    async def teardown(self):
        self.fail.set()
        await self.group.__aexit__(None, None, None)


def test_a_set_up_that_breaks_down_stops_the_run_and_loses_nothing(tmp_path, caplog):
    run = tmp_path / "run"
    result = cut_short(limpet.evaluate, ROWS, Connected, [exact], run, pace=1)
    assert "the workflow stopped working" in str(result.stop_reason)
    workflow, scores = result.summary["workflow"], result.summary["evaluators"]["exact"]
    assert (workflow["completed"], workflow["failed"], workflow["not_run"]) == (3, {}, 3)
    assert scores["completed"] == 3
    assert len(exported(run)) == 6
    assert "the connection was lost" in caplog.text


def test_what_breaks_down_when_all_is_answered_does_not_count(tmp_path):
    broken = asyncio.Event()

    class Late(Connected):
        async def __call__(self, question):
            if question == "q5":
                asyncio.get_running_loop().call_later(0.05, self.fail.set)
            return question

        async def teardown(self):
            broken.set()
            await super().teardown()

    async def slow(output):
        await asyncio.wait_for(broken.wait(), 20)
        return 1.0

    result = limpet.evaluate(ROWS, Late, [slow], tmp_path / "run", pace=1)
    assert result.stop_reason is None
    assert result.summary["evaluators"]["slow"]["completed"] == 6


def test_what_breaks_down_at_once_stops_it_before_any_call(tmp_path):
    class Dead(Connected):
        async def setup(self):
            await super().setup()
            self.fail.set()

        async def __call__(self, question):
            raise AssertionError("it is dead")

    result = cut_short(limpet.evaluate, ROWS, Dead, run=tmp_path / "run", pace=1)
    assert "the workflow stopped working" in str(result.stop_reason)
    assert result.summary["workflow"]["not_run"] == 6
