"""A run that stops raises, when all that is finished is on disk: no script goes on with a part."""

import asyncio
import json
import os
import pickle
import signal

import pytest

import limpet
from limpet.run.executing.session import EvaluationSession

ROWS = [{"id": str(n), "question": str(n), "answer": str(n)} for n in range(6)]
SIGNALS = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: SystemExit,
    signal.SIGHUP: SystemExit,
}


def signalling(signum):
    async def answer(question):
        if question == "3":
            os.kill(os.getpid(), signum)
            await asyncio.sleep(0)
        return question

    return answer


async def out_of_quota(question):
    if question == "3":
        raise limpet.errors.QuotaExhaustedError("nothing left", hint="top it up")
    return question


def evaluate(workflow, run, **options):
    options |= {"pace": 1, "version": "1", "save": run is not None}
    return limpet.evaluate(ROWS, workflow, ["exact_match"], run, **options)


def aevaluate(workflow, run, **options):
    options |= {"pace": 1, "version": "1", "save": run is not None}
    return asyncio.run(limpet.aevaluate(ROWS, workflow, ["exact_match"], run, **options))


def map_(function, journal):
    return limpet.map(function, "012345", journal=journal, pace=1, version="1")


def amap(function, journal):
    return asyncio.run(limpet.amap(function, "012345", journal=journal, pace=1, version="1"))


def finished(result):
    """Return how many cells are done, of an evaluation or of a map."""
    if isinstance(result, limpet.types.MapResult):
        return len(result.outputs) - result.not_run
    return result.summary["workflow"]["completed"]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("run", [evaluate, aevaluate, map_, amap])
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_ends_the_script_too(tmp_path, run, signum, kept):
    with pytest.raises(SIGNALS[signum]) as caught:
        run(signalling(signum), tmp_path / "run" if kept else None)
    result = caught.value.result
    assert 3 <= finished(result) <= 4
    assert isinstance(result.stop_reason, limpet.errors.InterruptedRunError)
    if signum == signal.SIGINT:
        assert "to resume" in str(caught.value) or "to continue" in str(caught.value) or not kept
    else:
        assert caught.value.code == 128 + signum
    if kept:
        again = run(signalling(0), tmp_path / "run")
        assert finished(again) == 6
        assert again.stop_reason is None


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("run", [evaluate, aevaluate, map_, amap])
def test_any_other_stop_raises_why(tmp_path, run, kept):
    with pytest.raises(limpet.errors.QuotaExhaustedError, match="nothing left") as caught:
        run(out_of_quota, tmp_path / "run" if kept else None)
    result = caught.value.result
    assert finished(result) == 3
    assert result.stop_reason is caught.value
    assert caught.value.hint == "top it up"
    if not isinstance(result, limpet.types.MapResult):
        assert [item.output.value for item in result.items[:3]] == ["0", "1", "2"]
        assert result.items[3].output is None


def test_the_summary_is_written_before_it_raises(tmp_path):
    with pytest.raises(limpet.errors.QuotaExhaustedError):
        evaluate(out_of_quota, tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert (summary["workflow"]["completed"], summary["stop_reason"]) == (3, "nothing left")
    assert summary["evaluators"]["exact_match"]["completed"] == 3


def test_where_nothing_is_kept_it_does_not_tell_to_resume():
    with pytest.raises(KeyboardInterrupt, match="nothing is kept; what finished is in its `result"):
        evaluate(signalling(signal.SIGINT), None)


def test_a_goal_that_is_reached_is_no_error(tmp_path):
    rows = [{"question": str(n), "answer": str(n)} for n in range(400)]
    run, goals = tmp_path / "run", {"exact_match": 0.1}
    result = limpet.evaluate(rows, lambda question: question, ["exact_match"], run, stop_when=goals)
    assert result.stop_reason is None
    assert result.summary["stop_when"]["reached"]


@pytest.mark.parametrize("method", ["finish", "close"])
@pytest.mark.parametrize("again", [False, True])
def test_a_signal_when_all_is_done_is_not_swallowed(tmp_path, monkeypatch, method, again):
    if again:
        evaluate(signalling(0), tmp_path / "run")
    real = getattr(EvaluationSession, method)

    def interrupted(session, *arguments):
        with session.handling_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            return real(session, *arguments)

    monkeypatch.setattr(EvaluationSession, method, interrupted)
    with pytest.raises(SystemExit) as caught:
        evaluate(signalling(0), tmp_path / "run")
    assert finished(caught.value.result) == 6


@pytest.mark.parametrize("run", [evaluate, aevaluate, map_, amap])
def test_a_hangup_that_nohup_has_ignored_stays_ignored(tmp_path, run):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        result = run(signalling(signal.SIGHUP), tmp_path / "run")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (finished(result), result.stop_reason) == (6, None)


def test_an_error_with_a_result_can_be_sent_to_another_process(tmp_path):
    with pytest.raises(limpet.errors.QuotaExhaustedError) as caught:
        evaluate(out_of_quota, tmp_path / "run")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), str(error), error.hint, error.result) == (
        limpet.errors.QuotaExhaustedError, "nothing left", "top it up", None,
    )  # fmt: skip


def test_executors_return_what_they_have():
    outputs, details = limpet.AsyncExecutor(signalling(signal.SIGINT), concurrency=1).run("012345")
    assert len(outputs) == len(details) == 6


# ---- failed cells -------------------------------------------------------------------------------


def test_failed_cells_fail_a_script_that_asks_for_it(tmp_path):
    def answer(question):
        if question in "12":
            raise limpet.PermanentError("too hard")
        return question

    def picky(output):
        if output == "3":
            raise ValueError("not this one")
        return 1

    run = tmp_path / "my run"
    result = limpet.evaluate(ROWS, answer, [picky], run, retry=0)
    with pytest.raises(limpet.LimpetError) as caught:
        result.raise_for_failures()
    assert str(caught.value) == "3 cells failed (workflow: permanent 2; picky: evaluator 1)"
    assert caught.value.hint == f"see why: limpet show '{run}' --failed"
    assert caught.value.result is result
    with pytest.raises(limpet.LimpetError, match="3 cells failed"):
        limpet.load_run(run).raise_for_failures()


def test_without_failures_nothing_is_raised(tmp_path):
    evaluate(signalling(0), tmp_path / "run").raise_for_failures()
    map_(signalling(0), None).raise_for_failures()


def test_failed_inputs_of_a_map_do_the_same():
    result = limpet.map(lambda x: 1 / x, [1, 0, 2, 0], retry=0)
    with pytest.raises(limpet.LimpetError) as caught:
        result.raise_for_failures()
    assert str(caught.value) == (
        "2 of 4 inputs failed; the first, input 1: ZeroDivisionError: division by zero"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.result is result
