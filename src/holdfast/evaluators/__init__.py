"""What scores an output: the evaluators that need no model, and whatever the user writes."""

from holdfast.evaluators.adoption import as_evaluator, as_evaluators
from holdfast.evaluators.closeness import similarity
from holdfast.evaluators.documents import json_match
from holdfast.evaluators.equality import exact_match, one_of
from holdfast.evaluators.inclusion import contains
from holdfast.evaluators.patterns import regex
from holdfast.evaluators.protocol import Evaluator, Scored, Scores
from holdfast.evaluators.quantities import numeric
from holdfast.evaluators.trajectories import trajectory

__all__ = [
    "Evaluator",
    "Scored",
    "Scores",
    "as_evaluator",
    "as_evaluators",
    "contains",
    "exact_match",
    "json_match",
    "numeric",
    "one_of",
    "regex",
    "similarity",
    "trajectory",
]
