"""Concurrent votes of one score, with a pacer that makes them wait."""

import asyncio

import pytest
from virtual_time import in_virtual_time

from limpet.errors import InvalidReplyError, RateLimitError
from limpet.evaluators.judge_votes import all_of
from limpet.executors import AsyncExecutor
from limpet.pacing import PacerRegistry, endpoint
from limpet.pacing.registry import pacing_with


async def scored(pacer, registry, call):
    async def three_votes(_):
        return await all_of([call(vote) for vote in range(3)])

    executor = AsyncExecutor(
        three_votes, 10, pacer=pacer, tqdm_bar_format=None, max_retries=0, exit_on_error=False
    )
    with pacing_with(registry):
        done = [finished async for finished in executor.stream([0])]
    return executor, done


@in_virtual_time
async def test_a_refusal_for_an_hour_stops_the_run_though_other_votes_wait():
    registry = PacerRegistry(max_in_flight=1)
    pacer = registry.get("server")

    async def call(_):
        async with endpoint("server"):
            await asyncio.sleep(1)
            raise RateLimitError("no", retry_after=3600)

    executor, _ = await scored(pacer, registry, call)
    assert "quota" in str(executor.stop_reason)
    assert asyncio.get_running_loop().time() < 60
    assert (pacer.state.in_flight, pacer.state.waiting) == (0, 0)


@pytest.mark.parametrize("error", [InvalidReplyError("no"), ValueError("no")])
@in_virtual_time
async def test_the_error_is_that_of_the_vote_and_not_of_those_given_up(error):
    registry = PacerRegistry(max_in_flight=2)
    called = []

    async def call(vote):
        async with endpoint("server"):
            called.append(vote)
            await asyncio.sleep(vote)
            if vote == 1:
                raise error

    _, done = await scored(registry.get("server"), registry, call)
    assert [cell.error for cell in done] == [error]
    assert called == [0, 1, 2]  # what is in flight ends
