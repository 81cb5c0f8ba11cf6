"""Which limits of an endpoint are known, and which one does a refusal lower?

A refusal may be about any of three limits. Which one:

- refused repeatedly above a number in flight, with nothing accepted above it: that number is a cap;
- blocked for longer than a few seconds, after many calls or for the second time, or near the known
  quota of a minute: a quota per minute;
- otherwise: the rate (`Bucket`).

A refusal among the first calls measures nothing: few calls were sent, and another client may be the
cause. Taking the calls sent so far for the limit led to crawls of an hour. So it is only a guess,
from which the ceiling climbs so fast that either the next refusal measures the limit, or only
seconds are lost.

A long wait may be a quota window that must pass; it may also come from another job's usage or an
incident. Treating the few calls of the first second as a minute's quota turned seconds into hours.
So a small quota is only suspected until it is seen again.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from limpet.pacing.chance import Chance
from limpet.pacing.estimates import (
    DIP,
    FULL_SPEED,
    LONG_BLOCK_S,
    SILENCE_S,
    TELLING_S,
    TRUST,
    Breaker,
    Bucket,
    Ceiling,
    Rounds,
)
from limpet.pacing.traffic import MINUTE_S, Sent, Traffic

FIRST_WINDOW = 16
"""Calls in flight to begin with."""
FEW = 2 * FIRST_WINDOW
"""Accepted requests below which a first refusal means little."""
MANY_A_MINUTE = 120
"""Requests per minute below which more is tried less and less often."""
LONGEST_SPREAD_S = 2.0
"""A window is spread over a round trip, but at most over this. A bucket of 20/s, calls of 30 s."""
CLIMBS = 3
"""Refusals at the same number in flight that reveal a cap. Caps of 3 to 32, calls of 1 s."""
OVERFLOWED, LIFT = 1.15, 1.25
"""If the last seconds were this much faster than the measured rate, the bucket was full before and
takes more; by how much to exceed the measurement then. A bucket of 2 at 20 a second.
"""
RECENT_S = 2.0
"""Period over which the recent rate is measured."""
MOST_ON_THE_WAY = 0.25
"""Maximum share of the calls in flight that are on the network; above it, no cap is inferred."""
BELOW = 0.94
"""Share of a cap to fall back to when random refusals obscure it."""
LONG_WAIT_S = 10.0
"""A named wait above this is taken for the rest of a quota's minute at once."""
DOUBTED = 0.35
"""Lowest share of the last rate to decrease to at once, if the refusal may be random."""
PAUSE_S = 1.0
"""How long all calls wait if one was told to wait longer, but the refusal may be random."""

BELIEVED_QUOTA = 100
"""Accepted requests in a minute from which a quota is believed at once."""
QUOTA_PLATEAU_S, SLOWER, SLOWEST = (30.0, 120.0), 8.0, 10.0
"""How long to stay at a quota, and how many times slower to climb than at a rate; at most so many
times slower again if few calls fit into a minute. A try may cost a minute: a proxy that says 60 s.
"""
NEAR = (0.7, 2.0)
"""Range, relative to a quota, taken for the same quota."""


class Suspicion:
    """A quota that was seen once."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop the suspicion: something else explains the wait."""
        self._top, self._at = math.inf, -math.inf

    def fits(self, cost: float) -> bool:
        """Return whether a refusal after this cost in a minute fits the suspected quota."""
        return NEAR[0] < cost / self._top < NEAR[1]

    def confirmed_by(self, count: int, top: float, at: float) -> bool:
        """Record a possible quota of `top` per minute. Returns whether to believe it."""
        if count >= BELIEVED_QUOTA:
            return True
        if at - self._at < MINUTE_S / 2:
            return False  # the same minute and mostly the same calls: no confirmation
        before, self._top, self._at = self._top, top, at
        return top / NEAR[1] < before < top * NEAR[1]


class KnownLimits:
    """The limits of one endpoint that refusals have shown.

    Attributes:
        rate: Limit in cost per second.
        in_flight_cap: Limit of requests in flight.
        quota: Limit in cost per minute.
        rounds: The window by slow start.
        breaker: Whether calls succeed.
        hold_until: No call starts before this time.
    """

    def __init__(
        self, clock: Callable[[], float], max_in_flight: int, *, fixed: bool = False
    ) -> None:
        self.clock = clock
        self.max_in_flight = max_in_flight
        self.fixed = fixed
        self.rate, self.in_flight_cap, self.quota = Ceiling(), Ceiling(), Ceiling()
        self.rounds = Rounds(clock(), FIRST_WINDOW)
        self.breaker = Breaker()
        self.hold_until = -math.inf
        self.latency_s, self.mean_cost = 1.0, 1.0
        self.chance = Chance()
        self._refusal_s = 0.05
        self._traffic = Traffic(1.0 if fixed else MINUTE_S)
        self._bucket = Bucket(self._traffic)
        self._suspicion = Suspicion()
        self._refusals: deque[Sent] = deque(maxlen=CLIMBS)  # the first refusal of each episode
        self._decreased_at = -math.inf
        self._decreased_number = 0
        self._quota_decreased = False  # the last decrease was the quota's
        self._lifted = False  # the rate is above what was measured

    @property
    def state(self) -> list[Any]:
        """What another process needs to stand where this one does."""
        ceilings = [ceiling.state for ceiling in (self.rate, self.in_flight_cap, self.quota)]
        times = [self.hold_until, self._decreased_at, self._bucket.empty_at, self.latency_s]
        return [*ceilings, self.rounds.state, *times]

    def restore(self, state: list[Any]) -> None:
        """Stand where another process stands."""
        rate, cap, quota, rounds, *times = state
        self.rate.restore(rate)
        self.in_flight_cap.restore(cap)
        self.quota.restore(quota)
        self.rounds.restore(rounds)
        self.hold_until, self._decreased_at, self._bucket.empty_at, self.latency_s = times

    @property
    def blocked(self) -> str | None:
        """Why only probes are sent; None while calls succeed."""
        return self.breaker.why

    def limit(self) -> int:
        """Return how many calls may be in flight now."""
        if self.fixed:
            return self.max_in_flight
        now = self.clock()
        allowed = min(self.rounds.window, self.in_flight_cap.at(now), self.max_in_flight)
        return max(1, round(allowed))

    def pace(self) -> float:
        """Return the cost per second at which calls may start now."""
        if self.fixed:
            return math.inf
        # While no limit is known, a window is spread over a round trip: the first calls are
        # answered before the last are sent. Later it is spread over half of one, and never binds.
        # Over a long round trip this may be too fast: then a refusal measures the limit.
        unknown = not self.rate.known and not self.in_flight_cap.known
        round_trip_s = min(self.latency_s, LONGEST_SPREAD_S)
        spread = (1.25 if unknown else 2) * self.limit() / round_trip_s * self.mean_cost
        return min(self.rate.at(self.clock()), spread)

    def _decrease(self, refusal: Sent, now: float, retry_after_s: float) -> None:
        accepted = self._bucket.accepted(refusal.at)
        # After the quota was lowered, no bucket is known to be empty: having no accepted call is
        # the sign.
        silent = self._quota_decreased and not self._traffic.accepted(
            self._decreased_at, refusal.at
        )
        if self.blocked or (self._bucket.empty_at is not None and not accepted) or silent:
            self._probe(refusal, now, "refused")
            return
        if self._is_quota(refusal, retry_after_s):
            self._decrease_quota(refusal, now)
            return
        self.quota, self._quota_decreased = Ceiling(), False
        if refusal.at - self._decreased_at >= 2 * self._refusal_s:  # otherwise it is the same climb
            self._refusals.append(refusal)
        self._mark_decrease(now)
        if self._is_cap():
            # Among random refusals, a cap that is one too high goes unnoticed.
            cap = max(1.0, (BELOW if self.chance.share else 1.0) * refusal.in_flight)
            self.in_flight_cap.lower_to(cap, now, self._requests_per_s())
            self.rate = Ceiling()
        else:
            self._decrease_rate(refusal, accepted, now, named=retry_after_s > LONG_BLOCK_S)

    def _mark_decrease(self, now: float) -> None:
        self._decreased_at, self._decreased_number = now, self._traffic.count

    def _is_quota(self, refusal: Sent, retry_after_s: float) -> bool:
        """Return whether a minute's quota, known or suspected, is used up."""
        if self._traffic.minute_cost > NEAR[0] * self.quota.top:
            return True
        if self.chance.doubtful:
            return False
        if retry_after_s > LONG_BLOCK_S:
            return self._looks_like_quota(refusal, long=retry_after_s > LONG_WAIT_S)
        return self._suspicion.fits(self._traffic.minute_cost)

    def _looks_like_quota(self, refusal: Sent, *, long: bool = True) -> bool:
        """Suspect a quota. Returns whether to believe it: many calls and a long wait suffice."""
        costs = self._traffic.minute_before(refusal.at)
        top = max(math.fsum(costs), refusal.cost)
        return self._suspicion.confirmed_by(len(costs) if long else 0, top, refusal.at)

    def _is_cap(self) -> bool:
        """Return whether nothing was accepted above the number in flight that was refused."""
        if len(self._refusals) < CLIMBS:
            return False
        lowest = min(refusal.in_flight for refusal in self._refusals)
        first, last = self._refusals[0].at, self._refusals[-1].at
        passed = [sent.in_flight for sent in self._traffic.accepted(first, last)]
        if lowest == 0 or len(passed) < max(TRUST, lowest):
            return False
        # Some calls in flight are on the network, not at the provider. A refusal takes only the
        # time on the network.
        on_the_way = lowest * min(self._refusal_s / self.latency_s, MOST_ON_THE_WAY)
        return max(passed) <= lowest + 2 * on_the_way

    def expect_cap(self) -> None:
        """A refusal at the known cap is the cap's, not a rate's: as if it was the third there."""
        at_cap = Sent(self.clock(), 0.0, round(self.in_flight_cap.top), None)
        self._refusals.extend([at_cap] * (CLIMBS - 1))

    def _decrease_cap(self, refusal: Sent, now: float) -> None:
        """Hold the number in flight at which the provider complained."""
        if not refusal.in_flight:  # another client's calls
            self.hold_until = max(self.hold_until, now + SILENCE_S[0])
        if refusal.at > self._decreased_at:
            least = max(1, refusal.in_flight)
            self.in_flight_cap.lower_to(least, now, self._requests_per_s())
            self._mark_decrease(now)

    def _decrease_rate(
        self, refusal: Sent, accepted: list[Sent], now: float, *, named: bool
    ) -> None:
        empty_at = self._bucket.empty_at
        first = empty_at is None
        cost = sum(sent.cost for sent in accepted)
        bound = self._bucket.most(refusal.at, cost + self.mean_cost)
        measured = self._bucket.measure(accepted, refusal.at)
        start = max(now, self.hold_until)
        self._lifted = False
        if measured is not None:
            cost = self._traffic.cost_of_the_last(RECENT_S, refusal.at)
            recent = cost / RECENT_S
            enough = cost >= TRUST * self.mean_cost and not self.chance.doubtful
            self._lifted = enough and recent > OVERFLOWED * measured
            if self._lifted:
                # A small bucket was full for most of the time: it takes more than was sent.
                measured = min(0.95 * recent, LIFT * measured)
            top = max((1 + DIP / 2) * measured, self._least_rate)
            self._suspicion.forget()
            if empty_at is not None and refusal.at - empty_at < TELLING_S:
                # Mostly the pause after a refusal: at a cap, far less than it allows.
                self.rate.guess(top, start)
            else:
                self.rate.lower_to(top, start, self._requests_per_s())
            self._open_window(top, FIRST_WINDOW)
            return
        # No measurement yet: fall back, and pause until the bucket has refilled a little.
        self.hold_until = max(self.hold_until, now + self._silence_s)
        start = max(now, self.hold_until - PAUSE_S)
        flow = 0.85 * min(self.rate.at(now), self._flowing(refusal))
        top = max(min(flow, bound), self._least_rate)
        count = len(self._traffic.accepted(-math.inf, refusal.at))
        if count < (FEW if first or named else TRUST) and (named or flow < bound):
            # Few calls were sent yet. Other clients or an accident may explain the refusal: no
            # reason to stay low, or to give up the window.
            self.rate.guess(top, start)
            self._open_window(top, self.rounds.window)
        else:
            # An estimate from the flow alone does not justify a long plateau either.
            self.rate.lower_to(top, start, math.inf if flow < bound else self._requests_per_s())
            self._open_window(top, FIRST_WINDOW)

    @property
    def _least_rate(self) -> float:
        """How far to decrease at once: not to the bottom if the refusal may be random."""
        return DOUBTED * self.rate.top if self.chance.doubtful and self.rate.known else 0.0

    @property
    def _silence_s(self) -> float:
        """How long an empty bucket is given to refill a little."""
        return min(SILENCE_S[0], 2 * self.latency_s)

    def _open_window(self, rate: float, least: float) -> None:
        # By Little's law, with room: the rate is the limit now, so the window need not be.
        enough = max(least, math.ceil(2 * rate / self.mean_cost * self.latency_s))
        self.rounds.window = float(min(enough, self.max_in_flight))

    def _flowing(self, refusal: Sent) -> float:
        """Return the current cost per second: by Little's law, or as recently sent.

        The law does not hold while long calls are starting and none has ended. The recent period
        begins with the first call at the earliest, so the seconds before it are not averaged in.
        """
        by_law = max(1, refusal.in_flight) / self.latency_s * self.mean_cost
        recent = self._traffic.cost_of_the_last(RECENT_S, refusal.at)
        span_s = min(RECENT_S, refusal.at - self._traffic.since)
        sent = recent / span_s if span_s > 0 else math.inf
        return max(by_law, min(sent, self.pace()))

    def _decrease_quota(self, refusal: Sent, now: float) -> None:
        costs = self._traffic.minute_before(refusal.at)
        top = max(math.fsum(costs), refusal.cost)
        slower = SLOWER
        if self.quota.known:
            # In windows that begin with the minute, a minute may hold calls of two: only what
            # passed in the minute before it too is believed.
            before = self._traffic.minute_before(refusal.at - MINUTE_S)
            top = min(top, max(self.quota.top, math.fsum(before)))
            # The fewer calls fit into a minute, the more it costs to try for more: one refusal per
            # try. But a new quota is tried once before it is believed for long.
            slower *= min(max(1.0, MANY_A_MINUTE / len(costs)), SLOWEST) if costs else SLOWEST
        self.quota.lower_to(top, now, FULL_SPEED / slower, QUOTA_PLATEAU_S, dip=0.0)
        self.rate, self._bucket.empty_at = Ceiling(), None
        self._mark_decrease(now)
        self._quota_decreased = True

    def _requests_per_s(self) -> float:
        return self._traffic.requests_per_s(self.clock())

    def _probe(self, sent: Sent, now: float, why: str) -> None:
        """Send one request at a time, each after twice the pause of the last."""
        self._mark_decrease(now)
        self.hold_until = max(self.hold_until, now + self.breaker.block(sent, now, why))
