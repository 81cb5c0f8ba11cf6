"""How do the models that other people's evaluators call tell Limpet that they were refused?

ragas, LangChain and the NeMo Agent Toolkit each catch exceptions, try again at once, and in the end
return a score of 0. Here a refusal passes through whatever catches exceptions, so that the pacer
sees it.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from types import new_class
from typing import Any

from limpet.pacing.signals import recognised

_IN_THREADS = ("invoke", "batch", "generate", "embed_query", "embed_documents")  # LangChain's


class RefusedCallError(BaseException):
    """A model's server refused a call, or is down.

    No `Exception`: evaluators and their libraries catch those, try again at once, and in the end
    return a score of 0.

    Args:
        error: What the model's client raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


_refusals: ContextVar[list[Exception] | None] = ContextVar("limpet_nat_refusals", default=None)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the first refusal of a model that was called inside, whatever became of it there.

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
    """Let the client of a model raise a `RefusedCallError` that no evaluator can catch."""
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
