"""Evaluators score outputs: built-in ones, those that ask a model, and the user's own."""

from limpet.evaluators.coerce import as_evaluator, as_evaluators
from limpet.evaluators.contains import contains
from limpet.evaluators.embedding_similarity import embedding_similarity
from limpet.evaluators.exact_match import exact_match, one_of
from limpet.evaluators.functions import evaluator
from limpet.evaluators.json_match import json_match
from limpet.evaluators.judge import judge
from limpet.evaluators.numeric import numeric
from limpet.evaluators.pairwise import pairwise
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.evaluators.rating import rating
from limpet.evaluators.regex import regex
from limpet.evaluators.rubric import rubric
from limpet.evaluators.similarity import similarity
from limpet.evaluators.trajectory import trajectory

__all__ = [
    "Evaluator",
    "Scored",
    "Scores",
    "as_evaluator",
    "as_evaluators",
    "contains",
    "embedding_similarity",
    "evaluator",
    "exact_match",
    "json_match",
    "judge",
    "numeric",
    "one_of",
    "pairwise",
    "rating",
    "regex",
    "rubric",
    "similarity",
    "trajectory",
]
