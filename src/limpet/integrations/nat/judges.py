"""How do the models of the toolkit's evaluators tell Limpet that they were refused?

ragas, LangChain and the toolkit each catch exceptions, try again at once, and in the end return a
score of 0. Here their retries are off, and a refusal passes through whatever catches exceptions, so
that the pacer sees it.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from types import new_class
from typing import Any

from limpet.pacing.signals import recognised

_NO_RETRIES: Mapping[str, Any] = {
    "do_auto_retry": False,
    "num_retries": 1,  # attempts, with the first one
    "max_retries": 0,
    "llm_retry_control_params": {
        "stop_after_attempt": 1,
        "initial_backoff_delay_seconds": 1,
        "has_exponential_jitter": False,
    },
}

_IN_THREADS = ("invoke", "batch", "generate", "embed_query", "embed_documents")  # LangChain's


class ImpatientBuilder:
    """The toolkit's builder, as evaluators see it: its models do not retry by themselves.

    Limpet retries, and a refusal that somebody hides would not slow it down.
    """

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._added: set[tuple[str, str]] = set()
        self._adding = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    async def get_llm(self, llm_name: str, wrapper_type: Any) -> Any:
        name = await self._add("llm", llm_name)
        return outspoken(await self._builder.get_llm(name, wrapper_type))

    async def get_llms(self, llm_names: Iterable[str], wrapper_type: Any) -> list[Any]:
        return [await self.get_llm(name, wrapper_type) for name in llm_names]

    async def get_embedder(self, embedder_name: str, wrapper_type: Any) -> Any:
        name = await self._add("embedder", embedder_name)
        return outspoken(await self._builder.get_embedder(name, wrapper_type))

    async def get_embedders(self, embedder_names: Iterable[str], wrapper_type: Any) -> list[Any]:
        return [await self.get_embedder(name, wrapper_type) for name in embedder_names]

    async def _add(self, kind: str, given: str) -> str:
        """Add a model without retries to the builder, and return its name."""
        name = f"{given} without retries"
        async with self._adding:
            if (kind, name) not in self._added:
                config = getattr(self._builder, f"get_{kind}_config")(given)
                await getattr(self._builder, f"add_{kind}")(name, without_retries(config))
                self._added.add((kind, name))
        return name


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


def without_retries(config: Any) -> Any:
    """Return a copy of a block of the toolkit's that makes no retries."""
    fields = type(config).model_fields
    update = {name: value for name, value in _NO_RETRIES.items() if name in fields}
    return config.model_copy(update=update)
