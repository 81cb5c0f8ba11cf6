"""`limpet sample` and `limpet calibrate`, in this process."""

import csv
import json

import click
import pytest

import limpet
from limpet.cli.commands import cli
from limpet.cli.error_exit import report_error
from limpet.report.terminal import stderr_console, stdout_console

ROWS = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(30)]


@limpet.evaluator
def right(output):
    is_good = int(output) % 3 > 0
    return limpet.Score(is_good, label="good" if is_good else "bad", explanation="so it \x1b[31mis")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workflow = lambda question: question.split()[-1]
    limpet.evaluate(ROWS, workflow, [right], run="runs/bot", show=False, version="1")
    return tmp_path


def command(*words):
    stderr_console.cache_clear()  # a console is of the stream that it was made for
    stdout_console.cache_clear()
    try:
        return cli([*words], standalone_mode=False)
    except (limpet.LimpetError, click.ClickException) as error:
        return report_error(error)


def label(path, say):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = say(int(row["output"]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_a_sample_is_drawn_labelled_and_compared(run, capsys):
    assert command("sample", "runs/bot", "--n", "30", "-o", "humans.csv", "--seed", "4") == 0
    said = capsys.readouterr().err
    assert "wrote humans.csv: 30 of 30 answers, seed 4" in said
    assert "then: limpet calibrate runs/bot EVALUATOR --labels humans.csv\n" in said
    assert said.endswith("or label them in the browser: limpet view runs/bot\n")
    label(run / "humans.csv", lambda n: "good" if n % 3 or n == 0 else "bad")
    assert command("calibrate", "runs/bot", "right", "--labels", "humans.csv") == 0
    shown = capsys.readouterr()
    assert "right against people: 30 labels\n" in shown.out
    assert "agreement 96.7% (83.3%–99.4%), 29 of 30\n" in shown.out
    assert "they disagree on 1 answer\n" in shown.out
    assert "q0" in shown.out
    assert "\x1b[31m" not in shown.out
    assert "mean by right: 0.667, of 30 items\n" in shown.out
    assert "corrected by people: 0.70" in shown.out
    assert shown.err.splitlines() == [
        "see one in full: limpet show runs/bot --item ID",
        "the labels and the corrected mean are kept in runs/bot",
    ]


def test_json_has_all_of_it(run, capsys):
    command("sample", "--n", "20", "--output", "humans.csv")
    label(run / "humans.csv", lambda n: n % 2)
    capsys.readouterr()
    assert command("calibrate", "runs/bot", "right", "--labels", "humans.csv", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["score"], found["labelled"], found["drawn"]) == ("right", 20, 20)
    assert found["corrected"]["n_labelled"] == found["agreement"]["n"] == 20
    assert found["disagreements"][0].keys() == {
        "id", "trial", "input", "output", "judge", "reason", "people",
    }  # fmt: skip


def test_more_than_there_are_is_said(run, capsys):
    assert command("sample", "runs/bot", "-o", "humans.csv") == 0
    assert "no more to draw: 30 instead of 200" in capsys.readouterr().err


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sample", "runs/bot"], "Missing option '-o' / '--output'"),
        (["sample", "runs/bot", "--n", "0", "-o", "x.csv"], "must be 1 or more"),
        (["sample", "runs/bot", "--n", "2.5", "-o", "x.csv"], "not a valid integer"),
        (["sample", "runs/bot", "-o", "x.pdf"], "x.pdf: must end in .csv or .xlsx"),
        (["sample", "runs/bot", "-o", "here.csv"], "here.csv: already exists"),
        (["sample", "runs/bit", "-o", "x.csv"], "this run does not exist"),
        (["calibrate", "runs/bot"], "Missing argument 'EVALUATOR'"),
        (["calibrate", "runs/bot", "right"], "there are no labels in this run"),
        (["calibrate", "runs/bot", "rigth", "--labels", "here.csv"], "no score is called 'rigth'"),
        (["calibrate", "runs/bot", "right", "--labels", "gone.csv"], "gone.csv: file not found"),
        (["calibrate", "runs/bot", "right", "--labels", "here.csv"], "'gut' is not a label"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(run, capsys, words, message):
    (run / "here.csv").write_text("id,label\nq1,gut\n")
    assert command(*words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
