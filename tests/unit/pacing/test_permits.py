"""A cell requests a permit for each of its calls."""

import asyncio

from virtual_time import in_virtual_time

import limpet
from limpet.executors import AsyncExecutor
from limpet.pacing import Pacer, PacerRegistry, endpoint
from limpet.pacing.permits import Permits, current_permits, use_permits
from limpet.pacing.registry import pacing_with


def executor_of(function, pacer=None, **options):
    return AsyncExecutor(
        function, pacer=pacer, concurrency=options.pop("concurrency", 100), tqdm_bar_format=None,
        termination_signal=None, **options,
    )  # fmt: skip


async def finished(executor, inputs):
    return [done async for done in executor.stream(inputs)]


@in_virtual_time
async def test_the_first_call_uses_the_cells_ticket_and_the_others_ask():
    registry = PacerRegistry()
    pacer = registry.get("server")

    async def three_calls(_):
        for _ in range(3):
            async with endpoint("server"):
                await asyncio.sleep(1)

    with pacing_with(registry):
        await finished(executor_of(three_calls, pacer), range(10))
    assert (pacer.state.sent, pacer.state.in_flight) == (30, 0)


@in_virtual_time
async def test_a_cell_that_makes_no_call_gives_its_ticket_back():
    from limpet.pacing.permits import asks_for_each_call

    registry = PacerRegistry()
    pacer = registry.get("server")

    async def none(_):
        asks_for_each_call()

    with pacing_with(registry):
        await finished(executor_of(none, pacer), range(10))
    assert (pacer.state.sent, pacer.state.in_flight) == (0, 0)


@in_virtual_time
async def test_a_cell_that_does_not_say_when_it_calls_is_one_call():
    pacer = Pacer("server")

    async def call(_):
        await asyncio.sleep(1)

    await finished(executor_of(call, pacer), range(10))
    assert (pacer.state.sent, pacer.state.in_flight) == (10, 0)


@in_virtual_time
async def test_waiting_for_a_permit_is_not_the_cells_time():
    # 100 cells of two calls, one second each, one at a time: 200 s, and a limit of 5 s.
    registry = PacerRegistry(max_in_flight=1)

    async def two_calls(_):
        for _ in range(2):
            async with endpoint("server"):
                await asyncio.sleep(1)

    with pacing_with(registry):
        done = await finished(executor_of(two_calls, timeout=5, max_retries=0), range(100))
    assert [one.error for one in done] == [None] * 100
    assert max(one.details.execution_seconds for one in done) < 2.1


@in_virtual_time
async def test_a_call_that_hangs_reaches_its_limit_and_frees_its_slot():
    registry = PacerRegistry(max_in_flight=1)
    pacer = registry.get("server")

    async def hangs(number):
        async with endpoint("server"):
            await asyncio.sleep(1000 if number == 0 else 1)

    with pacing_with(registry):
        done = await finished(executor_of(hangs, timeout=5, max_retries=0), range(5))
    assert sorted(one.index for one in done if one.error is not None) == [0]
    assert pacer.state.in_flight == 0
    assert pacer.state.failed == 1


@in_virtual_time
async def test_a_call_that_ignores_its_cancellation_frees_its_slot():
    registry = PacerRegistry(max_in_flight=1)
    pacer = registry.get("server")

    async def stubborn(number):
        async with endpoint("server"):
            for _ in range(50 if number == 0 else 1):
                try:
                    await asyncio.sleep(1)
                except asyncio.CancelledError:
                    continue

    with pacing_with(registry):
        done = await finished(executor_of(stubborn, timeout=5, max_retries=0), range(3))
    assert sorted(one.index for one in done if one.error is not None) == [0]
    assert pacer.state.in_flight == 0


@in_virtual_time
async def test_refusals_of_a_call_inside_a_cell_do_not_use_up_its_retries():
    registry = PacerRegistry()
    refusals = {"left": 30}

    async def refused_at_first(_):
        async with endpoint("server"):
            await asyncio.sleep(0.1)
            if refusals["left"]:
                refusals["left"] -= 1
                raise limpet.RateLimitError("slow down", retry_after=1)

    with pacing_with(registry):
        executor = executor_of(refused_at_first, registry.get("server"), max_retries=1)
        done = await finished(executor, range(10))
    assert [one.error for one in done] == [None] * 10


@in_virtual_time
async def test_cells_that_wait_for_each_others_endpoints_go_on():
    # Each holds a ticket that it does not need yet, and waits for the other's only slot.
    registry = PacerRegistry(max_in_flight=1)

    def calls(*keys):
        async def cell(_):
            for key in keys:
                async with endpoint(key):
                    await asyncio.sleep(1)

        return cell

    with pacing_with(registry):
        there = executor_of(calls("b"), registry.get("a"))
        back = executor_of(calls("a"), registry.get("b"))
        both = await asyncio.gather(finished(there, range(5)), finished(back, range(5)))
    assert [one.error for done in both for one in done] == [None] * 10


@in_virtual_time
async def test_an_error_after_the_calls_counts_against_the_cell():
    registry = PacerRegistry()
    tries = []

    async def broken(number):
        async with endpoint("server"):
            await asyncio.sleep(0.1)
        tries.append(number)
        raise ValueError("not what was asked for")

    with pacing_with(registry):
        executor = executor_of(broken, registry.get("server"), max_retries=2)
        done = await finished(executor, [0])
    assert len(tries) == 3
    assert isinstance(done[0].error, ValueError)
    assert registry.get("server").state.failed == 0


@in_virtual_time
async def test_a_call_that_hangs_reaches_its_limit_while_another_of_its_cell_waits():
    registry = PacerRegistry(max_in_flight=2)
    pacer = registry.get("server")

    async def call():
        async with endpoint("server"):
            await asyncio.sleep(1_000_000)

    async def three_votes(_):
        await asyncio.gather(call(), call(), call())

    with pacing_with(registry):
        done = await finished(executor_of(three_votes, pacer, timeout=5, max_retries=0), [0])
    assert [type(cell.error) for cell in done] == [TimeoutError]
    assert asyncio.get_running_loop().time() < 60
    assert (pacer.state.in_flight, pacer.state.waiting) == (0, 0)


@in_virtual_time
async def test_calls_of_a_cell_that_take_turns_do_not_reach_its_limit():
    # Five votes of a second each, one at a time, and a limit of 3 s for each.
    registry = PacerRegistry(max_in_flight=1)

    async def call():
        async with endpoint("server"):
            await asyncio.sleep(1)

    async def five_votes(_):
        await asyncio.gather(*(call() for _ in range(5)))

    with pacing_with(registry):
        done = await finished(executor_of(five_votes, timeout=3, max_retries=0), range(3))
    assert [cell.error for cell in done] == [None] * 3


@in_virtual_time
async def test_waiting_with_a_permit_is_neither_the_cells_time_nor_the_servers():
    registry = PacerRegistry()
    pacer = registry.get("server")

    async def wait_then_call(_):
        async with endpoint("server"):
            await current_permits().wait(asyncio.sleep(100))
            await asyncio.sleep(1)

    with pacing_with(registry):
        cells = await finished(executor_of(wait_then_call, pacer, timeout=5), range(3))
    assert [cell.error for cell in cells] == [None] * 3
    assert [cell.details.execution_seconds for cell in cells] == [1.0] * 3
    assert pacer._limits.latency_s < 2


@in_virtual_time
async def test_a_vote_that_waits_for_a_permit_of_one_that_waits_for_the_budget_waits_in_vain():
    pacer = PacerRegistry().get("server")
    taken = [await pacer.acquire() for _ in range(pacer.state.limit)]
    permits = Permits(None)
    use_permits(permits)
    second = asyncio.create_task(permits.acquire(pacer, 1.0))
    await asyncio.sleep(1)
    assert not permits.is_stranded  # it gets its permit sooner or later
    first = asyncio.create_task(permits.wait(asyncio.sleep(1000)))
    await asyncio.sleep(1)
    assert permits.is_stranded
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    for ticket in taken:
        ticket.void()
