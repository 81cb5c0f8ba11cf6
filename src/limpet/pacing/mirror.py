"""How much is left in the provider's bucket, according to its response headers?"""

from limpet.pacing.limits import Limit

LONGEST_WAIT_S = 60.0
"""After this a call is made whatever the headers say: even a refusal is informative."""
RESERVE = 0.01
"""The share of the bucket that is never used: others may use it too."""


class Mirror:
    """A local copy of one of the provider's buckets, corrected by each response.

    A response describes the moment its request arrived, and other requests were sent since. So the
    copy's prediction is stored with each request; the response is compared with it, and the
    difference is applied to the current level.
    """

    def __init__(self, limit: Limit, now: float) -> None:
        self.limit = limit.limit
        self._level = limit.remaining
        self._rate = limit.limit / 60  # until a reset says otherwise
        self._corrected = 0.0
        self._at = now
        self.mean_cost = 1.0

    def wait_s(self, cost: float, now: float) -> float:
        """Return the seconds until there is enough for a request of this cost."""
        self._refill(now)
        # Never wait for more than the whole bucket: the provider may refuse the call then.
        needed = min(cost + RESERVE * self.limit, self.limit)
        self._level = max(self._level, needed - LONGEST_WAIT_S * self._rate)
        return max(0.0, needed - self._level) / self._rate

    def take(self, cost: float, now: float) -> tuple[float, float, float]:
        """Record a request. Returns what `correct` needs when its response arrives."""
        self._refill(now)
        self._level -= cost
        return self._level, self._corrected, cost

    def correct(self, limit: Limit, predicted: tuple[float, float, float] | None) -> None:
        """Correct the copy by what the response says about the bucket."""
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
