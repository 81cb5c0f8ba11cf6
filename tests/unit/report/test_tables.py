"""What tables keep on narrow terminals and in pipes."""

import io

import pytest
from rich.console import Console

import limpet
from limpet.report.items import items_table, score_names
from limpet.report.tables import Indented, put

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
    names = score_names(result.items, ["judge"])
    text = "\n".join(drawn(items_table(result.items, names, trials=False, reasons=True), width))
    assert "so so" in text
    assert "{}" not in text


def test_in_a_pipe_no_text_is_cut_even_if_columns_is_set(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    put(Indented("word " * 40 + "end"))
    assert capsys.readouterr().out.rstrip().endswith("end")
