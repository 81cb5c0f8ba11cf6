"""What was sent of late, and what was refused of it?"""

import math
from collections import deque

MINUTE_S = 60.0
KEPT_S = 2 * MINUTE_S


class Sent:
    """One request: when it was sent, what it cost, and how full it was at that moment."""

    __slots__ = ("at", "cost", "in_flight", "number", "owner", "predictions", "refused")

    def __init__(self, at: float, cost: float, in_flight: int, owner: object) -> None:
        self.at = at
        self.cost = cost
        self.in_flight = in_flight
        self.owner = owner
        self.number = 0  # which it is of all, in the order in which they were sent
        self.refused = False
        self.predictions: dict[str, tuple[float, float, float]] = {}


class Traffic:
    """The requests of the last two minutes.

    Attributes:
        minute_cost: What those of the last minute cost.
        count: How many there were in all.
    """

    def __init__(self) -> None:
        self._kept: deque[Sent] = deque()
        self._minute: deque[Sent] = deque()
        self.minute_cost = 0.0
        self.count = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, sent: Sent) -> None:
        """Note a request."""
        self.forget_old(sent.at)
        self.count += 1
        sent.number = self.count
        self._kept.append(sent)
        self._minute.append(sent)
        self.minute_cost += sent.cost

    def remove(self, sent: Sent) -> None:
        """Take back a request that was never made."""
        if sent in self._kept:
            self._kept.remove(sent)
        if sent in self._minute:
            self._minute.remove(sent)
            self.minute_cost -= sent.cost

    def forget_old(self, now: float) -> None:
        """Let go of what is too long ago."""
        while self._minute and self._minute[0].at <= now - MINUTE_S:
            self.minute_cost -= self._minute.popleft().cost
        while self._kept and self._kept[0].at < now - KEPT_S:
            self._kept.popleft()

    @property
    def since(self) -> float:
        """When the oldest request that is remembered was sent."""
        return self._kept[0].at if self._kept else math.inf

    @property
    def minute_since(self) -> float | None:
        """When the oldest request of the last minute was sent; None: there is none."""
        return self._minute[0].at if self._minute else None

    def accepted(self, since: float, until: float) -> list[Sent]:
        """Return what was sent between the two and not refused, as far as is known."""
        return [one for one in self._kept if since < one.at < until and not one.refused]

    def minute_before(self, until: float) -> list[float]:
        """Return what the accepted ones cost in the minute up to the last of them.

        Up to the last, and not up to now: silence is no measurement.
        """
        accepted = self.accepted(-math.inf, until)
        start = accepted[-1].at - MINUTE_S if accepted else 0.0
        return [one.cost for one in accepted if one.at >= start]

    def cost_of_the_last(self, seconds: float, until: float) -> float:
        """Return what the requests of the last seconds cost."""
        cost = 0.0
        for one in reversed(self._minute):
            if one.at < until - seconds:
                break
            cost += one.cost
        return cost

    def requests_per_s(self, now: float) -> float:
        """Return how many were sent per second, over all that is remembered."""
        return len(self._kept) / max(1.0, now - self.since) if self._kept else math.inf

    def requests_per_s_of_the_minute(self, now: float) -> float:
        """Return how many were sent per second over the last minute, or since the first."""
        self.forget_old(now)
        return len(self._minute) / max(1.0, now - self._minute[0].at) if self._minute else 0.0
