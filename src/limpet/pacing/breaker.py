"""Does anything get through? While nothing does: one probe at a time, ever more rarely."""

from limpet.pacing.traffic import Sent

SILENCE_S = (0.5, 15.0)
"""Silence after a refusal nothing explains, and between two probes at most."""
LONG_BLOCK_S = 4.0
"""Blocked for longer than this, it is a window that must pass, not a bucket that refills."""
PROBE_PATIENCE_S = 2.0
"""A probe that was not refused within this time has got through."""


class Breaker:
    """Whether calls get through, and what the probes have shown while they do not.

    Attributes:
        why: Why only probes are sent, "refused" or "down"; None while calls get through.
        since: When that began.
        first: The call with which it began.
        probe: The probe that is under way.
        refused_at: When the last probe was sent, if it was refused.
        least_refused: The fewest in flight at which one was refused.
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
        """No bucket takes so long to refill, or hardly any."""
        return self._gap_s >= LONG_BLOCK_S

    def block(self, sent: Sent, now: float, why: str) -> float:
        """Note that a call did not get through; returns the silence before the next probe."""
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
        """Return the seconds until the probe has got through; None: only its answer will tell."""
        if self.why == "down":
            return None
        # A refusal would have come back by then; an answer may take long.
        return max(0.0, probe.at + PROBE_PATIENCE_S - now)

    def freed_by_an_answer(self) -> bool:
        """Tell whether we were blocked at a number in flight, and not any more below it."""
        return self.probe is not None and max(1, self.probe.in_flight) < self.least_refused

    def close(self) -> None:
        """Calls get through again."""
        self.why = self.first = self.probe = None
