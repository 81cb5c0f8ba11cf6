"""How fast: the AIMD controller, and what a failure says about the provider."""

from limpet.pacing.aimd import ConcurrencyController
from limpet.pacing.limits import Limit
from limpet.pacing.observation import observe
from limpet.pacing.pacer import Pacer, Ticket
from limpet.pacing.registry import PacerRegistry, endpoint
from limpet.pacing.signals import FailureKind, Signal, classify
from limpet.pacing.state import PaceEvent, PacerState

__all__ = [
    "ConcurrencyController",
    "FailureKind",
    "Limit",
    "PaceEvent",
    "Pacer",
    "PacerRegistry",
    "PacerState",
    "Signal",
    "Ticket",
    "classify",
    "endpoint",
    "observe",
]
