"""A live file: what it begins with, what is added, and what a failure costs."""

import errno
import json
import logging
import os

import pytest

from limpet.journal.append_file import LiveFile
from limpet.journal.layout import Layout
from limpet.journal.lines import is_column, seal


def encode(value):
    return json.dumps(value).encode()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "workflow_output.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_is_replaced_and_then_grows(path):
    for begin in ([], ["a", "b"]):
        file = LiveFile(path, encode, begin)
        assert lines(path) == begin
        file.add("c")
        file.close()
        assert lines(path) == [*begin, "c"]


def test_a_line_that_cannot_be_made_is_logged_with_its_traceback_and_harms_no_other(path, caplog):
    file = LiveFile(path, encode, ["a", {(1, 2): 3}, "b"])
    for value in (object(), "c"):
        file.add(value)
    file.close()
    assert lines(path) == ["a", "b", "c"]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert caplog.records[0].levelno == logging.ERROR


def test_half_a_line_on_a_full_disk_is_taken_back(path, monkeypatch, caplog):
    file = LiveFile(path, encode, ["a"])
    real, full = os.writev, [True]

    def writev(fd, parts):
        if not full.pop() if full else True:
            return real(fd, parts)
        os.write(fd, b'"hal')
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", writev)
    file.add("half of it")
    file.add("b")
    file.close()
    assert lines(path) == ["a", "b"]
    assert "No space left on device" in caplog.text


RECORD = seal(b'{"_limpet":{"key":"%032d","id":"a"},"output":1}' % 0)


def test_an_answer_that_looks_like_a_record_does_not_make_it_a_column(path):
    forged = json.loads(RECORD)
    as_written = RECORD[:-1]
    file = LiveFile(path, lambda _: as_written, [0])
    file.add(1)
    file.close()
    assert lines(path) == [forged, forged]
    assert not is_column(path)
    assert Layout(path.parent).columns() == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", True),
        (RECORD, True),
        (b"{" + RECORD[1:60], True),  # torn
        (RECORD[:5], True),
        (b" " * 20 + b"\n" + RECORD, True),  # a bad line was set aside
        (b"x" + RECORD[1:], True),  # damaged at its beginning
        (RECORD[:-20] + b"garbage\n", True),
        (b"\0" * 100 + b"\n", True),
        (b'{"id": "a", "generated_answer": "x"}\n', False),
        (b'"an answer"\n{"id": 1}\n', False),
        (b'{"id": "a", "generat', False),  # torn, and not ours
        (b'{"id": "a"}\n' + RECORD, True),  # a line of another program is in a column
        (b"[" * 5000 + b"]" * 5000 + b"\n", False),
    ],
)
def test_a_column_is_told_by_its_content(tmp_path, content, expected):
    path = tmp_path / "workflow_output.jsonl"
    path.write_bytes(content)
    assert is_column(path) is expected
    assert Layout(tmp_path).columns() == ([path] if expected else [])
