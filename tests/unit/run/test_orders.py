"""Orders to a run in this process: what they change while it is running."""

import asyncio
import json
import threading
import time

import pytest

import limpet
from limpet.errors import DiskFullError
from limpet.run.executing import blocking, stalls
from limpet.run.executing.pipeline import Pipeline
from limpet.run.reading.reader import open_run
from limpet.run.watcher import Tally


def rows(many):
    return [{"id": f"q{n}", "question": str(n)} for n in range(many)]


class Running:
    """A run in a thread; `go` lets its calls end."""

    def __init__(self, path, workflow, many=40, **options):
        self.path, self.go, self.error, self.result = path, threading.Event(), None, None
        self.control = limpet.control(path)
        self._given = (rows(many), workflow), {"run": path, "show": False, **options}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        positional, named = self._given
        try:
            self.result = limpet.evaluate(*positional, **named)
        except limpet.LimpetError as error:
            self.error = error

    def end(self):
        self.go.set()
        self._thread.join(60)

    def events(self, kind):
        lines = (self.path / "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("x")))


def test_where_there_are_several_endpoints_pace_needs_one_by_name(tmp_path):
    flying = {"one": 0, "two": 0}

    async def answer(question):
        name = "one" if int(question) % 2 else "two"
        async with limpet.pacing.endpoint(name):
            flying[name] += 1
            while not running.go.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.01)
            flying[name] -= 1
        return question

    running = Running(tmp_path / "run", answer, pace=limpet.Pace(2, share=False))
    until(lambda: sum(flying.values()) == 2)
    with pytest.raises(limpet.LimpetError, match="pace: of which one") as caught:
        running.control.pace(5)
    assert "--endpoint" in caught.value.hint
    assert "two" in caught.value.hint
    with pytest.raises(limpet.LimpetError, match="three: no such endpoint"):
        running.control.pace(5, endpoint="three")
    assert running.control.pace(5, endpoint="two") == "two: 5 at a time"
    running.end()
    assert len(running.result.items) == 40


def test_a_step_names_its_endpoint_and_a_name_with_a_space_is_quoted(tmp_path):
    began = []

    def score(output):
        return 1.0

    async def answer(question):
        began.append(question)
        await asyncio.to_thread(running.go.wait)
        return question

    judge = limpet.evaluator(score, endpoint="http://x m2", name="judge")
    running = Running(
        tmp_path / "run", answer, evaluators=[judge], pace=limpet.Pace(2, share=False)
    )
    until(lambda: began)
    with pytest.raises(limpet.LimpetError, match="pace: of which one") as caught:
        running.control.pace(5)
    assert "'http://x m2'" in caught.value.hint
    assert "workflow" in caught.value.hint
    assert running.control.pace(5, endpoint="judge") == "http://x m2: 5 at a time"
    assert running.control.pace(7, endpoint="workflow") == "workflow: 7 at a time"
    until(lambda: len(began) == 7)
    running.end()
    assert len(running.result.items) == 40


def test_a_stop_before_the_first_call_is_heard(tmp_path, monkeypatch):
    asked, made = [], []
    make = Pipeline.__init__

    def making(self, *given, **named):
        made.append(self)
        make(self, *given, **named)

    monkeypatch.setattr(Pipeline, "__init__", making)

    class Early(limpet.types.Watcher):
        def paced(self, step, pace):  # the step is being set up
            if step == "workflow":
                made[0]._stopping.stop(limpet.LimpetError("enough"))

    with pytest.raises(limpet.LimpetError, match="enough"):
        limpet.evaluate(rows(40), asked.append, run=tmp_path / "run", watcher=Early(), show=False)
    assert not asked


def test_while_it_stops_a_run_takes_only_stop_and_skip(tmp_path):
    began = []

    async def answer(question):
        began.append(question)
        await asyncio.get_running_loop().create_future()

    running = Running(tmp_path / "run", answer, pace=2)
    until(lambda: len(began) == 2)
    running.control.pause()
    stopping = threading.Thread(target=running.control.stop)
    stopping.start()
    until(lambda: running.events("stopping"))
    for order in ("pause", "resume", "pace 5", "retry q0", "budget calls=9"):
        with pytest.raises(limpet.LimpetError, match="the run is stopping"):
            running.control.order(*order.split())
    assert running.control.skip("q0", "q1") == "skipped: q0, q1; 2 calls given up"
    stopping.join(60)
    running.end()
    assert "limpet ctl stop" in str(running.error)
    assert not open_run(running.path).run_file.paused  # what was stopped is not paused, too


def test_a_budget_is_set_and_changed(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        await asyncio.to_thread(running.go.wait)
        return question

    running = Running(tmp_path / "run", answer, many=2)
    until(lambda: calls)
    assert running.control.budget(cost=40) == "$0.00 of $40.00"
    assert running.control.budget(cost=50, calls="5k") == "$0.00 of $50.00; 0 calls of 5,000 calls"
    running.end()
    assert running.result.summary["budget"]["words"] == "$0.00 of $50.00; 2 calls of 5,000 calls"


def test_a_limit_of_cost_is_refused_where_a_model_has_no_price(tmp_path):
    asked = []
    running = run_of_a_judge(tmp_path / "run", asked)
    until(lambda: asked)
    with pytest.raises(limpet.LimpetError, match="grader has no price"):
        running.control.budget(cost=40)
    running.end()
    assert running.error is None
    assert "budget" not in running.result.summary


def test_a_pause_that_cannot_be_recorded_is_refused_and_nothing_is_paused(tmp_path, monkeypatch):
    calls = []

    async def answer(question):
        calls.append(question)
        await asyncio.sleep(0.01)
        return question

    from limpet.run.run_file import RunFile

    running = Running(tmp_path / "run", answer, many=300, pace=2)
    until(lambda: len(calls) > 5)
    write = RunFile.write

    def full(self, journal):
        raise DiskFullError("no space left")

    monkeypatch.setattr(RunFile, "write", full)
    with pytest.raises(limpet.LimpetError, match="no space left"):
        running.control.pause()
    monkeypatch.setattr(RunFile, "write", write)
    begun = len(calls)
    until(lambda: len(calls) > begun)
    running.end()
    assert len(calls) == 300
    assert running.events("order") == []


def test_a_stop_ends_a_pause_too(tmp_path):
    async def answer(question):
        await asyncio.sleep(0.01)
        return question

    running = Running(tmp_path / "run", answer, many=1000, pace=2)
    until(lambda: (tmp_path / "run" / "workflow_output.jsonl").exists())
    until(lambda: (tmp_path / "run" / "workflow_output.jsonl").stat().st_size)
    running.control.pause()
    assert "on disk; run it again" in running.control.stop()
    running.end()
    assert "limpet ctl stop" in str(running.error)
    assert len(limpet.evaluate(rows(1000), answer, run=tmp_path / "run", show=False).items) == 1000


def run_of_a_judge(path, asked):
    """Return a run whose judge asks three times for each score, one request at a time."""

    async def grader(messages, **_):
        asked.append(messages)
        await asyncio.to_thread(running.go.wait)
        return '{"reason": "so", "label": "yes"}'

    judge = limpet.judge(grader, "Is {{output}} right?", choices={"yes": 1, "no": 0}, votes=3)
    running = Running(path, str.upper, many=2, evaluators=[judge], pace=1)
    return running


def ballots(path):
    files = list(path.glob("*ballots*.jsonl"))
    return sum(file.read_text(encoding="utf-8").count("\n") for file in files)


def test_in_a_pause_no_further_vote_starts(tmp_path):
    asked = []
    running = run_of_a_judge(tmp_path / "run", asked)
    until(lambda: asked)
    running.control.pause()
    running.go.set()
    until(lambda: ballots(tmp_path / "run"))
    running.control.budget(calls=100)  # the loop has turned
    assert len(asked) == 1
    running.control.resume()
    running.end()
    assert len(asked) == 6
    assert running.result.summary["evaluators"]["judge"]["completed"] == 2


def test_a_stop_in_a_pause_gives_up_the_votes_that_wait(tmp_path):
    asked = []
    running = run_of_a_judge(tmp_path / "run", asked)
    until(lambda: asked)
    running.control.pause()
    running.go.set()
    until(lambda: ballots(tmp_path / "run"))
    assert "run it again to go on" in running.control.stop()
    running.end()
    assert len(asked) == ballots(tmp_path / "run") == 1
    assert "limpet ctl stop" in str(running.error)
    assert not running.error.result.summary["evaluators"]["judge"]["failed"]


def test_skipped_items_of_a_run_that_stops_when_it_is_sure(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        await asyncio.to_thread(running.go.wait)
        return question

    def even(output):
        return int(output) % 2 == 0

    given = {"evaluators": [even], "stop_when": {"even": 0.1}}
    running = Running(tmp_path / "run", answer, many=200, **given)
    until(lambda: calls)
    assert running.control.skip("q0", "q1").startswith("skipped: q0, q1; ")
    running.end()
    assert running.error is None
    assert running.result.summary["workflow"]["failed"].get("skipped", 0) <= 2


class Broken:
    """A server, which fails until it is repaired."""

    def __init__(self):
        self.is_broken, self.calls = True, []

    def ask(self, question):
        self.calls.append(question)
        if self.is_broken and int(question) < 3:
            raise limpet.errors.PermanentError("it is down")


@pytest.mark.parametrize("stop_when", [None, {"even": 0.001}])
@pytest.mark.parametrize("broken", ["workflow", "even"])
def test_what_failed_in_this_session_is_tried_again_and_counts(tmp_path, broken, stop_when):
    server, tally = Broken(), Tally()

    async def answer(question):
        if broken == "workflow":
            server.ask(question)
        if int(question) >= 3:
            while not running.go.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.01)
        return question

    def even(output):
        if broken == "even":
            server.ask(output)
        return int(output) % 2 == 0

    running = Running(
        tmp_path / "run", answer, version="1", evaluators=[even], watcher=tally,
        stop_when=stop_when, fail_fast=False, pace=50,
    )  # fmt: skip
    until(lambda: _failed(tally, broken) == 3)
    server.is_broken = False
    assert running.control.retry("q0", "q1", "q2") == "tried again: q0, q1, q2"
    until(lambda: _failed(tally, broken) == 0)
    with open_run(str(running.path)) as run:
        assert not any(step.failed for step in run.counts.steps)
    running.end()
    assert running.error is None
    assert running.result.summary["workflow"]["completed"] == 40
    assert running.result.summary["workflow"]["failed"] == {}
    assert running.result.summary["evaluators"]["even"]["completed"] == 40
    assert len(running.result.items) == 40
    assert [step.done for step in tally.snapshot().steps] == [40, 40]
    assert not any(step.errors for step in tally.snapshot().steps)
    with open_run(str(running.path)) as run:
        assert run.state == "finished"
        assert [(step.done, step.failed) for step in run.counts.steps] == [(40, {}), (40, {})]


def test_what_failed_in_a_step_that_has_ended_is_tried_again_by_the_next_session(tmp_path):
    async def answer(question):
        if question == "0":
            raise limpet.errors.PermanentError("it is down")
        return question

    async def slow(output):
        while not running.go.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)
        return True

    tally = Tally()
    given = {"evaluators": [slow], "watcher": tally, "version": "1"}
    running = Running(tmp_path / "run", answer, many=3, **given)
    until(lambda: _failed(tally, "workflow") and tally.snapshot().in_flight == 2)
    with pytest.raises(limpet.LimpetError, match="q0: not in flight, nor failed in a step that"):
        running.control.retry("q1", "q0")
    running.end()
    assert running.events("order") == []
    assert sum(running.result.summary["workflow"]["failed"].values()) == 1


def _failed(tally, step):
    return sum(sum(one.failed.values()) for one in tally.snapshot().steps if one.name == step)


def test_a_block_of_the_event_loop_for_long_is_named_with_its_stack(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(blocking, "_LONG_BLOCK_S", 0.4)

    def client():
        time.sleep(1.5)

    async def answer(question):
        client()
        return question

    limpet.evaluate(rows(1), answer, run=tmp_path / "run", version="1", show=False)
    (said,) = [one.getMessage() for one in caplog.records if "no progress" in one.getMessage()]
    assert "in client ← " in said
    assert "in answer" in said
    events = (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8")
    assert '"event":"no_progress"' in events


def test_a_paused_step_says_so_after_a_minute(tmp_path, monkeypatch):
    monkeypatch.setattr(stalls, "_NO_PROGRESS_S", 0.5)
    monkeypatch.setattr(stalls, "_LOOK_S", 0.1)
    calls = []

    async def answer(question):
        calls.append(question)
        await asyncio.sleep(0.01)
        return question

    running = Running(tmp_path / "run", answer, many=400, pace=2)
    until(lambda: len(calls) > 5)
    running.control.pause()
    until(lambda: running.events("no_progress"))
    assert running.events("no_progress")[0]["words"].startswith("paused by limpet ctl since ")
    running.control.resume()
    running.end()
    assert running.events("no_progress")[-1]["words"] == ""
