"""Is the endpoint down or refusing everything? Then send one probe at a time, ever more rarely."""

from limpet.pacing.traffic import Sent

SILENCE_S = (0.5, 15.0)
"""Pause after an unexplained refusal, and the longest pause between two probes."""
LONG_BLOCK_S = 4.0
"""A block longer than this is a time window that must pass, not a bucket that refills."""
PROBE_PATIENCE_S = 2.0
"""A probe that is not refused within this time has succeeded."""


class Breaker:
    """A circuit breaker: whether calls succeed, and what the probes show while they do not.

    Attributes:
        why: Why only probes are sent, "refused" or "down"; None while calls succeed.
        since: When that began.
        first: The call with which it began.
        probe: The probe in flight.
        refused_at: When the last probe was sent, if it was refused.
        least_refused: The lowest number in flight at which a call was refused.
    """

    def __init__(self) -> None:
        self.why: str | None = None
        self.since = 0.0
        self.first: Sent | None = None
        self.probe: Sent | None = None
        self.refused_at: float | None = None
        self.least_refused = 0
        self._gap_s = 0.0

    @property
    def long(self) -> bool:
        """Blocked for longer than almost any bucket takes to refill."""
        return self._gap_s >= LONG_BLOCK_S

    def block(self, sent: Sent, now: float, why: str) -> float:
        """Record a call that did not succeed. Returns the pause before the next probe."""
        if not self.why:
            self.why, self.since, self.first = why, now, sent
            self._gap_s, self.refused_at = SILENCE_S[0], None
            self.least_refused = sent.in_flight
        else:
            self._gap_s = min(SILENCE_S[1], 2 * self._gap_s)
            self.refused_at = sent.at if why == "refused" else None
            self.least_refused = min(self.least_refused, sent.in_flight)
        self.probe = None
        return self._gap_s

    def wait_s(self, probe: Sent, now: float) -> float | None:
        """Return the seconds until the probe counts as a success; None: only its answer shows."""
        if self.why == "down":
            return None
        # A refusal would have arrived by then; an answer may take long.
        return max(0.0, probe.at + PROBE_PATIENCE_S - now)

    def freed_by_an_answer(self) -> bool:
        """Return whether calls were refused at a number in flight, but succeed below it."""
        return self.probe is not None and max(1, self.probe.in_flight) < self.least_refused

    def close(self) -> None:
        """Calls succeed again."""
        self.why = self.first = self.probe = None
