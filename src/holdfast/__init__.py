"""Holdfast runs evaluations of LLM workflows and never loses a finished result."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.errors import (
        CallCancelledError,
        DatasetError,
        DiskFullError,
        EndpointDownError,
        FunctionChangedError,
        HoldfastError,
        InterruptedRunError,
        JournalError,
        PermanentError,
        QuotaExhaustedError,
        RateLimitError,
        RecordNotWrittenError,
        RunIsLocked,
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
    from holdfast.run import MapResult, amap, map  # noqa: A004 - it is one

__all__ = [
    "UNSET",
    "AsyncExecutor",
    "Attempt",
    "Backoff",
    "CallCancelledError",
    "ConcurrencyController",
    "DatasetError",
    "DiskFullError",
    "EndpointDownError",
    "ExecutionDetails",
    "ExecutionStatus",
    "Executor",
    "Finished",
    "FunctionChangedError",
    "HoldfastError",
    "InterruptedRunError",
    "JournalError",
    "MapResult",
    "Pacer",
    "PermanentError",
    "QuotaExhaustedError",
    "RateLimitError",
    "RecordNotWrittenError",
    "RunIsLocked",
    "SyncExecutor",
    "TransientError",
    "Unset",
    "amap",
    "get_executor_on_sync_context",
    "map",
    "observe",
]


def __getattr__(name: str) -> object:
    # Names are looked up when they are first used, so that importing holdfast stays quick
    # however much lies behind it.
    if name in ("errors", "executors", "journal", "pacing", "run"):
        return import_module(f"holdfast.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    room = "executors"
    if name.endswith("Error") or name == "RunIsLocked":
        room = "errors"
    elif name in ("MapResult", "amap", "map"):
        room = "run"
    elif name in ("Pacer", "observe"):
        room = "pacing"
    value = getattr(import_module(f"holdfast.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
