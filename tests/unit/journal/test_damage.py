"""Bytes of a run that changed by themselves: the next run finds out, and makes it good."""

import json
import logging
import random
import shutil

import pytest

import limpet
from limpet.errors import JournalError
from limpet.evaluators import as_evaluator
from limpet.journal import verify
from limpet.journal.lines import seal
from limpet.run.api import Arguments, evaluate_prepared
from limpet.run.reading import RunReader

ROWS = [{"id": f"q{n}", "question": f"what {n}", "answer": str(n)} for n in range(6)]
WANTED = [str(n) for n in range(6)]
WRITTEN = ["summary.json"]


class Project:
    """A workflow and an evaluator that count what they are asked."""

    def __init__(self, home):
        self.home = home
        self.calls, self.scored = [], []

    def evaluate(self, rows=ROWS, run=None, made=limpet.evaluate, on_end=None):
        def answer(question):
            self.calls.append(question.split()[1])
            return limpet.Output(question.split()[1], usage=limpet.Usage(1, 2))

        def correct(output, expected):
            self.scored.append(output)
            return output == expected

        # By version: what it closes over, this object, is changed between runs.
        scorer = as_evaluator(correct, version="1")
        options = {"version": "1", "pace": 2}
        if on_end is not None:
            asked = Arguments(rows, answer, [scorer], self.home, options=options, on_end=on_end)
            return evaluate_prepared(asked)
        return made(rows, answer, [scorer], run or self.home, **options)

    def forget(self):
        self.calls.clear()
        self.scored.clear()


@pytest.fixture
def finished(tmp_path):
    project = Project(tmp_path / "run")
    project.evaluate()
    project.forget()
    return project


def flip(path, at, bit=0x04):
    raw = bytearray(path.read_bytes())
    raw[at] ^= bit
    path.write_bytes(raw)


def flip_in_line(path, number, text=b'"at":"'):
    """Flip a bit somewhere in the middle of a line, counted from 0; return the line."""
    raw = path.read_bytes()
    line = raw.splitlines(keepends=True)[number]
    flip(path, raw.index(line) + line.index(text) + len(text))
    return line


def read(home):
    with RunReader(home) as reader:
        return [one.output for one in reader.items()]


@pytest.mark.parametrize("index", ["kept", "deleted"])
def test_a_flipped_bit_in_an_answer_of_a_finished_run_runs_that_cell_again(finished, index):
    home = finished.home
    flip_in_line(home / "workflow_output.jsonl", 2)
    if index == "deleted":
        shutil.rmtree(home / "index")
    assert not verify(home).is_sound
    damaged = (home / "workflow_output.jsonl").read_bytes().splitlines(keepends=True)[2]
    result = finished.evaluate()
    assert (result.plan.workflow.kept, result.plan.workflow.calls) == (5, 1)
    assert len(finished.calls) == 1
    assert finished.scored == []  # the same answer has its score
    assert [one.output.value for one in result.items] == read(home) == WANTED
    assert verify(home).is_sound
    assert [one.read_bytes() for one in (home / "torn").iterdir()] == [damaged]
    finished.forget()
    assert finished.evaluate().plan.calls == 0
    assert finished.calls == []


@pytest.mark.parametrize("index", ["kept", "deleted"])
def test_a_flipped_bit_in_a_score_runs_only_the_score_again(finished, index):
    flip_in_line(finished.home / "correct_output.jsonl", 3)
    if index == "deleted":
        shutil.rmtree(finished.home / "index")
    result = finished.evaluate()
    assert (finished.calls, len(finished.scored)) == ([], 1)
    scores = result.summary["evaluators"]["correct"]
    assert (scores["completed"], scores["failed"], scores["not_run"]) == (6, {}, 0)
    score = result.summary["scores"]["correct"]
    assert (score["mean"], score["interval"]["n"]) == (1.0, 6)
    assert verify(finished.home).is_sound


def test_a_flipped_bit_in_a_score_is_found_in_a_run_that_goes_on(finished):
    flip_in_line(finished.home / "correct_output.jsonl", 3)
    more = [*ROWS, {"id": "q6", "question": "what 6", "answer": "6"}]
    result = finished.evaluate(more)
    assert finished.calls == ["6"]
    assert len(finished.scored) == 2
    assert result.summary["evaluators"]["correct"]["completed"] == 7


def test_a_lost_line_end_joins_two_lines_and_both_run_again(finished):
    column = finished.home / "workflow_output.jsonl"
    flip(column, column.read_bytes().index(b"\n"))
    assert [one.output.value for one in finished.evaluate().items] == WANTED
    assert len(finished.calls) == 2
    assert verify(finished.home).is_sound


def test_a_plan_tells_of_the_damage(finished):
    flip_in_line(finished.home / "correct_output.jsonl", 3)
    plan = finished.evaluate(made=limpet.plan)
    assert (plan.workflow.calls, plan.evaluators[0].calls) == (0, 1)


def test_damage_stays_where_it_is_until_its_cell_is_done(finished):
    column = finished.home / "workflow_output.jsonl"
    flip_in_line(column, 2)
    damaged = column.read_bytes()

    def out_of_quota(question):
        raise limpet.errors.QuotaExhaustedError("the account is empty")

    with pytest.raises(limpet.errors.QuotaExhaustedError):
        limpet.evaluate(ROWS, out_of_quota, run=finished.home, version="1")
    assert column.read_bytes() == damaged


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "no JSON"])
def test_a_file_for_others_that_was_damaged_is_made_anew(finished, name, damage):
    path = finished.home / name
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "flipped":
        flip(path, whole.index(b"1"), 0x01)
    else:
        path.write_bytes(b"[" * len(whole))
    result = finished.evaluate()
    assert path.read_bytes() == whole
    assert result.summary["workflow"]["completed"] == 6
    assert (finished.calls, finished.scored) == ([], [])


@pytest.mark.quick(3)
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "a line less"])
def test_the_file_of_items_is_made_anew_and_until_then_the_latest_answers_count(finished, damage):
    items = finished.home / "items.jsonl"
    whole = items.read_bytes()
    lines = whole.splitlines(keepends=True)
    if damage == "missing":
        items.unlink()
    elif damage == "cut":
        items.write_bytes(whole[:40])
    elif damage == "flipped":
        flip(items, 9)
    else:
        items.write_bytes(b"".join(lines[:-1]))
    assert sorted(read(finished.home)) == WANTED  # what is damaged is not believed
    finished.evaluate()
    assert items.read_bytes() == whole
    assert finished.calls == []


def test_a_damaged_file_of_items_is_named_by_those_who_read(finished):
    flip(finished.home / "items.jsonl", 60)
    with RunReader(finished.home) as reader:
        list(reader.items())
        (remark,) = reader.remarks
    assert "items.jsonl: damaged: " in remark


def test_what_a_hook_makes_of_the_files_is_left_as_it_is(tmp_path):
    project, path = Project(tmp_path / "run"), tmp_path / "run" / "summary.json"

    def pretty(_):
        path.write_text(json.dumps(json.loads(path.read_bytes()), indent=8), encoding="utf-8")

    project.evaluate(on_end=pretty)
    theirs = path.read_bytes()
    project.evaluate()
    assert path.read_bytes() == theirs


def test_a_damaged_run_json_is_taken_from_its_copy(finished, caplog):
    about = finished.home / "run.json"
    whole = json.loads(about.read_bytes())
    about.write_bytes(about.read_bytes()[:100])
    with caplog.at_level(logging.WARNING):
        assert [one.output.value for one in finished.evaluate().items] == WANTED
    assert finished.calls == []
    assert "run.json: cannot be read, using its copy" in caplog.text
    assert json.loads(about.read_bytes())["functions"] == whole["functions"]


def test_a_run_json_that_is_lost_is_named_with_what_to_do_and_no_result_is_lost(finished):
    about = finished.home / "run.json"
    about.write_bytes(about.read_bytes()[:100])
    (finished.home / "index" / "run.json").unlink()
    with pytest.raises(JournalError, match=r"run\.json: cannot be read") as refused:
        finished.evaluate()
    assert "delete it: the results are in the columns" in refused.value.hint
    about.unlink()
    assert [one.output.value for one in finished.evaluate().items] == WANTED
    assert finished.calls == []


def test_a_story_whose_keys_are_damaged_stops_nobody(finished, caplog):
    home = finished.home
    about = json.loads((home / "run.json").read_bytes())
    del about["sessions"][-1]["ended"]  # as after a kill
    (home / "run.json").write_text(json.dumps(about), encoding="utf-8")
    events = home / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"key":"', b'"key":"~'))
    with RunReader(home) as reader:
        assert reader.cut_off_calls() == []
    with caplog.at_level(logging.WARNING):
        finished.evaluate()
    assert finished.calls == []


def test_a_damaged_result_of_a_map_runs_again_once(tmp_path):
    calls, path = [], tmp_path / "out.jsonl"

    def double(number):
        calls.append(number)
        return 2 * number

    limpet.map(double, [1, 2, 3], journal=path, version="1")
    flip_in_line(path, 1)
    for _ in range(2):
        assert limpet.map(double, [1, 2, 3], journal=path, version="1").outputs == [2, 4, 6]
    assert len(calls) == 4
    assert verify(path).is_sound


# ---- anywhere -----------------------------------------------------------------------------------


def look_at_everything(home):
    with RunReader(home) as reader:
        reader.snapshot()
        reader.cut_off_calls()
        reader.summary()
        reader.item("q1")
        return reader.state, list(reader.ids())


def damaged_files(home, step):
    """Yield each file of a run with bytes that have changed somewhere, or end there."""
    chance = random.Random(0)
    for path in sorted(home.rglob("*")):
        if path.is_file() and path.name != "LOCK":
            raw = path.read_bytes()
            for at in range(chance.randrange(step), len(raw), step):
                flipped = bytes([raw[at] ^ 1 << chance.randrange(8)])
                yield path, raw[:at] + flipped + raw[at + 1 :]
                yield path, raw[:at]


@pytest.mark.quick(2)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", [1021, pytest.param(29, marks=pytest.mark.slow)])
@pytest.mark.parametrize("ended", [True, False])
def test_damage_anywhere_crashes_no_reader_and_the_next_run_makes_it_good(tmp_path, step, ended):
    project, whole = Project(tmp_path / "run"), tmp_path / "whole"
    project.evaluate()
    if not ended:
        about = json.loads((project.home / "run.json").read_bytes())
        del about["sessions"][-1]["ended"], about["complete"]
        (project.home / "run.json").write_text(json.dumps(about), encoding="utf-8")
    shutil.copytree(project.home, whole)
    for path, raw in damaged_files(whole, step):
        shutil.rmtree(project.home)
        shutil.copytree(whole, project.home)
        (project.home / path.relative_to(whole)).write_bytes(raw)
        look_at_everything(project.home)
        try:
            result = project.evaluate(run=limpet.Run(project.home, durability="flush"))
        except JournalError:
            assert path.name == "run.json"  # no other file may be refused
            continue
        assert [one.output.value for one in result.items] == WANTED
        assert result.summary["evaluators"]["correct"]["completed"] == 6
        assert sorted(read(project.home)) == WANTED
        states = {one.path.name: one.is_sound for one in verify(project.home).states}
        assert all(sound for name, sound in states.items() if name != "events.jsonl")


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (1, r"written by an earlier version of Limpet \(format 1; this one has 2\)"),
        (3, r"written by a later version of Limpet \(format 3; this one has 2\)"),
    ],
)
def test_a_run_says_its_format_and_one_of_another_is_refused_and_left_alone(tmp_path, theirs, said):
    rows, run = [{"id": "a", "question": "q"}], tmp_path / "run"
    limpet.evaluate(rows, lambda question: question, run=run, version="1")
    about = json.loads((run / "run.json").read_text())
    assert about.pop("format") == 2
    (run / "run.json").write_text(json.dumps(about | {"format": theirs}))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for use in (
        lambda: limpet.evaluate(rows, lambda question: question, run=run, version="1"),
        lambda: limpet.load_run(run),
        lambda: limpet.plan(rows, lambda question: question, run=run, version="1"),
    ):
        with pytest.raises(limpet.errors.OtherFormatError, match=said) as caught:
            use()
        assert caught.value.hint
    now = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert now == before


@pytest.mark.parametrize("theirs", [{}, {"format": "2"}, {"format": True}])
def test_a_run_file_without_a_format_is_damaged_and_no_empty_run(tmp_path, theirs):
    rows, run = [{"id": "a", "question": "q"}], tmp_path / "run"
    limpet.evaluate(rows, lambda question: question, run=run, version="1")
    (run / "run.json").write_text(json.dumps(theirs))
    with pytest.raises(limpet.errors.JournalError, match="`format` is missing or not a number"):
        limpet.evaluate(rows, lambda question: question, run=run, version="1")
    assert [item.output.value for item in limpet.load_run(run).items] == ["q"]


def of_before(line):
    """Return a line of a column as format 1 had it."""
    fields = json.loads(line)
    del fields["_crc"]
    for new, old in (("output", "generated_answer"), ("value", "score"), ("row", "rows")):
        if new in fields:
            fields[old] = fields.pop(new)
    return seal(json.dumps(fields, separators=(",", ":")).encode())


@pytest.mark.parametrize("column", ["workflow_output.jsonl", "exact_match_output.jsonl"])
def test_lines_of_another_format_are_refused_also_without_a_run_file(tmp_path, column):
    rows, run = [{"id": "a", "question": "q", "answer": "q"}], tmp_path / "run"
    told = {"evaluators": ["exact_match"], "run": run, "version": "1"}
    limpet.evaluate(rows, lambda question: question, **told)
    lines = (run / column).read_bytes().splitlines(keepends=True)
    (run / column).write_bytes(b"".join(map(of_before, lines)))
    (run / "run.json").unlink()
    before = (run / column).read_bytes()
    with pytest.raises(limpet.errors.OtherFormatError, match="written by another version"):
        _ = limpet.load_run(run).items
    assert (run / column).read_bytes() == before
