"""How does work pass from one step to the next without piling up?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class StepQueue(Generic[T]):
    """A bounded queue that either side can end.

    `put` waits while the queue is full. Once the consumer has stopped, `put` drops the item: its
    cell stays undone, and the next run does it.
    """

    def __init__(self, size: int) -> None:
        self._queue: asyncio.Queue[T | None] = asyncio.Queue(size)
        self._stopped = asyncio.Event()

    async def put(self, item: T) -> None:
        """Add an item as soon as there is room."""
        await self._put(item)

    async def end(self) -> None:
        """Tell the consumer that no more items follow."""
        await self._put(None)

    async def _put(self, item: T | None) -> None:
        if self._stopped.is_set():
            return
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(item)
            return
        put = asyncio.ensure_future(self._queue.put(item))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({put, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            put.cancel()
            stopped.cancel()

    def stop(self) -> None:
        """Accept no more items."""
        self._stopped.set()

    async def __aiter__(self) -> AsyncIterator[T]:
        while (item := await self._queue.get()) is not None:
            yield item
