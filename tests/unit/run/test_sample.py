"""`result.sample`: answers drawn at random for people to label."""

import csv
import json
import threading
from collections import Counter

import pytest

import limpet
from limpet.journal.files import replace_file
from limpet.journal.layout import Layout
from limpet.journal.lock import Lock
from limpet.run.calibrating.sampling import PeopleFile
from limpet.run.housekeeping import remove_run

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(12)]


def last_word(question):
    return question.split()[-1]


@limpet.evaluator
def right(output):
    return limpet.Score(output != "3", label="secret verdict", explanation="a secret reason")


def evaluate(run, rows=ROWS, workflow=last_word, **more):
    return limpet.evaluate(rows, workflow, [right], run=run, show=False, version="1", **more)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draws(run):
    return PeopleFile.load(Layout(run)).draws


def test_a_sample_has_what_people_need_and_not_the_verdict(tmp_path):
    result = evaluate(tmp_path / "run")
    drawn = result.sample(5, tmp_path / "humans.csv")
    assert (drawn.drawn, drawn.of, drawn.before) == (5, 12, 0)
    rows = rows_of(tmp_path / "humans.csv")
    names = ["id", "trial", "input", "expected", "output", "note", "label", "drawn"]
    assert [list(row) for row in rows] == [names] * 5
    assert len({row["id"] for row in rows}) == 5
    for row in rows:
        number = row["id"][1:]
        assert (row["trial"], row["label"], row["note"]) == ("0", "", "")
        assert (row["input"], row["expected"], row["output"]) == (f"Say {number}", number, number)
    assert "secret" not in (tmp_path / "humans.csv").read_text()


def test_without_expected_answers_the_column_is_left_out(tmp_path):
    rows = [{"id": "a", "question": "Say 1"}]
    evaluate(tmp_path / "run", rows).sample(1, tmp_path / "humans.csv")
    assert "expected" not in rows_of(tmp_path / "humans.csv")[0]


def test_the_draw_is_recorded_with_what_people_saw(tmp_path):
    result = evaluate(tmp_path / "run")
    seed = result.sample(5, tmp_path / "humans.csv").seed
    (draw,) = draws(tmp_path / "run")
    assert [cell.id for cell in draw.cells] == [
        row["id"] for row in rows_of(tmp_path / "humans.csv")
    ]
    assert (draw.of, draw.seed) == (12, seed)
    assert len({cell.output for cell in draw.cells}) == 5
    assert not [path for path in (tmp_path / "run").iterdir() if path.suffix == ".tmp"]


def test_the_same_seed_draws_the_same_and_another_does_not(tmp_path):
    files = []
    for number, seed in enumerate((7, 7, 8)):
        evaluate(tmp_path / f"run{number}").sample(5, tmp_path / f"{number}.csv", seed=seed)
        files.append((tmp_path / f"{number}.csv").read_text())
    assert files[0] == files[1] != files[2]


@pytest.mark.slow
def test_every_item_is_as_likely_as_any_other_in_every_place(tmp_path):
    result = evaluate(tmp_path / "run")
    times, first = Counter(), Counter()
    for seed in range(600):
        (tmp_path / "run" / "people.json").unlink(missing_ok=True)
        result.sample(3, tmp_path / "humans.csv", seed=seed, force=True)
        ids = [cell.id for cell in draws(tmp_path / "run")[0].cells]
        times.update(ids)
        first.update(ids[:1])
    # 150 expected with a standard deviation of 10.6; 50 with 6.8.
    assert len(times) == len(first) == 12
    assert all(abs(number - 150) < 45 for number in times.values())
    assert all(abs(number - 50) < 30 for number in first.values())


def test_of_several_trials_one_of_each_item_is_drawn(tmp_path):
    result = evaluate(tmp_path / "run", trials=4)
    drawn = result.sample(48, tmp_path / "humans.csv", seed=3)
    assert (drawn.drawn, drawn.of) == (12, 48)
    rows = rows_of(tmp_path / "humans.csv")
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in ROWS)
    assert len({row["trial"] for row in rows}) > 1


def test_a_second_draw_from_the_same_answers_is_of_other_items(tmp_path):
    result = evaluate(tmp_path / "run")
    result.sample(5, tmp_path / "first.csv")
    again = limpet.load_run(tmp_path / "run").sample(20, tmp_path / "second.csv")
    assert (again.drawn, again.before) == (7, 5)
    ids = [row["id"] for name in ("first", "second") for row in rows_of(tmp_path / f"{name}.csv")]
    assert sorted(ids) == sorted(row["id"] for row in ROWS)
    with pytest.raises(limpet.LimpetError, match="all 12 items were drawn before"):
        result.sample(1, tmp_path / "third.csv")
    assert not (tmp_path / "third.csv").exists()
    assert len(draws(tmp_path / "run")) == 2


def test_once_there_are_more_answers_they_are_all_drawn_from_again(tmp_path):
    evaluate(tmp_path / "run", dataset_limit(5)).sample(5, tmp_path / "first.csv")
    drawn = evaluate(tmp_path / "run").sample(12, tmp_path / "second.csv")
    assert (drawn.drawn, drawn.of, drawn.before) == (12, 12, 0)


def dataset_limit(number):
    return limpet.Dataset(ROWS, limit=number)


def test_only_answers_are_drawn(tmp_path):
    def some_fail(question):
        if int(last_word(question)) % 2:
            raise limpet.PermanentError("no")
        return last_word(question)

    result = evaluate(tmp_path / "run", workflow=some_fail)
    drawn = result.sample(12, tmp_path / "humans.csv")
    assert (drawn.drawn, drawn.of) == (6, 6)
    assert all(int(row["output"]) % 2 == 0 for row in rows_of(tmp_path / "humans.csv"))


def test_without_an_answer_there_is_nothing_to_draw(tmp_path):
    def fails(question):
        raise limpet.PermanentError("no")

    result = evaluate(tmp_path / "run", workflow=fails, fail_fast=False)
    with pytest.raises(limpet.LimpetError, match="there is no answer to draw yet"):
        result.sample(1, tmp_path / "humans.csv")
    assert not (tmp_path / "humans.csv").exists()
    assert draws(tmp_path / "run") == []


def test_a_running_run_can_be_drawn_from(tmp_path):
    run, on_disk, go_on = tmp_path / "run", threading.Semaphore(0), threading.Event()

    def workflow(question):
        if question == "Say 2":
            assert go_on.wait(60)
        return last_word(question)

    options = {"workflow": workflow, "pace": 1, "watcher": lambda _: on_disk.release()}
    thread = threading.Thread(target=evaluate, args=(run,), kwargs=options)
    thread.start()
    try:
        assert on_disk.acquire(timeout=60)
        assert on_disk.acquire(timeout=60)
        loaded = limpet.load_run(run)
        assert loaded.state == "running"
        assert loaded.sample(12, tmp_path / "humans.csv").drawn >= 2
    finally:
        go_on.set()
        thread.join()
    assert limpet.load_run(run).summary["workflow"]["completed"] == 12
    assert len(draws(run)) == 1


def test_what_a_spreadsheet_would_run_is_made_harmless(tmp_path):
    rows = [{"id": "=1+1", "question": '=HYPERLINK("http://x")'}]
    result = evaluate(tmp_path / "run", rows, workflow=lambda question: "@SUM(1)\nx")
    result.sample(1, tmp_path / "humans.csv")
    (row,) = rows_of(tmp_path / "humans.csv")
    assert (row["id"], row["input"]) == ("'=1+1", '\'=HYPERLINK("http://x")')
    assert row["output"] == "'@SUM(1)\nx"


def test_an_excel_file_has_the_same_rows(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    result = evaluate(tmp_path / "run")
    result.sample(5, tmp_path / "humans.xlsx", seed=1)
    header, *rows = openpyxl.load_workbook(tmp_path / "humans.xlsx").active.iter_rows()
    assert [cell.value for cell in header] == [
        "id", "trial", "input", "expected", "output", "note", "label", "drawn",
    ]  # fmt: skip
    assert [row[0].value for row in rows] == [cell.id for cell in draws(tmp_path / "run")[0].cells]


def test_a_file_that_exists_is_never_overwritten_unasked(tmp_path):
    result = evaluate(tmp_path / "run")
    labels = tmp_path / "humans.csv"
    labels.write_text("hours of work")
    with pytest.raises(limpet.LimpetError, match="already exists, and may hold people's labels"):
        result.sample(5, labels)
    assert labels.read_text() == "hours of work"
    assert draws(tmp_path / "run") == []
    result.sample(5, labels, force=True)
    assert len(rows_of(labels)) == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("humans.txt", "must end in .csv or .xlsx"),
        ("humans", "must end in .csv or .xlsx"),
        ("missing/humans.csv", "this directory does not exist"),
        ("folder.csv", "is a directory"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_anything_is_drawn(tmp_path, name, message):
    result = evaluate(tmp_path / "run")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(limpet.LimpetError, match=message):
        result.sample(5, tmp_path / name)
    assert draws(tmp_path / "run") == []


@pytest.mark.parametrize(
    ("n", "more", "error"),
    [
        (0, {}, ValueError),
        (-1, {}, ValueError),
        (True, {}, TypeError),
        (2.5, {}, TypeError),
        (1, {"seed": -1}, ValueError),
        (1, {"seed": "x"}, TypeError),
    ],
)
def test_a_number_must_be_one(tmp_path, n, more, error):
    with pytest.raises(error):
        evaluate(tmp_path / "run").sample(n, tmp_path / "humans.csv", **more)


def test_a_run_that_was_not_kept_cannot_remember_a_draw(tmp_path):
    result = evaluate(None, save=False)
    with pytest.raises(limpet.LimpetError, match="was not saved"):
        result.sample(1, tmp_path / "humans.csv")


def test_a_run_whose_lock_cannot_be_taken_says_so_and_leaves_no_file(tmp_path):
    result = evaluate(tmp_path / "run")
    (tmp_path / "run" / "people.lock").mkdir()
    with pytest.raises(limpet.errors.JournalError, match=r"people\.lock"):
        result.sample(1, tmp_path / "humans.csv")
    assert not (tmp_path / "humans.csv").exists()


def test_if_the_draw_cannot_be_recorded_nobody_gets_a_file(tmp_path, monkeypatch):
    result = evaluate(tmp_path / "run")

    def full(path, content):
        if path.name == "people.json":
            raise OSError(28, "No space left on device")
        replace_file(path, content)

    monkeypatch.setattr("limpet.run.calibrating.sampling.replace_file", full)
    with pytest.raises(limpet.errors.DiskFullError, match="people.json: cannot be written: No"):
        result.sample(1, tmp_path / "humans.csv")
    assert not (tmp_path / "humans.csv").exists()


def test_two_draws_at_the_same_time_do_not_lose_each_other(tmp_path):
    result = evaluate(tmp_path / "run")
    lock = Lock(Layout(tmp_path / "run").people_lock)
    try:
        with pytest.raises(limpet.errors.RunLockedError, match="another process is changing it"):
            result.sample(1, tmp_path / "humans.csv")
    finally:
        lock.release()
    assert result.sample(1, tmp_path / "humans.csv").drawn == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1, "draws": 3}'])
def test_a_damaged_file_of_draws_is_said_and_never_replaced(tmp_path, text):
    result = evaluate(tmp_path / "run")
    file = tmp_path / "run" / "people.json"
    file.write_text(text)
    with pytest.raises(limpet.errors.JournalError, match=r"people\.json"):
        result.sample(1, tmp_path / "humans.csv")
    assert file.read_text() == text
    assert limpet.load_run(tmp_path / "run").summary["n"] == 12  # its results can be read


def test_without_items_jsonl_a_run_can_be_drawn_from(tmp_path):
    evaluate(tmp_path / "run", trials=2)
    (tmp_path / "run" / "items.jsonl").unlink()
    limpet.load_run(tmp_path / "run").sample(20, tmp_path / "humans.csv")
    assert sorted(row["id"] for row in rows_of(tmp_path / "humans.csv")) == sorted(
        row["id"] for row in ROWS
    )


def test_a_map_has_no_judge(tmp_path):
    limpet.map(last_word, ["Say 1"], journal=tmp_path / "map.jsonl")
    with pytest.raises(limpet.LimpetError, match="is a map"):
        limpet.load_run(tmp_path / "map.jsonl").sample(1, tmp_path / "humans.csv")


def test_what_people_said_is_removed_with_the_run(tmp_path):
    evaluate(tmp_path / "run").sample(1, tmp_path / "humans.csv")
    remove_run(Layout(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_the_file_of_draws_is_plain_json(tmp_path):
    evaluate(tmp_path / "run").sample(1, tmp_path / "humans.csv", seed=5)
    known = json.loads((tmp_path / "run" / "people.json").read_text())
    assert known["draws"][0]["seed"] == 5


@pytest.mark.parametrize("flipped", [b'"q7"', b'"seed": 35'])
def test_a_draw_that_was_damaged_is_not_read_as_another(tmp_path, flipped):
    evaluate(tmp_path / "run").sample(12, tmp_path / "humans.csv", seed=35)
    path = tmp_path / "run" / "people.json"
    content = path.read_bytes()
    assert flipped in content
    path.write_bytes(
        content.replace(flipped, flipped[:-2] + bytes([flipped[-2] ^ 1]) + flipped[-1:])
    )
    with pytest.raises(limpet.errors.JournalError, match="is damaged, or was edited by hand"):
        draws(tmp_path / "run")


def test_a_draw_of_an_earlier_version_without_a_crc_is_read(tmp_path):
    evaluate(tmp_path / "run").sample(5, tmp_path / "humans.csv")
    path, drawn = tmp_path / "run" / "people.json", draws(tmp_path / "run")
    known = json.loads(path.read_bytes())
    del known["crc"]
    path.write_text(json.dumps(known))
    assert draws(tmp_path / "run") == drawn
