"""What is known about one limit of an endpoint, and is the endpoint up?"""

import math
from dataclasses import dataclass

from limpet.pacing.traffic import Sent, Traffic

# ---- How much may we use now, given where a limit was last seen, and when? ----------------------

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
"""A ceiling up to this multiple of a guess does not exceed it."""


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


# ---- How fast does the provider's bucket refill? ------------------------------------------------
#
# Between two moments at which it was empty, the accepted cost divided by the time *is* its refill
# rate, whatever its size. So we record when the bucket was last empty, and whether it may have
# overflowed since.

TRUST = 10
"""Accepted requests needed for a measurement."""
TELLING_S = 1.5
"""Shortest span over which few accepted requests mean a low rate."""


class Bucket:
    """What happened since the provider's bucket was last empty.

    Attributes:
        empty_at: When it was last empty; None: unknown.
    """

    def __init__(self, traffic: Traffic) -> None:
        self.empty_at: float | None = None
        self._traffic = traffic
        self._braked_at: float | None = None
        self._braked_s = 0.0

    def brake(self, now: float, *, by_window: bool) -> None:
        """Record whether the window limits the calls from now on."""
        if by_window and self._braked_at is None:
            self._braked_at = now
        elif not by_window and self._braked_at is not None:
            self._braked_s += now - self._braked_at
            self._braked_at = None

    def hold(self, seconds: float) -> None:
        """Record a time in which nothing is sent."""
        self._braked_s += seconds

    def accepted(self, until: float) -> list[Sent]:
        """Return the requests accepted since it was last empty, or all accepted ones."""
        since = -math.inf if self.empty_at is None else self.empty_at
        return self._traffic.accepted(since, until)

    def measure(self, accepted: list[Sent], at: float) -> float | None:
        """Record that it is empty. Returns the refill rate if it was empty before."""
        # While the window was the limit, the bucket may have overflowed: then it refilled more
        # than was accepted.
        steady = self._is_steady(at)
        self._braked_s = 0.0
        if self.empty_at is None or not steady:
            self.empty_at = at
            return None
        if len(accepted) < TRUST:
            return None
        rate = sum(request.cost for request in accepted) / self._span_s(at)
        self.empty_at = at
        return rate

    def most(self, at: float, cost: float) -> float:
        """Return an upper bound of its rate, if it was empty before and is empty `at`.

        It refilled the accepted cost and less than one request more: `cost` in total. Over a short
        span the bound means little, because it is dominated by the pause after a refusal.
        """
        if self.empty_at is None or at - self.empty_at < TELLING_S or not self._is_steady(at):
            return math.inf
        span_s = self._span_s(at)
        return cost / span_s if span_s > 0 else math.inf

    def _is_steady(self, at: float) -> bool:
        return self.empty_at is None or self._braked_s < 0.1 * (at - self.empty_at)

    def _span_s(self, at: float) -> float:
        """Return the seconds since it was empty that the traffic log covers."""
        assert self.empty_at is not None
        return at - max(self.empty_at, self._traffic.since)


# ---- Does more concurrency buy more throughput? -------------------------------------------------
#
# A round is as many answers as there were calls in flight when it began: about one round trip. If
# the window was the limit throughout the round, its throughput is compared with that of the last
# window that paid off. If throughput grew with the window, a larger window is tried; if only
# latency grew, the window shrinks back.

PAYS = 0.25
"""Share of the window's growth that throughput must gain."""
PAYS_IN_FULL = 0.75
"""From this share on, the measured latency includes no queueing."""
QUEUES = 1.25
"""Growth in latency below which there is no queue, whatever the throughput looks like."""
SHORTEST_ROUND_S = 1.0
"""With short calls, the window would otherwise double so fast that a burst hits the limit."""
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


# ---- Was that refusal a limit? Call faster for a moment and see. --------------------------------
#
# An isolated refusal may be the edge of a limit or random, and the same speed does not show which:
# a bucket exceeded by 1% refuses one call in a hundred, and so does a faulty gateway. But a bucket
# that has just refused is empty. At 1.5 times the speed it refuses every third call; random
# refusals stay as rare as before. So about thirty calls tell the two apart, at the price of one or
# two more refusals if it was a limit.
#
# At a limit, tests fail, and each failed test makes the next one rarer.

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


# ---- Is the endpoint down or refusing everything? Then send one probe at a time, ever more rarely.

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
