"""Each rule of the algorithm alone, on a clock that moves only by hand."""

import math

import pytest

from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.estimates import Ceiling, Rounds


class Bench:
    """Limits with a clock, and a way to send and settle by hand."""

    def __init__(self, max_in_flight=1000):
        self.now = 0.0
        self.limits = AdaptiveLimits(lambda: self.now, max_in_flight)

    def send(self, owner=None):
        return self.limits.send(1.0, {}, owner or object())

    def decrease(self):
        """Have two calls refused: one alone could be an accident."""
        for sent in [self.send(), self.send()]:
            self.limits.refused(sent, 0.0)

    def answer(self, count, seconds=1.0, every=0.05):
        """Send calls one by one and have each answered after a while."""
        under_way = []
        for _ in range(count):
            under_way.append(self.send())
            self.now += every
            while under_way and under_way[0].at <= self.now - seconds:
                self.limits.ok(under_way.pop(0))
        for sent in under_way:
            self.now = max(self.now, sent.at + seconds)
            self.limits.ok(sent)


# ---- a ceiling ---------------------------------------------------------------------------------


def test_a_ceiling_dips_stays_and_tries_for_more():
    ceiling = Ceiling()
    assert ceiling.at(5) == math.inf
    ceiling.lower_to(100, 10, requests_per_s=20)
    assert ceiling.at(10) == pytest.approx(98)
    assert 98 < ceiling.at(12) < ceiling.at(15) == pytest.approx(100)
    assert ceiling.at(17) < 101
    assert ceiling.at(15 + 16) == pytest.approx(200)


def test_a_ceiling_that_is_confirmed_is_held_longer():
    ceiling = Ceiling()
    for at in range(0, 100, 10):
        ceiling.lower_to(100, at, requests_per_s=20)
    assert ceiling.at(90 + 29) <= 100
    ceiling.lower_to(50, 100, requests_per_s=20)  # another limit: to be confirmed anew
    assert ceiling.at(106) > 50


def test_where_requests_are_few_everything_takes_its_time():
    ceiling = Ceiling()
    ceiling.lower_to(1, 0, requests_per_s=1)
    assert ceiling.at(45) <= 1
    assert ceiling.at(50 + 160) == pytest.approx(2)


# ---- slow start ----------------------------------------------------------------------------------


def round_of(rounds, now, answers, latency, seconds):
    rounds.full = True
    for _ in range(answers):
        rounds.answered(latency)
    capped = rounds.adjust(now + seconds, cap_known=False, latency_s=latency)
    rounds.open(now + seconds, round(rounds.window))
    return capped


def test_the_window_doubles_while_it_pays():
    rounds = Rounds(0, 16)
    assert round_of(rounds, 0, 16, 1.0, 1.0) is None
    assert round_of(rounds, 1, 32, 1.0, 1.0) is None
    assert rounds.window == 64


def test_it_goes_back_when_it_buys_only_latency():
    rounds = Rounds(0, 16)
    round_of(rounds, 0, 16, 1.0, 1.0)
    round_of(rounds, 1, 32, 1.0, 1.0)
    assert round_of(rounds, 2, 64, 2.0, 2.0) == 32
    assert rounds.window == 32


def test_without_more_latency_there_is_no_queue_whatever_the_throughput_looks_like():
    rounds = Rounds(0, 16)
    round_of(rounds, 0, 16, 1.0, 1.0)
    assert round_of(rounds, 1, 32, 1.1, 2.0) is None
    assert rounds.window == 32


def test_long_calls_take_larger_steps():
    rounds = Rounds(0, 16)
    round_of(rounds, 0, 16, 16.0, 16.0)
    assert rounds.window == 64


# ---- decreases -----------------------------------------------------------------------------------


def test_what_was_accepted_between_two_first_refusals_is_the_rate():
    bench = Bench()
    bench.answer(40)
    bench.now += 0.1
    bench.decrease()
    first = bench.now
    bench.answer(100, every=0.1)  # 10 a second are accepted
    bench.now = first + 10.0
    bench.limits.refused(bench.send(), 0.0)
    assert bench.limits.rate.top == pytest.approx(10, rel=0.02)


def test_one_decrease_for_each_episode():
    bench = Bench()
    bench.answer(40)
    storm = [bench.send() for _ in range(6)]
    bench.now += 0.05
    bench.limits.refused(storm[0], 0.0)  # one alone proves nothing
    assert not bench.limits.rate.known
    bench.limits.refused(storm[1], 0.0)
    top = bench.limits.rate.top
    assert bench.limits.rate.known
    for sent in storm[2:]:
        bench.limits.refused(sent, 0.0)  # sent before the decrease: late news
    assert bench.limits.rate.top == top


def test_refused_three_times_at_a_height_never_passed_is_a_cap():
    bench = Bench()
    for _ in range(4):  # the first alone proves nothing
        busy = []
        for _ in range(8):
            busy.append(bench.send())
            bench.now += 0.01
        refused = bench.send()
        bench.now += 0.001
        bench.limits.refused(refused, 0.0)
        bench.now += 1.0
        for sent in busy:
            bench.limits.ok(sent)
    assert bench.limits.in_flight_cap.top == 8
    assert not bench.limits.rate.known


def test_a_long_named_wait_is_a_quota_per_minute():
    bench = Bench()
    bench.answer(100, every=0.1)
    bench.limits.refused(bench.send(), 20.0)
    assert bench.limits.quota.top == 100
    assert bench.limits.wait_s(1.0, {}) == 20.0


def test_many_timeouts_lower_the_number_in_flight():
    bench = Bench()
    sent = [bench.send() for _ in range(10)]
    bench.now += 10
    for one in sent[:5]:
        bench.limits.ok(one)
    for one in sent[5:]:
        assert bench.limits.failed(one, timeout=True)
    assert bench.limits.in_flight_cap.known


# ---- when nothing gets through -------------------------------------------------------------------


def test_ten_different_calls_failing_in_a_row_are_an_outage_and_one_is_not():
    bench = Bench()
    for _ in range(50):
        assert bench.limits.failed(bench.send(owner="the same"), timeout=False)
    charged = [bench.limits.failed(bench.send(), timeout=False) for _ in range(9)]
    assert charged == [True] * 8 + [False]
    assert bench.limits.blocked == "down"


def test_an_outage_is_probed_one_at_a_time_ever_more_rarely_until_one_passes():
    bench = Bench()
    for _ in range(10):
        bench.limits.failed(bench.send(), timeout=False)
    gaps = []
    for _ in range(7):
        gaps.append(bench.limits.wait_s(1.0, {}))
        bench.now += gaps[-1]
        probe = bench.send()
        assert bench.limits.wait_s(1.0, {}) is None  # nobody else meanwhile
        bench.limits.failed(probe, timeout=False)
    assert gaps == [0.5, 1, 2, 4, 8, 15, 15]
    bench.now += 15
    bench.limits.ok(bench.send())
    assert bench.limits.blocked is None


def test_a_probe_that_is_not_refused_has_passed_long_before_it_is_answered():
    bench = Bench()
    bench.answer(20)
    bench.decrease()
    bench.now += 0.6
    bench.limits.refused(bench.send(), 0.0)
    assert bench.limits.blocked == "refused"
    bench.now += 0.6
    bench.send()  # a call of half a minute
    assert bench.limits.wait_s(1.0, {}) == pytest.approx(2.0)
    bench.now += 2.0
    bench.limits.wait_s(1.0, {})
    assert bench.limits.blocked is None


def test_what_was_never_made_leaves_no_trace():
    bench = Bench(max_in_flight=1)
    bench.limits.unsend(bench.send())
    assert bench.limits.in_flight == 0
    assert bench.limits.calls_per_s() == 0
