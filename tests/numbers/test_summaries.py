"""Every summary: n, mean, interval with its method, bounds, trials, labels, quantiles."""

import math

import pytest

import limpet as library
from tests.numbers import references as ref
from tests.numbers.command import limpet
from tests.numbers.reading import (
    MISSING,
    about,
    anywhere,
    bounds,
    interval,
    method,
    number,
    says,
    score,
    summary,
)
from tests.numbers.runs import FAILS, correct, make, named, rows

EIGHT_OF_TEN = "1111111100"
SPREAD = [0.2, 0.35, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.85, 0.9]
ZERO_INFLATED = [0.0] * 6 + [0.3, 0.6, 0.8, 0.9]
STARS = [1, 2, 3, 4, 4, 4, 5, 5, 5, 5]
INNER_STARS = [2, 2, 3, 3, 3, 4, 4, 4, 4, 4]
BIG = [12.0, 15.5, 9.0, 22.0, 18.0, 11.0]


# ---- the interval -------------------------------------------------------------------------------

INTERVALS = {
    "eight of ten are right: Wilson": (EIGHT_OF_TEN, {}, "wilson", lambda: ref.wilson(8, 10)),
    "all are right: not [1, 1]": ("1" * 10, {}, "wilson", lambda: ref.wilson(10, 10)),
    "all are wrong: not [0, 0]": ("0" * 10, {}, "wilson", lambda: ref.wilson(0, 10)),
    "one item that is right: nearly anything": ("1", {}, "wilson", lambda: ref.wilson(1, 1)),
    "yes and no as 1.0 and 0.0: Wilson, too": ([1.0, 0.0, 1.0, 1.0], {}, "wilson",
                                               lambda: ref.wilson(3, 4)),
    "a spread of scores: Wilson at the effective number": (SPREAD, {}, "wilson",
                                                           lambda: ref.effective_wilson(SPREAD)),
    "scores with many zeros: the Beta rule": (ZERO_INFLATED, {}, "",
                                              lambda: ref.beta_rule(ZERO_INFLATED)),
    "one to five stars, in stars": (STARS, {"range": (1, 5)}, "",
                                    lambda: ref.scaled(ref.beta_rule, STARS, 1, 5)),
    "two to four of five stars, in stars": (
        INNER_STARS, {"range": (1, 5)}, "wilson",
        lambda: ref.scaled(ref.effective_wilson, INNER_STARS, 1, 5)),
    "all have five stars: up to five, not beyond": ([5] * 8, {"range": (1, 5)}, "",
                                                    lambda: ref.scaled(ref.rule_r, [5] * 8, 1, 5)),
    "scores beyond 1 of no declared range: Student's t": (BIG, {}, "t",
                                                          lambda: ref.students_t(BIG)),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "declared", "by", "expected"), INTERVALS.values(),
                         ids=INTERVALS)  # fmt: skip
def test_the_interval_of(shelf, answers, declared, by, expected):
    evaluators = [named(**declared)] if declared else [correct]
    found = score(shelf(answers, evaluators=evaluators))
    assert interval(found) == about(expected())
    assert by in method(found)
    assert found["interval"]["level"] == pytest.approx(0.95)
    assert found["completed"] == len(answers)


def test_trials_are_averaged_first_and_never_counted_as_items(shelf):
    found = score(shelf("111 111 111 000 000 110", trials=3))
    means = [1, 1, 1, 0, 0, 2 / 3]
    assert found["mean"] == about(sum(means) / 6)
    assert interval(found) == about(ref.beta_rule(means))


def test_trials_that_all_agree_are_no_more_items_than_one_trial(shelf):
    three, one = (
        interval(score(shelf(answers, trials=trials)))
        for answers, trials in (("111 111 000 111 000 111 111 111", 3), ("11010111", 1))
    )
    assert three[1] - three[0] > 0.8 * (one[1] - one[0])


MEANINGLESS = {
    "ten scores of exactly one half": [0.5] * 10,
    "a single score of one half": [0.5],
    "two equal scores": [0.25, 0.25],
}


@pytest.mark.parametrize("answers", MEANINGLESS.values(), ids=MEANINGLESS)
def test_no_interval_has_no_width(shelf, answers):
    ends = interval(score(shelf(answers)))
    assert ends is None or ends[1] - ends[0] > 0.01


# ---- failures are never dropped -----------------------------------------------------------------


@pytest.mark.parametrize("letter", ["f", "e"], ids=["the workflow", "the evaluator"])
def test_what_failed_counts_as_worst_and_as_best_in_the_bounds(shelf, letter):
    found = score(shelf("1" * 8 + "0" * 2 + letter * 2))
    assert found["mean"] == about(0.8)
    assert interval(found) == about(ref.wilson(8, 10))
    assert bounds(found) == about((ref.wilson(8, 12)[0], ref.wilson(10, 12)[1]))


def test_a_run_without_a_failure_needs_no_bounds_or_has_those_of_its_interval(shelf):
    found = score(shelf(EIGHT_OF_TEN))
    assert interval(found) is not None
    assert bounds(found) in (None, about(interval(found)))


def test_each_further_failure_widens_the_bounds(shelf):
    widths = []
    for count in range(5):
        found = score(shelf("1" * 14 + "0" * 6 + "f" * count))
        low, high = bounds(found) or interval(found)
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[-1] > widths[0] + 0.05


def test_turning_a_wrong_answer_into_a_failure_does_not_look_like_progress(shelf):
    honest, failing = (score(shelf(answers)) for answers in ("1" * 16 + "0000", "1" * 16 + "ffff"))
    assert failing["mean"] == 1
    assert bounds(failing)[0] <= interval(honest)[0] + 1e-9


def test_a_trial_that_failed_is_in_the_bounds_of_its_item(shelf):
    found = score(shelf("111 11f 000 111 100 111", trials=3))
    low, high = bounds(found)
    assert low <= ref.beta_rule([1, 2 / 3, 0, 1, 1 / 3, 1])[0] + 5e-4
    assert high >= ref.beta_rule([1, 1, 0, 1, 1 / 3, 1])[1] - 5e-4


def test_failures_are_worst_and_best_in_the_declared_range(shelf):
    found = score(shelf([*STARS, FAILS], evaluators=[named(range=(1, 5))]))
    low = ref.scaled(ref.beta_rule, [*STARS, 1], 1, 5)[0]
    high = ref.scaled(ref.beta_rule, [*STARS, 5], 1, 5)[1]
    assert bounds(found) == about((low, high))


def test_without_a_range_nothing_bounds_a_failure_and_no_bound_is_invented(shelf):
    found = score(shelf([*BIG, FAILS]))
    assert "interval" in found
    assert bounds(found) is None


def test_all_failed_is_no_mean_no_interval_and_bounds_that_say_nothing(shelf):
    found = score(shelf("fffff"))
    assert found["mean"] is None
    assert interval(found) is None
    assert bounds(found) in (None, about((0.0, 1.0)))


def test_numbers_of_a_stopped_run_are_of_what_it_has_and_say_so(shelf):
    run = shelf("1" * 12 + "q" + "1" * 7, pace=1)
    found = score(run)
    assert 0 < found["completed"] <= 13
    assert found["interim"] is True
    assert "so far" in limpet("status", run).said


# ---- trials -------------------------------------------------------------------------------------


def test_pass_at_k_and_pass_hat_k_are_means_over_items(shelf):
    found = score(shelf("111 110 100 000", trials=3))
    for k in (1, 2, 3):
        at = [ref.pass_at_k(3, c, k) for c in (3, 2, 1, 0)]
        hat = [ref.pass_hat_k(3, c, k) for c in (3, 2, 1, 0)]
        assert number(found["pass_at_k"][str(k)]) == about(sum(at) / 4)
        assert number(found["pass_hat_k"][str(k)]) == about(sum(hat) / 4)


def test_one_trial_has_no_pass_hat_k(shelf):
    found = score(shelf(EIGHT_OF_TEN))
    assert interval(found)
    assert not found.get("pass_hat_k")


def test_scores_that_neither_pass_nor_fail_have_no_pass_at_k(shelf):
    found = score(shelf([[0.2, 0.4], [0.6, 0.5], [0.7, 0.9]], trials=2))
    assert interval(found)
    assert not found.get("pass_at_k")


WOULD_HELP = {
    "items, if all trials of an item agree": ("111 000 111 000 111 000 111 111", "items"),
    "trials, if all items are the same coin": ("110 101 011 100 010 001 110 011", "trials"),
}


@pytest.mark.parametrize(("answers", "word"), WOULD_HELP.values(), ids=WOULD_HELP)
def test_it_is_said_what_would_help_more(shelf, answers, word):
    done = limpet("status", shelf(answers, trials=3))
    assert f"more {word}" in done.out


# ---- labels -------------------------------------------------------------------------------------


def test_counts_of_labels_have_intervals(shelf):
    found = score(shelf(["kind"] * 6 + ["rude"] * 4))
    assert found["labels"] == {"kind": 6, "rude": 4}
    given = found["label_intervals"]
    for label, count in (("kind", 6), ("rude", 4)):
        assert (given[label]["low"], given[label]["high"]) == about(ref.wilson(count, 10))


def test_labels_alone_have_no_mean_and_no_interval_of_one(shelf):
    found = score(shelf(["kind", "rude", "kind"]))
    assert found["label_intervals"]
    assert found["mean"] is None
    assert not found.get("interval")


def test_a_label_where_others_have_numbers_is_not_dropped_in_silence(shelf):
    run = shelf([1.0, 0.5, 0.25, "unsure", 0.75, 0.5])
    found = score(run)
    ends = interval(found)
    assert ends == about(ref.beta_rule([1.0, 0.5, 0.25, 0.75, 0.5]))
    assert "without a number" in found["interval_note"]
    assert "label" in limpet("status", run).said


def test_each_of_several_scores_has_its_own_interval(shelf):
    answers = [{"brief": n % 4 > 0, "quality": SPREAD[n]} for n in range(10)]
    run = shelf(answers)
    assert interval(score(run, "correct.brief")) == about(ref.wilson(7, 10))
    assert interval(score(run, "correct.quality")) == about(ref.effective_wilson(SPREAD))


# ---- groups -------------------------------------------------------------------------------------


def test_items_of_one_document_are_not_so_many_opinions(shelf):
    answers = "".join("1111" if n % 3 else "0000" for n in range(12))
    dataset = rows(48, topic=lambda n: f"doc {n // 4}")
    plain = score(shelf(answers, dataset=dataset))
    grouped = score(shelf(answers, dataset=dataset, evaluators=[named(group="topic")]))
    assert grouped["mean"] == plain["mean"]
    (low, high), (narrow_low, narrow_high) = interval(grouped), interval(plain)
    assert 0 <= low < narrow_low < narrow_high < high <= 1
    assert high - low > 1.5 * (narrow_high - narrow_low)
    assert "group" in method(grouped) or "cr2" in method(grouped)


def test_under_five_groups_there_is_no_interval_and_that_is_said(shelf):
    run = shelf(
        "1101" * 5,
        dataset=rows(20, topic=lambda n: f"doc {n % 4}"),
        evaluators=[named(group="topic")],
    )
    found = score(run)
    assert found["mean"] == about(0.75)
    assert interval(found) is None
    said = limpet("status", run).said
    assert "group" in said
    assert "5" in said


def test_every_item_a_group_of_its_own_is_about_no_group(shelf):
    run = shelf(
        "1110" * 10, dataset=rows(40, topic=lambda n: f"doc {n}"), evaluators=[named(group="topic")]
    )
    assert interval(score(run)) == about(ref.wilson(30, 40), 0.03)


# ---- what was declared and is not so ------------------------------------------------------------


def test_a_score_outside_its_declared_range_is_said_and_has_no_interval(shelf):
    run = shelf([2, 3, 4, 7], evaluators=[named(range=(1, 5))])
    ends = interval(score(run))
    assert ends is None
    assert "range" in limpet("status", run).said


@pytest.mark.parametrize("declared", [
    {"range": (5, 1)}, {"range": (1, 1)}, {"range": (0, math.nan)}, {"range": (0, math.inf)},
    {"range": ("a", "b")}, {"range": (1,)}, {"group": ""}, {"higher_is_better": "no"},
], ids=str)  # fmt: skip
def test_what_cannot_be_declared_is_an_error_before_the_first_call(tmp_path, declared):
    with pytest.raises((library.LimpetError, ValueError, TypeError)) as raised:
        make(tmp_path / "run", "11", evaluators=[named(**declared)])
    assert next(iter(declared)) in str(raised.value)
    assert "unexpected keyword" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_declaring_a_range_calls_no_evaluator_again(tmp_path):
    make(tmp_path / "run", INNER_STARS, evaluators=[named()])
    again = make(
        tmp_path / "run",
        INNER_STARS,
        evaluators=[named(range=(1, 5), higher_is_better=False)],
    )
    assert not again.plan.calls
    assert interval(score(tmp_path / "run")) == about(
        ref.scaled(ref.effective_wilson, INNER_STARS, 1, 5)
    )


# ---- quantiles ----------------------------------------------------------------------------------


def test_latency_and_cost_have_quantiles(shelf):
    found = summary(shelf(EIGHT_OF_TEN, cost=0.25))["workflow"]["quantiles"]
    latency = found["seconds"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"]
    assert found["cost"]["p50"] == about(0.25)


def test_no_answer_is_no_latency_of_zero(shelf):
    assert "seconds" not in summary(shelf("fffff"))["workflow"].get("quantiles", {})


# ---- on the screen, and in a notebook -----------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "show"])
def test_the_interval_is_on_the_screen_with_its_method(shelf, command):
    done = limpet(command, shelf(EIGHT_OF_TEN))
    assert "95%" in done.out
    assert "wilson" in done.out.lower()
    assert all(says(done.out, end) for end in ref.wilson(8, 10))


@pytest.mark.parametrize("command", ["status", "show"])
def test_if_anything_failed_the_bounds_are_the_headline(shelf, command):
    done = limpet(command, shelf("1" * 8 + "0" * 2 + "f" * 2))
    low, high = ref.wilson(8, 12)[0], ref.wilson(10, 12)[1]
    first = min((done.out.find(f"{low:.{digits}f}"[1:]) for digits in (2, 3, 4)), key=lambda at:
                at if at >= 0 else 10**9)  # fmt: skip
    assert first >= 0, done.out
    assert says(done.out, high)
    assert "completed" in done.out  # beside it, named as such
    assert says(done.out, 0.8)


def test_a_result_in_python_has_the_same_numbers(shelf):
    run = shelf("1" * 8 + "0" * 2 + "f" * 2)
    loaded = library.load_run(run).summary["scores"]["correct"]
    assert interval(loaded) == about(ref.wilson(8, 10))
    assert bounds(loaded) == bounds(score(run))


def test_a_finished_run_and_one_read_without_its_summary_say_the_same(tmp_path):
    result = make(tmp_path / "run", "1101f01")
    (tmp_path / "run/summary.json").unlink()
    ours, theirs = (
        one.summary["scores"]["correct"] for one in (result, library.load_run(tmp_path / "run"))
    )
    assert interval(ours) == interval(theirs)
    assert bounds(ours) == bounds(theirs)


# ---- slices -------------------------------------------------------------------------------------


def test_slices_have_intervals_and_a_corrected_p(shelf):
    dataset = rows(60, topic=lambda n: "ab c"[n % 4].strip() or "none given")
    run = shelf("".join("1" if n % 4 or n % 8 else "0" for n in range(60)), dataset=dataset)
    done = limpet("show", run, "--by", "topic", "--json")
    groups = [library_json(line) for line in done.out.splitlines()]
    assert len(groups) == 4
    for group in groups:
        assert interval(group["scores"]["correct"])
        assert anywhere(group, "q", "p_bh", "p_adjusted") is not MISSING
    assert "benjamini" in limpet("show", run, "--by", "topic").out.lower()


def test_a_slice_with_failures_has_bounds(shelf):
    run = shelf("1f1f0101", dataset=rows(8, topic=lambda n: "ab"[n % 2]))
    one, other = library.load_run(run).by("topic")
    assert bounds(other["scores"]["correct"]) == about((ref.wilson(2, 4)[0], ref.wilson(4, 4)[1]))
    assert interval(one["scores"]["correct"]) == about(ref.wilson(2, 4))


def library_json(line):
    from tests.numbers.command import strict_json

    return strict_json(line)
