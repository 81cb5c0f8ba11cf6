"""Each reply of a judge is on disk before it counts, and is not paid for twice."""

import asyncio
import json

import pytest

import limpet
from limpet.evaluators.judge_votes import ballot

ROWS = [{"id": f"q{n}", "question": f"question {n}"} for n in range(4)]


class Panel(limpet.Evaluator):
    """Asks some voters, each a ballot of its own."""

    endpoint = "panel"
    reads = ("output",)

    def __init__(self, voters, ask, worth=1.0, name="panel"):
        self.name = name
        self.fingerprint = {"voters": ",".join(voters), "worth": str(worth)}
        self._voters, self._ask, self._worth = voters, ask, worth

    async def call(self, scored):
        async def vote(voter):
            return await ballot([voter, scored.output], lambda: self._ask(voter, scored.output))

        said = await asyncio.gather(*map(vote, self._voters))
        yes = sum(one["label"] == "yes" for one in said)
        return {"score": limpet.Score(self._worth * yes / len(said))}


class Voters:
    """Answers "yes", and counts who was asked what."""

    def __init__(self):
        self.asked = []
        self.fails = set()

    async def __call__(self, voter, output):
        self.asked.append((voter, output))
        if (voter, output) in self.fails:
            raise limpet.PermanentError("no vote")
        return {"label": "yes"}


async def shout(question):
    return question.upper()


def evaluate(run, voters, ask, **more):
    options = {"worth": more.pop("worth", 1.0)}
    return limpet.evaluate(
        ROWS, shout, [Panel(voters, ask, **options)], run=run, retry=0, show=False, **more
    )


def ballots_in(run):
    lines = (run / "panel.ballots_output.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_more_votes_cost_only_the_new_ones(tmp_path):
    ask = Voters()
    evaluate(tmp_path / "run", ["a", "b", "c"], ask)
    assert len(ask.asked) == 12
    evaluate(tmp_path / "run", ["a", "b", "c", "d", "e"], ask)
    assert len(ask.asked) == 20
    assert {voter for voter, _ in ask.asked[12:]} == {"d", "e"}
    evaluate(tmp_path / "run", ["a", "c"], ask)
    assert len(ask.asked) == 20


def test_another_worth_of_the_votes_costs_nothing(tmp_path):
    ask = Voters()
    evaluate(tmp_path / "run", ["a"], ask)
    result = evaluate(tmp_path / "run", ["a"], ask, worth=5.0)
    assert len(ask.asked) == 4
    assert result.summary["scores"]["panel"]["mean"] == 5.0


def test_a_score_that_failed_half_way_asks_only_for_the_missing_vote(tmp_path):
    ask = Voters()
    ask.fails = {("b", "QUESTION 2")}
    result = evaluate(tmp_path / "run", ["a", "b"], ask)
    assert result.summary["evaluators"]["panel"]["failed"] == {"evaluator": 1}
    assert len(ballots_in(tmp_path / "run")) == 7
    ask.fails, ask.asked = set(), []
    result = evaluate(tmp_path / "run", ["a", "b"], ask)
    assert ask.asked == [("b", "QUESTION 2")]
    assert result.summary["scores"]["panel"]["mean"] == 1.0


def test_a_forced_redo_asks_again(tmp_path):
    ask = Voters()
    evaluate(tmp_path / "run", ["a"], ask)
    evaluate(tmp_path / "run", ["a"], ask, redo=["panel"])
    assert len(ask.asked) == 8
    evaluate(tmp_path / "run", ["a", "b"], ask)
    assert len(ask.asked) == 12


def test_trials_have_votes_of_their_own(tmp_path):
    ask = Voters()
    evaluate(tmp_path / "run", ["a"], ask, trials=2)
    assert len(ask.asked) == 8


def test_a_secret_in_a_ballot_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADER_API_KEY", "sk-a-very-secret-value-1234")

    async def ask(voter, output):
        return {"label": "yes", "reason": "the key is sk-a-very-secret-value-1234"}

    evaluate(tmp_path / "run", ["a"], ask)
    text = (tmp_path / "run/panel.ballots_output.jsonl").read_text()
    assert "very-secret" not in text
    assert '"label":"yes"' in text


def test_a_torn_ballot_is_asked_for_again(tmp_path):
    ask = Voters()
    ask.fails = {("b", "QUESTION 0"), ("b", "QUESTION 1"), ("b", "QUESTION 2"), ("b", "QUESTION 3")}
    evaluate(tmp_path / "run", ["a", "b"], ask, fail_fast=False)
    path = tmp_path / "run/panel.ballots_output.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    ask.fails, ask.asked = set(), []
    evaluate(tmp_path / "run", ["a", "b"], ask)
    assert sorted(voter for voter, _ in ask.asked) == ["a", "b", "b", "b", "b"]


def test_readers_do_not_take_ballots_for_an_evaluator(tmp_path):
    evaluate(tmp_path / "run", ["a"], Voters())
    loaded = limpet.load_run(tmp_path / "run")
    assert list(loaded.summary["evaluators"]) == ["panel"]
    (tmp_path / "run/run.json").unlink()
    (tmp_path / "run/index/run.json").unlink(missing_ok=True)
    assert not any(
        "ballots" in name for name in limpet.load_run(tmp_path / "run").summary["evaluators"]
    )


def test_outside_a_run_a_ballot_is_asked_for():
    async def ask():
        return {"label": "yes"}

    assert asyncio.run(ballot(["a"], ask)) == {"label": "yes"}


def test_a_ballot_that_cannot_be_kept_is_a_failure_and_no_score(tmp_path):
    async def ask(voter, output):
        return {"label": object()}

    result = evaluate(tmp_path / "run", ["a"], ask, fail_fast=False)
    assert result.summary["evaluators"]["panel"]["completed"] == 0
    assert result.summary["evaluators"]["panel"]["failed"] == {"evaluator": 4}


@pytest.mark.parametrize("pace", ["auto", 2])
def test_ballots_on_disk_take_no_permit(tmp_path, pace):
    from limpet.pacing import registry

    pacers = []

    async def ask(voter, output):
        async with registry.endpoint("panel"):
            pacers.append(registry._current.get().get("panel"))
        return {"label": "yes"}

    evaluate(tmp_path / "run", ["a"], ask, pace=pace)
    evaluate(tmp_path / "run", ["a", "b"], ask, pace=pace)
    assert len(pacers) == 8
    assert [pacers[0].state.sent, pacers[-1].state.sent] == [4, 4]


def test_a_number_is_the_most_calls_in_flight_at_an_endpoint_whoever_makes_them(tmp_path):
    from limpet.pacing import registry

    in_flight = most = 0

    async def call():
        nonlocal in_flight, most
        async with registry.endpoint("panel"):
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(0.002)
            in_flight -= 1

    async def ask(voter, output):
        await call()
        return {"label": "yes"}

    class Shout(limpet.Workflow):
        name = "shout"
        fingerprint = {"code": "1"}  # noqa: RUF012 - as people write it
        endpoint = "panel"

        async def call(self, item):
            await call()
            return limpet.Output(item.input.upper())

    rows = [{"id": f"q{n}", "question": f"question {n}"} for n in range(30)]
    panel = Panel(["a", "b", "c"], ask)
    result = limpet.evaluate(rows, Shout(), [panel], run=tmp_path / "run", pace=3, show=False)
    assert result.summary["evaluators"]["panel"]["completed"] == 30
    assert most == 3


def test_ballots_that_cannot_be_read_stop_the_run_before_a_call(tmp_path):
    run, ask = tmp_path / "run", Voters()
    evaluate(run, ["a"], ask)
    asked = len(ask.asked)
    (run / "panel.ballots_output.jsonl").unlink()
    (run / "panel.ballots_output.jsonl").mkdir()
    with pytest.raises(
        limpet.errors.JournalError, match="panel.ballots_output.jsonl: this is a directory"
    ):
        evaluate(run, ["a", "b"], ask)
    assert len(ask.asked) == asked


@pytest.mark.parametrize("later_s", [0.001, 5])
def test_of_two_replies_to_a_vote_the_first_counts_and_both_are_paid(
    tmp_path, later_s, virtual_loops
):
    asked, began = [], []

    async def ask(voter, output):
        asked.append(voter)
        is_second, now = asked.count(voter) == 2, asyncio.get_running_loop().time()
        began.append(now)
        if voter == "b":  # the second reply is there after the first
            await asyncio.sleep(began[0] + 100 + later_s * is_second - now)
        else:
            await asyncio.sleep(1e6 if is_second else 200)
        return {"label": "no" if is_second else "yes", "usage": {"total_tokens": 10}}

    result = limpet.evaluate(
        ROWS[:1],
        shout,
        [Panel(["b", "c"], ask)],
        run=tmp_path / "run",
        stall={"after": 50, "do": "retry"},
        timeout=1e9,  # virtual time passes while a thread writes
        show=False,
    )
    assert sorted(asked) == ["b", "b", "c", "c"]
    ballots = ballots_in(tmp_path / "run")
    assert [ballot["label"] for ballot in ballots] == ["yes", "yes"]
    assert result.items[0].scores["panel"].value == 1.0
    # The evaluator tells no usage of its own; the late reply of "b" has no ballot.
    assert result.summary["evaluators"]["panel"]["usage"]["total_tokens"] == 10


def test_beside_a_stalled_vote_only_the_missing_votes_are_asked_again(tmp_path):
    asked = []

    async def ask(voter, output):
        asked.append(voter)
        if voter == "b" and asked.count("b") == 1:
            await asyncio.sleep(100)
        await asyncio.sleep(0.01)
        return {"label": "yes", "usage": {"total_tokens": 10}}

    result = limpet.evaluate(
        ROWS[:1],
        shout,
        [Panel(["a", "b", "c"], ask)],
        run=tmp_path / "run",
        stall={"after": 0.5, "do": "retry"},
        show=False,
    )
    assert sorted(asked) == ["a", "b", "b", "c"]  # those on disk are not paid for twice
    assert result.items[0].scores["panel"].value == 1.0
    ballots = ballots_in(tmp_path / "run")
    assert len({line["_limpet"]["key"] for line in ballots}) == len(ballots) == 3
