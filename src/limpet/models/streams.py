"""What is in a streamed chat completion?

It is a stream of events, each a piece of the reply as JSON after `data:`; `[DONE]` is the last. The
pieces are joined into one completion, as if it had not been streamed.
"""

import asyncio
from typing import Any

from limpet.errors import LimpetError, TransientError
from limpet.models.chat import Response
from limpet.models.server import OpenAIServer, lower_cased
from limpet.transport.parsing import parse_json
from limpet.transport.reply import HttpReply

_DATA, _DONE = b"data:", b"[DONE]"
_MOST_SHOWN = 1000
_MOST_CALLS = 128


async def read_stream(server: OpenAIServer, started: float, reply: HttpReply) -> Response:
    """Read a streamed completion.

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
        server.reading.usage(stream.facts)  # its last event may have reported it
        raise


class _Stream:
    """Joins the pieces of a completion as they arrive."""

    def __init__(self, server: OpenAIServer, headers: dict[str, str], started: float) -> None:
        self._server = server
        self._headers = headers
        self._started = started
        self._first_token_s: float | None = None
        self._open_line: list[bytes] = []
        self._done = False
        self._texts: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self.facts: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes, which may end anywhere."""
        # The open line stays in pieces: joining it each time would take quadratic time.
        first, *more = chunk.split(b"\n")
        self._open_line.append(first)
        for line in more:
            self._end_line()
            self._open_line.append(line)

    def _end_line(self) -> None:
        line = b"".join(self._open_line).strip()
        self._open_line.clear()
        if not line.startswith(_DATA):
            return  # a comment, or another field of an event
        data = line[len(_DATA) :].strip()
        if data == _DONE:
            self._done = True
        elif not self._done:
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
        if not isinstance(event, dict):
            return
        for name in ("model", "usage"):
            if event.get(name) is not None:
                self.facts[name] = event[name]
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index", 0) != 0:
            return
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]
        if isinstance(choice.get("delta"), dict):
            self._add_delta(choice["delta"])

    def _error_in(self, event: Any) -> LimpetError | None:
        return self._server.reading.error_in(event, self._headers)

    def _add_delta(self, delta: dict[str, Any]) -> None:
        calls = delta.get("tool_calls")
        calls = calls if isinstance(calls, list) else []
        texts = {name: delta.get(name) for name in self._texts}
        if self._first_token_s is None and (calls or any(texts.values())):
            self._first_token_s = asyncio.get_running_loop().time() - self._started
        for name, text in texts.items():
            if isinstance(text, str):
                self._texts[name].append(text)
        for call in calls:
            if isinstance(call, dict):
                self._add_call(call)

    def _add_call(self, piece: dict[str, Any]) -> None:
        index, function = piece.get("index", 0), piece.get("function")
        if not isinstance(index, int) or not 0 <= index < _MOST_CALLS:
            return
        call = self._calls.setdefault(index, {"id": None, "name": "", "arguments": []})
        call["id"] = piece.get("id") or call["id"]
        for name in ("name", "arguments"):
            value = function.get(name) if isinstance(function, dict) else None
            if isinstance(value, str):
                call[name] = value if name == "name" and value else call[name]
                if name == "arguments":
                    call[name].append(value)

    def response(self) -> Response:
        """Return the completion, once the stream has ended.

        Raises:
            TransientError: It is incomplete.
        """
        self._end_line()
        if not self._done and self._finish is None:
            raise TransientError(
                f"{self._server.where}: the stream ended before the reply (it has neither "
                "[DONE] nor a finish_reason)"
            )
        calls = [
            {
                "id": call["id"],
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for _, call in sorted(self._calls.items())
        ]
        content = "".join(self._texts["content"])
        message: dict[str, Any] = {
            "content": content if content or not calls else None,
            "refusal": "".join(self._texts["refusal"]),
            "tool_calls": calls,
        }
        choice = {"message": message, "finish_reason": self._finish}
        body = {**self.facts, "choices": [choice]}
        return Response(body, self._headers, self._first_token_s)
