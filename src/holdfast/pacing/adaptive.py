"""How fast may we go, on a provider that does not tell?

The problem. A provider refuses what is too much, and says little about what would be just right:
requests or tokens a second, a bucket of unknown size, a window of a minute, a number of requests
in flight, or nothing at all but a queue that grows. The limit may move. We want to use all of it
and be refused hardly ever.

What does not work. To halve after a refusal and creep up again (AIMD, on concurrency) spends half
its time far below the limit, and does not see a limit on the rate at all: concurrency is only rate
times latency. To pace by a guessed rate needs the guess. To watch latency (Vegas, Gradient) sees a
queue but no bucket.

What we do. We measure. Between two moments at which the provider's bucket was empty (two first
refusals), what it accepted divided by the time between *is* its refill rate, whatever the size of
the bucket. So a refusal is a measurement, and a dip of 2% under it replaces a halving under a
guess. There are three ceilings of one shape (`ceiling`): the rate in cost per second, the number
in flight, and the cost per minute. Which of them a refusal speaks of:

- refused again and again above a number in flight that is otherwise accepted: that number is a cap;
- blocked for longer than a few seconds, or near what a minute is known to hold: a quota per minute;
- else: the rate.

Around them: slow start while more concurrency buys more throughput (`rounds`); one cut for each
episode, since what was sent before a cut is late news; a breaker that sends one probe at a time
when nothing gets through; and a copy of the provider's own buckets where its headers tell
(`mirror`).

Known gaps. Two of these on one limit are unfair to the later one: there must be one for each
endpoint. A cap below two calls in flight is met by refusals of every second call until it is
known. Nothing here was tried against a live provider.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from holdfast.pacing.ceiling import DIP, FULL_SPEED, Ceiling
from holdfast.pacing.limits import MOST_LIMITS, Limit
from holdfast.pacing.mirror import Mirror
from holdfast.pacing.rounds import Rounds
from holdfast.pacing.traffic import MINUTE_S, Sent, Traffic

FIRST_WINDOW = 16
"""Calls in flight to begin with."""
MANY_A_MINUTE = 120
"""Requests a minute below which a try for more is made ever more rarely."""
LONG_BLOCK_S = 4.0
"""Blocked for longer than this, it is a window that must pass, not a bucket that refills."""
SILENCE_S = (0.5, 15.0)
"""Silence after a refusal nothing explains, and between two probes at most."""
LEAST_LATENCY_S = 0.001
CATCH_UP_S = 0.02
"""How much of a timer's lateness is made up for."""
LONGEST_PACE_S = 120.0
"""No single call waits longer for its turn, however large somebody thinks it is."""
PROBE_PATIENCE_S = 2.0
"""A probe that was not refused within this time has got through."""
LONGEST_SPREAD_S = 4.0
"""A window is spread over a round trip, but over no more than this."""
CLIMBS = 3
"""Refusals at the same number in flight that make a cap."""
LATELY_S = 2.0
"""What counts as of late, where the flow is measured."""
TELLING_S = 1.5
"""A span from which on it tells something that little was accepted."""
TRUST = 10
"""Accepted requests that make a measurement; calls failing in a row that make an outage."""


class AdaptiveLimits:
    """Finds and holds the limits of one endpoint. Plain arithmetic over a clock; nothing waits.

    Attributes:
        rate: Cost a second.
        in_flight_cap: Requests in flight.
        quota: Cost a minute.
        blocked: Why only probes are sent, "refused" or "down"; None while calls get through.
        blocked_since: When that began.
    """

    def __init__(self, clock: Callable[[], float], max_in_flight: int) -> None:
        self.clock = clock
        self.max_in_flight = max_in_flight
        self.rate, self.in_flight_cap, self.quota = Ceiling(), Ceiling(), Ceiling()
        self.in_flight = 0
        self.latency_s, self.mean_cost = 1.0, 1.0
        self._refusal_s = 0.05
        self.steady_latency_s = 1.0  # not of the last calls of all, of which only the slow are left
        self.steady_rate = 0.0  # cost per second over the last minute in which calls were sent
        self.mirrors: dict[str, Mirror] = {}
        self.blocked: str | None = None
        self.blocked_since = 0.0
        self.hold_until = -math.inf
        self.timer_late_s = 0.0  # how late the timer was that lets the next call start
        self._probe_gap_s = 0.0
        self._probe_refused_at: float | None = None
        self._least_blocked = 0  # the fewest in flight at which a probe was refused
        self._blocker: Sent | None = None
        self._probe_sent: Sent | None = None
        self._failing: set[object] = set()  # who failed since the last success
        self._traffic = Traffic()
        self._empty_at: float | None = None  # when the provider's bucket was last seen empty
        self._braked_at: float | None = None  # since when the window has been the brake
        self._braked_s = 0.0  # for how long it was, since the bucket was last seen empty
        self._refusals: deque[Sent] = deque(maxlen=CLIMBS)  # the first of each episode
        self._cut_at = self._sent_at = -math.inf
        self._quota_cut = False  # the last cut was one of the quota
        self.rounds = Rounds(clock(), FIRST_WINDOW)

    # ---- may a call start? ----------------------------------------------------------------

    def limit(self) -> int:
        """Return how many calls may be in flight now."""
        now = self.clock()
        allowed = min(self.rounds.window, self.in_flight_cap.at(now), self.max_in_flight)
        return max(1, round(allowed))

    def pace(self) -> float:
        """Return the cost per second at which calls may start now."""
        # While nothing is known, a window is spread over a round trip, so that the first ones
        # are answered before the last are sent; later twice that, so that it never binds. A long
        # round trip is not waited for: if that is too fast, a refusal tells us, and measures.
        unknown = not self.rate.known and not self.in_flight_cap.known
        round_trip_s = min(self.latency_s, LONGEST_SPREAD_S)
        spread = (1.25 if unknown else 2) * self.limit() / round_trip_s * self.mean_cost
        return min(self.rate.at(self.clock()), 2 * self.quota.top / MINUTE_S, spread)

    def wait_s(self, cost: float, costs: Mapping[str, float]) -> float | None:
        """Return the seconds until a call may start, 0 for now; None: when another has ended."""
        now = self.clock()
        if now < self.hold_until:
            return self.hold_until - now
        if self.blocked and self._probe_sent is not None:
            return self._wait_for_probe(now)
        if self.in_flight >= self.limit() and not self.blocked:
            self.rounds.full = True
            self._braked_at = now if self._braked_at is None else self._braked_at
            return None
        if self._braked_at is not None:
            self._braked_s += now - self._braked_at
            self._braked_at = None
        wait = self._sent_at + min(cost / self.pace(), LONGEST_PACE_S) - now
        self._traffic.forget_old(now)
        first = self._traffic.minute_since
        if first is not None and self._traffic.minute_cost + cost > self.quota.at(now):
            wait = max(wait, first + MINUTE_S - now)
        for name, mirror in self.mirrors.items():
            wait = max(wait, mirror.wait_s(costs.get(name, mirror.mean_cost), now))
        return max(0.0, wait)

    def _wait_for_probe(self, now: float) -> float | None:
        """Wait for the answer to the probe; a refusal would have come back by now, an answer not.

        Called again when the wait is over, it finds that calls get through.
        """
        assert self._probe_sent is not None
        left = self._probe_sent.at + PROBE_PATIENCE_S - now
        if self.blocked == "down":
            return None
        if left > 0:
            return left
        self._resume(now)
        return 0.0

    def send(self, cost: float, costs: Mapping[str, float], owner: object) -> Sent:
        """Note that a call starts now."""
        now = self.clock()
        sent = Sent(now, cost, self.in_flight, owner)
        for name, mirror in self.mirrors.items():
            sent.predictions[name] = mirror.take(costs.get(name, mirror.mean_cost), now)
        if self.blocked:
            self._probe_sent = sent
        self._traffic.add(sent)
        self.in_flight += 1
        # A real loop's timers are a millisecond late or more; at thousands of calls a second that
        # would be the limit, if the time were not made up for.
        self._sent_at = now - min(self.timer_late_s, CATCH_UP_S)
        self.timer_late_s = 0.0
        self.steady_latency_s = self.latency_s
        if self._traffic.since <= now - MINUTE_S:
            self.steady_rate = self._traffic.minute_cost / MINUTE_S
        self.mean_cost += (cost - self.mean_cost) / min(100, len(self._traffic))
        return sent

    def binding(self) -> str:
        """Say in a word what holds the pace now."""
        now = self.clock()
        if self.blocked:
            return self.blocked
        if now < self.hold_until:
            return "hold"
        if any(mirror.wait_s(mirror.mean_cost, now) > 0 for mirror in self.mirrors.values()):
            return "headers"
        if self.in_flight >= self.limit():
            return "in_flight" if self.in_flight_cap.known else "start"
        if self.quota.known and self._traffic.minute_cost + self.mean_cost > self.quota.at(now):
            return "quota"
        if self._sent_at + self.mean_cost / self.pace() > now:
            return "rate" if self.rate.known else "start"
        return "nothing"

    def calls_per_s(self) -> float:
        """Return the calls started per second over the last minute, or since the first."""
        return self._traffic.requests_per_s_of_the_minute(self.clock())

    def unsend(self, sent: Sent) -> None:
        """Take back a call that was never made."""
        self.in_flight -= 1
        if sent is self._probe_sent:
            self._probe_sent = None
        self._traffic.remove(sent)

    # ---- what became of it? ---------------------------------------------------------------

    def ok(self, sent: Sent, limits: Iterable[Limit] = ()) -> None:
        """The call was answered."""
        now = self.clock()
        self.in_flight -= 1
        self._failing.clear()
        self.latency_s += 0.1 * (max(LEAST_LATENCY_S, now - sent.at) - self.latency_s)
        self._take_in(sent, limits)
        if self.blocked and sent.at > self._cut_at:
            self._resume(now)
        self.rounds.answered(now - sent.at)
        if self.rounds.complete(now):
            self._close_round(now)

    def refused(self, sent: Sent, retry_after_s: float, limits: Iterable[Limit] = ()) -> bool:
        """The call was refused; returns whether others got through, so that it is not just us."""
        now = self.clock()
        self.in_flight -= 1
        sent.refused = True
        self._refusal_s += 0.1 * (min(now - sent.at, self.latency_s) - self._refusal_s)
        self._take_in(sent, limits)
        if sent.at > self._cut_at:  # else it was sent before the last cut: late news
            self._cut(sent, now, retry_after_s)
        self.hold_until = max(self.hold_until, now + retry_after_s)
        return not self.blocked

    def failed(self, sent: Sent, *, timeout: bool) -> bool:
        """The call failed or timed out; returns whether that is its own fault."""
        now = self.clock()
        self.in_flight -= 1
        # One call that fails again and again is no outage, however often it does.
        self._failing.add(sent.owner)
        self.rounds.timeouts += timeout
        if self.blocked or len(self._failing) >= TRUST:
            if not self.blocked or sent.at > self._cut_at:
                self._probe(sent, now, "down")
            return False
        if timeout and self.rounds.many_timeouts and sent.at > self._cut_at:
            self.in_flight_cap.lower_to(max(1, 0.7 * sent.in_flight), now, self._requests_per_s())
            self._cut_at = now
        return True

    def _take_in(self, sent: Sent, limits: Iterable[Limit]) -> None:
        for limit in limits:
            mirror = self.mirrors.get(limit.name)
            if mirror is None and len(self.mirrors) >= MOST_LIMITS:
                continue
            if mirror is None:
                self.mirrors[limit.name] = mirror = Mirror(limit, self.clock())
            mirror.correct(limit, sent.predictions.get(limit.name))

    # ---- the cut --------------------------------------------------------------------------

    def _cut(self, refusal: Sent, now: float, retry_after_s: float) -> None:
        since = -math.inf if self._empty_at is None else self._empty_at
        got = self._traffic.accepted(since, refusal.at)
        # After a cut of the quota nothing is known to be empty; then silence since is the sign.
        silent = self._quota_cut and not self._traffic.accepted(self._cut_at, refusal.at)
        if self.blocked or (self._empty_at is not None and not got) or silent:
            self._probe(refusal, now, "refused")
            return
        if retry_after_s > LONG_BLOCK_S or self._traffic.minute_cost > 0.7 * self.quota.top:
            self._cut_quota(refusal, now)
            return
        self.quota, self._cut_at, self._quota_cut = Ceiling(), now, False
        self._refusals.append(refusal)
        if self._is_cap():
            self.in_flight_cap.lower_to(refusal.in_flight, now, self._requests_per_s())
            self.rate = Ceiling()
        else:
            self._cut_rate(refusal, got, now)

    def _is_cap(self) -> bool:
        """Tell whether nothing was ever accepted above what was refused."""
        lowest = min(one.in_flight for one in self._refusals)
        first = self._refusals[0]
        passed = [one.in_flight for one in self._traffic.accepted(first.at, math.inf)]
        if len(self._refusals) < CLIMBS or lowest == 0 or not passed:
            return False
        # What we take for in flight is partly on its way to or from the provider; a refusal is
        # nothing but that way.
        on_the_way = lowest * self._refusal_s / self.latency_s
        return max(passed) <= lowest - 1 + 2 * on_the_way

    def _cut_rate(self, refusal: Sent, got: list[Sent], now: float) -> None:
        # While the window was the brake, the bucket may have run over: then it refilled more than
        # was accepted.
        steady = self._empty_at is None or self._braked_s < 0.1 * (refusal.at - self._empty_at)
        if self._empty_at is not None and len(got) >= TRUST and steady:
            # Empty then and empty now: what was accepted in between is what it refills.
            cost = sum(one.cost for one in got)
            top = (1 + DIP / 2) * cost / self._span_since_empty(refusal.at)
            self._empty_at = refusal.at
            requests_per_s = self._requests_per_s()
        else:
            # No measurement yet: fall back, be silent until the bucket has something again.
            top = 0.85 * min(self.rate.at(now), self._flowing(refusal))
            bound = self._most_since_empty(refusal.at, sum(one.cost for one in got))
            # A guess is not worth a long stay.
            requests_per_s = math.inf if bound > top else self._requests_per_s()
            top = min(top, bound)
            if self._empty_at is None or not steady:
                self._empty_at = refusal.at
            self.hold_until = max(self.hold_until, now + SILENCE_S[0])
        self.rate.lower_to(top, now, requests_per_s)
        self._braked_s = 0.0
        # By Little's law, with room: now that the rate is the brake, the window need not be.
        enough = max(FIRST_WINDOW, math.ceil(2 * top / self.mean_cost * self.latency_s))
        self.rounds.window = float(min(enough, self.max_in_flight))

    def _flowing(self, refusal: Sent) -> float:
        """Return the cost per second that flows: by Little's law, or as it was sent of late.

        The law does not hold yet while long calls are being started and none has ended.
        """
        by_law = max(1, refusal.in_flight) / self.latency_s * self.mean_cost
        late = self._traffic.cost_of_the_last(LATELY_S, refusal.at)
        return max(by_law, late / LATELY_S)

    def _most_since_empty(self, at: float, got: float) -> float:
        """Return the most that the rate can be, if the bucket was empty then and is empty `at`.

        It refilled what was accepted, and less than one request more. Over a short span that says
        little: the silence after a refusal weighs too much in it.
        """
        if self._empty_at is None or at - self._empty_at < TELLING_S:
            return math.inf
        span = self._span_since_empty(at)
        return (got + self.mean_cost) / span if span > 0 else math.inf

    def _span_since_empty(self, at: float) -> float:
        """Return the seconds that the log covers of the time since the bucket was empty."""
        assert self._empty_at is not None
        return at - max(self._empty_at, self._traffic.since)

    def _cut_quota(self, refusal: Sent, now: float) -> None:
        # Counted back from the last that was accepted: silence is no measurement.
        accepted = self._traffic.accepted(-math.inf, refusal.at)
        start = accepted[-1].at - MINUTE_S if accepted else 0.0
        good = [one.cost for one in accepted if one.at >= start]
        # The fewer fit into a minute, the more each try for more costs: one refusal in that many.
        requests_per_s = max(1.0, FULL_SPEED * len(good) / MANY_A_MINUTE)
        top = max(math.fsum(good), refusal.cost)
        self.quota.lower_to(top, now, requests_per_s, plateau_s=2 * MINUTE_S)
        self.rate, self._cut_at, self._empty_at = Ceiling(), now, None
        self._quota_cut = True

    def _requests_per_s(self) -> float:
        return self._traffic.requests_per_s(self.clock())

    # ---- nothing gets through -------------------------------------------------------------

    def _probe(self, sent: Sent, now: float, why: str) -> None:
        """Send one request at a time, each after twice the silence of the last."""
        if not self.blocked:
            self.blocked, self.blocked_since, self._blocker = why, now, sent
            self._probe_gap_s = SILENCE_S[0]
            self._probe_refused_at = None
            self._least_blocked = sent.in_flight
        else:
            self._least_blocked = min(self._least_blocked, sent.in_flight)
            self._probe_gap_s = min(SILENCE_S[1], 2 * self._probe_gap_s)
            self._probe_refused_at = sent.at if why == "refused" else None
        self._cut_at, self._probe_sent = now, None
        self.hold_until = max(self.hold_until, now + self._probe_gap_s)

    def _resume(self, now: float) -> None:
        if self.blocked == "down":
            self.rounds.window = min(self.rounds.window, FIRST_WINDOW)
        elif self._probe_gap_s >= LONG_BLOCK_S and self._blocker is not None:
            if self._freed_by_an_answer():
                self.in_flight_cap.lower_to(self._least_blocked, now, self._requests_per_s())
                self.rate = Ceiling()
            else:
                self._cut_quota(self._blocker, now)
        elif self._probe_refused_at is not None:
            # Still empty when the last probe was refused: it cannot refill fast.
            most = self._most_since_empty(self._probe_refused_at, 0.0)
            if most < self.rate.at(now):
                self.rate.lower_to(most, now, self._requests_per_s())
        if self._probe_refused_at is None:
            self._empty_at = None
        self.blocked, self._blocker, self._probe_sent = None, None, None
        self.rounds.open(now, self.limit())

    def _freed_by_an_answer(self) -> bool:
        """Tell whether we were blocked at a number in flight, and not any more below it."""
        through = self._probe_sent
        return through is not None and max(1, through.in_flight) < self._least_blocked

    def _close_round(self, now: float) -> None:
        quiet = max(self.hold_until, self._cut_at) < self.rounds.opened_at and not self.blocked
        if quiet and self.rounds.full:
            lower = self.rounds.judge(
                now, cap_known=self.in_flight_cap.known, latency_s=self.latency_s
            )
            if lower is not None:
                self.in_flight_cap.lower_to(lower, now, self._requests_per_s())
        self.rounds.open(now, self.limit())
