"""Does more concurrency buy more throughput?

A round is as many answers as there were calls in flight when it began: about one round trip. If
the window was the brake all through it, its throughput is compared with that of the last window
that paid. If it grew with the window, a larger one is tried; if it did not, only latency was
bought, and the window goes back.
"""

import math
from dataclasses import dataclass

PAYS = 0.25
"""The share of a window's growth that must show in throughput."""
PAYS_IN_FULL = 0.75
"""From this share on, nothing queues at the latency that was seen."""
QUEUES = 1.25
"""The growth in latency without which there is no queue, whatever the throughput looks like."""
SHORTEST_ROUND_S = 1.0
"""With short calls the window would double so fast that a whole burst runs into the limit."""
SAME, GROWN = 1.05, 1.5
"""Up to the one a window is the same as before; from the other on it tells something."""
LONG_CALL_S = 4.0
"""Calls from here on make rounds so long that each takes a larger step."""


@dataclass(frozen=True, slots=True)
class _Level:
    window: float
    throughput: float
    latency_s: float


class Rounds:
    """The slow start, and the check of each level it reaches.

    Attributes:
        window: How many calls may be in flight, as far as this tells.
        full: The window was the brake in this round.
        timeouts: Time-outs in this round.
    """

    def __init__(self, now: float, first_window: int) -> None:
        self.window = float(first_window)
        self._least = first_window
        self._paid: _Level | None = None
        self.open(now, first_window)

    def open(self, now: float, limit: int) -> None:
        """Begin a round at this many calls in flight."""
        self.opened_at = now
        self.full = False
        self.timeouts = 0
        self._limit = limit
        self._answers = 0
        self._latency_sum = 0.0

    def answered(self, latency_s: float) -> None:
        """Count an answer."""
        self._answers += 1
        self._latency_sum += latency_s

    def complete(self, now: float) -> bool:
        """Tell whether the round has its answers."""
        if now - self.opened_at < SHORTEST_ROUND_S:
            return False
        # The first has nothing to be compared with: half of them will do.
        share = 1.0 if self._paid else 0.5
        return self._answers >= share * max(self._limit, self._least)

    @property
    def many_timeouts(self) -> bool:
        """So many time-outs that they are no accident."""
        return self.timeouts >= max(3, 0.1 * self._answers)

    def judge(self, now: float, *, cap_known: bool, latency_s: float) -> float | None:
        """Move the window by what this full round has shown; returns a cap if one was seen."""
        latency = self._latency_sum / self._answers
        # Answers come in clumps where calls started in clumps; Little's law allows no more.
        throughput = min(self._answers / (now - self.opened_at), self._limit / latency)
        level = _Level(self._limit, throughput, latency)
        paid = self._paid or level
        grown = level.window / paid.window
        gain = (level.throughput / paid.throughput - 1) / (grown - 1) if grown >= GROWN else 1.0
        if gain < PAYS and level.latency_s < QUEUES * paid.latency_s:
            return None  # a full window and no queue, yet no more throughput: noise; look again
        if gain < PAYS:
            return self._fall_back(level, paid)
        least_latency = min(paid.latency_s, level.latency_s)
        if grown <= SAME:
            self._paid = _Level(level.window, level.throughput, least_latency)
        elif grown >= GROWN:
            seen = level.latency_s if gain >= PAYS_IN_FULL else least_latency
            self._paid = _Level(level.window, level.throughput, seen)
        step = 1.5 if cap_known else 2 + min(2.0, math.log2(max(1.0, latency_s / LONG_CALL_S)))
        self.window = math.ceil(step * level.window)
        return None

    def _fall_back(self, level: _Level, paid: _Level) -> float:
        """Go back to what paid; or, by Little's law, as far as it takes and as is no loss.

        What flows now, times the latency without a queue, is how many in flight it takes.
        """
        needed = level.throughput * paid.latency_s
        window = min(max(paid.window, needed), max(paid.window / 2, 2 * needed))
        self._paid = _Level(window, level.throughput, paid.latency_s)
        self.window = math.ceil(window)
        return window
