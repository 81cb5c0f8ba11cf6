"""How is each request paced that another library's evaluator makes, and what did it use?

Most libraries keep only the text of a reply, and some make several requests for one score. Their
clients are OpenAI's or Anthropic's, built on httpx: while an evaluator is open, each request waits
until the pacer allows it, and the headers and the usage of each response are read. A client that is
not asynchronous cannot wait: of its responses, only the usage is read. Clients of another kind are
left alone. Of both, the score is paced as one call.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

from limpet.evaluators.libraries.overrides import Overrides
from limpet.evaluators.libraries.shapes import get
from limpet.pacing.registry import endpoint
from limpet.pacing.ticket import observe
from limpet.usage import Receipts, note_paid, plain_usage, receipts_in, usage_of_body

_NO_EVALUATOR = object()
_current: ContextVar[Any] = ContextVar("limpet_requests", default=_NO_EVALUATOR)


class Clients:
    """The HTTP clients behind an evaluator, while it is open.

    Args:
        clients: The clients of the model's API, in any form. Several evaluators may share one.
        key: The endpoint that their requests are paced with; None: none.
    """

    def __init__(self, clients: Iterable[Any] = (), key: str | None = None) -> None:
        found = {id(http): http for http in map(_http_client, clients) if http is not None}
        self._http = list(found.values())
        self._key = key
        self._overrides = Overrides()

    async def open(self) -> None:
        """Pace the clients, and close connections of an earlier event loop.

        The client would send a request over them, fail when the response is there, and pay for it
        twice.
        """
        for http in self._http:
            await _close_idle(http)
            wrap = _paced if _is_async(http) else _counted
            self._overrides.set(http, "send", wrap(http.send))

    async def close(self) -> None:
        """Leave the clients as they were, and close the connections of this event loop."""
        self._overrides.restore()
        for http in self._http:
            await _close_idle(http)

    @contextmanager
    def counting(self) -> Iterator[Receipts]:
        """Pace the requests of this task within the block, and collect the usage of each."""
        token = _current.set(self._key)
        try:
            with receipts_in([]) as receipts:
                yield receipts
        finally:
            _current.reset(token)


class _UnsuccessfulError(Exception):
    """Tells the pacer of a response that the client will make an exception of."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response


def _paced(send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a function that sends a request when the pacer allows it, if an evaluator makes it."""
    if getattr(send, "is_paced", False):
        return send  # for another evaluator with the same client

    async def paced(*args: Any, **options: Any) -> Any:
        key = _current.get()
        if key is _NO_EVALUATOR:
            return await send(*args, **options)
        try:
            async with nullcontext() if key is None else endpoint(key):
                response = await send(*args, **options)
                await _note(response)
        except _UnsuccessfulError as error:
            return error.response
        return response

    paced.is_paced = True  # type: ignore[attr-defined]  # read above
    return paced


def _counted(send: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that sends a request and notes its usage, if an evaluator makes it."""
    if getattr(send, "is_counted", False):
        return send  # for another evaluator with the same client

    def counted(*args: Any, **options: Any) -> Any:
        response = send(*args, **options)
        if _current.get() is not _NO_EVALUATOR and response.is_success and _is_json(response):
            _note_usage(response, response.read())
        return response

    counted.is_counted = True  # type: ignore[attr-defined]  # read above
    return counted


async def _note(response: Any) -> None:
    if not response.is_success:
        raise _UnsuccessfulError(response)
    observe(headers=response.headers)
    if _is_json(response):
        _note_usage(response, await response.aread())


def _is_json(response: Any) -> bool:
    return bool(response.headers.get("content-type", "").startswith("application/json"))


def _note_usage(response: Any, raw: bytes) -> None:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):  # the library will say so
        return
    usage = plain_usage(usage_of_body(body, _model_in(response)))
    if usage is not None:
        observe(usage={"total_tokens": usage["total_tokens"]})
        note_paid(usage)


def _model_in(response: Any) -> str | None:
    """Return the model that a request asked for; None if it does not say."""
    try:
        model = json.loads(response.request.content)["model"]
    except Exception:  # noqa: BLE001 - it may be of any shape, or streamed
        return None
    return model if isinstance(model, str) else None


def _http_client(client: Any) -> Any:
    """Return the httpx client in a client of an API; None if there is none."""
    for candidate in (client, get(client, "_client"), get(client, "client", "_client")):
        if callable(get(candidate, "send")) and callable(get(candidate, "build_request")):
            return candidate
    return None


def _is_async(http: Any) -> bool:
    return callable(get(http, "aclose"))


async def _close_idle(http: Any) -> None:
    """Close the connections of an asynchronous client that no request uses."""
    if not _is_async(http):
        return
    pool = get(http, "_transport", "_pool")
    connections = get(pool, "_connections")
    for connection in list(connections) if isinstance(connections, list) else ():
        if connection.is_idle():
            connections.remove(connection)
            with suppress(RuntimeError):  # its event loop is closed, and the connection with it
                await connection.aclose()
