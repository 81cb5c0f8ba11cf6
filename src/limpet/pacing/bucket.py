"""How fast does the provider's bucket refill?

Between two moments at which it was empty, the accepted cost divided by the time *is* its refill
rate, whatever its size. This module records when the bucket was last empty, and whether it may have
overflowed since.
"""

import math

from limpet.pacing.traffic import Sent, Traffic

TRUST = 10
"""Accepted requests needed for a measurement."""
TELLING_S = 1.5
"""Shortest span over which few accepted requests mean a low rate."""


class Bucket:
    """What happened since the provider's bucket was last empty.

    Attributes:
        empty_at: When it was last empty; None: unknown.
    """

    def __init__(self, traffic: Traffic) -> None:
        self.empty_at: float | None = None
        self._traffic = traffic
        self._braked_at: float | None = None
        self._braked_s = 0.0

    def brake(self, now: float, *, by_window: bool) -> None:
        """Record whether the window limits the calls from now on."""
        if by_window and self._braked_at is None:
            self._braked_at = now
        elif not by_window and self._braked_at is not None:
            self._braked_s += now - self._braked_at
            self._braked_at = None

    def hold(self, seconds: float) -> None:
        """Record a time in which nothing is sent."""
        self._braked_s += seconds

    def accepted(self, until: float) -> list[Sent]:
        """Return the requests accepted since it was last empty, or all accepted ones."""
        since = -math.inf if self.empty_at is None else self.empty_at
        return self._traffic.accepted(since, until)

    def measure(self, accepted: list[Sent], at: float) -> float | None:
        """Record that it is empty. Returns the refill rate if it was empty before."""
        # While the window was the limit, the bucket may have overflowed: then it refilled more
        # than was accepted.
        steady = self._is_steady(at)
        self._braked_s = 0.0
        if self.empty_at is None or not steady:
            self.empty_at = at
            return None
        if len(accepted) < TRUST:
            return None
        rate = sum(request.cost for request in accepted) / self._span_s(at)
        self.empty_at = at
        return rate

    def most(self, at: float, cost: float) -> float:
        """Return an upper bound of its rate, if it was empty before and is empty `at`.

        It refilled the accepted cost and less than one request more: `cost` in total. Over a short
        span the bound means little, because it is dominated by the pause after a refusal.
        """
        if self.empty_at is None or at - self.empty_at < TELLING_S or not self._is_steady(at):
            return math.inf
        span_s = self._span_s(at)
        return cost / span_s if span_s > 0 else math.inf

    def _is_steady(self, at: float) -> bool:
        return self.empty_at is None or self._braked_s < 0.1 * (at - self.empty_at)

    def _span_s(self, at: float) -> float:
        """Return the seconds since it was empty that the traffic log covers."""
        assert self.empty_at is not None
        return at - max(self.empty_at, self._traffic.since)
