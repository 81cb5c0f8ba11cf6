"""Why does it wait? What a pacer says of itself."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from limpet.pacing.adaptive import AdaptiveLimits

WORDS = {
    "rate": "at the provider's limit",
    "quota": "at the provider's limit per minute",
    "in_flight": "at the number in flight that pays",
    "headers": "at the limit the provider names",
    "refused": "the provider refuses everything: probing",
    "down": "the provider is down: probing",
    "hold": "waiting as the provider asked",
    "start": "finding the provider's limit",
    "most": "as many at a time as max_concurrency allows",
    "nothing": "as fast as calls come",
}
"""What each `binding` means to a person."""


@dataclass(frozen=True, slots=True)
class PacerState:
    """A pacer at one moment.

    Attributes:
        rate: The known ceiling in cost per second; None: none is known.
        in_flight_cap: The known ceiling of calls in flight.
        per_minute: The known ceiling in cost per minute.
        limit: Calls that may be in flight now.
        in_flight: Calls that are.
        waiting: Calls in line.
        binding: Which of them all holds the pace: a word.
        blocked: "refused" or "down" while nothing gets through.
        calls_per_s: Calls started per second, over the last minute.
        sent: Calls in all.
        refused: Of these, refused.
        failed: Of these, failed.
        usage: What the calls reported to have used.
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
    """A change of pace: when, of which endpoint, after what, and how it stands now."""

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
    """Put a pacer's inside into words and numbers."""
    begun = limits is not None
    limits = limits or AdaptiveLimits(lambda: 0.0, 1)
    return PacerState(
        rate=_known(limits.rate.top),
        in_flight_cap=_known(limits.in_flight_cap.top),
        per_minute=_known(limits.quota.top),
        limit=limits.limit(),
        in_flight=limits.in_flight,
        waiting=waiting,
        binding=limits.binding() if begun else "start",
        blocked=limits.blocked,
        calls_per_s=limits.calls_per_s(),
        sent=counts["sent"],
        refused=counts["refused"],
        failed=counts["failed"],
        usage=dict(usage),
    )


def _known(top: float) -> float | None:
    return top if top < math.inf else None
