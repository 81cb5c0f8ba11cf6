"""`--fail-if-worse NAME=MARGIN`: not worse, worse, or inconclusive, and what a pipeline reads."""

import importlib
import math
import shutil
from xml.etree import ElementTree as ET

import pytest

from tests.numbers import references as ref
from tests.numbers.command import limpet, refused
from tests.numbers.reading import MISSING, anywhere, compare, verdicts
from tests.numbers.runs import named

NOT_WORSE, WORSE, INCONCLUSIVE = "not worse", "worse", "inconclusive"
SAME = "1" * 160 + "0" * 40
CODES = {NOT_WORSE: 0, WORSE: 1, INCONCLUSIVE: 4}

# Answers of the base, answers of the new, the margin, the verdict.
GATES = {
    "200 equal answers are not worse by 5 points": (SAME, SAME, 0.05, NOT_WORSE),
    "20 equal answers cannot show 2 points": (SAME[:16] + "0000", SAME[:16] + "0000", 0.02,
                                              INCONCLUSIVE),
    "a loss of a quarter is worse": (SAME, "0" * 50 + SAME[50:], 0.05, WORSE),
    "a gain is not worse": (SAME, "1" * 190 + "0" * 10, 0.05, NOT_WORSE),
    "a gain is not worse by nothing, either": (SAME, "1" * 190 + "0" * 10, 0, NOT_WORSE),
    "equal answers cannot show that nothing was lost": (SAME, SAME, 0, INCONCLUSIVE),
    "a drop of three items in 200 is not red": (SAME, "000" + SAME[3:], 0.02, INCONCLUSIVE),
    "a sure drop that may be within the margin": (SAME, "0" * 12 + SAME[12:], 0.05, INCONCLUSIVE),
    "a sure drop that is within the margin": (SAME, "0" * 12 + SAME[12:], 0.15, NOT_WORSE),
    "failing where the base was right is not 'not worse'": (SAME, "f" * 20 + SAME[20:], 0.05,
                                                            INCONCLUSIVE),
    "failing on everything it would have got wrong is no gain": (SAME, SAME[:160] + "f" * 40, 0.02,
                                                                 NOT_WORSE),
    "so much failed that nothing is known": (SAME, "f" * 150 + SAME[150:], 0.05, INCONCLUSIVE),
}  # fmt: skip


def expected_verdict(base, new, margin):
    """Return the verdict of one-sided 95% bounds, failures as worst and best."""
    z = ref.Z_ONE_SIDED

    def end(failed, which):
        pairs = [(int(a), int(b) if b in "01" else failed) for a, b in zip(base, new, strict=True)]
        better, worse = pairs.count((0, 1)), pairs.count((1, 0))
        return ref.tango(better, worse, len(pairs), z)[which]

    if end(0, 0) > -margin:
        return NOT_WORSE
    return WORSE if end(1, 1) < -margin else INCONCLUSIVE


@pytest.mark.quick(2)
@pytest.mark.parametrize(("base", "new", "margin", "verdict"), GATES.values(), ids=GATES)
def test_the_gate_says(shelf, base, new, margin, verdict):
    assert expected_verdict(base, new, margin) == verdict  # the table is right
    words = (shelf(base), shelf(new), "--fail-if-worse", f"correct={margin}")
    found = compare(*words, code=CODES[verdict])
    assert verdicts(found) == {"correct": verdict}
    assert verdict in limpet("compare", *words).out


def test_without_a_gate_the_exit_code_is_0_however_bad_it_is(shelf):
    compare(shelf(SAME), shelf("0" * 200), code=0)


@pytest.mark.parametrize(("answer", "code"), [("pass", 0), ("fail", 1)])
def test_inconclusive_can_be_told_to(shelf, answer, code):
    few = shelf("11110")
    words = (few, few, "--fail-if-worse", "correct=0.02", "--inconclusive", answer)
    found = compare(*words, code=code)
    assert verdicts(found) == {"correct": INCONCLUSIVE}


def test_inconclusive_pass_does_not_let_worse_pass(shelf):
    compare(shelf(SAME), shelf("0" * 200), "--fail-if-worse", "correct=0.05", "--inconclusive",
            "pass", code=1)  # fmt: skip


def test_inconclusive_says_how_many_items_would_decide_it(shelf):
    few = shelf("1111011110" * 2)
    done = limpet("compare", few, few, "--fail-if-worse", "correct=0.02")
    assert done.code == 4
    needed = anywhere(compare(few, few, "--fail-if-worse", "correct=0.02", code=4), "items_needed",
                      "items_to_decide", "would_decide")  # fmt: skip
    assert needed is not MISSING
    assert needed > 20
    assert "items" in done.out


def test_the_margin_is_in_units_of_the_score(shelf):
    stars = {"evaluators": [named(range=(1, 5))]}
    base, new = [4, 5, 3, 4, 4] * 20, [4, 5, 3, 4, 3] * 20
    runs = shelf(base, **stars), shelf(new, **stars)
    compare(*runs, "--fail-if-worse", "correct=0.5", code=0)
    compare(*runs, "--fail-if-worse", "correct=0.05", code=1)


LOWER = {
    "more of what should be less is worse": ("0" * 100, "1" * 30 + "0" * 70, WORSE),
    "less of it is not worse": ("1" * 30 + "0" * 70, "0" * 100, NOT_WORSE),
    "what failed counts as the most of it": ("0" * 100, "0" * 80 + "f" * 20, INCONCLUSIVE),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize(("base", "new", "verdict"), LOWER.values(), ids=LOWER)
def test_if_lower_is_better(shelf, base, new, verdict):
    lower = {"evaluators": [named(higher_is_better=False)]}
    runs = shelf(base, **lower), shelf(new, **lower)
    found = compare(*runs, "--fail-if-worse", "correct=0.06", code=CODES[verdict])
    assert verdicts(found) == {"correct": verdict}


# ---- several gates ------------------------------------------------------------------------------


def two(runs, shelf):
    evaluators = [named(), named(name="judged")]
    return [shelf(one, evaluators=evaluators) for one in runs]


def scores(values):
    return [{"brief": brief == "1", "right": right == "1"} for brief, right in values]


def test_all_gates_must_pass_and_worse_beats_inconclusive(shelf):
    base = scores([("1", "1")] * 60)
    new = scores([("1", "0")] * 60)
    runs = shelf(base), shelf(new)
    gates = ("--fail-if-worse", "correct.brief=0.01", "--fail-if-worse", "correct.right=0.01")
    found = compare(*runs, *gates, code=1)
    assert verdicts(found) == {"correct.brief": INCONCLUSIVE, "correct.right": WORSE}
    compare(*runs, *gates[:2], code=4)


@pytest.mark.slow  # the worst of several gates decides: above
def test_an_inconclusive_gate_beats_one_that_passes(shelf):
    runs = two((SAME, SAME), shelf)
    compare(*runs, "--fail-if-worse", "correct=0.05", "--fail-if-worse", "judged=0", code=4)


def test_several_new_runs_are_each_gated_and_the_worst_decides(shelf):
    gate = ("--fail-if-worse", "correct=0.05")
    found = compare(shelf(SAME), shelf(SAME + ""), shelf("0" * 200), *gate, code=1)
    assert sorted(one["verdict"] for one in found["gates"]) == [NOT_WORSE, WORSE]


# ---- a gate that cannot be asked ----------------------------------------------------------------

WRONG_GATES = {
    "without a margin": ("correct", "correct"),
    "a margin that is no number": ("correct=much", "much"),
    "a negative margin": ("correct=-0.1", "-0.1"),
    "a margin that is not a number at all": ("correct=nan", "nan"),
    "an infinite margin": ("correct=inf", "inf"),
    "an evaluator that none has": ("corect=0.1", "corect"),
    "no evaluator": ("=0.1", "0.1"),
    "a margin in percent": ("correct=2%", "2%"),
}


@pytest.mark.parametrize(("gate", "word"), WRONG_GATES.values(), ids=WRONG_GATES)
def test_a_gate_that_makes_no_sense_is_never_green(shelf, gate, word):
    refused(limpet("compare", shelf("1101"), shelf("1101"), "--fail-if-worse", gate), word)


def test_a_gate_on_an_evaluator_that_was_left_out_is_never_green(shelf):
    runs = [
        shelf("1101", evaluators=[named(), named(name="judged", version=version)])
        for version in "12"
    ]
    refused(limpet("compare", *runs, "--fail-if-worse", "judged=0.1"), "judged")


def test_a_gate_on_an_evaluator_that_one_lacks_is_never_green(shelf):
    runs = shelf("1101", evaluators=[named(), named(name="judged")]), shelf("1101")
    refused(limpet("compare", *runs, "--fail-if-worse", "judged=0.1"), "judged")


def test_a_gate_on_labels_is_never_green(shelf):
    runs = shelf(["kind", "rude"] * 4), shelf(["kind", "kind"] * 4)
    refused(limpet("compare", *runs, "--fail-if-worse", "correct=0.1"), "label")


@pytest.mark.slow  # unit/run/test_comparing has it
def test_a_gate_looks_at_its_evaluator_whatever_is_shown(shelf):
    runs = two((SAME, "0" * 200), shelf)
    compare(*runs, "--evaluator", "judged", "--fail-if-worse", "correct=0.05", code=1)


# ---- JUnit --------------------------------------------------------------------------------------


def junit(folder, *words):
    done = limpet("compare", *words, "--junit", folder / "gates.xml")
    root = ET.fromstring((folder / "gates.xml").read_bytes())  # noqa: S314 - ours
    return done, root, list(root.iter("testcase"))


def test_junit_has_a_case_for_each_gate(shelf, tmp_path):
    evaluators = [named(), named(name="judged"), named(name="liked")]
    runs = [shelf(one, evaluators=evaluators) for one in (SAME, "0" * 12 + SAME[12:])]
    gates = ("correct=0.15", "judged=0.01", "liked=0.05")
    words = [word for gate in gates for word in ("--fail-if-worse", gate)]
    done, root, cases = junit(tmp_path, *runs, *words)
    assert done.code == 1
    ends = {case.get("name").split("=")[0].split()[0]: [part.tag for part in case if part.tag in
            {"failure", "skipped", "error"}] for case in cases}  # fmt: skip
    assert ends == {"correct": [], "judged": ["failure"], "liked": ["skipped"]}
    suite = next(root.iter("testsuite"))
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    message = next(root.iter("failure")).get("message")
    assert "judged" in message or "worse" in message


def test_junit_is_xml_whatever_the_run_is_called(shelf, tmp_path):
    hostile = tmp_path / "a&b<c>\"d'ü\x01\x1b[31m"
    shutil.copytree(shelf(SAME), hostile)
    done, _, cases = junit(
        tmp_path, hostile, shelf("0" * 200), "--fail-if-worse", "correct=0.05", "--flips", "5"
    )
    assert done.code == 1
    assert len(cases) == 1
    assert "\x1b" not in done.said


def test_a_comparison_that_is_refused_leaves_no_green_junit(shelf, tmp_path):
    done = limpet("compare", shelf("1101"), tmp_path / "nothing", "--fail-if-worse", "correct=0.1",
                  "--junit", tmp_path / "gates.xml")  # fmt: skip
    assert done.code == 2
    assert "unknown command" not in done.err
    if (tmp_path / "gates.xml").exists():
        root = ET.fromstring((tmp_path / "gates.xml").read_bytes())  # noqa: S314 - ours
        assert list(root.iter("error")) or list(root.iter("failure"))


@pytest.mark.slow  # unit/stats/test_two_runs has such a count
def test_aa_comparisons_are_seldom_red():
    # "Red on any drop" is red in half of them; a gate with a margin in at most one in twenty.
    import random

    stats = importlib.import_module("limpet.stats")
    chance, red, tries = random.Random(5), 0, 300
    for _ in range(tries):
        hard = [chance.random() for _ in range(60)]
        base, new = ([float(chance.random() < p) for p in hard] for _ in range(2))
        found = stats.paired(base, new)
        red += found.high < 0 or found.low > 0
    assert red / tries <= 0.06 + 2 * math.sqrt(0.05 * 0.95 / tries)
