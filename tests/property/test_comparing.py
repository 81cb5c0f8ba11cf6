"""What holds for any two runs: swapping them mirrors the result, a failure never narrows it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.run.comparing.scores import PairedScores, difference, gate
from limpet.run.results.score_words import ScoreName

CELLS = st.sampled_from([0.0, 1.0, 0.5, 0.25, np.nan])
YES_OR_NO = st.sampled_from([0.0, 1.0, np.nan])


@st.composite
def pairs(draw):
    cells = draw(st.sampled_from([CELLS, YES_OR_NO]))
    items, trials = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    flat = st.lists(cells, min_size=items * trials, max_size=items * trials)
    base, new = (np.array(draw(flat)).reshape(items, trials) for _ in range(2))
    higher_is_better = draw(st.booleans())
    return PairedScores(ScoreName("s"), np.arange(items), base, new, (0.0, 1.0), higher_is_better)


def swapped(scores):
    return PairedScores(
        scores.name, scores.at, scores.new, scores.base, scores.range, scores.higher_is_better
    )


TURNED = {"better": "worse", "worse": "better", "no difference seen": "no difference seen"}


@given(pairs())
def test_swapping_the_runs_mirrors_the_result(scores):
    there, back = difference(scores), difference(swapped(scores))
    if there is None:
        assert back is None
        return
    assert back.delta == pytest.approx(-there.delta)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    assert (back.better, back.same, back.worse) == (there.worse, there.same, there.better)
    assert back.p == pytest.approx(there.p)
    assert (back.base_mean, back.new_mean) == (there.new_mean, there.base_mean)
    assert (back.bounds is None) == (there.bounds is None)
    if there.bounds is not None:
        assert back.bounds.low == pytest.approx(-there.bounds.high)
    assert back.verdict == TURNED[there.verdict]


@given(pairs())
def test_the_bounds_hold_the_interval_and_both_stay_in_the_range(scores):
    found = difference(scores)
    if found is None:
        return
    ends = found.headline
    assert -1 <= ends.low <= found.low <= found.delta <= found.high <= ends.high <= 1
    assert (found.bounds is None) == (not found.missing)
    assert found.better + found.same + found.worse == found.n


@given(pairs(), st.floats(0, 0.5))
def test_a_gate_never_says_what_its_own_bounds_deny(scores, margin):
    if scores.missing.all():
        return
    found = gate(scores, "run", margin)
    low, high = (found.low, found.high) if scores.higher_is_better else (-found.high, -found.low)
    assert (found.verdict == "not worse") == (low > -margin)
    assert (found.verdict == "worse") == (high < -margin)


@given(pairs())
def test_lower_is_better_is_higher_is_better_of_the_mirrored_scores(scores):
    mirrored = PairedScores(
        scores.name, scores.at, 1 - scores.base, 1 - scores.new, scores.range,
        not scores.higher_is_better,
    )  # fmt: skip
    found, other = difference(scores), difference(mirrored)
    if found is None:
        assert other is None
        return
    assert (found.better, found.worse, found.verdict) == (other.better, other.worse, other.verdict)
    assert found.delta == pytest.approx(-other.delta)
    assert gate(scores, "r", 0.1).verdict == gate(mirrored, "r", 0.1).verdict
