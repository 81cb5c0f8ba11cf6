"""How a comparison is put into words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.report.comparison import amount_lines, answers, gate_words, score_lines
from limpet.run.comparing.results import (
    AmountDifference,
    Amounts,
    Answer,
    Bounds,
    Flip,
    GateResult,
    RunAbout,
    RunComparison,
    ScoreComparison,
)


@pytest.mark.parametrize(
    ("verdict", "higher", "words"),
    [
        ("not worse", True, ", with 95% confidence above -0.010; worse would be below -0.050"),
        ("worse", True, ", with 95% confidence below +0.030; worse would be below -0.050"),
        ("not worse", False, ", with 95% confidence below +0.030; worse would be above +0.050"),
        ("worse", False, ", with 95% confidence above -0.010; worse would be above +0.050"),
        ("inconclusive", True, " and may be from -0.010 to +0.030; worse would be below -0.050"),
    ],
)
def test_a_gate_names_the_end_that_decides_it(verdict, higher, words):
    gate = GateResult("ok", "runs/new", 0.05, verdict, 0.01, -0.01, 0.03, 0, None, higher)
    assert gate_words(gate) == f"ok: {verdict}: the change is +0.010{words}"


def test_a_score_that_only_missing_pairs_leave_unclear_asks_for_no_more_items():
    score = ScoreComparison(
        n=260, base_mean=0.81, new_mean=0.86, delta=0.05, low=0.02, high=0.09, p=0.01, mid_p=None,
        method="Wilson", better=18, same=238, worse=4, smallest_seen=0.05, missing=40,
        bounds=Bounds(-0.11, 0.1, 1), verdict="no difference seen", items_to_decide=None,
        range=(0, 1), higher_is_better=True, p_holm=1,
    )  # fmt: skip
    *_, last = score_lines("ok", score)
    assert last == "ok: unclear because scores are missing, not because there are too few items"


def test_small_differences_of_cost_and_latency_are_plain_numbers():
    same = Amounts(0.0399, 1, 0.14, 0.3)
    cost = AmountDifference(260, Amounts(0.04, 1, 1, 1), same, 0, 0, 0)
    latency = AmountDifference(260, same, same, -0.0081, -0.016, 4.2e-05)
    about = RunAbout("runs/new", 260, 1, 0, 0, {}, is_running=False)
    said = list(amount_lines(RunComparison(about, {}, cost=cost, latency=latency)))
    assert "(+0%)" in said[0]
    assert said[1].endswith("mean -0.008 s (-0.016 to +0.000 s)")


def flip(base, new, score="ok"):
    return Flip(score, "q1", 0, -1.0, True, Answer(base, 1.0), Answer(new, 0.0))


@pytest.mark.parametrize(
    ("base", "new", "seen"),
    [
        ("336", "about 330", ("336", "about 330")),
        (None, "", ("–", "–")),
        ("Thank you, 336", "Thank you, 330", ("Thank you, 336", "Thank you, 330")),
        (
            "Thank you for asking, the answer is 336.",
            "Thank you for asking, the answer is about 330.",
            ("…answer is 336.", "…answer is about 330."),
        ),
        ("x" * 5000 + "a", "x" * 5000 + "b", (f"…{'x' * 12}a", f"…{'x' * 12}b")),
        ({"a": "y" * 40, "b": 1}, {"a": "y" * 40, "b": 2}, ('…yyyyyy","b":1}', '…yyyyyy","b":2}')),
        ("z" * 40, "z" * 40, ("z" * 40, "z" * 40)),
    ],
)
def test_two_answers_are_shown_from_shortly_before_their_difference(base, new, seen):
    assert answers(flip(base, new)) == seen


@given(st.text(), st.text(), st.text())
def test_two_answers_that_differ_are_shown_different(same, base, new):
    base, new = f"{same}a{base}", f"{same}b{new}"
    shown_base, shown_new = answers(flip(base, new))
    assert shown_base[:37] != shown_new[:37] or not same.isprintable()
