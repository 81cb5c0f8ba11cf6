"""A line is what people and other tools can read, and counts when it is whole."""

import json
import re
import zlib

import pytest

from limpet.journal.lines import (
    LineKind,
    decode_line,
    encode_outcome,
    generation_of,
    id_and_trial_of,
    kind_of,
)
from limpet.shapes import Cell, Outcome
from limpet.types import CellStatus

KEY = "0123456789abcdef0123456789abcdef"


def line_of(record, **facts):
    outcome = Outcome(Cell("workflow", "q1", 0, KEY), record=record, **facts)
    return encode_outcome(outcome)


def test_a_line_has_its_facts_first_and_its_crc_last():
    line = line_of({"id": "q1", "answer": "Zürich"}, attempts=2, seconds=1.84)
    assert line.startswith(f'{{"_limpet":{{"key":"{KEY}","id":"q1","trial":0,'.encode())
    assert "Zürich".encode() in line
    fields = json.loads(line)
    assert list(fields) == ["_limpet", "id", "answer", "_crc"]
    assert fields["_limpet"]["status"] == "completed"
    assert (fields["_limpet"]["attempts"], fields["_limpet"]["seconds"]) == (2, 1.84)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["_limpet"]["at"])
    body, _, _ = line.rpartition(b',"_crc"')
    assert fields["_crc"] == f"{zlib.crc32(body):08x}"


@pytest.mark.parametrize("record", [None, 3, "text", [1, 2], {"_limpet": 1}, {"_crc": 2}, {3: 4}])
def test_a_record_that_is_no_object_or_uses_our_names_is_wrapped(record):
    line = line_of(record)
    assert json.loads(line)["_limpet"]["wrapped"] is True
    expected = {"3": 4} if record == {3: 4} else record
    assert decode_line(line).record == expected


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (line_of({"a": 1}), LineKind.RECORD),
        (line_of({"a": 1})[:-1], LineKind.BAD),
        (line_of({"a": 1}).replace(b'"a":1', b'"a":2'), LineKind.BAD),
        (line_of({"a": 1}).replace(b'"_limpet":', b'"_limpet": '), LineKind.BAD),
        (b'{"a":1,"_crc":"00000000"}\n', LineKind.BAD),
        (b'{"a":1}\n', LineKind.FOREIGN),
        (b"[1,2]\n", LineKind.FOREIGN),
        (b"\n", LineKind.FOREIGN),
        (b'{"a":1}\r\n', LineKind.FOREIGN),
        (b'{"a":1\n', LineKind.BAD),
        (b"\x00\x00\n", LineKind.BAD),
        (b"\xff\n", LineKind.BAD),
        (b"[" * 100_000 + b"\n", LineKind.BAD),
    ],
)
def test_what_a_line_is_shows_in_its_bytes(line, kind):
    assert kind_of(line) is kind


@pytest.mark.parametrize("generation", [0, 3])
def test_the_generation_is_not_fooled_by_what_an_id_or_a_record_says(generation):
    tricky = '","status":"completed","generation":7,"x":"'
    outcome = Outcome(
        Cell("workflow", tricky, 0, KEY),
        status=CellStatus.COMPLETED_WITH_RETRIES,
        record={"status": "completed", "generation": 9, "more": 1},
        generation=generation,
    )
    assert generation_of(encode_outcome(outcome)) == generation


def test_a_line_separator_inside_a_text_does_not_end_the_line():
    record = {"a": "one\u2028two\x85three\nfour\r"}
    line = line_of(record)
    assert line.count(b"\n") == 1
    assert decode_line(line).record == record


@pytest.mark.parametrize(
    "id_", ["q1", 'a "quoted", one', "back\\slash, comma", "\x1b[31m, x", "é,"]
)
def test_the_id_of_a_line_is_read_whatever_is_in_it(id_):
    outcome = Outcome(Cell("workflow", id_, 0, KEY), record={"id": "other", "a": 1})
    assert id_and_trial_of(encode_outcome(outcome))[0] == id_
