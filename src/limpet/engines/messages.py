"""Which messages do a driver and its workers exchange, and how do they travel over a pipe?

A message is a tuple of plain values that starts with its name. Several travel together in a frame:
eight bytes of length, then each message preceded by its own length.

A worker's messages are not trusted: it may repeat a model's output, and code that a model wrote may
have taken it over. So they hold only strings, numbers, bytes, lists, tuples and dicts. Pickle is
just the encoding: sender and receiver refuse a message that names a class or a function. See
`docs/decisions/0017-engines.md`.
"""

import io
import pickle
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

Message = tuple[Any, ...]
"""A message: its name, then its values."""

# To a worker.
OPEN, CELL, CANCEL, ANSWER, CLOSE, END = "open", "cell", "cancel", "answer", "close", "end"
# From a worker.
OPENED, BEGUN, DONE, ASK, CLOSED = "opened", "begun", "done", "ask", "closed"
READS, TEXT, LOG, ALIVE, NO_MEMORY = "reads", "text", "log", "alive", "no_memory"
BLOCKED, FREE, HUNG = "blocked", "free", "hung"

_LENGTH = struct.Struct("!Q")
_PART = struct.Struct("!Q")


class NotPlainMessageError(ValueError):
    """A message holds something other than plain values."""


class Returned(NamedTuple):
    """How a cell ended; follows its number in a message.

    One message reports all cells that ended together.

    Attributes:
        value: The value its function returned, read and packed; None if it failed.
        error: The exception it raised, packed; None if it returned.
        more: Other observations, by name: `headers`, `usage`, `omissions`, `makes_own`, `receipts`.
        seconds: How long it ran, without waits for permits.
    """

    value: Any
    error: Any
    more: Any
    seconds: float


class _PlainPickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> NoReturn:
        raise NotPlainMessageError(f"{type(thing).__name__} is not plain")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise NotPlainMessageError(f"a message names {module}.{name}")

    def persistent_load(self, _: Any) -> NoReturn:
        raise NotPlainMessageError("a message refers to something outside")


def packed(message: Message) -> bytes:
    """Return a message as bytes.

    Raises:
        NotPlainMessageError: A value is not plain.
    """
    into = io.BytesIO()
    _PlainPickler(into, protocol=5).dump(message)
    return into.getvalue()


def packed_for_worker(message: Message) -> bytes:
    """Return the driver's message as bytes, unchecked: workers trust the driver."""
    return pickle.dumps(message, protocol=5)


def unpacked_from_driver(data: bytes) -> Message:
    """Return a message, in a worker. Use it only for the driver's messages."""
    message: Message = pickle.loads(data)  # noqa: S301 - the driver's own
    return message


def unpacked(data: bytes) -> Message:
    """Return a message.

    Raises:
        NotPlainMessageError: A value is not plain, or it is not a message.
    """
    try:
        message = _PlainUnpickler(io.BytesIO(data)).load()
    except NotPlainMessageError:
        raise
    except Exception as error:
        raise NotPlainMessageError(f"not a message: {error}") from error
    if type(message) is not tuple or not message:
        raise NotPlainMessageError(f"not a message: a {type(message).__name__}")
    return message


def frame(messages: Iterable[bytes]) -> bytes:
    """Return packed messages as one frame."""
    body = b"".join([piece for data in messages for piece in (_PART.pack(len(data)), data)])
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Splits incoming bytes into messages.

    Args:
        read: Reads a message; `bytes` leaves it packed.
    """

    def __init__(self, read: Callable[[bytes], Any] = unpacked) -> None:
        self._read = read
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the complete messages.

        Raises:
            NotPlainMessageError: The bytes are not a message.
        """
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            end = _LENGTH.size + length
            if len(self._data) < end:
                return
            body = bytes(memoryview(self._data)[_LENGTH.size : end])
            del self._data[:end]
            yield from self._parts(body)

    def _parts(self, body: bytes) -> Iterator[Message]:
        at = 0
        while at < len(body):
            (length,) = _PART.unpack_from(body, at)
            at += _PART.size
            yield self._read(body[at : at + length])
            at += length


# ---- What connects a driver to one worker? ------------------------------------------------------
#
# A crew reaches its workers through lines, and does not know where they run: in processes on this
# machine, or on others behind a gateway.


class Lost(NamedTuple):
    """How a worker was lost.

    Attributes:
        why: A phrase that follows its name: "was killed by SIGSEGV".
        details: Several lines about it: the stack of the thread that crashed.
        blames_nobody: Whether no cell is to blame: the node ran out of memory, or is gone.
    """

    why: str
    details: str = ""
    blames_nobody: bool = False


class WorkerLine(Protocol):
    """The connection to one worker.

    Attributes:
        name: The worker's name: its host and process id.
    """

    name: str

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages without waiting. A worker that is gone gets nothing."""
        ...

    def is_working(self) -> bool:
        """Return whether a silent worker is using processor time; False if unknown."""
        ...

    def last_begun(self) -> int:
        """Return the number of the cell that a silent worker began last; 0 if unknown."""
        ...

    def kill(self, why: str) -> None:
        """End the worker at once. `why` becomes the `why` of its `Lost`."""
        ...

    async def close(self) -> None:
        """End the worker in good order, and wait until it has ended."""
        ...


OnMessage = Callable[[Message], None]
"""Called with each message from a worker."""
OnLost = Callable[[Lost], None]
"""Called once when a worker is gone, after all its messages."""
StartLine = Callable[[OnMessage, OnLost], Awaitable[WorkerLine]]
"""Starts a worker and returns its line."""
