"""What is known about one limit of an endpoint, and is the endpoint up?"""

import math
from dataclasses import astuple, dataclass, replace
from typing import Any

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
        self._stretch, self._dip = 1.0, DIP

    @property
    def known(self) -> bool:
        return self.top < math.inf

    @property
    def state(self) -> list[float]:
        """What `restore` needs."""
        return [self.top, self._since, self._plateau_s, self._stretch, self._dip]

    def restore(self, state: list[float]) -> None:
        """Become the ceiling with this state."""
        self.top, self._since, self._plateau_s, self._stretch, self._dip = state

    def at(self, now: float) -> float:
        """Return how much may be used now."""
        if self.top == math.inf:
            return math.inf
        elapsed = max(0.0, now - self._since) / self._stretch
        if elapsed < self._plateau_s:
            return self.top * (1 - self._dip * (1 - elapsed / self._plateau_s) ** 3)
        return self.top * (1 + ((elapsed - self._plateau_s) / DOUBLING_S) ** 3)

    def tries_more(self, now: float) -> bool:
        """Return whether it now allows more than its known top."""
        return self.at(now) > self.top * (GUESSED if self._stretch < 1 else 1.0)

    def lower_to(
        self,
        top: float,
        now: float,
        requests_per_s: float,
        plateaus_s: tuple[float, float] = PLATEAU_S,
        dip: float = DIP,
    ) -> None:
        """Use `top` as the limit from now on; stay longer if it agrees with the last one."""
        self._dip = dip
        agrees = self.known and abs(top - self.top) < AGREES * self.top
        first, most = plateaus_s
        self._plateau_s = min(most, 1.5 * self._plateau_s) if agrees else first
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
# A round looks at a cohort: calls sent one after the other while the window W was nearly full. As
# soon as half of them are answered, their median latency L is known, and by Little's law W / L is
# the throughput. If it grew with the window, a larger one is tried; if only latency grew, the
# window shrinks back, and a larger one is tried again from time to time.
#
# How far to go next: four times as far if there is no sign of a queue; but only so far that calls
# would take five to eight times as long as on the idle server if the larger window bought nothing.
#
# With long calls, waiting for the first window would be most of the search. But in a queue, no call
# overtakes others: if one of the first three answers is to a call of the window's later half, that
# window at least is not queued.

PAYS = 0.08, 0.4
"""Share of the window's growth that throughput must gain: in the search, and after it."""
PAYS_WELL, PAYS_IN_FULL = 0.5, 0.75
"""Shares from which a large step is taken, and from which the latency includes no queueing."""
QUEUES = 1.25
"""Growth in latency below which there is no queue, whatever the throughput looks like."""
LONGEST_QUEUE = 5.0
"""Multiple of the idle latency that a search may cost. Batching of 1.5 to 6 s, knees of 8 to 32."""
SHORTEST_ROUND_S = 1.0
"""With short calls, the window would otherwise double so fast that a burst hits the limit."""
GROWN, PROBE = 1.2, 1.5
"""Growth from which two windows can be compared; how much more is tried after the search."""
NEARLY = 0.5
"""Share of a window that is nearly full."""
FIRST_STEP = 3.0
"""The step after the first window, if nothing overtook. Eight slots: more costs timeouts."""
FIRST_QUEUE = 8.0
"""The same as LONGEST_QUEUE, for the first step: the shortest latency is the idle one. One slot."""
SLOWER = 1.5
"""Growth in latency from which a server is slower than an earlier run remembers."""
OVERTAKEN = {(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6), (3, 7), (3, 8)}
"""Answers to calls of the first window's later half among so many answers: it is not queued."""
COHORT = (16, 0.25), (64, 1.0)
"""Size of a cohort, at least and as a share of the window: in the search, and after it."""
ROUNDS = 4, 32
"""Rounds at the window that was found between two tries of a larger one, at first and at most."""


@dataclass(frozen=True, slots=True)
class _Level:
    window: float
    in_flight: float  # when its cohort was sent
    throughput: float
    latency_s: float  # without a queue


class Rounds:
    """Slow start, with a check of each level it reaches.

    Attributes:
        window: How many calls may be in flight, by this measure.
        found: Whether a larger window did not pay.
        full: Whether the window was the limit in this round.
        timeouts: Timeouts in this round.
    """

    def __init__(self, now: float, first_window: int) -> None:
        self.window = float(first_window)
        self.found = False
        self._overtook = 0
        self._paid: _Level | None = None
        self._expected: tuple[_Level, bool] | None = None  # by an earlier run
        self._rounds, self._stayed = ROUNDS[0], 0
        self.open(now)

    def expect(self, window: float, idle_s: float, *, found: bool) -> None:
        """Go to the window of an earlier run, if the first calls take no longer than then.

        Args:
            window: The window.
            idle_s: The latency without a queue.
            found: Whether a larger window did not pay.
        """
        if window > self.window:
            self._expected = _Level(window, window, window / idle_s, idle_s), found

    @property
    def state(self) -> list[Any]:
        """What `restore` needs."""
        paid = None if self._paid is None else astuple(self._paid)
        return [self.window, self.found, paid, self._rounds, self._stayed]

    def restore(self, state: list[Any]) -> None:
        """Stand where another process stands."""
        self.window, self.found, paid, self._rounds, self._stayed = state
        self._paid = None if paid is None else _Level(*paid)

    @property
    def steady_window(self) -> float:
        """The window, without a try for more."""
        return self._paid.window if self.found and self._paid else self.window

    @property
    def idle_s(self) -> float | None:
        """The latency without a queue, as far as it is known."""
        return None if self._paid is None else self._paid.latency_s

    def open(self, now: float) -> None:
        """Begin a round."""
        self.opened_at = now
        self.full = False
        self.timeouts = 0
        self._answers = 0
        self._limit = 0  # the window when its cohort was sent
        self._cohort: range | None = None  # the numbers of its calls
        self._over = False  # calls far behind it are answered
        self._latencies: list[float] = []
        self._in_flight = 0

    def sent(self, sent: Sent, limit: int) -> None:
        """Record a call; `limit`: how many may be in flight."""
        if self._cohort is None and (not self._paid or sent.in_flight + 1 >= NEARLY * limit):
            least, share = COHORT[self.found]
            size = max(least, math.ceil(share * limit))
            self._limit, self._cohort = limit, range(sent.number, sent.number + size)

    def answered(self, sent: Sent, latency_s: float) -> None:
        self._answers += 1
        if self._cohort is None or sent.number not in self._cohort:
            self._over = (
                self._cohort is not None and sent.number > self._cohort.stop + 4 * self._limit
            )
            return
        self._latencies.append(latency_s)
        self._in_flight += sent.in_flight + 1
        first = not self._paid and not self._expected
        if first and self.window == self._limit and latency_s > SHORTEST_ROUND_S:
            self._overtook += sent.number >= self._cohort[len(self._cohort) // 2]
            if (self._overtook, len(self._latencies)) in OVERTAKEN:
                self.window = 4.0 * self._limit

    def complete(self, now: float) -> bool:
        """Return whether half of the cohort is answered, or never will be."""
        if self._cohort is None or now - self.opened_at < SHORTEST_ROUND_S:
            return False
        return self._over or len(self._latencies) >= len(self._cohort) / 2

    @property
    def many_timeouts(self) -> bool:
        """Whether there are too many timeouts to be an accident."""
        return self.timeouts >= max(3, 0.1 * self._answers)

    def adjust(self, *, cap_known: bool, bold: bool) -> None:
        """Adjust the window by this full round; `bold`: in large steps."""
        assert self._cohort is not None
        paid, half = self._paid, len(self._cohort) // 2
        if len(self._latencies) < half:  # the others were refused, or take very long
            return
        latency_s = sorted(self._latencies)[half - 1]  # the median: the others take longer
        in_flight = self._in_flight / len(self._latencies) if paid else self._limit
        level = _Level(self._limit, in_flight, in_flight / latency_s, latency_s)
        if paid is None:
            self._paid = level
            expected, self._expected = self._expected, None
            if expected and level.latency_s <= SLOWER * expected[0].latency_s:
                self.window, self.found = expected[0].window, expected[1]
                self._paid = expected[0] if self.found else level
                return
            most = FIRST_QUEUE * min(self._latencies) * level.throughput
            self.window = max(self.window, min(most, (FIRST_STEP if bold else 2.0) * self._limit))
            return
        if self.found and self._limit <= paid.window:
            self._stay(level, paid)
            return
        grown = level.in_flight / paid.in_flight
        if grown < GROWN:
            self.window = max(self.window, math.ceil(PROBE * self._limit))  # cannot be compared yet
            return
        gain = (level.throughput / paid.throughput - 1) / (grown - 1)
        if gain < PAYS[self.found]:
            if self.found or level.latency_s > QUEUES * paid.latency_s:
                self._fall_back(level, paid)
            return  # otherwise there is no queue and still no more throughput: try again
        idle_s = level.latency_s if gain >= PAYS_IN_FULL else paid.latency_s
        self._paid = replace(level, latency_s=idle_s)
        step = PROBE if cap_known or self.found else 4 if bold and gain >= PAYS_WELL else 2
        self.window = math.ceil(step * self._limit)
        if not self.found:
            most = LONGEST_QUEUE * idle_s * level.throughput * self._limit / level.in_flight
            if most < GROWN * self._limit:
                self.find(self._limit)
            else:
                self.window = min(self.window, math.ceil(most))

    def _stay(self, level: _Level, paid: _Level) -> None:
        """Measure the window that was found once more; try a larger one from time to time."""
        throughput = paid.throughput + (level.throughput - paid.throughput) / 4
        self._paid = replace(
            paid, window=self._limit, in_flight=level.in_flight, throughput=throughput
        )
        self._stayed += 1
        if self._stayed >= self._rounds:
            self._stayed = 0
            self.window = math.ceil(PROBE * self._limit)

    def _fall_back(self, level: _Level, paid: _Level) -> None:
        """Return to the window that paid off, or to the one needed by Little's law.

        The needed window is the current throughput times the latency without a queue.
        """
        if self.found:
            self._rounds = min(2 * self._rounds, ROUNDS[1])
            self.window = paid.window
            return
        needed = level.throughput * paid.latency_s
        self._paid = replace(paid, throughput=level.throughput)
        self.find(min(max(paid.window, needed), max(paid.window / 2, 3 * needed)))

    def find(self, window: float) -> None:
        """Stay at this window: a larger one does not pay."""
        self.found, self._stayed = True, 0
        self.window = float(max(1, round(min(window, self.window))))
        if self._paid:
            self._paid = replace(self._paid, window=self.window, in_flight=self.window)


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
