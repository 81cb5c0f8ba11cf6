"""How do answers get from the workflow to an evaluator?

They wait in a bounded queue, so that a slow evaluator does not let them pile up. The queue is the
input of the evaluator's executor: an answer that arrives starts its call at once, without a task
that carries it there.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from limpet.executors.inputs import NOTHING, Inputs

T = TypeVar("T")


class StepQueue(Inputs, Generic[T]):
    """A bounded queue that either side can end.

    Once the consumer has closed it, an item that is put is dropped: its cell stays undone, and the
    next run does it.

    Attributes:
        on_move: Called when calls of the consumer have started or ended, and when it stops.
    """

    def __init__(self, size: int) -> None:
        super().__init__(())
        self.total = None
        self._size = size
        self._items: deque[T] = deque()
        # Invariant: nothing waits for a place while there is one.
        self._waiting: deque[tuple[T, asyncio.Future[None]]] = deque()
        self._on_arrival: Callable[[], None] = lambda: None
        self._closed = False
        self.on_move: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """How many items wait, in the queue or for a place in it."""
        return len(self._items) + len(self._waiting)

    def put(self, item: T) -> "asyncio.Future[None] | None":
        """Queue an item. If the queue is full, return a future: done when there was a place."""
        if self._closed:
            return None
        if len(self._items) >= self._size:
            place = asyncio.get_running_loop().create_future()
            self._waiting.append((item, place))
            return place
        self._items.append(item)
        self._on_arrival()
        return None

    def end(self) -> None:
        """Tell the consumer that no more items follow."""
        self._ended = True
        self._on_arrival()

    # ---- for the executor -----------------------------------------------------------------------

    @property
    def exhausted(self) -> bool:
        return self._closed or (self._ended and not self._items)

    def open(self, has_room: Callable[[], bool], on_arrival: Callable[[], None]) -> None:
        del has_room  # nothing is fetched ahead
        self._on_arrival = on_arrival

    def take(self) -> Any:
        if not self._items:
            return NOTHING
        item = self._items.popleft()
        while self._waiting and len(self._items) < self._size:
            waiting, place = self._waiting.popleft()
            if not place.done():  # cancelled: whoever put it is gone
                self._items.append(waiting)
                place.set_result(None)
        return item

    def refill(self) -> None:
        self.on_move()

    def close(self) -> None:
        self._closed = True
        self.on_move()
        self._items.clear()
        for _, place in self._waiting:
            if not place.done():
                place.set_result(None)
        self._waiting.clear()
