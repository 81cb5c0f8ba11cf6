"""`result.calibrate`: a judge compared with people."""

import csv
import json
import re
import shutil
from dataclasses import asdict

import pytest

import limpet
from limpet.report.summary import summary_table
from limpet.report.tables import put
from limpet.run.reading import RunReader

N = 40
ROWS = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(N)]


def last_word(question):
    return question.split()[-1]


def judge(output):
    """Say that every third answer is bad."""
    is_good = int(output) % 3 > 0
    return limpet.Score(is_good, label="good" if is_good else "bad", explanation=f"reason {output}")


def people(output):
    """Say the same, but for those under 6."""
    return "good" if int(output) % 3 > 0 or int(output) < 6 else "bad"


def evaluator(function=judge, name="right"):
    return limpet.evaluator(name=name)(function)


def evaluate(run, *evaluators, rows=ROWS, workflow=last_word, version="1", **more):
    used = evaluators or (evaluator(),)
    return limpet.evaluate(rows, workflow, used, run=run, show=False, version=version, **more)


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows, **form):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], **form)
        writer.writeheader()
        writer.writerows(rows)
    return path


def label(path, say=people, rows=None):
    """Fill in a file of `sample`, or the first so many rows of it."""
    known = read(path)
    for row in known[:rows]:
        row["label"] = say(row["output"])
    return write(path, known)


def own(tmp_path, *labels, **more):
    """Write a file with ids and labels that was not drawn."""
    rows = [{"id": id_, "label": word, **more} for id_, word in labels]
    return write(tmp_path / "own.csv", rows)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that each test has a copy of."""
    path = tmp_path_factory.mktemp("finished") / "run"
    evaluate(path)
    return path


@pytest.fixture
def result(tmp_path, finished):
    return limpet.load_run(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def labels(tmp_path, result):
    result.sample(20, tmp_path / "humans.csv", seed=1)
    return label(tmp_path / "humans.csv")


# ---- what it says -------------------------------------------------------------------------------


def test_agreement_kappa_confusion_and_where_they_disagree(result, labels):
    found = result.calibrate("right", labels)
    drawn = [int(row["output"]) for row in read(labels)]
    differ = [n for n in drawn if n in (0, 3)]
    assert differ  # else this seed shows nothing
    agreement = found.agreement
    assert (found.labelled, found.drawn, agreement.n) == (20, 20, 20)
    assert agreement.same == 20 - len(differ)
    assert agreement.mean == agreement.same / 20
    assert agreement.low < agreement.mean < agreement.high
    assert agreement.kappa.low < agreement.kappa.value < agreement.kappa.high
    assert agreement.confusion["bad"]["good"] == len(differ)
    assert "bad" not in agreement.confusion["good"]
    assert [(each.id, each.judge, each.people, each.reason) for each in found.disagreements] == [
        (f"q{n}", "bad", "good", f"reason {n}") for n in differ
    ]
    first = found.disagreements[0]
    assert (first.input, first.output) == (f"Say {differ[0]}", str(differ[0]))
    assert found.remarks == []


def test_the_mean_is_corrected_by_the_labels_of_a_draw(result, labels):
    found = result.calibrate("right", labels).corrected
    judged = [judge(row["output"]).value for row in read(labels)]
    said = [people(row["output"]) == "good" for row in read(labels)]
    every = sorted(judge(str(n)).value for n in range(N))
    wanted = limpet.stats.ppi_mean(every, judged, said)
    assert (found.mean, found.low, found.high) == (wanted.mean, wanted.low, wanted.high)
    assert (found.raw, found.items, found.n_labelled) == (
        result.summary["scores"]["right"]["mean"],
        N,
        20,
    )
    assert found.mean > found.raw


def test_labels_that_were_not_drawn_give_agreement_alone(tmp_path, result):
    file = own(tmp_path, *[(f"q{n}", people(str(n))) for n in range(8)])
    found = result.calibrate("right", file)
    assert (found.labelled, found.drawn, found.agreement.same) == (8, 0, 6)
    assert found.corrected is None
    assert found.remarks == ["no label comes from a recorded draw, so the mean is not corrected"]
    assert "calibrated" not in limpet.load_run(tmp_path / "run").summary["scores"]["right"]


def test_what_was_drawn_and_what_was_not_are_not_mixed(tmp_path, result, labels):
    drawn = {row["id"] for row in read(labels)}
    rest = [n for n in range(N) if f"q{n}" not in drawn]
    alone = result.calibrate("right", labels)
    file = own(tmp_path, *[(f"q{n}", "bad") for n in rest])
    both = result.calibrate("right", [str(labels), str(file)])
    assert (both.labelled, both.drawn) == (20 + len(rest), 20)
    assert both.agreement == alone.agreement
    assert both.corrected == alone.corrected
    assert both.others.n == len(rest)
    assert both.others.same == sum(n % 3 == 0 for n in rest)


def test_a_loaded_run_says_the_same_as_the_result(tmp_path):
    result = evaluate(tmp_path / "run")
    result.sample(20, tmp_path / "humans.csv", seed=1)
    labels = label(tmp_path / "humans.csv")
    loaded = limpet.load_run(tmp_path / "run")
    assert loaded.calibrate("right", labels) == result.calibrate("right", labels)


def test_rows_and_frames_are_labels_too(result, labels):
    pandas = pytest.importorskip("pandas")
    wanted = result.calibrate("right", labels)
    assert result.calibrate("right", read(labels)) == wanted
    assert result.calibrate("right", pandas.read_csv(labels)) == wanted


# ---- the run keeps it ---------------------------------------------------------------------------


def test_the_summary_shows_the_raw_and_the_corrected_mean(tmp_path, result, labels, capsys):
    found = result.calibrate("right", labels).corrected
    loaded = limpet.load_run(tmp_path / "run")
    numbers = loaded.summary["scores"]["right"]
    assert numbers["mean"] == result.summary["scores"]["right"]["mean"]
    assert numbers["calibrated"] == asdict(found)
    put(summary_table(loaded.summary))
    ends = f"({found.low:.2f}–{found.high:.2f}), 20 labels"
    assert f"corrected by people: {found.mean:.2f}" in (shown := capsys.readouterr().out)
    assert ends in shown


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "damaged",
    ['"mean": 0.999, "x":', '"mean": NaN, "y":', '"man":', '"mean": "a", "z":'],
    ids=["another number", "no number", "no mean", "a word"],
)
def test_a_corrected_mean_that_was_damaged_is_computed_again(tmp_path, result, labels, damaged):
    found = result.calibrate("right", labels).corrected
    file = tmp_path / "run/people.json"
    whole = file.read_text()
    unsigned = re.sub(r'"crc": \d+,', "", whole)  # an earlier file; any other is refused, below
    for text in (unsigned.replace('"mean":', damaged), unsigned.replace(str(found.mean), "0.999")):
        file.write_text(text)
        with RunReader(tmp_path / "run") as reader:
            numbers = reader.summary()["scores"]["right"]
        assert numbers["calibrated"]["mean"] == found.mean


def test_a_damaged_file_corrects_nothing_and_is_named(tmp_path, result, labels):
    found = result.calibrate("right", labels).corrected
    file = tmp_path / "run/people.json"
    file.write_text(file.read_text().replace(str(found.mean), "0.999"))
    with RunReader(tmp_path / "run") as reader:
        assert "calibrated" not in reader.summary()["scores"]["right"]
        assert any("people.json" in remark and "damaged" in remark for remark in reader.remarks)


def test_the_next_session_writes_it_into_summary_json(tmp_path, result, labels):
    found = result.calibrate("right", labels).corrected
    again = evaluate(tmp_path / "run")  # nothing is left to do
    assert again.summary["scores"]["right"]["calibrated"]["mean"] == found.mean
    more = evaluate(tmp_path / "run", evaluator(), evaluator(name="other"))
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    for summary in (more.summary, written):
        assert summary["scores"]["right"]["calibrated"]["mean"] == found.mean
        assert "calibrated" not in summary["scores"]["other"]


def test_an_edited_judge_voids_it_and_the_labels_can_be_compared_again(tmp_path, result, labels):
    result.calibrate("right", labels)

    def stricter(output):
        return limpet.Score(False, label="bad")

    edited = evaluate(tmp_path / "run", evaluator(stricter))
    for summary in (edited.summary, limpet.load_run(tmp_path / "run").summary):
        numbers = summary["scores"]["right"]
        assert "calibrated" not in numbers
        assert numbers["not_calibrated"].startswith("the evaluator has changed since")
    edited.calibrate("right", [{**row, "label": row["label"] == "good"} for row in read(labels)])
    assert "calibrated" in limpet.load_run(tmp_path / "run").summary["scores"]["right"]


def test_answers_that_changed_are_not_compared_with_old_labels(tmp_path, result, labels):
    def other(question):
        number = int(last_word(question))
        return str(number + 1 if number < N // 2 else number)

    result.calibrate("right", labels)
    changed = evaluate(tmp_path / "run", workflow=other, version="2", on_change="redo")
    same = sum(int(row["id"][1:]) >= N // 2 for row in read(labels))
    found = changed.calibrate("right", labels)
    assert found.labelled == same
    assert any("the answer has changed since it was drawn" in remark for remark in found.remarks)


def test_if_all_answers_changed_nothing_is_corrected(tmp_path, result, labels):
    result.calibrate("right", labels)
    other = lambda question: str(int(last_word(question)) + 1)
    changed = evaluate(tmp_path / "run", workflow=other, version="2", on_change="redo")
    numbers = changed.summary["scores"]["right"]
    assert "calibrated" not in numbers
    assert "the answers have changed since" in numbers["not_calibrated"]
    with pytest.raises(limpet.LimpetError, match="no label can be compared: 20 labels left out"):
        changed.calibrate("right", labels)


def test_the_file_of_another_run_is_not_taken_for_this_one(tmp_path, result):
    other = lambda question: str(int(last_word(question)) + 1)
    evaluate(tmp_path / "other", workflow=other).sample(20, tmp_path / "humans.csv")
    with pytest.raises(limpet.LimpetError, match="the answer has changed since it was drawn"):
        result.calibrate("right", label(tmp_path / "humans.csv"))


def test_answers_newer_than_the_draw_are_said_and_not_corrected(tmp_path):
    first = evaluate(tmp_path / "run", rows=limpet.Dataset(ROWS, limit=20))
    first.sample(20, tmp_path / "humans.csv")
    before = first.calibrate("right", label(tmp_path / "humans.csv")).corrected
    later = evaluate(tmp_path / "run").summary["scores"]["right"]
    assert later["completed"] == N
    assert later["calibrated"] | {"newer": 0} == limpet.load_run(tmp_path / "run").summary[
        "scores"
    ]["right"]["calibrated"] | {"newer": 0}
    assert (later["calibrated"]["newer"], later["calibrated"]["items"]) == (20, 20)
    assert later["calibrated"]["mean"] == before.mean
    found = limpet.load_run(tmp_path / "run").calibrate("right", tmp_path / "humans.csv")
    assert any("20 answers are newer than the draw" in remark for remark in found.remarks)


def test_scores_that_came_after_the_labels_count(tmp_path):
    """The labels are kept, the number is computed."""
    broken = {"on": True}

    def sometimes(output):
        if broken["on"] and int(output) >= 20:
            raise limpet.PermanentError("no")
        return judge(output)

    result = evaluate(tmp_path / "run", limpet.evaluator(name="right", version="1")(sometimes))
    result.sample(N, tmp_path / "humans.csv")
    found = result.calibrate("right", label(tmp_path / "humans.csv"))
    assert (found.labelled, found.corrected.items) == (20, 20)
    assert any("20 labels left out: the judge failed on it" in remark for remark in found.remarks)
    broken["on"] = False
    later = evaluate(tmp_path / "run", limpet.evaluator(name="right", version="1")(sometimes))
    assert later.summary["scores"]["right"]["calibrated"]["items"] == N
    assert later.calibrate("right", tmp_path / "humans.csv").labelled == N


def test_a_later_draw_does_not_make_a_hand_picked_label_random(tmp_path, result):
    result.calibrate("right", own(tmp_path, *[(f"q{n}", "good") for n in range(6)]))
    result.sample(N, tmp_path / "humans.csv")
    assert "calibrated" not in limpet.load_run(tmp_path / "run").summary["scores"]["right"]


def test_both_draws_from_the_same_answers_count(tmp_path, result, labels):
    result.sample(10, tmp_path / "more.csv")
    more = label(tmp_path / "more.csv")
    found = result.calibrate("right", [str(labels), str(more)])
    assert (found.drawn, found.corrected.n_labelled) == (30, 30)


def test_each_of_several_trials_has_its_own_label(tmp_path):
    result = evaluate(tmp_path / "run", trials=3)
    result.sample(20, tmp_path / "humans.csv", seed=2)
    found = result.calibrate("right", label(tmp_path / "humans.csv"))
    assert (found.drawn, found.corrected.items) == (20, N)
    with pytest.raises(limpet.LimpetError, match="which trial"):
        result.calibrate("right", own(tmp_path, ("q1", "good")))
    assert result.calibrate("right", own(tmp_path, ("q1", "good"), trial="2")).labelled == 1
    with pytest.raises(limpet.LimpetError, match="trial 'x' is not a whole number"):
        result.calibrate("right", own(tmp_path, ("q1", "good"), trial="x"))


def test_without_items_jsonl_labels_find_their_answers(tmp_path):
    result = evaluate(tmp_path / "run", trials=2)
    result.sample(20, tmp_path / "humans.csv")
    wanted = result.calibrate("right", label(tmp_path / "humans.csv"))
    (tmp_path / "run" / "items.jsonl").unlink()
    found = limpet.load_run(tmp_path / "run").calibrate("right", tmp_path / "humans.csv")
    assert (found.agreement, found.corrected) == (wanted.agreement, wanted.corrected)


# ---- what a label may be ------------------------------------------------------------------------


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "word", ["good", " Good ", "GOOD", "1", "1.0", "yes", "Yes", "true", 1, True]
)
def test_the_same_label_can_be_written_in_many_ways(result, word):
    found = result.calibrate("right", [{"id": "q1", "label": word}, {"id": "q0", "label": "no"}])
    assert found.agreement.same == 2
    assert found.agreement.confusion == {"bad": {"bad": 1}, "good": {"good": 1}}


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "goood",
            "'goood' is not a label of the judge",
        ),
        ("1.5", "1.5 is outside the score's range, 0 to 1"),
        ("-1", "outside the score's range"),
        ("nan", "'nan' is not a label"),
        ("inf", "'inf' is not a label"),
        ("=1", "'=1' is not a label"),
        ("good bad", "is not a label"),
    ],
)
def test_a_word_that_is_not_understood_is_an_error_and_no_number(tmp_path, result, word, message):
    file = own(tmp_path, ("q1", "good"), ("q2", word))
    with pytest.raises(limpet.LimpetError, match=message) as raised:
        result.calibrate("right", file)
    assert "own.csv, line 3" in str(raised.value)
    assert raised.value.hint == "a label is one of: bad, good, a number from 0 to 1, yes or no"
    assert not (tmp_path / "run" / "people.json").exists() or "calibrations" not in json.loads(
        (tmp_path / "run" / "people.json").read_text()
    )


def test_a_label_that_a_judge_never_gave_is_known_from_its_choices(tmp_path):
    async def always(messages, schema=None, **_):
        return json.dumps({"reason": "so", "label": "correct"})

    result = evaluate(tmp_path / "run", limpet.judge(always, "ok? {{output}}"))
    result.sample(N, tmp_path / "humans.csv")
    say = lambda output: "correct" if int(output) % 2 else "incorrect"
    found = result.calibrate("judge", label(tmp_path / "humans.csv", say))
    assert found.agreement.confusion == {"correct": {"correct": 20, "incorrect": 20}}
    assert found.corrected.raw == 1
    assert abs(found.corrected.mean - 0.5) < 0.02


def test_labels_without_values_give_agreement_and_no_mean(tmp_path):
    result = evaluate(tmp_path / "run", evaluator(lambda output: ("a", "b")[int(output) % 2]))
    result.sample(20, tmp_path / "humans.csv")
    found = result.calibrate("right", label(tmp_path / "humans.csv", lambda _: "a"))
    assert found.agreement.n == 20
    assert found.corrected is None
    assert found.difference is None
    assert found.remarks == ["the judge gives labels without values, so there is no mean"]
    with pytest.raises(limpet.LimpetError, match="'1' is not a label of the judge"):
        result.calibrate("right", own(tmp_path, ("q1", "1")))


def test_a_label_without_a_value_counts_for_agreement_and_not_for_the_mean(tmp_path):
    def unsure(output):
        return limpet.Score(None, label="unclear") if int(output) == 5 else judge(output)

    result = evaluate(tmp_path / "run", evaluator(unsure))
    result.sample(N, tmp_path / "humans.csv")
    say = lambda output: "unclear" if int(output) in (5, 6) else people(output)
    found = result.calibrate("right", label(tmp_path / "humans.csv", say))
    assert found.agreement.confusion["unclear"] == {"unclear": 1}
    assert found.agreement.confusion["bad"]["unclear"] == 1
    assert found.corrected.n_labelled == N - 2
    assert found.remarks == [
        "2 labels have no value from people or the judge: not in the corrected mean"
    ]


def test_a_label_that_stands_for_several_scores_needs_a_number(tmp_path):
    scores = lambda output: limpet.Score(int(output) / N, label="some")
    result = evaluate(tmp_path / "run", evaluator(scores))
    with pytest.raises(limpet.LimpetError, match="'some' stands for several scores"):
        result.calibrate("right", own(tmp_path, ("q1", "some")))


def test_measurements_have_a_difference_and_no_agreement(tmp_path):
    result = evaluate(tmp_path / "run", evaluator(lambda output: int(output) / N))
    result.sample(N, tmp_path / "humans.csv")
    say = lambda output: min(1.0, int(output) / N + 0.1)
    found = result.calibrate("right", label(tmp_path / "humans.csv", say))
    assert found.agreement is None
    assert 0.09 < found.difference < 0.11
    assert found.corrected.low < found.corrected.mean < found.corrected.high


def stars(output):
    return 1 + int(output) % 5


def test_a_score_without_a_known_range_is_not_corrected(tmp_path):
    result = evaluate(tmp_path / "run", evaluator(stars))
    result.sample(20, tmp_path / "humans.csv")
    found = result.calibrate("right", label(tmp_path / "humans.csv", stars))
    assert found.agreement.mean == 1
    assert found.corrected is None
    (remark,) = found.remarks
    assert remark.startswith("the mean is not corrected: the range of the score is not known")
    with pytest.raises(limpet.LimpetError, match="the score is not between 0 and 1"):
        result.calibrate("right", own(tmp_path, ("q1", "yes")))


def test_a_declared_range_is_that_of_labels_and_of_the_mean(tmp_path):
    of_five = limpet.evaluator(name="right", range=(1, 5), group="question")(stars)
    result = evaluate(tmp_path / "run", of_five)
    result.sample(20, tmp_path / "humans.csv")
    harsh = lambda output: max(1, stars(output) - 1)
    found = result.calibrate("right", label(tmp_path / "humans.csv", harsh))
    assert 1 <= found.corrected.low < found.corrected.mean < found.corrected.high <= 5
    assert found.corrected.mean < found.corrected.raw == 3
    assert found.corrected.method.endswith("groups ignored")
    with pytest.raises(limpet.LimpetError, match="6 is outside the score's range, 1 to 5"):
        result.calibrate("right", own(tmp_path, ("q1", "6")))


def test_one_of_several_scores_is_named(tmp_path):
    several = lambda output: {"style": int(output) % 2, "tone": judge(output)}
    result = evaluate(tmp_path / "run", evaluator(several))
    result.sample(20, tmp_path / "humans.csv")
    file = label(tmp_path / "humans.csv")
    with pytest.raises(limpet.LimpetError, match="right gives several scores") as raised:
        result.calibrate("right", file)
    assert raised.value.hint == "name one of them: right.style, right.tone"
    with pytest.raises(limpet.LimpetError, match="no score is called 'right.tune'"):
        result.calibrate("right.tune", file)
    found = result.calibrate("right.tone", file)
    assert found.score == "right.tone"
    scores = limpet.load_run(tmp_path / "run").summary["scores"]
    assert list(scores) == ["right.style", "right.tone"]
    assert scores["right.tone"]["calibrated"]["mean"] == found.corrected.mean
    assert "calibrated" not in scores["right.style"]


# ---- bad input ----------------------------------------------------------------------------------


def test_rows_that_are_not_labelled_yet_are_counted(tmp_path, result):
    result.sample(20, tmp_path / "humans.csv")
    label(tmp_path / "humans.csv", rows=8)
    found = result.calibrate("right", tmp_path / "humans.csv")
    assert (found.labelled, found.corrected.n_labelled) == (8, 8)
    assert found.remarks == ["12 rows are not labelled yet"]


def test_rows_that_were_skipped_are_said(tmp_path, result, labels):
    rows = read(labels)
    for row in rows[3:7]:
        row["label"] = "  "
    found = result.calibrate("right", write(tmp_path / "skipped.csv", rows))
    assert found.remarks[0] == "4 rows are not labelled yet"
    assert found.remarks[1].startswith("4 drawn answers have no usable label, though later ones")


def test_a_file_without_any_label_is_an_error(tmp_path, result):
    result.sample(20, tmp_path / "humans.csv")
    with pytest.raises(limpet.LimpetError, match="none of 20 rows is labelled yet"):
        result.calibrate("right", tmp_path / "humans.csv")


def test_two_labels_are_too_few_for_a_mean(tmp_path, result):
    result.sample(2, tmp_path / "humans.csv")
    found = result.calibrate("right", label(tmp_path / "humans.csv"))
    assert found.agreement.n == 2
    assert found.corrected is None
    assert found.remarks[0].startswith("2 labels")


def test_an_id_that_the_run_does_not_have_is_left_out_and_said(tmp_path, result):
    found = result.calibrate("right", own(tmp_path, ("q1", "good"), ("x9", "good"), ("q1 ", "bad")))
    assert found.labelled == 1
    assert found.remarks[0] == "2 labels left out: the run has no such item: x9, q1 "


def test_an_item_without_an_answer_is_left_out_and_said(tmp_path):
    def some(question):
        if question == "Say 1":
            raise limpet.PermanentError("no")
        return last_word(question)

    result = evaluate(tmp_path / "run", workflow=some)
    found = result.calibrate("right", own(tmp_path, ("q1", "good"), ("q2", "good")))
    assert found.remarks[0] == "1 label left out: the run has no answer to it: q1"


def test_the_same_label_twice_is_fine_and_two_different_ones_are_not(tmp_path, result):
    assert result.calibrate("right", own(tmp_path, ("q1", "good"), ("q1", "1"))).labelled == 1
    with pytest.raises(limpet.LimpetError, match="q1 is labelled twice: good in .*, bad in .*"):
        result.calibrate("right", own(tmp_path, ("q1", "good"), ("q1", "bad")))


def test_several_people_decide_by_majority_and_a_tie_is_left_out(tmp_path, result):
    said = [("q1", "good", "ann"), ("q1", "bad", "bob"), ("q1", "good", "cy")]
    said += [("q2", "good", "ann"), ("q2", "bad", "bob")]
    rows = [{"id": id_, "label": word, "annotator": who} for id_, word, who in said]
    found = result.calibrate("right", rows)
    assert (found.labelled, found.agreement.same) == (1, 1)
    assert found.remarks[0] == "1 label left out: people disagree with each other on it: q2"
    with pytest.raises(limpet.LimpetError, match="q1 is labelled twice by ann"):
        result.calibrate("right", [*rows, {"id": "q1", "label": "bad", "annotator": "ann"}])


def test_ids_that_a_spreadsheet_changed_are_known_by_the_draw(tmp_path):
    rows = [{"id": f"00{n}", "question": f"Say {n}"} for n in range(10)]
    result = evaluate(tmp_path / "run", rows=[*rows, {"id": "=9", "question": "Say 10"}])
    result.sample(11, tmp_path / "humans.csv")
    said = read(label(tmp_path / "humans.csv"))
    for row in said:
        row["id"] = str(int(row["id"])) if row["id"].isdigit() else row["id"].removeprefix("'")
    assert {row["id"] for row in said} == {*map(str, range(10)), "=9"}
    assert result.calibrate("right", said).drawn == 11


def test_a_column_that_was_sorted_alone_is_noticed(tmp_path, result, labels):
    rows = read(labels)
    ids = sorted(row["id"] for row in rows)
    mixed = [{**row, "id": id_} for row, id_ in zip(rows, ids, strict=True)]
    with pytest.raises(limpet.LimpetError, match="the row is for 'q.*', but its drawn column for"):
        result.calibrate("right", mixed)


def test_files_that_excel_saved_are_read(tmp_path, result, labels):
    openpyxl = pytest.importorskip("openpyxl")
    wanted = result.calibrate("right", labels)
    rows = read(labels)
    semicolons = write(tmp_path / "semicolons.csv", rows, delimiter=";")
    semicolons.write_bytes(b"\xef\xbb\xbf" + semicolons.read_bytes().replace(b"\n", b"\r\n"))
    assert result.calibrate("right", semicolons) == wanted
    book = openpyxl.Workbook()
    book.active.append([name.title() for name in rows[0]])
    for row in rows:
        book.active.append([int(cell) if cell.isdigit() else cell for cell in row.values()])
    book.save(tmp_path / "humans.xlsx")
    assert result.calibrate("right", tmp_path / "humans.xlsx") == wanted


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "", "x.csv: is empty"),
        ("x.csv", "id,label\n", "x.csv: there are no rows"),
        ("x.csv", "id,verdict\nq1,good\n", "no column 'label'; the columns are id, verdict"),
        ("x.csv", "name,label\nq1,good\n", "no column 'id'"),
        ("x.csv", "id,label\nq1,good,more\n", "x.csv, line 2: 3 cells, where the header has 2"),
        ("x.csv", 'id,label\n"q1,good\n', "a quote is opened and never closed"),
        ("x.csv", "id,label,label\nq1,good,bad\n", "have the same name"),
        ("x.jsonl", '{"id": "q1"', "x.jsonl, line 1"),
        ("x.xlsx", "not a workbook", "cannot be read as XLSX"),
        ("x.txt", "id,label\n", "unsupported file type"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(tmp_path, result, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(limpet.LimpetError, match=message):
        result.calibrate("right", tmp_path / name)


def test_a_file_that_is_missing_and_a_score_that_is_missing(tmp_path, result, labels):
    with pytest.raises(limpet.LimpetError, match="file not found"):
        result.calibrate("right", tmp_path / "human.csv")
    with pytest.raises(limpet.LimpetError, match="no score is called 'wright'; known: right"):
        result.calibrate("wright", labels)
    with pytest.raises(limpet.LimpetError, match="there are no labels in this run"):
        result.calibrate("right")


def test_another_column_can_hold_the_labels(tmp_path, result):
    file = write(tmp_path / "own.csv", [{"id": "q1", "verdict": "good"}])
    assert result.calibrate("right", file, label_column="Verdict").labelled == 1


def test_a_run_without_scores_has_nothing_to_compare(tmp_path):
    def fails(output):
        raise limpet.PermanentError("no")

    result = evaluate(tmp_path / "run", evaluator(fails), fail_fast=False)
    with pytest.raises(limpet.LimpetError, match="right has no score yet"):
        result.calibrate("right", own(tmp_path, ("q1", "good")))


# ---- the live page's labels ---------------------------------------------------------------------


def test_labels_of_the_live_page_are_read_and_the_last_one_counts(tmp_path, result):
    result.sample(20, tmp_path / "humans.csv", seed=1)
    said = []
    for row in read(tmp_path / "humans.csv"):
        one = {"id": row["id"], "trial": 0, "evaluator": "right", "note": "", "person": "ann"}
        said += [{**one, "label": "bad"}, {**one, "label": people(row["output"])}]
        said.append({**one, "evaluator": "other", "label": "strange"})
    lines = [json.dumps(one) for one in said]
    torn = '{"id": "q1", "la'
    (tmp_path / "run" / "labels.jsonl").write_text("\n".join([*lines, torn]))
    found = result.calibrate("right")
    wanted = result.calibrate("right", label(tmp_path / "humans.csv"))
    assert (found.agreement, found.corrected) == (wanted.agreement, wanted.corrected)
    (remark,) = found.remarks
    assert remark.startswith("1 line in labels.jsonl cannot be read: ")
    assert remark.endswith("labels.jsonl, line 61")
