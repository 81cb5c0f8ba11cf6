"""Does more concurrency buy more throughput?

A round is as many answers as there were calls in flight when it began: about one round trip. If the
window was the limit throughout the round, its throughput is compared with that of the last window
that paid off. If throughput grew with the window, a larger window is tried; if only latency grew,
the window shrinks back.
"""

import math
from dataclasses import dataclass

PAYS = 0.25
"""Share of the window's growth that throughput must gain."""
PAYS_IN_FULL = 0.75
"""From this share on, the measured latency includes no queueing."""
QUEUES = 1.25
"""Growth in latency below which there is no queue, whatever the throughput looks like."""
SHORTEST_ROUND_S = 1.0
"""With short calls, the window would double so fast that a whole burst hits the limit."""
SAME, GROWN = 1.05, 1.5
"""Growth up to which a window counts as unchanged; growth from which it can be compared."""
LONG_CALL_S = 4.0
"""Latency above which rounds are so long that each takes a larger step."""


@dataclass(frozen=True, slots=True)
class _Level:
    window: float
    throughput: float
    latency_s: float


class Rounds:
    """Slow start, with a check of each level it reaches.

    Attributes:
        window: How many calls may be in flight, by this measure.
        full: Whether the window was the limit in this round.
        timeouts: Timeouts in this round.
    """

    def __init__(self, now: float, first_window: int) -> None:
        self.window = float(first_window)
        self._least = first_window
        self._paid: _Level | None = None
        self.open(now, first_window)

    def open(self, now: float, limit: int) -> None:
        """Begin a round with this many calls in flight."""
        self.opened_at = now
        self.full = False
        self.timeouts = 0
        self._limit = limit
        self._answers = 0
        self._latency_sum = 0.0

    def answered(self, latency_s: float) -> None:
        self._answers += 1
        self._latency_sum += latency_s

    def complete(self, now: float) -> bool:
        """Return whether the round has enough answers."""
        if now - self.opened_at < SHORTEST_ROUND_S:
            return False
        # The first round is not compared with another: half of the answers will do.
        share = 1.0 if self._paid else 0.5
        return self._answers >= share * max(self._limit, self._least)

    @property
    def many_timeouts(self) -> bool:
        """Whether there are too many timeouts to be an accident."""
        return self.timeouts >= max(3, 0.1 * self._answers)

    def adjust(self, now: float, *, cap_known: bool, latency_s: float) -> float | None:
        """Adjust the window by this full round. Returns a cap if one was found."""
        latency = self._latency_sum / self._answers
        # Answers come in bursts if calls started in bursts; Little's law bounds the throughput.
        throughput = min(self._answers / (now - self.opened_at), self._limit / latency)
        level = _Level(self._limit, throughput, latency)
        paid = self._paid or level
        grown = level.window / paid.window
        gain = (level.throughput / paid.throughput - 1) / (grown - 1) if grown >= GROWN else 1.0
        if gain < PAYS and level.latency_s < QUEUES * paid.latency_s:
            return None  # a full window and no queue, yet no more throughput: noise; try again
        if gain < PAYS:
            return self._fall_back(level, paid)
        least_latency = min(paid.latency_s, level.latency_s)
        if grown <= SAME:
            self._paid = _Level(level.window, level.throughput, least_latency)
        elif grown >= GROWN:
            unqueued = level.latency_s if gain >= PAYS_IN_FULL else least_latency
            self._paid = _Level(level.window, level.throughput, unqueued)
        step = 1.5 if cap_known else 2 + min(2.0, math.log2(max(1.0, latency_s / LONG_CALL_S)))
        self.window = math.ceil(step * level.window)
        return None

    def _fall_back(self, level: _Level, paid: _Level) -> float:
        """Return to the window that paid off, or to the one needed by Little's law.

        The needed window is the current throughput times the latency without a queue.
        """
        needed = level.throughput * paid.latency_s
        window = min(max(paid.window, needed), max(paid.window / 2, 2 * needed))
        self._paid = _Level(window, level.throughput, paid.latency_s)
        self.window = math.ceil(window)
        return window
