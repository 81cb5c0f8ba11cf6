"""With `stop_when`, a run stops when the interval is narrow enough; what it began is finished."""

import asyncio
import json
import logging
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limpet
from limpet import exact_match, stats
from limpet.datasets.selection import rank
from limpet.run.reading import RunReader
from limpet.run.results.score_words import stop_when_lines

ROWS = [{"id": f"q{n}", "question": f"what {n}", "answer": str(n)} for n in range(200)]
GOAL = {"correct": 0.11}


def number(question):
    return int(question.split()[1])


class Bench:
    """A workflow that is wrong, and slow, for three of ten items, and what was asked of it."""

    def __init__(self, path):
        self.path = path
        self.asked = []
        self.fails = set()

    async def answer(self, question):
        self.asked.append(question)
        n = number(question)
        if n in self.fails:
            raise ValueError("no answer")
        is_wrong = n * 7919 % 10 < 3
        for _ in range(20 * is_wrong):
            await asyncio.sleep(0)
        return "wrong" if is_wrong else str(n)

    def evaluate(self, dataset=ROWS, evaluators=None, **options):
        self.asked.clear()
        evaluators = evaluators or {"correct": exact_match()}
        options = {"version": "1", "pace": 8, "show": False, "retry": 0, **options}
        options = {"fail_fast": False, **options}
        run = self.path and limpet.Run(self.path, durability="flush")
        return limpet.evaluate(dataset, self.answer, evaluators, run, **options)

    @property
    def ids(self):
        return [f"q{number(question)}" for question in self.asked]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "run")


def in_order(rows=ROWS, seed=0):
    return sorted((row["id"] for row in rows), key=lambda id_: rank(seed, id_))


def done(result):
    return [item.id for item in result.items if item.output is not None]


def test_it_stops_when_the_interval_is_narrow_enough_and_says_so(bench):
    result = bench.evaluate(stop_when=GOAL)
    said = result.summary["stop_when"]
    assert said["reached"]
    assert said["of"] == 200
    assert 60 < said["items"] < 170
    assert len(bench.asked) == said["items"] == result.summary["workflow"]["completed"]
    assert result.summary["evaluators"]["correct"]["completed"] == said["items"]
    assert result.stop_reason is None
    assert json.loads((bench.path / "summary.json").read_bytes())["stop_when"] == said
    scores = [item.scores["correct"].value for item in result.items if item.scores]
    found = stats.interval(scores)
    assert said["scores"]["correct"]["half_width"] == pytest.approx((found.high - found.low) / 2)
    assert said["scores"]["correct"]["half_width"] <= 0.11


def test_what_it_did_is_a_random_sample_of_which_nothing_slow_is_left_out(bench):
    result = bench.evaluate(stop_when=GOAL)
    assert set(done(result)) == set(in_order()[: len(bench.asked)])


def test_the_order_is_fixed_by_the_seed(bench, tmp_path):
    bench.evaluate(stop_when=GOAL, pace=1)
    assert bench.ids == in_order()[: len(bench.ids)]
    other = Bench(tmp_path / "other")
    other.evaluate(limpet.Dataset(ROWS, seed=7), stop_when=GOAL, pace=1)
    assert other.ids == in_order(seed=7)[: len(other.ids)]


def test_the_seed_of_the_first_session_counts(bench):
    bench.evaluate(stop_when={"correct": 0.14}, pace=1)
    first = bench.ids
    bench.evaluate(limpet.Dataset(ROWS, seed=7), stop_when={"correct": 0.11}, pace=1)
    assert first + bench.ids == in_order()[: len(first + bench.ids)]


def test_without_it_the_order_is_that_of_the_dataset(bench):
    bench.evaluate(pace=1)
    assert bench.ids == [row["id"] for row in ROWS]
    assert "stop_when" not in json.loads((bench.path / "summary.json").read_bytes())


def test_results_are_in_the_order_of_the_dataset(bench):
    result = bench.evaluate(stop_when=GOAL)
    assert [item.id for item in result.items] == [row["id"] for row in ROWS]


def test_run_again_with_the_same_goal_it_does_nothing(bench):
    first = bench.evaluate(stop_when=GOAL).summary
    again = bench.evaluate(stop_when=GOAL).summary
    assert not bench.asked
    assert again["stop_when"] == first["stop_when"]


def test_nothing_is_opened_when_it_is_enough_already(bench):
    opened = []

    class Workflow:
        def setup(self):
            opened.append("workflow")

        async def __call__(self, question):
            return await bench.answer(question)

    options = {"version": "1", "pace": 8, "show": False, "stop_when": GOAL}
    for _ in range(2):
        limpet.evaluate(ROWS, Workflow, {"correct": exact_match()}, bench.path, **options)
    assert opened == ["workflow"]


def test_a_smaller_half_width_goes_on_and_without_one_the_rest_runs(bench):
    asked = Counter()
    for options in ({"stop_when": GOAL}, {"stop_when": {"correct": 0.08}}, {}):
        result = bench.evaluate(**options)
        assert bench.asked
        asked.update(bench.ids)
    assert asked == Counter(row["id"] for row in ROWS)
    assert len(done(result)) == 200


def test_if_all_items_do_not_reach_it_all_have_run(bench):
    said = bench.evaluate(stop_when={"correct": 0.001}).summary["stop_when"]
    assert not said["reached"]
    assert said["items"] == said["of"] == len(bench.asked) == 200


def test_all_named_scores_must_reach_their_goal(bench):
    @limpet.evaluator(name="length")
    def length(output):
        return len(output) / 10

    evaluators = {"correct": exact_match(), "length": length}
    goals = {"length": 0.05, "correct": 0.11}
    said = bench.evaluate(evaluators=evaluators, stop_when=goals).summary["stop_when"]
    assert said["reached"]
    assert all(score["half_width"] <= score["goal"] for score in said["scores"].values())


def test_scores_that_are_not_binary_are_looked_at_from_100_items_on(bench):
    @limpet.evaluator(name="half")
    def half(output):
        return 0.5 if output == "wrong" else 0.51

    said = bench.evaluate(evaluators={"half": half}, stop_when={"half": 0.2}, pace=1).summary[
        "stop_when"
    ]
    assert 100 <= said["items"] < 150
    bench.path = bench.path.with_name("binary")
    said = bench.evaluate(stop_when={"correct": 0.3}).summary["stop_when"]
    assert 30 <= said["items"] < 80


def test_an_item_that_began_is_finished_in_all_its_trials(bench):
    result = bench.evaluate(stop_when={"correct": 0.1}, trials=2)
    said = result.summary["stop_when"]
    assert said["reached"]
    assert said["items"] < 200
    assert set(Counter(done(result)).values()) == {2}
    scores = [item for item in result.items if item.scores]
    values = [item.scores["correct"].value for item in scores]
    found = stats.interval(values, items=[item.id for item in scores])
    assert said["scores"]["correct"]["half_width"] == pytest.approx((found.high - found.low) / 2)


def test_failures_count_as_worst_and_as_best(bench, tmp_path):
    whole = bench.evaluate(stop_when={"correct": 0.12}).summary["stop_when"]["items"]
    other = Bench(tmp_path / "failing")
    other.fails = set(range(0, 200, 20))
    result = other.evaluate(stop_when={"correct": 0.12})
    said = result.summary["stop_when"]
    assert said["reached"]
    assert said["items"] > whole
    scores = [item.scores["correct"].value for item in result.items if item.scores]
    found = stats.bounds(scores, sum(item.error is not None for item in result.items))
    assert said["scores"]["correct"]["half_width"] == pytest.approx((found.high - found.low) / 2)


def test_what_waits_for_its_last_try_does_not_hold_up_the_decision(bench):
    """The last try comes at the end of the session: waiting for it before would never end."""
    tries = Counter()

    async def answer(question):
        tries[question] += 1
        if number(question) % 20 == 0 and tries[question] < 3:
            raise limpet.TransientError("overloaded")
        return await bench.answer(question)

    result = limpet.evaluate(
        ROWS,
        answer,
        {"correct": exact_match()},
        bench.path,
        version="1",
        pace=8,
        retry=limpet.Retry(2, backoff=limpet.executors.Backoff(base_s=0)),
        show=False,
        stop_when={"correct": 0.14},
    )
    said = result.summary["stop_when"]
    assert said["reached"]
    assert said["items"] == result.summary["workflow"]["completed"] < 200
    assert max(tries.values()) == 3


def test_what_failed_among_the_items_that_began_is_tried_again_first(bench):
    bench.fails = set(range(0, 200, 20))
    before = bench.evaluate(stop_when={"correct": 0.12}).summary["stop_when"]
    failed = {f"q{n}" for n in bench.fails} & set(bench.ids)
    bench.fails = set()
    after = bench.evaluate(stop_when={"correct": 0.12}).summary["stop_when"]
    assert set(bench.ids) == failed
    assert after["items"] == before["items"]
    assert after["scores"]["correct"]["half_width"] < before["scores"]["correct"]["half_width"]


def test_a_score_in_other_units_has_its_half_width_in_them(bench):
    @limpet.evaluator(name="points")
    def points(output):
        return 2 if output == "wrong" else 5

    result = bench.evaluate(evaluators={"points": points}, stop_when={"points": 0.4})
    said = result.summary["stop_when"]
    assert said["reached"]
    assert said["items"] < 200
    scores = [item.scores["points"].value for item in result.items if item.scores]
    found = stats.interval(scores, range=None)
    assert said["scores"]["points"]["half_width"] == pytest.approx((found.high - found.low) / 2)


def test_with_a_range_it_is_in_the_units_of_the_score(bench):
    def points(output):
        return 2 if output == "wrong" else 5

    evaluators = {"points": limpet.evaluator(name="points", range=(1, 5))(points)}
    result = bench.evaluate(evaluators=evaluators, stop_when={"points": 0.4})
    said = result.summary["stop_when"]
    assert said["reached"]
    scores = [item.scores["points"].value for item in result.items if item.scores]
    found = stats.interval(scores, range=(1, 5))
    assert said["scores"]["points"]["half_width"] == pytest.approx((found.high - found.low) / 2)


def test_items_of_a_group_count_together(bench):
    rows = [{**row, "topic": f"t{n // 5}"} for n, row in enumerate(ROWS)]
    topics = {row["id"]: row["topic"] for row in rows}

    def by_topic(output, item):
        return int(item.row["topic"][1:]) % 3 != 0

    evaluators = {"good": limpet.evaluator(name="good", group="topic")(by_topic)}
    result = bench.evaluate(rows, evaluators=evaluators, stop_when={"good": 0.25})
    said = result.summary["stop_when"]
    assert said["reached"]
    scored = [item for item in result.items if item.scores]
    values = [item.scores["good"].value for item in scored]
    found = stats.interval(values, groups=[topics[item.id] for item in scored])
    assert said["scores"]["good"]["half_width"] == pytest.approx((found.high - found.low) / 2)


def test_a_score_outside_its_range_is_said_and_all_items_run(bench, caplog):
    def points(output):
        return 2 if output == "wrong" else 7

    evaluators = {"points": limpet.evaluator(name="points", range=(1, 5))(points)}
    result = bench.evaluate(ROWS[:60], evaluators=evaluators, stop_when={"points": 0.4})
    assert len(bench.asked) == 60
    assert not result.summary["stop_when"]["reached"]
    assert "stop_when: points gives 7, outside its range 1 to 5" in caplog.text


def test_a_half_width_that_everything_reaches_is_refused(bench):
    evaluators = {"points": limpet.evaluator(name="points", range=(1, 5))(len)}
    with pytest.raises(limpet.LimpetError, match="points ± 2: no interval is wider"):
        bench.evaluate(evaluators=evaluators, stop_when={"points": 2})
    assert not bench.path.exists()


def test_a_new_evaluator_scores_only_as_many_answers_as_it_needs(bench):
    bench.evaluate()
    scored = []

    @limpet.evaluator(name="kind")
    def kind(output):
        scored.append(output)
        return output != "wrong"

    evaluators = {"correct": exact_match(), "kind": kind}
    result = bench.evaluate(evaluators=evaluators, stop_when={"kind": 0.11})
    assert not bench.asked
    said = result.summary["stop_when"]
    assert len(scored) == said["items"] < 200
    assert {item.id for item in result.items if "kind" in item.scores} == set(
        in_order()[: said["items"]]
    )


def test_scores_that_a_new_answer_keeps_count_too(bench):
    bench.evaluate()
    result = bench.evaluate(version="2", on_change="redo", stop_when=GOAL)
    said = result.summary["stop_when"]
    assert said["reached"]
    assert set(bench.ids) == set(in_order()[: said["items"]])
    scores = [item.scores["correct"].value for item in result.items if item.id in bench.ids]
    found = stats.interval(scores)
    assert said["scores"]["correct"]["half_width"] == pytest.approx((found.high - found.low) / 2)
    assert len(bench.ids) < 200


def test_a_slow_evaluator_holds_up_the_workflow(bench):
    """Else hundreds of answers would wait for a score when it is enough."""

    @limpet.evaluator(name="slow")
    async def slow(output):
        for _ in range(50):
            await asyncio.sleep(0)
        return output != "wrong"

    said = bench.evaluate(evaluators={"slow": slow}, stop_when={"slow": 0.15}).summary["stop_when"]
    assert said["reached"]
    assert said["items"] < 200


def test_with_a_limit_the_order_is_within_the_selection(bench):
    rows = limpet.Dataset(ROWS, limit=120)
    result = bench.evaluate(rows, stop_when={"correct": 0.14}, pace=1)
    said = result.summary["stop_when"]
    assert (said["of"], said["reached"]) == (120, True)
    assert bench.ids == in_order(ROWS[:120])[: said["items"]]
    result = bench.evaluate(stop_when={"correct": 0.14})
    said = result.summary["stop_when"]
    taken = set(in_order()[: said["items"]])
    assert said["of"] == 200
    assert said["outside"] == len(set(done(result)) - taken) > 0
    assert taken <= set(done(result))


def test_a_try_before_it_is_not_taken_for_a_random_sample(bench):
    bench.evaluate(limpet.Dataset(ROWS, limit=30))
    result = bench.evaluate(stop_when={"correct": 0.14})
    said = result.summary["stop_when"]
    taken = set(in_order()[: said["items"]])
    first = {row["id"] for row in ROWS[:30]}
    assert set(done(result)) == taken | first
    assert said["outside"] == len(first - taken)
    assert not set(bench.ids) & first


def test_a_run_that_is_not_kept_stops_too(bench):
    bench.path = None
    result = bench.evaluate(stop_when=GOAL, save=False)
    assert result.summary["stop_when"]["reached"]
    assert len(bench.asked) < 200


def test_an_interrupted_session_goes_on_where_it_was(bench):
    asked = []

    async def stopped():
        task = asyncio.ensure_future(
            limpet.aevaluate(
                ROWS,
                bench.answer,
                {"correct": exact_match()},
                bench.path,
                version="1",
                pace=8,
                show=False,
                stop_when=GOAL,
                watcher=lambda item: asked.append(item.id) or len(asked) != 60 or task.cancel(),
            )
        )
        await asyncio.wait([task])

    asyncio.run(stopped())
    assert 60 <= len(asked) < 100
    assert "stop_when" not in json.loads((bench.path / "summary.json").read_bytes())
    result = bench.evaluate(stop_when=GOAL)
    assert result.summary["stop_when"]["reached"]
    assert set(done(result)) == set(in_order()[: result.summary["stop_when"]["items"]])


# ---- what cannot be reached ---------------------------------------------------------------------


def gives_labels(output):
    return limpet.Score(None, label="fine" if output else "bad")


def gives_several(output):
    return {"style": output != "wrong", "tone": 1.0}


@pytest.mark.parametrize(
    ("function", "goal", "said"),
    [
        (gives_labels, "judged", "judged gives no numbers"),
        (
            gives_several,
            "judged",
            "judged gives several scores: name one of judged.style, judged.tone",
        ),
        (gives_several, "judged.tune", "judged has no score tune, only judged.style, judged.tone"),
    ],
)
def test_a_score_without_numbers_is_said_and_all_items_run(bench, caplog, function, goal, said):
    evaluators = {"judged": limpet.evaluator(name="judged")(function)}
    with caplog.at_level(logging.WARNING):
        result = bench.evaluate(ROWS[:60], evaluators=evaluators, stop_when={goal: 0.1})
    assert len(bench.asked) == 60
    found = result.summary["stop_when"]
    assert not found["reached"]
    assert found["scores"][goal]["problem"] == said
    assert caplog.text.count(f"stop_when: {said}; the run covers all items") == 1


def test_one_of_several_scores_can_be_named(bench):
    evaluators = {"judged": limpet.evaluator(name="judged")(gives_several)}
    result = bench.evaluate(evaluators=evaluators, stop_when={"judged.style": 0.15})
    assert result.summary["stop_when"]["reached"]
    assert len(bench.asked) < 200


@pytest.mark.parametrize(
    ("stop_when", "error", "message"),
    [
        ({"corect": 0.1}, ValueError, "unknown evaluator 'corect'; did you mean 'correct'"),
        ({"correct": 0}, ValueError, r"stop_when\['correct'\]=0: must be a finite number above 0"),
        ({"correct": -0.1}, ValueError, "must be a finite number above 0"),
        ({"correct": float("nan")}, ValueError, "must be a finite number above 0"),
        ({"correct": float("inf")}, ValueError, "must be a finite number above 0"),
        ({"correct": "0.1"}, TypeError, "must be a finite number above 0"),
        ({"correct": True}, TypeError, "must be a finite number above 0"),
        (0.1, TypeError, "stop_when=0.1: must map scores to half-widths"),
        ({1: 0.1}, TypeError, "must map scores to half-widths"),
    ],
)
def test_a_goal_that_means_nothing_is_refused_before_the_first_call(
    bench, stop_when, error, message
):
    with pytest.raises(error, match=message):
        bench.evaluate(stop_when=stop_when)
    assert not bench.asked
    assert not bench.path.exists()


# ---- readers ------------------------------------------------------------------------------------


def test_readers_say_that_it_is_enough(bench):
    bench.evaluate(stop_when=GOAL)
    with RunReader(bench.path) as reader:
        assert reader.state == "enough"
    assert limpet.load_run(bench.path).state == "enough"
    bench.evaluate()
    with RunReader(bench.path) as reader:
        assert reader.state == "finished"


def test_a_notebook_says_so(bench):
    result = bench.evaluate(stop_when=GOAL)
    said = f"<p>stopped at {result.summary['stop_when']['items']} of 200 items: correct ± 0."
    assert said in result._repr_html_()


def test_the_plan_says_that_it_may_be_less(bench):
    plan = limpet.plan(
        ROWS, bench.answer, {"correct": exact_match()}, bench.path, stop_when={"correct": 0.02}
    )
    assert "; fewer if correct ± 0.02 is reached sooner\n" in str(plan)


# ---- for all ------------------------------------------------------------------------------------


@settings(max_examples=3 if settings.default.derandomize else 15)
@given(
    slow=st.lists(st.integers(0, 30), min_size=80, max_size=80),
    outcomes=st.lists(st.sampled_from("++++-!"), min_size=80, max_size=80),
    goal=st.floats(0.08, 0.3),
    trials=st.integers(1, 2),
    pace=st.integers(1, 40),
)
def test_whatever_is_slow_or_fails_the_sample_is_whole_and_reaches_the_goal(
    slow, outcomes, goal, trials, pace
):
    rows = [{"id": str(n), "question": str(n), "answer": "+"} for n in range(80)]
    started = Counter()

    async def answer(question):
        started[question] += 1
        for _ in range(slow[int(question)]):
            await asyncio.sleep(0)
        if outcomes[int(question)] == "!":
            raise ValueError("no answer")
        return outcomes[int(question)]

    result = limpet.evaluate(
        rows,
        answer,
        {"correct": exact_match()},
        save=False,
        trials=trials,
        version="1",
        pace=pace,
        retry=0,
        fail_fast=False,
        show=False,
        stop_when={"correct": goal},
    )
    said = result.summary["stop_when"]
    begun = in_order(rows)[: said["items"]]
    assert started == Counter(dict.fromkeys(begun, trials))
    ended = {item.id for item in result.items if item.status != "not_run"}
    assert ended == set(begun)
    assert said["reached"] or said["items"] == 80
    if said["reached"]:
        assert said["scores"]["correct"]["half_width"] <= goal
        assert said["items"] >= 30


def test_results_outside_of_the_selection_are_not_called_those_of_another_order(bench):
    goal = {"correct": 0.14}
    bench.evaluate(stop_when=goal, pace=1)  # with more in flight, it has results beyond its goal
    before = {item_id for item_id in bench.ids if number(f"what {item_id[1:]}") >= 120}
    summary = bench.evaluate(limpet.Dataset(ROWS, limit=120), stop_when=goal, pace=1).summary
    said = summary["stop_when"]
    assert said["unselected"] == said["outside"] == len(before) > 0
    words = f"{len(before)} items with results that this session does not select are not among"
    assert any(line.startswith(words) for line in stop_when_lines(summary))
    assert not any("order" in line for line in stop_when_lines(summary))


def test_a_score_without_a_range_does_not_stop_while_something_failed(bench, caplog):
    """What failed could have been any number."""

    def length(output):
        return 40 + 10 * len(output)

    goal = {"length": 100.0}
    evaluators = {"length": limpet.evaluator(name="length")(length)}
    bench.fails = {number(f"what {id_[1:]}") for id_ in in_order()[:3]}
    result = bench.evaluate(evaluators=evaluators, stop_when=goal)
    said = result.summary["stop_when"]
    assert len(bench.asked) == 200
    assert not said["reached"]
    assert said["scores"]["length"]["half_width"] is None
    assert "stop_when: length has 3 failures and no range: declare it" in caplog.text
    bench.fails = set()
    result = bench.evaluate(evaluators=evaluators, stop_when=goal)
    assert result.summary["stop_when"]["scores"]["length"]["half_width"] < 100
