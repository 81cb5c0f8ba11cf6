"""What connects a driver to one worker?

A crew gives cells to its workers by their lines, and does not know where they are: in processes of
this machine, or behind a gateway to others.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from limpet.engines.messages import Message


class Lost(NamedTuple):
    """How a worker was lost.

    Attributes:
        why: In words that follow its name: "was killed by SIGSEGV".
        details: More about it, in several lines: where the thread was that crashed.
        blames_nobody: Whether no cell is to blame: the node ran out of memory, or is gone.
    """

    why: str
    details: str = ""
    blames_nobody: bool = False


class Line(Protocol):
    """The way to one worker.

    Attributes:
        name: The worker's name: its host and the id of its process.
    """

    name: str

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages. Does not wait; a worker that is gone gets nothing."""
        ...

    def is_working(self) -> bool:
        """Return whether a silent worker uses its processor; False where that cannot be seen."""
        ...

    def last_begun(self) -> int:
        """Return the number of the cell that a silent worker began last; 0 if that is unknown."""
        ...

    def kill(self, why: str) -> None:
        """End the worker at once. It is lost, for the reason `why`, as in `Lost`."""
        ...

    async def close(self) -> None:
        """End the worker in good order, and wait for its end."""
        ...


OnMessage = Callable[[Message], None]
"""Called with each message of a worker."""
OnLost = Callable[[Lost], None]
"""Called once when a worker is gone, after all its messages."""
StartLine = Callable[[OnMessage, OnLost], Awaitable[Line]]
"""Starts a worker, and returns the line to it."""
