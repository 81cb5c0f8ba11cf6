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
- blocked for longer than a few seconds, after many or for the second time (`suspicion`), or near
  what a minute is known to hold: a quota per minute;
- else: the rate (`bucket`).

A refusal among the first calls measures nothing: little was sent, and it may be another's doing.
To take what was sent so far for the limit made crawls of an hour. It is a guess, from which the
ceiling climbs so fast that either the next refusal measures, or nothing was lost but seconds.

Before any of these: a refusal may say nothing of a limit at all (`chance`). Then the call that was
refused waits as it was told, and nobody else. One that comes alone at a pace that was measured is
put to the test: we go faster for a moment (`trial`).

Around them: slow start while more concurrency buys more throughput (`rounds`); one cut for each
episode, since what was sent before a cut is late news; a breaker that sends one probe at a time
when nothing gets through (`breaker`); and a copy of the provider's own buckets where its
headers tell (`mirror`).

Known gaps. Two of these on one limit are unfair to the later one: there must be one for each
endpoint. A cap below two calls in flight is met by refusals of every second call until it is
known. One long wait that is named after a hundred calls in a minute is believed to be a quota, also
where it was an accident. Nothing here was tried against a live provider.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from limpet.pacing.breaker import LONG_BLOCK_S, SILENCE_S, Breaker
from limpet.pacing.bucket import TELLING_S, TRUST, Bucket
from limpet.pacing.ceiling import DIP, FULL_SPEED, Ceiling
from limpet.pacing.chance import SOON, Chance, Refusal
from limpet.pacing.limits import MOST_LIMITS, SCOPE, Limit
from limpet.pacing.mirror import Mirror
from limpet.pacing.rounds import Rounds
from limpet.pacing.suspicion import NEAR, Suspicion
from limpet.pacing.traffic import MINUTE_S, Sent, Traffic
from limpet.pacing.trial import Trial

FIRST_WINDOW = 16
"""Calls in flight to begin with."""
FEW = 2 * FIRST_WINDOW
"""Accepted requests below which a first refusal says hardly anything."""
MANY_A_MINUTE = 120
"""Requests a minute below which a try for more is made ever more rarely."""
LOOK_AGAIN_S = 1.0
"""No wait is reckoned further ahead: the ceilings rise meanwhile."""
LEAST_LATENCY_S = 0.001
CATCH_UP_S = 0.02
"""How much of a timer's lateness is made up for."""
LONGEST_PACE_S = 120.0
"""No single call waits longer for its turn, however large somebody thinks it is."""
LONGEST_SPREAD_S = 4.0
"""A window is spread over a round trip, but over no more than this."""
CLIMBS = 3
"""Refusals at the same number in flight that make a cap."""
LATELY_S = 2.0
"""What counts as of late, where the flow is measured."""
MOST_ON_THE_WAY = 0.25
"""The share of the calls in flight that may be on their way; with more, no cap can be told."""
BELOW = 0.94
"""The share of a cap to go back to, where it is hidden among refusals by chance."""
LONG_WAIT_S = 10.0
"""A named wait from which on it is believed at once to be the rest of a minute."""
DOUBTED = 0.35
"""The share of the last rate below which not to go at once, where it may have been chance."""
PAUSE_S = 1.0
"""How long all wait where one was told to wait longer, and it may have been chance."""
LARGE = 1.2
"""How many times the mean cost makes a call that may be refused where others pass."""
OUTAGE = 10
"""Calls failing in a row that make an outage."""


class AdaptiveLimits:
    """Finds and holds the limits of one endpoint. Plain arithmetic over a clock; nothing waits.

    Attributes:
        rate: Cost a second.
        in_flight_cap: Requests in flight.
        quota: Cost a minute.
        breaker: Whether calls get through.
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
        self.breaker = Breaker()
        self.hold_until = -math.inf
        self.timer_late_s = 0.0  # how late the timer was that lets the next call start
        self._answers = 0
        self._failing: set[object] = set()  # who failed since the last success
        self._traffic = Traffic()
        self._bucket = Bucket(self._traffic)
        self._refusals: deque[Sent] = deque(maxlen=CLIMBS)  # the first of each episode
        self._cut_at = self._sent_at = -math.inf
        self._cut_number = 0
        self._suspicion = Suspicion()
        self.chance = Chance()
        self._trial = Trial()
        self._cut_short = False  # we did not wait as long as was named
        self._unhurt_window = 0.0  # how many were in flight before what may have been chance
        self._quota_cut = False  # the last cut was one of the quota
        self._measured = False  # the rate is what was accepted between two refusals
        self.rounds = Rounds(clock(), FIRST_WINDOW)

    @property
    def blocked(self) -> str | None:
        """Why only probes are sent; None while calls get through."""
        return self.breaker.why

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
        rate = self.rate.at(self.clock()) * self._trial.factor(self._traffic.count)
        return min(rate, 2 * self.quota.top / MINUTE_S, spread)

    def wait_s(self, cost: float, costs: Mapping[str, float]) -> float | None:
        """Return the seconds until it is worth asking again; 0: a call may start now.

        None: when another call has ended.
        """
        now = self.clock()
        if now < self.hold_until:
            return self.hold_until - now
        if self.blocked and self.breaker.probe is not None:
            left = self.breaker.wait_s(self.breaker.probe, now)
            if left == 0:
                self._resume(now)
            return left
        if self.in_flight >= self.limit() and not self.blocked:
            self.rounds.full = True
            self._bucket.brake(now, by_window=True)
            return None
        self._bucket.brake(now, by_window=False)
        wait = self._sent_at + min(cost / self.pace(), LONGEST_PACE_S) - now
        self._traffic.forget_old(now)
        first = self._traffic.minute_since
        if first is not None and self._traffic.minute_cost + cost > self.quota.at(now):
            wait = max(wait, first + MINUTE_S - now)
        wait = min(wait, LOOK_AGAIN_S)
        for name, mirror in self.mirrors.items():
            wait = max(wait, mirror.wait_s(_cost_of(name, costs, mirror), now))
        return max(0.0, wait)

    def send(self, cost: float, costs: Mapping[str, float], owner: object) -> Sent:
        """Note that a call starts now."""
        now = self.clock()
        sent = Sent(now, cost, self.in_flight, owner)
        for name, mirror in self.mirrors.items():
            sent.predictions[name] = mirror.take(_cost_of(name, costs, mirror), now)
        if self.blocked:
            self.breaker.probe = sent
        self._traffic.add(sent)
        self._trial.sent(sent)
        climbing = self.in_flight_cap.known and self.in_flight >= self.in_flight_cap.top
        self.chance.sent(climbing=climbing or (self.rate.known and self.rate.tries_more(now)))
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
            if self.limit() == self.max_in_flight:
                return "most"
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
        if sent is self.breaker.probe:
            self.breaker.probe = None
        self._traffic.remove(sent)

    # ---- what became of it? ---------------------------------------------------------------

    def ok(self, sent: Sent, limits: Iterable[Limit] = ()) -> None:
        """The call was answered."""
        now = self.clock()
        self.in_flight -= 1
        self._failing.clear()
        self._answers += 1
        newest = max(LEAST_LATENCY_S, now - sent.at)
        self.latency_s += max(0.1, 1 / self._answers) * (newest - self.latency_s)
        self._take_in(sent, limits)
        if self.blocked and sent.at > self._cut_at:
            self._resume(now)
        if self._trial.passes_with(sent) and not self.chance.share and not self.blocked:
            self.chance.believe(1 + self._trial.refused, self._traffic.count - self._cut_number)
            self._undo_cuts(now)
        self.rounds.answered(now - sent.at)
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
        """The call was refused; returns whether that is this call's own bad luck.

        Args:
            sent: The call.
            retry_after_s: The wait that was named; 0: none.
            limits: What the response said of limits.
            at_once: There are too many in flight, by the provider's own word.
        """
        now = self.clock()
        self.in_flight -= 1
        sent.refused = True
        self._refusal_s += 0.1 * (min(now - sent.at, self.latency_s) - self._refusal_s)
        self._take_in(sent, limits)
        if at_once:
            self._cut_cap(sent, now)
            return False
        if sent.at > self._cut_at:  # else it was sent before the last cut: late news
            doubtful = self.chance.doubtful
            if self._is_chance(sent, now, retry_after_s):
                return True
            # In doubt, all wait for a moment only, and the next one will tell.
            doubtful = doubtful and self.chance.doubtful
            pause_s = min(retry_after_s, PAUSE_S) if doubtful else retry_after_s
            self._cut_short = pause_s < retry_after_s
            self._hold(now, pause_s)
            self._cut(sent, now, pause_s)
            return doubtful
        self._hold(now, min(retry_after_s, PAUSE_S) if self.chance.doubtful else retry_after_s)
        return False

    def _hold(self, now: float, seconds: float) -> None:
        if now + seconds > self.hold_until:
            if seconds > TELLING_S:  # a bucket of some seconds has run over by then
                self._bucket.hold(now + seconds - max(now, self.hold_until))
            self.hold_until = now + seconds

    def _is_chance(self, sent: Sent, now: float, retry_after_s: float) -> bool:
        """Tell whether a refusal says nothing of a limit."""
        believed = self.chance.share > 0
        if not believed and not self.rate.known:
            self._unhurt_window = max(self._unhurt_window, self.rounds.window)
        soon = sent.at - self._cut_at < self._silence_s
        failed = self._trial.fails_with(sent)
        refusal = Refusal(
            sent.number,
            sent.number - self._cut_number,
            failed or self._tried_more(sent),
            early=self.rate.is_fresh(sent.at),
            named=retry_after_s > SILENCE_S[0],
            cut_short=self._cut_short,
            tells=not soon and not self.blocked and sent.cost <= LARGE * self.mean_cost,
        )
        if self._on_trial(sent, refusal, now, retry_after_s) and not failed:
            self.chance.passes_over(refusal)
            return True
        if not self.chance.explains(refusal) or self.blocked:
            return False
        if self.chance.share and not believed:
            self._undo_cuts(now)
        return True

    def _on_trial(self, sent: Sent, refusal: Refusal, now: float, retry_after_s: float) -> bool:
        """Tell whether a trial will show what a refusal means; begins one if it may."""
        if self._trial.running:
            return True
        # Only of a rate that was measured, and that is what holds us back, can it tell.
        measured = self.rate.known and self._measured and not self.quota.known
        if (
            not measured
            or self.in_flight >= self.limit()
            or self.chance.share
            or not refusal.tells
            or refusal.taken <= SOON
            or retry_after_s > LONG_BLOCK_S
            or not self.chance.is_alone(refusal)
            or not self._trial.may_begin(sent)
        ):
            return False
        pace = self.rate.at(now) / self.mean_cost
        expected = refusal.tried_more is not False
        self._trial.begin(self._traffic.count, pace, now, expected=expected)
        return True

    def _undo_cuts(self, now: float) -> None:
        """There never was a limit: back to where we were."""
        self.rate, self.in_flight_cap, self.quota = Ceiling(), Ceiling(), Ceiling()
        self._suspicion.forget()
        self._refusals.clear()
        self._bucket.empty_at, self._quota_cut = None, False
        self.hold_until = -math.inf
        self.rounds.window = max(self.rounds.window, self._unhurt_window)
        self.rounds.open(now, self.limit())

    def failed(self, sent: Sent, *, timeout: bool) -> bool:
        """The call failed or timed out; returns whether that is its own fault."""
        now = self.clock()
        self.in_flight -= 1
        # One call that fails again and again is no outage, however often it does.
        self._failing.add(sent.owner)
        self.rounds.timeouts += timeout
        if self.blocked or len(self._failing) >= OUTAGE:
            if not self.blocked or sent.at > self._cut_at:
                self._probe(sent, now, "down")
            return False
        if timeout and self.rounds.many_timeouts and sent.at > self._cut_at:
            self.in_flight_cap.lower_to(max(1, 0.7 * sent.in_flight), now, self._requests_per_s())
            self._mark_cut(now)
        return True

    def _take_in(self, sent: Sent, limits: Iterable[Limit]) -> None:
        for limit in limits:
            mirror = self.mirrors.get(limit.name)
            if mirror is None and len(self.mirrors) >= MOST_LIMITS:
                continue
            if mirror is None:
                self.mirrors[limit.name] = mirror = Mirror(limit, self.clock())
            mirror.correct(limit, sent.predictions.get(limit.name))

    def _tried_more(self, refusal: Sent) -> bool | None:
        """Tell whether more was tried than is known to be taken; None: nothing is known."""
        if self.rate.known and self.rate.tries_more(refusal.at):
            return True
        if self.in_flight_cap.known and refusal.in_flight >= self.in_flight_cap.top:
            return True
        if self.quota.known and self._traffic.minute_cost > self.quota.top:
            return True
        known = self.rate.known or self.in_flight_cap.known or self.quota.known
        return False if known else None

    # ---- the cut --------------------------------------------------------------------------

    def _cut(self, refusal: Sent, now: float, retry_after_s: float) -> None:
        got = self._bucket.accepted(refusal.at)
        # After a cut of the quota nothing is known to be empty; then silence since is the sign.
        silent = self._quota_cut and not self._traffic.accepted(self._cut_at, refusal.at)
        if self.blocked or (self._bucket.empty_at is not None and not got) or silent:
            self._probe(refusal, now, "refused")
            return
        if self._is_quota(refusal, retry_after_s):
            self._cut_quota(refusal, now)
            return
        self.quota, self._quota_cut = Ceiling(), False
        if refusal.at - self._cut_at >= 2 * self._refusal_s:  # else it is the same climb
            self._refusals.append(refusal)
        self._mark_cut(now)
        if self._is_cap():
            # Where some are refused by chance, a cap that is one too high does not show.
            cap = max(1.0, (BELOW if self.chance.share else 1.0) * refusal.in_flight)
            self.in_flight_cap.lower_to(cap, now, self._requests_per_s())
            self.rate = Ceiling()
        else:
            self._cut_rate(refusal, got, now, named=retry_after_s > LONG_BLOCK_S)

    def _mark_cut(self, now: float) -> None:
        self._cut_at, self._cut_number = now, self._traffic.count

    def _is_quota(self, refusal: Sent, retry_after_s: float) -> bool:
        """Tell whether a minute is used up, as far as is known of it or was seen before."""
        if self._traffic.minute_cost > NEAR[0] * self.quota.top:
            return True
        if self.chance.doubtful:
            return False
        if retry_after_s > LONG_BLOCK_S:
            return self._looks_like_quota(refusal, long=retry_after_s > LONG_WAIT_S)
        return self._suspicion.fits(self._traffic.minute_cost)

    def _looks_like_quota(self, refusal: Sent, *, long: bool = True) -> bool:
        """Suspect a quota; returns whether to believe it: at once, if it is long and large."""
        good = self._traffic.minute_before(refusal.at)
        top = max(math.fsum(good), refusal.cost)
        return self._suspicion.confirmed_by(len(good) if long else 0, top, refusal.at)

    def _is_cap(self) -> bool:
        """Tell whether nothing was ever accepted above what was refused."""
        if len(self._refusals) < CLIMBS:
            return False
        lowest = min(one.in_flight for one in self._refusals)
        first = self._refusals[0]
        passed = [one.in_flight for one in self._traffic.accepted(first.at, math.inf)]
        if lowest == 0 or not passed:
            return False
        # What we take for in flight is partly on its way to or from the provider; a refusal is
        # nothing but that way.
        on_the_way = lowest * min(self._refusal_s / self.latency_s, MOST_ON_THE_WAY)
        return max(passed) <= lowest - 1 + 2 * on_the_way

    def _cut_cap(self, refusal: Sent, now: float) -> None:
        """Hold the number in flight that the provider has named, in a way."""
        if not refusal.in_flight:  # somebody else's calls
            self.hold_until = max(self.hold_until, now + SILENCE_S[0])
        if refusal.at > self._cut_at:
            least = max(1, refusal.in_flight)
            self.in_flight_cap.lower_to(least, now, self._requests_per_s())
            self._mark_cut(now)

    def _cut_rate(self, refusal: Sent, got: list[Sent], now: float, *, named: bool) -> None:
        first = self._bucket.empty_at is None
        bound = self._bucket.most(refusal.at, sum(one.cost for one in got) + self.mean_cost)
        measured = self._bucket.measure(got, refusal.at)
        start = max(now, self.hold_until)
        self._measured = measured is not None
        if measured is not None:
            top = max((1 + DIP / 2) * measured, self._least_rate)
            self._suspicion.forget()
            self.rate.lower_to(top, start, self._requests_per_s())
            self._open_window(top, FIRST_WINDOW)
            return
        # No measurement yet: fall back, be silent until the bucket has something again.
        self.hold_until = max(self.hold_until, now + self._silence_s)
        start = max(now, self.hold_until - PAUSE_S)
        flow = 0.85 * min(self.rate.at(now), self._flowing(refusal))
        top = max(min(flow, bound), self._least_rate)
        accepted = len(self._traffic.accepted(-math.inf, refusal.at))
        if accepted < (FEW if first or named else TRUST) and (named or flow < bound):
            # Hardly anything was sent yet. It may be what others have used up, or an accident:
            # no reason to stay low, or to give up the window that was reached.
            self.rate.guess(top, start)
            self._open_window(top, self.rounds.window)
        else:
            # What only the flow tells is not worth a long stay either.
            self.rate.lower_to(top, start, math.inf if flow < bound else self._requests_per_s())
            self._open_window(top, FIRST_WINDOW)

    @property
    def _least_rate(self) -> float:
        """How far to go down at once: not to the bottom, where it may have been chance."""
        return DOUBTED * self.rate.top if self.chance.doubtful and self.rate.known else 0.0

    @property
    def _silence_s(self) -> float:
        """How long a bucket that was empty is given to have something again."""
        return min(SILENCE_S[0], 2 * self.latency_s)

    def _open_window(self, rate: float, least: float) -> None:
        # By Little's law, with room: now that the rate is the brake, the window need not be.
        enough = max(least, math.ceil(2 * rate / self.mean_cost * self.latency_s))
        self.rounds.window = float(min(enough, self.max_in_flight))

    def _flowing(self, refusal: Sent) -> float:
        """Return the cost per second that flows: by Little's law, or as it was sent of late.

        The law does not hold yet while long calls are being started and none has ended. Of late is
        since the first call, if that was later: else what was sent in the first moments would be
        spread over seconds in which nothing was.
        """
        by_law = max(1, refusal.in_flight) / self.latency_s * self.mean_cost
        late = self._traffic.cost_of_the_last(LATELY_S, refusal.at)
        span_s = min(LATELY_S, refusal.at - self._traffic.since)
        sent = late / span_s if span_s > 0 else math.inf
        return max(by_law, min(sent, self.pace()))

    def _cut_quota(self, refusal: Sent, now: float) -> None:
        good = self._traffic.minute_before(refusal.at)
        top = max(math.fsum(good), refusal.cost)
        # The fewer fit into a minute, the more each try for more costs: one refusal in that many.
        # But one such try there is, before a few are believed for long.
        requests_per_s = max(1.0, FULL_SPEED * len(good) / MANY_A_MINUTE)
        if not self.quota.known:
            requests_per_s = math.inf
        self.quota.lower_to(top, now, requests_per_s, plateau_s=2 * MINUTE_S)
        self.rate, self._bucket.empty_at = Ceiling(), None
        self._mark_cut(now)
        self._quota_cut = True

    def _requests_per_s(self) -> float:
        return self._traffic.requests_per_s(self.clock())

    # ---- nothing gets through -------------------------------------------------------------

    def _probe(self, sent: Sent, now: float, why: str) -> None:
        """Send one request at a time, each after twice the silence of the last."""
        self._mark_cut(now)
        self.hold_until = max(self.hold_until, now + self.breaker.block(sent, now, why))

    def _resume(self, now: float) -> None:
        breaker = self.breaker
        if breaker.why == "down":
            self.rounds.window = min(self.rounds.window, FIRST_WINDOW)
        elif breaker.long and breaker.freed_by_an_answer():
            self.in_flight_cap.lower_to(breaker.least_refused, now, self._requests_per_s())
            self.rate = Ceiling()
        elif breaker.long and breaker.first and self._looks_like_quota(breaker.first):
            self._cut_quota(breaker.first, now)
        elif breaker.refused_at is not None:
            # Still empty when the last probe was refused: it cannot refill fast, if it refills at
            # all and nothing else was in the way.
            most = self._bucket.most(breaker.refused_at, self.mean_cost)
            if most < self.rate.at(now):
                self.rate.guess(most, now)
                self._measured = False
        if breaker.refused_at is None:
            self._bucket.empty_at = None
        breaker.close()
        self.rounds.open(now, self.limit())

    def _close_round(self, now: float) -> None:
        quiet = max(self.hold_until, self._cut_at) < self.rounds.opened_at and not self.blocked
        if quiet and self.rounds.full:
            lower = self.rounds.judge(
                now, cap_known=self.in_flight_cap.known, latency_s=self.latency_s
            )
            if lower is not None:
                self.in_flight_cap.lower_to(lower, now, self._requests_per_s())
        self.rounds.open(now, self.limit())


def _cost_of(name: str, costs: Mapping[str, float], mirror: Mirror) -> float:
    """Return what a call takes from a bucket; one of somebody's is priced as one of all."""
    return costs.get(name, costs.get(name.rpartition(SCOPE)[2], mirror.mean_cost))
