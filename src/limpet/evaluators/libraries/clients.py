"""How are the requests of another library's evaluator paced, and what do they use?

Most libraries keep only the text of a reply, and some make several requests for one score. Their
clients are OpenAI's or Anthropic's, built on httpx: while an evaluator is open, each request waits
for a permit, and the headers and the usage of each response are read. A synchronous client cannot
wait: only the usage of its responses is read. Other clients are left alone. With both of these, the
score is paced as one call.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache, wraps
from types import new_class
from typing import Any

from limpet.evaluators.libraries.overrides import Overrides
from limpet.evaluators.libraries.shapes import get
from limpet.pacing.observation import observe
from limpet.pacing.registry import endpoint
from limpet.pacing.signals import recognised
from limpet.usage import Receipts, add_receipt, plain_usage, receipts_in, usage_of_body

_NO_EVALUATOR = object()
_current: ContextVar[Any] = ContextVar("limpet_requests", default=_NO_EVALUATOR)


class Clients:
    """The HTTP clients behind an evaluator, while it is open.

    Args:
        clients: The clients of the model's API, in any form. Several evaluators may share one.
        key: The endpoint whose pacer they use; None: none.
    """

    def __init__(self, clients: Iterable[Any] = (), key: str | None = None) -> None:
        found = {id(http): http for http in map(_http_client, clients) if http is not None}
        self._http = list(found.values())
        self._key = key
        self._overrides = Overrides()

    async def open(self) -> None:
        """Pace the clients, and close connections of an earlier event loop.

        Over such a connection, a request would fail after its response, and be paid for twice.
        """
        for http in self._http:
            await _close_idle(http)
            wrap = _paced if _is_async(http) else _counted
            self._overrides.set(http, "send", wrap(http.send))

    async def close(self) -> None:
        """Restore the clients, and close the connections of this event loop."""
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
    """Tells the pacer about a response for which the client will raise an exception."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response


def _paced(send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a function that paces the requests of an evaluator, and sends others at once."""
    if getattr(send, "is_paced", False):
        return send  # for another evaluator with the same client

    async def paced(*args: Any, **options: Any) -> Any:
        key = _current.get()
        if key is _NO_EVALUATOR:
            return await send(*args, **options)
        try:
            async with nullcontext() if key is None else endpoint(key):
                response = await send(*args, **options)
                await _read_usage(response)
        except _UnsuccessfulError as error:
            return error.response
        return response

    paced.is_paced = True  # type: ignore[attr-defined]  # read above
    return paced


def _counted(send: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that sends a request and records its usage, if an evaluator makes it."""
    if getattr(send, "is_counted", False):
        return send  # for another evaluator with the same client

    def counted(*args: Any, **options: Any) -> Any:
        response = send(*args, **options)
        if _current.get() is not _NO_EVALUATOR and response.is_success and _is_json(response):
            _add_usage(response, response.read())
        return response

    counted.is_counted = True  # type: ignore[attr-defined]  # read above
    return counted


async def _read_usage(response: Any) -> None:
    if not response.is_success:
        raise _UnsuccessfulError(response)
    observe(headers=response.headers)
    if _is_json(response):
        _add_usage(response, await response.aread())


def _is_json(response: Any) -> bool:
    return bool(response.headers.get("content-type", "").startswith("application/json"))


def _add_usage(response: Any, raw: bytes) -> None:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):  # the library will say so
        return
    usage = plain_usage(usage_of_body(body, _model_in(response)))
    if usage is not None:
        observe(usage={"total_tokens": usage["total_tokens"]})
        add_receipt(usage)


def _model_in(response: Any) -> str | None:
    """Return the requested model; None if it is unknown."""
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


# ---- How does Limpet learn that a call of another library's evaluator was refused? --------------
#
# ragas, LangChain and the NeMo Agent Toolkit each catch exceptions, try again at once, and in the
# end return a score of 0. Here a refusal passes through every `except Exception`, so that the pacer
# sees it.

_IN_THREADS = ("invoke", "batch", "generate", "embed_query", "embed_documents")  # LangChain's


class RefusedCallError(BaseException):
    """A model's server refused a call, or is down.

    Not an `Exception`: evaluators and their libraries catch those, try again at once, and in the
    end return a score of 0.

    Args:
        error: The exception of the model's client.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


_refusals: ContextVar[list[Exception] | None] = ContextVar("limpet_nat_refusals", default=None)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the first refusal of a model called inside, even if it was caught there.

    It may be in a group of exceptions, or hidden by `gather(…, return_exceptions=True)`.
    """
    found: list[Exception] = []
    token = _refusals.set(found)
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException:
        if not found:
            raise
    finally:
        _refusals.reset(token)
    if found:
        raise found[0]


def outspoken(model: Any) -> Any:
    """Let the client of a model raise `RefusedCallError`, which no evaluator catches."""
    # A class, and not methods of this object: those of a copy would call the original.
    object.__setattr__(model, "__class__", _outspoken_class(model.__class__))
    for wrapped in ("default", "bound"):  # LangChain hands out the inner one, for some calls
        if (inner := vars(model).get(wrapped)) is not None and hasattr(inner, "ainvoke"):
            outspoken(inner)
    return model


class _Outspoken:
    __slots__ = ()


@cache
def _outspoken_class(kind: type) -> type:
    if issubclass(kind, _Outspoken):
        return kind
    methods: dict[str, Any] = {"__module__": kind.__module__}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if inspect.iscoroutinefunction(method) and not name.startswith("_"):
            methods[name] = _outspoken(method)
        elif name == "astream":
            methods[name] = _outspoken_stream(method)
        elif name in _IN_THREADS:
            methods[name] = _outspoken_in_thread(method)
    return new_class(kind.__name__, (_Outspoken, kind), exec_body=lambda body: body.update(methods))


def _outspoken(method: Any) -> Any:
    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with _heard():
            return await method(*args, **kwargs)

    return call


def _outspoken_stream(method: Any) -> Any:
    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with _heard():
            async for part in method(*args, **kwargs):
                yield part

    return call


def _outspoken_in_thread(method: Any) -> Any:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _heard():
            return method(*args, **kwargs)

    return call


@contextmanager
def _heard() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        signal = recognised(error)
        if signal is None or not (signal.pushback or signal.outage):
            raise
        if (found := _refusals.get()) is not None:
            found.append(error)
        raise RefusedCallError(error) from error
