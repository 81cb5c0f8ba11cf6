"""Retries, timeouts, pace and stopping: the driver decides what it would decide alone."""

import asyncio
import itertools
import json
import threading
import time

import pytest
from aiohttp import web
from e2e.servers import site

import limpet
from tests.engines.project import BOTH, ONE, PROCESSES, Project, both_engines, several_workers

SLOW = pytest.mark.slow
CODE = '''
import aiohttp

from limpet.pacing import endpoint


async def ask(url, item):
    """As a client does: an error that cannot be pickled, with what the server said."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        async with session.post(url, json={"id": item.id}) as response:
            limpet.pacing.observe(headers=response.headers, usage={"total_tokens": 7})
            return await response.text()


async def answer(item):
    record(item)
    return await ask((HERE / "url").read_text(), item)


@limpet.evaluator(endpoint=None)
async def asks_twice(output, item):
    for _ in range(2):
        async with endpoint("provider/judge"):
            await ask((HERE / "url").read_text(), item)
    return 1


@limpet.evaluator(endpoint="workflow")
async def shares(output, item):
    await ask((HERE / "url").read_text(), item)
    return 1


async def hang(item):
    record(item)
    if item.id == "q1":
        await asyncio.sleep(600)
    return item.expected


def hang_in_a_thread(item):
    record(item)
    if item.id == "q1":
        time.sleep(600 if os.environ.get("LIMPET_TEST_MARK") else 3)
    return item.expected


async def busy(item):
    """Blocks its loop, as user code does: whoever waits behind it has not begun."""
    record(item)
    time.sleep(0.25)
    return item.expected


def always_wrong(item):
    record(item)
    return {"error": "no"}["choices"]


def out_of_quota(item):
    record(item)
    if item.id == "q3":
        raise limpet.errors.QuotaExhaustedError("the account is empty", hint="top it up")
    return item.expected


def wrong_path(item):
    record(item)
    raise limpet.errors.SetupError("the path is wrong for every item", hint="mend it")


def half(item):
    record(item)
    return item.expected if int(item.id[1:]) % 2 else "wrong"
'''


class Counting:
    """Counts who comes, how many at once, and refuses as it is told.

    Attributes:
        arrivals: When each item came.
        most: The most that were here at once.
        refused: How many were refused.
    """

    def __init__(self, refusals=None, seconds=0.0, rate=None, burst=0.0):
        self.arrivals, self.here, self.most, self.refused = {}, 0, 0, 0
        self._refusals, self._seconds = refusals or {}, seconds
        self._rate, self._burst = rate, burst
        self._level, self._at = burst, time.monotonic()
        self._lock = threading.Lock()

    def _headers(self):
        if not self._rate:
            return {}
        return {
            "x-ratelimit-limit-requests": str(int(self._burst)),
            "x-ratelimit-remaining-requests": str(int(self._level)),
            "x-ratelimit-reset-requests": f"{(self._burst - self._level) / self._rate:.3f}s",
        }

    def _fits(self):
        if not self._rate:
            return True
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        fits = self._level >= 1
        self._level -= fits
        return fits

    async def __call__(self, request):
        id_ = json.loads(await request.read())["id"]
        came = self.arrivals.setdefault(id_, [])
        came.append(time.monotonic())
        if len(came) <= self._refusals.get(id_, 0):
            self.refused += 1
            return web.Response(status=429, headers={"Retry-After": "0.4"})
        if not self._fits():
            self.refused += 1
            return web.Response(status=429, headers=self._headers())
        self.here += 1
        self.most = max(self.most, self.here)
        await asyncio.sleep(self._seconds)
        self.here -= 1
        return web.Response(text="said", headers=self._headers())

    @property
    def requests(self):
        return sum(map(len, self.arrivals.values()))


def make(folder, url="", **more):
    project = Project(folder, CODE, **more)
    (folder / "url").write_text(url)
    return project


def evaluate(project, engine, workflow, evaluators=(), **options):
    workflow = f"{project.module}:{workflow}"
    return project.evaluate(engine, evaluators, workflow=workflow, **options)


# ---- refusals -----------------------------------------------------------------------------------


@SLOW
@both_engines
def test_a_refusal_is_retried_when_the_server_said(tmp_path, engine):
    counting = Counting(refusals={"q1": 1, "q4": 2})
    with site(counting) as server:
        project = make(tmp_path, server.url, rows=6)
        result = evaluate(project, engine, "answer", retry=5)
    assert not result.failed
    assert counting.requests == 6 + 3
    for id_ in ("q1", "q4"):
        came = counting.arrivals[id_]
        assert all(later - before >= 0.39 for before, later in itertools.pairwise(came))
    statuses = {item.id: (item.status.value, item.attempts) for item in result.items}
    assert statuses["q1"] == ("completed_with_retries", 2)
    assert statuses["q4"] == ("completed_with_retries", 3)
    assert statuses["q0"] == ("completed", 1)


class Seen(limpet.types.Watcher):
    def __init__(self):
        self.begun, self.failed, self.ended = [], [], []

    def started(self, cell, attempt):
        self.begun.append((cell.id, attempt))

    def attempt_failed(self, cell, facts):
        self.failed.append(cell.id)

    def finished(self, outcome):
        self.ended.append(outcome)


@pytest.fixture(scope="module", params=BOTH)
def refused_once(request, tmp_path_factory):
    """The watcher, the pacer and the server of a run in which one item was refused once."""
    watcher, pacer, counting = Seen(), limpet.pacing.Pacer("provider"), Counting(refusals={"q1": 1})
    with site(counting) as server:
        project = make(tmp_path_factory.mktemp("refused"), server.url, rows=4)
        pace = limpet.Pace(pacer=pacer)
        evaluate(project, request.param, "answer", retry=3, watcher=watcher, pace=pace)
    return watcher, pacer, counting


def test_what_a_call_observed_reaches_the_pacer(refused_once):
    _, pacer, _ = refused_once
    assert pacer.state.usage["total_tokens"] == 4 * 7
    assert pacer.state.in_flight == 0


def test_a_refusal_reaches_the_pacer(refused_once):
    _, pacer, counting = refused_once
    assert pacer.state.refused == counting.refused == 1
    assert pacer.state.sent == 5


def test_a_watcher_sees_every_attempt_and_every_outcome(refused_once):
    watcher, _, _ = refused_once
    assert sorted(watcher.begun) == [("q0", 1), ("q1", 1), ("q1", 2), ("q2", 1), ("q3", 1)]
    assert watcher.failed == ["q1"]
    assert len(watcher.ended) == 4


# ---- pace ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluator", ["shares", pytest.param("asks_twice", marks=SLOW)])
@several_workers
def test_a_fixed_pace_holds_for_all_workers_together(tmp_path, engine, evaluator):
    counting = Counting(seconds=0.03)
    with site(counting) as server:
        project = make(tmp_path, server.url, rows=16)
        # Both at one endpoint: three in all. At two endpoints: three at each.
        evaluate(project, engine, "answer", {"judge": f"APP:{evaluator}"}, pace=3)
    assert counting.most <= (3 if evaluator == "shares" else 6)
    assert counting.requests == 16 * (2 if evaluator == "shares" else 3)


def refused_at(folder, engine, rows, rate):
    counting = Counting(seconds=0.1, rate=rate, burst=20)
    with site(counting) as server:
        project = make(folder, server.url, rows=rows)
        began = time.monotonic()
        result = evaluate(project, engine, "answer", {"judge": "APP:shares"}, retry=5)
        seconds = time.monotonic() - began
    assert not result.failed
    return counting.refused, seconds


@SLOW  # all workers ask the driver's one pacer: the tests above
def test_a_server_with_a_limit_is_not_asked_more_often_than_by_one_process(tmp_path):
    one, _ = refused_at(tmp_path / "one", ONE, 60, 60)
    many, _ = refused_at(tmp_path / "many", PROCESSES, 60, 60)
    assert many <= one + 6  # 5% of the requests: which of them is refused is a matter of moments


@SLOW
def test_over_a_longer_run_the_limit_is_used_as_well_as_by_one_process(tmp_path):
    one, one_s = refused_at(tmp_path / "one", ONE, 600, 100)
    many, many_s = refused_at(tmp_path / "many", PROCESSES, 600, 100)
    assert many <= one + 24
    assert many_s <= 1.1 * one_s + 2


# ---- timeouts -----------------------------------------------------------------------------------


@SLOW  # the next test has one that hangs, again and again
@pytest.mark.parametrize("workflow", ["hang", "hang_in_a_thread"])
@both_engines
def test_a_call_that_hangs_times_out_alone(tmp_path, engine, workflow):
    project = make(tmp_path, rows=5)
    result = evaluate(project, engine, workflow, timeout=1, pace=3)
    errors = {item.id: item.error["class"] for item in result.failed}
    assert errors == {"q1": "timeout"}
    assert project.counts() == {f"q{n}": 1 for n in range(5)}


@both_engines
def test_a_call_that_times_out_is_retried_as_in_one_process(tmp_path, engine):
    project = make(tmp_path, rows=3)
    retry = limpet.Retry(5, limpet.executors.Backoff(0, 0), max_timeouts=2)
    result = evaluate(project, engine, "hang", timeout=0.7, retry=retry)
    assert project.counts() == {"q0": 1, "q1": 3, "q2": 1}
    [failed] = result.failed
    assert (failed.error["class"], failed.attempts) == ("timeout", 3)


@pytest.fixture(scope="module")
def behind_each_other(tmp_path_factory):
    """The items of a run whose calls wait for a busy worker, longer than each may take."""
    project = make(tmp_path_factory.mktemp("busy"), rows=8)
    return evaluate(project, {"processes": 1}, "busy", timeout=1.2, pace=8).items


def test_who_waits_for_a_busy_worker_does_not_time_out(behind_each_other):
    found = [(item.status.value, item.attempts) for item in behind_each_other]
    assert found == [("completed", 1)] * 8


def test_the_seconds_of_a_call_are_its_own_and_not_those_it_waited(behind_each_other):
    seconds = [item.seconds for item in behind_each_other]
    assert sum(seconds) < 8 * 8 * 0.25 / 2  # all that waited: 9 s
    assert min(seconds) >= 0.24


# ---- stopping -----------------------------------------------------------------------------------


@SLOW  # an empty account stops it too, and test_errors has the line of each error
@both_engines
def test_a_mistake_stops_the_run_early_and_shows_the_line(tmp_path, engine):
    project = make(tmp_path, rows=200)
    result = evaluate(project, engine, "always_wrong", fail_fast=True, retry=10)
    assert isinstance(result.stop_reason, limpet.errors.FailFastError)
    assert 'return {"error": "no"}["choices"]' in result.stop_reason.traceback
    assert 10 <= len(project.calls) <= 42
    assert project.result.summary["workflow"]["not_run"] > 150


@both_engines
def test_an_empty_account_stops_the_run_and_fails_nobody(tmp_path, engine):
    project = make(tmp_path, rows=30)
    result = evaluate(project, engine, "out_of_quota", pace=1)
    assert isinstance(result.stop_reason, limpet.errors.QuotaExhaustedError)
    assert result.stop_reason.hint == "top it up"
    assert project.records("failures") == []
    assert project.recorded() == ["q0", "q1", "q2"]
    assert len(project.calls) == 4


@SLOW
@both_engines
def test_a_set_up_error_in_a_call_stops_the_run_as_in_one_process(tmp_path, engine):
    project = make(tmp_path, rows=30, workflow="wrong_path", more="pace: 2\n")
    done = project.run(engine=engine)
    assert done.returncode in {2, 3}
    assert "the path is wrong for every item" in done.stderr
    assert "mend it" in done.stderr
    assert project.records("failures") == []
    assert len(project.calls) <= 4


@SLOW  # the driver decides: unit/run/test_stop_when
@both_engines
def test_a_run_that_has_enough_stops_and_what_began_is_finished(tmp_path, engine):
    project = make(tmp_path, rows=200)
    result = evaluate(
        project, engine, "half", {"correct": limpet.exact_match()}, stop_when={"correct": 0.12},
        pace=4,
    )  # fmt: skip
    said = result.summary["stop_when"]
    assert said["reached"]
    assert 30 <= len(project.calls) < 120
    assert len(project.calls) == len(project.recorded())
    assert result.summary["evaluators"]["correct"]["completed"] == len(project.recorded())


COMPUTES = """
RUNNING = []


def answer(item):
    record(item)
    RUNNING.append(item.id)
    beside = len(RUNNING)
    until = time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    RUNNING.remove(item.id)
    return str(beside)
"""


def test_a_worker_runs_one_plain_function_at_a_time(tmp_path):
    project = Project(tmp_path, COMPUTES, rows=30)
    result = project.evaluate({"processes": 2}, pace=16)
    assert [item.output.value for item in result.items] == ["1"] * 30
    assert len(project.pids) == 2
