"""What scores an output: the evaluators that need no model, and whatever the user writes."""

from limpet.evaluators.adoption import as_evaluator, as_evaluators
from limpet.evaluators.closeness import similarity
from limpet.evaluators.documents import json_match
from limpet.evaluators.equality import exact_match, one_of
from limpet.evaluators.inclusion import contains
from limpet.evaluators.patterns import regex
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.evaluators.quantities import numeric
from limpet.evaluators.trajectories import trajectory

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
