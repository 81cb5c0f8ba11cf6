"""Each rule of the algorithm alone, on a clock that moves only by hand."""

import math

import pytest

from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.estimates import Ceiling, Rounds
from limpet.pacing.traffic import Sent


class Bench:
    """Limits with a clock, and a way to send and settle by hand."""

    def __init__(self, max_in_flight=1000):
        self.now = 0.0
        self.limits = AdaptiveLimits(lambda: self.now, max_in_flight)

    def send(self, owner=None):
        return self.limits.send(1.0, {}, owner or object())

    def decrease(self):
        """Have three calls refused: fewer could be an accident."""
        for sent in [self.send() for _ in range(3)]:
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


class Server:
    """Answers rounds of calls: how long a call takes depends on how many are in flight."""

    def __init__(self, latency_of):
        self.rounds = Rounds(0, 16)
        self.latency_of = latency_of
        self.now, self.number = 0.0, 0

    def round(self, answered=1.0):
        """Fill the window, answer the calls in the order sent, and adjust; returns the window."""
        rounds, limit = self.rounds, round(self.rounds.window)
        calls = []
        for in_flight in range(limit):
            self.number += 1
            call = Sent(self.now, 1.0, in_flight, None)
            call.number = self.number
            rounds.sent(call, limit)
            calls.append(call)
        self.now += 1.0
        for call in calls[: round(answered * limit)]:
            rounds.answered(call, self.latency_of(call.in_flight + 1))
        if rounds.complete(self.now):
            rounds.adjust(cap_known=False, bold=True)
            rounds.open(self.now)
        return rounds.window


def test_without_a_queue_the_window_grows_fourfold():
    server = Server(lambda _: 0.5)
    assert [server.round() for _ in range(4)] == [48, 192, 768, 3072]


def test_half_of_the_first_window_is_enough():
    server = Server(lambda _: 0.5)
    assert server.round(answered=0.4) == 16
    assert Server(lambda _: 0.5).round(answered=0.5) == 48


def test_where_throughput_only_rises_gently_it_still_pays():
    # 1.5 s at 16 in flight, 6 s at 1,000: continuous batching
    server = Server(lambda n: 1.5 + 4.5 * max(0, n - 16) / 984)
    for _ in range(6):
        server.round()
    assert server.rounds.window > 900


def test_it_goes_back_when_more_in_flight_buys_only_latency():
    server = Server(lambda n: 0.5 * max(1, n / 24))  # 24 slots and a queue
    windows = [server.round() for _ in range(8)]
    assert max(windows) <= 8 * 24
    assert 24 <= windows[-1] <= 3 * 24
    assert server.rounds.found


def test_a_larger_window_is_tried_again_from_time_to_time_and_taken_if_it_pays():
    slots = 24
    server = Server(lambda n: 0.5 * max(1, n / slots))
    for _ in range(8):
        server.round()
    held = server.rounds.window
    windows = {server.round() for _ in range(100)}
    assert max(windows) <= 1.5 * held + 1
    slots = 400
    for _ in range(150):
        server.round()
    assert server.rounds.window > 3 * held


def test_a_call_that_overtakes_earlier_ones_shows_that_nothing_is_queued():
    rounds = Rounds(0, 16)
    calls = []
    for number in range(1, 17):
        calls.append(Sent(0.0, 1.0, number - 1, None))
        calls[-1].number = number
        rounds.sent(calls[-1], 16)
    rounds.answered(calls[2], 4.0)
    assert rounds.window == 16
    rounds.answered(calls[12], 4.5)  # of the later half, the second answer of all
    assert rounds.window == 64


def test_a_cohort_whose_calls_were_refused_does_not_hold_up_the_next():
    server = Server(lambda _: 0.5)
    server.round()
    server.round(answered=0)  # none of these is ever answered
    before = server.rounds.window
    for _ in range(8):
        server.round()
    assert server.rounds.window > before


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
    for sent in storm[:2]:
        bench.limits.refused(sent, 0.0)  # two prove nothing
    assert not bench.limits.rate.known
    bench.limits.refused(storm[2], 0.0)
    top = bench.limits.rate.top
    assert bench.limits.rate.known
    for sent in storm[3:]:
        bench.limits.refused(sent, 0.0)  # sent before the decrease: late news
    assert bench.limits.rate.top == top


def test_refused_three_times_at_a_height_never_passed_is_a_cap():
    bench = Bench()
    for _ in range(5):  # few calls below the cap prove little
        busy = []
        for _ in range(8):
            busy.append(bench.send())
            bench.now += 0.01
        refused = [bench.send() for _ in range(3)]
        bench.now += 0.001
        for sent in refused:
            bench.limits.refused(sent, 0.0)
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


def test_a_quota_is_tried_slowly_and_what_passed_in_one_minute_only_is_not_believed():
    bench = Bench()
    bench.answer(100, every=0.1)
    bench.limits.refused(bench.send(), 20.0)
    assert bench.limits.quota.at(bench.now) == 100  # exactly: it was counted, not measured
    assert bench.limits.quota.at(bench.now + 4 * 60) == 100
    assert bench.limits.quota.at(bench.now + 5 * 60) < 200
    bench.now += 120
    bench.answer(150, every=0.1)  # of two calendar minutes
    bench.limits.refused(bench.send(), 60.0)
    assert bench.limits.quota.top == 100


def test_a_call_that_passes_before_a_minute_is_over_begins_a_new_one():
    bench = Bench()
    bench.answer(120, every=0.05)
    while not bench.limits.breaker.long:
        bench.now = max(bench.now, bench.limits.hold_until)
        refused = [bench.send() for _ in range(1 if bench.limits.blocked else 3)]
        bench.now += 0.05
        for sent in refused:
            bench.limits.refused(sent, 0.0)
    bench.now = bench.limits.hold_until
    probe = bench.send()
    bench.now += 0.5
    assert bench.now < 60
    bench.limits.ok(probe)
    assert bench.limits.quota.known
    assert bench.limits.wait_s(1.0, {}) == 0


def test_many_timeouts_lower_the_number_in_flight():
    bench = Bench()
    sent = [bench.send() for _ in range(10)]
    bench.now += 10
    for answered, hung in zip(sent[:5], sent[5:], strict=True):
        assert bench.limits.failed(hung, timeout=True)
        bench.limits.ok(answered)
    assert bench.limits.rounds.found
    assert bench.limits.limit() < 10


# ---- when nothing gets through -------------------------------------------------------------------


def test_many_that_fail_at_once_are_no_outage_while_others_are_answered():
    bench = Bench()
    slow = [bench.send() for _ in range(20)]
    for answered in slow[:-1]:
        bench.now += 0.9
        bench.limits.ok(answered)
        for _ in range(12):
            bench.limits.failed(bench.send(), timeout=False)
    assert not bench.limits.blocked


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
