"""How much may we use now, given where a limit was last seen, and when?"""

import math

DIP = 0.02
"""How far below a new top to continue. A measurement needs no more; a guess would."""
PLATEAU_S = (5.0, 30.0)
"""How long to stay at the top: the first time, and at most, when sightings agree."""
DOUBLING_S = 16.0
"""How long after the plateau twice the top is tried."""
FULL_SPEED = 10.0
"""Requests per second below which both times stretch: fewer requests bring less news."""
QUICK = 8.0
"""How many times shorter both are when the top is only a guess."""
AGREES = 0.1
GUESSED = 1.25
"""Up to this multiple of a guess counts as the guess."""


class Ceiling:
    """A learned limit, shaped like CUBIC: dip below the top, stay there, then probe for more.

    It is unlimited until the first `lower_to`.
    """

    def __init__(self) -> None:
        self.top = math.inf
        self._since = 0.0
        self._plateau_s = PLATEAU_S[0]
        self._stretch = 1.0

    @property
    def known(self) -> bool:
        return self.top < math.inf

    def at(self, now: float) -> float:
        """Return how much may be used now."""
        if self.top == math.inf:
            return math.inf
        elapsed = max(0.0, now - self._since) / self._stretch
        if elapsed < self._plateau_s:
            return self.top * (1 - DIP * (1 - elapsed / self._plateau_s) ** 3)
        return self.top * (1 + ((elapsed - self._plateau_s) / DOUBLING_S) ** 3)

    def is_fresh(self, now: float) -> bool:
        """Return whether it was lowered so recently that it is still well below the top."""
        return self.known and now - self._since < PLATEAU_S[0] / 2

    def tries_more(self, now: float) -> bool:
        """Return whether it now allows more than its known top."""
        return self.at(now) > self.top * (GUESSED if self._stretch < 1 else 1.0)

    def lower_to(
        self, top: float, now: float, requests_per_s: float, plateau_s: float | None = None
    ) -> None:
        """Use `top` as the limit from now on; stay longer if it agrees with the last one."""
        agrees = self.known and abs(top - self.top) < AGREES * self.top
        if plateau_s is None:
            plateau_s = min(PLATEAU_S[1], 1.5 * self._plateau_s) if agrees else PLATEAU_S[0]
        self._plateau_s = plateau_s
        self.top, self._since = top, now
        self._stretch = max(1.0, FULL_SPEED / requests_per_s)

    def guess(self, top: float, now: float) -> None:
        """Restart from `top` with a short plateau: if the guess is too low, that shows soon."""
        self.lower_to(top, now, math.inf)
        self._stretch = 1 / QUICK
