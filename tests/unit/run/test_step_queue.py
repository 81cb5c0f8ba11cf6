"""The queue between the workflow and an evaluator."""

import asyncio

from virtual_time import in_virtual_time

from limpet import AsyncExecutor
from limpet.executors.inputs import NOTHING
from limpet.run.executing.steps import StepQueue


@in_virtual_time
async def test_a_full_queue_makes_who_puts_wait_for_a_slot():
    queue = StepQueue(2)
    assert [queue.put(item) for item in "ab"] == [None, None]
    waits = [queue.put(item) for item in "cd"]
    assert queue.take() == "a"
    assert [wait.done() for wait in waits] == [True, False]
    assert [queue.take() for _ in range(4)] == ["b", "c", "d", NOTHING]
    assert waits[1].done()


@in_virtual_time
async def test_an_item_whose_sender_is_gone_is_not_taken():
    queue = StepQueue(1)
    queue.put("a")
    gone, waits = queue.put("b"), queue.put("c")
    gone.cancel()
    assert [queue.take(), queue.take()] == ["a", "c"]
    assert waits.done()


@in_virtual_time
async def test_a_closed_queue_drops_what_is_put_and_lets_go_who_waits():
    queue = StepQueue(1)
    queue.put("a")
    waits = queue.put("b")
    queue.close()
    assert waits.done()
    assert queue.put("c") is None
    assert queue.exhausted
    assert queue.take() is NOTHING


@in_virtual_time
async def test_an_executor_takes_what_arrives_until_the_queue_ends():
    queue, seen = StepQueue(3), []

    async def see(item):
        seen.append(item)

    running = asyncio.ensure_future(AsyncExecutor(see, concurrency=2).drain(queue))
    for item in range(50):
        if (slot := queue.put(item)) is not None:
            await slot
    assert not running.done()
    queue.end()
    await running
    assert seen == list(range(50))
