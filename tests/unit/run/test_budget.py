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
| that times out, or is cancelled                   | the reservation counts, "about"             |
| whose ledger is damaged, or a link                | it is refused                               |
| whose disk is full                                | it stops, in good order                     |
"""

import asyncio
import os
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import in_virtual_time, run

import limpet
import limpet.models
from limpet.errors import BudgetReachedError, JournalError, RateLimitError
from limpet.run.budget import NANO, Ledger, as_budget, left_for, read_ledger, rounded_up
from limpet.run.executing.spending import Call, Spending, costs_nothing
from limpet.transport.failures import ConnectionLostError, StatusError
from limpet.workflows import as_workflow, openai

PRICES = {"m": {"prompt": 1.0, "completion": 2.0}}


def ledger_in(folder, *, durable=False):
    return Ledger(folder / "spent.json", durable=durable)


class Calls:
    """Makes calls within a budget, each of which uses what it is told to."""

    def __init__(self, folder, budget, *, durable=False, most=None):
        self.stopped = []
        self.ledger = ledger_in(folder, durable=durable)
        if not durable:  # a thread takes no virtual time, or any
            self.ledger.bound = Counter(dict.fromkeys(("cost", "tokens", "calls"), 10**15))
            self.ledger.covered = self.ledger.bound.copy()
        self.spending = Spending(
            budget, self.ledger, PRICES, {"workflow": 1000}, self.stopped.append
        )
        self.history = self.spending.step("workflow", limpet_workflow())._history
        self.most = most
        self.excess = 0.0
        self.in_flight = 0
        self.most_in_flight = 0
        self.reserved_and_spent = []

    async def make(self, cost, seconds, error=None, most=None):
        """Make a call; `cost`: in dollars."""
        bound = None if most is None else {"cost": round(most * NANO), "tokens": 0}
        call = Call(self.spending, self.history, bound)
        await self.spending.admit(call, holds=False)
        ledger = self.ledger
        self.reserved_and_spent.append(ledger.spent["cost"] + ledger.reserved["cost"])
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(seconds)
        self.in_flight -= 1
        self.excess += max(0.0, cost - call.reserved.get("cost", 0) / NANO)
        call.settle(None if cost is None else {"total_tokens": 1, "cost": cost}, error)

    async def make_all(self, costs, **options):
        """Make calls, as many at once as the budget allows, until it is used up."""
        self.spending.start()
        tasks = [asyncio.create_task(self.make(*cost, **options)) for cost in costs]
        while not self.stopped and not all(task.done() for task in tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.spending.close()
        self.ledger.close()

    @property
    def spent(self):
        return self.ledger.spent["cost"] / NANO


def limpet_workflow():
    return as_workflow(lambda question: question)


# ---- the cap ------------------------------------------------------------------------------------

COSTS = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0.01, 5)), min_size=1, max_size=60
)  # dollars, seconds


@settings(max_examples=60, deadline=None)
@given(costs=COSTS, cap=st.floats(0.1, 20))
def test_where_the_most_is_known_the_cap_is_hard(tmp_path_factory, costs, cap):
    calls = run(made(tmp_path_factory.mktemp("x"), cap, costs, most=3.0))
    assert calls.spent <= cap + 1e-9
    assert all(amount <= round(cap * NANO) for amount in calls.reserved_and_spent)


@settings(max_examples=60, deadline=None)
@given(costs=COSTS, cap=st.floats(0.1, 20))
def test_elsewhere_the_excess_is_what_calls_in_flight_cost_beyond_their_reservations(
    tmp_path_factory, costs, cap
):
    calls = run(made(tmp_path_factory.mktemp("x"), cap, costs))
    assert calls.spent <= cap + calls.excess + 1e-9
    assert all(
        amount <= round(cap * NANO) or amount <= round((cap + calls.excess) * NANO)
        for amount in calls.reserved_and_spent
    )
    if not calls.stopped:
        assert calls.spent == pytest.approx(sum(cost for cost, _ in costs), abs=1e-7)


async def made(folder, cap, costs, **options):
    calls = Calls(folder, {"cost": cap})
    await calls.make_all(costs, **options)
    return calls


@in_virtual_time
async def test_a_budget_is_used_up_and_not_far_from_it_given_up(tmp_path):
    rng = random.Random(0)
    costs = [(rng.lognormvariate(-5, 0.6), rng.uniform(0.5, 2)) for _ in range(3000)]
    calls = await made(tmp_path, 5.0, costs)
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
    assert read_ledger(tmp_path / "spent.json")["seconds"] == pytest.approx(61, abs=1)


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
        (TimeoutError(), 2, 2),
        (asyncio.CancelledError(), 2, 2),
        (ConnectionLostError("the connection broke"), 2, 2),
        (ValueError("in the code after it"), 2, 2),
    ],
)
@in_virtual_time
async def test_what_a_call_counts_by_how_it_ended(tmp_path, error, spent, about):
    calls = Calls(tmp_path, {"cost": 100.0})
    reported = {"total_tokens": 5, "cost": 1.0} if error is None else None
    call = Call(calls.spending, calls.history, {"cost": 2 * NANO, "tokens": 10})
    await calls.spending.admit(call, holds=False)
    call.settle(reported, error)
    assert calls.ledger.spent["cost"] == spent * NANO
    assert calls.ledger.about["cost"] == about * NANO
    assert calls.ledger.spent["calls"] == 1
    assert not +calls.ledger.reserved


def test_a_call_that_was_never_sent_costs_nothing():
    class ClientConnectorError(Exception):
        pass

    error = ConnectionLostError("m at x: no connection: connection refused")
    error.__cause__ = ClientConnectorError()
    assert costs_nothing(error)
    assert not costs_nothing(ConnectionLostError("the connection was closed without a response"))


@in_virtual_time
async def test_the_first_usage_without_a_price_stops_a_run_with_a_limit_of_cost(tmp_path):
    calls = Calls(tmp_path, {"cost": 100.0})
    call = Call(calls.spending, calls.history, None)
    await calls.spending.admit(call, holds=False)
    call.settle({"total_tokens": 5, "models": {"other": {"total_tokens": 5}}}, None)
    assert "other has no price" in str(calls.stopped[0])


# ---- on disk ------------------------------------------------------------------------------------


@in_virtual_time
async def test_what_was_in_flight_at_a_kill_counts_at_its_reservation(tmp_path):
    calls = Calls(tmp_path, {"cost": 100.0})
    task = asyncio.create_task(calls.make(0.5, 10.0, most=2.0))
    await asyncio.sleep(1)
    again = ledger_in(tmp_path)  # the first was killed: its file is as it was
    assert again.spent["cost"] == again.about["cost"] == 2 * NANO
    assert not +again.reserved
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
    newest = 0 if read_ledger(path)["number"] % 2 == 0 else 1024
    content[newest + 30 : newest + 200] = b"x" * 170
    path.write_bytes(bytes(content))
    assert read_ledger(path)["spent"]["calls"] == 2 + torn


@pytest.mark.parametrize("content", [b"{}", b"x" * 2048, b"00000000 {}\n"])
def test_a_damaged_ledger_is_refused(tmp_path, content):
    (tmp_path / "spent.json").write_bytes(content)
    with pytest.raises(JournalError, match="damaged") as caught:
        ledger_in(tmp_path)
    assert "delete it" in caught.value.hint


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
    ],
)  # fmt: skip
def test_what_is_no_budget_is_refused_before_anything_is_spent(wrong, tmp_path):
    called = []
    with pytest.raises((TypeError, ValueError), match="budget"):
        limpet.evaluate([{"input": "a"}], called.append, run=tmp_path / "run", budget=wrong)
    assert not called
    assert not (tmp_path / "run").exists()


def test_other_variants_leave_what_they_did_not_spend(tmp_path):
    for name, cost in (("a", 3.0), ("b", 4.5)):
        (tmp_path / name).mkdir()
        ledger = ledger_in(tmp_path / name)
        ledger.spent = Counter(cost=round(cost * NANO), calls=10)
        ledger.close()
    paths = [tmp_path / name / "spent.json" for name in ("a", "b", "not begun")]
    assert left_for({"cost": 10.0, "calls": 25}, paths) == {"cost": 2.5, "calls": 5}
    with pytest.raises(BudgetReachedError, match=r"other variants have used the budget of \$7"):
        left_for({"cost": 7.0}, paths)


@given(st.floats(0.001, 1e9))
def test_a_suggested_budget_is_a_little_larger(amount):
    assert amount * (1 - 1e-9) <= float(rounded_up("cost", amount)) <= 1.11 * amount


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
    assert caught.value.kind == "cost"
    assert caught.value.more == pytest.approx(2.75 + 1.25 * 20 * 0.25)
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
