"""How fast: the AIMD controller, and what a failure says about the provider."""

from holdfast.pacing.aimd import ConcurrencyController
from holdfast.pacing.signals import FailureKind, Signal, classify

__all__ = ["ConcurrencyController", "FailureKind", "Signal", "classify"]
