"""What is in a streamed reply?

It is a stream of events, each a piece of the reply as JSON: after `data:`, which may be on several
lines, or alone on its line.
The provider joins them into one response, as if it had not been streamed.
"""

import asyncio
from typing import Any

from limpet.errors import LimpetError, TransientError
from limpet.models.chat import Response
from limpet.models.server import ModelServer, lower_cased
from limpet.transport.parsing import parse_json
from limpet.transport.reply import HttpReply

_DATA, _DONE = b"data:", b"[DONE]"
_MOST_SHOWN = 1000


async def read_stream(server: ModelServer, started: float, reply: HttpReply) -> Response:
    """Read a streamed reply.

    Args:
        server: The server.
        started: When the request was sent, by the event loop's clock.
        reply: The response.

    Raises:
        TransientError: The stream is broken or incomplete.
        LimpetError: It reports an error.
    """
    if reply.content_type == "application/json":  # the server does not stream
        return await server.json(reply)
    stream = _Stream(server, lower_cased(reply.headers), started)
    try:
        await reply.pour(stream.feed)
        return stream.response()
    except BaseException:
        server.reading.usage(stream.joiner.body)  # its last event may have reported it
        raise


class _Stream:
    """Splits a stream into events as it arrives."""

    def __init__(self, server: ModelServer, headers: dict[str, str], started: float) -> None:
        self.joiner = server.provider.joiner()
        self._server = server
        self._headers = headers
        self._started = started
        self._first_token_s: float | None = None
        self._open_line: list[bytes] = []
        self._data: list[bytes] = []
        self._done = False

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes, which may end anywhere."""
        # The open line stays in pieces: joining it each time would take quadratic time.
        first, *more = chunk.split(b"\n")
        self._open_line.append(first)
        for line in more:
            self._end_line()
            self._open_line.append(line)

    def _end_line(self) -> None:
        line = b"".join(self._open_line).strip().removeprefix(b"\xef\xbb\xbf")
        self._open_line.clear()
        data = line.removeprefix(_DATA).removeprefix(b" ")
        if not line or data.startswith((b"{", _DONE)):  # some servers send no empty lines
            self._end_event()
        if line.startswith((_DATA, b"{")):  # others are comments, or other fields of an event
            self._data.append(data)
        if line.startswith(b"{"):
            self._end_event()

    def _end_event(self) -> None:
        data = b"\n".join(self._data).strip()
        self._data.clear()
        if data == _DONE:
            self._done = self.joiner.ends_with_done
        elif data and not self._done:
            self._add(self._parsed(data))

    def _parsed(self, data: bytes) -> Any:
        try:
            return parse_json(data)
        except ValueError as error:
            shown = self._server.show(data[:_MOST_SHOWN].decode(errors="replace"))
            raise TransientError(
                f"{self._server.where}: an event of the stream is {error}: {shown}"
            ) from None

    def _add(self, event: Any) -> None:
        if (error := self._error_in(event)) is not None:
            raise error
        if self.joiner.add(event) and self._first_token_s is None:
            self._first_token_s = asyncio.get_running_loop().time() - self._started

    def _error_in(self, event: Any) -> LimpetError | None:
        return self._server.reading.error_in(event, self._headers)

    def response(self) -> Response:
        """Return the response, once the stream has ended.

        Raises:
            TransientError: It is broken or incomplete.
        """
        self._end_line()
        self._end_event()
        if flaw := self.joiner.flaw:
            raise TransientError(f"{self._server.where}: the stream is broken: {flaw}")
        if not (self._done or self.joiner.is_done):
            raise TransientError(f"{self._server.where}: the stream ended before the reply")
        body = self._server.provider.completion(self.joiner.joined())
        return Response(body, self._headers, self._first_token_s)
