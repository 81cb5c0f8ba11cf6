"""Where do the inputs come from, and how many are there?

Whatever the caller gave, the run takes one input at a time, when it has room for it, so that a
generator of a million inputs is never held in memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sized
from itertools import islice
from typing import Any

NOTHING = object()
"""What `take` answers when there is no input now."""


class Inputs:
    """Inputs from an iterable, taken one by one.

    Attributes:
        total: How many there will be; None if nobody knows yet.
        error: What the iterable raised, if it did. It ends the inputs.
    """

    def __init__(self, inputs: Iterable[Any]) -> None:
        self.total = len(inputs) if isinstance(inputs, Sized) else None
        self.error: Exception | None = None
        self._ended = False
        self._iterator = islice(inputs, self.total)

    @property
    def exhausted(self) -> bool:
        """No more will come."""
        return self._ended

    def open(self, has_room: Callable[[], bool], on_arrival: Callable[[], None]) -> None:
        """Begin. `on_arrival` is called when an input, or the end, came by itself."""

    def take(self) -> Any:
        """Return the next input, or NOTHING."""
        if self._ended:
            return NOTHING
        try:
            return next(self._iterator)
        except StopIteration:
            self._ended = True
        except Exception as error:  # noqa: BLE001 - kept: the run ends in good order, then raises it
            self._ended = True
            self.error = error
        return NOTHING

    def refill(self) -> None:
        """Say that there may be room again."""

    def close(self) -> None:
        """Take no more."""
        self._ended = True

    @property
    def fetched(self) -> int:
        """How many inputs have come from the source and wait to be taken."""
        return 0


class AsyncInputs(Inputs):
    """Inputs from an async iterable, fetched ahead while there is room."""

    def __init__(self, inputs: AsyncIterable[Any]) -> None:
        super().__init__(())
        self.total = len(inputs) if isinstance(inputs, Sized) else None
        self._source = inputs
        self._arrived: deque[Any] = deque()
        self._room: asyncio.Future[None] | None = None
        self._feeder: asyncio.Task[None] | None = None

    @property
    def exhausted(self) -> bool:
        return self._ended and not self._arrived

    def open(self, has_room: Callable[[], bool], on_arrival: Callable[[], None]) -> None:
        self._has_room = has_room
        self._feeder = asyncio.get_running_loop().create_task(self._feed(on_arrival))

    async def _feed(self, on_arrival: Callable[[], None]) -> None:
        try:
            async for one in self._source:
                self._arrived.append(one)
                on_arrival()
                while not self._has_room():
                    self._room = asyncio.get_running_loop().create_future()
                    await self._room
        except Exception as error:  # noqa: BLE001 - kept: the run ends in good order, then raises it
            self.error = error
        self._ended = True
        on_arrival()

    def take(self) -> Any:
        return self._arrived.popleft() if self._arrived else NOTHING

    def refill(self) -> None:
        if self._room is not None and not self._room.done() and self._has_room():
            self._room.set_result(None)

    def close(self) -> None:
        super().close()
        self._arrived.clear()
        if self._feeder is not None:
            self._feeder.cancel()

    @property
    def fetched(self) -> int:
        return len(self._arrived)


def open_inputs(inputs: Iterable[Any] | AsyncIterable[Any]) -> Inputs:
    """Wrap whatever the caller gave.

    Raises:
        TypeError: It cannot be iterated over.
    """
    if isinstance(inputs, AsyncIterable):
        return AsyncInputs(inputs)
    try:
        return Inputs(inputs)
    except TypeError as error:
        raise TypeError(
            f"inputs={inputs!r:.200}: must be an iterable or an async iterable of inputs"
        ) from error
