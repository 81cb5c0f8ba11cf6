"""What must not be compared: named and left out, or refused; never mixed in silence."""

import json
import shutil
import threading

import pytest

import limpet as library
from tests.numbers.command import limpet, refused
from tests.numbers.reading import about, compare, compared, left_out
from tests.numbers.runs import FAILS, make, named, rows


def edited(count, which, **fields):
    return [{**row, **fields} if row["id"] == f"q{which}" else row for row in rows(count)]


# ---- rows ---------------------------------------------------------------------------------------

EDITS = {"the question": {"question": "Another?"}, "the expected answer": {"answer": "another"}}


@pytest.mark.parametrize("fields", EDITS.values(), ids=EDITS)
def test_a_row_that_differs_is_named_and_left_out(shelf, fields):
    runs = shelf("111111"), shelf("111110", dataset=edited(6, 5, **fields))
    found = compare(*runs)
    assert compared(found)["n"] == 5
    assert compared(found)["delta"] == 0
    assert "q5" in left_out(found)
    assert "row" in left_out(found)
    text = limpet("compare", *runs).said
    assert "q5" in text
    assert "--allow rows" in text


@pytest.mark.parametrize("fields", EDITS.values(), ids=EDITS)
def test_allow_rows_compares_them_and_says_so(shelf, fields):
    runs = shelf("111111"), shelf("111110", dataset=edited(6, 5, **fields))
    found = compare(*runs, "--allow", "rows")
    assert compared(found)["n"] == 6
    assert compared(found)["worse"] == 1
    assert "q5" in limpet("compare", *runs, "--allow", "rows").said


def test_a_row_that_was_only_moved_is_the_same_row(shelf):
    there = rows(6)
    found = compare(shelf("111110"), shelf("011111", dataset=there[::-1]))
    assert compared(found)["n"] == 6
    assert compared(found)["delta"] == 0
    assert compared(found)["same"] == 6


def test_ids_that_were_made_from_content_pair_the_same_content(shelf):
    def nameless(count, after=""):
        return [{"question": f"Question {n}?{after}", "answer": "x"} for n in range(count)]

    def scored(output):
        return output == "yes"

    def run(path, dataset, word):
        library.evaluate(
            dataset, lambda question: word, {"correct": scored}, run=path, version=word, show=False
        )
        return path

    base = run(shelf.folder / "nameless", nameless(6), "yes")
    new = run(shelf.folder / "nameless-2", nameless(8), "no")
    other = run(shelf.folder / "nameless-3", nameless(6, " Please."), "no")
    assert compared(compare(base, new))["n"] == 6
    refused(limpet("compare", base, other), "item")


# ---- evaluators ---------------------------------------------------------------------------------


def other_correct(output):
    return not output["score"]


OTHER = {
    "another version": lambda: named(version="2"),
    "other code": lambda: named(other_correct),
}


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_an_evaluator_that_differs_is_refused_by_name(shelf, other):
    runs = shelf("1101"), shelf("1101", evaluators=[other()])
    done = limpet("compare", *runs)
    refused(done, "correct", "evaluator")
    assert "--allow evaluators" in done.err


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_allow_evaluators_compares_it_and_says_so(shelf, other):
    runs = shelf("1101"), shelf("1101", evaluators=[other()])
    assert compared(compare(*runs, "--allow", "evaluators"))["n"] == 4
    assert "differ" in limpet("compare", *runs, "--allow", "evaluators").said


def test_of_two_evaluators_the_one_that_differs_is_left_out(shelf):
    def both(**declared):
        return [named(), named(name="judged", **declared)]

    runs = shelf("1101", evaluators=both(version="1")), shelf("1001", evaluators=both(version="2"))
    found = compare(*runs)
    assert compared(found)["n"] == 4
    assert "judged" not in found["new"][0]["scores"]
    assert "judged" in left_out(found)
    assert "judged" in limpet("compare", *runs).said


def test_an_evaluator_that_only_one_of_them_has_is_named(shelf):
    runs = shelf("1101"), shelf("1001", evaluators=[named(), named(name="judged")])
    found = compare(*runs)
    assert set(found["new"][0]["scores"]) == {"correct"}
    assert "judged" in left_out(found)


def test_no_evaluator_in_common_is_not_comparable(shelf):
    done = limpet("compare", shelf("1101"), shelf("1001", evaluators=[named(name="judged")]))
    refused(done, "correct", "judged", "evaluator")


def test_runs_that_have_no_evaluator_are_not_comparable(shelf):
    refused(limpet("compare", shelf("11", evaluators=()), shelf("10", evaluators=())), "evaluator")


def test_another_declared_range_is_never_mixed_in_silence(shelf):
    runs = [shelf([1, 2, 3, 4, 3], evaluators=[named(range=(1, top))]) for top in (5, 10)]
    done = limpet("compare", *runs)
    assert "Traceback" not in done.said
    assert "range" in done.said


# ---- trials -------------------------------------------------------------------------------------


def test_other_trials_are_named_and_left_out_or_refused(shelf):
    runs = shelf("1101"), shelf("111 110 000 111", trials=3)
    done = limpet("compare", *runs)
    assert done.code in {0, 2}
    assert "unknown command" not in done.err
    assert "trial" in done.said
    assert "--allow trials" in done.said


def test_allow_trials_compares_means_of_items(shelf):
    runs = shelf("1101"), shelf("111 110 000 111", trials=3)
    found = compared(compare(*runs, "--allow", "trials"))
    assert found["n"] == 4
    assert found["delta"] == about((1 + 2 / 3 + 0 + 1) / 4 - 3 / 4)


def test_these_questions_need_trials(shelf):
    refused(limpet("compare", shelf("1101"), shelf("1111"), "--these-questions"), "trials")


# ---- datasets -----------------------------------------------------------------------------------


def test_two_runs_without_a_common_item_are_not_comparable(shelf):
    others = [{**row, "id": f"other-{row['id']}"} for row in rows(4)]
    refused(limpet("compare", shelf("1101"), shelf("1101", dataset=others)), "item")


def test_another_dataset_under_the_same_ids_is_not_comparable(shelf):
    others = [{**row, "question": f"What is {row['id']}?"} for row in rows(4)]
    refused(limpet("compare", shelf("1101"), shelf("1101", dataset=others)), "row")


def test_items_that_both_answered_but_none_scored_are_not_comparable(shelf):
    refused(limpet("compare", shelf("11ee"), shelf("ee11")), "correct")


def test_all_failed_in_one_of_them_is_not_comparable(shelf):
    refused(limpet("compare", shelf("1101"), shelf("ffff")), "failed")


def test_one_common_item_is_no_evidence_and_the_interval_says_so(shelf):
    done = limpet("compare", shelf("1"), shelf("0"), "--json")
    assert "Traceback" not in done.said
    assert done.code in {0, 2}
    if done.code == 0:
        found = compared(done.json)
        assert found["low"] is None or found["high"] - found["low"] > 1
    else:
        refused(done, "item")


# ---- what they are ------------------------------------------------------------------------------


def test_labels_are_counted_side_by_side_and_have_no_delta(shelf):
    done = limpet("compare", shelf(["kind"] * 4), shelf(["kind", "rude", "kind", "kind"]), "--json")
    assert done.code == 0, done.said
    found = compared(done.json)
    assert found.get("delta") is None
    assert "rude" in json.dumps(found)


def test_labels_in_one_and_numbers_in_the_other_are_not_comparable(shelf):
    refused(limpet("compare", shelf(["kind", "rude", "kind"]), shelf([1.0, 0.0, 1.0])), "label")


def test_an_item_with_a_label_instead_of_a_number_is_left_out_and_named(shelf):
    found = compare(shelf([1.0, 0.5, 0.25, 0.5]), shelf([1.0, 0.5, "unsure", 0.75]))
    assert compared(found)["n"] == 3
    assert "q2" in left_out(found)


def test_nan_is_a_failure_of_the_evaluator_and_never_a_number(shelf):
    new = shelf([0.5, float("nan"), 0.75, 0.5])
    found = compare(shelf([0.5, 0.25, 0.5, 0.5]), new)
    assert compared(found)["n"] == 3
    assert "bounds" in compared(found)


def test_a_score_outside_its_declared_range_is_refused(shelf):
    stars = {"evaluators": [named(range=(1, 5))]}
    runs = shelf([1, 2, 3, 4], **stars), shelf([1, 2, 9, 4], **stars)
    done = limpet("compare", *runs)
    refused(done, "range", "9")


# ---- runs in every state ------------------------------------------------------------------------


def test_a_stopped_run_is_compared_over_what_it_has_and_said_to_be_unfinished(shelf):
    done = limpet("compare", shelf("1" * 12), shelf("1" * 8 + "q" + "111", pace=1))
    assert done.code == 0, done.said
    assert "stopped" in done.said or "unfinished" in done.said or "not run" in done.said


class SixScores(library.types.Watcher):
    """Tells when six scores are on disk."""

    def __init__(self):
        self.left = 6
        self.there = threading.Event()

    def finished(self, outcome):
        self.left -= outcome.cell.step == "correct"
        if self.left == 0:
            self.there.set()


@pytest.fixture
def running(tmp_path):
    """A run that has six scored answers and waits for the seventh."""
    go, scored = threading.Event(), SixScores()

    def answer(item):
        if item.id == "q6":
            go.wait(60)
        return {"say": "x", "score": True}

    def work():
        library.evaluate(
            rows(8), answer, [named()], run=tmp_path / "running", version="w", pace=1,
            watcher=scored, show=False,
        )  # fmt: skip

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert scored.there.wait(60)
        yield tmp_path / "running"
    finally:
        go.set()
        thread.join(60)


def test_a_running_run_is_compared_and_marked_as_interim(shelf, running):
    done = limpet("compare", shelf("1" * 8), running)
    assert done.code == 0, done.said
    assert "running" in done.said
    found = compared(compare(shelf("1" * 8), running))
    assert found["n"] == 6
    assert found["bounds"]["low"] < found["low"]


def test_numbers_of_a_running_run_are_marked_with_what_is_in_flight_as_bounds(running):
    text = limpet("status", running).out
    assert "so far" in text or "interim" in text
    found = library.load_run(running).summary["scores"]["correct"]
    assert found["bounds"]["low"] < found["interval"]["low"]


def test_a_killed_run_is_compared_without_its_summary(shelf, running, tmp_path):
    shutil.copytree(running, tmp_path / "killed")
    (tmp_path / "killed/LOCK").unlink()
    done = limpet("compare", shelf("1" * 8), tmp_path / "killed", "--json")
    assert done.code == 0, done.said
    assert compared(done.json)["n"] == 6


def test_answers_of_two_versions_in_one_run_are_said(shelf, tmp_path):
    make(tmp_path / "mixed", "1111", version="1")
    make(tmp_path / "mixed", "111111", version="2", on_change="keep")
    done = limpet("compare", shelf("111111"), tmp_path / "mixed")
    assert done.code == 0, done.said
    assert "version" in done.said


def test_a_torn_last_line_is_no_traceback(shelf, tmp_path):
    shutil.copytree(shelf("111111"), tmp_path / "torn")
    column = tmp_path / "torn/correct_output.jsonl"
    column.write_bytes(column.read_bytes()[:-20])
    found = compared(compare(shelf("111111"), tmp_path / "torn"))
    assert found["n"] == 5
    assert "bounds" in found


# ---- usage --------------------------------------------------------------------------------------

WRONG_WORDS = {
    "a run that does not exist": (["{run}", "runs/nothing"], "runs/nothing"),
    "one run": (["{run}"], "new"),
    "an option that it does not have": (["{run}", "{run}", "--fail-if-wrose", "correct=0"],
                                        "fail-if-wrose"),
    "an evaluator that none has": (["{run}", "{run}", "--evaluator", "corect"], "correct"),
    "a field that no row has": (["{run}", "{run}", "--by", "topics"], "topics"),
    "a group that no row has": (["{run}", "{run}", "--group", "documents"], "documents"),
    "something else to allow": (["{run}", "{run}", "--allow", "rows,everything"], "everything"),
    "a negative number of flips": (["{run}", "{run}", "--flips", "-1"], "flips"),
    "a verdict that does not exist": (["{run}", "{run}", "--inconclusive", "maybe"], "maybe"),
    "a folder that is no run": (["{run}", "{folder}"], "run"),
    "a report in a folder that is not there": (["{run}", "{run}", "--markdown",
                                                "{folder}/no/where.md"], "where.md"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "named_in_it"), WRONG_WORDS.values(), ids=WRONG_WORDS)
def test_it_is_refused_in_a_plain_sentence(shelf, tmp_path, words, named_in_it):
    run = shelf("1101", dataset=rows(4, topic=lambda n: "x"))
    words = [word.format(run=run, folder=tmp_path) for word in words]
    done = limpet("compare", *words, cwd=tmp_path)
    assert done.code == 2, done.said
    assert "Traceback" not in done.said
    assert "unknown command" not in done.err
    assert named_in_it in done.err.lower()


def test_with_json_a_refusal_is_an_event_too(shelf, tmp_path):
    done = limpet("compare", shelf("1101"), tmp_path / "nothing", "--json")
    assert done.code == 2
    event = json.loads(done.out.splitlines()[-1])
    assert event["event"] == "error"
    assert event["exit_code"] == 2
    assert "unknown command" not in event["message"]
    assert "nothing" in event["message"]


def test_under_five_groups_are_refused(shelf):
    dataset = rows(12, topic=lambda n: "abc"[n % 3])
    runs = shelf("1" * 12, dataset=dataset), shelf("10" * 6, dataset=dataset)
    refused(limpet("compare", *runs, "--group", "topic"), "group", "5")


def test_a_map_is_not_an_evaluation(shelf, tmp_path):
    library.map(str, [1, 2, 3], journal=tmp_path / "map.jsonl")
    done = limpet("compare", shelf("1101"), tmp_path / "map.jsonl")
    refused(done, "map.jsonl")


def test_failures_everywhere_but_one_item_still_say_how_many_failed(shelf):
    done = limpet("compare", shelf([0.5, 0.5, 0.75]), shelf([0.5, FAILS, FAILS]))
    assert "Traceback" not in done.said
    assert "unknown command" not in done.said
    assert "2" in done.said
    assert "failed" in done.said
