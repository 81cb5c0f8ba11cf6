"""What a summary says of votes, orders, cut-off answers and what calls will cost."""

import pytest

import limpet
from limpet.report.summary import remarks
from limpet.run.reading import RunReader
from limpet.types import Between

ROWS = [{"id": f"q{n}", "question": f"question {n}"} for n in range(4)]
FIVE = [*ROWS, {"id": "q4", "question": "question 4"}]
PRICES = {"m": {"prompt": 1_000_000, "completion": 0}}


async def shout(question):
    usage = limpet.Usage(prompt_tokens=2, models={"m": {"prompt_tokens": 2}})
    finish = "length" if question.endswith(("1", "2")) else "stop"
    return limpet.Output(question.upper(), usage=usage, metadata={"finish": finish})


def judge(name, metadata_of, tokens=0):
    @limpet.evaluator(name=name, endpoint=name)
    def judged(output):
        usage = limpet.Usage(prompt_tokens=tokens, models={"m": {"prompt_tokens": tokens}})
        score = limpet.Score(1.0, metadata=metadata_of(int(output[-1])))
        return limpet.Output(score, usage=usage)

    return judged


def evaluate(run, *evaluators, **more):
    return limpet.evaluate(ROWS, shout, evaluators, run=run, show=False, **more)


def test_agreement_and_flips_stand_beside_the_mean(tmp_path):
    votes = judge("votes", lambda n: {"agreement": 1 / 3 if n == 0 else 1.0})
    orders = judge("orders", lambda n: {"flipped": n == 0})
    other = judge("other", lambda n: {"agreement": "yes", "flipped": 1})
    result = evaluate(tmp_path / "run", votes, orders, other)
    for summary in (result.summary, limpet.load_run(tmp_path / "run").summary):
        numbers = summary["evaluators"]
        assert abs(numbers["votes"]["agreement"] - 5 / 6) < 1e-9
        assert numbers["orders"]["flip_rate"] == 0.25
        assert not {"agreement", "flip_rate"} & numbers["other"].keys()
        assert summary["workflow"]["truncated"] == 2


def edited(run, tokens, **prices):
    """Evaluate five items, and plan them with another judge."""
    first = judge("right", lambda n: None, tokens=3)
    limpet.evaluate(FIVE, shout, [first], run=run, show=False, **prices)
    assert limpet.plan(FIVE, shout, [first], run=run).forecast is None
    return limpet.plan(FIVE, shout, [judge("right", lambda n: 0, tokens=tokens)], run=run)


def test_the_plan_says_what_the_calls_will_cost(tmp_path):
    plan = edited(tmp_path / "run", 7, prices=PRICES)
    assert "→ 5 calls of right\nabout 5 calls, 15 tokens, $15.00, " in str(plan)
    assert str(plan).endswith(" (from 5 cells of an earlier version in this run)")
    assert plan.forecast.cost == Between(pytest.approx(15.0), pytest.approx(15.0))


def test_without_prices_the_plan_says_how_many_tokens(tmp_path):
    plan = edited(tmp_path / "run", 3)
    assert "→ 5 calls of right\nabout 5 calls, 15 tokens, " in str(plan)
    assert str(plan).endswith("; cost unknown")


def test_a_damaged_summary_costs_no_plan(tmp_path):
    plan = edited(tmp_path / "run", 3)
    for text in ("", "[]", '{"workflow": 1, "evaluators": {"right": []}}', '{"evaluators": 3}'):
        (tmp_path / "run" / "summary.json").write_text(text)
        judged = [judge("right", lambda n: 0, tokens=3)]
        assert limpet.plan(FIVE, shout, judged, run=tmp_path / "run").forecast == plan.forecast


def test_the_plan_says_how_many_calls_several_votes_take(tmp_path):
    async def never(messages, **params):
        raise AssertionError("nothing is called")

    judged = limpet.judge(never, "Is {{output}} right?", votes=3)
    plan = limpet.plan(ROWS, shout, {"right": judged}, run=tmp_path / "run")
    assert (
        "→ 4 calls of workflow, 4 of right (up to 12 calls)\ntokens, cost and time unknown: "
        in str(plan)
    )


def test_a_column_that_a_judge_needs_is_missed_before_the_first_call(tmp_path):
    async def never(messages, **params):
        raise AssertionError("nothing is called")

    judged = limpet.judge(never, "Is {{output}} faithful to {{context}}?")
    with pytest.raises(limpet.errors.DatasetError, match="needs the column 'context'"):
        limpet.evaluate(ROWS, shout, [judged], run=tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


def test_replies_that_cannot_be_used_are_paid_for_and_counted(tmp_path):
    async def prose(messages, **params):
        return limpet.models.Reply("It is fine.", usage=limpet.Usage(10, 2))

    judged = limpet.judge(prose, "Is {{output}} right?", reasks=1)
    options = {"run": tmp_path / "run", "show": False, "fail_fast": False}
    result = limpet.evaluate(ROWS, shout, {"right": judged}, **options)
    loaded = limpet.load_run(tmp_path / "run")
    for summary in (result.summary, loaded.summary):
        numbers = summary["evaluators"]["right"]
        assert (numbers["completed"], numbers["failed"]) == (0, {"invalid_reply": 4})
        assert summary["scores"]["right"]["mean"] is None
        assert numbers["usage"]["total_tokens"] == 4 * 2 * 12  # asked twice each
    with RunReader(tmp_path / "run") as reader:
        used = [item.score_usage["right"]["usage"]["total_tokens"] for item in reader.items()]
    assert used == [24] * 4


def yes_sayer():
    async def ask(messages, **params):
        return limpet.models.Reply(
            text='{"reason": "", "label": "yes"}',
            parsed={"reason": "", "label": "yes"},
            usage=limpet.Usage(prompt_tokens=10),
        )

    return ask


def votes_of(votes, prompt="Is {{output}} right?", yes=1):
    model = yes_sayer()
    return {"right": limpet.judge(model, prompt, choices={"yes": yes, "no": 0}, votes=votes)}


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("judged", "cost"),
    [
        (votes_of(5), "4 scores of right (up to 8 calls)"),
        (votes_of(1), "4 scores of right (no calls: all replies are on disk)"),
        (votes_of(3, yes=2), "4 scores of right (no calls: all replies are on disk)"),
        (votes_of(3, "Is {{output}} good?"), "4 scores of right (up to 12 calls)"),
        (votes_of(3), "no calls"),
    ],
    ids=["more votes", "fewer votes", "other values", "another prompt", "unchanged"],
)
def test_the_plan_counts_only_calls_whose_replies_are_not_on_disk(tmp_path, judged, cost):
    def echo(question):
        return question

    run = tmp_path / "run"
    limpet.evaluate(ROWS, echo, votes_of(3), run=run, show=False)
    plan = limpet.plan(ROWS, echo, judged, run=run)
    assert str(plan).splitlines()[0].endswith(f"→ {cost}")
    calls = plan.evaluators[0].asks
    assert (plan.forecast.calls.high if plan.forecast else 0) == calls
    ballots = run / "right.ballots_output.jsonl"
    before = len(ballots.read_text().splitlines())
    limpet.evaluate(ROWS, echo, judged, run=run, show=False)
    assert len(ballots.read_text().splitlines()) - before == calls


def test_items_on_which_votes_disagree_are_found_and_their_agreement_is_a_column(tmp_path):
    votes = judge("votes", lambda n: {"agreement": 1 / 3 if n == 2 else 1.0, "votes": {"a": 2}})
    orders = judge("orders", lambda n: {"flipped": n == 0})
    result = evaluate(tmp_path / "run", votes, orders)
    assert [item.id for item in result.filter(disagree=True)] == ["q0", "q2"]
    assert [item.id for item in result.filter(disagree=True, evaluator="votes")] == ["q2"]
    frame = result.to_dataframe()
    assert list(frame["votes.agreement"]) == [1, 1, 1 / 3, 1]
    assert "orders.agreement" not in frame


def test_an_item_is_written_in_a_few_words(tmp_path):
    result = evaluate(tmp_path / "run", judge("right", lambda n: {"agreement": 1.0}))
    assert repr(result.items[0]) == "<ItemResult q0: completed, right 1>"


def test_the_summary_says_how_each_model_of_a_jury_voted(tmp_path):
    async def strict(messages, **params):
        return {"reason": "", "label": "no"}

    jury = limpet.judge([yes_sayer(), strict], "Is {{output}} right?", choices={"yes": 1, "no": 0})
    run = tmp_path / "run"
    result = limpet.evaluate(ROWS, lambda question: question, {"right": jury}, run=run, show=False)
    for summary in (result.summary, limpet.load_run(run).summary):
        assert summary["evaluators"]["right"]["votes_by_model"] == {
            "ask": {"yes": 4},
            "strict": {"no": 4},
        }
    assert "votes of right: ask 4 yes; strict 4 no" in remarks(result.summary, 1.0)


def test_of_very_many_scores_the_first_stand_for_the_others(tmp_path, monkeypatch):
    def echo(question):
        return question

    limpet.evaluate(ROWS, echo, votes_of(3), run=tmp_path / "run", show=False)
    monkeypatch.setattr("limpet.run.planning.work_items._ENOUGH", 2)
    plan = limpet.plan(ROWS, echo, votes_of(5), run=tmp_path / "run")
    assert plan.evaluators[0].asks == 8
