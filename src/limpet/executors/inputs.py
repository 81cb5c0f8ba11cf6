"""Where do the inputs come from, and how many are there?

Whatever the caller gave, the run takes one input at a time, when it has room for it, so that a
generator of a million inputs is never held in memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any

from limpet.errors import LimpetError
from limpet.text import one_line

NOTHING = object()
"""What `take` answers when there is no input now."""


class Inputs:
    """Inputs from an iterable, taken one by one.

    Attributes:
        total: How many there will be; None if nobody knows yet.
        error: What the iterable raised, if it did. It ends the inputs; the run raises it when
            everything taken before is done.
    """

    def __init__(self, inputs: Iterable[Any]) -> None:
        self.total = _length(inputs)
        self.error: BaseException | None = None
        self._ended = False
        self._iterator: Iterator[Any] = islice(inputs, self.total)

    @property
    def exhausted(self) -> bool:
        """No more will come."""
        return self._ended

    def number(self, taken: int) -> int:
        """Return the index of an input, given how many were taken before it."""
        return taken

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
        except BaseException as error:  # noqa: BLE001 - kept, and raised by the run at its end
            self._ended = True
            self.error = _not_a_cancellation(error)
        return NOTHING

    def refill(self) -> None:
        """Say that there may be room again."""

    def close(self) -> None:
        """Take no more, and let go of the source."""
        self._ended = True
        self._iterator = iter(())

    async def wait_closed(self, timeout_s: float) -> None:
        """Wait a while for the source to let go of us."""

    @property
    def fetched(self) -> int:
        """How many inputs have come from the source and wait to be taken."""
        return 0


class NumberedInputs(Inputs):
    """Inputs that keep the index they have elsewhere: those that are left of a longer list."""

    def __init__(self, inputs: Mapping[int, Any]) -> None:
        super().__init__(inputs.values())
        self._numbers = list(inputs)

    def number(self, taken: int) -> int:
        return self._numbers[taken]


class AsyncInputs(Inputs):
    """Inputs from an async iterable, fetched ahead while there is room."""

    def __init__(self, inputs: AsyncIterable[Any]) -> None:
        super().__init__(())
        self.total = _length(inputs)
        self._source: AsyncIterable[Any] | None = inputs
        self._arrived: deque[Any] = deque()
        self._room: asyncio.Future[None] | None = None
        self._feeder: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def exhausted(self) -> bool:
        return self._closed or (self._ended and not self._arrived)

    def open(self, has_room: Callable[[], bool], on_arrival: Callable[[], None]) -> None:
        self._has_room = has_room
        self._feeder = asyncio.get_running_loop().create_task(self._feed(on_arrival))

    async def _feed(self, on_arrival: Callable[[], None]) -> None:
        assert self._source is not None
        try:
            async for one in self._source:
                # A source may swallow our cancellation and go on: nobody listens any more.
                if self._closed:
                    return
                self._arrived.append(one)
                on_arrival()
                while not self._has_room():
                    self._room = asyncio.get_running_loop().create_future()
                    await self._room
        except BaseException as error:
            if self._closed:
                raise
            self.error = _not_a_cancellation(error)
        finally:
            self._ended = True
            on_arrival()

    def take(self) -> Any:
        return self._arrived.popleft() if self._arrived else NOTHING

    def refill(self) -> None:
        if self._room is not None and not self._room.done() and self._has_room():
            self._room.set_result(None)

    def close(self) -> None:
        super().close()
        self._closed = True
        self._arrived.clear()
        self._source = None
        if self._feeder is not None:
            self._feeder.cancel()

    async def wait_closed(self, timeout_s: float) -> None:
        if self._feeder is not None and not self._feeder.done():
            await asyncio.wait([self._feeder], timeout=timeout_s)

    @property
    def fetched(self) -> int:
        return len(self._arrived)


def open_inputs(inputs: Iterable[Any] | AsyncIterable[Any] | Inputs) -> Inputs:
    """Wrap whatever the caller gave.

    Raises:
        TypeError: It cannot be iterated over.
    """
    if isinstance(inputs, Inputs):
        return inputs
    return AsyncInputs(inputs) if isinstance(inputs, AsyncIterable) else open_plain_inputs(inputs)


def open_plain_inputs(inputs: Iterable[Any]) -> Inputs:
    """Wrap an iterable.

    Raises:
        TypeError: It cannot be iterated over, or only by an async loop.
    """
    if isinstance(inputs, AsyncIterable):
        raise TypeError(
            f"inputs={one_line(inputs)}: an async iterable needs an event loop; "
            "use AsyncExecutor for it"
        )
    try:
        return Inputs(inputs)
    except TypeError as error:
        raise TypeError(
            f"inputs={one_line(inputs)}: must be an iterable or an async iterable of inputs"
        ) from error


def _length(inputs: object) -> int | None:
    if not isinstance(inputs, Sized):
        return None
    try:
        return len(inputs)
    except Exception:  # noqa: BLE001 - some have a length only at times: a tqdm over a generator
        return None


def _not_a_cancellation(error: BaseException) -> BaseException:
    """Wrap a cancellation from inside the source: raised as it is, it would look like ours."""
    if not isinstance(error, asyncio.CancelledError):
        return error
    wrapped = LimpetError("the inputs were cancelled from inside while they were iterated over")
    wrapped.__cause__ = error
    return wrapped
