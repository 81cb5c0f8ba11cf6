"""Which library does this evaluator come from?

Its shape tells: the attributes that only its library's evaluators have. Nothing is imported, and no
code of the object runs: attributes are looked up without reading them, so that a property that
raises, or a mock that has everything, breaks nothing.
"""

from typing import Any

from limpet.evaluators.libraries.adapter import Adapter
from limpet.evaluators.libraries.autoevals import AutoevalsScorer
from limpet.evaluators.libraries.deepeval import DeepEvalMetric
from limpet.evaluators.libraries.inspect_ai import InspectScorer
from limpet.evaluators.libraries.nat import NatEvaluator
from limpet.evaluators.libraries.openevals import OpenEvalsFunction
from limpet.evaluators.libraries.phoenix import PhoenixEvaluator
from limpet.evaluators.libraries.pydantic_evals import PydanticEvaluator
from limpet.evaluators.libraries.ragas import RagasMetric
from limpet.foreign import is_interrupt

ADAPTERS: tuple[type[Adapter], ...] = (
    PhoenixEvaluator,
    InspectScorer,
    AutoevalsScorer,
    NatEvaluator,
    OpenEvalsFunction,
    DeepEvalMetric,
    PydanticEvaluator,
    RagasMetric,
)
"""Tried in this order; the first that fits is taken."""


def recognised(thing: Any) -> type[Adapter] | None:
    """Return the adapter for an evaluator of another library; None if it is not one."""
    return None if issubclass(type(thing), type) else _first_fitting(thing)


def is_class_of_library(thing: Any) -> bool:
    """Return whether a class makes evaluators of another library."""
    return issubclass(type(thing), type) and _first_fitting(thing) is not None


def _first_fitting(thing: Any) -> type[Adapter] | None:
    for adapter in ADAPTERS:
        try:
            if adapter.fits(thing):
                return adapter
        except BaseException as error:  # an object may raise anything
            if is_interrupt(error):
                raise
    return None
