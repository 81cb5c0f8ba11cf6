"""Is it a quota per minute, or did it only look like one?

A long wait may be a window that must pass; it may as well be what another job has used up, or an
incident. To take the few calls of the first second for all that a minute holds made hours of what
were seconds. So what looks like a small quota is only suspected until it is seen again.
"""

import math

from limpet.pacing.traffic import MINUTE_S

BELIEVED = 100
"""Accepted requests in a minute that are believed at once to be all it holds."""
NEAR = (0.7, 2.0)
"""What is taken for the same quota, as a share of it."""


class Suspicion:
    """A quota that was seen once."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Something else explains it."""
        self._top, self._at = math.inf, -math.inf

    def fits(self, cost: float) -> bool:
        """Tell whether a refusal after this much in a minute fits what was seen."""
        return NEAR[0] < cost / self._top < NEAR[1]

    def confirmed_by(self, count: int, top: float, at: float) -> bool:
        """Take in that a minute seems to hold so much; returns whether to believe it."""
        if count >= BELIEVED:
            return True
        if at - self._at < MINUTE_S / 2:
            return False  # the same minute, and mostly the same calls: it confirms nothing
        before, self._top, self._at = self._top, top, at
        return top / NEAR[1] < before < top * NEAR[1]
