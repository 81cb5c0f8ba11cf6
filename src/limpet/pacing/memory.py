"""What does a pacer remember from one run to the next?"""

import math
from collections.abc import Mapping
from typing import Any

from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.ceiling import PLATEAU_S, Ceiling
from limpet.pacing.limits import number

VERSION = 1


def save(limits: AdaptiveLimits) -> dict[str, Any]:
    """Return what the limits learned, as plain JSON."""
    tops = {name: ceiling.top for name, ceiling in _ceilings(limits).items() if ceiling.known}
    return {
        "version": VERSION,
        **tops,
        "latency_s": limits.steady_latency_s,
        "mean_cost": limits.mean_cost,
        "steady_rate": limits.steady_rate,
        "window": limits.rounds.window,
    }


def restore(limits: AdaptiveLimits, learned: Mapping[str, Any]) -> None:
    """Start from what was learned. Invalid values and other versions are ignored."""
    if learned.get("version") != VERSION:
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
