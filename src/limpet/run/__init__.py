"""Where executors, pacing and the journal meet: what has to be done, doing it, what came out."""

from limpet.run.face import aevaluate, evaluate, plan
from limpet.run.map import amap, map  # noqa: A004 - it is one
from limpet.run.plans import Plan, StepPlan
from limpet.run.result import MapResult
from limpet.run.results import EvaluationResult, ItemResult

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
