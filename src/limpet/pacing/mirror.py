"""How much is left in the provider's own bucket, going by the headers of its responses?"""

from limpet.pacing.limits import Limit

LONGEST_WAIT_S = 60.0
"""Then a call is made all the same, whatever the headers said: a refusal is news, too."""
RESERVE = 0.01
"""The share of the bucket that is never touched: others may draw on it too."""


class Mirror:
    """A local copy of one bucket of the provider's, corrected by what each response says.

    A response speaks of the moment its request arrived, and other requests were sent since. So
    each request notes what the copy predicted for it; the response's word is compared with that,
    and the difference is applied to the level as it is now.
    """

    def __init__(self, limit: Limit, now: float) -> None:
        self.limit = limit.limit
        self._level = limit.remaining
        self._rate = limit.limit / 60  # until a reset tells better
        self._corrected = 0.0
        self._at = now
        self.mean_cost = 1.0

    def wait_s(self, cost: float, now: float) -> float:
        """Return the seconds until there is enough for a request of this cost."""
        self._refill(now)
        # More than the whole bucket cannot be had: what is refused then is not ours to judge.
        needed = min(cost + RESERVE * self.limit, self.limit)
        self._level = max(self._level, needed - LONGEST_WAIT_S * self._rate)
        return max(0.0, needed - self._level) / self._rate

    def take(self, cost: float, now: float) -> tuple[float, float, float]:
        """Send a request; returns what is needed to correct the copy by its response."""
        self._refill(now)
        self._level -= cost
        return self._level, self._corrected, cost

    def correct(self, limit: Limit, predicted: tuple[float, float, float] | None) -> None:
        """Take in what the response said of the bucket."""
        self.limit = limit.limit
        if limit.reset_s > 0 and limit.limit - limit.remaining > RESERVE * limit.limit:
            self._rate = (limit.limit - limit.remaining) / limit.reset_s  # reset: until it is full
        if predicted is None:
            return
        level, corrected, cost = predicted
        error = limit.remaining - (level + self._corrected - corrected)
        self._level += error
        self._corrected += error
        self.mean_cost += 0.1 * (max(0.0, cost - error) - self.mean_cost)

    def _refill(self, now: float) -> None:
        self._level = min(self.limit, self._level + (now - self._at) * self._rate)
        self._at = now
