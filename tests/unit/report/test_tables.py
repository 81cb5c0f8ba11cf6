"""What tables keep on narrow terminals and in pipes."""

import io

import pytest
from rich.console import Console

import limpet
from limpet.report.items import items_table, score_names
from limpet.report.runs import RunsTable, VariantRow, VariantsTable
from limpet.report.summary import summary_table
from limpet.report.tables import Indented, put
from limpet.run.reading import RunReader
from limpet.run.reading.description import Description
from limpet.run.watcher import Snapshot, StepSnapshot

ROWS = [{"id": f"q{n}", "question": f"Question {n}", "answer": f"Answer {n}"} for n in range(3)]


def drawn(renderable, width=80):
    text = io.StringIO()
    Console(file=text, width=width, markup=False, emoji=False, highlight=False).print(renderable)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def judge(output):
    return {"quality": limpet.Score(0.5, explanation="so so"), "tone": "kind", "helpful": True}


@pytest.mark.parametrize("width", [60, 200])
def test_scores_without_a_reason_show_none(tmp_path, width):
    result = limpet.evaluate(ROWS, lambda question: question, [judge], run=tmp_path, show=False)
    with RunReader(result.run) as reader:
        items = list(reader.items())
    names = score_names(items, ["judge"])
    text = "\n".join(drawn(items_table(items, names, trials=False, reasons=True), width))
    assert "quality: so so" in text
    assert "{}" not in text
    assert "None" not in text


def test_in_a_pipe_no_text_is_cut_even_if_columns_is_set(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    put(Indented("word " * 40 + "end"))
    assert capsys.readouterr().out.rstrip().endswith("end")


SUMMARY = {
    "n": 20,
    "workflow": {"completed": 18, "failed": {"transient": 2}, "errors": {}, "not_run": 0},
    "scores": {
        "correct": {"evaluator": "correct", "completed": 18, "mean": 0.5},
        "judge.quality": {"evaluator": "judge", "completed": 18, "mean": 0.75},
        "judge.tone": {
            "evaluator": "judge", "completed": 18, "mean": None, "labels": {"kind": 12, "rude": 6},
        },
        "mood": {
            "evaluator": "mood", "completed": 18, "mean": None, "labels": {"good": 17, "bad": 1},
        },
    },
    "evaluators": {
        name: {"completed": 18, "failed": {}, "not_run": 2} for name in ("correct", "judge", "mood")
    },
}  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_summary_has_the_counts_of_labels(width):
    lines = drawn(summary_table(SUMMARY), width)
    assert ["quality", "0.75"] in [line.split() for line in lines]
    assert ["tone", "12", "kind,", "6", "rude"] in [line.split() for line in lines]
    text = " ".join(" ".join(lines).split())
    assert text.endswith("mood 18/18 2 without an answer · 17 good, 1 bad")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_of_a_matrix_has_whole_values_and_the_counts_of_labels(width):
    rows = [VariantRow([model, "short.txt"], SUMMARY) for model in ("small", "gpt-4.1-mini")]
    text = "\n".join(drawn(VariantsTable(["model", "prompt"], rows), width))
    assert "…" not in text
    for word in ("model", "prompt", "gpt-4.1-mini", "short.txt", "judge.tone", "12 kind, 6 rude"):
        assert word in text
    assert "17 good, 1 bad" in text


def test_a_result_says_what_labels_it_has(tmp_path):
    result = limpet.evaluate(ROWS, lambda question: question, [judge], run=tmp_path, show=False)
    assert repr(result) == (
        "<EvaluationResult: 3 of 3 completed; "
        "judge.quality 0.500 (0.28–0.72), judge.helpful 1.000 (0.44–1.00), judge.tone 3 kind>"
    )
    assert "3 kind" in result._repr_html_()


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize(
    "name", ["runs/bot", "runs/bot/model=gpt-4.1-mini,prompt=instructions.txt"]
)
def test_a_list_of_runs_cuts_neither_names_nor_means_nor_tags(name, width):
    scores = {f"metric_{n}": {"mean": n / 10} for n in range(8)}
    scores["mood"] = {"mean": None, "labels": {"good": 17, "bad": 1}}
    far = Snapshot((StepSnapshot("workflow", 20, done=18, failed={"error": 2}),), 1.0)
    lines = [
        Description(
            name, "finished", progress=far, summary={"scores": scores}, tags=["best", "v1"]
        ),
        Description("runs/torn", "unreadable", why="run.json: this is a directory"),
    ]
    drawn_lines = drawn(RunsTable(lines), width)
    text = " ".join(" ".join(drawn_lines).split())
    assert all(len(line) <= width for line in drawn_lines)
    assert "…" not in text
    for word in (name, "18/20", "best, v1", "metric_7 0.7", "mood (17 good, 1 bad)", "a directory"):
        assert word in text
