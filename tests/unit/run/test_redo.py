"""A forced redo: run again whatever is there, finished after an interruption, never paid twice."""

import asyncio
import json
import shutil

import pytest
from cut_short import cut_short

import limpet
from limpet import LimpetError, PermanentError, exact_match
from limpet.run.reading import RunReader
from tests.exported import exported

ROWS = [{"id": f"q{n}", "question": f"what {n}", "answer": str(n)} for n in range(6)]


class Bench:
    """A workflow and an evaluator that count their calls, and answer as they are told."""

    def __init__(self, path):
        self.path = path
        self.asked, self.scored = [], []
        self.answer = lambda question: question.split()[1]
        self.score = lambda output, expected: output == expected

    def evaluate(self, rows=ROWS, **options):
        async def workflow(question):
            self.asked.append(question.split()[1])
            found = self.answer(question)
            return await found if asyncio.iscoroutine(found) else found

        options = {"version": "1", "pace": 1, "retry": 0} | options
        evaluators = options.pop("evaluators", {"correct": self.correct})
        made = options.pop("made", limpet.evaluate)
        rows = limpet.Dataset(rows, limit=options.pop("limit", None))
        return made(rows, workflow, evaluators, self.path, **options)

    def plan(self, **options):
        return self.evaluate(made=limpet.plan, **options)

    @property
    def correct(self):
        class Correct(limpet.Evaluator):
            name = "correct"
            endpoint = None
            fingerprint = {"version": "1"}  # noqa: RUF012

            async def call(_, scored):  # noqa: N805
                self.scored.append(scored.item.id)
                value = self.score(scored.output, scored.expected)
                return {"score": limpet.Score(value)}

        return Correct()

    def counts(self):
        """Return how often the workflow and the evaluator were called since the last time."""
        counts = len(self.asked), len(self.scored)
        self.asked.clear()
        self.scored.clear()
        return counts

    @property
    def summary(self):
        return json.loads((self.path / "summary.json").read_bytes())

    @property
    def about(self):
        return json.loads((self.path / "run.json").read_bytes())

    def outputs(self):
        """Return each answer as the file for others has it, as a reader does, and without index."""
        written = exported(self.path)
        with RunReader(self.path) as reader:
            read = [one.output for one in reader.items()]
        bare = self.path.with_name("bare")
        shutil.rmtree(bare, ignore_errors=True)
        shutil.copytree(self.path, bare)
        for index in (bare / "index").glob("*.idx"):
            index.unlink()
        with RunReader(bare) as reader:
            without = [one.output for one in reader.items()]
        assert read == [one["generated_answer"] for one in written] == without
        return read


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path / "run")
    made.evaluate()
    assert made.counts() == (6, 6)
    return made


def stop_after(bench, number, answer=lambda question: f"new {question.split()[1]}"):
    """Have the provider's quota end after so many answers."""
    given = []

    def limited(question):
        if len(given) == number:
            raise limpet.errors.QuotaExhaustedError("the account is empty")
        given.append(question)
        return answer(question)

    bench.answer = limited


def is_finished(bench):
    with RunReader(bench.path) as reader:
        return reader.state == "finished"


# ---- what runs again ----------------------------------------------------------------------------


def test_a_redo_runs_all_of_the_workflow_and_the_new_answers_count(bench):
    bench.answer = lambda question: f"new {question.split()[1]}"
    result = bench.evaluate(redo=True)
    assert bench.counts() == (6, 6)
    assert result.items[0].output.value == "new 0"
    assert result.summary["scores"]["correct"]["mean"] == 0.0
    assert bench.outputs() == [f"new {n}" for n in range(6)]
    assert "redo" not in bench.about
    assert is_finished(bench)


def test_after_a_redo_nothing_is_left_to_do(bench):
    bench.answer = lambda question: f"new {question.split()[1]}"
    bench.evaluate(redo=True)
    bench.counts()
    again = bench.evaluate()
    assert bench.counts() == (0, 0)
    assert [one.output.value for one in again.items] == [f"new {n}" for n in range(6)]


def test_each_redo_wins_over_the_one_before_with_and_without_an_index(bench):
    for turn in range(3):
        bench.answer = lambda question, turn=turn: f"{turn} {question.split()[1]}"
        bench.evaluate(redo=True)
        assert bench.outputs() == [f"{turn} {n}" for n in range(6)]
    for index in (bench.path / "index").iterdir():
        index.unlink()
    result = bench.evaluate(evaluators={"same": exact_match()})
    assert [one.output.value for one in result.items] == [f"2 {n}" for n in range(6)]


def test_an_output_that_comes_out_the_same_keeps_its_score(bench):
    bench.answer = lambda question: "new" if question == "what 2" else question.split()[1]
    bench.evaluate(redo=True)
    assert bench.asked == ["0", "1", "2", "3", "4", "5"]
    assert bench.scored == ["q2"]
    assert is_finished(bench)


def test_an_evaluator_alone_runs_again_for_all(bench):
    bench.score = lambda *_: 0.5
    result = bench.evaluate(redo=["correct"])
    assert bench.counts() == (0, 6)
    assert result.summary["scores"]["correct"]["mean"] == 0.5
    assert is_finished(bench)
    with RunReader(bench.path) as reader:
        assert reader.summary()["scores"]["correct"]["mean"] == 0.5


def test_workflow_and_evaluator_together_score_what_came_out_the_same_too(bench):
    bench.evaluate(redo=["workflow", "correct"])
    assert bench.counts() == (6, 6)


def test_one_item_runs_again_in_the_workflow(bench):
    bench.answer = lambda _: "new"
    bench.evaluate(redo=limpet.Redo(items=["q3"]))
    assert (bench.asked, bench.scored) == (["3"], ["q3"])
    assert bench.outputs() == ["0", "1", "2", "new", "4", "5"]


def test_items_and_steps_are_only_these_items_in_those_steps(bench):
    bench.evaluate(redo=limpet.Redo(["correct"], items=["q3", "q1"]))
    assert (bench.asked, sorted(bench.scored)) == ([], ["q1", "q3"])


def test_an_item_covers_all_its_trials(tmp_path):
    bench = Bench(tmp_path / "run")
    bench.evaluate(trials=3)
    bench.counts()
    bench.answer = lambda _: "new"
    bench.evaluate(trials=3, redo=limpet.Redo(items=["q3"]))
    assert bench.asked == ["3", "3", "3"]


def test_a_selection_forces_only_what_it_selects(bench):
    bench.answer = lambda _: "new"
    bench.evaluate(redo=True, limit=2)
    assert bench.asked == ["0", "1"]
    assert bench.outputs() == ["new", "new", "2", "3", "4", "5"]
    bench.counts()
    bench.evaluate()
    assert bench.counts() == (0, 0)


def test_a_redo_of_a_new_run_is_its_first_run(tmp_path):
    bench = Bench(tmp_path / "run")
    bench.evaluate(redo=True)
    assert bench.counts() == (6, 6)
    assert is_finished(bench)


# ---- interruptions ------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [{"redo": True}, {}])
def test_an_interrupted_redo_is_finished_by_the_same_and_by_a_plain_run(bench, again):
    stop_after(bench, 2)
    stopped = cut_short(bench.evaluate, redo=True)
    assert stopped.stop_reason is not None
    assert stopped.summary["workflow"]["redo"] == {"pending": 4}
    assert bench.outputs() == ["new 0", "new 1", "2", "3", "4", "5"]
    assert not is_finished(bench)
    bench.counts()
    bench.answer = lambda question: f"new {question.split()[1]}"
    bench.evaluate(**again)
    assert bench.counts() == (4, 4)
    assert bench.outputs() == [f"new {n}" for n in range(6)]
    assert is_finished(bench)


def test_keep_cancels_an_interrupted_redo_and_what_it_made_counts(bench):
    stop_after(bench, 2)
    cut_short(bench.evaluate, redo=True)
    bench.counts()
    assert bench.plan().redo == "unfinished"
    plan = bench.plan(on_change="keep")
    assert (plan.redo, plan.calls) == ("cancelled", 0)
    assert "the unfinished redo is cancelled" in str(plan)
    assert "redo" in bench.about  # a plan changes nothing
    result = bench.evaluate(on_change="keep")
    assert bench.counts() == (0, 0)
    assert "redo" not in result.summary["workflow"]
    assert bench.outputs() == ["new 0", "new 1", "2", "3", "4", "5"]
    assert "redo" not in bench.about
    assert is_finished(bench)
    assert bench.plan().redo == ""
    bench.evaluate()
    assert bench.counts() == (0, 0)
    bench.answer = lambda question: f"third {question.split()[1]}"
    bench.evaluate(redo=True)
    assert bench.counts() == (6, 6)


def test_keep_cancels_a_redo_of_a_changed_workflow_and_of_an_evaluator(bench):
    stop_after(bench, 2)
    cut_short(bench.evaluate, redo=["workflow", "correct"], version="2")
    bench.counts()
    bench.evaluate(on_change="keep", version="2")
    assert bench.counts() == (0, 0)
    assert bench.outputs() == ["new 0", "new 1", "2", "3", "4", "5"]
    bench.evaluate(on_change="keep")  # the code is restored
    assert bench.counts() == (0, 0)
    assert bench.outputs() == [str(n) for n in range(6)]


def test_keep_cancels_a_redo_that_failed(bench):
    bench.answer = fail_on(1, 2)
    bench.evaluate(redo=True)
    bench.counts()
    result = bench.evaluate(on_change="keep")
    assert bench.counts() == (0, 0)
    assert "redo" not in result.summary["workflow"]
    assert is_finished(bench)


def test_keep_beside_a_redo_resumes_that_redo_and_cancels_others(bench):
    stop_after(bench, 1)
    cut_short(bench.evaluate, redo=limpet.Redo(items=["q4", "q5"]))
    stop_after(bench, 1)
    items = limpet.Redo(items=["q0", "q1"])
    cut_short(bench.evaluate, redo=items, on_change="keep", limit=2)
    bench.counts()
    bench.answer = lambda question: f"third {question.split()[1]}"
    bench.evaluate(redo=items, on_change="keep")
    assert bench.asked == ["1"]
    assert bench.outputs() == ["new 0", "third 1", "2", "3", "new 4", "5"]


def test_when_it_is_done_the_same_begins_a_new_redo(bench):
    bench.evaluate(redo=True)
    bench.evaluate(redo=True)
    assert bench.counts() == (12, 0)


def test_another_redo_is_added_to_one_that_was_interrupted(bench):
    stop_after(bench, 2)
    cut_short(bench.evaluate, redo=True)
    bench.counts()
    bench.answer = lambda question: f"third {question.split()[1]}"
    bench.evaluate(redo=limpet.Redo(items=["q0"]), limit=1)
    assert bench.asked == ["0"]
    assert [one["items"] for one in bench.about["redo"]] == [None]
    bench.counts()
    bench.evaluate()
    assert bench.asked == ["2", "3", "4", "5"]


def test_an_interrupted_redo_of_an_evaluator_goes_on(bench):
    scored = []

    def score(output, _):
        if len(scored) == 3:
            raise limpet.errors.QuotaExhaustedError("the account is empty")
        scored.append(output)
        return 0.5

    bench.score = score
    stopped = cut_short(bench.evaluate, redo=["correct"])
    assert stopped.summary["evaluators"]["correct"]["redo"] == {"pending": 3}
    assert stopped.summary["evaluators"]["correct"]["completed"] == 6
    assert not is_finished(bench)
    bench.counts()
    bench.score = lambda *_: 0.5
    result = bench.evaluate(redo=["correct"])
    assert bench.counts() == (0, 3)
    assert result.summary["scores"]["correct"]["mean"] == 0.5


def test_a_plan_says_what_would_be_forced_and_notes_nothing(bench):
    before = bench.about
    text, *_ = str(bench.plan(redo=True)).splitlines()
    assert text == ("6 items × 1 trial: 0 kept, 6 forced → 6 calls of workflow, up to 6 of correct")
    text = str(bench.plan(redo=limpet.Redo(["correct"], items=["q1"])))
    assert text == "6 items × 1 trial: 6 kept; 1 correct forced → 1 call of correct"
    assert bench.about == before
    bench.evaluate()
    assert bench.counts() == (0, 0)


# ---- failures -----------------------------------------------------------------------------------


def fail_on(*numbers):
    def answer(question):
        if question.split()[1] in numbers:
            raise PermanentError("cannot")
        return f"new {question.split()[1]}"

    return answer


def test_where_a_redo_fails_the_earlier_result_stands_and_the_failure_is_said(bench):
    bench.answer = fail_on("2")
    result = bench.evaluate(redo=True)
    assert result.items[2].output.value == "2"
    assert result.items[2].scores["correct"].value is True
    assert bench.summary["workflow"]["redo"] == {"permanent": 1}
    assert bench.summary["workflow"]["failed"] == {}
    assert bench.summary["evaluators"]["correct"]["completed"] == 6
    with RunReader(bench.path) as reader:
        redo = list(reader.items())[2].redo["workflow"]
        assert (redo["class"], redo["message"]) == ("permanent", "cannot")
        assert reader.counts.steps[0].failed == {"permanent": 1}


def test_what_failed_in_a_redo_is_tried_again_by_the_next_run_alone(bench):
    bench.answer = fail_on("2")
    bench.evaluate(redo=True)
    bench.counts()
    bench.answer = fail_on()
    bench.evaluate()
    assert bench.counts() == (1, 1)
    assert bench.outputs() == [f"new {n}" for n in range(6)]


def test_a_redo_whose_rest_has_failed_is_through_and_the_same_begins_anew(bench):
    bench.answer = fail_on("2")
    bench.evaluate(redo=True)
    bench.counts()
    bench.evaluate(redo=True)
    assert bench.counts()[0] == 6


def test_what_failed_in_a_redo_can_be_left(bench):
    bench.answer = fail_on("2")
    bench.evaluate(redo=True)
    bench.counts()
    left = bench.evaluate(retry=0, retry_failed=False)
    assert bench.counts() == (0, 0)
    assert left.plan.workflow.failed == 1
    assert left.items[2].output.value == "2"


def test_an_answer_that_stands_is_scored_by_an_evaluator_that_is_new(bench):
    bench.answer = fail_on("2")
    result = bench.evaluate(redo=True, evaluators={"same": exact_match()})
    assert result.items[2].scores["same"].value is True


def test_a_record_that_was_damaged_and_made_again_counts_from_then_on(bench):
    column = bench.path / "workflow_output.jsonl"
    before = column.read_bytes()
    column.write_bytes(before.replace(b'"output":"2"', b'"output":"7"'))
    bench.evaluate(evaluators={"same": exact_match()})
    assert bench.asked == ["2"]
    for turn in range(2):  # the index still names the damaged line
        bench.counts()
        result = bench.evaluate(evaluators={f"same{turn}": exact_match()})
        assert bench.asked == []
        assert result.items[2].output.value == "2"


# ---- versions -----------------------------------------------------------------------------------


def test_a_redo_answers_the_question_of_a_changed_workflow(bench):
    bench.answer = fail_on()
    result = bench.evaluate(version="2", redo=True)
    assert bench.counts() == (6, 6)
    assert "by_current_version" not in result.summary["workflow"]


def test_an_item_of_a_changed_workflow_runs_again_and_the_mixture_is_said(bench):
    bench.answer = fail_on()
    result = bench.evaluate(version="2", redo=limpet.Redo(items=["q1"]), on_change="keep")
    assert bench.asked == ["1"]
    assert result.summary["workflow"]["by_current_version"] == 1
    assert bench.summary["evaluators"]["correct"]["by_current_version"] == 1
    assert bench.outputs() == ["0", "new 1", "2", "3", "4", "5"]
    with RunReader(bench.path) as reader:
        assert reader.by_current_version == (1, 6)
        assert reader.summary()["evaluators"]["correct"]["by_current_version"] == 1
        assert [one.version == "" for one in reader.items()] == [n == 1 for n in range(6)]


def test_an_interrupted_redo_of_a_changed_workflow_says_how_much_is_by_the_new_version(bench):
    stop_after(bench, 2)
    stopped = cut_short(bench.evaluate, version="2", redo=True)
    assert stopped.summary["workflow"]["by_current_version"] == 2
    assert stopped.summary["workflow"]["redo"] == {"pending": 4}
    assert bench.outputs() == ["new 0", "new 1", "2", "3", "4", "5"]
    bench.counts()
    bench.answer = fail_on()
    done = bench.evaluate(version="2")
    assert bench.counts() == (4, 4)
    assert "by_current_version" not in done.summary["workflow"]


def test_what_is_kept_is_never_taken_for_the_present_versions(bench):
    kept = bench.evaluate(version="2", on_change="keep")
    assert kept.summary["workflow"]["by_current_version"] == 0
    rows = [*ROWS, {"id": "new", "question": "what 9", "answer": "9"}]
    mixed = bench.evaluate(rows, version="2")
    assert mixed.summary["workflow"]["by_current_version"] == 1
    assert mixed.summary["evaluators"]["correct"]["by_current_version"] == 1
    assert "correct 1.000 (0.65–1.00) (1 of 7 from the current version)" in repr(mixed)
    told = "1.000 (0.65–1.00) (1 of 7 answers are from the current version)"
    assert told in mixed._repr_html_()


def test_on_change_redo_keeps_its_meaning(bench):
    rows = [*ROWS, {"id": "new", "question": "what 9", "answer": "9"}]
    bench.evaluate(rows, version="2", on_change="keep")
    bench.counts()
    bench.evaluate(rows, version="2", on_change="redo")
    assert bench.asked == ["0", "1", "2", "3", "4", "5"]


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"redo": ["corect"]}, "cannot run step 'corect' again", "did you mean 'correct'?"),
        (
            {"redo": limpet.Redo(items=["q33"])},
            "cannot run item 'q33' again",
            "did you mean 'q3'?",
        ),
        (
            {"redo": limpet.Redo(items=["q5"]), "limit": 2},
            "cannot run item 'q5' again: it is not",
            "limit",
        ),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_and_nothing_is_done(
    bench, options, message, hint
):
    before = bench.about
    with pytest.raises(LimpetError, match=message) as caught:
        bench.evaluate(**options)
    assert hint in caught.value.hint
    assert bench.about == before
    assert bench.counts() == (0, 0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"redo": "correct"}, TypeError),
        ({"redo": True, "on_change": "keep"}, ValueError),
    ],
)
def test_what_makes_no_sense_is_refused(bench, options, error):
    with pytest.raises(error):
        bench.evaluate(**options)


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_record_of_a_redo_does_not_bring_the_earlier_one_back(tmp_path, damage):
    said = ["first"]

    def answer(question):
        return f"{question} {said[0]}"

    def run(**options):
        return limpet.evaluate(
            [{"id": "a", "question": "a"}, {"id": "b", "question": "b"}],
            answer,
            run=tmp_path / "run",
            version="1",
            **options,
        )

    run()
    said[0] = "second"
    run(redo=True)
    column = tmp_path / "run" / "workflow_output.jsonl"
    lines = column.read_bytes().splitlines(keepends=True)
    if damage == "flipped":
        lines[-1] = lines[-1].replace(b"second", b"seconD")
    column.write_bytes(b"".join(lines if damage == "flipped" else lines[:-1]))
    said[0] = "third"
    healed = run()
    assert sorted(one.output.value.split()[1] for one in healed.items) == ["second", "third"]
    assert run().plan.calls == 0


def test_a_redo_that_is_done_forces_nothing_that_it_did_not_cover(tmp_path):
    rows = [{"id": str(n), "question": str(n)} for n in range(4)]

    def run(some, **options):
        return limpet.evaluate(
            some, lambda question: question, run=tmp_path / "run", version="1", **options
        )

    run(rows)
    assert run(rows[:2], redo=True).plan.calls == 2
    assert run(rows).plan.calls == 0
    run(rows, trials=2)
    assert run(rows, redo=True).plan.calls == 4
    assert run(rows, trials=2).plan.calls == 0


def test_a_redo_scores_what_was_scored_masked_as_it_is(tmp_path, monkeypatch):
    key = "sk-Planted/0123+456789"
    monkeypatch.setenv("MY_API_KEY", key)

    def run(evaluators, **options):
        return limpet.evaluate(
            [{"id": "a", "question": "q", "answer": key}],
            lambda question: key,
            evaluators,
            run=tmp_path / "run",
            version="1",
            **options,
        )

    run([])
    same = {"same": limpet.exact_match()}
    assert run(same).summary["scores"]["same"]["mean"] == 0.0
    assert run(same, redo=True).summary["scores"]["same"]["mean"] == 1.0


def test_code_edited_in_the_middle_of_a_redo_and_forced_again_leaves_nothing_of_either(tmp_path):
    rows = [{"id": str(n), "question": str(n)} for n in range(4)]
    run = {"run": tmp_path / "run", "pace": 1, "fail_fast": False}

    def first(question):
        return "first"

    limpet.evaluate(rows, first, version="1", **run)
    stop_after_two(rows, run)
    forced = limpet.evaluate(rows, lambda question: "third", version="3", redo=True, **run)
    assert {one.output.value for one in forced.items} == {"third"}


def stop_after_two(rows, run):
    done = []

    def second(question):
        done.append(question)
        if len(done) > 2:
            raise limpet.errors.QuotaExhaustedError("no more")
        return "second"

    cut_short(limpet.evaluate, rows, second, version="2", redo=True, **run)
    assert len(done) == 3
