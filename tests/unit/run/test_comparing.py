"""Two runs, item by item: what is paired, what is left out and why, and what a gate says."""

import json
import math
import re
import shutil

import pytest
from scored_runs import command, make, rows, scored_by

import limpet
from limpet.errors import LimpetError
from limpet.run.comparing.results import LabelComparison


def edited(number, which, **fields):
    return [row | fields if row["id"] == f"q{which}" else row for row in rows(number)]


def only(comparison, name="correct"):
    return comparison.new[0].scores[name]


def told(comparison):
    return " ".join(one.why for one in comparison.new[0].left_out)


# ---- what is paired -----------------------------------------------------------------------------


def test_items_are_paired_by_their_ids_wherever_they_stand(tmp_path):
    base = make(tmp_path / "a", "11100")
    new = make(tmp_path / "b", "00111", dataset=rows(5)[::-1])
    found = only(limpet.compare(base, new))
    assert (found.n, found.delta, found.same) == (5, 0, 5)


def test_items_of_only_one_run_are_bounds_and_named(tmp_path):
    base, new = make(tmp_path / "a", "1111"), make(tmp_path / "b", "111")
    comparison = limpet.compare(base, new)
    found = only(comparison)
    assert (found.n, found.missing) == (3, 1)
    assert found.bounds.low < found.low
    assert "q3" in told(comparison)


def test_a_failure_is_a_bound_and_no_zero(tmp_path):
    base, new = make(tmp_path / "a", "111111"), make(tmp_path / "b", "1111fe")
    comparison = limpet.compare(base, new)
    found = only(comparison)
    assert (found.n, found.delta, found.missing, found.new_mean) == (4, 0, 2, 1)
    assert found.bounds.low < found.low < 0 < found.bounds.high
    about = comparison.new[0].about
    assert (about.failed, about.failed_scores) == (1, {"correct": 1})


@pytest.mark.parametrize("fields", [{"question": "Another?"}, {"answer": "another"}])
def test_a_row_is_left_out_if_what_was_read_of_it_differs(tmp_path, fields):
    def strict(output, expected):
        return output["score"]

    evaluators = [scored_by(strict)]
    base = make(tmp_path / "a", "1111", evaluators=evaluators)
    new = make(tmp_path / "b", "1110", dataset=edited(4, 3, **fields), evaluators=evaluators)
    comparison = limpet.compare(base, new)
    assert only(comparison).n == 3
    (one,) = comparison.new[0].left_out
    assert (one.kind, one.ids, one.allow) == ("rows", ["q3"], "rows")
    allowed = limpet.compare(base, new, allow="rows")
    assert (only(allowed).n, only(allowed).worse) == (4, 1)
    assert any("q3" in note for note in allowed.new[0].notes)


def test_a_field_that_nobody_reads_may_differ(tmp_path):
    def by_question(question):
        return question

    def right(output):
        return len(output) > 3

    for name, note in (("a", "old"), ("b", "new")):
        limpet.evaluate(
            rows(3, note=lambda n, note=note: note), by_question, [right], run=tmp_path / name,
            version="1", show=False,
        )  # fmt: skip
    found = limpet.compare(tmp_path / "a", tmp_path / "b")
    assert only(found, "right").n == 3
    assert not found.new[0].left_out


def test_workflows_that_read_other_fields_of_the_same_rows_are_compared(tmp_path):
    def by_question(question):
        return {"say": question, "score": False}

    base, new = make(tmp_path / "a", "111", evaluators=[scored_by()]), tmp_path / "b"
    limpet.evaluate(rows(3), by_question, [scored_by()], run=new, version="1", show=False)
    assert only(limpet.compare(base, new)).n == 3


def test_trials_that_only_one_run_has_are_left_out_unless_all_are_averaged(tmp_path):
    base = make(tmp_path / "a", "1010")
    new = make(tmp_path / "b", "111 000 110 001", trials=3)
    comparison = limpet.compare(base, new)
    assert only(comparison).n == 4
    assert comparison.new[0].left_out[0].kind == "trials"
    averaged = only(limpet.compare(base, new, allow=["trials"]))
    assert averaged.new_mean == pytest.approx((1 + 0 + 2 / 3 + 1 / 3) / 4)


def test_an_item_that_lacks_a_trial_is_a_bound_where_trials_are_averaged(tmp_path):
    base = make(tmp_path / "a", "1010")
    new = make(tmp_path / "b", "111 000 11f 001", trials=3)
    found = only(limpet.compare(base, new, allow="trials"))
    assert (found.n, found.missing) == (3, 1)


# ---- evaluators ---------------------------------------------------------------------------------


def test_an_evaluator_that_differs_is_compared_only_if_allowed(tmp_path):
    base = make(tmp_path / "a", "1100", evaluators=[scored_by(version="1"), scored_by(name="ok")])
    new = make(tmp_path / "b", "1110", evaluators=[scored_by(version="2"), scored_by(name="ok")])
    comparison = limpet.compare(base, new)
    assert list(comparison.new[0].scores) == ["ok"]
    assert "correct differs" in told(comparison)
    with pytest.raises(LimpetError, match="correct differs"):
        limpet.compare(base, new, evaluator="correct")
    allowed = limpet.compare(base, new, allow="evaluators")
    assert only(allowed).n == 4
    assert any("correct differs" in note for note in allowed.new[0].notes)


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ({"range": (1, 5)}, {"range": (1, 10)}, "range of correct is 1 to 5"),
        ({"higher_is_better": False}, {}, "better only in"),
    ],
)
def test_another_scale_is_never_mixed(tmp_path, one, other, why):
    base = make(tmp_path / "a", [1, 2, 3], evaluators=[scored_by(**one)])
    new = make(tmp_path / "b", [1, 2, 3], evaluators=[scored_by(**other)])
    with pytest.raises(LimpetError, match=why):
        limpet.compare(base, new)


def test_one_of_several_scores_that_only_one_run_has_is_named(tmp_path):
    base = make(tmp_path / "a", [{"a": 1, "b": 0}] * 3)
    new = make(tmp_path / "b", [{"a": 1}] * 3)
    comparison = limpet.compare(base, new)
    assert list(comparison.new[0].scores) == ["correct.a"]
    assert "no score of correct.b" in told(comparison)


def test_labels_are_counted_and_get_no_number(tmp_path):
    base = make(tmp_path / "a", ["kind", "kind", "rude", "f"])
    new = make(tmp_path / "b", ["kind", "rude", "rude", "kind"])
    found = only(limpet.compare(base, new))
    assert isinstance(found, LabelComparison)
    assert (found.n, found.missing) == (3, 1)
    assert (found.base, found.new) == ({"kind": 2, "rude": 1}, {"kind": 1, "rude": 2})
    assert found.changes == {("kind", "rude"): 1}


# ---- numbers ------------------------------------------------------------------------------------


def test_lower_is_better_turns_the_counts_the_verdict_and_the_gate(tmp_path):
    lower = {"evaluators": [scored_by(higher_is_better=False)]}
    base = make(tmp_path / "a", "0" * 30, **lower)
    new = make(tmp_path / "b", "1" * 20 + "0" * 10, **lower)
    comparison = limpet.compare(base, new, fail_if_worse={"correct": 0.1})
    found, (gate,) = only(comparison), comparison.gates
    assert (found.better, found.worse, found.verdict) == (0, 20, "worse")
    assert found.delta == pytest.approx(2 / 3)
    assert (gate.verdict, gate.delta) == ("worse", found.delta)
    assert gate.low < gate.delta < gate.high
    back = limpet.compare(new, base, fail_if_worse={"correct": 0.1})
    assert (only(back).verdict, back.verdict) == ("better", "not worse")


def test_a_score_just_outside_of_0_to_1_is_a_rounding_error_and_no_other_scale(tmp_path):
    base = make(tmp_path / "a", [1.0000001, 0, 1, -0.0000001] * 5)
    new = make(tmp_path / "b", [1, 0, 1, 0] * 5)
    found = only(limpet.compare(base, new))
    assert (found.range, found.delta, found.method) == ((0, 1), 0, "Tango")
    numbers = json.loads((base / "summary.json").read_bytes())["scores"]["correct"]
    assert (numbers["mean"], numbers["interval"]["method"]) == (0.5, "Wilson")
    assert [score["value"] for score in scores_of(base)][:2] == [1.0000001, 0]  # as it was given
    assert only(limpet.compare(make(tmp_path / "c", [1.00001, 0] * 10), new)).range is None


def scores_of(run):
    lines = (run / "correct_output.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted(map(json.loads, lines), key=lambda score: int(score["id"][1:]))


def test_the_same_change_everywhere_without_a_range_decides_nothing(tmp_path):
    base, new = make(tmp_path / "base", [5, 7, 9]), make(tmp_path / "new", [6, 8, 10])
    found = limpet.compare(base, new, fail_if_worse={"correct": 0.5})
    (gate,) = found.gates
    assert gate.verdict == "inconclusive"
    assert "all items changed by the same" in gate.why
    score = found.new[0].scores["correct"]
    assert score.verdict == "not known"
    assert math.isnan(score.p_holm)
    assert "inf" not in repr(found)
    said = command("compare", base, new).out
    assert re.search(r"correct +7.000 +8.000 +\+1.000 +– +– +–$", said, re.M)
    assert "no interval: all 3 items changed by the same" in said
    data = command("compare", base, new, "--json").json["new"][0]["scores"]["correct"]
    assert (data["p"], data["p_holm"], data["low"]) == (None, None, None)
    assert data["why_not_known"] in said


def test_scores_without_a_range_have_no_bounds_and_a_gate_on_missing_ones_is_inconclusive(tmp_path):
    base = make(tmp_path / "a", [10.0, 20.0, 30.0, 40.0])
    new = make(tmp_path / "b", [11.0, 21.0, 31.0, "f"])
    comparison = limpet.compare(base, new, fail_if_worse={"correct": 100})
    found, (gate,) = only(comparison), comparison.gates
    assert (found.range, found.bounds, found.missing) == (None, None, 1)
    assert gate.verdict == "inconclusive"
    assert "range" in gate.why
    whole = limpet.compare(base, make(tmp_path / "c", [11.0, 21.0, 31.0, 41.5]),
                           fail_if_worse={"correct": 5})  # fmt: skip
    assert whole.verdict == "not worse"
    one = limpet.compare(make(tmp_path / "d", [10.0]), make(tmp_path / "e", [11.0]),
                         fail_if_worse={"correct": 5})  # fmt: skip
    assert one.verdict == "inconclusive"


def test_several_scores_are_corrected_by_holm_and_count_as_seen_only_then(tmp_path):
    base = make(tmp_path / "a", [{"x": 0, "y": 0}] * 5 + [{"x": 1, "y": 1}] * 35)
    new = make(tmp_path / "b", [{"x": 1, "y": 1}] * 5 + [{"x": 1, "y": 1}] * 35)
    both = limpet.compare(base, new).new[0].scores.values()
    assert [score.p_holm for score in both] == pytest.approx([2 * score.p for score in both])
    assert [score.p < 0.05 < score.p_holm for score in both] == [True, True]
    assert {score.verdict for score in both} == {"no difference seen"}
    alone = limpet.compare(base, new, evaluator="correct.x").new[0].scores["correct.x"]
    assert (alone.p_holm, alone.verdict) == (alone.p, "better")


def test_a_slice_has_its_own_difference(tmp_path):
    dataset = rows(12, topic=lambda n: "law" if n < 6 else ["a", "list"])
    base = make(tmp_path / "a", "1" * 12, dataset=dataset)
    new = make(tmp_path / "b", "1" * 6 + "0" * 6, dataset=dataset)
    slices = only(limpet.compare(base, new, by="topic")).slices
    assert [one.value for one in slices] == ["law", ["a", "list"]]
    assert [one.difference.delta for one in slices] == [0, -1]
    assert slices[1].p_bh == pytest.approx(min(1, 2 * slices[1].difference.p))


def test_groups_of_an_evaluator_are_those_that_it_declares(tmp_path):
    dataset = rows(24, topic=lambda n: n // 4)
    both = {"dataset": dataset, "evaluators": [scored_by(group="topic")]}
    base, new = make(tmp_path / "a", "1" * 24, **both), make(tmp_path / "b", "0011" * 6, **both)
    found = only(limpet.compare(base, new))
    assert found.groups == 6
    assert "groups" in found.method


def test_a_score_with_fewer_than_five_groups_is_left_out_and_named(tmp_path):
    dataset = rows(8, topic=lambda n: n // 4)
    both = {"dataset": dataset, "evaluators": [scored_by(group="topic"), scored_by(name="plain")]}
    base, new = make(tmp_path / "a", "1" * 8, **both), make(tmp_path / "b", "0011" * 2, **both)
    comparison = limpet.compare(base, new)
    assert list(comparison.new[0].scores) == ["plain"]
    assert "only 2 groups" in told(comparison)


def test_these_questions_need_trials_and_say_what_they_are_about(tmp_path):
    base = make(tmp_path / "a", "11 00 10 11 01 1f", trials=2)
    new = make(tmp_path / "b", "11 01 10 11 11 11", trials=2)
    found = only(limpet.compare(base, new, these_questions=True))
    assert found.method == "t over trials"
    assert found.bounds.low <= found.low <= found.high <= found.bounds.high
    single = make(tmp_path / "c", "110101")
    with pytest.raises(LimpetError, match="trials"):
        limpet.compare(single, single, these_questions=True)


# ---- flips --------------------------------------------------------------------------------------


def test_the_biggest_changes_come_first_and_what_got_worse(tmp_path):
    base = make(tmp_path / "a", [0.5, 0.5, 0.5, 0.5, 0.5])
    new = make(tmp_path / "b", [0.6, 1.0, 0.0, 0.5, 0.3])
    flips = limpet.compare(base, new, flips=3).new[0].flips
    assert [flip.id for flip in flips] == ["q2", "q1", "q4"]
    assert [flip.is_worse for flip in flips] == [True, False, True]
    assert flips[0].base.output["say"] == "q2 is 0.5"
    assert flips[0].new.output["say"] == "q2 is 0.0"


def test_of_several_trials_the_one_that_changed_most_is_shown(tmp_path):
    base = make(tmp_path / "a", "111 111", trials=3)
    new = make(tmp_path / "b", "111 101", trials=3)
    (flip,) = limpet.compare(base, new).new[0].flips
    assert (flip.id, flip.trial, flip.delta) == ("q1", 1, pytest.approx(-1 / 3))
    assert flip.new.output["say"] == "q1 is False"


# ---- gates --------------------------------------------------------------------------------------


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("new", "margin", "verdict"),
    [
        ("1" * 100, 0.05, "not worse"),
        ("0" * 50 + "1" * 50, 0.05, "worse"),
        ("0" * 3 + "1" * 97, 0.05, "inconclusive"),
        ("0" * 5 + "1" * 95, 0.05, "inconclusive"),
        ("f" * 50 + "1" * 50, 0.05, "inconclusive"),
    ],
)
def test_a_gate_has_three_verdicts(tmp_path, new, margin, verdict):
    base, new = make(tmp_path / "a", "1" * 100), make(tmp_path / "b", new)
    comparison = limpet.compare(base, new, fail_if_worse={"correct": margin})
    (gate,) = comparison.gates
    assert (gate.verdict, comparison.verdict) == (verdict, verdict)
    assert (gate.items_to_decide is not None) == (
        verdict == "inconclusive" and gate.delta != -margin and not gate.missing
    )
    assert "correct" in repr(comparison)
    assert verdict in repr(comparison)


def test_a_comparison_in_one_line_has_the_bounds_and_names_what_is_left_out(tmp_path):
    both = [scored_by(), scored_by(name="other")]
    base = make(tmp_path / "a", "1" * 20 + "0" * 20, evaluators=both)
    new = make(tmp_path / "b", "1" * 38 + "ff", evaluators=both[:1])
    found = limpet.compare(base, new)
    score = found.new[0].scores["correct"]
    assert score.bounds.low < score.low
    assert f"({score.bounds.low:+.3g} to {score.bounds.high:+.3g}," in repr(found)
    assert "; left out: other>" in repr(found)


def test_a_comparison_in_a_notebook_has_the_table_what_is_left_out_and_the_gates(tmp_path):
    both = [scored_by(), scored_by(name="other")]
    base = make(tmp_path / "<a>", "1" * 20 + "0" * 20, evaluators=both)
    new = make(tmp_path / "b", "1" * 38 + "ff", evaluators=both[:1])
    html = limpet.compare(base, new, fail_if_worse={"correct": 0.1})._repr_html_()
    assert "<a>" not in html
    for part in ("0.526", "1.000", "+0.474", "18 / 20 / 0, 2 missing", "better", "other"):
        assert part in html
    assert "not worse (margin 0.1)" in html


def test_a_gate_on_a_score_that_is_not_shown_counts(tmp_path):
    evaluators = [scored_by(), scored_by(name="other")]
    base, new = (make(tmp_path / run, answers * 40, evaluators=evaluators)
                 for run, answers in (("a", "1"), ("b", "0")))  # fmt: skip
    found = limpet.compare(base, new, evaluator="other", fail_if_worse={"correct": 0.1})
    assert list(found.new[0].scores) == ["other"]
    assert found.verdict == "worse"


# ---- runs in every state ------------------------------------------------------------------------


def test_what_is_not_known_of_a_run_is_said(tmp_path):
    base, new = make(tmp_path / "a", "110"), make(tmp_path / "b", "111")
    (new / "items.jsonl").unlink()
    (new / "run.json").unlink()
    shutil.rmtree(new / "index")
    comparison = limpet.compare(base, new)
    assert only(comparison).n == 3
    notes = " ".join(comparison.new[0].notes)
    assert "what its items were" in notes
    assert "which evaluator correct was" in notes


def test_items_that_stop_when_did_not_need_are_left_out_and_no_bounds(tmp_path):
    base = make(tmp_path / "a", "1" * 80)
    new = make(tmp_path / "b", "1" * 80, stop_when={"correct": 0.2}, pace=1)
    comparison = limpet.compare(base, new)
    about, found = comparison.new[0].about, only(comparison)
    assert about.not_run > 0
    assert (found.n, found.missing, found.bounds) == (80 - about.not_run, 0, None)
    assert "stop_when" in told(comparison)


def test_results_are_compared_like_their_directories(tmp_path):
    make(tmp_path / "a", "1100")
    make(tmp_path / "b", "1110")
    base, new = limpet.load_run(tmp_path / "a"), limpet.load_run(tmp_path / "b")
    assert only(limpet.compare(base, new)).delta == 0.25
    with pytest.raises(TypeError, match="must be a run"):
        limpet.compare(base, 3)


def test_a_result_that_was_not_kept_is_refused(tmp_path):
    scored = {"correct": lambda output: True}
    result = limpet.evaluate(rows(1), lambda question: question, scored, save=False, show=False)
    with pytest.raises(LimpetError, match="not saved"):
        limpet.compare(result, make(tmp_path / "a", "1"))


@pytest.mark.parametrize(
    "options",
    [{"allow": "everything"}, {"fail_if_worse": {"correct": -1}}, {"evaluator": "corect"},
     {"by": "lang"}, {"these_questions": True, "group": "answer"},
     {"fail_if_worse": {"other": 0.1}}],
)  # fmt: skip
def test_a_wrong_argument_is_refused(tmp_path, options):
    base = make(tmp_path / "a", "11")
    with pytest.raises(LimpetError):
        limpet.compare(base, base, **options)


def test_comparing_writes_nothing(tmp_path):
    base, new = make(tmp_path / "a", "11"), make(tmp_path / "b", "10")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    limpet.compare(base, new)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_run_of_another_dataset_is_refused(tmp_path):
    base = make(tmp_path / "a", "11")
    others = [row | {"question": "What else?"} for row in rows(2)]
    with pytest.raises(LimpetError, match="another dataset") as caught:
        limpet.compare(base, make(tmp_path / "b", "11", dataset=others))
    assert "limpet compare --allow rows" in caught.value.hint
    renamed = [row | {"id": f"x{row['id']}"} for row in rows(2)]
    with pytest.raises(LimpetError, match="no item in common") as caught:
        limpet.compare(base, make(tmp_path / "c", "11", dataset=renamed))
    assert "xq0" in caught.value.hint


def test_a_matrix_is_refused_and_its_runs_are_named(tmp_path):
    base = make(tmp_path / "m/one", "11")
    matrix = {"labels": {}, "variants": [{"name": "one", "values": {}}]}
    (tmp_path / "m/matrix.json").write_text(json.dumps(matrix))
    with pytest.raises(LimpetError, match="variants of a matrix") as caught:
        limpet.compare(base, tmp_path / "m")
    assert "one" in caught.value.hint
