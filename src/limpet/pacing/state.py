"""What is a pacer doing, and why does it wait?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from limpet.pacing.adaptive import AdaptiveLimits

WORDS = {
    "rate": "at the provider's limit",
    "quota": "at the provider's limit per minute",
    "in_flight": "at the concurrency that pays off",
    "headers": "at the limit the provider names",
    "refused": "the provider refuses everything: probing",
    "down": "the provider is down: probing",
    "hold": "waiting as the provider asked",
    "start": "finding the provider's limit",
    "most": "at max_concurrency",
    "nothing": "as fast as calls come",
}
"""What each `binding` means, for people."""


@dataclass(frozen=True, slots=True)
class PacerState:
    """A snapshot of a pacer.

    Attributes:
        rate: Known limit in cost per second; None: unknown.
        in_flight_cap: Known limit of calls in flight; None: unknown.
        per_minute: Known limit in cost per minute; None: unknown.
        limit: Calls that may be in flight now.
        in_flight: Calls in flight.
        waiting: Calls waiting for a ticket.
        binding: What limits the pace now, one of the keys of `WORDS`.
        blocked: "refused" or "down" while no calls succeed.
        calls_per_s: Calls started per second over the last minute.
        sent: Number of calls.
        refused: Number of refused calls.
        failed: Number of failed calls.
        usage: Total usage that the calls reported.
    """

    rate: float | None
    in_flight_cap: float | None
    per_minute: float | None
    limit: int
    in_flight: int
    waiting: int
    binding: str
    blocked: str | None
    calls_per_s: float
    sent: int
    refused: int
    failed: int
    usage: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.in_flight} in flight · {self.calls_per_s:.1f}/s · {WORDS[self.binding]}"


@dataclass(frozen=True, slots=True)
class PaceEvent:
    """A change of pace: when, for which endpoint, after what, and the new state."""

    at: float
    key: str
    after: str
    state: PacerState


def describe(
    limits: AdaptiveLimits | None,
    waiting: int,
    counts: Mapping[str, int],
    usage: Mapping[str, float],
) -> PacerState:
    """Return a snapshot of a pacer."""
    started = limits is not None
    limits = limits or AdaptiveLimits(lambda: 0.0, 1)
    return PacerState(
        rate=_known(limits.rate.top),
        in_flight_cap=_known(limits.in_flight_cap.top),
        per_minute=_known(limits.quota.top),
        limit=limits.limit(),
        in_flight=limits.in_flight,
        waiting=waiting,
        binding=limits.binding() if started else "start",
        blocked=limits.blocked,
        calls_per_s=limits.calls_per_s(),
        sent=counts["sent"],
        refused=counts["refused"],
        failed=counts["failed"],
        usage=dict(usage),
    )


def _known(top: float) -> float | None:
    return top if top < math.inf else None
