"""Run many calls well: async, sync, the factory, retry."""

from holdfast.executors.async_executor import AsyncExecutor
from holdfast.executors.attempts import Attempt, Finished
from holdfast.executors.details import (
    UNSET,
    ExecutionDetails,
    ExecutionStatus,
    Executor,
    Unset,
)
from holdfast.executors.factory import get_executor_on_sync_context
from holdfast.executors.retry import Backoff
from holdfast.executors.sync_executor import SyncExecutor
from holdfast.pacing.aimd import ConcurrencyController

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
