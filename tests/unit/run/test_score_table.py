"""What each cell scored, as arrays: the same from the note, from the columns and from the items."""

import json

import numpy as np
import pytest

import limpet
from limpet.run.reading import RunReader
from limpet.run.results.score_words import ScoreName

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(5)]
CORRECT = ScoreName("correct")


def answer(question):
    if question == "Say 2":
        raise limpet.PermanentError("two is too much")
    return limpet.Output(question.split()[-1], limpet.Usage(cost=0.5))


def correct(output, expected):
    return output == expected


def several(output):
    if output == "4":
        raise limpet.PermanentError("not four")
    return {"length": len(output), "tone": "odd" if output in "13" else 0.5}


def make(run, rows=ROWS, trials=1, **options):
    options = {"version": "1", "retry": 0, "fail_fast": False, **options}
    return limpet.evaluate(rows, answer, [correct, several], run=run, trials=trials, **options)


def table_of(run):
    with RunReader(run) as reader:
        return reader.score_table()


def test_each_cell_has_its_scores_labels_failures_seconds_and_cost(tmp_path):
    result = make(tmp_path / "run", trials=2)
    table = table_of(tmp_path / "run")
    assert (table.ids, table.trials) == (["q0", "q1", "q2", "q3", "q4"], 2)
    nan = np.nan
    np.testing.assert_array_equal(table.scores[CORRECT][:, 0], [1, 1, nan, 1, 1])
    tone = ScoreName("several", "tone")
    np.testing.assert_array_equal(table.scores[tone][:, 1], [0.5, nan, nan, nan, nan])
    labels = table.labels[tone]
    assert labels.names == ["odd"]
    assert labels.numbers[:, 0].tolist() == [-1, 0, -1, 0, -1]
    assert table.failed.tolist() == [[n == 2] * 2 for n in range(5)]
    assert table.failed_scores["several"].tolist() == [[n == 4] * 2 for n in range(5)]
    assert table.evaluators == ["correct", "several"]
    np.testing.assert_array_equal(table.costs[:, 0], [0.5, 0.5, nan, 0.5, 0.5])
    for item in result.items:
        row = table.ids.index(item.id)
        if item.output is not None:
            assert table.seconds[row, item.trial] == item.seconds


def same(one, other):
    return str(one) == str(other)


def test_the_saved_numbers_give_the_same_table_as_the_columns(tmp_path, monkeypatch):
    make(tmp_path / "run", trials=2)
    with monkeypatch.context() as patch:
        patch.setattr("limpet.run.reading.run_results.add_up", None)  # would fail if it were called
        from_note = table_of(tmp_path / "run")
    (tmp_path / "run/index/numbers").unlink()
    assert same(from_note, table_of(tmp_path / "run"))


def flipped(content):
    return content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]


DAMAGE = {
    "a flipped bit": flipped,
    "another name": lambda content: content.replace(b'"correct"', b'"corrent"'),
    "another number of cells": lambda content: content.replace(b'"cells": 5', b'"cells": 10', 1),
    "another type": lambda content: content.replace(b'"d"', b'"q"', 1),
    "another size": lambda content: content.replace(b'"d", 32', b'"d", 24', 1),
    "cut": lambda content: content[:-8],
    "empty": lambda _: b"",
    "no JSON": lambda _: b"[]\nxyz",
    "of another run": lambda content: content.replace(b'{"of": "', b'{"of": "0', 1),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_saved_numbers_that_do_not_fit_are_not_used(tmp_path, damage):
    make(tmp_path / "run")
    whole, note = table_of(tmp_path / "run"), tmp_path / "run/index/numbers"
    note.write_bytes(damage(note.read_bytes()))
    assert same(whole, table_of(tmp_path / "run"))


def test_saved_numbers_of_results_that_changed_since_are_not_used(tmp_path):
    make(tmp_path / "run")
    column = tmp_path / "run/correct_output.jsonl"
    lines = column.read_bytes().splitlines(keepends=True)
    column.write_bytes(b"".join(lines[:-1]))
    assert np.isnan(table_of(tmp_path / "run").scores[CORRECT]).sum() == 2


def test_without_items_the_answers_say_which_items_there_are(tmp_path):
    make(tmp_path / "run", trials=2)
    whole = table_of(tmp_path / "run")
    (tmp_path / "run/items.jsonl").unlink()
    table = table_of(tmp_path / "run")
    assert sorted(table.ids) == sorted(whole.ids)
    assert not table.positions
    order = [whole.ids.index(id_) for id_ in table.ids]
    np.testing.assert_array_equal(table.scores[CORRECT], whole.scores[CORRECT][order])


def test_a_selection_has_only_its_items(tmp_path):
    make(tmp_path / "run", limpet.Dataset(ROWS, limit=3))
    table = table_of(tmp_path / "run")
    assert list(table.ids) == ["q0", "q1", "q2"]
    assert table.scores[CORRECT].shape == (3, 1)


@pytest.mark.quick(3)
@pytest.mark.parametrize("id_", ['a"b', "a\\b", "é\u2028", "a\nb", "\ud800", '","id":"x', ""])
def test_any_id_is_read_as_it_is(tmp_path, id_):
    rows = [{**ROWS[0], "id": id_ or "0"}, ROWS[1]]
    make(tmp_path / "run", rows)
    lines = (tmp_path / "run/items.jsonl").read_bytes().split(b"\n")
    known = [json.loads(line)["id"] for line in lines if line]
    assert list(table_of(tmp_path / "run").ids) == known
