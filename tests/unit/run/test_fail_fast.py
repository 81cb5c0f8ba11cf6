"""A step whose first cells all fail alike stops the run before much is spent."""

import asyncio
import json
import random

import pytest
from cut_short import cut_short
from virtual_time import in_virtual_time

import limpet
from limpet.executors.retry import Backoff
from limpet.run.api import Arguments, evaluate_prepared
from limpet.run.executing.guards import Guards, Repetition, Spent
from limpet.shapes import Cell, Failure, Outcome
from limpet.types import CellStatus

AT_ONCE = Backoff(base_s=0)
MOST_CALLS = 2 * (16 + 5)
"""Two tries each, of what is begun with and of what took the place of the first five."""


def rows(many):
    return [{"id": f"q{n}", "question": f"q {n}", "answer": "x"} for n in range(many)]


def evaluated(tmp_path, workflow, many=200, evaluators=(), **options):
    run = tmp_path / "run"
    return limpet.evaluate(rows(many), workflow, evaluators, run=run, version="1", **options)


def failed(tmp_path):
    lines = (tmp_path / "run" / "failures.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def events(tmp_path, name):
    lines = (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [one for one in map(json.loads, lines) if one.get("event") == name]


# ---- it stops ------------------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize("concurrency", ["auto", 1, 64])
@pytest.mark.parametrize("in_threads", [True, False])
def test_a_workflow_that_always_slips_costs_little(tmp_path, concurrency, in_threads):
    called = []

    def slip(question):
        called.append(question)
        return {"error": "no such model"}["choices"]

    async def slip_async(question):
        await asyncio.sleep(0)
        return slip(question)

    workflow = slip if in_threads else slip_async
    result = cut_short(evaluated, tmp_path, workflow, 2_000, pace=concurrency)
    assert 10 <= len(called) <= MOST_CALLS
    reason = result.stop_reason
    assert isinstance(reason, limpet.errors.FailFastError)
    assert str(reason).startswith(
        "the workflow failed 5 times for the same reason: KeyError: 'choices' ("
    )
    assert reason.traceback.endswith(
        '    return {"error": "no such model"}["choices"]\nKeyError: \'choices\''
    )
    assert (reason.step, reason.id) == ("workflow", failed(tmp_path)[0]["id"])
    assert f"({len(called)} calls so far)" in str(reason)
    assert 5 <= len(failed(tmp_path)) <= 21
    (told,) = events(tmp_path, "stopping")
    assert told["reason"] == str(reason)


def test_the_traceback_is_logged_when_it_stops(tmp_path, caplog):
    cut_short(evaluated, tmp_path, lambda question: {}["choices"])
    (said,) = [one.message for one in caplog.records if one.levelname == "ERROR"]
    assert said.startswith("the first failure, for q")
    assert said.endswith("KeyError: 'choices'")


def test_messages_may_differ_by_their_numbers_and_quoted_parts(tmp_path):
    def workflow(question):
        raise limpet.PermanentError(f"no answer to {question!r} after {len(question)} tries")

    with pytest.raises(limpet.errors.FailFastError):
        evaluated(tmp_path, workflow)


def test_two_mistakes_in_turns_stop_it_too_when_nothing_is_done(tmp_path):
    def workflow(question):
        raise (KeyError if int(question.split()[1]) % 2 else TypeError)("x")

    with pytest.raises(limpet.errors.FailFastError):
        evaluated(tmp_path, workflow)


def test_an_output_that_cannot_be_stored_stops_it_too(tmp_path):
    called = []

    class Unreadable(dict):
        def items(self):
            raise ValueError("cannot be read")

    async def workflow(question):
        called.append(question)
        return Unreadable(a=1)

    with pytest.raises(limpet.errors.FailFastError):
        evaluated(tmp_path, workflow, 2_000, pace=500)
    assert len(called) <= 21


def test_a_broken_evaluator_stops_the_run_and_the_answers_stay(tmp_path):
    asked, broken = [], True

    def judge(output):
        return {}["missing"] if broken else 1.0

    async def workflow(question):
        asked.append(question)
        await asyncio.sleep(0)
        return limpet.Output(question, usage=limpet.Usage(10, 1))

    options = {"evaluators": [limpet.evaluators.as_evaluator(judge, version="1")]}
    result = cut_short(evaluated, tmp_path, workflow, 150, pace=16, **options)
    reason = result.stop_reason
    assert isinstance(reason, limpet.errors.FailFastError)
    assert str(reason).startswith(
        "the evaluator judge failed 5 times for the same reason: KeyError"
    )
    assert "tokens" in str(reason)
    answered = result.summary["workflow"]["completed"]
    assert 5 <= answered == len(asked) < 400
    broken = False
    again = evaluated(tmp_path, workflow, 400, **options)
    assert again.stop_reason is None
    assert len(asked) == 400  # none of them twice
    scores = again.summary["evaluators"]["judge"]
    assert (scores["completed"], scores["failed"], scores["not_run"]) == (400, {}, 0)
    score = again.summary["scores"]["judge"]
    assert (score["mean"], score["interval"]["n"]) == (1.0, 400)


def test_what_is_in_flight_may_end_and_is_kept(tmp_path):
    others = asyncio.Event()

    async def workflow(question):
        if int(question.split()[1]) < 5:
            raise limpet.PermanentError("no")
        await others.wait()
        return "done"

    class Watcher(limpet.types.Watcher):
        def stopping(self, reason):
            others.set()

    asked = Arguments(
        rows(200),
        workflow,
        run=tmp_path / "run",
        options={"version": "1", "pace": 10, "watcher": Watcher()},
        stop_grace_s=60,
    )
    result = evaluate_prepared(asked)
    assert isinstance(result.stop_reason, limpet.errors.FailFastError)
    assert result.summary["workflow"]["completed"] >= 5


def test_mended_and_run_again_it_goes_on_to_the_end(tmp_path):
    broken = True

    def workflow(question):
        return {}["choices"] if broken else "x"

    with pytest.raises(limpet.errors.FailFastError):
        evaluated(tmp_path, workflow)
    broken = False
    result = evaluated(tmp_path, workflow)
    assert result.stop_reason is None
    assert result.summary["workflow"]["completed"] == 200


# ---- it does not ---------------------------------------------------------------------------------


def test_turned_off_it_goes_on_to_the_end(tmp_path):
    result = evaluated(
        tmp_path,
        lambda question: {}["choices"],
        60,
        fail_fast=False,
        retry=limpet.Retry(backoff=AT_ONCE),
    )
    assert result.stop_reason is None
    assert result.summary["workflow"]["failed"] == {"mistake": 60}


def test_one_that_is_through_is_enough_to_go_on(tmp_path):
    def workflow(question):
        if question == "q 0":
            return "x"
        raise limpet.PermanentError("no")

    result = evaluated(tmp_path, workflow, 100, pace=1)
    assert result.stop_reason is None
    assert result.summary["workflow"]["failed"] == {"permanent": 99}


@pytest.mark.parametrize("many", [4, 5])
def test_where_nothing_is_left_nothing_is_stopped(tmp_path, many):
    result = evaluated(
        tmp_path, lambda question: {}["choices"], many, retry=limpet.Retry(backoff=AT_ONCE)
    )
    assert result.stop_reason is None
    assert result.summary["workflow"]["failed"] == {"mistake": many}


def test_failures_that_are_not_alike_do_not_stop_it(tmp_path):
    def workflow(question):
        raise limpet.PermanentError("abcdefghij"[int(question.split()[1])])

    result = evaluated(tmp_path, workflow, 10)
    assert result.stop_reason is None
    assert result.summary["workflow"]["failed"] == {"permanent": 10}


def test_a_run_with_results_on_disk_tries_all_that_failed_before(tmp_path):
    called = []

    def workflow(question):
        called.append(question)
        if int(question.split()[1]) >= 3:
            raise limpet.PermanentError("too hard")
        return "x"

    first = evaluated(tmp_path, workflow, 30, pace=1)
    assert first.stop_reason is None
    called.clear()
    again = evaluated(tmp_path, workflow, 30)
    assert again.stop_reason is None
    assert len(called) == 27


# ---- later on ------------------------------------------------------------------------------------


def test_fifty_alike_in_a_row_are_said_once_for_each_row(tmp_path, caplog):
    def workflow(question):
        number = int(question.split()[1])
        if number in (0, 120):
            return "x"
        raise limpet.PermanentError(f"no answer to {number}")

    evaluated(tmp_path, workflow, 240, pace=1)
    said = [one.message for one in caplog.records if "in a row" in one.message]
    assert len(said) == 2
    assert (
        said[0]
        == "workflow: 50 cells in a row failed the same way: PermanentError: no answer to 50"
    )
    told = events(tmp_path, "repeating")
    assert [(one["step"], one["failures"]) for one in told] == [("workflow", 50)] * 2


def test_rows_of_two_steps_and_of_two_kinds_are_told_apart():
    class Journal:
        told = 0

        def log_event(self, *_, **__):
            self.told += 1

    journal = Journal()
    guard = Repetition(journal)
    for number in range(98):
        cell = Cell("workflow" if number % 2 else "judge", "q", 0, "0" * 32)
        guard.see(Outcome(cell, CellStatus.FAILED, failure=Failure("permanent", "no", "E")))
    cell = Cell("workflow", "q", 0, "0" * 32)
    guard.see(Outcome(cell, CellStatus.FAILED, failure=Failure("timeout", "no", "E")))
    assert journal.told == 0


# ---- how many are begun with ---------------------------------------------------------------------


@in_virtual_time
async def test_a_step_begins_with_few_until_one_is_through_or_time_has_passed():
    begun = []

    async def work(one):
        begun.append((asyncio.get_running_loop().time(), one))
        await asyncio.sleep(1_800)

    executor = limpet.AsyncExecutor(work, concurrency=100, timeout=3_600, exit_on_error=False)
    executor.start_slowly(16, 5, 10.0)
    await executor.execute(range(100))
    assert [at for at, _ in begun] == [0.0] * 16 + [10.0] * 84


@in_virtual_time
async def test_the_first_that_is_through_ends_the_beginning():
    begun = []

    async def work(one):
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1 if one == 3 else 5)

    executor = limpet.AsyncExecutor(
        work, concurrency=100, exit_on_error=False, on_complete=lambda _: executor.full_speed()
    )
    executor.start_slowly(16, 5, 10.0)
    await executor.execute(range(100))
    assert begun == [0.0] * 16 + [1.0] * 84


@in_virtual_time
async def test_what_waits_to_be_tried_again_is_under_way_too():
    begun = set()

    async def work(one):
        begun.add((one, asyncio.get_running_loop().time() < 10))
        raise limpet.TransientError

    class Longest(random.Random):
        def uniform(self, _, longest):
            return longest

    wait = Backoff(base_s=1_000, cap_s=1_000, rng=Longest())
    executor = limpet.AsyncExecutor(
        work, concurrency=100, exit_on_error=False, max_retries=1, backoff=wait
    )
    executor.start_slowly(16, 5, 10.0)
    await executor.execute(range(100))
    assert len({one for one, early in begun if early}) == 16


@in_virtual_time
async def test_the_time_of_a_beginning_runs_from_its_first_input():
    begun = []

    async def inputs():
        await asyncio.sleep(60)
        for one in range(100):
            yield one

    async def work(one):
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(100)

    executor = limpet.AsyncExecutor(work, concurrency=100, timeout=600, exit_on_error=False)
    executor.start_slowly(16, 5, 10.0)
    await executor.execute(inputs())
    assert begun == [60.0] * 16 + [70.0] * 84


@pytest.mark.parametrize(("fail_fast", "many"), [(True, 16), (False, 32)])
def test_an_evaluation_begins_so_unless_fail_fast_is_off(tmp_path, fail_fast, many):
    begun, seen, first_is_through = 0, None, asyncio.Event()

    async def workflow(question):
        nonlocal begun, seen
        begun += 1
        if question != "q 0":
            await first_is_through.wait()
            return "x"
        for _ in range(1_000):
            await asyncio.sleep(0)
        seen = begun
        first_is_through.set()
        return "x"

    result = evaluated(tmp_path, workflow, 40, pace=32, fail_fast=fail_fast)
    assert result.summary["workflow"]["completed"] == 40
    assert seen == many


def test_any_guard_sees_what_each_outcome_used_and_may_say_why_to_stop():
    class Budget:
        left = 1.0

        def see(self, outcome):
            self.left -= (outcome.facts or {}).get("usage", {}).get("cost", 0)
            return (
                limpet.errors.FailFastError(f"over by {-self.left:.1f}") if self.left < 0 else None
            )

    stopped = []
    guards = Guards([Budget()], spent := Spent(), stopped.append)
    for n in range(3):
        guards.see(Outcome(Cell("judge", str(n), 0, "0" * 32), facts={"usage": {"cost": 0.4}}))
    assert [str(one) for one in stopped] == ["over by 0.2"]
    assert str(spent) == "0 calls, $1.20"
