"""Who hears how a round of writing went?"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from limpet.journal.append_file import Job

logger = logging.getLogger("limpet.journal")


class Answers:
    """What those who wait for the records of one round are to be told.

    Attributes:
        kept: The records that are durable.
        failed: Those that are not, and why.
    """

    def __init__(self) -> None:
        self.kept: list[Job] = []
        self.failed: list[tuple[Job, Exception]] = []

    def give(self) -> None:
        """Tell them: one call into each event loop."""
        futures = [job.future for job in self.kept if job.future is not None]
        futures += [job.future for job, _ in self.failed if job.future is not None]
        loops = {future.get_loop() for future in futures}
        for loop in loops:
            call_into(loop, self._give_in, None if len(loops) == 1 else loop)

    def _give_in(self, only: asyncio.AbstractEventLoop | None) -> None:
        for job in self.kept:
            future = job[7]
            # One that was cancelled is left alone: its record is written all the same.
            if future is not None and not future.done() and _is_of(future, only):
                future.set_result(job[4])
        for job, failure in self.failed:
            future = job.future
            if future is not None and not future.done() and _is_of(future, only):
                future.set_exception(failure)


def _is_of(future: asyncio.Future[Any], only: asyncio.AbstractEventLoop | None) -> bool:
    return only is None or future.get_loop() is only


def call_into(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *values: Any) -> None:
    """Have an event loop call a function, from another thread."""
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:  # the loop is closed: nobody waits any more
        logger.debug("those who waited for the journal are gone")
