"""`limpet compare`: item by item, with interval, p, flips, and what could have been seen."""

import pytest

import limpet as library
from tests.numbers import references as ref
from tests.numbers.command import limpet
from tests.numbers.reading import (
    MISSING,
    about,
    adjusted,
    anywhere,
    compare,
    compared,
    ends,
    flips,
    get,
    says,
)
from tests.numbers.runs import FAILS, make, named, rows


def pair(better, worse, both, neither):
    """Return two runs with so many items that only the new, the old, both, none got right."""
    return (
        "0" * better + "1" * worse + "1" * both + "0" * neither,
        "1" * better + "0" * worse + "1" * both + "0" * neither,
    )


# ---- yes and no ---------------------------------------------------------------------------------

PAIRS = {
    "a clear gain": (14, 2, 20, 4),
    "a clear loss": (1, 12, 15, 12),
    "as many better as worse": (5, 5, 20, 10),
    "one flip in forty": (1, 0, 30, 9),
    "two runs that agree on everything": (0, 0, 20, 10),
    "only gains": (6, 0, 0, 24),
    "all flipped": (0, 12, 0, 0),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("counts", PAIRS.values(), ids=PAIRS)
def test_yes_and_no_in_one_trial_are_compared_by_tango(shelf, counts):
    better, worse, _, _ = counts
    n = sum(counts)
    base, new = pair(*counts)
    found = compared(compare(shelf(base), shelf(new)))
    assert found["n"] == n
    assert (found["better"], found["same"], found["worse"]) == (better, n - better - worse, worse)
    assert found["base_mean"] == about(base.count("1") / n)
    assert found["new_mean"] == about(new.count("1") / n)
    assert found["delta"] == about((better - worse) / n)
    assert ends(found) == about(ref.tango(better, worse, n))
    assert found["p"] == about(ref.mcnemar_score_p(better, worse))
    assert "tango" in found["method"].lower()
    low, high = ends(found)
    assert (found["p"] < 0.05) == (not low <= 0 <= high)  # they never disagree


def test_mid_p_stands_beside_it(shelf):
    base, new = pair(14, 2, 20, 4)
    found = compared(compare(shelf(base), shelf(new)))
    assert anywhere(found, "mid_p", "p_mid") == about(ref.mcnemar_mid_p(14, 2))


def test_what_could_have_been_seen_is_2_80_standard_errors(shelf):
    base, new = pair(5, 5, 20, 10)
    expected = ref.smallest_seen(list(map(int, base)), list(map(int, new)))
    found = compared(compare(shelf(base), shelf(new)))
    assert found["smallest_seen"] == pytest.approx(expected, rel=0.05)
    text = limpet("compare", shelf(base), shelf(new)).out
    assert "only differences of" in text
    assert says(text, found["smallest_seen"])


def test_runs_that_agree_on_everything_have_not_seen_a_difference_of_zero(shelf):
    base, new = pair(0, 0, 20, 10)
    found = compared(compare(shelf(base), shelf(new)))
    low, high = ends(found)
    assert low < 0 < high
    assert found["smallest_seen"] is None or found["smallest_seen"] > 0


# ---- numbers, trials, ranges --------------------------------------------------------------------

BEFORE = [0.2, 0.4, 0.5, 0.5, 0.6, 0.7, 0.3, 0.8, 0.9, 0.1]
AFTER = [0.3, 0.5, 0.4, 0.7, 0.7, 0.8, 0.3, 0.9, 0.8, 0.4]


def test_numbers_are_compared_by_rule_r_on_the_differences(shelf):
    found = compared(compare(shelf(BEFORE), shelf(AFTER)))
    assert found["delta"] == about(sum(AFTER) / 10 - sum(BEFORE) / 10)
    assert ends(found) == about(ref.paired_r(BEFORE, AFTER))
    assert (found["better"], found["same"], found["worse"]) == (7, 1, 2)
    assert (found["p"] < 0.05) == (not ends(found)[0] <= 0 <= ends(found)[1])


def test_a_declared_range_is_that_of_the_delta(shelf):
    stars = {"evaluators": [named(range=(1, 5))]}
    before, after = [1, 2, 3, 4, 3, 2, 5, 4, 3, 3], [2, 3, 3, 4, 4, 3, 5, 4, 4, 3]
    found = compared(compare(shelf(before, **stars), shelf(after, **stars)))
    assert found["delta"] == about(0.5)
    assert ends(found) == about(ref.paired_r(before, after, 1, 5), 2e-3)


def test_trials_are_averaged_per_item_and_never_paired_by_mcnemar(shelf):
    base, new = "111 000 110 100 111 000", "111 110 110 111 111 000"
    found = compared(compare(shelf(base, trials=3), shelf(new, trials=3)))
    means = [[word.count("1") / 3 for word in words.split()] for words in (base, new)]
    assert found["n"] == 6
    assert ends(found) == about(ref.paired_r(*means))
    assert "tango" not in found["method"].lower()
    assert (found["better"], found["same"], found["worse"]) == (2, 4, 0)


def test_numbers_that_are_all_the_same_in_both_do_not_make_an_interval_of_no_width(shelf):
    found = compared(compare(shelf([0.5] * 10), shelf([0.6] * 10)))
    assert found["delta"] == about(0.1)
    assert ends(found) is None or ends(found)[1] - ends(found)[0] > 0.001


@pytest.mark.slow  # unit/run/test_comparing has it
def test_lower_is_better_turns_better_and_worse_but_not_the_delta(shelf):
    lower = {"evaluators": [named(higher_is_better=False)]}
    base, new = pair(8, 2, 5, 5)
    found = compared(compare(shelf(base, **lower), shelf(new, **lower)))
    assert found["delta"] == about(0.3)
    assert (found["better"], found["worse"]) == (2, 8)
    assert "worse" in limpet("compare", shelf(base, **lower),
                             shelf(new, **lower)).out  # fmt: skip


# ---- invariants ---------------------------------------------------------------------------------

SWAPS = {
    "yes and no": ("11100110", "10101111"),
    "numbers": (BEFORE, AFTER),
    "failures": ("111f0110", "1f101111"),
}


@pytest.mark.quick(3)  # property/test_comparing swaps any runs
@pytest.mark.parametrize(("base", "new"), SWAPS.values(), ids=SWAPS)
def test_swapping_the_runs_mirrors_the_result(shelf, base, new):
    there = compared(compare(shelf(base), shelf(new)))
    back = compared(compare(shelf(new), shelf(base)))
    assert back["delta"] == about(-there["delta"])
    assert ends(back) == about((-there["high"], -there["low"]))
    assert (back["better"], back["same"], back["worse"]) == (
        there["worse"], there["same"], there["better"],
    )  # fmt: skip
    assert back["p"] == about(there["p"])
    if there.get("bounds"):
        assert back["bounds"]["low"] == about(-there["bounds"]["high"])


def test_a_run_against_itself_has_moved_by_nothing(shelf):
    run = shelf("1101f011")
    found = compare(run, run)
    assert compared(found)["delta"] == 0
    assert compared(found)["p"] == about(1.0)
    assert flips(found) == []


def test_comparing_changes_nothing_in_either_run(tmp_path):
    make(tmp_path / "a", "1101")
    make(tmp_path / "b", "1011")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    compare(tmp_path / "a", tmp_path / "b")
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert before == after


# ---- failures and items without a partner -------------------------------------------------------


def test_a_failure_is_no_pair_and_no_zero_but_a_bound(shelf):
    found = compared(compare(shelf("1" * 20), shelf("1" * 15 + "f" * 5)))
    assert found["n"] == 15
    assert found["delta"] == 0
    assert ends(found) == about(ref.tango(0, 0, 15))
    assert found["bounds"]["low"] <= ref.tango(0, 5, 20)[0] + 5e-4
    assert found["bounds"]["high"] >= 0


def test_the_same_item_failing_in_both_is_the_widest_bound(shelf):
    found = compared(compare(shelf("1" * 10 + "f"), shelf("1" * 10 + "f")))
    assert found["bounds"]["low"] <= ref.tango(0, 1, 11)[0] + 5e-4
    assert found["bounds"]["high"] >= ref.tango(1, 0, 11)[1] - 5e-4


@pytest.mark.parametrize("letter", ["-", "e", "q"], ids=[
    "an item that the new dataset lacks", "an evaluator that failed", "an item that never ran",
])  # fmt: skip
def test_what_has_no_partner_enters_as_bounds(shelf, letter):
    new = shelf("1" * 10 + letter, pace=1)
    found = compared(compare(shelf("1" * 11), new))
    assert found["n"] == 10
    assert found["bounds"]["low"] < ends(found)[0]


def test_adding_a_failure_never_narrows_the_bounds_of_a_comparison(shelf):
    widths = []
    for count in range(4):
        found = compared(compare(shelf("1" * 16 + "0" * 4), shelf("1" * (16 - count) + "f" * count
                                                                  + "0" * 4)))  # fmt: skip
        given = found.get("bounds") or found
        widths.append(given["high"] - given["low"])
    assert widths == sorted(widths)
    assert widths[-1] > widths[0]


# ---- flips --------------------------------------------------------------------------------------


def test_flips_have_both_answers_side_by_side(shelf):
    found = flips(compare(shelf("1100"), shelf("1010")))
    assert {flip["id"] for flip in found} == {"q1", "q2"}
    one = next(flip for flip in found if flip["id"] == "q1")
    assert "q1 is True" in str(one)
    assert "q1 is False" in str(one)
    text = limpet("compare", shelf("1100"), shelf("1010")).out
    line = next(part for part in text.splitlines() if "q1 is True" in part)
    assert "q1" in line


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (3, 3), (1000, 12)])
def test_so_many_flips_are_shown(shelf, count, shown):
    base, new = pair(4, 8, 3, 3)
    assert len(flips(compare(shelf(base), shelf(new), "--flips", count))) == shown


def test_what_got_worse_is_the_first_flip(shelf):
    base, new = pair(9, 1, 3, 3)
    assert flips(compare(shelf(base), shelf(new), "--flips", 1))[0]["id"] == "q9"


# ---- cost and latency ---------------------------------------------------------------------------


def test_cost_and_latency_have_differences(shelf):
    found = compare(shelf("1101", cost=0.5), shelf("1101", cost=0.25))
    cost = anywhere(found["new"][0], "cost")
    assert cost is not MISSING
    assert anywhere(found["new"][0], "latency", "seconds") is not MISSING
    text = limpet("compare", shelf("1101", cost=0.5), shelf("1101", cost=0.25)).out
    assert "cost" in text
    assert says(text, 0.25) or says(text, 1.0) or "50%" in text


# ---- more than two ------------------------------------------------------------------------------


def test_more_than_two_are_compared_with_the_first_and_corrected_by_holm(shelf):
    base = "0" * 16 + "1" * 24
    news = ["1" * better + "0" * (16 - better) + "1" * 24 for better in (9, 5, 1)]
    found = compare(shelf(base), *map(shelf, news))
    assert len(found["new"]) == 3
    raw = [ref.mcnemar_score_p(better, 0) for better in (9, 5, 1)]
    assert [compared(found, which=n)["p"] for n in range(3)] == about(raw)
    assert [adjusted(compared(found, which=n)) for n in range(3)] == about(ref.holm(raw))
    assert "holm" in limpet("compare", shelf(base), *map(shelf, news)).out.lower()


# ---- slices, groups, these very questions -------------------------------------------------------


def test_by_a_field_each_slice_has_its_own_delta(shelf):
    dataset = rows(20, topic=lambda n: "law" if n < 10 else "médecine")
    base, new = "1" * 20, "1" * 10 + "0" * 5 + "1" * 5
    found = compare(shelf(base, dataset=dataset), shelf(new, dataset=dataset), "--by", "topic")
    slices = anywhere(found["new"][0], "by", "slices")
    assert slices is not MISSING
    assert "law" in str(slices)
    assert "médecine" in str(slices)
    assert anywhere({"slices": slices}, "delta") is not MISSING
    assert adjusted({"slices": slices}) is not MISSING


@pytest.mark.slow  # unit/cli/test_compare_command has it
def test_groups_widen_a_comparison(shelf):
    dataset = rows(48, topic=lambda n: f"doc {n // 4}")
    base, new = "1" * 48, "0000" * 3 + "1111" * 9
    runs = [shelf(answers, dataset=dataset) for answers in (base, new)]
    plain, grouped = compared(compare(*runs)), compared(compare(*runs, "--group", "topic"))
    assert grouped["delta"] == plain["delta"]
    assert grouped["high"] - grouped["low"] > 1.3 * (plain["high"] - plain["low"])


@pytest.mark.slow  # unit/cli/test_compare_command
def test_these_very_questions_have_a_narrower_interval_than_questions_like_these(shelf):
    base = " ".join(["1111", "0000", "1110", "0001"] * 6)
    new = " ".join(["0000", "1111", "1111", "0000"] * 6)
    runs = [shelf(answers, trials=4) for answers in (base, new)]
    likes, these = compared(compare(*runs)), compared(compare(*runs, "--these-questions"))
    assert these["delta"] == about(likes["delta"])
    assert these["high"] - these["low"] < 0.7 * (likes["high"] - likes["low"])
    assert "these" in limpet("compare", *runs, "--these-questions").out.lower()


# ---- in Python ----------------------------------------------------------------------------------


def test_compare_in_python_says_what_the_command_says(shelf):
    base, new = pair(14, 2, 20, 4)
    ours = library.compare(shelf(base), shelf(new))
    theirs = compared(compare(shelf(base), shelf(new)))
    found = get(get(ours, "new")[0], "scores")["correct"]
    for name in ("n", "delta", "low", "high", "p", "better", "same", "worse"):
        assert get(found, name) == about(theirs[name])
    assert "correct" in repr(ours)


def test_compare_in_python_takes_results_too(shelf):
    base, new = library.load_run(shelf("11010")), library.load_run(shelf("11111"))
    found = get(get(library.compare(base, new), "new")[0], "scores")["correct"]
    assert get(found, "delta") == about(0.4)


def test_what_cannot_be_compared_raises_in_python(shelf, tmp_path):
    with pytest.raises(library.LimpetError):
        library.compare(shelf("1101"), tmp_path / "nothing")


def test_failures_of_both_are_counted_beside_the_means(shelf):
    text = limpet("compare", shelf([0.5, 0.75, FAILS, 0.25]), shelf([0.5, FAILS, FAILS, 0.5])).out
    assert "1 failed" in text
    assert "2 failed" in text
