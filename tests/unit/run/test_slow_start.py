"""How many calls does a step cost that always fails, and how long does a slow one wait?

Each case runs in virtual time, with the guard that an evaluation uses.
"""

import asyncio
import random
import socket

import pytest
from cut_short import cut_short
from virtual_time import in_virtual_time

import limpet
from limpet.executors.retry import Backoff
from limpet.pacing.pacer import Pacer
from limpet.run.executing.guards import (
    FIRST_CALLS,
    FIRST_CALLS_S,
    FIRST_FAILURES,
    FailFast,
    Spent,
    mistakes_once,
)
from limpet.shapes import Cell, Failure, Outcome
from limpet.types import CellStatus

INPUTS = 1_000


class Trial:
    """Runs a step of `INPUTS` cells as an evaluation does: slowly at first, and guarded."""

    def __init__(self, work, concurrency=100, **options):
        self.calls = []
        self._work = work
        self._guard = FailFast({"workflow": INPUTS}, Spent())
        self.executor = limpet.AsyncExecutor(
            self._call,
            concurrency,
            exit_on_error=False,
            classify=mistakes_once(None),
            backoff=Backoff(rng=random.Random(7)),
            on_complete=self._completed,
            **{"timeout": 600} | options,
        )
        self.executor.start_slowly(FIRST_CALLS, FIRST_FAILURES, FIRST_CALLS_S)

    async def run(self):
        """Return how many calls were made."""
        await self.executor.execute(range(INPUTS))
        return len(self.calls)

    @property
    def is_stopped(self):
        return isinstance(self.executor.stop_reason, limpet.errors.FailFastError)

    def begun_by(self, seconds):
        return len({number for at, number in self.calls if at <= seconds})

    async def _call(self, number):
        self.calls.append((asyncio.get_running_loop().time(), number))
        tries = sum(other == number for _, other in self.calls)
        return await self._work(number, tries)

    def _completed(self, finished):
        cell = Cell("workflow", str(finished.index), 0, f"{finished.index:032x}")
        if finished.error is None:
            self.executor.full_speed()
            outcome = Outcome(cell)
        else:
            error = finished.error
            failure = Failure("transient", str(error), type(error).__name__)
            outcome = Outcome(cell, CellStatus.FAILED, failure=failure)
        if reason := self._guard.see(outcome):
            self.executor.stop(reason)


def raising(error, after=0.0):
    async def work(number, tries):
        await asyncio.sleep(after)
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "most"),
    [
        pytest.param(raising(RuntimeError("x")), 110, id="raises at once, and is retried"),
        pytest.param(raising(RuntimeError("x"), 1), 110, id="raises after 1 s"),
        pytest.param(raising(KeyError("x")), 25, id="a mistake, retried once"),
        pytest.param(raising(limpet.PermanentError("x")), 20, id="permanent"),
        # All were started after 10 s, before the first failed; then few are retried.
        pytest.param(raising(RuntimeError("x"), 20), 190, id="raises after 20 s"),
        pytest.param(raising(TimeoutError("x"), 60), 190, id="raises after 60 s"),
    ],
)
@pytest.mark.parametrize("concurrency", [16, 100])
@in_virtual_time
async def test_a_step_that_always_fails_costs_few_calls(work, most, concurrency):
    trial = Trial(work, concurrency)
    calls = await trial.run()
    assert trial.is_stopped
    assert calls <= most, calls


@pytest.mark.parametrize("error", [ConnectionRefusedError("x"), TimeoutError("x")])
@in_virtual_time
async def test_an_endpoint_that_goes_down_costs_few_calls(error):
    trial = Trial(raising(error), pacer=Pacer())
    calls = await trial.run()
    assert isinstance(trial.executor.stop_reason, limpet.errors.EndpointDownError)
    assert calls <= 80, calls  # in the ten minutes until it stops


@in_virtual_time
async def test_others_are_tried_where_the_first_never_pass():
    async def work(number, tries):
        await asyncio.sleep(1)
        if number < 30:
            raise ConnectionResetError("x")

    trial = Trial(work, pacer=Pacer())
    await trial.run()
    assert trial.executor.stop_reason is None
    assert trial.begun_by(1e9) == INPUTS


@in_virtual_time
async def test_failures_that_differ_are_all_tried_a_few_at_a_time():
    async def work(number, tries):
        raise RuntimeError("".join("abcdefghij"[int(digit)] for digit in str(number)))

    trial = Trial(work, max_retries=1)
    assert await trial.run() == 2 * INPUTS
    assert not trial.is_stopped


# ---- what works is not held back -----------------------------------------------------------------


def succeeding(seconds, fails=lambda number, tries: False):
    async def work(number, tries):
        if fails(number, tries):
            raise RuntimeError("x")
        await asyncio.sleep(seconds)

    return work


@pytest.mark.parametrize(
    ("work", "full_at"),
    [
        pytest.param(succeeding(1), 1, id="calls of 1 s"),
        pytest.param(succeeding(60), FIRST_CALLS_S, id="calls of 60 s"),
        pytest.param(succeeding(600), FIRST_CALLS_S, id="calls of 10 minutes"),
        pytest.param(succeeding(60, lambda number, _: number < 4), FIRST_CALLS_S, id="4 fail"),
        pytest.param(succeeding(1, lambda _, tries: tries == 1), 2, id="each fails once"),
        pytest.param(succeeding(1, lambda number, _: number % 2), 1, id="every second fails"),
        pytest.param(
            succeeding(60, lambda number, tries: number < 9 and tries == 1), 61, id="9 fail once"
        ),
    ],
)
@in_virtual_time
async def test_a_step_that_works_is_soon_at_full_speed(work, full_at):
    trial = Trial(work, enable_dynamic_concurrency=False, timeout=3_600)
    run = asyncio.ensure_future(trial.run())
    await asyncio.sleep(full_at + 0.5)
    assert len(trial.executor.in_flight()) >= 80
    trial.executor.stop(RuntimeError("seen enough"))
    await run
    assert not trial.is_stopped


@in_virtual_time
async def test_one_that_is_held_back_can_be_cancelled():
    trial = Trial(raising(RuntimeError("x")))
    run = asyncio.ensure_future(trial.run())
    await asyncio.sleep(1)
    tries = dict.fromkeys(range(FIRST_CALLS), 0)
    for _, number in trial.calls:
        tries[number] += 1
    (held, *_) = [number for number, count in tries.items() if count == 1]
    assert trial.executor.cancel(held)
    assert not trial.executor.cancel(held)
    await run
    assert trial.is_stopped


# ---- whole evaluations ---------------------------------------------------------------------------

AT_ONCE = limpet.Retry(backoff=Backoff(base_s=0))


def rows(many):
    return [{"id": f"q{number}", "question": f"q {number}"} for number in range(many)]


@pytest.mark.parametrize("pace", ["auto", 1, 64])
def test_a_workflow_that_always_raises_costs_few_calls(tmp_path, pace):
    calls = []

    def workflow(question):
        calls.append(question)
        raise RuntimeError("x")

    with pytest.raises(limpet.errors.FailFastError):
        limpet.evaluate(rows(500), workflow, run=tmp_path / "run", pace=pace, retry=AT_ONCE)
    assert 55 <= len(calls) <= 120


def test_an_evaluator_that_always_raises_costs_few_calls(tmp_path):
    calls = []

    def grade(output):
        calls.append(output)
        raise RuntimeError("x")

    result = cut_short(
        limpet.evaluate,
        rows(2_000),
        lambda question: "x",
        [grade],
        run=tmp_path / "run",
        retry=AT_ONCE,
    )
    assert isinstance(result.stop_reason, limpet.errors.FailFastError)
    assert 55 <= len(calls) <= 120
    assert result.summary["workflow"]["completed"] < 1_000  # the queue is bounded


def test_an_endpoint_that_is_down_costs_no_call(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    run = tmp_path / "run"
    with pytest.raises(limpet.errors.EndpointDownError):
        limpet.evaluate(rows(500), limpet.workflows.http(f"http://127.0.0.1:{port}/"), run=run)
    assert '"started"' not in (run / "events.jsonl").read_text(encoding="utf-8")
