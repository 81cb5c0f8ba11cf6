"""Calls far beyond their step's usual time, and steps that do not get on, in virtual time."""

import asyncio
import json
import os
import signal
import threading

import pytest

import limpet
from limpet.run.budget import read_ledger
from limpet.types import Watcher
from limpet.usage import add_receipt

pytestmark = pytest.mark.usefixtures("virtual_loops")


class HostileError(Exception):
    @property
    def __class__(self):
        raise ValueError("no")

    def __str__(self):
        raise RuntimeError("no")


class Seen(Watcher):
    def __init__(self):
        self.stalls, self.reasons = [], []

    def stalled(self, cell, seconds):
        self.stalls.append((cell.step, cell.id, round(seconds)))

    def waits(self, step, words):
        self.reasons.append((step, words))


def rows(many):
    return [{"id": f"q{n}", "question": str(n)} for n in range(many)]


def slow(calls, *, usual=1.0, slow_s=500.0, again_s=1.0, which="29"):
    """Return a function whose call for one item is slow, but not its second call."""

    async def answer(question):
        calls.append(question)
        is_slow = question == which
        first = calls.count(question) == 1
        await asyncio.sleep((slow_s if first else again_s) if is_slow else usual)
        add_receipt({"total_tokens": 10, "prompt_tokens": 4, "completion_tokens": 6})
        return f"{question} {'first' if first else 'again'}"

    return answer


def run(tmp_path, answer, many=30, **options):
    seen = Seen()
    result = limpet.evaluate(
        rows(many), answer, run=tmp_path / "run", watcher=seen, **{"pace": 10, **options}
    )
    return result, seen


def events(tmp_path, kind):
    lines = (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


@pytest.mark.parametrize(("usual", "limit"), [(1.0, 30), (12.0, 48)])
def test_a_call_older_than_30_s_and_4_times_the_p99_is_named_once(tmp_path, usual, limit):
    calls = []
    _, seen = run(tmp_path, slow(calls, usual=usual))
    ((step, id_, seconds),) = seen.stalls
    assert (step, id_) == ("workflow", "q29")
    assert limit < seconds <= limit + 2
    (event,) = events(tmp_path, "stalled")
    assert (event["id"], event["attempt"]) == ("q29", 1)
    assert calls.count("29") == 1  # by default, it only waits


def test_without_a_completed_call_none_is_named_unless_the_user_says_when(tmp_path):
    calls = []
    _, seen = run(tmp_path, slow(calls, which="0", slow_s=50), many=1)
    assert seen.stalls == []
    result, seen = run(tmp_path, slow(calls, which="0", slow_s=50), 1, stall={"after": 20})
    assert seen.stalls == []  # kept
    result, seen = run(tmp_path / "2", slow([], which="0", slow_s=50), 1, stall={"after": "20s"})
    assert seen.stalls == [("workflow", "q0", 21)]
    assert result.items[0].output.value == "0 first"


def test_time_that_waits_for_the_pacer_is_not_the_calls_own(tmp_path):
    async def answer(question):
        async with limpet.pacing.endpoint("one"):
            await asyncio.sleep(20)
        return question

    _, seen = run(tmp_path, answer, many=10, pace=1, stall={"after": 25})
    assert seen.stalls == []


def test_a_call_is_named_again_when_it_is_tried_again(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        await asyncio.sleep(100)
        if len(calls) == 1:
            raise ConnectionError("no")
        return question

    _, seen = run(tmp_path, answer, many=1, stall={"after": 60}, timeout=300)
    assert [stall[:2] for stall in seen.stalls] == [("workflow", "q0")] * 2


def test_a_watcher_that_fails_is_told_of_the_next_call_all_the_same(tmp_path):
    class Failing(Seen):
        def stalled(self, cell, seconds):
            super().stalled(cell, seconds)
            raise SystemExit

    async def answer(question):
        await asyncio.sleep(100 * (1 + int(question)))
        return question

    seen = Failing()
    limpet.evaluate(
        rows(2),
        answer,
        run=tmp_path / "run",
        watcher=seen,
        stall={"after": 60},
        timeout=300,
        pace=1,
    )
    assert [id_ for _, id_, _ in seen.stalls] == ["q0", "q1"]


def test_a_time_below_a_second_is_noticed_within_a_second(tmp_path):
    calls = []
    result, _ = run(tmp_path, slow(calls, which="0"), 1, stall={"after": "200ms", "do": "retry"})
    assert result.items[0].output.value == "0 again"
    assert result.items[0].seconds <= 3


def test_a_timeout_that_is_shorter_comes_first(tmp_path):
    calls = []
    result, seen = run(
        tmp_path, slow(calls, which="0"), 1, stall={"after": 60, "do": "retry"}, timeout=30
    )
    assert seen.stalls == []
    assert (result.items[0].attempts, len(calls)) == (2, 2)


def test_the_second_call_answers_first_and_the_cost_of_both_counts(tmp_path):
    calls = []
    result, seen = run(tmp_path, slow(calls), stall={"after": "1m", "do": "retry"})
    item = next(item for item in result.items if item.id == "q29")
    assert item.output.value == "29 again"
    assert calls.count("29") == 2
    assert item.status == "completed"
    assert item.attempts == 1
    assert 61 <= item.seconds <= 64
    # The first was cancelled before it reported anything.
    assert item.usage.total_tokens == 10
    assert [stall[:2] for stall in seen.stalls] == [("workflow", "q29")]


def test_what_the_cancelled_call_reported_is_counted(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        number = calls.count(question)
        add_receipt({"total_tokens": 100 * number, "prompt_tokens": 100 * number})
        await asyncio.sleep(1000 if number == 1 else 5)
        return limpet.Output(str(number), usage=limpet.Usage(total_tokens=100 * number))

    result, _ = run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"}, timeout=5000)
    assert result.items[0].output.value == "2"
    assert result.items[0].usage.total_tokens == 300


def test_a_cancelled_call_counts_in_a_budget_as_what_was_reserved(tmp_path):
    async def answer(question):
        calls.append(question)
        await asyncio.sleep(1000 if len(calls) == 6 else 1)
        return limpet.Output(question, usage=limpet.Usage(total_tokens=100))

    calls = []
    options = {"stall": {"after": 60, "do": "retry"}, "timeout": 1000}
    run(tmp_path, answer, many=6, budget={"tokens": "5k"}, **options)
    assert calls == ["0", "1", "2", "3", "4", "5", "5"]
    spent, _, _ = read_ledger(tmp_path / "run" / "spent.json")
    # A reservation is twice the largest so far.
    assert (spent["tokens"], spent["calls"]) == (6 * 100 + 200, 7)


def test_the_first_call_may_answer_after_all(tmp_path):
    calls = []
    result, _ = run(
        tmp_path, slow(calls, slow_s=70, again_s=100), stall={"after": 60, "do": "retry"}
    )
    item = next(item for item in result.items if item.id == "q29")
    assert (item.output.value, calls.count("29")) == ("29 first", 2)
    assert item.usage.total_tokens == 10


def test_a_second_call_that_fails_leaves_the_first(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        if calls.count(question) == 1:
            await asyncio.sleep(100)
            return "first"
        raise ConnectionError("no")

    result, _ = run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"})
    assert result.items[0].output.value == "first"
    assert result.items[0].attempts == 1


def test_a_second_call_goes_on_if_the_first_fails(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        if len(calls) == 1:
            await asyncio.sleep(70)
            raise ConnectionError("reset")
        await asyncio.sleep(50)
        return "second"

    result, _ = run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"}, retry=0)
    assert result.items[0].output.value == "second"
    assert len(calls) == 2


def test_of_two_answers_at_once_one_counts_and_both_are_paid(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        number = len(calls)
        now = asyncio.get_running_loop().time()
        at_once.append(now + 100 if number == 1 else at_once[0])
        await asyncio.sleep(at_once[-1] - now)
        add_receipt({"total_tokens": 10 * number, "prompt_tokens": 10 * number})
        return limpet.Output(str(number), usage=limpet.Usage(total_tokens=10 * number))

    at_once = []
    result, _ = run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"}, timeout=500)
    assert result.items[0].output.value in ("1", "2")
    assert result.items[0].usage.total_tokens == 30


def test_what_a_call_returns_because_it_is_cancelled_is_no_answer(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        if len(calls) == 1:
            try:
                await asyncio.sleep(500)
            except asyncio.CancelledError:
                return "nothing"
        return "an answer"

    result, _ = run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"}, timeout=500)
    assert result.items[0].output.value == "an answer"


def test_a_call_in_a_thread_cannot_be_cancelled_and_holds_up_nothing(tmp_path):
    calls, go = [], threading.Event()

    def answer(question):
        calls.append(question)
        if len(calls) == 1:
            go.wait()
        return str(len(calls))

    try:  # virtual time passes while a thread works: a timeout that is never reached
        result, _ = run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"}, timeout=1e9)
    finally:
        go.set()
    assert result.items[0].output.value == "2"


@pytest.mark.parametrize("error", [SystemExit, HostileError, asyncio.CancelledError])
def test_two_calls_may_raise_anything(tmp_path, error):
    async def answer(question):
        await asyncio.sleep(70 if question == "0" else 1)
        raise error

    result, _ = run(
        tmp_path, answer, 2, stall={"after": 60, "do": "retry"}, retry=0, fail_fast=False
    )
    assert [item.status for item in result.items] == ["failed", "failed"]


def test_an_interrupted_run_ends_both_calls(tmp_path):
    calls, ended = [], []

    async def answer(question):
        calls.append(question)
        try:
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(10_000)
        finally:
            ended.append(question)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"}, timeout=20_000)
    assert ended == ["0", "0"]


def test_if_both_fail_the_cell_is_retried_as_ever(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        if len(calls) < 3:
            await asyncio.sleep(100)
            raise ConnectionError("no")
        return "third"

    result, _ = run(tmp_path, answer, many=1, stall={"after": 60, "do": "retry"})
    assert result.items[0].output.value == "third"
    assert result.items[0].attempts == 2


def test_a_timeout_cancels_both(tmp_path):
    ended = []

    async def answer(question):
        try:
            await asyncio.sleep(10_000)
        finally:
            ended.append(question)

    result, _ = run(
        tmp_path, answer, many=1, stall={"after": 60, "do": "retry"}, timeout=100, retry=0
    )
    assert result.items[0].error["class"] == "timeout"
    assert ended == ["0", "0"]


def test_the_second_call_waits_for_its_permit(tmp_path):
    flying = most = 0

    async def answer(question):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        try:
            await asyncio.sleep(70 if question == "0" else 100)
        finally:
            flying -= 1
        return question

    run(tmp_path, answer, many=6, pace=2, stall={"after": 60, "do": "retry"})
    assert most == 2


def test_if_all_calls_of_a_pace_hang_each_is_given_up_once_and_asked_again(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        if calls.count(question) == 1:
            await asyncio.get_running_loop().create_future()
        return question

    result, seen = run(tmp_path, answer, many=6, pace=2, stall={"after": 60, "do": "retry"})
    assert result.summary["workflow"]["completed"] == 6
    assert sorted(calls) == sorted([*"012345"] * 2)
    assert [seconds for *_, seconds in seen.stalls] == [61] * 6


def test_fail_ends_the_call_and_the_run_goes_on(tmp_path):
    calls = []
    result, _ = run(tmp_path, slow(calls), stall={"after": 90, "do": "fail"})
    item = next(item for item in result.items if item.id == "q29")
    assert calls.count("29") == 1
    assert item.error["class"] == "timeout"
    assert item.error["message"].startswith("item 'q29': no answer within 9")
    assert sum(item.status == "completed" for item in result.items) == 29


@pytest.mark.parametrize(
    ("stall", "error", "words"),
    [
        ("retry", TypeError, "must be like"),
        ({"do": "hedge"}, ValueError, "must be one of wait, retry, fail"),
        ({"afer": 3}, TypeError, "must be like {'after': '2m', 'do': 'retry'}"),
        ({"after": 0}, ValueError, "must be a finite number above 0"),
        ({"after": "2 days"}, TypeError, "after"),
    ],
)
def test_an_option_that_is_wrong_is_refused_before_anything_is_called(
    tmp_path, stall, error, words
):
    calls = []
    with pytest.raises(error, match=words):
        run(tmp_path, slow(calls), stall=stall)
    assert calls == []


# ---- a step that does not get on ----------------------------------------------------------------


def test_a_step_whose_calls_all_hang_says_since_when(tmp_path):
    async def answer(question):
        await asyncio.sleep(300 if int(question) >= 20 else 1)
        return question

    _, seen = run(tmp_path, answer)
    step, first = seen.reasons[0]
    assert step == "workflow"
    assert first.startswith("calls in flight do not end: 10, the oldest since ")
    said = [event["words"] for event in events(tmp_path, "no_progress")]
    assert [words.partition(":")[0] for words in said if words] == ["calls in flight do not end"]


def test_a_step_whose_calls_usually_take_minutes_says_nothing(tmp_path):
    async def answer(question):
        await asyncio.sleep(200 if int(question) < 10 else 220)
        return question

    _, seen = run(tmp_path, answer)
    # Of the first calls it is not known yet what is usual.
    assert len([one for one in events(tmp_path, "no_progress") if "in flight" in one["words"]]) == 1


def test_a_step_that_the_provider_tells_to_wait_says_until_when(tmp_path):
    calls = []

    async def answer(question):
        calls.append(question)
        if len(calls) == 15:
            raise limpet.RateLimitError("slow down", retry_after=200)
        await asyncio.sleep(1)
        return question

    _, seen = run(tmp_path, answer, pace="auto")
    assert seen.reasons[0][1].startswith("paced: waiting as the provider requested")
    assert ", until " in seen.reasons[0][1]


def test_nothing_is_said_of_a_step_without_work(tmp_path):
    async def answer(question):
        await asyncio.sleep(150)
        return question

    seen = Seen()

    async def right(output):
        return True

    limpet.evaluate(rows(1), answer, [right], run=tmp_path / "run", watcher=seen)
    assert {step for step, _ in seen.reasons} == {"workflow"}
