"""Where executors, pacing and the journal meet: what has to be done, doing it, what came out."""

from holdfast.run.face import aevaluate, evaluate, plan
from holdfast.run.map import amap, map  # noqa: A004 - it is one
from holdfast.run.plans import Plan, StepPlan
from holdfast.run.result import MapResult
from holdfast.run.results import EvaluationResult, ItemResult

__all__ = [
    "EvaluationResult",
    "ItemResult",
    "MapResult",
    "Plan",
    "StepPlan",
    "aevaluate",
    "amap",
    "evaluate",
    "map",
    "plan",
]
