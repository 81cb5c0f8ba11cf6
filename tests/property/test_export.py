"""Values survive an export: what is read back from each format is what the run has."""

import csv
import io
import math
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.json_values import decode, encode
from limpet.report.export import ExportRows, as_csv, as_jsonl, write_parquet
from limpet.run.results.item_record import ItemRecord

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.one_of(st.booleans(), st.integers(-(2**70), 2**70), st.floats())
values = st.recursive(
    st.one_of(st.none(), numbers, text),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
names = st.one_of(text, st.sampled_from(["output", "id", "usage.cost", "row.output", "good"]))
tables = st.lists(
    st.tuples(values, st.dictionaries(names, values, max_size=4)), min_size=1, max_size=4
)


def rows_of(table):
    items = [
        ItemRecord(f"q{n}", 0, None, None, output, row=row, scores={"good": {"score": 0.5}})
        for n, (output, row) in enumerate(table)
    ]
    return ExportRows(SimpleNamespace(evaluators=("good",), items=lambda: iter(items)))


def is_same(value, other):
    """Compare as JSON does: True is not 1, and NaN is NaN."""
    return encode(value)[0] == encode(other)[0]


@given(tables)
def test_jsonl_has_every_value_unchanged(table):
    rows = rows_of(table)
    for row, line in zip(rows, as_jsonl(rows), strict=True):
        assert is_same(list(decode(line, marked=True).values()), row)


@given(tables)
def test_every_field_of_every_row_is_there_once(table):
    rows = rows_of(table)
    assert len(set(rows.names)) == len(rows.names)
    for (output, fields), row in zip(table, rows, strict=True):
        cells = dict(zip(rows.columns, row, strict=True))
        assert is_same(cells["own", "output"], output)
        for name, value in fields.items():
            assert is_same(cells["row", name], value)


@given(tables)
def test_csv_has_strings_and_numbers_unchanged(table):
    rows = rows_of(table)
    lines = b"".join(as_csv(rows)).decode()
    _, *read = csv.reader(io.StringIO(lines, newline=""))
    for row, cells in zip(rows, read, strict=True):
        for value, cell in zip(row, cells, strict=True):
            if isinstance(value, str):
                assert cell in (value, f"'{value}")
            elif isinstance(value, float) and math.isnan(value):
                assert cell == "nan"
            elif isinstance(value, (int, float)):
                assert type(value)(float(cell) if isinstance(value, float) else int(cell)) == value


@settings(max_examples=4 if settings.default.derandomize else 20)
@given(st.lists(numbers, min_size=1, max_size=4), st.lists(text, min_size=1, max_size=4))
def test_parquet_has_numbers_as_numbers_and_strings_unchanged(some, others):
    duckdb = pytest.importorskip("duckdb")
    table = [(None, {"n": number, "t": word}) for number, word in zip(some, others, strict=False)]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.parquet"
        write_parquet(rows_of(table), path)
        read = duckdb.execute("SELECT n, t FROM read_parquet(?)", [str(path)]).fetchall()
    for (_, row), (number, word) in zip(table, read, strict=True):
        assert word == row["t"].replace("\0", "\\x00")
        if isinstance(number, str):  # no type holds all of them
            assert number == str(int(row["n"]) if isinstance(row["n"], bool) else row["n"])
        else:
            assert number == row["n"] or (math.isnan(number) and math.isnan(row["n"]))
