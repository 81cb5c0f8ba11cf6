"""What status and list count is what the summary of the same files counts, whatever happened."""

import json
import os
import shutil
import signal
import sys
import textwrap

import pytest
from cut_short import cut_short
from e2e import ready_limpet

import limpet
from limpet.report.runs import line_data
from limpet.report.status import status_data
from limpet.run.reading import RunReader
from limpet.run.reading.description import describe, described_at

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(6)]
TIDY = {"version": "1", "retry": 0, "fail_fast": False}


def last_word(question):
    return question.split()[-1]


def correct(output, expected):
    return output == expected


def picky(output):
    return 1 / 0 if output == "3" else 0.5


def always(output):
    return True


def evaluate(
    run, rows=ROWS, workflow=last_word, evaluators=(correct, picky), limit=None, **options
):
    dataset = limpet.Dataset(rows, limit=limit)
    return limpet.evaluate(dataset, workflow, list(evaluators), run=run, **{**TIDY, **options})


def counted(run):
    """Return what status says of a run: by step, done and failed; it must be what list says."""
    with RunReader(run) as reader:
        steps = reader.snapshot().steps
        state = reader.state
    line = described_at(run)
    failed = sum(sum(step.failed.values()) for step in steps)
    assert (line.state, line.done, line.failed) == (state, steps[0].kept + steps[0].done, failed)
    return {step.name: (step.kept + step.done, dict(step.failed)) for step in steps}


def added_up(run):
    """Return the same from the summary of the files as they are."""
    with RunReader(run) as reader:
        summary = reader.summary()
    steps = {"workflow": summary["workflow"], **summary["evaluators"]}
    return {name: (step["completed"], step["failed"]) for name, step in steps.items()}


def state(run):
    with RunReader(run) as reader:
        return reader.state


def status(run):
    with RunReader(run) as reader:
        return status_data(describe(reader, reader.snapshot()))


# ---- failed scores ------------------------------------------------------------------------------


def test_scores_that_failed_in_an_earlier_session_are_counted(tmp_path):
    run = tmp_path / "run"
    evaluate(run)
    evaluate(run, limit=2)
    assert counted(run)["picky"] == (5, {"evaluator": 1})
    assert counted(run) == added_up(run)
    assert state(run) == "finished"
    assert status(run)["steps"][2]["errors"] == {"ZeroDivisionError": 1}


def test_scores_that_failed_before_a_session_was_cut_off_are_counted(tmp_path):
    run = tmp_path / "run"
    evaluate(run)
    evaluate(run, limit=2)
    forget_the_end(run)
    assert state(run) == "cut off"
    assert counted(run)["picky"] == (5, {"evaluator": 1})


def test_scores_that_failed_by_another_evaluator_or_of_another_answer_are_not_counted(tmp_path):
    def relaxed(output):
        return 0.5

    relaxed.__name__ = relaxed.__qualname__ = "picky"
    evaluate(tmp_path / "changed")
    evaluate(tmp_path / "changed", evaluators=[correct, relaxed])
    evaluate(tmp_path / "answered")
    other = {"version": "2", "on_change": "redo", "workflow": lambda question: "7"}
    evaluate(tmp_path / "answered", **other)
    for run in (tmp_path / "changed", tmp_path / "answered"):
        assert counted(run)["picky"] == (6, {})
        forget_the_end(run)
        assert counted(run)["picky"] == (6, {})


def test_a_redo_that_failed_counts_as_failed_with_its_exception(tmp_path):
    run = tmp_path / "run"
    evaluate(run, evaluators=[correct, always])
    evaluate(run, evaluators=[correct, always], workflow=lambda question: 1 / 0, redo=["workflow"])
    assert counted(run)["workflow"] == (0, {"mistake": 6})
    assert status(run)["steps"][0]["errors"] == {"ZeroDivisionError": 6}


def forget_the_end(run):
    """Make `run.json` what it is when the last session is killed after its last result."""
    path = run / "run.json"
    about = json.loads(path.read_text())
    session = about["sessions"][-1]
    for name in ("ended", "columns", "did_all"):
        session.pop(name, None)
    for step in session["steps"].values():
        for name in ("have", "retries", "tokens", "failed", "errors"):
            step.pop(name, None)
    about.pop("complete", None)
    path.write_text(json.dumps(about))
    (run / "LOCK").unlink()  # this process is still alive


# ---- a limit ------------------------------------------------------------------------------------


def out_of_quota(question):
    if question == "Say 1":
        raise limpet.errors.QuotaExhaustedError("nothing left")
    return last_word(question)


def test_a_session_that_finished_what_it_selected_was_limited_and_not_stopped(tmp_path):
    run = tmp_path / "run"
    cut_short(evaluate, run, workflow=out_of_quota, pace=1)
    assert state(run) == "stopped"
    evaluate(run, limit=4)
    assert state(run) == described_at(run).state == "limited"
    assert counted(run) == added_up(run) == {
        "workflow": (4, {}), "correct": (4, {}), "picky": (3, {"evaluator": 1}),
    }  # fmt: skip
    assert line_data(described_at(run))["scores"]["correct"]["mean"] == 1
    evaluate(run)
    assert state(run) == "finished"


def test_a_limited_session_that_was_stopped_is_stopped(tmp_path):
    cut_short(evaluate, tmp_path / "run", workflow=out_of_quota, pace=1)
    cut_short(evaluate, tmp_path / "run", workflow=out_of_quota, pace=1, limit=4)
    assert state(tmp_path / "run") == "stopped"


# ---- damage -------------------------------------------------------------------------------------


def cut_off_the_end(path):
    path.write_bytes(path.read_bytes()[:-10])


def cut_to_nothing(path):
    path.write_bytes(b"")


def flip_a_byte_of_the_first_line(path):
    flip(path, 200)


def flip_a_byte_of_the_last_line(path):
    flip(path, path.stat().st_size - 40)


def delete(path):
    path.unlink()


def repeat_a_line(path):
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[0])


def flip(path, at):
    """Change a byte as a bad disk would: size and times stay."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


DAMAGES = [
    cut_off_the_end, cut_to_nothing, flip_a_byte_of_the_first_line, flip_a_byte_of_the_last_line,
    delete, repeat_a_line,
]  # fmt: skip


def complete(run):
    evaluate(run, evaluators=[correct, always])


def complete_and_asked_again(run):
    complete(run)
    complete(run)


def with_a_failed_score(run):
    evaluate(run)


def killed(run):
    evaluate(run)
    forget_the_end(run)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs to copy."""
    made = tmp_path_factory.mktemp("runs")
    for make in (complete, complete_and_asked_again, with_a_failed_score):
        make(made / make.__name__)
    return made


@pytest.mark.quick(4)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("step", ["workflow", "correct"])
@pytest.mark.parametrize("make", [complete, complete_and_asked_again, with_a_failed_score])
def test_what_is_damaged_is_not_counted(tmp_path, runs, make, step, damage):
    run = tmp_path / "run"
    shutil.copytree(runs / make.__name__, run)
    before = counted(run)
    assert state(run) == "finished"
    damage(run / f"{step}_output.jsonl")
    assert counted(run) == added_up(run)
    if damage is not repeat_a_line:
        assert counted(run)[step][0] < before[step][0]
        assert state(run) == "stopped"
        assert f"{step}_output.jsonl changed after the last session" in status(run)["remarks"][0]


def listed_means(run):
    return {name: score["mean"] for name, score in line_data(described_at(run))["scores"].items()}


def test_list_does_not_show_means_of_what_is_damaged(tmp_path, runs):
    shutil.copytree(runs / "complete", tmp_path / "run")
    assert listed_means(tmp_path / "run") == {"correct": 1, "always": 1}
    cut_to_nothing(tmp_path / "run/correct_output.jsonl")
    assert listed_means(tmp_path / "run") == {"correct": None, "always": 1}


@pytest.mark.parametrize("step", ["workflow", "correct"])
def test_a_column_that_was_cut_after_its_session_was_killed_is_not_counted(tmp_path, step):
    run = tmp_path / "run"
    evaluate(run)
    evaluate(run, limit=2)
    forget_the_end(run)
    cut_off_the_end(run / f"{step}_output.jsonl")
    assert counted(run) == added_up(run)
    assert counted(run)[step][0] == 5


def test_the_results_of_a_map_that_are_gone_are_not_counted(tmp_path):
    limpet.map(last_word, ["a", "b", "c"], journal=tmp_path / "map.jsonl")
    with RunReader(tmp_path / "map.jsonl") as reader:
        assert reader.state == "finished"
    cut_off_the_end(tmp_path / "map.jsonl")
    with RunReader(tmp_path / "map.jsonl") as reader:
        (step,) = reader.snapshot().steps
        assert (reader.state, step.kept + step.done, step.total) == ("stopped", 2, 3)


# ---- usage --------------------------------------------------------------------------------------


def tokens(run):
    return [step["tokens"].get("total_tokens", 0) for step in status(run)["steps"]]


def sometimes_with_usage(question):
    number = last_word(question)
    return number if number == "0" else limpet.Output(number, limpet.Usage(3, 4))


def test_usage_is_counted_though_the_first_answer_has_none(tmp_path):
    run = tmp_path / "run"
    evaluate(run, workflow=sometimes_with_usage, pace=1)
    assert tokens(run) == [35, 0, 0]
    forget_the_end(run)
    assert tokens(run) == [35, 0, 0]


def test_a_field_of_the_dataset_that_is_named_usage_is_not_usage(tmp_path):
    run = tmp_path / "run"
    rows = [{"usage": {"total_tokens": 99}, **row} for row in ROWS]
    evaluate(run, rows)
    assert tokens(run) == [0, 0, 0]
    forget_the_end(run)
    assert tokens(run) == [0, 0, 0]


def test_the_usage_of_an_item_with_a_long_id_is_counted(tmp_path):
    run = tmp_path / "run"
    rows = [{**row, "id": f"{row['id']} {'x' * 2_000}"} for row in ROWS]
    evaluate(run, rows, workflow=sometimes_with_usage)
    assert tokens(run) == [35, 0, 0]


# ---- items.jsonl --------------------------------------------------------------------------------

KILLED_BEFORE_RUN_JSON = """
    import json, os, signal, sys
    import limpet
    from limpet.run.executing import session

    def die(*arguments, **options):
        os.kill(os.getpid(), signal.SIGKILL)

    session.begin_session = die
    rows = json.loads(sys.argv[2])
    always = lambda output: True
    limpet.evaluate(rows, lambda question: "", {"always": always}, run=sys.argv[1], version="1")
"""


def kill_before_it_is_recorded(run, rows):
    program = textwrap.dedent(KILLED_BEFORE_RUN_JSON)
    done = ready_limpet.run_python(
        [sys.executable, "-c", program, run, json.dumps(rows)], check=False
    )
    assert done.returncode == -signal.SIGKILL


EDITED = [{**ROWS[0], "question": "Say X"}, *ROWS[1:]]
MORE = [*ROWS, {"id": "q6", "question": "Say 6", "answer": "6"}]


@pytest.mark.quick(3)
@pytest.mark.parametrize("rows", [EDITED, MORE, ROWS[::-1][:4]])
def test_a_session_that_was_killed_before_it_was_recorded_changes_nothing(tmp_path, rows):
    run = tmp_path / "run"
    evaluate(run, evaluators=[correct, always])
    before = counted(run)
    kill_before_it_is_recorded(run, rows)
    assert (state(run), counted(run)) == ("finished", before)
    with RunReader(run) as reader:
        assert len(list(reader.items())) == len(ROWS)  # the latest answers
        assert "items.jsonl: damaged: it does not match run.json" in reader.remarks[0]
    evaluate(run, rows, evaluators=[correct, always])
    assert state(run) == "finished"
    assert counted(run) == added_up(run)


def test_without_the_items_failed_scores_are_still_failed(tmp_path):
    run = tmp_path / "run"
    evaluate(run)
    (run / "items.jsonl").unlink()
    assert added_up(run)["picky"] == (5, {"evaluator": 1})
    with RunReader(run) as reader:
        failed = {item.id: item.score_errors for item in reader.items() if item.score_errors}
    assert failed["q3"]["picky"]["type"] == "ZeroDivisionError"


def test_without_the_items_a_score_that_failed_and_then_succeeded_has_not_failed(tmp_path):
    calls = []

    def flaky(output):
        calls.append(output)
        return 1 / 0 if calls == ["0"] else 1.0

    run = tmp_path / "run"
    evaluate(run, ROWS[:1], evaluators=[flaky], depends_on={})
    evaluate(run, ROWS[:1], evaluators=[flaky], depends_on={})
    (run / "items.jsonl").unlink()
    assert added_up(run)["flaky"] == (1, {})


def break_the_json(path):
    path.write_text(path.read_text().replace('"row":{"id":"q5"', '"row":{"id";"q5"'))


def break_the_shape(path):
    path.write_text(path.read_text().replace('"row":{"id":"q5"', '"raw":{"id":"q5"'))


@pytest.mark.parametrize("damage", [cut_off_the_end, break_the_json, break_the_shape])
def test_items_that_are_damaged_and_without_their_checksum_are_said_to_be(tmp_path, damage):
    run = tmp_path / "run"
    evaluate(run)
    about = json.loads((run / "run.json").read_text())
    about["sessions"][-1]["items_file"] = []
    (run / "run.json").write_text(json.dumps(about))
    damage(run / "items.jsonl")
    with RunReader(run) as reader:
        assert sorted(item.output for item in reader.items()) == ["0", "1", "2", "3", "4", "5"]
        (remark,) = reader.remarks
    assert remark.endswith(
        "items.jsonl: damaged: line 6 is not an item, so some details are missing"
    )
    assert counted(run)["picky"] == (5, {"evaluator": 1})


def test_a_reader_goes_on_when_the_items_are_replaced(tmp_path):
    run = tmp_path / "run"
    evaluate(run)
    with RunReader(run) as early, RunReader(run) as late, RunReader(run) as unread:
        assert len(early) == len(late) == 6
        list(late.items())
        evaluate(run, ROWS[4:])
        for reader in (early, late):  # what it has read stays true until it is refreshed
            assert list(reader.ids()) == [row["id"] for row in ROWS]
            assert [item.id for item in reader.items()] == [row["id"] for row in ROWS]
            (whole,) = reader.item("q3")
            assert whole.item.output == "3"
            assert reader.summary()["n"] == 6
            reader.refresh()
            assert [item.id for item in reader.items()] == ["q4", "q5"]
        assert [item.id for item in unread.items()] == ["q4", "q5"]
        assert unread.summary()["n"] == 2
