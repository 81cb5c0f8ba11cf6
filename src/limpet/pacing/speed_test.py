"""Was that refusal a limit? Call faster for a moment and see.

An isolated refusal may be the edge of a limit or random, and the same speed does not show which: a
bucket exceeded by 1% refuses one call in a hundred, and so does a faulty gateway. But a bucket that
has just refused is empty. At 1.5 times the speed it refuses every third call; random refusals stay
as rare as before. So about thirty calls tell the two apart, at the price of one or two more
refusals if it was a limit.

At a limit, tests fail, and each failed test makes the next one rarer.
"""

import math

from limpet.pacing.traffic import Sent

FASTER = 1.5
"""Multiple of the pace that is tried."""
ENOUGH = 1.25
"""Multiple of the pace that must be reached for a valid test."""
CALLS = 30
"""Calls in a test; a limit refuses a third of them."""
REFUSALS = (1, 2)
"""Refusals that fail a test: if a limit was expected there, and if not."""
APART = 200
"""Calls between the first two tests; doubled after each that fails."""


class SpeedTest:
    """A short time above the known limit, to see whether the limit is real.

    Attributes:
        running: Whether a test is running.
        refused: Refusals since it began.
    """

    def __init__(self) -> None:
        self.running = False
        self.refused = 0
        self._apart = APART
        self._last = -APART  # the number of the test's last call
        self._most = 0
        self._began_at = self._ended_at = 0.0
        self._longest_s = 0.0

    def may_begin(self, refusal: Sent) -> bool:
        """Return whether the last test was long enough ago."""
        return not self.running and refusal.number - self._last >= self._apart

    def begin(self, count: int, requests_per_s: float, now: float, *, expected: bool) -> None:
        """Start a test.

        Args:
            count: Number of calls so far.
            requests_per_s: The supposed limit.
            now: The time.
            expected: Whether a limit was expected where the refusal came.
        """
        self.running, self.refused = True, 0
        self._last = count + CALLS
        self._most = REFUSALS[0 if expected else 1]
        self._began_at, self._ended_at = now, math.inf
        self._longest_s = CALLS / (ENOUGH * requests_per_s)

    def factor(self, count: int) -> float:
        """Return the multiple of the pace to use after `count` calls."""
        return FASTER if self.running and count < self._last else 1.0

    def sent(self, sent: Sent) -> None:
        if sent.number == self._last:
            self._ended_at = sent.at

    def fails_with(self, refusal: Sent) -> bool:
        """Record a refusal. Returns whether it fails the test."""
        if not self.running:
            return False
        self.refused += refusal.number <= self._last
        if self.refused < self._most:
            return False
        self.running = False
        self._apart *= 2
        return True

    def passes_with(self, answered: Sent) -> bool:
        """Record an answer. Returns whether the test has ended and passed."""
        if not self.running or answered.number <= self._last:
            return False
        self.running = False
        # If it took longer, something else slowed us down, and the test is invalid.
        return self._ended_at - self._began_at <= self._longest_s
