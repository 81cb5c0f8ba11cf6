"""The rows of an export in each format, with hostile values."""

import csv
import io
import json
import tracemalloc
from types import SimpleNamespace

import pytest

from limpet.errors import LimpetError
from limpet.report.export import ExportRows, as_csv, as_jsonl, as_markdown, write_parquet
from limpet.run.results import table as spreadsheet
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.table import spreadsheet_cell
from limpet.types import CellStatus


def rows_of(*outputs, **fields):
    items = [
        ItemRecord(f"q{n}", 0, "x", None, output, row=fields, status=CellStatus.COMPLETED)
        for n, output in enumerate(outputs)
    ]
    return ExportRows(SimpleNamespace(evaluators=(), items=lambda: iter(items)))


def write_xlsx(rows, path):
    return spreadsheet.write_xlsx(rows.names, rows, path)


def cells_of_markdown(rows):
    lines = b"".join(as_markdown(rows)).decode().splitlines()
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]


def test_a_markdown_table_is_not_broken_by_what_is_in_it():
    hostile = [
        "a|b",
        "a\\|b",
        "one\r\ntwo\n\nthree",
        "<img src=x onerror=alert(1)>",
        "&lt;",
        "\x1b[2J",
    ]
    header, dashes, *lines = cells_of_markdown(rows_of(*hostile, "![x](http://evil)", "`*_~$"))
    assert header[:3] == ["id", "trial", "input"]
    assert set(dashes) == {"---"}
    assert {len(line) for line in lines} == {len(header)}
    assert [line[4] for line in lines] == [
        r"a\|b", r"a\\\|b", "one<br>two<br><br>three", "&lt;img src=x onerror=alert(1)&gt;",
        "&amp;lt;", r"\\x1b\[2J", r"!\[x\](http://evil)", r"\`\*\_\~\$",
    ]  # fmt: skip


def test_an_excel_file_has_numbers_and_inert_strings(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    outputs = [1.5, True, 2**60, float("nan"), "=1+1", "#N/A", "\0\x1b", "\ud800", {"a": [1]}, None]
    assert write_xlsx(rows_of(*outputs, **{"=field": 1}), tmp_path / "x.xlsx") == 0
    header, *lines = openpyxl.load_workbook(tmp_path / "x.xlsx")["results"].iter_rows()
    assert header[-1].value == "'=field"
    assert [line[4].value for line in lines] == [
        1.5, 1, str(2**60), "nan", "'=1+1", "#N/A", "\\x00\\x1b", "\\ud800", '{"a":[1]}', None,
    ]  # fmt: skip
    assert {line[4].data_type for line in lines} == {"n", "s"}


def test_an_excel_file_says_what_it_cannot_hold(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    assert write_xlsx(rows_of("x" * 40_000, "y"), tmp_path / "x.xlsx") == 1
    monkeypatch.setattr(spreadsheet, "_MOST_ROWS", 2)
    with pytest.raises(
        LimpetError, match="an Excel sheet holds 2 rows and 16,384 columns, not 3 and 9"
    ):
        write_xlsx(rows_of("x", "y"), tmp_path / "y.xlsx")
    assert not (tmp_path / "y.xlsx").exists()


def test_all_formats_have_the_same_columns(tmp_path):
    duckdb, openpyxl = pytest.importorskip("duckdb"), pytest.importorskip("openpyxl")
    rows = rows_of("a", output="mine", Output="yours", **{"": 1, "a|b": 2, 'quo"te': 3})
    names = [*rows.names[:9], "row.output", "row.row.Output", "row.", "a|b", 'quo"te']
    assert rows.names == names
    assert next(csv.reader(io.StringIO(b"".join(as_csv(rows)).decode()))) == names
    assert list(json.loads(next(as_jsonl(rows)))) == names
    assert len(cells_of_markdown(rows)[0]) == len(names)
    write_xlsx(rows, tmp_path / "x.xlsx")
    header = next(openpyxl.load_workbook(tmp_path / "x.xlsx")["results"].iter_rows())
    assert [cell.value for cell in header] == names
    write_parquet(rows, tmp_path / "x.parquet")
    query = "SELECT name FROM parquet_schema(?) OFFSET 1"
    found = duckdb.execute(query, [str(tmp_path / "x.parquet")]).fetchall()
    assert [name for (name,) in found] == names


@pytest.mark.quick(3)
@pytest.mark.parametrize("form", [as_csv, as_jsonl, as_markdown])
def test_rows_are_written_one_by_one(form):
    def items():
        return (ItemRecord(f"q{n}", 0, f"{n}" * 20_000, None) for n in range(1000, 1080))

    rows = ExportRows(SimpleNamespace(evaluators=(), items=items))
    tracemalloc.start()
    written = sum(map(len, form(rows)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written > 6_000_000
    assert peak < 3_200_000


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("-7.5", "-7.5"),
        ("+3", "+3"),
        ("-1e5", "-1e5"),
        ("-1+1", "'-1+1"),
        ("-1\n", "'-1\n"),
        ("-", "'-"),
        ("=1", "'=1"),
    ],
)
def test_a_negative_number_is_no_formula(text, cell):
    assert spreadsheet_cell(text) == cell
