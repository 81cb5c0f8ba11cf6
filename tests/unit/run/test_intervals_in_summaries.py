"""A summary says what its scores support, and a sentence where a number would mean nothing."""

import json
import subprocess
import sys

import pytest
from cut_short import cut_short

import limpet
from limpet.cli.run_ending import ending_of
from limpet.cli.run_flags import Floor
from limpet.evaluators import as_evaluator
from limpet.run.reading import RunReader
from limpet.run.results.score_words import ScoreName, headline, of_completed, score_words, span

TOPICS = "abcdef"


def rows(number):
    return [
        {"id": f"q{at}", "question": at, "answer": at % 4 != 3, "topic": TOPICS[at % 6], "of": "x"}
        for at in range(number)
    ]


def evaluate(run, score, *, number=20, workflow=lambda question: question, **options):
    options = {"version": "1", "fail_fast": False, "show": False, **options}
    retry = limpet.Retry(max_retries=0)
    return limpet.evaluate(rows(number), workflow, [score], run=run, retry=retry, **options)


def numbers_of(*args, **options):
    return evaluate(*args, **options).summary["scores"]["score"]


def score(output, item):
    return item.row["answer"]


def fails_on(*questions):
    def workflow(question):
        if question in questions:
            raise limpet.PermanentError("no answer")
        return question

    return workflow


def scaled(function, **scale):
    return as_evaluator(function, "score", scale=limpet.types.Scale(**scale))


def test_a_mean_has_its_interval_and_its_method(tmp_path):
    numbers = numbers_of(tmp_path / "run", score)
    assert numbers["interval"] == {
        "low": pytest.approx(0.531, abs=1e-3),
        "high": pytest.approx(0.888, abs=1e-3),
        "method": "Wilson",
        "n": 20,
        "level": 0.95,
    }
    assert "bounds" not in numbers
    assert headline(numbers) == "0.750 (0.53–0.89)"


def test_what_failed_is_bounds_and_the_mean_of_what_completed_is_called_so(tmp_path):
    def flaky(output, item):
        if output == 2:
            raise limpet.PermanentError("no score")
        return item.row["answer"]

    numbers = numbers_of(tmp_path / "run", as_evaluator(flaky, "score"), workflow=fails_on(0, 1))
    bounds = numbers["bounds"]
    assert bounds["missing"] == 3  # two without an answer, one without a score
    assert bounds["worst"] == pytest.approx(12 / 20)
    assert bounds["best"] == pytest.approx(15 / 20)
    assert bounds["low"] < numbers["interval"]["low"]
    assert bounds["high"] > numbers["interval"]["high"]
    assert numbers["mean"] == pytest.approx(12 / 17)
    assert headline(numbers) == f"0.706 ({span(bounds['low'], bounds['high'])})"
    assert of_completed(numbers) == "of 17 completed"
    assert score_words(numbers) == f"{headline(numbers)} of 17 completed"


def test_a_failure_is_the_highest_score_where_lower_is_better(tmp_path):
    evaluator = scaled(score, higher_is_better=False)
    bounds = numbers_of(tmp_path / "run", evaluator, workflow=fails_on(0))["bounds"]
    assert bounds["worst"] == pytest.approx(15 / 20)
    assert bounds["best"] == pytest.approx(14 / 20)


def test_one_yes_or_no_is_nearly_anything(tmp_path):
    interval = numbers_of(tmp_path / "run", score, number=1)["interval"]
    assert (interval["method"], interval["high"]) == ("Wilson", 1.0)
    assert interval["low"] < 0.21


def test_one_item_has_no_interval(tmp_path):
    numbers = numbers_of(tmp_path / "run", as_evaluator(lambda output: 0.5, "score"), number=1)
    assert "interval" not in numbers
    assert numbers["interval_note"] == "one item: too few for an interval"


def test_several_trials_of_one_item_are_one_item(tmp_path):
    numbers = numbers_of(tmp_path / "run", score, number=1, trials=4)
    assert "interval" not in numbers


def test_groups_make_the_interval_wider_and_too_few_make_none(tmp_path):
    alone = numbers_of(tmp_path / "alone", as_evaluator(by_topic, "score"), number=60)["interval"]
    grouped = numbers_of(tmp_path / "groups", scaled(by_topic, group="topic"), number=60)
    assert grouped["interval"]["groups"] == 6
    assert grouped["group"] == "topic"
    assert grouped["interval"]["high"] - grouped["interval"]["low"] > alone["high"] - alone["low"]
    few = numbers_of(tmp_path / "few", scaled(by_topic, group="of"), number=60)
    assert few["interval_note"] == "1 group: an interval by groups needs at least 5"
    assert "interval" not in few


def by_topic(item):
    return item.row["topic"] in "abc"


def test_scores_outside_their_range_are_said_and_claim_nothing(tmp_path):
    numbers = numbers_of(tmp_path / "run", scaled(lambda output: output, range=(1, 5)))
    assert numbers["interval_note"] == "15 scores lie outside the declared range 1–5"
    assert numbers["mean"] == 9.5
    assert not {"interval", "bounds"} & numbers.keys()


def test_without_a_range_failures_cannot_be_counted_and_that_is_said(tmp_path):
    evaluator = as_evaluator(lambda output: output, "score")
    numbers = numbers_of(tmp_path / "run", evaluator, workflow=fails_on(4))
    assert numbers["interval"]["method"] == "Student's t"
    assert "bounds" not in numbers
    assert numbers["interval_note"] == "without 1 that failed: declare the range to count them"


def test_without_a_range_calls_in_flight_are_not_called_failures(tmp_path):
    evaluator = as_evaluator(lambda output: output, "score")
    numbers_of(tmp_path / "run", evaluator, workflow=fails_on(4))
    with RunReader(tmp_path / "run") as reader:
        numbers = reader.numbers().summary(3)["scores"]["score"]
    said = "without 1 that failed and 3 in flight: declare the range to count them"
    assert numbers["interval_note"] == said


def test_labels_have_intervals_and_may_stand_beside_numbers(tmp_path):
    def mixed(output):
        return limpet.Score(None if output < 5 else 1.0, label="short" if output < 5 else "long")

    numbers = numbers_of(tmp_path / "run", as_evaluator(mixed, "score"))
    assert numbers["label_intervals"]["short"]["low"] == pytest.approx(0.112, abs=1e-3)
    assert numbers["interval_note"] == "5 scores are labels without a number"
    assert numbers["interval"]["n"] == 15


def test_several_trials_say_how_often_one_succeeds_and_how_often_all_do(tmp_path):
    calls = {}

    def workflow(question):
        calls[question] = calls.get(question, 0) + 1
        return calls[question] != 1 or question % 2 == 0  # odd ones fail once in three

    numbers = numbers_of(
        tmp_path / "run", as_evaluator(lambda output: output, "score"), workflow=workflow, trials=3
    )
    assert numbers["pass_at_k"]["3"]["mean"] == 1.0
    assert numbers["pass_hat_k"]["3"]["mean"] == 0.5
    assert numbers["pass_hat_k"]["3"]["low"] < 0.5 < numbers["pass_hat_k"]["3"]["high"]
    assert list(numbers["pass_at_k"]) == ["1", "2", "3"]
    assert numbers["interval"]["n"] == 20
    assert numbers["more_helps"] == "trials"
    assert numbers["within"] == pytest.approx(1 / 6)


def test_each_item_counts_once_however_many_of_its_trials_failed(tmp_path):
    calls = []

    def workflow(question):
        calls.append(question)
        if question == 0 and calls.count(0) > 1:
            raise limpet.PermanentError("no answer")
        return float(question == 0)

    evaluator = as_evaluator(lambda output: output, "score")
    numbers = numbers_of(tmp_path / "run", evaluator, number=2, workflow=workflow, trials=2)
    assert numbers["completed"] == 3
    assert numbers["mean"] == 0.5
    assert numbers["bounds"]["worst"] == 0.25


def test_what_has_not_run_makes_a_mean_an_interim_one(tmp_path):
    def workflow(question):
        if question == 10:
            raise limpet.errors.QuotaExhaustedError("nothing is left")
        return question

    result = cut_short(evaluate, tmp_path / "run", score, workflow=workflow, pace=1)
    numbers = result.summary["scores"]["score"]
    assert numbers["interim"]
    assert score_words(numbers).endswith("so far")
    assert "interim" not in evaluate(tmp_path / "run", score).summary["scores"]["score"]


def test_another_scale_runs_nothing_again_and_gives_other_numbers(tmp_path):
    run = tmp_path / "run"
    evaluate(run, scaled(score), workflow=fails_on(0))
    again = evaluate(run, scaled(score, range=(-1, 1)))
    assert again.plan.evaluators[0].kept == 19
    assert again.plan.workflow.kept == 19
    assert again.summary["scores"]["score"]["range"] == [-1, 1]
    assert json.loads((run / "summary.json").read_text())["scores"]["score"]["range"] == [-1, 1]
    last = evaluate(run, scaled(score, range=(0, 4)))
    assert last.plan.calls == 0
    assert last.summary["scores"]["score"]["range"] == [0, 4]
    with RunReader(run) as reader:
        for name in ("scores", "evaluators"):
            assert reader.summary()[name] == last.summary[name]
        assert reader.run_file.scales == {"score": limpet.types.Scale(range=(0, 4))}


def test_failures_count_in_their_own_groups(tmp_path):
    lost = {0, 13, 26, 39, 52}
    numbers = numbers_of(
        tmp_path / "run", scaled(score, group="topic"), number=60, workflow=fails_on(*lost)
    )

    def filled(value):
        values = [value if at in lost else row["answer"] for at, row in enumerate(rows(60))]
        return limpet.stats.interval(values, groups=[row["topic"] for row in rows(60)])

    found = (numbers["bounds"]["low"], numbers["bounds"]["high"])
    assert found == pytest.approx((filled(0).low, filled(1).high), abs=0.02)


def test_a_group_that_the_dataset_does_not_have_is_an_error(tmp_path):
    with pytest.raises(limpet.errors.DatasetError, match="groups items by 'topik'") as told:
        evaluate(tmp_path / "run", scaled(score, group="topik"))
    assert told.value.hint == "did you mean 'topic'?"


def test_a_class_whose_scale_is_none_is_told_how_to_make_one(tmp_path):
    class Own(limpet.Evaluator):
        name, fingerprint, scale = "own", {"x": "1"}, (1, 5)

        async def call(self, scored):
            return {"score": limpet.Score(1)}

    with pytest.raises(TypeError, match=r"limpet\.types\.Scale, .*range=\(1, 5\)"):
        evaluate(tmp_path / "run", Own())


@pytest.mark.parametrize("wrong", [(5, 1), (1, 1), (0, float("inf")), "15", (1, 2, 3), (True, 2)])
def test_a_range_is_two_finite_numbers_the_lower_first(wrong):
    with pytest.raises((TypeError, ValueError), match="two finite numbers"):
        limpet.types.Scale(range=wrong)


def test_evaluators_say_what_they_can_give():
    model = limpet.models.openai_api(base_url="http://127.0.0.1:9/v1", model="m")
    ranges = {
        limpet.exact_match(): (0, 1),
        limpet.rating(model, "{{output}}", scale=(1, 7)): (1, 7),
        limpet.judge(model, "{{output}}", choices={"a": 3, "b": -1, "c": None}): (-1, 3),
        limpet.judge(model, "{{output}}", choices={"a": None, "b": None}): None,
        limpet.rubric(model, {"short": "Short?"}): (0, 1),
        limpet.evaluators.pairwise(model, against={}): (0, 1),
        limpet.embedding_similarity(model): (-1, 1),
    }
    assert {each.name: each.scale.range for each in ranges} == {
        each.name: among for each, among in ranges.items()
    }


def test_slices_that_differ_from_the_rest_are_told_from_chance(tmp_path):
    evaluator = as_evaluator(lambda item: item.row["topic"] != "b" or item.row["answer"], "score")
    result = evaluate(tmp_path / "run", evaluator, number=240)
    by_value = {group["value"]: group["scores"]["score"] for group in result.by("topic")}
    assert by_value["b"]["from_rest"]["p_adjusted"] < 0.001
    assert by_value["b"]["from_rest"]["difference"] < -0.2
    assert by_value["b"]["interval"]["n"] == 40
    same = evaluate(tmp_path / "same", as_evaluator(lambda output: output % 5, "score"), number=240)
    differences = [one["scores"]["score"]["from_rest"] for one in same.by("topic")]
    assert [round(one["p_adjusted"], 6) for one in differences] == [1.0] * 6


@pytest.mark.parametrize(
    ("scale", "least", "why"),
    [
        ({}, 0.7, None),
        ({}, 0.71, "score is 0.7 with 1 failure counted as worst, below 0.71"),
        ({"higher_is_better": False}, 0.75, None),
        (
            {"higher_is_better": False},
            0.74,
            "score is 0.75 with 1 failure counted as worst, above 0.74 (lower is better)",
        ),
    ],
)
def test_fail_under_counts_failures_as_worst_and_says_so(tmp_path, scale, least, why):
    result = evaluate(tmp_path / "run", scaled(score, **scale), workflow=fails_on(0))
    assert ending_of(result, [Floor(ScoreName("score"), least)]) == (1, why or "")


def test_fail_under_does_not_pass_what_it_cannot_count(tmp_path):
    evaluator = as_evaluator(lambda output: output, "score")
    result = evaluate(tmp_path / "run", evaluator, workflow=fails_on(0))
    code, why = ending_of(result, [Floor(ScoreName("score"), 1)])
    assert code == 1
    assert why == "score is 10, but 1 failure cannot be counted as worst: declare its range"


def test_quantiles_are_there_where_times_and_usage_are_known(tmp_path):
    def workflow(question):
        return limpet.Output(question, limpet.Usage(prompt_tokens=question, cost=question / 100))

    quantiles = evaluate(tmp_path / "run", score, workflow=workflow).summary["workflow"][
        "quantiles"
    ]
    assert quantiles["total_tokens"] == {"p50": 9, "p90": 17, "p99": 19}
    assert quantiles["cost"] == {"p50": 0.09, "p90": 0.17, "p99": 0.19}
    assert 0 < quantiles["seconds"]["p50"] <= quantiles["seconds"]["p99"]


def test_the_status_of_a_run_with_intervals_needs_no_numpy(tmp_path):
    evaluate(tmp_path / "run", score)
    script = (
        "import sys; from limpet.cli.main import main\n"
        "try:\n    main()\nfinally:\n    print('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "status", str(tmp_path / "run")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "score 0.750 (0.53–0.89)" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"


def test_fail_under_does_not_pass_a_score_that_only_some_answers_have(tmp_path):
    def judged(output, item):
        number = int(item.id[1:])
        return {"right": 1.0, **({"tone": 0.9} if number < 8 else {})}

    result = evaluate(tmp_path / "run", as_evaluator(judged, "score"))
    code, why = ending_of(result, [Floor(ScoreName("score", "tone"), 0.5)])
    assert code == 1
    assert why == (
        "score.tone is 0.9, but only 8 of the 20 answers that score scored have it: "
        "--fail-under needs a number for each"
    )
    assert ending_of(result, [Floor(ScoreName("score", "right"), 0.5)]) == (0, "")
    right, tone = (result.summary["scores"][f"score.{part}"] for part in ("right", "tone"))
    assert (tone["without"], "without" in right) == (12, False)
    assert tone["interval_note"] == "12 answers have no number for it"


def test_fail_under_does_not_pass_a_score_of_which_some_are_only_labels(tmp_path):
    def judged(output, item):
        return "unclear" if item.id in ("q1", "q2") else 1.0

    result = evaluate(tmp_path / "run", as_evaluator(judged, "score"))
    code, why = ending_of(result, [Floor(ScoreName("score", None), 0.5)])
    assert (code, "only 18 of the 20 answers" in why) == (1, True)
