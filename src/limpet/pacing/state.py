"""What is a pacer doing, why does it wait, and what does it remember for a later run?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.ceiling import PLATEAU_S, Ceiling
from limpet.pacing.limits import number

MEMORY_VERSION = 1

WORDS = {
    "rate": "at the provider's limit",
    "quota": "at the provider's limit per minute",
    "in_flight": "at the concurrency that pays off",
    "headers": "at the limit the provider names",
    "refused": "the provider refuses everything: probing",
    "down": "the provider is down: probing",
    "hold": "waiting as the provider asked",
    "start": "finding the limit",
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

    @property
    def words(self) -> str:
        """What limits the pace now, in words."""
        return WORDS[self.binding]

    def __str__(self) -> str:
        return f"{self.in_flight} in flight · {self.calls_per_s:.1f}/s · {self.words}"


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


# ---- memory ---------------------------------------------------------------------------------


def save_memory(limits: AdaptiveLimits) -> dict[str, Any]:
    """Return what the limits learned, as plain JSON."""
    tops = {name: ceiling.top for name, ceiling in _ceilings(limits).items() if ceiling.known}
    return {
        "version": MEMORY_VERSION,
        **tops,
        "latency_s": limits.steady_latency_s,
        "mean_cost": limits.mean_cost,
        "steady_rate": limits.steady_rate,
        "window": limits.rounds.window,
    }


def restore_memory(limits: AdaptiveLimits, learned: Mapping[str, Any]) -> None:
    """Start from what was learned. Invalid values and other versions are ignored."""
    if learned.get("version") != MEMORY_VERSION:
        return
    now = limits.clock()
    limits.latency_s = limits.steady_latency_s = _within(learned, "latency_s", 1e-3, 3600.0)
    limits.mean_cost = _within(learned, "mean_cost", 1e-3, 1e9)
    limits.steady_rate = number(learned.get("steady_rate")) or 0.0
    tops = dict(learned)
    # If no limit on the rate was met, the rate reached is the best place to start.
    tops.setdefault("rate", learned.get("steady_rate"))
    for name, ceiling in _ceilings(limits).items():
        top = number(tops.get(name))
        # Less than one call in ten minutes is not a plausible ceiling.
        if top and top >= limits.mean_cost / 600:
            ceiling.lower_to(top, now, math.inf, plateau_s=PLATEAU_S[1])
    window = number(learned.get("window"))
    if window:
        limits.rounds.window = min(max(limits.rounds.window, window), float(limits.max_in_flight))
    limits.rounds.open(now, limits.limit())


def _within(learned: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = number(learned.get(name))
    return 1.0 if value is None else min(max(value, least), most)


def _ceilings(limits: AdaptiveLimits) -> dict[str, Ceiling]:
    return {"rate": limits.rate, "in_flight": limits.in_flight_cap, "per_minute": limits.quota}
