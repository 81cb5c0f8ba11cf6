"""`limit` and `sample` select what a session works on: what the run reports does not shrink."""

import json

import pytest
from costly import costly
from cut_short import cut_short

import limpet
from limpet import exact_match
from limpet.run.api import Arguments, evaluate_prepared
from limpet.run.reading import RunReader
from tests.exported import exported

ROWS = [{"id": f"q{n}", "question": f"what {n}", "answer": str(n)} for n in range(12)]


class Bench:
    def __init__(self, path):
        self.path = path
        self.asked = []
        self.suffix = ""
        self.cost = None

    def evaluate(self, rows=ROWS, version="1", redo=False, **selected):
        async def answer(question):
            self.asked.append(question)
            return costly(question.split()[1] + self.suffix, self.cost)

        dataset = limpet.Dataset(rows, **selected)
        return limpet.evaluate(
            dataset, answer, [exact_match()], self.path, version=version, redo=redo, pace=4
        )

    def reported(self):
        """Return of how many items each file and reader tells: all must say the same."""
        summary = json.loads((self.path / "summary.json").read_bytes())
        answers = exported(self.path)
        scores = exported(self.path, "exact_match")
        with RunReader(self.path) as reader:
            read, steps = reader.summary(), reader.counts.steps
            state = reader.state
        for key in ("n", "workflow", "evaluators"):
            assert read[key] == summary[key]
        assert len(answers) == len(scores["eval_output_items"]) == summary["n"]
        assert {step.total for step in steps} == {summary["n"]}
        assert {step.kept + step.done for step in steps} == {summary["workflow"]["completed"]}
        return summary["n"], summary["workflow"]["completed"], state


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "run")


def test_a_limit_on_a_finished_run_changes_nothing_of_what_it_reports(bench):
    bench.evaluate()
    assert bench.reported() == (12, 12, "finished")
    limited = bench.evaluate(limit=3)
    assert bench.reported() == (12, 12, "finished")
    assert len(bench.asked) == 12
    assert str(limited.plan).startswith("3 of 12 items × 1 trial: 3 kept → no calls")


def test_the_result_of_a_limited_session_is_of_what_was_asked(bench):
    bench.evaluate()
    for _ in range(2):
        limited = bench.evaluate(limit=3)
        assert [one.id for one in limited.items] == ["q0", "q1", "q2"]
        assert limited.summary["n"] == 3
        assert limited.summary["selection"] == {"items": 3, "of": 12}


def test_a_first_try_with_few_reports_these_and_says_of_how_many(bench):
    limited = bench.evaluate(limit=3)
    assert bench.reported() == (3, 3, "finished")
    summary = json.loads((bench.path / "summary.json").read_bytes())
    assert summary == limited.summary
    assert summary["selection"] == {"items": 3, "of": 12}
    bench.evaluate()
    assert bench.reported() == (12, 12, "finished")
    assert len(bench.asked) == 12


def test_what_was_ever_asked_for_stays_in_the_report(bench):
    bench.evaluate(limit=3)
    bench.evaluate(sample=4, seed=1)
    total = len(set(bench.asked))
    assert bench.reported() == (total, total, "finished")
    bench.evaluate(limit=1)
    assert bench.reported() == (total, total, "finished")
    assert len(bench.asked) == total


def test_a_limit_on_an_unfinished_run_leaves_it_unfinished(bench):
    def answer(question):
        if question == "what 7":
            raise limpet.errors.QuotaExhaustedError("empty")
        return question.split()[1]

    cut_short(limpet.evaluate, ROWS, answer, [exact_match()], bench.path, version="1", pace=1)
    assert bench.reported() == (12, 7, "stopped")
    limited = bench.evaluate(limit=9)
    assert limited.summary["workflow"]["completed"] == 9
    assert bench.reported() == (12, 9, "limited")


def test_a_limited_session_says_what_failed_within_it_and_not_elsewhere(bench):
    def answer(question):
        if question == "what 7":
            raise limpet.PermanentError("no")
        return question.split()[1]

    limpet.evaluate(ROWS, answer, [exact_match()], bench.path, version="1", pace=1)
    limited = bench.evaluate(limit=3)
    assert limited.failed == []
    summary = json.loads((bench.path / "summary.json").read_bytes())
    assert summary["workflow"]["failed"] == {"permanent": 1}


def test_of_equal_rows_a_selection_asks_the_same_as_the_whole(bench):
    rows = [{"id": f"q{n}", "question": "what 1", "answer": "1"} for n in range(6)]
    sampled = bench.evaluate(rows, sample=2)
    bench.evaluate(rows)
    assert len(bench.asked) == 6
    again = bench.evaluate(rows, sample=2)
    assert [one.id for one in again.items] == [one.id for one in sampled.items]
    assert len(bench.asked) == 6


def test_a_changed_workflow_tried_on_few_leaves_the_others_as_they_were_and_says_so(bench):
    bench.cost = 0.12
    bench.evaluate()
    bench.suffix = "!"
    tried = bench.evaluate(version="2", limit=3)  # the three cost less than a dollar
    assert len(bench.asked) == 15
    assert tried.summary["scores"]["exact_match"]["mean"] == 0.0
    summary = json.loads((bench.path / "summary.json").read_bytes())
    assert summary["workflow"]["by_current_version"] == 3
    assert summary["evaluators"]["exact_match"]["by_current_version"] == 3
    assert summary["scores"]["exact_match"]["mean"] == 0.75
    assert bench.reported() == (12, 12, "finished")
    with pytest.raises(limpet.FunctionChangedError, match="the answers of 9 of 12 items"):
        bench.evaluate(version="2")  # trying it on three was no answer for the others


def test_a_dataset_that_is_loaded_can_be_selected_from_too(bench):
    asked = Arguments(limpet.Dataset(ROWS).load(), len, run=bench.path, limit=3)
    limited = evaluate_prepared(asked)
    assert [one.id for one in limited.items] == ["q0", "q1", "q2"]


def test_a_dataset_that_was_loaded_short_is_all_there_is(bench):
    result = limpet.evaluate(limpet.Dataset(ROWS, limit=3).load(), len, run=bench.path)
    assert "selection" not in result.summary


def test_a_selection_that_is_all_is_none(bench):
    assert "selection" not in bench.evaluate(limit=12).summary
    assert bench.reported() == (12, 12, "finished")


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"sample": -1}])
def test_a_selection_must_be_a_number_of_items(bench, wrong):
    with pytest.raises(ValueError, match="must be a whole number, 1 or more"):
        bench.evaluate(**wrong)


def test_rows_that_are_added_later_are_reported_once_they_are_asked(bench):
    bench.evaluate(ROWS[:6])
    bench.evaluate(limit=2)
    assert bench.reported() == (12, 6, "limited")
    bench.evaluate()
    assert bench.reported() == (12, 12, "finished")
