"""Rows of a file are kept as JSON, and come out as they stand there."""

import json

import pytest

from limpet.datasets import Dataset
from limpet.errors import DatasetError

ODD = [
    '{"question": "a \\": b", "answer": 1}',
    '{"question": "wide", "answer": 123456789012345678901234567890}',
    '{"question": "wide", "answer": 0.1000000000000000055511151231257827}',
    '{"question": "wide in a list", "answer": [12345678901234567890123, 0.5]}',
    '{"question": "nested", "answer": {"a": {"a": 1}, "b": [{"c": null}]}}',
    '{"question": "half \\ud800 of a letter", "answer": "\\ud83d\\ude00"}',
    '{"question": "signs", "answer": [-0.0, -0, 1e5, 5e-324]}',
    '  {"question" : "spaces" , "answer" : true}  ',
]


@pytest.mark.parametrize("line", ODD)
def test_a_row_comes_out_as_it_stands_in_the_file(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    (item,) = Dataset(path).load()
    assert repr(item.row) == repr(json.loads(line))
    assert repr(item.input) == repr(json.loads(line)["question"])


@pytest.mark.parametrize(
    "line", ['{"question": "q", "question": "r"}', '{"question": "q", "\\u0071uestion": "r"}']
)
def test_a_name_that_stands_twice_is_refused_whatever_else_is_plain(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="'question' appears twice"):
        Dataset(path).load()


def test_an_item_of_a_file_is_the_askers_own(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "question": ["x"]}\n', encoding="utf-8")
    dataset = Dataset(path).load()
    dataset.items[0].input.append("y")
    assert dataset.items[0].input == ["x"]
    assert [one.input for one in dataset] == [["x"]]


def test_items_are_counted_sliced_and_gone_through_like_a_list(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,question\n" + "".join(f"{n},q{n}\n" for n in range(5)), encoding="utf-8")
    items = Dataset(path).load().items
    assert len(items) == 5
    assert items[-1].id == "4"
    assert [one.input for one in items[1:3]] == ["q1", "q2"]
    assert [one.id for one in Dataset(path, shuffle=True, sample=2).load().items[:]] == [
        one.id for one in Dataset(path, shuffle=True).load().items[:2]
    ]


ROWS = [{"id": "a", "question": "x", "answer": "1"}, {"id": "b", "question": "y", "answer": "2"}]


def digest_of(path, rows, **options):
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return Dataset(path, **options).load().items.digest()


def test_the_digest_of_items_is_another_wherever_they_are(tmp_path):
    path = tmp_path / "rows.jsonl"
    digests = [
        digest_of(path, ROWS),
        digest_of(path, ROWS[::-1]),
        digest_of(path, ROWS[:1]),
        digest_of(path, [{**ROWS[0], "answer": 1}, ROWS[1]]),
        digest_of(path, [{**ROWS[0], "more": None}, ROWS[1]]),
        digest_of(path, ROWS, input="answer"),
        digest_of(path, ROWS, expected="id"),
        digest_of(path, ROWS, id="question"),
    ]
    assert len(set(digests)) == len(digests)
    assert digest_of(path, ROWS) == digests[0]
