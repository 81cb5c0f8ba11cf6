"""How fast: the AIMD controller, and what a failure says about the provider."""

from holdfast.pacing.aimd import ConcurrencyController
from holdfast.pacing.limits import Limit
from holdfast.pacing.observation import observe
from holdfast.pacing.pacer import Pacer, Ticket
from holdfast.pacing.registry import PacerRegistry
from holdfast.pacing.signals import FailureKind, Signal, classify
from holdfast.pacing.state import PaceEvent, PacerState

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
    "observe",
]
