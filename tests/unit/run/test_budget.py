"""A budget holds, whatever the calls cost and however the run ends.

What would break the promise, and what happens instead:

| a run …                                           | what happens                                |
|---------------------------------------------------|---------------------------------------------|
| whose calls cost up to their reservation          | the cap is hard                             |
| whose calls cost more than they reserved          | the excess is theirs, of those in flight    |
| that knows nothing of its first calls             | three of them run one at a time             |
| that is killed, in the middle of a write, too     | what was in flight counts as reserved       |
| whose machine loses power                         | all that could have been spent counts       |
| that is refused, or has no connection             | nothing is spent                            |
| whose cells need several permits of a pacer       | those that wait for the budget hold none    |
| that times out, or is cancelled                   | the reservation counts, "about"             |
| whose ledger is damaged, or a link                | it is refused                               |
| whose disk is full                                | it stops, in good order                     |
"""

import asyncio
import importlib
import os
import random
import signal
from contextlib import nullcontext
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import in_virtual_time, run

import limpet
import limpet.models
from limpet.errors import BudgetReachedError, JournalError, RateLimitError
from limpet.models.chat import most_usage
from limpet.models.failures import refusal
from limpet.pacing.permits import Permits, use_permits
from limpet.pacing.registry import PacerRegistry, endpoint, pacing_with
from limpet.pacing.signals import is_unpaid
from limpet.run.budget import UNITS, Ledger, as_budget, read_ledger
from limpet.run.executing.spending import Call, Spending
from limpet.transport.failures import ConnectionLostError, StatusError, status_error
from limpet.usage import add_receipt, reserving
from limpet.workflows import as_workflow, openai

NANO = UNITS["cost"]
PRICES = {"m": {"prompt": 1.0, "completion": 2.0}}


def ledger_in(folder):
    return Ledger(folder / "spent.json", durable=False)


class Calls:
    """Makes calls within a budget, each of which is charged for what it is told to use.

    Attributes:
        charged: What the calls cost, whether anybody knows or not.
        excess: What they cost beyond their reservations.
    """

    def __init__(self, folder, budget, *, durable=False, beside=()):
        self.folder, self.stopped = folder, []
        self.ledger = Ledger(folder / "spent.json", durable=durable, beside=beside)
        self.spending = Spending(budget, self.ledger, PRICES, self.stopped.append)
        self.step = self.spending.step("workflow", limpet_workflow())
        self.charged = self.excess = 0.0
        self.in_flight = self.most_in_flight = 0

    async def make(self, cost, seconds, end="told", most=None):
        """Make a call; `cost`: in dollars."""
        call = Call(self.step, None if most is None else {"cost": round(most * NANO), "tokens": 0})
        async with call:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            self.charged += 0.0 if end == "refused" else cost
            self.excess += max(0.0, cost - call.reserved.get("cost", 0) / NANO)
            self.check_what_a_kill_would_leave(most)
            await asyncio.sleep(seconds)
            self.in_flight -= 1
            if end == "told":
                call.told = {"total_tokens": 1, "cost": cost}
            elif end != "silent":
                raise ENDS[end]

    def check_what_a_kill_would_leave(self, most):
        if most is not None and self.spending.facts:
            assert read_ledger(self.folder / "spent.json")[0]["cost"] / NANO >= self.charged - 1e-6

    async def make_all(self, calls, **options):
        """Make calls, as many at once as the budget allows, until it is used up."""
        self.spending.start()
        tasks = [asyncio.create_task(self.make(*call, **options)) for call in calls]
        while not self.stopped and not all(task.done() for task in tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} <= {type(None), *map(type, ENDS.values())}
        assert not +self.ledger.reserved
        self.spending.close()
        self.ledger.close()

    @property
    def spent(self):
        return self.ledger.spent["cost"] / NANO


ENDS = {
    "cut off": ConnectionLostError("the connection broke"),
    "too late": TimeoutError(),
    "cancelled": asyncio.CancelledError(),
    "refused": RateLimitError(),
}


def limpet_workflow():
    return as_workflow(lambda question: question)


# ---- the cap ------------------------------------------------------------------------------------

CALLS = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0.01, 5), st.sampled_from(["told", "silent", *ENDS])),
    min_size=1, max_size=60,
)  # fmt: skip
"""Dollars, seconds, and how it ends."""


@settings(max_examples=60, deadline=None)
@given(calls=CALLS, cap=st.floats(0.1, 20))
def test_where_the_most_is_known_the_cap_is_hard(tmp_path_factory, calls, cap):
    made = run(all_made(tmp_path_factory.mktemp("x"), cap, calls, most=3.0))
    assert made.charged <= made.spent + 1e-6
    assert made.spent <= cap + 1e-9


@settings(max_examples=60, deadline=None)
@given(calls=CALLS, cap=st.floats(0.1, 20))
def test_elsewhere_the_excess_is_what_calls_in_flight_cost_beyond_their_reservations(
    tmp_path_factory, calls, cap
):
    made = run(all_made(tmp_path_factory.mktemp("x"), cap, calls))
    assert made.charged <= cap + made.excess + 1e-6
    if not made.stopped and all(end == "told" for *_, end in calls):
        assert made.spent == pytest.approx(sum(cost for cost, *_ in calls), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(calls=CALLS, cap=st.floats(0.1, 20), at=st.floats(0, 10))
def test_a_cap_that_is_set_while_calls_are_in_flight_is_as_hard(tmp_path_factory, calls, cap, at):
    async def going():
        made = Calls(tmp_path_factory.mktemp("x"), {})
        before = []

        def limit():
            before.append(made.spent + made.ledger.reserved["cost"] / NANO)
            made.spending.change({"cost": cap})

        asyncio.get_running_loop().call_later(at, limit)
        await made.make_all(calls, most=3.0)
        return made, before

    made, before = run(going())
    assert made.charged <= made.spent + 1e-6
    if before:
        assert made.spent <= max(cap, *before) + 1e-9


@in_virtual_time
async def test_without_a_budget_a_call_whose_usage_never_came_counts_as_well(tmp_path):
    async def ask():
        usage = limpet.Usage(
            1000, 500, models={"m": {"prompt_tokens": 1000, "completion_tokens": 500}}
        )
        async with reserving(lambda: usage):
            raise TimeoutError

    ledger = ledger_in(tmp_path)
    spending = Spending({}, ledger, PRICES, [].append)
    step = spending.step("workflow", openai("http://x", model="m", prompt="{{input}}", key=None))
    with pytest.raises(TimeoutError):
        await step.attempt(ask)
    assert ledger.spent["cost"] == ledger.about["cost"] == 2_000_000  # $0.002
    assert ledger.spent["tokens"] == 1500


async def all_made(folder, cap, calls, **options):
    made = Calls(folder, {"cost": cap})
    await made.make_all(calls, **options)
    return made


@in_virtual_time
async def test_a_budget_is_used_up_and_not_far_from_it_given_up(tmp_path):
    rng = random.Random(0)
    costs = [(rng.lognormvariate(-5, 0.6), rng.uniform(0.5, 2)) for _ in range(3000)]
    calls = await all_made(tmp_path, 5.0, costs)
    [reason] = calls.stopped
    assert isinstance(reason, BudgetReachedError)
    assert 4.95 <= calls.spent <= 5.05
    assert calls.most_in_flight > 50


@in_virtual_time
async def test_three_calls_of_which_nothing_is_known_run_one_at_a_time(tmp_path):
    calls = Calls(tmp_path, {"cost": 100.0})
    calls.spending.start()
    tasks = [asyncio.create_task(calls.make(1.0, 1.0)) for _ in range(50)]
    for seconds, ended in ((0.5, 0), (1.0, 1), (1.0, 2)):
        await asyncio.sleep(seconds)
        assert calls.in_flight == 1
        assert sum(task.done() for task in tasks) == ended
    await asyncio.gather(*tasks)
    assert calls.most_in_flight > 3


@in_virtual_time
async def test_without_a_limit_of_money_nothing_runs_one_at_a_time(tmp_path):
    calls = Calls(tmp_path, {"calls": 50})
    await calls.make_all([(1.0, 1.0)] * 60)
    assert calls.ledger.spent["calls"] == 50
    assert calls.most_in_flight == 50
    assert "50 calls of 50 calls" in str(calls.stopped[0])


@in_virtual_time
async def test_time_is_a_limit_and_a_pause_is_not_counted(tmp_path):
    calls = Calls(tmp_path, {"time": 60.0})
    calls.spending.start()
    await asyncio.sleep(30)
    calls.spending.pause()
    await asyncio.sleep(1000)
    assert not calls.stopped
    calls.spending.start()
    await asyncio.sleep(29)
    assert not calls.stopped
    await asyncio.sleep(2)
    assert calls.stopped
    calls.spending.close()
    calls.ledger.close()
    assert read_ledger(tmp_path / "spent.json")[0]["time"] / UNITS["time"] == pytest.approx(61)


@in_virtual_time
async def test_a_budget_that_is_raised_while_calls_wait_lets_them_go(tmp_path):
    calls = Calls(tmp_path, {"calls": 2})
    tasks = [asyncio.create_task(calls.make(1.0, 10.0)) for _ in range(4)]
    await asyncio.sleep(1)
    assert calls.in_flight == 2
    assert calls.spending.change({"calls": 10}) == "0 calls of 10 calls"
    await asyncio.gather(*tasks)
    assert not calls.stopped


# ---- what a call counts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "spent", "about"),
    [
        (None, 1, 0),
        (RateLimitError(), 0, 0),
        (StatusError("x", status=503), 0, 0),
        (status_error("x", 404, {}, None, ""), 0, 0),
        (refusal("x", 400, {}, None, "", ""), 0, 0),
        (refusal("x", 401, {}, None, "", ""), 0, 0),
        (StatusError("the gateway gave up", status=504), 2, 2),
        (TimeoutError(), 2, 2),
        (asyncio.CancelledError(), 2, 2),
        (ConnectionLostError("the connection broke"), 2, 2),
        (ValueError("in the code after it"), 2, 2),
    ],
)
@in_virtual_time
async def test_what_a_call_counts_by_how_it_ended(tmp_path, error, spent, about):
    calls = Calls(tmp_path, {"cost": 100.0})
    call = Call(calls.step, {"cost": 2 * NANO, "tokens": 10})
    await call.__aenter__()
    call.told = {"total_tokens": 5, "cost": 1.0} if error is None else None
    await call.__aexit__(None, error, None)
    assert calls.ledger.spent["cost"] == spent * NANO
    assert calls.ledger.about["cost"] == about * NANO
    assert calls.ledger.spent["calls"] == 1
    assert not calls.ledger.about["calls"]
    assert not +calls.ledger.reserved


@pytest.mark.parametrize(
    ("told", "spent"),
    [
        ({"prompt_tokens": 5, "models": {"m": {"prompt_tokens": 5}}}, 2),
        ({"total_tokens": 5, "models": {"m": {"total_tokens": 5}}}, 2),
        ({"prompt_tokens": 10**6, "completion_tokens": 10**6, "cost": 3.0}, 3),
    ],
)
@in_virtual_time
async def test_a_reply_that_reports_half_its_tokens_counts_what_was_reserved(tmp_path, told, spent):
    calls = Calls(tmp_path, {"cost": 100.0})
    async with Call(calls.step, {"cost": 2 * NANO, "tokens": 10}) as call:
        call.told = told
    assert calls.ledger.spent["cost"] == spent * NANO
    assert calls.ledger.about["cost"] == (2 * NANO if spent == 2 else 0)


def test_a_call_that_was_never_sent_costs_nothing():
    class ClientConnectorError(Exception):
        pass

    error = ConnectionLostError("m at x: no connection: connection refused")
    error.__cause__ = ClientConnectorError()
    assert is_unpaid(error)
    assert not is_unpaid(ConnectionLostError("the connection was closed without a response"))


@in_virtual_time
async def test_where_others_report_their_usage_one_that_does_not_counts_as_they_do(tmp_path):
    calls = Calls(tmp_path, {"cost": 100.0})
    for end in ("told", "told", "told", "silent"):
        await calls.make(1.0, 1.0, end)
    assert calls.spent == 5.0
    assert calls.ledger.about["cost"] == 2 * NANO


@in_virtual_time
async def test_the_first_usage_without_a_price_stops_a_run_with_a_limit_of_cost(tmp_path):
    calls = Calls(tmp_path, {"cost": 100.0})
    async with Call(calls.step) as call:
        call.told = {"total_tokens": 5, "models": {"other": {"total_tokens": 5}}}
    assert "other has no price" in str(calls.stopped[0])


# ---- a call that waits --------------------------------------------------------------------------


@in_virtual_time
async def test_a_call_that_is_cancelled_before_it_starts_costs_nothing(tmp_path):
    calls = Calls(tmp_path, {"calls": 2})
    first = asyncio.create_task(calls.make(1.0, 10.0))
    others = [asyncio.create_task(calls.make(1.0, 10.0)) for _ in range(3)]
    await asyncio.sleep(1)
    assert calls.in_flight == 2
    calls.spending.change({"calls": 10})  # the others may start, in the next turn of the loop
    others[1].cancel()
    await asyncio.gather(first, *others, return_exceptions=True)
    assert calls.ledger.spent["calls"] == 3
    assert not +calls.ledger.reserved


@in_virtual_time
async def test_behind_one_that_gave_up_waiting_the_next_may_start(tmp_path):
    calls = Calls(tmp_path, {"cost": 10.0})
    tasks = [
        asyncio.create_task(calls.make(1.0, seconds, most=most))
        for seconds, most in ((100.0, 6.0), (1.0, 9.0), (1.0, 2.0))
    ]
    await asyncio.sleep(10)
    assert [task.done() for task in tasks] == [False, False, False]  # in order
    tasks[1].cancel()
    await asyncio.sleep(10)
    assert [task.done() for task in tasks] == [False, True, True]
    await tasks[0]


@in_virtual_time
async def test_in_a_pause_no_call_starts_and_those_in_flight_end(tmp_path):
    for budget in ({}, {"cost": 100.0}):
        calls = Calls(tmp_path, budget)
        calls.spending.start()
        first = asyncio.create_task(calls.make(1.0, 10.0, most=1.0))
        await asyncio.sleep(1)
        calls.spending.pause()
        second = asyncio.create_task(calls.make(1.0, 10.0, most=1.0))
        await asyncio.sleep(3600)
        assert first.done()
        assert calls.in_flight == 0
        assert not second.done()
        calls.spending.start()
        await second
        calls.spending.close()


STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(st.floats(0.1, 3), min_size=1, max_size=4)),
    min_size=1, max_size=25,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sampled_from([1, 2, 5]), st.sampled_from([1.0, 4.0, 100.0]))
def test_whoever_shares_a_pacer_within_a_budget_each_cell_ends(
    tmp_path_factory, cells, permits, budget
):
    """Cells that reserve for all their calls, and cells of which each request reserves."""
    folder = tmp_path_factory.mktemp("budget")

    async def make_all():
        calls = Calls(folder, {"cost": budget, "calls": 1000})
        by_request = calls.spending.step("judge", limpet_workflow())
        by_request._by_request = True
        registry = PacerRegistry(max_in_flight=permits, fixed=True)
        pacer, working = registry.get("server"), []

        async def call(seconds, context=nullcontext):
            async with endpoint("server"), context():
                working.append(seconds)
                assert len(working) <= permits
                await asyncio.sleep(seconds)
                working.pop()
                add_receipt({"total_tokens": 1, "cost": 0.01})

        async def make(context, seconds):
            await asyncio.gather(*(call(each, context) for each in seconds))
            return limpet.Output("x")

        async def cell(is_request, seconds):
            held = Permits(await pacer.acquire(), object())
            use_permits(held)
            if is_request:
                await by_request.attempt(partial(make, reserving, seconds))
            else:
                await calls.step.attempt(partial(make, nullcontext, seconds))
            held.ok()

        with pacing_with(registry):
            calls.spending.start()
            await asyncio.gather(*(cell(*one) for one in cells))
        assert pacer.state.in_flight == 0
        assert not +calls.ledger.reserved
        return calls.ledger.spent["cost"] / NANO

    paid = sum(len(seconds) for _, seconds in cells)
    assert run(make_all()) == pytest.approx(0.01 * paid)


@in_virtual_time
async def test_what_waits_for_its_permit_does_not_count_after_a_kill(tmp_path):
    calls = Calls(tmp_path, {"calls": 3})
    pacer = PacerRegistry(max_in_flight=1, fixed=True).get("server")
    calls.spending.pause()
    use_permits(Permits(await pacer.acquire(), object()))
    waiting = asyncio.create_task(calls.make(1.0, 10.0))
    await asyncio.sleep(1)
    other = await pacer.acquire()  # it is free while the call waits
    calls.spending.start()
    await asyncio.sleep(1)
    assert (calls.in_flight, ledger_in(tmp_path).spent["calls"]) == (0, 0)
    other.void()
    await asyncio.sleep(1)
    assert (calls.in_flight, ledger_in(tmp_path).spent["calls"]) == (1, 1)
    await waiting


@in_virtual_time
async def test_a_call_that_got_its_permit_in_a_pause_waits_again(tmp_path):
    calls = Calls(tmp_path, {"calls": 3})
    pacer = PacerRegistry(max_in_flight=1, fixed=True).get("server")
    calls.spending.pause()
    use_permits(Permits(await pacer.acquire(), object()))
    waiting = asyncio.create_task(calls.make(1.0, 10.0))
    await asyncio.sleep(1)
    other = await pacer.acquire()
    calls.spending.start()
    calls.spending.pause()
    other.void()
    await asyncio.sleep(3600)
    assert (calls.in_flight, pacer.state.in_flight) == (0, 0)
    calls.spending.start()
    await waiting
    assert calls.ledger.spent["calls"] == 1


@in_virtual_time
async def test_a_call_within_a_call_is_part_of_it(tmp_path):
    calls = Calls(tmp_path, {"cost": 100.0})

    async def inner():
        async with reserving():
            add_receipt({"total_tokens": 1, "cost": 1.0})

    async def outer():
        async with reserving():
            await inner()
        return limpet.Output("x")

    calls.step._by_request = True
    await calls.step.attempt(outer)  # else the inner one waits until the outer one is known
    assert +calls.ledger.spent == {"calls": 1, "cost": NANO, "tokens": 1}


@pytest.mark.parametrize("budget", [{"time": 60.0}, {"cost": 1.0}, {"calls": 1}])
@in_virtual_time
async def test_nothing_starts_in_a_session_whose_budget_is_below_what_was_spent(tmp_path, budget):
    calls = Calls(tmp_path, {})
    calls.spending.start()
    await calls.make(1.0, 100.0)
    calls.spending.close()
    calls.ledger.close()
    later = Calls(tmp_path, budget)
    await later.make_all([(1.0, 1.0)] * 3)
    assert later.charged == 0
    assert "the budget is used up" in str(later.stopped[0])


@in_virtual_time
async def test_a_budget_cannot_be_changed_once_the_run_is_stopping(tmp_path):
    calls = Calls(tmp_path, {"calls": 1})
    await calls.make_all([(1.0, 1.0)] * 2)
    with pytest.raises(limpet.LimpetError, match="the run is stopping"):
        calls.spending.change({"calls": 10})


# ---- on disk ------------------------------------------------------------------------------------


@in_virtual_time
async def test_what_was_in_flight_at_a_kill_counts_at_its_reservation(tmp_path):
    calls = Calls(tmp_path, {"cost": 100.0})
    task = asyncio.create_task(calls.make(0.5, 10.0, most=2.0))
    await asyncio.sleep(1)
    again = ledger_in(tmp_path)  # the first was killed: its file is as it was
    assert again.spent["cost"] == again.about["cost"] == 2 * NANO
    assert not again.reserved
    await task
    again.close()


@in_virtual_time
async def test_after_a_loss_of_power_all_that_could_have_been_spent_counts(tmp_path, monkeypatch):
    calls = Calls(tmp_path, {"cost": 100.0}, durable=True)
    synced = []
    monkeypatch.setattr(
        "limpet.run.budget.sync_file",
        lambda _: synced.append((tmp_path / "spent.json").read_bytes()),
    )
    for _ in range(40):
        await calls.make(0.4, 0.1, most=0.5)
        (tmp_path / "after").mkdir(exist_ok=True)
        (tmp_path / "after/spent.json").write_bytes(synced[-1])  # nothing later is on disk
        with monkeypatch.context() as patched:
            patched.setattr("limpet.run.budget.boot_id", lambda: "another")
            later = Ledger(tmp_path / "after/spent.json", durable=False)
        assert later.spent["cost"] >= calls.ledger.spent["cost"]
        os.close(later._file)
    assert len(synced) < 10  # not one for each call


@pytest.mark.parametrize("torn", [0, 1])
def test_a_kill_within_a_write_leaves_the_numbers_before(tmp_path, torn):
    ledger = ledger_in(tmp_path)
    for calls in range(1, 4 + torn):
        ledger.spent["calls"] = calls
        ledger.write()
    path = tmp_path / "spent.json"
    content = bytearray(path.read_bytes())
    newest = 0 if read_ledger(path)[2] % 2 == 0 else 1024
    content[newest + 30 : newest + 200] = b"x" * 170
    path.write_bytes(bytes(content))
    assert read_ledger(path)[0]["calls"] == 2 + torn


@pytest.mark.parametrize("content", [b"{}", b"x" * 2048, b"00000000 {}\n"])
def test_a_damaged_ledger_is_refused(tmp_path, content):
    (tmp_path / "spent.json").write_bytes(content)
    with pytest.raises(JournalError, match="damaged") as caught:
        ledger_in(tmp_path)
    assert "delete it" in caught.value.hint


def test_without_a_budget_a_damaged_ledger_is_set_aside_and_said(tmp_path, caplog):
    async def answer(question):
        return limpet.Output(question, limpet.Usage(10, 10, cost=1.0))

    rows, home = [{"id": str(n), "input": str(n)} for n in range(4)], tmp_path / "run"
    limpet.evaluate(rows[:2], answer, run=home, show=False)
    (home / "spent.json").write_bytes(b"{}")
    with pytest.raises(JournalError, match="damaged"):
        limpet.evaluate(rows, answer, run=home, budget={"cost": 9}, show=False)
    done = limpet.evaluate(rows, answer, run=home, show=False)
    assert done.summary["workflow"]["completed"] == 4
    assert "counts from zero" in caplog.text
    assert (home / "torn" / "spent.json").read_bytes() == b"{}"
    assert read_ledger(home / "spent.json")[0]["calls"] == 2


def test_a_link_in_its_place_is_refused(tmp_path):
    (tmp_path / "victim").touch()
    (tmp_path / "spent.json").symlink_to(tmp_path / "victim")
    with pytest.raises(JournalError):
        ledger_in(tmp_path)


@in_virtual_time
async def test_a_full_disk_stops_it_in_good_order(tmp_path, monkeypatch):
    calls = Calls(tmp_path, {"cost": 100.0})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    await calls.make(0.5, 1.0)
    assert "No space left" in str(calls.stopped[0])


# ---- the option ---------------------------------------------------------------------------------


def test_amounts_may_have_units():
    given = {"cost": "20", "tokens": "5M", "calls": 5000, "time": "2h"}
    assert as_budget(given) == {"cost": 20, "tokens": 5e6, "calls": 5000, "time": 7200}


@pytest.mark.parametrize(
    "wrong",
    [
        {}, 20, "cost=20", {"cost": 0}, {"cost": -1}, {"costs": 1}, {"cost": "20$"}, {"time": "5d"},
        {"calls": float("nan")}, {"tokens": float("inf")}, {"cost": True}, {"cost": None}, {3: 4},
        {"cost": 1e300}, {"calls": 1.5}, {"tokens": 0.5},
    ],
)  # fmt: skip
def test_what_is_no_budget_is_refused_before_anything_is_spent(wrong, tmp_path):
    called = []
    with pytest.raises((TypeError, ValueError), match="budget"):
        limpet.evaluate([{"input": "a"}], called.append, run=tmp_path / "run", budget=wrong)
    assert not called
    assert not (tmp_path / "run").exists()


@in_virtual_time
async def test_runs_that_share_a_budget_have_what_the_others_left_of_it(tmp_path):
    for name, cost in (("a", 3.0), ("b", 4.5)):
        (tmp_path / name).mkdir()
        ledger = ledger_in(tmp_path / name)
        ledger.spent["cost"] = round(cost * NANO)
        ledger.reserved["cost"] = NANO  # it was killed
        ledger.write()
    beside = [tmp_path / name / "spent.json" for name in ("a", "b", "not begun")]
    calls = Calls(tmp_path, {"cost": 10.0}, beside=beside)
    await calls.make_all([(0.25, 1.0)] * 10, most=0.25)
    assert calls.spent == 0.5
    assert "$10.00 of $10.00" in str(calls.stopped[0])


# ---- a run --------------------------------------------------------------------------------------


def test_a_run_stops_at_its_budget_keeps_its_results_and_goes_on(tmp_path):
    asked = []

    async def answer(question):
        asked.append(question)
        return limpet.Output(question, limpet.Usage(10, 10, cost=0.25))

    rows = [{"id": str(n), "input": str(n)} for n in range(30)]
    with pytest.raises(BudgetReachedError) as caught:
        limpet.evaluate(rows, answer, run=tmp_path / "run", budget={"cost": 2.75}, show=False)
    summary = caught.value.result.summary
    assert len(asked) == summary["workflow"]["completed"] == 10
    assert summary["budget"]["spent"]["cost"] == 2.5
    assert summary["budget"]["words"] == "$2.50 of $2.75"
    assert "given_up" not in summary  # those that waited cost nothing
    assert (caught.value.kind, caught.value.limit) == ("cost", 2.75)
    for _ in range(2):  # a new session does not know what a call may cost: it tries one that fits
        with pytest.raises(BudgetReachedError, match=r"used up: \$2.75 of \$2.75"):
            limpet.evaluate(rows, answer, run=tmp_path / "run", budget={"cost": 2.75}, show=False)
        assert len(asked) == 11
    done = limpet.evaluate(rows, answer, run=tmp_path / "run", budget={"cost": 9}, show=False)
    assert len(asked) == 30
    assert done.summary["budget"]["spent"]["calls"] == 30


def test_what_sessions_without_a_budget_spent_counts_too(tmp_path):
    async def answer(question):
        return limpet.Output(question, limpet.Usage(10, 10, cost=1.0))

    rows = [{"id": str(n), "input": str(n)} for n in range(4)]
    limpet.evaluate(rows[:3], answer, run=tmp_path / "run", show=False)
    with pytest.raises(BudgetReachedError, match=r"\$3\.00 of \$2\.00"):
        limpet.evaluate(rows, answer, run=tmp_path / "run", budget={"cost": 2}, show=False)


def test_a_free_workflow_and_a_paid_judge(tmp_path):
    asked = []

    async def grader(messages, **_):
        asked.append(messages)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost": 1.0}
        return limpet.models.Reply('{"reason": "so", "label": "yes"}', usage=usage)

    judge = limpet.judge(grader, "Is {{output}} right?", choices={"yes": 1, "no": 0}, votes=2)
    rows = [{"id": str(n), "input": str(n)} for n in range(20)]
    with pytest.raises(BudgetReachedError) as caught:
        limpet.evaluate(
            rows, str.upper, [judge], run=tmp_path / "run", budget={"cost": 8}, show=False,
            prices={"*": {"prompt": 0, "completion": 0}},
        )  # fmt: skip
    assert len(asked) == 7  # three answers and a half
    assert not caught.value.result.summary["evaluators"]["judge"]["failed"]
    with pytest.raises(BudgetReachedError):
        limpet.evaluate(
            rows, str.upper, [judge], run=tmp_path / "run", budget={"cost": 9}, show=False,
            prices={"*": {"prompt": 0, "completion": 0}},
        )  # fmt: skip
    assert len(asked) == 8  # the vote without its pair was kept


def test_a_model_without_a_price_is_refused_before_anything_is_spent(tmp_path):
    workflow = openai(url="http://127.0.0.1:9/v1", model="gpt-x", key=None, prompt="{{input}}")
    with pytest.raises(limpet.LimpetError, match="gpt-x has no price"):
        limpet.evaluate([{"input": "a"}], workflow, run=tmp_path / "r", budget={"cost": 1})


def test_a_run_refused_before_it_begins_leaves_only_what_was_there(tmp_path):
    workflow = openai(url="http://127.0.0.1:9/v1", model="gpt-x", key=None, prompt="{{input}}")

    def refused(run):
        with pytest.raises(limpet.LimpetError, match="gpt-x has no price"):
            limpet.evaluate([{"input": "a"}], workflow, run=run, budget={"cost": 1})

    refused(tmp_path / "runs/a")
    assert not any(tmp_path.iterdir())
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/mine.txt").touch()
    refused(tmp_path / "runs/a")
    assert [*tmp_path.rglob("*")] == [tmp_path / "runs", tmp_path / "runs/mine.txt"]
    run = tmp_path / "runs/a"
    limpet.evaluate([{"input": "a"}], str.upper, run=run)
    before = {path.name for path in run.iterdir()}
    with pytest.raises(limpet.LimpetError, match="gpt-x has no price"):
        limpet.evaluate([{"input": "a"}], workflow, run=run, budget={"cost": 1}, on_change="redo")
    assert before <= {path.name for path in run.iterdir()}


def test_waiting_for_the_budget_is_not_the_time_of_a_call(tmp_path):
    async def grader(messages, **_):
        await asyncio.sleep(0.4)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost": 1.0}
        return limpet.models.Reply('{"reason": "so", "label": "yes"}', usage=usage)

    judge = limpet.judge(grader, "Is {{output}} right?", choices={"yes": 1, "no": 0})
    rows = [{"id": str(n), "input": str(n)} for n in range(8)]
    done = limpet.evaluate(  # the first three one at a time: the fourth waits for 1.2 s
        rows, str.upper, [judge], run=tmp_path / "run", budget={"cost": 100}, show=False,
        prices={"*": {"prompt": 0, "completion": 0}}, timeout=1.0, retry=0,
    )  # fmt: skip
    assert done.summary["evaluators"]["judge"]["completed"] == 8


def test_a_stop_ends_those_that_wait_for_the_budget(tmp_path):
    asked = []

    async def answer(question):
        asked.append(question)
        if len(asked) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.01)
        return limpet.Output(question, limpet.Usage(1, 1, cost=0.001))

    rows = [{"id": str(n), "input": str(n)} for n in range(50)]
    with pytest.raises(KeyboardInterrupt):
        limpet.evaluate(rows, answer, run=tmp_path / "run", budget={"cost": 100}, show=False)
    assert len(asked) == 1
    done = limpet.evaluate(rows, answer, run=tmp_path / "run", budget={"cost": 100}, show=False)
    assert len(done.items) == len(set(asked)) == 50


def test_each_attempt_is_a_call(tmp_path):
    asked = []

    async def answer(question):
        asked.append(question)
        raise ConnectionError("try again")

    with pytest.raises(BudgetReachedError):
        limpet.evaluate(
            [{"input": "a"}], answer, run=tmp_path / "run", budget={"calls": 3}, show=False,
            retry=limpet.Retry(10, limpet.executors.Backoff(0, 0)),
        )  # fmt: skip
    assert len(asked) == 3


def test_what_was_spent_stays_spent_when_prices_change(tmp_path):
    async def answer(question):
        return limpet.Output(question, limpet.Usage(10**6, 0))

    rows = [{"id": str(n), "input": str(n)} for n in range(6)]
    given = {"run": tmp_path / "run", "budget": {"cost": 10}, "show": False}
    limpet.evaluate(rows[:3], answer, **given, prices={"*": {"prompt": 2}})
    with pytest.raises(BudgetReachedError) as caught:
        limpet.evaluate(rows, answer, **given, prices={"*": {"prompt": 3}})
    assert caught.value.result.summary["budget"]["words"] == "$9.00 of $10.00"


def test_a_worker_makes_no_call_that_does_not_fit(tmp_path, monkeypatch):
    (tmp_path / "paid_app.py").write_text(
        "import limpet\n"
        "def answer(question):\n"
        "    return limpet.Output(question, limpet.Usage(1, 1, cost=0.25))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    answer = importlib.import_module("paid_app").answer
    rows = [{"id": str(n), "input": str(n)} for n in range(6)]
    with pytest.raises(BudgetReachedError) as caught:
        limpet.evaluate(
            rows, answer, run=tmp_path / "run", budget={"calls": 4}, show=False, engine="processes"
        )
    assert caught.value.result.summary["budget"]["spent"]["cost"] == 1.0
    assert caught.value.result.summary["workflow"]["completed"] == 4


# ---- what a request can use at most -------------------------------------------------------------

BODY = {"messages": [{"role": "user", "content": "é"}], "max_tokens": 10}


@pytest.mark.parametrize(
    ("more", "completion"),
    [
        ({}, 10),
        ({"n": 3}, 30),
        ({"max_completion_tokens": 40}, 40),
        ({"max_tokens": None, "max_completion_tokens": 7}, 7),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, 10),
        ({"messages": [{"role": "assistant", "content": None}]}, 10),
        ({"max_tokens": None}, None),
        ({"max_tokens": "10"}, None),
        ({"n": None}, None),
        ({"n": 0}, None),
        ({"extra_body": {"max_tokens": 4000}}, None),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, None),
        ({"messages": [{"role": "user", "content": ["x"]}]}, None),
        ({"messages": ["x"]}, None),
    ],
)
def test_what_a_request_can_use_at_most(more, completion):
    most = most_usage("m", {**BODY, **more}, {})
    if completion is None:
        assert most is None
    else:
        assert most.completion_tokens == completion
        assert most.prompt_tokens >= len(str(more.get("messages", "é")).encode())
