"""Fifty and more files that are not what they should be: each is read exactly, or refused aloud."""

import io
import json
import re
import zipfile

import pytest

from limpet.datasets import Dataset
from limpet.errors import DatasetError

GOOD = b'{"id":"a","question":"x"}\n'
DEEP = b'{"id":"d","question":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
COLUMNS = "there is no column 'question' or 'input'; the columns are "


def empty_zip():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w"):
        pass
    return held.getvalue()


# What each file holds, and what is said about it: `{}` is the path, `…` any text.
REFUSED = {
    # Files
    "an empty jsonl": ("q.jsonl", b"", "{}: there are no rows"),
    "only blank lines": ("q.jsonl", b"\n\r\n  \n", "{}: there are no rows"),
    "only a byte order mark": ("q.jsonl", b"\xef\xbb\xbf", "{}: there are no rows"),
    "an empty json": ("q.json", b"", "{}: is empty"),
    "an empty array": ("q.json", b"[ ]", "{}: there are no rows"),
    "an empty csv": ("q.csv", b"", "{}: is empty"),
    "only a header": ("q.csv", b"id,question\n", "{}: there are no rows"),
    "an empty tsv": ("q.tsv", b"\n\n", "{}: is empty"),
    "an unknown suffix": (
        "q.txt",
        b"x",
        (
            "{}: unsupported file type '.txt'; "
            "supported: .json, .jsonl, .ndjson, .csv, .tsv, .parquet, .xlsx"
        ),
    ),
    "no suffix": ("questions", b"x", "{}: unsupported file type ''; supported: …"),
    "a packed file": ("q.jsonl.gz", b"\x1f\x8b", "{}: unsupported file type '.gz'; supported: …"),
    "UTF-16 from Excel": ("q.csv", "id,question\n".encode("utf-16"), "{}: is UTF-16, not UTF-8"),
    # JSONL
    "a broken line": (
        "q.jsonl",
        GOOD + b'{"id":"b" "question":"y"}\n',
        (
            "{}, line 2: not JSON (Expecting ',' delimiter, at character 11): "
            '{"id":"b" "question":"y"}'
        ),
    ),
    "a torn last line": (
        "q.jsonl",
        GOOD + b'\n\n{"id":"b","ques',
        '{}, line 4: not JSON (Unterminated string starting at, at character 11): {"id":"b","ques',
    ),
    "a list in place of an object": (
        "q.jsonl",
        GOOD + b"[1, 2]\n",
        "{}, line 2: not a JSON object: [1, 2]",
    ),
    "a number in place of an object": ("q.jsonl", b"7\n", "{}, line 1: not a JSON object: 7"),
    "null in place of an object": ("q.jsonl", b"null\n", "{}, line 1: not a JSON object: null"),
    "two objects on one line": (
        "q.jsonl",
        GOOD.strip() + GOOD,
        "{}, line 1: not JSON (Extra data, at character 26): …",
    ),
    "old Mac line ends in jsonl": (
        "q.jsonl",
        GOOD.replace(b"\n", b"\r") * 2,
        "{}, line 1: not JSON (Extra data, at character 27): …",
    ),
    "an array called jsonl": (
        "q.jsonl",
        b'[\n{"id":"a","question":"x"}\n]\n',
        "{}, line 1: a JSON value spans several lines: [",
    ),
    "a printed object called jsonl": (
        "q.jsonl",
        b'{\n  "id": "a"\n}\n',
        "{}, line 1: a JSON value spans several lines: {",
    ),
    "a key twice": (
        "q.jsonl",
        b'{"id":"a","question":"x","question":"y"}\n',
        "{}, line 1: the key 'question' appears twice in one object: …",
    ),
    "a key twice, deep inside": (
        "q.jsonl",
        b'{"id":"a","question":{"k":1,"k":1}}\n',
        "{}, line 1: the key 'k' appears twice in one object: …",
    ),
    "NaN": (
        "q.jsonl",
        b'{"id":"a","question":NaN}\n',
        '{}, line 1: NaN is not JSON; use null or a string: {"id":"a","question":NaN}',
    ),
    "minus infinity": (
        "q.jsonl",
        b'{"id":"a","question":-Infinity}\n',
        "{}, line 1: -Infinity is not JSON; use null or a string: …",
    ),
    "a float beyond floats": (
        "q.jsonl",
        b'{"id":"a","question":1e999}\n',
        "{}, line 1: 1e999 is too large for a float; write it as a string to keep it: …",
    ),
    "an integer of 5,000 digits": (
        "q.jsonl",
        b'{"id":"a","question":' + b"9" * 5000 + b"}\n",
        (
            "{}, line 1: an integer has more digits than Python reads; "
            "write it as a string to keep it: …"
        ),
    ),
    "100,000 levels": ("q.jsonl", DEEP, "{}, line 1: it is nested too deep: …"),
    "bytes that are not UTF-8": (
        "q.jsonl",
        GOOD + b'{"id":"b","question":"caf\xe9"}\n',
        "{}, line 2: byte 0xe9 at offset 51 of the file is not UTF-8: …",
    ),
    "bad bytes behind a byte order mark": (
        "q.jsonl",
        b"\xef\xbb\xbf\xff\n",
        "{}, line 1: byte 0xff at offset 3 of the file is not UTF-8: \\udcff",
    ),
    "a file of zeros": ("q.jsonl", b"\0" * 64, "{}, line 1: not JSON (Expecting value, …"),
    "a column of ours": (
        "q.jsonl",
        b'{"_limpet":{"key":"b3"},"id":"a","question":"x"}\n',
        "{}, line 1: the column name '_limpet' is reserved by Limpet: …",
    ),
    "a checksum of ours": (
        "q.jsonl",
        b'{"id":"a","question":"x","_crc":"00"}\n',
        "{}, line 1: the column name '_crc' is reserved by Limpet: …",
    ),
    # Ids and inputs
    "an id twice": (
        "q.jsonl",
        GOOD + b"\n" + GOOD,
        "{}, line 3: the same id as line 1: id='a'",
    ),
    "an id as number and as text": (
        "q.jsonl",
        b'{"id":7,"question":"x"}\n{"id":"7","question":"y"}\n',
        "{}, line 2: the same id as line 1: id='7'",
    ),
    "an id missing in one row": (
        "q.jsonl",
        GOOD + b'{"question":"y"}\n',
        "{}, line 2: the id 'id' is blank or missing: {'question': 'y'}",
    ),
    "an id of blanks": (
        "q.csv",
        b"id,question\n  ,x\n",
        "{}, line 2: the id 'id' is blank or missing: {'id': '  ', 'question': 'x'}",
    ),
    "an id that is a list": (
        "q.jsonl",
        b'{"id":[1],"question":"x"}\n',
        "{}, line 1: an id must be a string or a number, not list: id=[1]",
    ),
    "an id that is true": (
        "q.jsonl",
        b'{"id":true,"question":"x"}\n',
        "{}, line 1: an id must be a string or a number, not bool: id=True",
    ),
    "a question that is null": (
        "q.jsonl",
        GOOD + b'{"id":"b","question":null}\n',
        "{}, line 2: the input 'question' is null: {'id': 'b', 'question': None}",
    ),
    "a question that is missing": (
        "q.jsonl",
        GOOD + b'{"id":"b","input":"y"}\n',
        "{}, line 2: the input 'question' is missing: {'id': 'b', 'input': 'y'}",
    ),
    "an empty object": (
        "q.jsonl",
        GOOD + b"{}\n",
        "{}, line 2: the input 'question' is missing: …",
    ),
    "no column to ask": (
        "q.jsonl",
        b'{"id":"a","prompt":"x"}\n',
        "{}: " + COLUMNS + "'id', 'prompt'",
    ),
    # JSON
    "an object in place of an array": (
        "q.json",
        b' {"id": 1}',
        '{}, line 1, character 2: an object, not an array of objects: {"id": 1}',
    ),
    "a text in place of an array": (
        "q.json",
        b'"rows"',
        '{}, line 1, character 1: not a JSON array of objects: "rows"',
    ),
    "jsonl called json": (
        "q.json",
        GOOD * 2,
        "{}, line 1, character 1: an object, not an array of objects: …",
    ),
    "an array that breaks off": (
        "q.json",
        b'[\n{"id":"a","question":"x"}',
        "{}, line 2, character 26: the file ends before the array does: (the end)",
    ),
    "an object that breaks off": (
        "q.json",
        b'[\n{"id":"a",\n"question":',
        "{}, line 3, character 12: not JSON (Expecting value): (the end)",
    ),
    "a comma too many": (
        "q.json",
        b'[{"id":"a","question":"x"},\n]',
        "{}, line 1, character 27: not JSON (a comma before the closing bracket): ,\\n]",
    ),
    "a comma too few": (
        "q.json",
        b'[{"id":"a"}\n{"id":"b"}]',
        '{}, line 2, character 1: not JSON (Expecting \',\' delimiter): {"id":"b"}]',
    ),
    "more after the array": (
        "q.json",
        b'[{"id":"a","question":"x"}]\n[]',
        "{}, line 2, character 1: there is more after the end of the array: []",
    ),
    "a single quote": (
        "q.json",
        b"[{'id': 1}]",
        "{}, line 1, character 3: not JSON (Expecting property name enclosed in double quotes): …",
    ),
    "an element that is no object": (
        "q.json",
        b'[{"id":"a","question":"x"},\n\n 3]',
        "{}, line 3: not a JSON object: 3",
    ),
    "a key twice in an array": (
        "q.json",
        b'[\n{"id":"a","question":"x","id":"b"}]',
        "{}, line 2: the key 'id' appears twice in one object: …",
    ),
    "an id twice in an array": (
        "q.json",
        b'[{"id":"a","question":"x"},\n{"id":"a","question":"y"}]',
        "{}, line 2: the same id as line 1: id='a'",
    ),
    "100,000 levels in an array": (
        "q.json",
        b"[" + DEEP + b"]",
        "{}, line 1, character 2: it is nested too deep: …",
    ),
    "bad bytes in an array": (
        "q.json",
        b'[\n{"id":"\xff"}]',
        "{}, line 2: byte 0xff at offset 9 of the file is not UTF-8",
    ),
    # CSV and TSV
    "too many cells": (
        "q.csv",
        b"id,question\na,x\nb,y,z\n",
        "{}, line 3: 3 cells, where the header has 2: b,y,z",
    ),
    "too few cells": (
        "q.csv",
        b"id,question\r\na\r\n",
        "{}, line 2: 1 cell, where the header has 2: a",
    ),
    "a bad row behind newlines in quotes": (
        "q.csv",
        b'id,question\na,"1\n2\n3"\n\nb\n',
        "{}, line 6: 1 cell, where the header has 2: b",
    ),
    "a quote that is never closed": (
        "q.csv",
        b'id,question\na,"x\nb,y\nc,z\n',
        '{}, line 2: a quote is opened and never closed: a,"x\\nb,y\\nc,z\\n',
    ),
    "text behind a closing quote": (
        "q.csv",
        b'id,question\na,"x" y\n',
        '{}, line 2: there is text after the closing quote of a cell: a,"x" y',
    ),
    "a header twice": (
        "q.csv",
        b"id,question,id\na,x,b\n",
        "{}, line 1: the header cannot be used: columns 1 and 3 have the same name: id,question,id",
    ),
    "a header of ours": (
        "q.csv",
        b"id,question,_limpet\na,x,y\n",
        (
            "{}, line 1: the header cannot be used: the column name '_limpet' is reserved by "
            "Limpet: id,question,_limpet"
        ),
    ),
    "a header that is not UTF-8": (
        "q.csv",
        b"id,question,pr\xe9nom\na,x,y\n",
        "{}, line 1: the header cannot be used: byte 0xe9 at offset 14 of the file is not UTF-8: …",
    ),
    "a cell that is not UTF-8": (
        "q.csv",
        b"id,question\na,x\nb,\xff\n",
        "{}, line 3: byte 0xff at offset 18 of the file is not UTF-8: b,\\udcff",
    ),
    "semicolons from Excel": ("q.csv", b"id;question\na;x\n", "{}: " + COLUMNS + "'id;question'"),
    "commas in a tsv": ("q.tsv", b"id,question\na,x\n", "{}: " + COLUMNS + "'id,question'"),
    "a blank before a header": (
        "q.csv",
        b"id, question\na,x\n",
        "{}: " + COLUMNS + "'id', ' question'",
    ),
    "an id twice in a csv": (
        "q.csv",
        b'id,question\n1,"a\nb"\n1,c\n',
        "{}, line 4: the same id as line 2: id='1'",
    ),
    # Binary
    "text called parquet": ("q.parquet", b"id,question\n" * 9, "{}: cannot be read as Parquet: …"),
    "nothing called parquet": ("q.parquet", b"", "{}: cannot be read as Parquet: …"),
    "text called xlsx": ("q.xlsx", b"id,question\n", "{}: cannot be read as XLSX: BadZipFile: …"),
    "an archive called xlsx": ("q.xlsx", empty_zip(), "{}: cannot be read as XLSX: KeyError: …"),
}


def matches(message, pattern, path):
    said = re.escape(pattern.replace("{}", str(path), 1))
    return re.fullmatch(said.replace("…", ".*"), message, re.DOTALL)


@pytest.mark.parametrize("case", REFUSED)
def test_a_hostile_file_is_refused_with_its_location_and_its_value(case, tmp_path):
    name, content, pattern = REFUSED[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DatasetError) as raised:
        Dataset(path).load()
    assert matches(str(raised.value), pattern, path), str(raised.value)
    assert len(str(raised.value)) < 700


# A file with one bad row between two good ones: what is wrong is listed, the rest goes on.
SKIPPED = {
    "a broken line": (b'{"id"', 1),
    "a lone brace": (b"{", 1),
    "no object": (b"[]", 1),
    "a key twice": (b'{"id":"b","question":1,"id":"c"}', 1),
    "NaN": (b'{"id":"b","question":NaN}', 1),
    "bytes that are not UTF-8": (b'{"id":"b","question":"\xc3"}', 1),
    "an id twice": (b'{"id":"a","question":"y"}', 1),
    "no id": (b'{"question":"y"}', 1),
    "no question": (b'{"id":"b"}', 1),
    "a column of ours": (b'{"id":"b","question":"y","_crc":1}', 1),
    "three of them": (b'{"id"\n\n{}\n7', 3),
}


@pytest.mark.parametrize("case", SKIPPED)
def test_a_bad_row_is_skipped_and_listed_and_the_rest_goes_on(case, tmp_path):
    content, many = SKIPPED[case]
    path = tmp_path / "q.jsonl"
    path.write_bytes(GOOD + content + b'\n{"id":"z","question":"last"}\n')
    dataset = Dataset(path, on_bad_row="skip").load()
    assert [item.id for item in dataset] == ["a", "z"]
    assert len(dataset.bad_rows) == many
    assert [bad.line for bad in dataset.bad_rows] == [2, 4, 5][:many]
    for bad in dataset.bad_rows:
        assert bad.location == f"{path}, line {bad.line}"
        assert bad.reason
        assert str(bad) == f"{bad.location}: {bad.reason}: {bad.value}"


# What looks odd and is fine: each of these has the one row, id "a" and this question.
FINE = {
    "a byte order mark": ("q.jsonl", b"\xef\xbb\xbf" + GOOD, "x"),
    "byte order marks of joined files": ("q.jsonl", b"\n\xef\xbb\xbf" + GOOD, "x"),
    "a byte order mark in csv": ("q.csv", b"\xef\xbb\xbfid,question\na,x\n", "x"),
    "a byte order mark and quotes": ("q.csv", b'\xef\xbb\xbf"id","question"\n"a","x"\n', "x"),
    "a byte order mark in json": ("q.json", b"\xef\xbb\xbf[" + GOOD + b"]", "x"),
    "CRLF in jsonl": ("q.jsonl", GOOD.replace(b"\n", b"\r\n"), "x"),
    "CRLF in csv": ("q.csv", b"id,question\r\na,x\r\n", "x"),
    "CRLF in a cell": ("q.csv", b'id,question\r\na,"x\r\ny"\r\n', "x\r\ny"),
    "old Mac line ends in csv": ("q.csv", b"id,question\ra,x\r", "x"),
    "old Mac line ends, the last missing": ("q.csv", b"id,question\ra,x", "x"),
    "a carriage return in a cell": ("q.csv", b'id,question\na,"x\ry"\n', "x\ry"),
    "no last line end": ("q.jsonl", GOOD.strip(), "x"),
    "no last line end in csv": ("q.csv", b"id,question\na,x", "x"),
    "blank lines in jsonl": ("q.jsonl", b"\n \n" + GOOD + b"\t\n\n", "x"),
    "blank lines in csv": ("q.csv", b"\n\nid,question\n\n  \na,x\n\n", "x"),
    "U+2028 in a text": (
        "q.jsonl",
        '{"id":"a","question":"x\u2028y\x85z"}'.encode(),
        "x\u2028y\x85z",
    ),
    "U+2028 in a cell": (
        "q.csv",
        "id,question\na,x\u2028y\x85z\x0b\n".encode(),
        "x\u2028y\x85z\x0b",
    ),
    "a lone surrogate": ("q.jsonl", rb'{"id":"a","question":"\ud800"}', "\ud800"),
    "a null character": ("q.csv", b"id,question\na,x\0y\n", "x\0y"),
    "an escaped null": ("q.jsonl", rb'{"id":"a","question":"\u0000"}', "\0"),
    "an empty text": ("q.jsonl", b'{"id":"a","question":""}', ""),
    "an empty cell": ("q.csv", b"id,question\na,\n", ""),
    "zeros in front": ("q.csv", b"id,question\na,001\n", "001"),
    "an exponent in a cell": ("q.csv", b"id,question\na,1e5\n", "1e5"),
    "a date in a cell": ("q.csv", b"id,question\na,2024-01-02\n", "2024-01-02"),
    "NA in a cell": ("q.csv", b"id,question\na,NA\n", "NA"),
    "a quote in an open cell": ("q.csv", b'id,question\na,5" pipe\n', '5" pipe'),
    "blanks around a cell": ("q.csv", b"id,question\na,  x \n", "  x "),
    "an integer of 100 digits": (
        "q.jsonl",
        b'{"id":"a","question":1' + b"0" * 99 + b"}",
        10**99,
    ),
    "false": ("q.jsonl", b'{"id":"a","question":false}', False),
    "zero": ("q.jsonl", b'{"id":"a","question":0}', 0),
    "an exponent": ("q.jsonl", b'{"id":"a","question":1e5}', 1e5),
    "an object to ask": ("q.jsonl", b'{"id":"a","question":{"k":[1,"1"]}}', {"k": [1, "1"]}),
    "a suffix in capitals": ("Q.JSONL", GOOD, "x"),
    "a name of its own": ("*[a]?{b} ü\n.ndjson", GOOD, "x"),
    "a tab in a quoted cell": ("q.tsv", b'id\tquestion\na\t"x\ty"\n', "x\ty"),
    "a comma in a tsv": ("q.tsv", b"id\tquestion\na\tx,y\n", "x,y"),
    "a header without a name": ("q.csv", b",id,question\n0,a,x\n", "x"),
    "a printed array": (
        "q.json",
        json.dumps([{"id": "a", "question": "x"}], indent=4).encode(),
        "x",
    ),
}


@pytest.mark.parametrize("case", FINE)
def test_an_odd_file_is_read_exactly(case, tmp_path):
    name, content, question = FINE[case]
    path = tmp_path / name
    path.write_bytes(content)
    (item,) = Dataset(path).load()
    assert (item.id, item.input) == ("a", question)
    assert type(item.input) is type(question)


@pytest.mark.quick(4)
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv"])
def test_a_row_of_ten_megabytes_is_fine(suffix, tmp_path):
    question = "é" * 5_000_000
    row = json.dumps({"id": "a", "question": question})
    separator = "\t" if suffix == "tsv" else ","
    table = f"id{separator}question\na{separator}{question}\n"
    content = {"jsonl": row, "json": f"[{row}]"}.get(suffix, table)
    path = tmp_path / f"q.{suffix}"
    path.write_text(content, encoding="utf-8")
    (item,) = Dataset(path).load()
    assert item.input == question


def test_there_are_at_least_fifty():
    assert len(REFUSED) >= 50
