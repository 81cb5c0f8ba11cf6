"""`limpet sample` and `limpet calibrate`: a judge held against people."""

import csv
import io
import shutil
from pathlib import Path

import pytest

from tests.numbers import references as ref
from tests.numbers.command import limpet, refused
from tests.numbers.reading import MISSING, about, anywhere, number, score, summary
from tests.numbers.runs import make, named

COUNT = 120
JUDGED = "1" * 90 + "0" * 30  # what the judge said; q0 to q89 pass


@pytest.fixture(scope="module")
def judged(shelf):
    return shelf(JUDGED)


@pytest.fixture
def run(judged, tmp_path):
    """A run of one's own: a draw is recorded in it."""
    shutil.copytree(judged, tmp_path / "run")
    return tmp_path / "run"


def sample(run, count=40, name="humans.csv", *more):
    file = run.parent / name
    done = limpet("sample", run, "--n", count, "-o", file, *more)
    assert done.code == 0, done.said
    return file


def read(file):
    return list(csv.DictReader(io.StringIO(Path(file).read_text(encoding="utf-8-sig"))))


def empty_column(table):
    """Return the name of the column that people fill in: the last one that is empty everywhere."""
    return [name for name in table[0] if all(not row[name] for row in table)][-1]


def label(file, say, **how):
    """Fill in what people say of an item, by its number; None leaves the cell empty."""
    table = read(file)
    column = empty_column(table)
    for row in table:
        said = say(int(row["id"].lstrip("'").lstrip("q")))
        row[column] = "" if said is None else said
    write(file, table, **how)
    return table


def write(file, table, *, encoding="utf-8", **form):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table[0]), **form)
    writer.writeheader()
    writer.writerows(table)
    Path(file).write_bytes(text.getvalue().encode(encoding))


def calibrate(run, file, *more):
    done = limpet("calibrate", run, "correct", "--labels", file, "--json", *more)
    assert done.code == 0, done.said
    return done.json


def truth(n):
    """What people find: the judge is too kind to every third."""
    return "0" if n % 3 == 0 or n >= 90 else "1"


# ---- the sample ---------------------------------------------------------------------------------


def test_a_sample_has_question_and_answer_and_not_what_the_judge_said(run):
    table = read(sample(run))
    assert len(table) == 40
    assert len({row["id"] for row in table}) == 40
    assert empty_column(table)
    assert "correct" not in {name.split(".")[0] for name in table[0]} - {empty_column(table)}
    one = table[0]
    assert any("Question" in value for value in one.values())
    assert any("is True" in value or "is False" in value for value in one.values())


def test_a_sample_is_drawn_at_random_over_the_whole_run(run):
    numbers = [int(row["id"][1:]) for row in read(sample(run))]
    assert numbers != list(range(40))
    assert min(numbers) < 30
    assert max(numbers) > 90


def test_an_item_without_an_answer_is_not_for_people_to_label(tmp_path):
    make(tmp_path / "run", "1" * 30 + "f" * 10)
    table = read(sample(tmp_path / "run", 40))
    assert len(table) == 30
    assert not {row["id"] for row in table} & {f"q{n}" for n in range(30, 40)}


def test_a_sample_of_nothing_is_refused(run):
    for count in ("0", "-3", "many"):
        done = limpet("sample", run, "--n", count, "-o", run.parent / "humans.csv")
        assert done.code == 2, done.said
        assert "unknown command" not in done.err
        assert count in done.err


def test_a_run_without_an_answer_has_nothing_to_sample(shelf, tmp_path):
    shutil.copytree(shelf("fffff"), tmp_path / "run")
    refused(limpet("sample", tmp_path / "run", "--n", 5, "-o", tmp_path / "humans.csv"), "answer")


def test_what_people_have_filled_in_is_not_overwritten(run):
    file = sample(run)
    label(file, truth)
    before = file.read_bytes()
    refused(limpet("sample", run, "--n", 40, "-o", file), "humans.csv")
    assert file.read_bytes() == before


FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", '=HYPERLINK("http://evil.example")']


@pytest.fixture
def formulas(tmp_path):
    """A run whose ids, questions and answers are formulas."""
    dataset = [{"id": f"{text} {n}", "question": text} for n, text in enumerate(FORMULAS)]
    make(tmp_path / "run", "111000", dataset=dataset, say=lambda id_, _: id_)
    return tmp_path / "run"


def test_no_cell_of_a_sample_is_a_formula(formulas):
    for row in read(sample(formulas, 6)):
        for value in row.values():
            assert not value.startswith(("=", "+", "-", "@", "\t", "\r")), value


def test_ids_that_look_like_formulas_come_back(formulas):
    file = sample(formulas, 6)
    table = read(file)
    column = empty_column(table)
    for row in table:
        row[column] = "1" if row["id"].rstrip()[-1] in "012" else "0"
    write(file, table)
    assert number(anywhere(calibrate(formulas, file), "agreement")) == about(1.0)


@pytest.mark.slow  # unit/run/test_sample and test_calibrate have it
def test_a_sample_in_excel_has_the_same_and_comes_back(run):
    openpyxl = pytest.importorskip("openpyxl")
    file = sample(run, 40, "humans.xlsx")
    book = openpyxl.load_workbook(file)
    cells = list(book.active.iter_rows())
    assert len(cells) == 41
    assert all(cell.data_type != "f" for row in cells for cell in row)
    header = [cell.value for cell in cells[0]]
    empty = next(
        n
        for n in reversed(range(len(header)))
        if all(row[n].value in (None, "") for row in cells[1:])
    )
    for row in cells[1:]:
        row[empty].value = 1 if int(row[header.index("id")].value[1:]) < 90 else 0
    book.save(file)
    assert number(anywhere(calibrate(run, file), "agreement")) == about(1.0)


# ---- agreement ----------------------------------------------------------------------------------


def test_a_judge_that_people_agree_with_needs_no_correction(run):
    file = sample(run)
    label(file, lambda n: "1" if n < 90 else "0")
    found = calibrate(run, file)
    assert number(anywhere(found, "agreement")) == about(1.0)
    assert number(anywhere(found, "kappa")) == about(1.0)
    assert number(anywhere(found, "corrected")) == about(0.75, 0.01)


@pytest.mark.slow  # unit/run/test_calibrate has it
def test_agreement_and_kappa_are_those_of_the_labels(run):
    file = sample(run, 60)
    table = label(file, truth)
    people = [truth(int(row["id"][1:])) for row in table]
    judge = ["1" if int(row["id"][1:]) < 90 else "0" for row in table]
    found = calibrate(run, file)
    agreed = sum(a == b for a, b in zip(people, judge, strict=True)) / 60
    assert number(anywhere(found, "agreement")) == about(agreed)
    kappa = anywhere(found, "kappa")
    assert number(kappa) == about(ref.kappa(judge, people))
    assert kappa["low"] < number(kappa) < kappa["high"]
    confusion = str(anywhere(found, "confusion"))
    both = sum(a == b == "1" for a, b in zip(people, judge, strict=True))
    assert str(both) in confusion


@pytest.mark.slow  # unit/run/test_calibrate has it
def test_a_judge_that_is_too_kind_is_corrected_by_people(run):
    file = sample(run, 60, "humans.csv", "--seed", 1)  # one draw in twenty is not covered
    table = label(file, truth)
    pairs = [(float(int(row["id"][1:]) < 90), float(truth(int(row["id"][1:])))) for row in table]
    corrected = anywhere(calibrate(run, file), "corrected")
    assert number(corrected) == about(ref.ppi([1.0] * 90 + [0.0] * 30, pairs), 0.02)
    assert corrected["low"] < 0.5 < corrected["high"]  # 60 of 120 are right
    assert corrected["high"] < 0.75  # and not what the judge said


@pytest.mark.slow  # unit/run/test_calibrate has it
def test_where_they_disagree_is_shown(run):
    file = sample(run, 60)
    table = label(file, truth)
    wrong = [row["id"] for row in table if int(row["id"][1:]) < 90 and int(row["id"][1:]) % 3 == 0]
    said = limpet("calibrate", run, "correct", "--labels", file).out
    assert any(id_ in said for id_ in wrong)
    assert "kappa" in said.lower()


def test_the_summary_then_shows_raw_and_corrected(run):
    file = sample(run)
    label(file, truth)
    calibrate(run, file)
    text = limpet("status", run).out
    assert "corrected" in text
    assert "0.75" in text
    assert anywhere(score(run), "corrected", "calibration") is not MISSING or "corrected" in text


@pytest.mark.slow  # unit/run/test_calibrate has it
def test_an_edited_judge_voids_the_calibration(tmp_path):
    make(tmp_path / "run", JUDGED)
    file = sample(tmp_path / "run")
    label(file, truth)
    calibrate(tmp_path / "run", file)
    assert "corrected" in limpet("status", tmp_path / "run").out
    make(tmp_path / "run", JUDGED, evaluators=[named(version="2")])
    text = limpet("status", tmp_path / "run").out
    assert "0.75 corrected" not in text
    assert anywhere(summary(tmp_path / "run"), "corrected") in (MISSING, None)


@pytest.mark.slow  # unit/run/test_calibrate has it
def test_a_label_of_an_answer_that_was_made_again_does_not_count(tmp_path):
    make(tmp_path / "run", "1" * 40)
    file = sample(tmp_path / "run", 40)
    label(file, lambda n: "1")
    make(tmp_path / "run", "0" * 40, redo=True)  # other answers; nobody has seen them
    done = limpet("calibrate", tmp_path / "run", "correct", "--labels", file)
    refused(done, "answer")


@pytest.mark.slow  # unit/run/test_calibrate has it
def test_items_that_people_chose_themselves_give_agreement_alone(run):
    file = run.parent / "chosen.csv"
    sample(run, 1, "draw.csv")
    columns = read(run.parent / "draw.csv")[0]
    column = empty_column(read(run.parent / "draw.csv"))
    write(file, [{**dict.fromkeys(columns, ""), "id": f"q{n}", column: "0"} for n in range(60, 90)])
    found = calibrate(run, file)
    assert number(anywhere(found, "agreement")) is not MISSING
    assert anywhere(found, "corrected") in (MISSING, None)
    said = limpet("calibrate", run, "correct", "--labels", file).said
    assert "sample" in said or "draw" in said


@pytest.mark.slow  # unit/run/test_calibrate has it
def test_items_added_to_a_draw_do_not_enter_the_correction(run):
    file = sample(run, 40)
    table = label(file, truth)
    plain = anywhere(calibrate(run, file), "corrected")
    drawn = {row["id"] for row in table}
    column = next(name for name in table[0] if table[0][name] in {"0", "1"})
    more = [
        {**dict.fromkeys(table[0], ""), "id": f"q{n}", column: "0"}
        for n in range(90) if f"q{n}" not in drawn
    ]  # fmt: skip
    write(file, table + more)
    assert number(anywhere(calibrate(run, file), "corrected")) == about(number(plain))


# ---- what people send back ----------------------------------------------------------------------

FORMS = {
    "yes and no": ({"1": "yes", "0": "no"}, {}),
    "as Excel writes truth": ({"1": "TRUE", "0": "FALSE"}, {}),
    "with a byte order mark": ({"1": "1", "0": "0"}, {"encoding": "utf-8-sig"}),
    "with a point": ({"1": "1.0", "0": "0.0"}, {}),
    "with spaces": ({"1": " 1 ", "0": " 0"}, {}),
}


@pytest.mark.slow  # unit/run/test_calibrate has it
@pytest.mark.parametrize(("words", "form"), FORMS.values(), ids=FORMS)
def test_labels_are_understood(run, words, form):
    file = sample(run)
    label(file, lambda n: words["1" if n < 90 else "0"], **form)
    assert number(anywhere(calibrate(run, file), "agreement")) == about(1.0)


def test_cells_that_were_left_empty_are_no_labels(run):
    file = sample(run)
    table = label(file, lambda n: None if n % 2 else "1" if n < 90 else "0")
    found = calibrate(run, file)
    labelled = sum(int(row["id"][1:]) % 2 == 0 for row in table)
    assert anywhere(found, "n", "labelled") == labelled
    assert number(anywhere(found, "agreement")) == about(1.0)


def test_labels_that_are_all_the_same_have_no_kappa_and_no_nan(shelf, tmp_path):
    shutil.copytree(shelf("1" * 40), tmp_path / "run")
    file = sample(tmp_path / "run", 20)
    label(file, lambda n: "1")
    found = calibrate(tmp_path / "run", file)
    kappa = anywhere(found, "kappa")
    assert kappa in (MISSING, None) or number(kappa) is None
    assert number(anywhere(found, "agreement")) == about(1.0)


def spoilt(run, edit):
    file = sample(run)
    table = label(file, truth)
    write(file, edit(table))
    return file


BAD_FILES = {
    "a label that is not one": (lambda table: [{name: "yess" if value in {"0", "1"} else value
                                                for name, value in table[0].items()}, *table[1:]],
                                "yess"),
    "no ids": (lambda table: [{name: value for name, value in row.items() if name != "id"}
                              for row in table], "id"),
    "an item that the run does not have": (lambda table: [*table, {**table[0], "id": "q9999"}],
                                           "q9999"),
    "one item twice, with two labels": (lambda table: [
        *table, {name: {"1": "0", "0": "1"}.get(value, value) for name, value in table[0].items()}],
        "twice"),
    "no label at all": (lambda table: [{name: "" if value in {"0", "1"} else value
                                        for name, value in row.items()} for row in table], "label"),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "word"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_cannot_be_right_is_refused_with_its_place(run, edit, word):
    file = spoilt(run, edit)
    refused(limpet("calibrate", run, "correct", "--labels", file), word)


def test_a_file_that_is_not_there_and_an_evaluator_that_is_not_there(run):
    file = sample(run)
    label(file, truth)
    refused(limpet("calibrate", run, "corect", "--labels", file), "corect")
    refused(limpet("calibrate", run, "correct", "--labels", run.parent / "none.csv"), "none.csv")
