"""What a Ray worker's line reports, without Ray, on virtual time."""

import asyncio

from virtual_time import in_virtual_time

from limpet.engines.ray.lines import RayLine
from limpet.engines.worker_news import SILENCE_S


@in_virtual_time
async def test_a_worker_is_not_taken_for_hung_while_its_foreman_is_held_up():
    line = RayLine(1, None, lambda message: None, lambda lost: None)
    line.seen(is_working=False, last_begun=0)
    assert not line.is_working()
    await asyncio.sleep(2 * SILENCE_S)  # nobody reports on it
    assert line.is_working()
    line.seen(is_working=False, last_begun=0)  # its foreman looks again, and it does nothing
    assert not line.is_working()


@in_virtual_time
async def test_a_foreman_that_says_nothing_for_a_minute_is_not_waited_for():
    line = RayLine(1, None, lambda message: None, lambda lost: None)
    await asyncio.sleep(61)
    assert not line.is_working()
