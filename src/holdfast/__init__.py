"""Holdfast runs evaluations of LLM workflows and never loses a finished result."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.errors import (
        CallCancelledError,
        EndpointDownError,
        HoldfastError,
        InterruptedRunError,
        PermanentError,
        QuotaExhaustedError,
        RateLimitError,
        TransientError,
    )
    from holdfast.executors import (
        UNSET,
        AsyncExecutor,
        Attempt,
        Backoff,
        ConcurrencyController,
        ExecutionDetails,
        ExecutionStatus,
        Executor,
        Finished,
        SyncExecutor,
        Unset,
        get_executor_on_sync_context,
    )
    from holdfast.pacing import Pacer, observe

__all__ = [
    "UNSET",
    "AsyncExecutor",
    "Attempt",
    "Backoff",
    "CallCancelledError",
    "ConcurrencyController",
    "EndpointDownError",
    "ExecutionDetails",
    "ExecutionStatus",
    "Executor",
    "Finished",
    "HoldfastError",
    "InterruptedRunError",
    "Pacer",
    "PermanentError",
    "QuotaExhaustedError",
    "RateLimitError",
    "SyncExecutor",
    "TransientError",
    "Unset",
    "get_executor_on_sync_context",
    "observe",
]


def __getattr__(name: str) -> object:
    # Names are looked up when they are first used, so that importing holdfast stays quick
    # however much lies behind it.
    if name in ("errors", "executors", "pacing"):
        return import_module(f"holdfast.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    room = "executors"
    if name.endswith("Error"):
        room = "errors"
    elif name in ("Pacer", "observe"):
        room = "pacing"
    value = getattr(import_module(f"holdfast.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
