"""How fast calls to an endpoint may go: pacers, the AIMD controller, what a failure means."""

from limpet.pacing.aimd import ConcurrencyController
from limpet.pacing.limits import Limit
from limpet.pacing.observation import observe
from limpet.pacing.pacer import PaceEvent, Pacer, PacerState, Ticket
from limpet.pacing.registry import PacerRegistry, endpoint
from limpet.pacing.signals import FailureKind, Signal, classify

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
