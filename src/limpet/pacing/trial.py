"""Was that the limit? Go faster for a moment and see.

A refusal that comes alone may be the edge of a limit or chance, and to go on at the same pace does
not tell: a bucket that is overrun by 1% refuses one call in a hundred, and so does a gateway with a
fault. But a bucket that has just refused is empty. If we go half as fast again right away, it
refuses every third call; chance refuses no more than before. So a trial of some thirty calls tells
the two apart, at the price of one or two more refusals where it was a limit.

At a limit, trials fail, and each that does makes the next one rarer.
"""

import math

from limpet.pacing.traffic import Sent

FASTER = 1.5
"""How many times the pace is tried."""
ENOUGH = 1.25
"""How many times the pace must be reached for it to tell anything."""
CALLS = 30
"""How many calls a trial has; a limit refuses a third of them."""
REFUSALS = (1, 2)
"""So many more are no chance: where the first was to be expected of a limit, and where not."""
APART = 200
"""Calls between the first two trials; after each that fails, twice as many."""


class Trial:
    """A moment in which we go faster than is known to be taken, to see whether that is true.

    Attributes:
        running: There is one.
        refused: How many were refused since it began.
    """

    def __init__(self) -> None:
        self.running = False
        self.refused = 0
        self._apart = APART
        self._last = -APART  # the number of its last call
        self._most = 0
        self._began_at = self._ended_at = 0.0
        self._longest_s = 0.0

    def may_begin(self, refusal: Sent) -> bool:
        """Tell whether the last one was long enough ago."""
        return not self.running and refusal.number - self._last >= self._apart

    def begin(self, count: int, requests_per_s: float, now: float, *, expected: bool) -> None:
        """Go faster from now on, after so many calls.

        Args:
            count: How many calls there were.
            requests_per_s: The pace that is held to be the limit.
            now: The time.
            expected: A limit was to be expected where the refusal came.
        """
        self.running, self.refused = True, 0
        self._last = count + CALLS
        self._most = REFUSALS[0 if expected else 1]
        self._began_at, self._ended_at = now, math.inf
        self._longest_s = CALLS / (ENOUGH * requests_per_s)

    def factor(self, count: int) -> float:
        """Return how many times the pace to go, after so many calls."""
        return FASTER if self.running and count < self._last else 1.0

    def sent(self, sent: Sent) -> None:
        """A call is made."""
        if sent.number == self._last:
            self._ended_at = sent.at

    def fails_with(self, refusal: Sent) -> bool:
        """Take in a refusal; returns whether it is one too many."""
        if not self.running:
            return False
        self.refused += refusal.number <= self._last
        if self.refused < self._most:
            return False
        self.running = False
        self._apart *= 2
        return True

    def passes_with(self, answered: Sent) -> bool:
        """Take in an answer; returns whether with it all is over, and was taken."""
        if not self.running or answered.number <= self._last:
            return False
        self.running = False
        # Else something else has held us back, and it tells nothing.
        return self._ended_at - self._began_at <= self._longest_s
