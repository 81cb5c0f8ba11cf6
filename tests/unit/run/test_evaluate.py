"""Dataset → workflow → evaluators, and what an edit costs."""

import asyncio
import gc
import inspect
import json
import logging
import re
import shutil
from contextlib import suppress

import pytest
from costly import costly
from cut_short import cut_short

import limpet
from limpet import Output, PermanentError, Score, Usage, exact_match
from limpet.journal.journal import Journal
from limpet.run.api import Arguments, evaluate_prepared
from limpet.run.executing.pipeline import Pipeline
from limpet.run.planning.current_answers import CurrentAnswers
from tests.exported import exported

ROWS = [{"id": f"q{n}", "question": f"what {n}", "answer": str(n)} for n in range(6)]


class Answering:
    """A workflow that counts its calls, by a version of its own."""

    def __init__(self, function=lambda question: question.split()[1]):
        self.calls = []
        self._function = function

    def workflow(self, question):
        self.calls.append(question)
        return self._function(question)

    def evaluate(self, rows, run, evaluators=(), files=None, **options):
        async def answer(question):
            value = self.workflow(question)
            return await value if asyncio.iscoroutine(value) else value

        options.setdefault("version", "1")
        options.setdefault("pace", 4)
        trials, save = options.pop("trials", 1), options.pop("save", True)
        prepared = Arguments(
            rows, answer, evaluators, run, trials, options, save=save, **(files or {})
        )
        return evaluate_prepared(prepared)


def read(path):
    return json.loads(path.read_bytes())


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_no_evaluation_of_a_process_stays_in_its_memory(tmp_path):
    def of_a_run():
        gc.collect()
        kinds = (CurrentAnswers, Journal, Pipeline)
        return [thing for thing in gc.get_objects() if isinstance(thing, kinds)]

    before = of_a_run()  # of tests before, whose failures hold their frames
    for run in ("one", "two"):
        Answering().evaluate(ROWS, tmp_path / run, [exact_match()])
    ours = [thing for thing in of_a_run() if not any(thing is other for other in before)]
    assert ours == []


def test_the_face_is_one_call(tmp_path):
    result = Answering().evaluate(ROWS, tmp_path / "run", [exact_match()])
    assert [one.output.value for one in result.items] == [str(n) for n in range(6)]
    assert result.summary["scores"]["exact_match"]["mean"] == 1.0
    assert result.failed == []
    frame = result.to_dataframe()
    assert list(frame["exact_match"]) == [True] * 6
    assert "6 of 6 completed; exact_match 1.000 (0.61–1.00)" in repr(result)


def test_aevaluate_is_the_same_for_async_callers(tmp_path):
    async def answer(question):
        return question

    async def main():
        first = await limpet.aevaluate(ROWS, answer, [exact_match()], tmp_path / "run")
        second = await limpet.aevaluate(ROWS, answer, [exact_match()], tmp_path / "run")
        return first, second

    first, second = asyncio.run(main())
    assert first.summary == second.summary
    assert second.plan.calls == 0


def test_evaluate_works_under_a_running_loop(tmp_path):
    async def cell():
        return Answering().evaluate(ROWS, tmp_path / "run")

    assert len(asyncio.run(cell()).items) == 6


def test_files_are_as_the_peer_writes_them(tmp_path):
    answering = Answering(lambda q: Output(q, usage=Usage(2, 3), trace=[{"name": "think"}]))
    files = {"nat_files": True}
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()], files=files)
    answers = read(tmp_path / "run" / "workflow_output.json")
    (step,) = answers[1].pop("intermediate_steps")
    # Its readers refuse a file with steps of another form.
    assert (step["payload"]["name"], step["payload"]["event_type"]) == ("think", "CUSTOM_END")
    assert step["payload"]["data"]["output"] == {"name": "think"}
    assert answers[1] == {
        "id": "q1",
        "question": "what 1",
        "answer": "1",
        "generated_answer": "what 1",
    }
    scores = read(tmp_path / "run" / "exact_match_output.json")
    assert scores["average_score"] == 0.0
    assert set(scores["eval_output_items"][1]) >= {"id", "score", "reasoning", "error"}
    summary = read(tmp_path / "run" / "summary.json")
    assert (summary["n"], summary["workflow"]["completed"]) == (6, 6)
    assert summary["workflow"]["usage"]["total_tokens"] == 30
    (live, *_) = lines(tmp_path / "run" / "workflow_output.jsonl")
    assert live["_limpet"]["usage"]["prompt_tokens"] == 2
    whole = answers[[one["id"] for one in answers].index(live["id"])]
    assert list(live) == ["_limpet", "id", "row", "output", "trace", "_crc"]
    assert live["trace"] == [{"name": "think"}]  # in the column, as they are
    assert live["output"] == whole["generated_answer"]
    assert live["row"].items() <= whole.items()


def test_metadata_is_kept_with_its_answer_and_no_field_of_the_dataset_is_taken_for_it(tmp_path):
    told = {"q0": {"model": "m", "at": (1, 2)}, "q1": None}
    answering = Answering(lambda q: Output(q, metadata=told[f"q{q[-1]}"]))
    own = {"metadata": "of the row", "output_metadata": "of the row"}
    rows = [{**row, **own} for row in ROWS[:2]]
    answering.evaluate(rows, tmp_path / "run")
    first, second = answering.evaluate(rows, tmp_path / "run").items  # read back
    assert (first.output.metadata, second.output.metadata) == ({"model": "m", "at": [1, 2]}, None)
    assert [item.row for item in (first, second)] == rows
    final = exported(tmp_path / "run")
    assert [one["output_metadata"] for one in final] == [{"model": "m", "at": [1, 2]}, None]


def test_running_again_runs_nothing(tmp_path):
    answering = Answering()
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    again = answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    assert len(answering.calls) == 6
    assert str(again.plan) == "6 items × 1 trial: 6 kept → no calls"


def test_an_edited_row_costs_one_workflow_call_and_its_scores(tmp_path):
    answering = Answering()
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    rows = [dict(row) for row in ROWS]
    rows[2]["question"] = "what 22"
    rows.append({"id": "new", "question": "what 9", "answer": "9"})
    result = answering.evaluate(rows, tmp_path / "run", [exact_match()])
    assert answering.calls[6:] == ["what 22", "what 9"]
    assert str(result.plan).startswith("7 items × 1 trial: 5 kept, 1 new, 1 edited → 2 calls")
    assert len(lines(tmp_path / "run" / "exact_match_output.jsonl")) == 8


def test_an_edited_expectation_costs_scores_only(tmp_path):
    answering = Answering()
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    rows = [dict(row) for row in ROWS]
    rows[2]["answer"] = "another"
    result = answering.evaluate(rows, tmp_path / "run", [exact_match()])
    assert len(answering.calls) == 6
    assert result.summary["scores"]["exact_match"]["mean"] == 5 / 6
    assert len(lines(tmp_path / "run" / "exact_match_output.jsonl")) == 7


def test_an_edited_evaluator_costs_only_its_own_calls(tmp_path):
    answering, scored = Answering(), []

    def make(bonus):
        def judge(output, expected):
            scored.append(output)
            return float(output == expected) + bonus

        return judge

    answering.evaluate(ROWS, tmp_path / "run", [exact_match(), make(0)])
    assert len(scored) == 6
    result = answering.evaluate(ROWS, tmp_path / "run", [exact_match(), make(1)])
    assert len(scored) == 12
    assert len(answering.calls) == 6
    assert "judge changed → 6 calls of judge" in str(result.plan)
    assert "exact_match" not in str(result.plan)  # it makes no calls
    assert result.summary["scores"]["judge"]["mean"] == 2.0


def test_an_added_evaluator_and_more_trials_run_only_what_is_missing(tmp_path):
    answering = Answering()
    answering.evaluate(ROWS, tmp_path / "run")
    result = answering.evaluate(ROWS, tmp_path / "run", [exact_match()], trials=2)
    assert len(answering.calls) == 12
    assert [(one.id, one.trial) for one in result.items[:2]] == [("q0", 0), ("q1", 0)]
    assert (result.items[-1].id, result.items[-1].trial) == ("q5", 1)
    scores = exported(tmp_path / "run", "exact_match")["eval_output_items"]
    assert {one["id"] for one in scores} == {f"q{n}_rep{t}" for n in range(6) for t in range(2)}


def test_removed_rows_stay_on_disk_and_results_speak_of_those_asked_for(tmp_path):
    answering = Answering()
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    result = answering.evaluate(ROWS[:2], tmp_path / "run", [exact_match()])
    assert len(result.items) == result.summary["n"] == 2
    assert len(lines(tmp_path / "run" / "workflow_output.jsonl")) == 6


def test_the_counts_of_a_plan_add_up_after_failures_and_a_change(tmp_path):
    def answer(question):
        if question in ("what 1", "what 2"):
            raise limpet.PermanentError("cannot")
        return costly(question.split()[1])

    answering = Answering(answer)
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    same = answering.evaluate(ROWS, tmp_path / "run", [exact_match()]).plan
    assert str(same).startswith("6 items × 1 trial: 4 kept, 2 failed before → 2 calls of workflow")
    other = limpet.plan(ROWS, answer, run=tmp_path / "run", version="2", on_change="redo")
    assert str(other).startswith(
        "6 items × 1 trial: 0 kept, 2 failed before, 4 from an earlier version, workflow changed ("
    )
    assert (other.workflow.new, other.workflow.retried, other.workflow.earlier) == (0, 2, 4)


def test_a_changed_workflow_asks_and_carries_the_plan(tmp_path):
    answering = Answering(lambda question: costly(question.split()[1]))
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    with pytest.raises(limpet.FunctionChangedError) as caught:
        answering.evaluate(ROWS, tmp_path / "run", [exact_match()], version="2")
    assert any("6 calls of workflow" in note for note in caught.value.__notes__)
    assert len(answering.calls) == 6
    kept = answering.evaluate(ROWS, tmp_path / "run", version="2", on_change="keep")
    assert (len(answering.calls), kept.plan.calls) == (6, 0)
    answering.evaluate(ROWS, tmp_path / "run", version="3", on_change="redo")
    assert len(answering.calls) == 12
    assert len(lines(tmp_path / "run" / "workflow_output.jsonl")) == 12


def test_the_same_output_again_keeps_its_scores(tmp_path):
    answering = Answering()
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    answering.evaluate(ROWS, tmp_path / "run", [exact_match()], version="2", on_change="redo")
    assert len(answering.calls) == 12
    assert len(lines(tmp_path / "run" / "exact_match_output.jsonl")) == 6


def test_a_failed_workflow_is_no_score_and_runs_again(tmp_path):
    broken = {"what 3"}

    def maybe(question):
        if question in broken:
            raise PermanentError("no three")
        return question.split()[1]

    answering = Answering(maybe)
    result = answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    (failed,) = result.failed
    assert (failed.id, failed.status, failed.output, failed.scores) == ("q3", "failed", None, {})
    numbers = result.summary["evaluators"]["exact_match"]
    assert (numbers["completed"], numbers["not_run"]) == (5, 1)
    assert result.summary["scores"]["exact_match"]["mean"] == 1.0
    assert result.summary["workflow"]["failed"] == {"permanent": 1}
    answer = exported(tmp_path / "run")[3]
    assert answer["generated_answer"] is None
    assert answer["_limpet"]["error"]["message"] == "no three"
    score = exported(tmp_path / "run", "exact_match")["eval_output_items"][3]
    assert score["score"] is None
    assert score["error"] == "not run: the workflow failed"
    left = answering.evaluate(ROWS, tmp_path / "run", [exact_match()], retry_failed=False)
    assert len(answering.calls) == 6
    assert left.items[3].status == "failed"
    broken.clear()
    again = answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    assert answering.calls[6:] == ["what 3"]
    assert again.failed == []


def test_a_failing_evaluator_is_a_failure_of_its_class_and_never_zero(tmp_path):
    def judge(output):
        if output == "2":
            raise ValueError("cannot judge two")
        return 1

    result = Answering().evaluate(ROWS, tmp_path / "run", [judge], retry=0)
    numbers = result.summary["evaluators"]["judge"]
    assert (result.summary["scores"]["judge"]["mean"], numbers["completed"]) == (1.0, 5)
    assert sum(numbers["failed"].values()) == 1
    assert result.items[2].score_errors["judge"]["message"] == "cannot judge two"
    assert result.failed == [result.items[2]]


def test_several_scores_labels_and_reasons_are_kept(tmp_path):
    def judge(output, expected, input, item, trace):  # noqa: A002 - the contract's word
        return {"long": len(output) > 1, "tone": Score(0.5, label="calm", explanation=item.id)}

    result = Answering().evaluate(ROWS, tmp_path / "run", {"judge": judge, "kind": lambda o: "ok"})
    assert result.items[1].scores == {
        "judge.long": Score(False),
        "judge.tone": Score(0.5, label="calm", explanation="q1"),
        "kind": Score(None, label="ok"),
    }
    scores = result.summary["scores"]
    assert list(scores) == ["judge.long", "judge.tone", "kind"]
    assert (scores["judge.long"]["mean"], scores["judge.tone"]["mean"]) == (0.0, 0.5)
    assert scores["kind"]["labels"] == {"ok": 6}


def test_an_items_evaluators_start_before_the_workflow_is_through(tmp_path):
    order = []

    async def answer(question):
        await asyncio.sleep(0.02)
        order.append(question)
        return question

    def judge(output):
        order.append(f"scored {output}")
        return 1

    limpet.evaluate(ROWS, answer, [judge], tmp_path / "run", pace=1)
    assert order.index("scored what 0") < order.index("what 5")


def test_a_slow_judge_does_not_hold_the_workflow(tmp_path):
    async def main():
        answered, release = [], asyncio.Event()

        async def answer(question):
            answered.append(question)
            if len(answered) == len(ROWS):
                release.set()
            return question

        async def judge(output):
            await release.wait()  # until every answer is there
            return 1

        return await limpet.aevaluate(ROWS, answer, [judge], tmp_path / "run", pace=2)

    assert asyncio.run(main()).summary["evaluators"]["judge"]["completed"] == 6


def test_copies_that_are_no_longer_asked_for_are_said_to_be_old(tmp_path, caplog):
    answering, copies = Answering(), tmp_path / "run" / "workflow_output.json"
    answering.evaluate(ROWS[:2], tmp_path / "run", files={"nat_files": True})
    before = copies.read_bytes()
    assert not caplog.messages
    answering.evaluate(ROWS, tmp_path / "run")
    assert copies.read_bytes() == before
    assert "workflow_output.json is from an earlier session" in caplog.text


def test_save_false_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = Answering().evaluate(ROWS, None, [exact_match()], save=False)
    assert result.summary["n"] == 6
    assert result.run is None
    assert list(tmp_path.iterdir()) == []


def test_a_trace_filter_applies_to_the_final_file_and_not_to_what_is_kept(tmp_path):
    trace = [{"payload": {"event_type": kind}} for kind in ("LLM_END", "TOOL_END", "LLM_START")]
    answering = Answering(lambda q: Output(q, trace=trace))
    files = {"nat_files": True, "written_events": ["LLM_END", "TOOL_END"]}
    answering.evaluate(ROWS[:1], tmp_path / "run", files=files)
    (live,) = lines(tmp_path / "run" / "workflow_output.jsonl")
    (final,) = read(tmp_path / "run" / "workflow_output.json")
    assert final["intermediate_steps"] == trace[:2]
    assert live["trace"] == trace


def test_secrets_are_never_written(tmp_path, monkeypatch):
    secret = 'sk-"planted"\\secret-1234567890'  # noqa: S105 - planted, to be looked for
    monkeypatch.setenv("MY_API_KEY", secret)

    def leak(question):
        if question == "what 1":
            raise PermanentError(f"401 for {secret}")
        return Output(f"my key is {secret}", trace=[{secret: [secret]}])

    def judge(output):
        return Score(1, explanation=f"because {secret}")

    result = Answering(leak).evaluate(ROWS, tmp_path / "run", [judge])
    assert "[redacted]" in result.items[0].output.value
    for file in (tmp_path / "run").rglob("*"):
        if file.is_file():
            assert b"planted" not in file.read_bytes(), file


def test_a_run_that_was_moved_goes_on_elsewhere(tmp_path, monkeypatch):
    answering = Answering()
    answering.evaluate(ROWS[:3], tmp_path / "run", [exact_match()])
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere" / "copy")
    shutil.rmtree(tmp_path / "run")
    monkeypatch.setenv("HOME", str(tmp_path / "another"))
    result = answering.evaluate(ROWS, tmp_path / "elsewhere" / "copy", [exact_match()])
    assert (len(answering.calls), len(result.items)) == (6, 6)


def test_a_record_that_cannot_be_encoded_harms_no_other(tmp_path):
    answering = Answering(lambda q: object() if q == "what 2" else q)
    result = answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    assert result.items[2].error["class"] == "encoding"
    assert result.summary["workflow"]["completed"] == 5


def test_a_directory_that_cannot_be_written_is_said_before_anything_is_spent(tmp_path):
    (tmp_path / "file").write_text("x")
    answering = Answering()
    with pytest.raises(limpet.errors.JournalError, match="this is a file, but a run is a"):
        answering.evaluate(ROWS, tmp_path / "file" / "run")
    assert answering.calls == []


def test_bad_rows_are_named_before_anything_is_spent(tmp_path):
    answering = Answering()
    with pytest.raises(limpet.errors.DatasetError, match="q0"):
        answering.evaluate([*ROWS, ROWS[0]], tmp_path / "run")
    assert answering.calls == []
    rows = limpet.Dataset([*ROWS, ROWS[0]], on_bad_row="skip", limit=3)
    result = answering.evaluate(rows, tmp_path / "run")
    assert len(result.items) == 3


def test_the_plan_is_data_and_spends_nothing(tmp_path):
    def answer(question):
        raise AssertionError("nobody asked")

    found = limpet.plan(ROWS, answer, [exact_match()], tmp_path / "run", trials=2)
    assert (found.items, found.trials, found.workflow.new, found.calls) == (6, 2, 12, 24)


def test_a_quota_stops_it_and_it_goes_on_later(tmp_path):
    spent = []

    def pay(question):
        if len(spent) == 3:
            raise limpet.errors.QuotaExhaustedError("nothing left")
        spent.append(question)
        return question

    answering = Answering(pay)
    stopped = answering.evaluate(ROWS, tmp_path / "run", [exact_match()], pace=1)
    assert isinstance(stopped.stop_reason, limpet.errors.QuotaExhaustedError)
    assert stopped.summary["workflow"]["not_run"] == 3
    assert stopped.summary["evaluators"]["exact_match"]["completed"] == 3
    assert read(tmp_path / "run" / "summary.json")["stop_reason"] == "nothing left"
    spent.clear()
    answering.evaluate(ROWS[:5], tmp_path / "run", [exact_match()], pace=1)
    assert spent == ["what 3", "what 4"]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"pace": "fast"}, TypeError, "pace='fast': must be \"auto\", a Pace, or a whole number"),
        ({"retry": -1}, ValueError, "retry=-1: must be a Retry, or a whole number, 0 or more"),
        ({"timeout": 0}, ValueError, "timeout=0: must be a finite number above 0"),
        ({"version": 2}, TypeError, "version=2: must be a string or None"),
        ({"secrets": "hunter22"}, TypeError, "secrets: must be a list of strings"),
        ({"secrets": ["x", ""]}, ValueError, "secrets[0]: must have at least 8 characters to be"),
        ({"secrets": ["MY_API_KEY"]}, ValueError, "secrets[0]: is the name of a variable, not its"),
        (
            {"depends_on": {"env": ["A=B"]}},
            ValueError,
            "depends_on: env: must be the name of a variable, like MODEL, without $ or =",
        ),
        ({"fail_fast": "no"}, TypeError, "fail_fast='no': must be True or False"),
        ({"watcher": 5}, TypeError, "watcher=5: must be a Watcher, or a function"),
        ({"redo": "workflow"}, TypeError, "redo='workflow': must be a list of steps"),
        ({"trials": 0}, ValueError, "trials=0"),
        ({"on_change": "never"}, ValueError, "on_change='never'"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_opened(tmp_path, options, error, said):
    with pytest.raises(error, match=re.escape(said)):
        Answering().evaluate(ROWS, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: limpet.Pace(0), 'concurrency=0: must be "auto", or a whole number, 1 or more'),
        (lambda: limpet.Pace(8, 4), "max_concurrency=4: must be at least concurrency, 8, not 4"),
        (lambda: limpet.Pace(pacer=3), "pacer=3: must be a Pacer or None"),
        (lambda: limpet.Pace(cost=3), "cost=3: must be a function"),
        (lambda: limpet.Retry(-1), "max_retries=-1: must be a whole number, 0 or more"),
        (lambda: limpet.Retry(backoff=2), "backoff=2: must be a Backoff or None"),
        (lambda: limpet.Redo("workflow"), "steps='workflow': must be a list of steps"),
        (lambda: limpet.Redo(items=[]), "items=[]: must be a list of ids"),
        (lambda: limpet.Run("x", "fast"), "durability='fast': must be one of \"sync\""),
        (lambda: limpet.Dataset([], limit=0), "limit=0: must be a whole number, 1 or more"),
        (lambda: limpet.Dataset([], id=3), "id=3: must be a string or None"),
    ],
)
def test_a_group_of_options_is_checked_when_it_is_made(made, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        made()


def test_the_documentation_of_evaluate_names_every_parameter():
    for name in inspect.signature(limpet.evaluate).parameters:
        assert f"        {name}: " in limpet.evaluate.__doc__


@pytest.mark.parametrize("name", ["workflow", "run", "summary", "events", "failures"])
def test_reserved_names_are_refused(tmp_path, name):
    with pytest.raises((ValueError, limpet.LimpetError), match=name):
        Answering().evaluate(ROWS, tmp_path / "run", {name: exact_match()})


def test_a_cut_off_session_says_what_may_have_been_paid_for(tmp_path, caplog):
    answering = Answering()
    answering.evaluate(ROWS[:2], tmp_path / "run")
    about = tmp_path / "run" / "run.json"
    known = read(about)
    del known["sessions"][-1]["ended"]
    about.write_text(json.dumps(known))
    with (tmp_path / "run" / "events.jsonl").open("a") as events:
        events.write('{"event":"started","key":"' + "0" * 32 + '","id":"q5"}\n')
    with caplog.at_level(logging.WARNING):
        answering.evaluate(ROWS, tmp_path / "run")
    assert "1 call was in flight" in caplog.text
    assert "q5" in caplog.text


def test_bare_outputs_are_wrapped_in_the_column_and_bare_in_the_final_file(tmp_path):
    answering = Answering(lambda q: [q, 1] if q != "what 1" else None)
    answering.evaluate(ROWS[:2], tmp_path / "run", files={"nat_files": True, "bare_outputs": True})
    assert read(tmp_path / "run" / "workflow_output.json") == [["what 0", 1], None]
    assert all("_limpet" in one for one in lines(tmp_path / "run" / "workflow_output.jsonl"))


def test_a_full_disk_pauses_the_run_and_loses_nothing(tmp_path, monkeypatch, caplog):
    import errno
    import os
    from pathlib import Path

    from limpet.journal import writer as full_disk

    answering, tries = Answering(), []
    column = tmp_path / "run" / "workflow_output.jsonl"
    real = os.writev

    def writev(fd, parts):
        if Path(f"/proc/self/fd/{fd}").readlink() == column and len(tries) < 3:
            tries.append(len(answering.calls))
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, parts)

    monkeypatch.setattr(os, "writev", writev)
    monkeypatch.setattr(full_disk, "RETRY_S", 0.05)
    result = answering.evaluate(ROWS, tmp_path / "run", [exact_match()], pace=2)
    assert result.summary["evaluators"]["exact_match"]["completed"] == 6
    assert len(answering.calls) == 6
    assert "No space left" in caplog.text


def test_a_disk_that_fails_stops_the_run_and_the_next_one_goes_on(tmp_path, monkeypatch):
    import errno
    import os
    from pathlib import Path

    answering = Answering()
    column = tmp_path / "run" / "workflow_output.jsonl"
    real = os.fdatasync

    def fdatasync(fd):
        if Path(f"/proc/self/fd/{fd}").readlink() == column:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    rows = [{"id": str(n), "question": f"what {n}"} for n in range(300)]
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    result = answering.evaluate(rows, tmp_path / "run", pace=2)
    assert isinstance(result.stop_reason, limpet.errors.JournalError)
    assert len(answering.calls) < 50
    monkeypatch.undo()
    assert answering.evaluate(rows, tmp_path / "run").summary["workflow"]["completed"] == 300


def test_evaluators_with_one_endpoint_share_a_pacer(tmp_path, monkeypatch):
    from limpet.evaluators import as_evaluator
    from limpet.pacing import registry

    made, real = [], registry.Pacer

    def make(endpoint, **options):
        made.append(endpoint)
        return real(endpoint, **options)

    monkeypatch.setattr(registry, "Pacer", make)
    judges = [as_evaluator(lambda o: 1, name=n, endpoint="judge") for n in ("a", "b")]
    result = Answering().evaluate(ROWS, tmp_path / "run", judges, pace="auto")
    assert sorted(made) == ["judge", "workflow"]
    assert result.summary["evaluators"]["b"]["completed"] == 6


def test_a_run_with_nothing_left_looks_nothing_up_and_still_knows_everything(tmp_path, monkeypatch):
    from limpet.run.executing import session as evaluation

    answering = Answering()
    first = answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "Lookup", lambda *_: pytest.fail("looked up"))
        again = answering.evaluate(ROWS, tmp_path / "run", [exact_match()])
    assert again.summary == first.summary
    assert [one.output.value for one in again.items] == [one.output.value for one in first.items]
    assert [one.scores for one in again.items] == [one.scores for one in first.items]


def test_a_run_that_cannot_be_recorded_as_complete_says_so(tmp_path, monkeypatch, caplog):
    from limpet.run.planning.planner import Planner

    def completion(*_):
        raise OSError("disk trouble")

    monkeypatch.setattr(Planner, "completion", completion)
    result = Answering().evaluate(ROWS, tmp_path / "run")
    assert result.stop_reason is None
    assert "cannot record that the run is complete: disk trouble" in caplog.text


@pytest.mark.parametrize("damage", ["cut", "deleted", "summary", "edited"])
def test_a_complete_run_that_was_damaged_is_looked_up_again(tmp_path, damage):
    answering, run = Answering(), tmp_path / "run"
    answering.evaluate(ROWS, run, [exact_match()])
    column = run / "workflow_output.jsonl"
    if damage == "cut":
        column.write_bytes(b"".join(column.read_bytes().splitlines(keepends=True)[:-1]))
    elif damage == "deleted":
        column.unlink()
    elif damage == "summary":
        (run / "summary.json").unlink()
    else:
        column.write_bytes(column.read_bytes().replace(b'"output":"3"', b'"output":"7"'))
        (run / "index" / "workflow_output.idx").unlink()
    result = answering.evaluate(ROWS, run, [exact_match()])
    assert len(answering.calls) == 6 + {"cut": 1, "deleted": 6, "summary": 0, "edited": 1}[damage]
    assert [one.output.value for one in result.items] == [str(n) for n in range(6)]
    assert (run / "summary.json").exists()


# ---- what a review found ------------------------------------------------------------------------


def test_failures_that_are_left_are_left_though_other_evaluators_run(tmp_path):
    asked = []

    def bad(output):
        asked.append(output)
        raise PermanentError("never")

    answering = Answering()
    answering.evaluate(ROWS[:2], tmp_path / "run", [bad])
    answering.evaluate(ROWS[:2], tmp_path / "run", [bad, exact_match()], retry_failed=False)
    assert len(asked) == 2


def test_two_evaluators_of_one_function_do_not_share_their_failures(tmp_path):
    asked = []

    def bad(output):
        asked.append(output)
        raise PermanentError("never")

    answering = Answering()
    answering.evaluate(ROWS[:1], tmp_path / "run", {"one": bad})
    result = answering.evaluate(ROWS[:1], tmp_path / "run", {"two": bad}, retry_failed=False)
    assert len(asked) == 2
    assert result.summary["evaluators"]["two"]["failed"] == {"evaluator": 1}


def test_a_bug_in_an_evaluator_is_called_one(tmp_path):
    def judge(output):
        return 1 / 0

    result = Answering().evaluate(ROWS[:1], tmp_path / "run", [judge], retry=0)
    assert result.summary["evaluators"]["judge"]["failed"] == {"evaluator": 1}


def test_another_input_column_is_another_question(tmp_path):
    def answer(item):
        return item.input

    rows = [{"id": "a", "x": "1", "y": "2"}]
    run = tmp_path / "run"
    assert (
        limpet.evaluate(limpet.Dataset(rows, input="x"), answer, run=run).items[0].output.value
        == "1"
    )
    assert (
        limpet.evaluate(limpet.Dataset(rows, input="y"), answer, run=run).items[0].output.value
        == "2"
    )


def test_the_users_hook_is_told_of_each_answer_on_disk(tmp_path):
    seen = []
    Answering().evaluate(ROWS, tmp_path / "run", watcher=lambda item: seen.append(item.error))
    assert seen == [None] * 6


def test_output_files_asked_for_later_are_written_without_a_call(tmp_path):
    trace = [{"payload": {"event_type": kind}} for kind in ("LLM_END", "TOOL_END")]
    answering = Answering(lambda q: Output(q, trace=trace))
    answering.evaluate(ROWS[:1], tmp_path / "run")
    answering.evaluate(
        ROWS[:1], tmp_path / "run", files={"nat_files": True, "written_events": ["LLM_END"]}
    )
    (final,) = read(tmp_path / "run" / "workflow_output.json")
    assert final["intermediate_steps"] == trace[:1]


def test_skipped_rows_are_in_the_summary(tmp_path):
    rows = [*ROWS, {"id": "bad", "question": None}]
    dataset = limpet.Dataset(rows, on_bad_row="skip")
    result = Answering().evaluate(dataset, tmp_path / "run")
    assert len(result.summary["bad_rows"]) == 1
    assert "bad_rows" in read(tmp_path / "run" / "summary.json")


@pytest.mark.parametrize("where", ["dataclass", "explanation", "slash", "late", "evaluator"])
def test_secrets_stay_out_wherever_they_come_from(tmp_path, monkeypatch, where):
    import dataclasses
    import os

    secret = "/planted+secret/0123456789" if where == "slash" else "sk-planted-0123456789"
    monkeypatch.delenv("LATE_TOKEN", raising=False)
    if where != "late":
        monkeypatch.setenv("MY_SECRET", secret)

    @dataclasses.dataclass
    class Answer:
        text: str

    class Bot:
        async def setup(self):
            if where == "late":
                os.environ["LATE_TOKEN"] = secret

        async def __call__(self, question):
            if where == "explanation":
                raise limpet.errors.QuotaExhaustedError(f"no more for {secret}")
            return Answer(secret) if where == "dataclass" else secret

    def judge(output):
        raise PermanentError(f"judge met {secret}")

    evaluators = [judge] if where == "evaluator" else []
    with suppress(limpet.errors.QuotaExhaustedError):
        limpet.evaluate([{"id": "a", "question": "q"}], Bot, evaluators, tmp_path / "run")
    monkeypatch.delenv("LATE_TOKEN", raising=False)
    for file in (tmp_path / "run").rglob("*"):
        if file.is_file():
            assert b"planted" not in file.read_bytes(), file


def test_a_plan_changes_nothing_and_tells_of_a_change_instead_of_raising(tmp_path):
    run = tmp_path / "run"

    def one(question):
        return costly(question)

    def two(question):
        return costly(question + "!")

    assert limpet.plan(ROWS, one, [exact_match()], run).calls == 12
    assert not run.exists()
    limpet.evaluate(ROWS[:3], one, [exact_match()], run)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    told = limpet.plan(ROWS, two, [exact_match()], run)
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before
    shown = [name.rpartition(".")[2] for name in told.workflow.changed]
    assert shown == ["one (no longer used)", "two (now used)"]
    assert (told.workflow.new, told.workflow.edited, told.workflow.calls) == (3, 0, 6)
    with pytest.raises(limpet.FunctionChangedError) as caught:
        limpet.evaluate(ROWS, two, [exact_match()], run)
    assert caught.value.plan == told


def test_more_trials_and_an_edited_row_are_told_apart_in_the_plan(tmp_path):
    answering, run = Answering(), tmp_path / "run"
    answering.evaluate(ROWS[:2], run)
    rows = [dict(ROWS[0]), {**ROWS[1], "question": "what 11"}]
    found = answering.evaluate(rows, run, trials=2).plan.workflow
    assert (found.kept, found.new, found.edited) == (1, 2, 1)


def test_a_cancelled_aevaluate_leaves_its_files_and_goes_on_later(tmp_path):
    answered = []

    async def main():
        at_the_fourth = asyncio.Event()

        async def answer(question):
            answered.append(question)
            if len(answered) == 4:
                at_the_fourth.set()
                await asyncio.sleep(1000)
            return question

        task = asyncio.ensure_future(
            limpet.aevaluate(ROWS, answer, [exact_match()], tmp_path / "run", pace=1)
        )
        await at_the_fourth.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    summary = read(tmp_path / "run" / "summary.json")
    assert summary["workflow"]["completed"] == 3
    assert len(exported(tmp_path / "run")) == 6


def test_an_interrupt_while_it_is_set_up_is_heard(tmp_path):
    import os
    import signal

    class Bot:
        async def setup(self):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.01)

        async def __call__(self, question):
            raise AssertionError("it was told to stop")

    result = cut_short(limpet.evaluate, ROWS, Bot, run=tmp_path / "run")
    assert isinstance(result.stop_reason, limpet.errors.InterruptedRunError)
    assert result.summary["workflow"]["not_run"] == 6


def test_an_answer_may_take_ten_minutes_unless_told_otherwise():
    from limpet.run.options import as_options

    assert as_options({}).executors["timeout"] == 600
    assert as_options({"timeout": 5}).executors["timeout"] == 5


def test_a_comment_in_the_workflow_costs_nothing_and_an_edit_of_its_helper_runs_again(
    tmp_path, monkeypatch
):
    import importlib
    import sys

    run, source = (
        tmp_path / "run",
        "def helper(x):\n    return x\n\ndef answer(x):\n    return helper(x)\n",
    )

    def evaluate(text):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "edited_flow.py").write_text(text)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            sys.modules.pop("edited_flow", None)
            importlib.invalidate_caches()
            return limpet.evaluate(ROWS, "edited_flow:answer", [exact_match()], run)

    evaluate(source)
    assert (
        evaluate('"""Doc."""\n# why\n' + source.replace("return x", "return x  # so")).plan.calls
        == 0
    )
    plan = evaluate(source.replace("return x", "return x * 2")).plan
    assert (plan.workflow.changed, plan.workflow.calls) == (("helper",), len(ROWS))
    sys.modules.pop("edited_flow", None)


def test_an_evaluators_own_mistake_is_tried_once_more_and_no_further(tmp_path):
    tried = []

    def judge(output):
        tried.append(output)
        return {}["missing"]

    result = limpet.evaluate(
        [{"id": "q1", "question": "a", "answer": "a"}], str.upper, [judge],
        run=tmp_path / "run", version="1",
    )  # fmt: skip
    assert tried == ["A", "A"]
    assert result.summary["evaluators"]["judge"]["failed"] == {"evaluator": 1}


def test_a_watcher_sees_each_item_when_it_is_on_disk_and_its_failure_harms_nothing(tmp_path):
    seen = {}

    def note(item):
        column = tmp_path / "run" / "workflow_output.jsonl"
        on_disk = item.status == "failed" or f'"id":"{item.id}"'.encode() in column.read_bytes()
        seen[item.id] = (item.status, item.output and item.output.value, on_disk)
        if item.id == "q0":
            raise RuntimeError("the onlooker fell over")

    def answer(question):
        if question == "2":
            raise limpet.PermanentError("no")
        return question * 2

    rows = [{"id": f"q{n}", "question": str(n), "answer": str(n) * 2} for n in range(3)]
    result = limpet.evaluate(
        rows, answer, [limpet.exact_match()], run=tmp_path / "run", watcher=note
    )
    assert seen == {
        "q0": ("completed", "00", True),
        "q1": ("completed", "11", True),
        "q2": ("failed", None, True),
    }
    assert result.summary["evaluators"]["exact_match"]["completed"] == 2


def test_usage_by_model_and_its_cost_stand_in_the_column_and_the_summary(tmp_path):
    counts = {"prompt_tokens": 1000, "completion_tokens": 500, "cached_tokens": 400}
    usage = limpet.Usage(1000, 500, cached_tokens=400, models={"big": counts})

    def answer(question):
        return limpet.Output(question, usage=usage)

    rows = [{"id": f"q{n}", "question": str(n), "answer": str(n)} for n in range(2)]
    prices = {"big": {"prompt": 2.0, "completion": 8.0, "cached": 0.5}}
    result = limpet.evaluate(rows, answer, run=tmp_path / "run", prices=prices)
    cost = (600 * 2.0 + 400 * 0.5 + 500 * 8.0) / 1e6
    summary = result.summary["workflow"]
    assert summary["usage"]["cost"] == pytest.approx(2 * cost)
    assert summary["models"]["big"]["cached_tokens"] == 800
    line = json.loads((tmp_path / "run/workflow_output.jsonl").read_bytes().splitlines()[0])
    assert line["_limpet"]["usage"]["cost"] == pytest.approx(cost)
    assert line["_limpet"]["models"]["big"] == counts


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ({"small": {"prompt": 1}}, None),  # nobody knows what the big one costs
        ({"small": {"prompt": 1}, "*": {"prompt": 3}}, 0.003),
        ({"big": {"completion": 1}}, 0.0),
    ],
)
def test_a_cost_is_told_only_where_every_price_is_known(tmp_path, prices, cost):
    usage = limpet.Usage(1000, 0, models={"big": {"prompt_tokens": 1000}})
    result = limpet.evaluate(
        [{"id": "q", "question": "a"}], lambda question: limpet.Output(question, usage=usage),
        run=tmp_path / "run", prices=prices, version="1",
    )  # fmt: skip
    assert result.summary["workflow"]["usage"].get("cost") == cost


@pytest.mark.parametrize("prices", [{"big": {"promt": 1}}, {"big": {"prompt": -1}}, {"big": 3}, 7])
def test_prices_that_make_no_sense_are_refused(tmp_path, prices):
    with pytest.raises((TypeError, ValueError), match="prices"):
        limpet.evaluate([], str.upper, run=tmp_path / "run", prices=prices)


def test_more_answers_than_anybody_can_plan_are_refused_at_once():
    rows = [{"question": "a"}, {"question": "b"}]
    with pytest.raises(limpet.LimpetError, match="trials=999,999,999: 2 items would have more"):
        limpet.plan(rows, lambda question: question, run="runs/never", trials=999_999_999)
