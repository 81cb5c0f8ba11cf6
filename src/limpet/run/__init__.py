"""Where executors, pacing and the journal meet: what has to be done, doing it, what came out."""

from limpet.run.api import aevaluate, evaluate, plan
from limpet.run.map import amap, map  # noqa: A004 - it is one
from limpet.run.options import Pace, Redo, Retry, Run
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.progress.watcher import Watcher
from limpet.run.results.evaluation_result import EvaluationResult, ItemResult
from limpet.run.results.map_result import MapResult

__all__ = [
    "EvaluationResult",
    "ItemResult",
    "MapResult",
    "Pace",
    "Plan",
    "Redo",
    "Retry",
    "Run",
    "StepPlan",
    "Watcher",
    "aevaluate",
    "amap",
    "evaluate",
    "map",
    "plan",
]
