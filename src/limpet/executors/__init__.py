"""Run one function over many inputs: executors, retries, time limits, signals."""

from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import (
    UNSET,
    Attempt,
    ExecutionDetails,
    ExecutionStatus,
    Executor,
    Finished,
    Unset,
)
from limpet.executors.factory import SyncExecutor, get_executor_on_sync_context
from limpet.executors.retry import Backoff
from limpet.pacing.aimd import ConcurrencyController

__all__ = [
    "UNSET",
    "AsyncExecutor",
    "Attempt",
    "Backoff",
    "ConcurrencyController",
    "ExecutionDetails",
    "ExecutionStatus",
    "Executor",
    "Finished",
    "SyncExecutor",
    "Unset",
    "get_executor_on_sync_context",
]
