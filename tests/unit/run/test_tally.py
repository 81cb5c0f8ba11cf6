"""A tally counts what happens, and says how it stands when it is asked."""

import threading

import pytest

import limpet
from limpet.report.status import ProgressTable, progress_line
from limpet.report.terminal import Console
from limpet.report.views import LineView
from limpet.report.words import by_error, duration
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.watcher import Snapshot, StepSnapshot, Tally
from limpet.shapes import Cell, Failure, Outcome
from limpet.text import count
from limpet.types import CellStatus

PLAN = Plan(10, 1, StepPlan("workflow", 4, 6, calls=6), (StepPlan("correct", 4, 6, calls=6),))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tally(clock):
    tally = Tally(clock)
    tally.planned(PLAN)
    return tally


def cell(number, step="workflow"):
    return Cell(step, f"q{number}", 0, f"{number:032x}")


def finish(tally, number, step="workflow", **more):
    tally.started(cell(number, step), 1)
    tally.finished(Outcome(cell(number, step), record={}, **more))


def test_what_is_done_failed_and_in_flight_is_counted_by_step(tally, clock):
    finish(tally, 0)
    failure = Failure("timeout", "too slow", "TimeoutError")
    finish(tally, 1, status=CellStatus.FAILED, failure=failure)
    tally.started(cell(2), 1)
    tally.attempt_failed(cell(2), {"class": "transient", "retry_in": 0.5})
    tally.started(cell(2), 2)
    clock.now = 3.0
    workflow, correct = tally.snapshot().steps
    assert (workflow.total, workflow.kept, workflow.done) == (10, 4, 1)
    assert (workflow.failed, workflow.errors) == ({"timeout": 1}, {"TimeoutError": 1})
    assert workflow.retries == 1
    assert workflow.in_flight == (("q2", 2, 3.0, 0, False),)
    assert (workflow.ended, workflow.left) == (6, 4)
    # What has no answer gets no score: nobody waits for that one.
    assert (correct.total, correct.kept, correct.done) == (9, 4, 0)


def test_the_rate_is_that_of_the_last_half_minute_and_gives_the_time_left(tally, clock):
    for second in range(1, 101):
        clock.now = float(second)
        tally.snapshot()
    assert tally.snapshot().left_s is None  # nothing has ended: nobody can tell
    for number in range(3):
        finish(tally, number)
    clock.now = 130.0
    step = tally.snapshot().steps[0]
    assert step.rate == pytest.approx(3 / 30, rel=0.05)
    assert step.left_s == pytest.approx(30, rel=0.05)


def test_tokens_are_summed(tally):
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    for number in range(2):
        finish(tally, number, facts={"usage": usage})
    assert tally.snapshot().steps[0].tokens["total_tokens"] == 30


def test_a_snapshot_can_be_taken_from_another_thread_at_any_moment(tally):
    stop, errors = threading.Event(), []

    def look():
        while not stop.is_set():
            try:
                tally.snapshot()
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(20_000):
        tally.started(cell(number), 1)
        if number >= 100:
            tally.finished(Outcome(cell(number - 100), record={}))
    stop.set()
    thread.join()
    assert errors == []


def test_a_run_tells_its_watcher_what_happens(tmp_path):
    tally = Tally()

    def answer(question):
        if question == "1":
            raise limpet.PermanentError("no")
        return limpet.Output(question, usage=limpet.Usage(7, 3))

    rows = [{"id": f"q{n}", "question": str(n), "answer": str(n)} for n in range(5)]
    evaluators = {"correct": limpet.exact_match()}
    limpet.evaluate(rows, answer, evaluators, run=tmp_path / "run", watcher=tally)
    workflow, correct = tally.snapshot().steps
    assert (workflow.done, workflow.failed, workflow.in_flight) == (4, {"permanent": 1}, ())
    assert workflow.tokens["total_tokens"] == 40
    assert (correct.done, correct.total, correct.in_flight) == (4, 4, ())


# ---- how it is said ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (4.24, "4.2 s"), (59.4, "59 s"), (125, "2:05 min"), (3725, "1:02:05 h")],
)
def test_a_length_of_time_is_said_as_people_do(seconds, said):
    assert duration(seconds) == said


def test_counts_and_classes_are_said_as_people_do():
    assert (count(1, "call"), count(2000, "call")) == ("1 call", "2,000 calls")
    assert by_error({"KeyError": 3, "TimeoutError": 1200}) == "1,200 TimeoutError, 3 KeyError"


def drawn(snapshot, width):
    console = Console(width=width, height=20, force_terminal=False)
    with console.capture() as capture:
        console.print(ProgressTable(snapshot))
    return capture.get()


@pytest.mark.parametrize("below", [0, 1, 3])
def test_many_steps_leave_room_for_what_is_drawn_below_them(below):
    snapshot = Snapshot(tuple(StepSnapshot(f"e{n}", 20, 0, 20) for n in range(30)), 5)
    console = Console(width=80, height=12, force_terminal=False)
    lines = console.render_lines(ProgressTable(snapshot, below=below))
    assert len(lines) == 12 - 1 - below  # a picture that fills the screen cannot be erased


HOSTILE = Snapshot(
    (
        StepSnapshot(
            "work\x1b[2Jflow", 5_000, 10, 20, {"timeout": 2}, retries=1, rate=12.3,
            errors={"time\x07out": 2},
        ),
    ),
    65,
)  # fmt: skip


@pytest.mark.parametrize("width", [20, 44, 80, 120])
def test_progress_fits_whatever_width_there_is_and_obeys_nobody(width):
    text = drawn(HOSTILE, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "30/5,000" in text


def test_a_line_says_it_all_for_a_log():
    steps = (
        StepSnapshot(
            "workflow",
            240,
            40,
            80,
            {"timeout": 2},
            retries=3,
            rate=38.2,
            pace="at it",
            errors={"TimeoutError": 2},
        ),
        StepSnapshot("correct", 238, 40, 78, rate=38.0),
    )
    said = progress_line(Snapshot(steps, 12.0))
    assert said == (
        "workflow 120/240, correct 118/238 · at it · 3 retries · workflow failed: "
        "2 TimeoutError · 12 s so far · about 3.2 s left"
    )


def test_where_there_is_no_terminal_a_line_is_said_now_and_then(capsys):
    heard = threading.Event()
    real = LineView.snapshot

    class Told(LineView):
        def snapshot(self):
            heard.set()
            return real(self)

    from limpet.report.terminal import stderr_console

    stderr_console.cache_clear()  # the console remembers the stderr of another test
    with Told(every_s=0.01) as view:
        view.planned(PLAN)
        assert heard.wait(10)
        heard.clear()
        assert heard.wait(10)
    stderr_console.cache_clear()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == str(PLAN)
    assert lines[1].startswith("workflow 4/10, correct 4/10 · ")
    assert LineView()._every_s == 60
