"""How fast may we call a provider that does not tell us its limits?

The problem. A provider refuses calls above its limit, and says little about the limit: requests or
tokens per second, a bucket of unknown size, a window of a minute, a number of requests in flight,
or just a growing queue. The limit may change. We want to use all of it and rarely be refused.

What does not work. Halving after a refusal and creeping up again (AIMD on concurrency) spends half
its time far below the limit, and cannot see a limit on the rate: concurrency is only rate times
latency. Pacing at a guessed rate needs the guess. Watching latency (Vegas, Gradient) sees a queue
but not a bucket.

What we do. We measure. Between two moments at which the provider's bucket was empty (two first
refusals), the accepted cost divided by the time *is* its refill rate, whatever the bucket's size.
So a refusal is a measurement, and dipping 2% below it replaces halving a guess. There are three
limits of one shape (`Ceiling`): cost per second, calls in flight, and cost per minute.
`known_limits` decides which one a refusal is about, and lowers it.

Some refusals are random and say nothing about a limit (`chance`). Then only the refused call waits.

Around these: slow start while more concurrency increases throughput (`Rounds`); one decrease per
episode, since calls sent before it bring no news; a breaker that sends one probe at a time when no
calls succeed (`Breaker`); and a copy of the provider's buckets if its headers describe them
(`mirrors`), which also learns what a call costs.

Still open. Two pacers on one limit that do not `share` it are unfair to the later one. With a cap
below two calls in flight, every second call is refused until the cap is known. A single long wait
named after a hundred calls in a minute is taken for a quota, even if it was an accident. Nothing
here has been tried against a live provider.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from limpet.pacing.chance import Refusal
from limpet.pacing.estimates import TELLING_S, Ceiling
from limpet.pacing.known_limits import FIRST_WINDOW, LONG_WAIT_S, PAUSE_S, KnownLimits
from limpet.pacing.limits import Limit
from limpet.pacing.mirrors import Mirrors
from limpet.pacing.traffic import MINUTE_S, OFTEN, LargeCalls, MeanUsage, Sent, Throughput

CHECK_AGAIN_S = 1.0
"""Longest wait computed ahead: the ceilings rise meanwhile."""
LEAST_LATENCY_S = 0.001
CATCH_UP_S = 0.02
"""How much of a timer's delay to make up for."""
LONGEST_PACE_S = 120.0
"""Longest wait of a single call for its turn, however large its estimated cost."""
LARGE = 1.2
"""Multiple of the mean cost above which a call may be refused while others pass."""
MANY_EXPLAINED, OF_CALLS = 3, 100
"""Refusals that headers may explain, of about this many calls."""
REST_S = 0.25, 8.0
"""Wait of a refused call if a number is set and the provider names no wait: doubled each time."""
TOO_MANY, OF_RECENT = 1 / 3, 50
"""A number is too high if more than this share of about so many calls is refused. Chance: 20%."""
OUTAGE = 10
"""Different calls failing in a row that make an outage."""
OUTAGE_S = 5.0
"""How long no call must have succeeded, at most; less if calls are shorter."""


class AdaptiveLimits(KnownLimits):
    """Finds and holds the limits of one endpoint. Plain arithmetic over a clock; nothing waits.

    Attributes:
        in_flight: Calls in flight.
        ahead: Calls of other processes that start before our next.
        large_calls: Which calls may be larger than others.
        mirrors: Copies of the provider's buckets, by name.
        usage: What a call uses.
        steady_latency_s: The latency without the final calls, where only slow ones remain.
        throughput: What the endpoint took while calls waited for it.
        timer_late_s: Delay of the timer that starts the next call.
    """

    def __init__(
        self, clock: Callable[[], float], max_in_flight: int, *, fixed: bool = False
    ) -> None:
        super().__init__(clock, max_in_flight, fixed=fixed)
        self.in_flight = self.ahead = 0
        self.large_calls = LargeCalls()
        self.usage = MeanUsage()
        self.mirrors = Mirrors(self.usage.mean)
        self.steady_latency_s = 1.0
        self.throughput = Throughput()
        self.timer_late_s = 0.0
        self._sent_at = -math.inf
        self._answers, self._answered_at = 0, -math.inf
        self._requested_until = -math.inf  # the end of a wait that the provider named
        self._explained_at = -math.inf  # the last refusal that a bucket's copy explains
        self._explained = 0.0  # how many of them lately
        self._resting: list[float] = []  # a heap: until when refused calls wait in their places
        self._refused_share = 0.0  # of the recent calls, at a number
        self._failing: set[object] = set()  # owners of failures since the last success
        self._window_before = 0.0  # the window before refusals that may be random

    def change(self, most: int, *, fixed: bool) -> None:
        """Hold another number of calls in flight, or find the limit again."""
        self.max_in_flight, self.fixed = most, fixed
        self.rounds.open(self.clock())

    @property
    def own_in_flight(self) -> int:
        """Calls of this process in flight."""
        return self.in_flight

    @property
    def others(self) -> int:
        """How many other processes call the endpoint."""
        return 0

    @property
    def is_told(self) -> bool:
        """Whether another process tells what it knows of the limit."""
        return False

    # ---- may a call start? ----------------------------------------------------------------

    def wait_s(self, cost: float, costs: Mapping[str, float]) -> float | None:
        """Return the seconds until it is worth checking again.

        0: a call may start now. None: check again when another call has ended.
        """
        now = self.clock()
        if now < self.hold_until:
            return self.hold_until - now
        if self.blocked and self.breaker.probe is not None:
            wait = self.breaker.wait_s(self.breaker.probe, now)
            if wait == 0:
                self._resume(now)
            return wait
        while self._resting and self._resting[0] <= now:
            heappop(self._resting)
        if self._resting and self.in_flight + len(self._resting) >= self.limit():
            return self._resting[0] - now
        if self.in_flight >= self.limit() and not self.blocked:
            self.rounds.full = True
            self._bucket.brake(now, by_window=True)
            return None
        self._bucket.brake(now, by_window=False)
        calls = 1 + self.ahead
        wait = self._sent_at + min(calls * cost / self.pace(), LONGEST_PACE_S) - now
        self._traffic.forget_old(now)
        first = self._traffic.minute_since
        if first is not None and self._traffic.minute_cost + calls * cost > self.quota.at(now):
            wait = max(wait, first + MINUTE_S - now)
        return max(0.0, min(wait, CHECK_AGAIN_S), self.mirrors.wait_s(costs, now, calls))

    def send(self, cost: float, costs: Mapping[str, float], owner: object) -> Sent:
        """Record that a call starts now."""
        now = self.clock()
        sent = Sent(now, cost, self.in_flight, owner)
        sent.predictions = self.mirrors.take(costs, now)
        if self.blocked:
            self.breaker.probe = sent
        self._traffic.add(sent)
        self.rounds.sent(sent, self.limit())
        climbing = self.in_flight_cap.known and self.in_flight >= self.in_flight_cap.top
        self.chance.sent(climbing=climbing or (self.rate.known and self.rate.tries_more(now)))
        self.in_flight += 1
        self._explained *= 1 - 1 / OF_CALLS
        # A real loop's timers are a millisecond late or more. Uncorrected, that delay would be the
        # limit at thousands of calls per second.
        self._sent_at = now - min(self.timer_late_s, CATCH_UP_S)
        self.timer_late_s = 0.0
        self.steady_latency_s = self.latency_s
        self.mean_cost += (cost - self.mean_cost) / min(100, len(self._traffic))
        return sent

    def binding(self, *, waiting: bool) -> str:
        """Return what limits the pace now, as a key of `pacer.WORDS`; `waiting`: calls wait."""
        now = self.clock()
        if self.blocked:
            return self.blocked
        if self._refused_share > TOO_MANY:
            return "resting"
        if now < self.hold_until:
            return "hold" if now < self._requested_until else "pause"
        if self.mirrors.bind(now):
            return "headers"
        if self.fixed:
            return "fixed"
        if self.in_flight >= self.limit():
            if self.limit() == self.max_in_flight:
                return "most"
            if self.in_flight_cap.at(now) < self.rounds.window:
                return "cap"
            return "in_flight" if self.rounds.found else self._best_known
        if self.quota.known and self._traffic.minute_cost + self.mean_cost > self.quota.at(now):
            return "quota"
        late = self._sent_at + self.mean_cost / self.pace() <= now
        return "nothing" if late and not waiting else self._best_known

    @property
    def _best_known(self) -> str:
        """The limit that holds the pace if no other is reached; "start": none is known."""
        limits = {"rate": self.rate, "cap": self.in_flight_cap, "quota": self.quota}
        known = [name for name, limit in limits.items() if limit.known]
        return known[0] if known else "in_flight" if self.rounds.found else "start"

    def calls_per_s(self) -> float:
        """Return the calls started per second over the last minute, or since the first."""
        return self._traffic.requests_per_s_of_the_minute(self.clock())

    def unsend(self, sent: Sent) -> None:
        """Remove a call that was never made."""
        self.in_flight -= 1
        if sent is self.breaker.probe:
            self.breaker.probe = None
        self.mirrors.give_back(sent.predictions)
        self._traffic.remove(sent)

    # ---- how did it end? ------------------------------------------------------------------

    def ok(
        self, sent: Sent, limits: Iterable[Limit] = (), used: Mapping[str, float] | None = None
    ) -> None:
        """The call was answered; `used`: how many tokens it used, by dimension."""
        now = self.clock()
        self.in_flight -= 1
        self._failing.clear()
        self._answered_at = now
        self.large_calls.answered(sent.owner)
        self._answers += 1
        newest = max(LEAST_LATENCY_S, now - sent.at)
        self.latency_s += max(0.1, 1 / self._answers) * (newest - self.latency_s)
        self.usage.add(used or {})
        self.mirrors.correct(limits, sent.number, sent.predictions, now)
        if self.blocked and (sent.at > self._decreased_at or self.blocked == "down"):
            self._resume(now)
        if self.fixed:
            self._refused_share *= 1 - 1 / OF_RECENT
            return
        self.rounds.answered(sent, now - sent.at)
        if self.rounds.complete(now):
            self._close_round(now)

    def refused(
        self,
        sent: Sent,
        retry_after_s: float,
        limits: Iterable[Limit] = (),
        *,
        at_once: bool = False,
    ) -> bool:
        """The call was refused. Returns whether only this call has to wait.

        Args:
            sent: The call.
            retry_after_s: The wait the server named; 0: none.
            limits: The limits in the response's headers.
            at_once: Whether the provider says that too many calls are in flight.
        """
        now = self.clock()
        self.in_flight -= 1
        sent.refused = True
        again = self.large_calls.refused(sent.owner)
        self._refusal_s += 0.1 * (min(now - sent.at, self.latency_s) - self._refusal_s)
        named = self.mirrors.refuse(limits, sent.number, sent.predictions, now)
        if self.fixed:
            return self._refused_at_a_number(sent, now, retry_after_s, again)
        if at_once:
            self._decrease_cap(sent, now)
            return False
        if named and self._is_explained(sent, now):
            self._hold(now, retry_after_s)
            return False
        if sent.at > self._decreased_at:  # otherwise sent before the last decrease: no news
            doubtful = self.chance.doubtful
            if self._is_chance(sent, now, retry_after_s, again=again > 0):
                return True
            # In doubt, all calls wait only briefly, and the next refusal decides.
            doubtful = doubtful and self.chance.doubtful
            pause_s = min(retry_after_s, PAUSE_S) if doubtful else retry_after_s
            self._hold(now, pause_s)
            self._decrease(sent, now, pause_s)
            return doubtful
        self._hold(now, min(retry_after_s, PAUSE_S) if self.chance.doubtful else retry_after_s)
        return False

    def _refused_at_a_number(
        self, sent: Sent, now: float, retry_after_s: float, before: int
    ) -> bool:
        """Wait as requested, or let only this call wait; `before`: how often it was refused."""
        self._refused_share += (1 - self._refused_share) / OF_RECENT
        self._hold(now, retry_after_s)
        if retry_after_s and before < OFTEN:  # otherwise waiting as requested does not help
            return False
        if self._is_outage(sent, now):
            if not self.blocked or sent.at > self._decreased_at:
                self._probe(sent, now, "refused")
            return False
        # It keeps its place: another call in its place would be refused too.
        longest_s = min(REST_S[0] * 2.0 ** min(before, 10), REST_S[1])
        rest_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311 - no secret
        sent.rest_s = max(rest_s, retry_after_s)
        heappush(self._resting, now + sent.rest_s)
        return True

    def _is_outage(self, sent: Sent, now: float) -> bool:
        """Record a call that did not succeed. Returns whether none do."""
        # One call that fails repeatedly is not an outage. Nor are many, if others just succeeded
        # and more may: calls that fail mostly do so sooner than others succeed.
        self._failing.add(sent.owner)
        recent = now - self._answered_at <= min(self.latency_s, OUTAGE_S) and self.in_flight > 0
        return self.blocked is not None or (len(self._failing) >= OUTAGE and not recent)

    def _is_explained(self, sent: Sent, now: float) -> bool:
        """Return whether a bucket in the headers explains a refusal.

        If so, its copy prevents the next one, and the refusal measures nothing: it only shows that
        calls are larger than expected. If no call passed since the last such refusal, or there are
        many of them, the headers miss something.
        """
        if self.blocked or self._explained > MANY_EXPLAINED:
            return False
        self._explained += 1
        if sent.at <= self._explained_at:
            return True  # sent before the copy was corrected: old news
        passed = self._traffic.accepted(self._explained_at, sent.at)
        self._explained_at = now
        return bool(passed)

    def _hold(self, now: float, seconds: float) -> None:
        if seconds:
            self._requested_until = max(self._requested_until, now + seconds)
        if now + seconds > self.hold_until:
            if seconds > TELLING_S:  # a bucket of a few seconds has overflowed by then
                self._bucket.hold(now + seconds - max(now, self.hold_until))
            self.hold_until = now + seconds

    def failed(self, sent: Sent, *, timeout: bool) -> bool:
        """The call failed or timed out. Returns whether that is its own fault."""
        now = self.clock()
        self.in_flight -= 1
        self.rounds.timeouts += timeout
        if not self.rate.known and not timeout:
            self._sent_at = -math.inf  # it was no use: another may start at once
        if self._is_outage(sent, now):
            if not self.blocked or sent.at > self._decreased_at:
                self._probe(sent, now, "down")
            return False
        if (
            timeout
            and not self.fixed
            and self.rounds.many_timeouts
            and len(self._failing) < self.rounds.timeouts  # others are answered: it is no outage
            and sent.at > self._decreased_at
        ):
            self.rounds.find(0.7 * sent.in_flight)
            self._mark_decrease(now)
        return True

    # ---- was the refusal random? ----------------------------------------------------------

    def _is_chance(self, sent: Sent, now: float, retry_after_s: float, *, again: bool) -> bool:
        """Return whether a refusal is random, not a sign of a limit.

        One of a call that was refused before is no evidence: the call may be a large one.
        """
        believed = self.chance.share > 0
        if not believed and not self.rate.known:
            self._window_before = max(self._window_before, self.rounds.window)
        soon = sent.at - self._decreased_at < self._silence_s
        refusal = Refusal(
            sent.number,
            sent.number - self._decreased_number,
            self._tried_more(sent),
            long_wait=retry_after_s > LONG_WAIT_S,
            tells=not (soon or again or self.blocked or self._lifted)
            and sent.cost <= LARGE * self.mean_cost,
        )
        if not self.chance.explains(refusal) or self.blocked:
            return False
        if self.chance.share and not believed:
            self._undo_decreases(now)
        return True

    def _undo_decreases(self, now: float) -> None:
        """Return to the speed before the decreases: there was no limit."""
        self.rate, self.in_flight_cap, self.quota = Ceiling(), Ceiling(), Ceiling()
        self._suspicion.forget()
        self._refusals.clear()
        self._bucket.empty_at, self._quota_decreased = None, False
        self.hold_until = -math.inf
        self.rounds.window = max(self.rounds.window, self._window_before)
        self.rounds.open(now)

    def _tried_more(self, refusal: Sent) -> bool | None:
        """Return whether we were above a known limit; None: no limit is known."""
        if self.rate.tries_more(refusal.at):
            return True
        if self.in_flight_cap.known and refusal.in_flight >= self.in_flight_cap.top:
            return True
        if self.quota.known and self._traffic.minute_cost > self.quota.top:
            return True
        known = self.rate.known or self.in_flight_cap.known or self.quota.known
        return False if known else None

    # ---- success again --------------------------------------------------------------------

    def _resume(self, now: float) -> None:
        breaker = self.breaker
        if self.fixed:
            pass  # nothing was measured
        elif breaker.why == "down":
            self.rounds.window = min(max(1.0, self.rounds.window // 2), FIRST_WINDOW)
        elif breaker.long and breaker.freed_by_an_answer():
            self.in_flight_cap.lower_to(breaker.least_refused, now, self._requests_per_s())
            self.rate = Ceiling()
        elif breaker.long and breaker.first and self._looks_like_quota(breaker.first):
            self._decrease_quota(breaker.first, now)
            if now < (self._traffic.minute_since or now) + MINUTE_S:
                self._traffic.begin_minute()  # a sliding minute would not be over yet
        elif breaker.refused_at is not None:
            # The bucket was still empty when the last probe was refused: that bounds its rate,
            # unless something else was the cause.
            most = self._bucket.most(breaker.refused_at, self.mean_cost)
            if most < self.rate.at(now):
                self.rate.guess(most, now)
        if breaker.refused_at is None:
            self._bucket.empty_at = None
        breaker.close()
        self.rounds.open(now)

    def _close_round(self, now: float) -> None:
        quiet = (
            max(self.hold_until, self._decreased_at) < self.rounds.opened_at and not self.blocked
        )
        if quiet and self.rounds.full:
            # A provider whose headers name limits is not to be surprised.
            self.rounds.adjust(cap_known=self.in_flight_cap.known, bold=not self.mirrors)
        self.rounds.open(now)
