"""Is it a quota per minute, or does it only look like one?

A long wait may be a quota window that must pass; it may also come from another job's usage or an
incident. Treating the few calls of the first second as a minute's quota turned seconds into hours.
So a small quota is only suspected until it is seen again.
"""

import math

from limpet.pacing.traffic import MINUTE_S

BELIEVED = 100
"""Accepted requests in a minute from which a quota is believed at once."""
NEAR = (0.7, 2.0)
"""Range, relative to a quota, that counts as the same quota."""


class Suspicion:
    """A quota that was seen once."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop the suspicion: something else explains the wait."""
        self._top, self._at = math.inf, -math.inf

    def fits(self, cost: float) -> bool:
        """Return whether a refusal after this cost in a minute fits the suspected quota."""
        return NEAR[0] < cost / self._top < NEAR[1]

    def confirmed_by(self, count: int, top: float, at: float) -> bool:
        """Record a possible quota of `top` per minute. Returns whether to believe it."""
        if count >= BELIEVED:
            return True
        if at - self._at < MINUTE_S / 2:
            return False  # the same minute and mostly the same calls: no confirmation
        before, self._top, self._at = self._top, top, at
        return top / NEAR[1] < before < top * NEAR[1]
