"""How does work pass from one step to the next without piling up?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class StepQueue(Generic[T]):
    """A bounded queue with an end on both sides.

    Whoever puts waits while it is full. When the taker has stopped, what is put falls off: its
    cell is not done, and the next run does it.
    """

    def __init__(self, most: int) -> None:
        self._queue: asyncio.Queue[T | None] = asyncio.Queue(most)
        self._stopped = asyncio.Event()

    async def put(self, one: T) -> None:
        """Put something on, when there is room."""
        await self._put(one)

    async def end(self) -> None:
        """Say that nothing more will come."""
        await self._put(None)

    async def _put(self, one: T | None) -> None:
        if self._stopped.is_set():
            return
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(one)
            return
        put = asyncio.ensure_future(self._queue.put(one))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({put, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            put.cancel()
            stopped.cancel()

    def stop(self) -> None:
        """Take no more."""
        self._stopped.set()

    async def __aiter__(self) -> AsyncIterator[T]:
        while (one := await self._queue.get()) is not None:
            yield one
