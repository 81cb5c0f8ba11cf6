"""Limpet runs evaluations of LLM workflows and never loses a finished result."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.datasets import Dataset
    from limpet.errors import (
        CallCancelledError,
        ConfigError,
        DatasetError,
        DiskFullError,
        EarlyStopError,
        EndpointDownError,
        FunctionChangedError,
        InterruptedRunError,
        InvalidReplyError,
        JournalError,
        LimpetError,
        PermanentError,
        QuotaExhaustedError,
        RateLimitError,
        RecordNotWrittenError,
        RunLockedError,
        ScoresError,
        SetupError,
        TransientError,
        WorkerDiedError,
    )
    from limpet.evaluators.contains import contains
    from limpet.evaluators.embedding_similarity import embedding_similarity
    from limpet.evaluators.exact_match import exact_match, one_of
    from limpet.evaluators.functions import evaluator
    from limpet.evaluators.json_match import json_match
    from limpet.evaluators.judge import judge
    from limpet.evaluators.numeric import numeric
    from limpet.evaluators.protocol import Evaluator, Scored
    from limpet.evaluators.rating import rating
    from limpet.evaluators.regex import regex
    from limpet.evaluators.rubric import rubric
    from limpet.evaluators.similarity import similarity
    from limpet.evaluators.trajectory import trajectory
    from limpet.executors import (
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
    from limpet.pacing import Pacer, observe
    from limpet.run.against import pairwise
    from limpet.run.api import aevaluate, evaluate, plan
    from limpet.run.comparing.compare import compare
    from limpet.run.comparing.results import Comparison
    from limpet.run.evaluation_result import EvaluationResult, load_run
    from limpet.run.map import amap, map  # noqa: A004 - it is one
    from limpet.run.options import Pace, Redo, Retry, Run
    from limpet.run.planning.plan import Plan
    from limpet.run.results.map_result import MapResult
    from limpet.run.watcher import Watcher
    from limpet.types import Item, Output, Scale, Score, Usage
    from limpet.workflows.protocol import Workflow

__all__ = [
    "UNSET",
    "AsyncExecutor",
    "Attempt",
    "Backoff",
    "CallCancelledError",
    "Comparison",
    "ConcurrencyController",
    "ConfigError",
    "Dataset",
    "DatasetError",
    "DiskFullError",
    "EarlyStopError",
    "EndpointDownError",
    "EvaluationResult",
    "Evaluator",
    "ExecutionDetails",
    "ExecutionStatus",
    "Executor",
    "Finished",
    "FunctionChangedError",
    "InterruptedRunError",
    "InvalidReplyError",
    "Item",
    "JournalError",
    "LimpetError",
    "MapResult",
    "Output",
    "Pace",
    "Pacer",
    "PermanentError",
    "Plan",
    "QuotaExhaustedError",
    "RateLimitError",
    "RecordNotWrittenError",
    "Redo",
    "Retry",
    "Run",
    "RunLockedError",
    "Scale",
    "Score",
    "Scored",
    "ScoresError",
    "SetupError",
    "SyncExecutor",
    "TransientError",
    "Unset",
    "Usage",
    "Watcher",
    "WorkerDiedError",
    "Workflow",
    "aevaluate",
    "amap",
    "compare",
    "contains",
    "embedding_similarity",
    "evaluate",
    "evaluator",
    "exact_match",
    "get_executor_on_sync_context",
    "json_match",
    "judge",
    "load_run",
    "map",
    "numeric",
    "observe",
    "one_of",
    "pairwise",
    "plan",
    "rating",
    "regex",
    "rubric",
    "similarity",
    "trajectory",
]


_MODULES = (
    "datasets",
    "errors",
    "evaluators",
    "executors",
    "journal",
    "models",
    "pacing",
    "run",
    "stats",
    "workflows",
)
_NAMES = {
    "datasets": "Dataset",
    "errors": (
        "CallCancelledError ConfigError DatasetError DiskFullError EarlyStopError "
        "EndpointDownError FunctionChangedError InterruptedRunError InvalidReplyError JournalError "
        "LimpetError PermanentError QuotaExhaustedError RateLimitError RecordNotWrittenError "
        "RunLockedError ScoresError SetupError TransientError WorkerDiedError"
    ),
    "evaluators": (
        "Evaluator Scored contains embedding_similarity evaluator exact_match json_match judge "
        "numeric one_of rating regex rubric similarity trajectory"
    ),
    "executors": (
        "UNSET AsyncExecutor Attempt Backoff ConcurrencyController ExecutionDetails "
        "ExecutionStatus Executor Finished SyncExecutor Unset get_executor_on_sync_context"
    ),
    "pacing": "Pacer observe",
    "view": "load_run",
    "view.scripts": "aevaluate evaluate",
    "run.api": "plan",
    "run.comparing.compare": "compare",
    "run.comparing.results": "Comparison",
    "run.map": "amap map",
    "run.options": "Pace Redo Retry Run",
    "run.planning.plan": "Plan",
    "run.against": "pairwise",
    "run.evaluation_result": "EvaluationResult",
    "run.results.map_result": "MapResult",
    "run.watcher": "Watcher",
    "types": "Item Output Scale Score Usage",
    "workflows": "Workflow",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    # Names are imported when first used, so that importing limpet stays fast.
    if name in _MODULES:
        return import_module(f"limpet.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'limpet' has no attribute {name!r}")
    value = getattr(import_module(f"limpet.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
