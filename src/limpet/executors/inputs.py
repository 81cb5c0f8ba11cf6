"""Where do the inputs come from, and how many are there?

The run takes one input at a time, when it has room for it: a generator of a million inputs is never
held in memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic

from limpet.errors import LimpetError
from limpet.executors.details import ExecutionDetails, Finished, InputState, OutputT, Unset
from limpet.text import one_line

NOTHING = object()
"""Returned by `take` when no input is available."""


class InputSource:
    """Inputs from an iterable, taken one at a time.

    Attributes:
        total: How many there are; None if unknown.
        error: The exception the iterable raised, if any. It ends the inputs; the run raises it
            when all inputs taken before are done.
    """

    def __init__(self, inputs: Iterable[Any]) -> None:
        self.total = _length(inputs)
        self.error: BaseException | None = None
        self._ended = False
        self._iterator: Iterator[Any] = islice(inputs, self.total)

    @property
    def exhausted(self) -> bool:
        return self._ended

    def number(self, taken: int) -> int:
        """Return the index of an input, given how many were taken before it."""
        return taken

    def open(self, has_room: Callable[[], bool], on_arrival: Callable[[], None]) -> None:
        """Begin. `on_arrival` is called when an input or the end arrives asynchronously."""

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
        """Fetch more if there is room again."""

    def close(self) -> None:
        """Take no more inputs and release the source."""
        self._ended = True
        self._iterator = iter(())

    async def wait_closed(self, timeout_s: float) -> None:
        """Wait for an async source to end, with a time limit."""

    @property
    def fetched(self) -> int:
        """How many inputs were fetched ahead and not taken yet."""
        return 0


class NumberedInputs(InputSource):
    """Inputs with given indices: a selection from a longer list."""

    def __init__(self, inputs: Mapping[int, Any]) -> None:
        super().__init__(inputs.values())
        self._numbers = list(inputs)

    def number(self, taken: int) -> int:
        return self._numbers[taken]


class AsyncInputs(InputSource):
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
            async for value in self._source:
                # A source may swallow its cancellation and continue after `close`.
                if self._closed:
                    return
                self._arrived.append(value)
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


def open_inputs(inputs: Iterable[Any] | AsyncIterable[Any] | InputSource) -> InputSource:
    """Wrap an iterable or an async iterable.

    Raises:
        TypeError: `inputs` is neither.
    """
    if isinstance(inputs, InputSource):
        return inputs
    return AsyncInputs(inputs) if isinstance(inputs, AsyncIterable) else open_plain_inputs(inputs)


def open_plain_inputs(inputs: Iterable[Any]) -> InputSource:
    """Wrap an iterable.

    Raises:
        TypeError: `inputs` is not iterable, or only asynchronously.
    """
    if isinstance(inputs, AsyncIterable):
        raise TypeError(
            f"inputs={one_line(inputs)}: an async iterable needs an event loop; "
            "use AsyncExecutor for it"
        )
    try:
        return InputSource(inputs)
    except TypeError as error:
        raise TypeError(
            f"inputs={one_line(inputs)}: must be an iterable or an async iterable of inputs"
        ) from error


def _length(inputs: object) -> int | None:
    if not isinstance(inputs, Sized):
        return None
    try:
        return len(inputs)
    except Exception:  # noqa: BLE001 - some fail without a length: a tqdm over a generator
        return None


def _not_a_cancellation(error: BaseException) -> BaseException:
    """Wrap a cancellation raised by the source, which would look like a cancelled run."""
    if not isinstance(error, asyncio.CancelledError):
        return error
    wrapped = LimpetError("the inputs were cancelled from inside while they were iterated over")
    wrapped.__cause__ = error
    return wrapped


# ---- Where do a run's results go? ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a run's results go.

    Attributes:
        take: Called with the state of each input when it is taken, in input order.
        finish: Called with each input that is done.
        backlog: Returns how many finished inputs have not been read yet.
    """

    take: Callable[[InputState], None]
    finish: Callable[[Finished[Any, Any]], None]
    backlog: Callable[[], int]


NO_SINK = Sink(lambda _state: None, lambda _finished: None, lambda: 0)
"""For a run that is over, or whose results only its hooks see."""


class OrderedResults(Generic[OutputT]):
    """Outputs and details in input order, filled in as inputs finish.

    Args:
        inputs: The inputs.
        fallback: The output of inputs without a result.
    """

    def __init__(self, inputs: InputSource, fallback: OutputT | Unset) -> None:
        self._total = inputs.total or 0
        self._fallback = fallback
        self._outputs: list[OutputT | Unset] = []
        self._details: list[ExecutionDetails] = []
        # Only if an input's index differs from its position in the output.
        self._positions: dict[int, int] | None = {} if isinstance(inputs, NumberedInputs) else None
        self.sink = Sink(self._take, self._finish, NO_SINK.backlog)

    def _take(self, state: InputState) -> None:
        if self._positions is not None:
            self._positions[state.index] = len(self._outputs)
        self._outputs.append(self._fallback)
        self._details.append(state.details)

    def _finish(self, finished: Finished[Any, OutputT]) -> None:
        index = finished.index
        self._outputs[index if self._positions is None else self._positions[index]] = (
            finished.output
        )

    def in_order(self) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Return outputs and details, including those of inputs that were never taken."""
        for _ in range(len(self._outputs), self._total):
            self._outputs.append(self._fallback)
            self._details.append(ExecutionDetails())
        return self._outputs, self._details
