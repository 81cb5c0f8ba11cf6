"""How is a response read, in pieces and up to a maximum size?"""

import asyncio
import codecs
import contextlib
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from limpet.arguments import positive_number
from limpet.errors import PermanentError, TransientError
from limpet.executors.countdown import Countdown
from limpet.transport.failures import TooSlowError

# ---- How long may each part of a call take? -----------------------------------------------------

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits in seconds; None: only the executor's limit for the entire attempt.

    Attributes:
        connect_timeout: For connecting, including DNS and TLS.
        first_byte_timeout: Until the response begins, including connecting.
        between_bytes_timeout: Between two pieces of the response.
        timeout: For the entire call.
    """

    connect_timeout: float | None
    first_byte_timeout: float | None
    between_bytes_timeout: float | None
    timeout: float | None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if (seconds := getattr(self, name)) is not None:
                positive_number(**{name: seconds})


async def within(seconds: float | None, work: Awaitable[T], late: str) -> T:
    """Await `work` for at most `seconds`.

    Raises:
        TooSlowError: It took longer; the message starts with `late`.
    """
    if seconds is None:
        return await work
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)
    countdown = Countdown(seconds, lambda: limit.reschedule(loop.time()))
    try:
        async with limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise TooSlowError(f"{late} within {seconds:g} s") from None
        raise
    finally:
        countdown.cancel()


# ---- How is a response read, in pieces and up to a maximum size? --------------------------------

MOST_SAID = 2**16
"""Maximum bytes read of an error response."""
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_PIECE = 2**16
_GZIP_OR_ZLIB = 47


class HttpReply:
    """A response whose headers have arrived and whose body is still to be read.

    Args:
        response: The response.
        where: The call's name in messages.
        most: Maximum bytes, decompressed.
        pause_s: Maximum seconds between two pieces.

    Attributes:
        status: The status.
        headers: The headers.
        content_type: The content type in lower case, without parameters.
        framed: Whether its end is marked, so a truncated body is detected.
    """

    def __init__(
        self, response: aiohttp.ClientResponse, where: str, most: int, pause_s: float | None
    ) -> None:
        self.status = response.status
        self.headers = headers = response.headers
        self.content_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        chunked = headers.get("Transfer-Encoding", "").lower().endswith("chunked")
        self.framed = chunked or "Content-Length" in headers
        self._response = response
        self._where = where
        self._most = most
        self._pause_s = pause_s
        self._encoding = headers.get("Content-Encoding", "").strip().lower()

    async def pour(self, take: Callable[[bytes], object]) -> None:
        """Pass every piece of the body to `take`, decompressed.

        Raises:
            TransientError: The body is incomplete or broken.
            TooSlowError: The pieces arrive too slowly.
            PermanentError: It is too large, or its encoding is unknown.
        """
        inflater = self._inflater()
        announced = self._response.content_length or 0
        if inflater is None and announced > self._most:
            raise self._too_large()
        size = 0
        while chunk := await self._next():
            pieces: Iterable[bytes] = (chunk,) if inflater is None else inflater.feed(chunk)
            for piece in pieces:
                size += len(piece)
                if size > self._most:
                    raise self._too_large()
                take(piece)
        if inflater is not None:
            inflater.end()

    async def read_all(self) -> bytes:
        """Return the body, its text in UTF-8. Raises as `pour` does."""
        pieces: list[bytes] = []
        await self.pour(pieces.append)
        return self._as_utf8(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _as_utf8(self, raw: bytes) -> bytes:
        """Return text in the charset that its header names as UTF-8, without a byte order mark."""
        charset = self._response.charset
        if charset is not None and charset.lower() != "utf-8":
            with contextlib.suppress(LookupError, ValueError):  # the parser reports it
                raw = raw.decode(charset).encode()
        return raw.removeprefix(codecs.BOM_UTF8)

    async def beginning(self) -> bytes:
        """Return the start of the body, as much as can be read."""
        pieces: list[bytes] = []

        def take(piece: bytes) -> None:
            pieces.append(piece[:MOST_SAID])
            if sum(map(len, pieces)) >= MOST_SAID:
                raise _EnoughError

        broken = (TransientError, PermanentError, aiohttp.ClientError, OSError)
        with contextlib.suppress(_EnoughError, *broken):  # the status says what matters
            await self.pour(take)
        return self._as_utf8(b"".join(pieces)[:MOST_SAID])

    async def _next(self) -> bytes:
        # Not readline: a line may be of any length.
        content, pause_s = self._response.content, self._pause_s
        if pause_s is None:
            return await content.readany()
        return await within(pause_s, content.readany(), f"{self._where}: no more of the response")

    def _inflater(self) -> "_Inflater | None":
        if self._encoding in ("", "identity"):
            return None
        if self._encoding not in _ENCODINGS:
            raise PermanentError(
                f"{self._where}: the response is encoded as {self._encoding[:40]!r}, which was "
                "not requested"
            )
        return _Inflater(self._where)

    def _too_large(self) -> PermanentError:
        return PermanentError(
            f"{self._where}: the response is larger than {self._most / 2**20:g} MB",
            hint="increase max_response_mb",
        )


class _EnoughError(Exception):
    """Enough was read."""


class _Inflater:
    """Decompresses gzip and deflate.

    A few kilobytes may become gigabytes, so it yields pieces of bounded size, and the reader stops
    when the total is too large. `feed` and `end` raise `TransientError` if the data is broken or
    incomplete.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._inner = zlib.decompressobj(_GZIP_OR_ZLIB)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed bytes, in pieces of bounded size."""
        while chunk:
            if self._inner.eof:  # another part follows
                self._inner = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                piece = self._inner.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise TransientError(
                    f"{self._where}: the compressed response is broken ({error})"
                ) from None
            chunk = self._inner.unconsumed_tail or self._inner.unused_data
            if piece:
                yield piece

    def end(self) -> None:
        """Check that the data is complete."""
        if not self._inner.eof:
            raise TransientError(f"{self._where}: the compressed response is incomplete")
