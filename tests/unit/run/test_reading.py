"""What a run's files say to those who only read them."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from cut_short import cut_short
from e2e import ready_limpet

import limpet
from limpet.errors import JournalError
from limpet.journal.layout import layout_at
from limpet.journal.lock import Lock
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import NoSuchItemError
from limpet.run.reading.run_files import holder_of
from tests.exported import exported

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(4)]
ONCE = {"retry": 0}


def last_word(question):
    return question.split()[-1]


def correct(output, expected):
    return output == expected


def evaluate(run, rows=ROWS, workflow=last_word, evaluators=(correct,), **options):
    return limpet.evaluate(
        rows, workflow, list(evaluators), run=run, **{**ONCE, "version": "1", **options}
    )


def read(run):
    with RunReader(run) as reader:
        return list(reader.items())


def edit_about(run, change):
    path = run / "run.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))


# ---- items --------------------------------------------------------------------------------------


def test_items_are_those_that_evaluate_returned_in_the_same_order(tmp_path):
    def workflow(question):
        if question == "Say 2":
            raise ValueError("two is too much")
        return limpet.Output(
            last_word(question), limpet.Usage(3, 4), [{"type": "think"}], {"by": "m"}
        )

    result = evaluate(tmp_path / "run", workflow=workflow, evaluators=[correct, two_values])
    items = read(tmp_path / "run")
    for one, other in zip(items, result.items, strict=True):
        same = ("id", "trial", "input", "expected", "row", "status", "error", "score_errors")
        for name in (*same, "attempts", "seconds", "at"):
            assert getattr(one, name) == getattr(other, name), (one.id, name)
        assert one.is_completed == (other.output is not None)
        assert [*other.scores] == (["correct", "two_values.length", "two_values.empty"]
                                   if one.is_completed else [])  # fmt: skip
        if other.output is not None:
            assert one.output == other.output.value
            assert list(one.trace) == list(other.output.trace) == [{"type": "think"}]
            assert one.metadata == other.output.metadata
            assert other.output.usage == other.usage
            assert other.usage == limpet.Usage(*(one.usage[name] for name in COUNTED))
            assert one.scores["correct"]["value"] is other.scores["correct"].value
            several = one.scores["two_values"]["scores"]
            assert {f"two_values.{part}": record["value"] for part, record in several.items()} == {
                name: score.value for name, score in other.scores.items() if "." in name
            }
    assert items[0].usage["total_tokens"] == 7
    assert (items[0].metadata, items[2].metadata) == ({"by": "m"}, None)
    assert items[0].attempts == 1
    assert items[2].error["message"] == "two is too much"


COUNTED = ("prompt_tokens", "completion_tokens", "total_tokens")


def two_values(output):
    return {"length": len(output), "empty": not output}


def test_the_summary_has_the_numbers_of_the_summary_on_disk(tmp_path):
    def workflow(question):
        return 1 / 0 if question == "Say 2" else last_word(question)

    def picky(output):
        return 1 / 0 if output == "3" else 0.5

    evaluate(tmp_path / "run", workflow=workflow, evaluators=[correct, two_values, picky])
    on_disk = json.loads((tmp_path / "run/summary.json").read_text())
    with RunReader(tmp_path / "run") as reader:
        summary = reader.summary()
    assert summary == {name: on_disk[name] for name in summary}
    assert summary["evaluators"]["picky"]["failed"] == {"evaluator": 1}


def test_an_edited_row_shows_its_new_answer_and_the_old_one_as_an_earlier(tmp_path):
    evaluate(tmp_path / "run")
    rows = [*ROWS[:1], {**ROWS[1], "question": "Say one"}, *ROWS[2:]]
    evaluate(tmp_path / "run", rows)
    with RunReader(tmp_path / "run") as reader:
        assert [one.output for one in reader.items()] == ["0", "one", "2", "3"]
        (whole,) = reader.item("q1")
    assert whole.item.scores["correct"]["value"] is False
    (earlier,) = whole.earlier
    assert earlier.entry.record["output"] == "1"
    assert earlier.scores["correct"].record["value"] is True


def test_an_edited_expectation_is_shown_with_its_own_score(tmp_path):
    edited = [{**ROWS[0], "answer": "zero"}, *ROWS[1:]]
    seen = []
    for rows in (ROWS, edited, ROWS):  # the last time, nothing is scored anew
        evaluate(tmp_path / "run", rows)
        first = read(tmp_path / "run")[0]
        seen.append((first.expected, first.scores["correct"]["value"]))
    assert seen == [("0", True), ("zero", False), ("0", True)]


def test_a_changed_evaluator_shows_its_new_scores(tmp_path):
    def strict(output, expected):
        return False

    strict.__name__ = "correct"
    evaluate(tmp_path / "run")
    evaluate(tmp_path / "run", evaluators=[strict])
    assert [one.scores["correct"]["value"] for one in read(tmp_path / "run")] == [False] * 4
    evaluate(tmp_path / "run")
    assert [one.scores["correct"]["value"] for one in read(tmp_path / "run")] == [True] * 4


def test_a_workflow_changed_and_changed_back_shows_the_first_answers_and_scores(tmp_path):
    def shouted(question):
        return last_word(question) + "!"

    for version, workflow in (("a", last_word), ("b", shouted)):
        evaluate(tmp_path / "run", workflow=workflow, version=version, on_change="redo")
    assert [one.output for one in read(tmp_path / "run")] == ["0!", "1!", "2!", "3!"]
    evaluate(tmp_path / "run", version="a", on_change="redo")
    items = read(tmp_path / "run")
    assert [one.output for one in items] == ["0", "1", "2", "3"]
    assert [one.scores["correct"]["value"] for one in items] == [True] * 4
    with RunReader(tmp_path / "run") as reader:
        assert reader.item("q0")[0].earlier[0].entry.record["output"] == "0!"


def test_a_failure_that_succeeded_later_is_no_failure_but_its_attempts_are_told(tmp_path):
    broken = [True]

    def workflow(question):
        if broken[0] and question == "Say 1":
            raise ValueError("not yet")
        return last_word(question)

    evaluate(tmp_path / "run", workflow=workflow)
    with RunReader(tmp_path / "run") as reader:
        assert [one.status for one in reader.items()][1] == "failed"
        assert reader.snapshot().steps[0].failed == {"transient": 1}
        assert reader.snapshot().steps[1].total == 3
    broken[0] = False
    evaluate(tmp_path / "run", workflow=workflow)
    with RunReader(tmp_path / "run") as reader:
        assert [one.status for one in reader.items()] == ["completed"] * 4
        assert reader.snapshot().steps[0].failed == {}
        assert reader.state == "finished"
        (whole,) = reader.item("q1")
    assert whole.item.error is None
    assert {one["message"] for one in whole.failed_attempts} == {"not yet"}
    assert all(one["at"].endswith("Z") for one in whole.failed_attempts)


def test_a_failed_score_is_told_apart_from_a_low_one(tmp_path):
    def moody(output):
        if output == "1":
            raise ValueError("no mood")
        return 0

    evaluate(tmp_path / "run", evaluators=[moody])
    items = read(tmp_path / "run")
    assert items[0].scores["moody"]["value"] == 0
    assert items[0].score_errors == {}
    assert items[1].scores == {}
    assert items[1].score_errors["moody"]["message"] == "no mood"


def test_several_trials_are_items_of_their_own(tmp_path):
    evaluate(tmp_path / "run", trials=2)
    with RunReader(tmp_path / "run") as reader:
        items = list(reader.items())
        assert [one.id for one in items] == ["q0", "q1", "q2", "q3"] * 2
        assert [one.trial for one in items] == [0] * 4 + [1] * 4
        assert [(one.item.id, one.item.trial) for one in reader.item("q2")] == [
            ("q2", 0),
            ("q2", 1),
        ]
        assert all(one.scores["correct"]["value"] for one in items)


def test_more_trials_than_before_keep_the_answers_of_the_first(tmp_path):
    evaluate(tmp_path / "run")
    assert evaluate(tmp_path / "run", trials=2).plan.workflow.kept == 4
    items = read(tmp_path / "run")
    assert [(one.id, one.trial) for one in items] == [
        (f"q{n}", t) for t in (0, 1) for n in range(4)
    ]
    assert all(one.scores["correct"]["value"] for one in items)
    names = [one["id"] for one in exported(tmp_path / "run")]
    assert names == [f"q{n}_rep{t}" for t in (0, 1) for n in range(4)]
    evaluate(tmp_path / "run")
    assert [one.id for one in read(tmp_path / "run")] == ["q0", "q1", "q2", "q3"]


def test_a_removed_row_is_no_item_but_can_still_be_looked_at(tmp_path):
    evaluate(tmp_path / "run")
    evaluate(tmp_path / "run", ROWS[:2])
    with RunReader(tmp_path / "run") as reader:
        assert [one.id for one in reader.items()] == ["q0", "q1"]
        (whole,) = reader.item("q3")
    assert whole.item.status == "not_selected"
    assert whole.earlier[0].entry.record["output"] == "3"


def test_an_unknown_id_gives_nothing(tmp_path):
    evaluate(tmp_path / "run")
    with RunReader(tmp_path / "run") as reader:
        assert reader.item("q") == []


def test_an_id_with_quotes_commas_and_escapes_is_found(tmp_path):
    odd = 'a", "id":"q1\\ \x1b[31m, \u202e'
    evaluate(tmp_path / "run", [{**ROWS[0], "id": odd}, *ROWS[1:]])
    with RunReader(tmp_path / "run") as reader:
        assert reader.item(odd)[0].item.output == "0"
        assert reader.item("q1")[0].item.output == "1"


def test_a_map_journal_is_read_too(tmp_path):
    limpet.map(lambda n: n * 2, [1, 2, 3], journal=tmp_path / "out.jsonl", version="1")
    with RunReader(tmp_path / "out.jsonl") as reader:
        assert (reader.kind, reader.state) == ("map", "finished")
        # In the order in which they finished.
        read = sorted((item.input, item.output) for item in reader.items())
        assert read == [(1, 2), (2, 4), (3, 6)]
        assert [step.name for step in reader.snapshot().steps] == ["map"]


# ---- what is missing or damaged -----------------------------------------------------------------


def test_without_the_requested_items_the_latest_of_each_id_counts(tmp_path):
    evaluate(tmp_path / "run")
    evaluate(tmp_path / "run", [{**ROWS[0], "question": "Say nil"}, *ROWS[1:]])
    (tmp_path / "run/items.jsonl").unlink()
    with RunReader(tmp_path / "run") as reader:
        outputs = {one.id: one.output for one in reader.items()}
        assert outputs == {"q0": "nil", "q1": "1", "q2": "2", "q3": "3"}
        assert reader.snapshot().steps[0].total == 4


def test_an_older_run_without_plans_in_its_sessions_is_read(tmp_path):
    evaluate(tmp_path / "run")

    def make_older(about):
        about["sessions"] = [{"began": about["sessions"][0]["began"], "pid": 1}]
        about["sessions"][0]["ended"] = about["sessions"][0]["began"]
        del about["complete"]

    edit_about(tmp_path / "run", make_older)
    with RunReader(tmp_path / "run") as reader:
        assert reader.state == "finished"
        assert [step.done + step.kept for step in reader.snapshot().steps] == [4, 4]
        assert [one.scores["correct"]["value"] for one in reader.items()] == [True] * 4


@pytest.mark.parametrize("text", [None, "{", "[]", '{"sessions": 5}', '{"sessions": [3]}'])
def test_a_run_without_a_usable_run_json_is_read_from_its_columns(tmp_path, text):
    evaluate(tmp_path / "run")
    about = tmp_path / "run/run.json"
    about.unlink() if text is None else about.write_text(text)
    (tmp_path / "run/index/run.json").unlink()
    with RunReader(tmp_path / "run") as reader:
        assert [one.output for one in reader.items()] == ["0", "1", "2", "3"]
        assert [one.scores["correct"]["value"] for one in reader.items()] == [True] * 4
        assert bool(reader.remarks) == (text is not None)


def test_a_damaged_line_is_an_item_that_has_not_run(tmp_path):
    evaluate(tmp_path / "run")
    column = tmp_path / "run/workflow_output.jsonl"
    lines = column.read_bytes().splitlines(keepends=True)
    broken = next(n for n, line in enumerate(lines) if b'"id":"q1"' in line)
    lines[broken] = lines[broken].replace(b'"output":"1"', b'"output":"7"')
    column.write_bytes(b"".join(lines))
    for index in (tmp_path / "run/index").glob("*.idx"):
        index.unlink()
    with RunReader(tmp_path / "run") as reader:
        assert [one.status for one in reader.items()].count("not_run") == 1
        assert [one.output for one in reader.items()] == ["0", None, "2", "3"]
        assert reader.state == "stopped"


def test_half_a_line_at_the_end_is_not_there_yet(tmp_path):
    evaluate(tmp_path / "run")
    column = tmp_path / "run/workflow_output.jsonl"
    before = column.read_bytes()
    column.write_bytes(before[:-20])
    with RunReader(tmp_path / "run") as reader:
        assert sum(one.status == "completed" for one in reader.items()) == 3
        column.write_bytes(before)
        reader.refresh()
        assert sum(one.status == "completed" for one in reader.items()) == 4


def test_reading_changes_no_file(tmp_path):
    evaluate(tmp_path / "run")

    def state():
        paths = sorted((tmp_path / "run").rglob("*"))
        return [(one, one.stat().st_mtime_ns, one.stat().st_size) for one in paths]

    before = state()
    with RunReader(tmp_path / "run") as reader:
        reader.snapshot(), list(reader.items()), reader.item("q1"), reader.summary()
    assert state() == before


# ---- where there is none ------------------------------------------------------------------------


def test_what_is_no_run_is_refused_with_the_runs_that_are_near(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluate(tmp_path / "runs/first")
    (tmp_path / "eval.yml").write_text("name: x")
    for path, message, hint in [
        ("runs", "this directory is not a run", "there is runs/first"),
        ("eval.yml", "this file is not a run", "there is runs/first"),
        ("runs/frist", "this run does not exist", "did you mean runs/first?"),
        ("runs/first/run.json", "this file is not a run", "a file in the run runs/first"),
        ("runs/first/workflow_output.jsonl", "this file is not a run", "in the run runs/first"),
        ("\0", "this run does not exist", "there is runs/first"),
    ]:
        with pytest.raises(JournalError, match=message) as caught:
            RunReader(path)
        assert hint is None or hint in (caught.value.hint or "")


# ---- who works on it ----------------------------------------------------------------------------


def test_a_lock_that_is_held_by_a_living_process_is_seen_without_touching_it(tmp_path):
    lock = Lock(tmp_path / "LOCK")
    who = holder_of(tmp_path / "LOCK")
    assert (who.pid, who.is_alive) == (os.getpid(), True)
    lock.release()


@pytest.mark.parametrize(
    ("change", "alive"),
    [
        ({"started": "2001-01-01T00:00:00Z"}, False),  # its number was given to another since
        ({"boot_id": "other"}, False),  # the system was started anew
        ({"pid": 2**22 + 1}, False),
        ({"host": "elsewhere"}, None),
        ({}, True),
    ],
)
def test_a_holder_is_alive_only_if_it_is_that_very_process(tmp_path, change, alive):
    Lock(tmp_path / "LOCK").release()
    who = json.loads((tmp_path / "LOCK").read_text())
    (tmp_path / "LOCK").write_text(json.dumps({**who, **change}))
    assert holder_of(tmp_path / "LOCK").is_alive is alive


def test_a_session_that_ended_is_not_running_though_its_process_lives_on(tmp_path):
    evaluate(tmp_path / "run")
    with RunReader(tmp_path / "run") as reader:
        assert reader.holder.is_alive is True
        assert reader.state == "finished"


def test_a_run_that_was_stopped_says_so(tmp_path):
    calls = []

    def workflow(question):
        calls.append(question)
        if len(calls) == 3:
            raise limpet.errors.QuotaExhaustedError("nothing left")
        return last_word(question)

    cut_short(evaluate, tmp_path / "run", workflow=workflow, pace=1)
    with RunReader(tmp_path / "run") as reader:
        assert reader.state == "stopped"
        assert [one.status for one in reader.items()][3] == "not_run"
        assert [one.id for one in reader.items()] == ["q0", "q1", "q2", "q3"]


SCRIPT = """
    import asyncio, sys
    import limpet

    async def answer(question):
        if question in ("Say 2", "Say 3"):
            await asyncio.sleep(1000)
        if question == "Say 1":
            raise ValueError("no one")
        return question.split()[-1]

    def one(output):
        return 1

    rows = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(4)]
    limpet.evaluate(rows, answer, [one], run=sys.argv[1], retry=0, pace=4)
"""


@pytest.fixture
def hanging(tmp_path):
    """A run in another process, in which two calls never end."""
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path / "run")]
    process = ready_limpet.Popen(command, stderr=subprocess.DEVNULL)
    wait_for(lambda: ended_and_flying(tmp_path / "run") == (2, 2))
    yield tmp_path / "run", process
    process.kill()
    process.wait()


def ended_and_flying(run):
    if not (run / "run.json").exists():
        return None
    with RunReader(run) as reader:
        step, scores = reader.snapshot().steps
        return step.done + sum(step.failed.values()) if scores.done else 0, len(step.in_flight)


def wait_for(condition, timeout_s=20.0):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_a_running_run_shows_what_is_done_what_failed_and_what_is_in_flight(hanging):
    run, process = hanging
    with RunReader(run) as reader:
        assert reader.state == "running"
        assert reader.holder.pid == process.pid
        workflow, score = reader.snapshot().steps
        assert (workflow.total, workflow.done, workflow.failed) == (4, 1, {"transient": 1})
        assert {call.id for call in workflow.in_flight} == {"q2", "q3"}
        assert all(0 <= call.seconds < 60 for call in workflow.in_flight)
        assert workflow.rate > 0
        assert (score.total, score.done) == (3, 1)
        ids = {one.id: one.status for one in reader.items()}
        assert ids == {"q0": "completed", "q1": "failed", "q2": "not_run", "q3": "not_run"}
        assert reader.item("q3")[0].in_flight == ("workflow",)


def test_a_run_that_was_killed_is_cut_off_and_names_the_calls_in_flight(hanging):
    run, process = hanging
    with RunReader(run) as reader:
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: not holder_of(run / "LOCK").is_alive)
        reader.refresh()
        assert reader.state == "cut off"
        assert {call.id for call in reader.cut_off_calls()} == {"q2", "q3"}
        assert reader.snapshot().in_flight == 0
    process.wait()


def test_reading_while_it_starts_does_not_keep_a_writer_out(tmp_path):
    evaluate(tmp_path / "run")
    lock = layout_at(tmp_path / "run").lock
    with RunReader(tmp_path / "run") as reader:
        for _ in range(200):
            reader.refresh()
            Lock(lock).release()  # raises if anybody holds it


def test_of_ids_that_are_equally_close_the_first_are_named(tmp_path):
    error = NoSuchItemError(tmp_path, "q1", [f"q{n:02}" for n in range(60)])
    assert error.hint == "did you mean q01 or q10 or q11?"
