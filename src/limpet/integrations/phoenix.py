"""How does Phoenix's own `evaluate_dataframe` run on Limpet's executors?

Its functions look up their executors in their module, so within a block they use ours: as many
calls at once as the provider accepts, retries that wait as long as it asks, and an interrupt that
keeps finished results. Phoenix's own rate limiters are off meanwhile: they would hide each refusal.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from limpet.errors import LimpetError
from limpet.executors import AsyncExecutor, SyncExecutor


@contextmanager
def executors(**options: Any) -> Iterator[None]:
    """Run `evaluate_dataframe` and `async_evaluate_dataframe` of Phoenix on Limpet's executors.

    `evaluate_dataframe` makes one call at a time, as with Phoenix. The block affects the whole
    process: do not enter it in several threads.

    Args:
        options: Options of `AsyncExecutor`, where Phoenix sets none: `concurrency` is "auto".

    Raises:
        LimpetError: Phoenix is not installed, or its version is not supported.
    """
    evaluators, limiters = _module("evaluators"), _module("rate_limiters")
    asynchronous = functools.partial(AsyncExecutor, **{"concurrency": "auto", **options})
    with (
        _replaced(evaluators, AsyncExecutor=asynchronous, SyncExecutor=SyncExecutor),
        _replaced(limiters.RateLimiter, limit=_unlimited, alimit=_unlimited),
    ):
        yield


@contextmanager
def _replaced(holder: Any, **attributes: Any) -> Iterator[None]:
    try:
        before = {name: getattr(holder, name) for name in attributes}
    except AttributeError as error:
        raise LimpetError(
            f"this version of phoenix.evals is not supported: {error}",
            hint="use limpet.AsyncExecutor directly: it has the same interface as Phoenix's",
        ) from error
    try:
        for name, value in attributes.items():
            setattr(holder, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(holder, name, value)


def _unlimited(_: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _module(name: str) -> Any:
    try:
        return import_module(f"phoenix.evals.{name}")
    except ImportError as error:
        raise LimpetError(
            "phoenix.evals cannot be imported",
            hint="pip install 'arize-phoenix-evals>=3.9'",
        ) from error
