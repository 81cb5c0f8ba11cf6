"""Whatever the calls do, each input ends as its own script says, within the bounds."""

import asyncio
from collections import Counter

import virtual_time
from hypothesis import given
from hypothesis import strategies as st

from limpet import AsyncExecutor, PermanentError, RateLimitError
from limpet.executors import ExecutionStatus

MAX_RETRIES, MAX_TIMEOUTS, TIMEOUT_S = 3, 2, 10

# What each attempt of one input does, in turn; when the script has run out, it succeeds.
step = st.one_of(
    st.tuples(st.just("fail"), st.sampled_from([0, 1, 3])),
    st.tuples(st.just("refuse"), st.sampled_from([0, 0.5, 30])),
    st.tuples(st.just("hang"), st.just(0)),
    st.tuples(st.just("ignore"), st.just(0)),
    st.tuples(st.just("give up"), st.just(1)),
    st.tuples(st.just("succeed"), st.sampled_from([0, 0.1, 2])),
)
scripts = st.lists(st.lists(step, max_size=8), max_size=25)


def expected(script):
    """Play one script by the rules: the status it ends in, and the attempts it takes."""
    retries = timeouts = 0
    for attempt, (what, _) in enumerate([*script, ("succeed", 0)], start=1):
        if what == "succeed":
            done = ExecutionStatus.COMPLETED_WITH_RETRIES if attempt > 1 else None
            return done or ExecutionStatus.COMPLETED, attempt
        retries += what in ("fail", "refuse")
        timeouts += what in ("hang", "ignore")
        if what == "give up" or retries > MAX_RETRIES or timeouts > MAX_TIMEOUTS:
            return ExecutionStatus.FAILED, attempt
    raise AssertionError("unreachable")


async def play(what, seconds, release):
    if what in ("hang", "ignore"):
        try:
            await release.wait()
        except asyncio.CancelledError:
            if what == "hang":
                raise
            await release.wait()
    await asyncio.sleep(seconds if what != "refuse" else 0)
    match what:
        case "fail":
            raise ValueError(what)
        case "refuse":
            raise RateLimitError(retry_after=seconds)
        case "give up":
            raise PermanentError(what)


@given(scripts, st.integers(1, 6), st.booleans(), st.booleans())
def test_each_input_ends_as_its_script_says(scripts, concurrency, dynamic, streamed):
    attempts, running, most, taken, finished = Counter(), 0, 0, 0, 0

    async def main():
        release = asyncio.Event()

        async def fn(index):
            nonlocal running, most
            script = scripts[index]
            attempts[index] += 1
            turn = attempts[index] - 1
            running += 1
            most = max(most, running)
            try:
                await play(*(script[turn] if turn < len(script) else ("succeed", 0)), release)
            finally:
                running -= 1
            return index

        def inputs():
            nonlocal taken
            for index in range(len(scripts)):
                taken += 1
                assert taken - finished <= 5 * concurrency
                yield index

        def on_complete(_):
            nonlocal finished
            finished += 1

        executor = AsyncExecutor(
            fn,
            concurrency,
            max_retries=MAX_RETRIES,
            max_timeouts=MAX_TIMEOUTS,
            timeout=TIMEOUT_S,
            exit_on_error=False,
            enable_dynamic_concurrency=dynamic,
            on_complete=on_complete,
        )
        try:
            if not streamed:
                return await executor.execute(inputs())
            done = [one async for one in executor.stream(inputs())]
            done.sort(key=lambda one: one.index)
            return [one.output for one in done], [one.details for one in done]
        finally:
            abandoned.append(executor.abandoned)
            release.set()

    abandoned = []
    outputs, details = virtual_time.run(main())
    assert [(one.status, attempts[i]) for i, one in enumerate(details)] == [
        expected(script) for script in scripts
    ]
    for index, (output, detail) in enumerate(zip(outputs, details, strict=True)):
        completed = detail.status is not ExecutionStatus.FAILED
        assert (output == index) == completed
        assert len(detail.exceptions) == attempts[index] - completed
    assert most <= concurrency + abandoned[0]  # what was left behind still runs, unseen
