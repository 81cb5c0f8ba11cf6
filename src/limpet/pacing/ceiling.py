"""Where is the limit now: what was it when last seen, and how long ago was that?"""

import math

DIP = 0.02
"""How far below a new top to start again. A measurement deserves no more; a guess would."""
PLATEAU_S = (5.0, 30.0)
"""How long to stay at the top: after a first sighting, and at most, after many that agree."""
DOUBLING_S = 16.0
"""How long past the plateau until twice the top is tried."""
FULL_SPEED = 10.0
"""Requests a second below which both stretch in proportion: news comes as slowly as requests."""
QUICK = 8.0
"""How many times sooner both end where the top is only a guess."""
FRESH_S = 10.0
"""No longer than this, however long the plateau is."""
AGREES = 0.1
GUESSED = 1.25
"""Up to this many times a guess, it is still taken for the same."""


class Ceiling:
    """A learned limit, shaped like CUBIC: dip under the top, stay there, then try for more.

    It is unlimited until the first `lower_to`.
    """

    def __init__(self) -> None:
        self.top = math.inf
        self._since = 0.0
        self._plateau_s = PLATEAU_S[0]
        self._stretch = 1.0

    @property
    def known(self) -> bool:
        """A limit was seen."""
        return self.top < math.inf

    def at(self, now: float) -> float:
        """Return what may be used now."""
        elapsed = max(0.0, now - self._since) / self._stretch
        if elapsed < self._plateau_s:
            return self.top * (1 - DIP * (1 - elapsed / self._plateau_s) ** 3)
        return self.top * (1 + ((elapsed - self._plateau_s) / DOUBLING_S) ** 3)

    def is_fresh(self, now: float) -> bool:
        """Tell whether it was lowered so short a time ago that it is still well below the top."""
        return self.known and now - self._since < min(self._plateau_s * self._stretch / 2, FRESH_S)

    def tries_more(self, now: float) -> bool:
        """Tell whether it allows more than it is known to be."""
        return self.at(now) > self.top * (GUESSED if self._stretch < 1 else 1.0)

    def lower_to(
        self, top: float, now: float, requests_per_s: float, plateau_s: float | None = None
    ) -> None:
        """Take `top` for the limit from now on; stay at it longer if it was the limit before."""
        agrees = self.known and abs(top - self.top) < AGREES * self.top
        if plateau_s is None:
            plateau_s = min(PLATEAU_S[1], 1.5 * self._plateau_s) if agrees else PLATEAU_S[0]
        self._plateau_s = plateau_s
        self.top, self._since = top, now
        self._stretch = max(1.0, FULL_SPEED / requests_per_s)

    def guess(self, top: float, now: float) -> None:
        """Start again from `top`, which is worth no stay: if it was too low, that shows soon."""
        self.lower_to(top, now, math.inf)
        self._stretch = 1 / QUICK
