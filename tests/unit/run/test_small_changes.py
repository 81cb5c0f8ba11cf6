"""After an edit, a few cheap answers are made anew without a question, and it is said."""

import asyncio
import logging
import re

import pytest
from costly import costly
from virtual_time import run

import limpet
from limpet.run.planning.changes import small_redo


def rows(number):
    return [{"id": f"q{n}", "question": f"what {n}"} for n in range(number)]


def untimed(text):
    """Return a text with the time of calls that do nothing as a quick machine takes it."""
    return re.sub(r"\d\.\d s of calls", "0.0 s of calls", text)


class Bench:
    """A workflow of some version that counts its calls."""

    def __init__(self, path):
        self.path, self.asked, self.cost = path, [], None

    def evaluate(self, number=3, version="1", made=limpet.evaluate, limit=None, **options):
        async def answer(question):
            self.asked.append(question)
            return costly(f"{version}: {question}", self.cost)

        dataset = limpet.Dataset(rows(number), limit=limit)
        return made(dataset, answer, (), self.path, version=version, **options)

    def edited(self, number=3, **options):
        """Run another version; return how many calls that made, or "asks"."""
        self.asked.clear()
        try:
            self.evaluate(number, version="2", **options)
        except limpet.FunctionChangedError:
            assert not self.asked
            return "asks"
        return len(self.asked)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "run")


# ---- the borders --------------------------------------------------------------------------------


@pytest.mark.parametrize(("answers", "made"), [(100, 100), (101, "asks")])
def test_a_hundred_answers_are_made_anew_and_one_more_asks(bench, answers, made):
    bench.evaluate(answers)
    assert bench.edited(answers) == made


@pytest.mark.quick(2)
@pytest.mark.parametrize(("cost", "made"), [(0.01, 100), (0.0101, "asks"), (None, 100), (0, 100)])
def test_a_dollar_in_all_is_made_anew_and_more_asks_and_an_unknown_cost_is_none(bench, cost, made):
    bench.cost = cost
    bench.evaluate(100)
    assert bench.edited(100) == made


@pytest.mark.parametrize(("seconds", "made"), [(100, 3), (100.4, "asks")])
def test_five_minutes_of_calls_are_made_anew_and_more_asks(bench, seconds, made):
    async def answer(question):
        await asyncio.sleep(seconds)
        return question

    async def main():
        await limpet.aevaluate(rows(3), answer, (), bench.path, version="1")

    run(main())
    assert bench.edited() == made


@pytest.mark.parametrize(
    ("facts", "is_small"),
    [
        ([{"seconds": 300.0}], True),
        ([{"seconds": 301.0}], False),
        ([{"seconds": 150.0}, {"seconds": 150.5}], False),
        ([{"seconds": 1.0, "usage": {"cost": 1.0}}], True),
        ([{"seconds": 1.0, "usage": {"cost": 1.01}}], False),
        ([{"seconds": 1.0, "usage": {"prompt_tokens": 10**9}}], True),
        ([{}], True),  # taken over from another tool
        ([{"usage": {"cost": 0.1}}] * 10, True),  # which is a little less or more, in floats
    ],
)
def test_what_counts_is_what_the_lines_say(facts, is_small):
    assert (small_redo(len(facts), facts) is not None) == is_small


# ---- what is judged -----------------------------------------------------------------------------


def test_only_the_answers_that_this_session_would_make_anew_count(bench, caplog):
    bench.cost = 0.3
    bench.evaluate(5)
    assert bench.edited(5) == "asks"
    assert bench.edited(5, limit=3) == 3
    assert bench.edited(5) == 2  # the three are of this version by now
    said = untimed(caplog.text)
    assert "changed (version); answers redone: 2 (0.0 s of calls, $0.60)" in said


def test_a_first_try_decides_nothing_about_the_rest(bench):
    bench.evaluate(105)
    assert bench.edited(105, limit=2) == 2
    assert bench.edited(105) == "asks"


@pytest.mark.parametrize(("on_change", "calls"), [("keep", 0), ("redo", 3)])
def test_what_the_caller_says_decides(bench, on_change, calls, caplog):
    bench.evaluate()
    assert bench.edited(on_change=on_change) == calls
    assert "redone" not in caplog.text
    assert bench.edited() == 0  # as it was decided


def test_what_was_kept_by_choice_asks_nothing_and_is_not_made_anew(bench):
    bench.evaluate()
    bench.edited(on_change="keep")
    result = bench.evaluate(4, version="2")
    assert (result.plan.workflow.kept, result.plan.workflow.calls) == (3, 1)


def test_the_old_answers_stay_and_the_old_code_finds_them_again(bench):
    bench.evaluate()
    bench.edited()
    assert bench.evaluate(version="1").plan.calls == 0


def test_an_interrupted_one_goes_on_with_what_is_left(bench):
    bench.evaluate()

    async def stops(question):
        if question == "what 1":
            raise limpet.errors.QuotaExhaustedError("empty")
        return "new"

    options = {"version": "2", "pace": 1, "retry": 0}
    with pytest.raises(limpet.errors.QuotaExhaustedError):
        limpet.evaluate(rows(3), stops, (), bench.path, **options)
    assert bench.edited() == 2


def test_a_file_that_answers_were_made_of_is_part_of_the_workflow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.txt").write_text("kind")
    (tmp_path / "small_app.py").write_text(
        "from pathlib import Path\ndef answer(question): return Path('prompt.txt').read_text()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    limpet.evaluate(rows(2), "small_app:answer", (), "run")
    (tmp_path / "prompt.txt").write_text("rude")
    again = limpet.evaluate(rows(2), "small_app:answer", (), "run")
    assert [item.output.value for item in again.items] == ["rude", "rude"]
    assert again.plan.workflow.made_again.answers == 2
    assert limpet.evaluate(rows(2), "small_app:answer", (), "run").plan.calls == 0


# ---- what is said -------------------------------------------------------------------------------


def test_it_is_said_in_the_log_and_in_the_plan(bench, caplog):
    bench.cost = 0.02
    bench.evaluate()
    planned = bench.evaluate(version="2", made=limpet.plan)
    assert planned.workflow.made_again.answers == planned.workflow.calls == 3
    assert "0 kept, 3 redone (0.0 s of calls, $0.06), workflow changed (" in untimed(str(planned))
    with caplog.at_level(logging.WARNING):
        bench.evaluate(version="2")
    assert "; answers redone: 3 (0.0 s of calls, $0.06)" in untimed(caplog.text)


def test_a_plan_of_more_says_that_the_workflow_changed_and_nothing_of_made_anew(bench):
    bench.evaluate(101)
    planned = bench.evaluate(101, version="2", made=limpet.plan)
    assert planned.workflow.made_again is None
    assert planned.workflow.calls == 101
    assert "redone" not in str(planned)


def test_what_failed_and_is_left_is_not_said_to_be_made_anew(bench):
    bench.evaluate()

    async def fails(question):
        raise limpet.PermanentError("no")

    options = {"version": "2", "retry": 0, "fail_fast": False}
    limpet.evaluate(rows(3), fails, (), bench.path, **options)
    left = bench.evaluate(version="2", retry_failed=False, made=limpet.plan)
    assert left.workflow.calls == 0
    assert left.workflow.made_again is None
