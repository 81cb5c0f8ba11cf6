"""How fast does the provider's bucket refill?

Between two moments at which it was empty, what was accepted divided by the time between *is* its
refill rate, whatever its size. Here is kept when it was last seen empty, and whether it can have
run over since.
"""

import math

from limpet.pacing.traffic import Sent, Traffic

TRUST = 10
"""Accepted requests that make a measurement."""
TELLING_S = 1.5
"""A span from which on it tells something that little was accepted."""


class Bucket:
    """What happened since the provider's bucket was last seen empty.

    Attributes:
        empty_at: When that was; None: it was not, or nobody knows any more.
    """

    def __init__(self, traffic: Traffic) -> None:
        self.empty_at: float | None = None
        self._traffic = traffic
        self._braked_at: float | None = None
        self._braked_s = 0.0

    def brake(self, now: float, *, by_window: bool) -> None:
        """Note whether the window is what holds calls back from now on."""
        if by_window and self._braked_at is None:
            self._braked_at = now
        elif not by_window and self._braked_at is not None:
            self._braked_s += now - self._braked_at
            self._braked_at = None

    def hold(self, seconds: float) -> None:
        """Note that for so long nothing is sent at all."""
        self._braked_s += seconds

    def accepted(self, until: float) -> list[Sent]:
        """Return what was accepted since it was empty, or ever."""
        since = -math.inf if self.empty_at is None else self.empty_at
        return self._traffic.accepted(since, until)

    def measure(self, got: list[Sent], at: float) -> float | None:
        """Take in that it is empty; returns the refill rate if this is the second such moment."""
        # While the window was the brake, it may have run over: then it refilled more than was
        # accepted.
        steady = self._is_steady(at)
        self._braked_s = 0.0
        if self.empty_at is None or not steady:
            self.empty_at = at
            return None
        if len(got) < TRUST:
            return None
        rate = sum(one.cost for one in got) / self._span_s(at)
        self.empty_at = at
        return rate

    def most(self, at: float, cost: float) -> float:
        """Return the most that its rate can be, if it was empty then and is empty `at`.

        It refilled what was accepted, and less than one request more: `cost` in all. Over a short
        span that says little: the silence after a refusal weighs too much in it.
        """
        if self.empty_at is None or at - self.empty_at < TELLING_S or not self._is_steady(at):
            return math.inf
        span_s = self._span_s(at)
        return cost / span_s if span_s > 0 else math.inf

    def _is_steady(self, at: float) -> bool:
        return self.empty_at is None or self._braked_s < 0.1 * (at - self.empty_at)

    def _span_s(self, at: float) -> float:
        """Return the seconds that the log covers of the time since it was empty."""
        assert self.empty_at is not None
        return at - max(self.empty_at, self._traffic.since)
