"""Parquet and XLSX: the names and values that are in the file, and nothing else."""

import builtins
import datetime as dt
import importlib
import zipfile

import pytest

from limpet.datasets import Dataset
from limpet.errors import DatasetError


def refused(source, **options):
    with pytest.raises(DatasetError) as raised:
        Dataset(source, **options).load()
    return str(raised.value), raised.value.hint


@pytest.mark.parametrize(("suffix", "library"), [("parquet", "duckdb"), ("xlsx", "openpyxl")])
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    tmp_path, monkeypatch, suffix, library
):
    def import_module(name, package=None):
        if name == library:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return builtins.__import__(name)

    path = tmp_path / f"q.{suffix}"
    path.write_bytes(b"x")
    monkeypatch.setattr(importlib, "import_module", import_module)
    monkeypatch.setattr("limpet.datasets.sources.import_module", import_module)
    message, hint = refused(path)
    assert message == (
        f"{path}: reading it needs {library}, which cannot be imported "
        f"(No module named {library!r})"
    )
    assert hint == "pip install 'limpet[data]'"


# Parquet


@pytest.fixture
def parquet(tmp_path):
    duckdb = pytest.importorskip("duckdb")

    def write(query, name="q.parquet"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        return path

    return write


def test_parquet_keeps_types_and_texts(parquet):
    path = parquet(
        "SELECT '001' AS id, '1e5' AS question, 7 AS i, 18446744073709551615::UBIGINT AS wide, "
        "0.5::DOUBLE AS f, true AS b, NULL::INTEGER AS nothing, 'nan'::DOUBLE AS nan, "
        "DATE '2024-01-02' AS day, TIMESTAMP '2024-01-02 03:04:05' AS moment, "
        "TIMESTAMPTZ '2024-01-02 03:04:05.5+02' AS zoned, TIME '03:04:05' AS clock, "
        "TIMESTAMP_NS '2024-01-02 03:04:05.123456789' AS nanos, 1.10::DECIMAL(5,2) AS price, "
        "[1, 2] AS list, {'at': TIMESTAMPTZ '2024-01-02 03:04:05+00', 'n': 1} AS deep, "
        "MAP {'k': 1} AS map, 'x'::BLOB AS raw"
    )
    (item,) = Dataset(path).load()
    assert item.row == {
        "id": "001",
        "question": "1e5",
        "i": 7,
        "wide": 2**64 - 1,
        "f": 0.5,
        "b": True,
        "nothing": None,
        "nan": None,
        "day": "2024-01-02",
        "moment": "2024-01-02T03:04:05",
        "zoned": "2024-01-02T01:04:05.5+00:00",
        "clock": "03:04:05",
        "nanos": "2024-01-02T03:04:05.123456789",
        "price": "1.10",
        "list": [1, 2],
        "deep": {"at": "2024-01-02 03:04:05+00", "n": 1},
        "map": {"k": 1},
        "raw": b"x",
    }


def test_parquet_keeps_the_names_of_the_file(parquet):
    (item,) = Dataset(
        parquet('SELECT 1 AS "a ""b"" c", {\'x\': {\'y\': [2]}} AS s, 3 AS question')
    ).load()
    assert item.row == {'a "b" c': 1, "s": {"x": {"y": [2]}}, "question": 3}


def test_parquet_columns_that_differ_in_case_are_two(tmp_path):
    polars = pytest.importorskip("polars")
    path = tmp_path / "q.parquet"
    polars.DataFrame({"id": [1], "ID": [2], "question": ["x"], "ID_1": [3]}).write_parquet(path)
    (item,) = Dataset(path).load()
    assert item.row == {"id": 1, "ID": 2, "question": "x", "ID_1": 3}


def test_a_path_is_a_path_and_no_pattern(parquet):
    path = parquet("SELECT 'mine' AS question", "year=2024/q[1]*.parquet")
    parquet("SELECT 'other' AS question", "year=2024/q1x.parquet")
    (item,) = Dataset(path).load()
    assert item.row == {"question": "mine"}


def test_many_rows_of_parquet_stay_in_order(parquet):
    dataset = Dataset(parquet("SELECT range AS id, 'x' AS question FROM range(5000)")).load()
    assert [item.id for item in dataset] == [str(number) for number in range(5000)]


def test_bad_rows_of_parquet_are_counted_from_one(parquet):
    path = parquet("SELECT unnest([1, 1]) AS id, unnest(['x', NULL]) AS question")
    assert refused(path)[0].startswith(f"{path}, row 2: the input 'question' is null: ")
    path = parquet("SELECT 1 AS question, 2 AS _crc", "ours.parquet")
    assert refused(path)[0].startswith(f"{path}: the column name '_crc' is reserved")
    path = parquet("SELECT 1 AS question WHERE false", "none.parquet")
    assert refused(path)[0] == f"{path}: there are no rows"


# XLSX


@pytest.fixture
def xlsx(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")

    def write(*rows, name="q.xlsx", **sheets):
        workbook = openpyxl.Workbook()
        for row in rows:
            workbook.active.append(row)
        for title, others in sheets.items():
            sheet = workbook.create_sheet(title)
            for row in others:
                sheet.append(row)
        workbook.save(tmp_path / name)
        return tmp_path / name

    return write


def test_xlsx_keeps_types_and_texts(xlsx):
    path = xlsx(
        ["id", "question", "n", "f", "b", "day", "moment", "clock", "took", "nothing"],
        [
            "001", "1e5", 7, 0.5, True, dt.date(2024, 1, 2), dt.datetime(2024, 1, 2),  # noqa: DTZ001
            dt.time(3, 4), dt.timedelta(hours=25), None,
        ],
    )  # fmt: skip
    (item,) = Dataset(path).load()
    assert item.row == {
        "id": "001",
        "question": "1e5",
        "n": 7,
        "f": 0.5,
        "b": True,
        "day": "2024-01-02",
        "moment": "2024-01-02T00:00:00",
        "clock": "03:04:00",
        "took": 90000.0,
        "nothing": None,
    }


def test_a_sheet_is_the_first_or_the_one_that_is_named(xlsx):
    path = xlsx(["question"], ["x"], Second=[["question"], ["y"]])
    assert [item.input for item in Dataset(path).load()] == ["x"]
    assert [item.input for item in Dataset(path, sheet="Second").load()] == ["y"]
    message, hint = refused(path, sheet="second")
    assert message == f"{path}: there is no sheet 'second'; the sheets are 'Sheet', 'Second'"
    assert hint == "did you mean 'Second'?"


def test_empty_rows_of_a_sheet_are_none_and_the_numbers_are_those_of_the_sheet(xlsx):
    path = xlsx([], ["id", "question"], [], ["a", "x"], [None, None], ["b", None], [], [None])
    dataset = Dataset(path, on_bad_row="skip").load()
    assert [item.id for item in dataset] == ["a"]
    (bad,) = dataset.bad_rows
    assert str(bad) == (
        f"{path}, row 6: the input 'question' is null: {{'id': 'b', 'question': None}}"
    )


def test_a_value_below_no_header_is_a_bad_row(xlsx):
    path = xlsx(["id", None, "question"], ["a", None, "x"], ["b", "?", "y"], ["c", None, "z", 9])
    dataset = Dataset(path, on_bad_row="skip").load()
    assert [item.row for item in dataset] == [{"id": "a", "question": "x"}]
    assert [bad.reason for bad in dataset.bad_rows] == [
        "column 2 has a value but no name",
        "column 4 has a value but no name",
    ]


def test_a_header_is_text_and_has_each_name_once(xlsx):
    (item,) = Dataset(xlsx(["question", 2024], ["x", 1])).load()
    assert item.row == {"question": "x", "2024": 1}
    path = xlsx(["question", "question"], ["x", "y"])
    assert refused(path)[0] == (
        f"{path}, row 1: the header cannot be used: columns 1 and 2 have the same name: "
        "['question', 'question']"
    )


def test_an_empty_sheet_is_an_error(xlsx):
    assert refused(xlsx())[0].endswith("q.xlsx: is empty")
    assert refused(xlsx(["question"]))[0].endswith("q.xlsx: there are no rows")


def test_a_formula_without_a_saved_value_is_a_bad_row_and_not_null(xlsx):
    path = xlsx(["id", "question", "answer"], ["a", "1+1", "=1+1"], ["b", "2", "4"])
    dataset = Dataset(path, on_bad_row="skip").load()
    assert [item.id for item in dataset] == ["b"]
    assert dataset.bad_rows[0].reason == (
        "the formula in C2 has no saved value: open the file in Excel and save it"
    )


def test_a_formula_with_a_saved_value_is_that_value(xlsx, tmp_path):
    path = xlsx(["id", "question", "answer"], ["a", "1+1", "=1+1"])
    saved = tmp_path / "saved.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(saved, "w") as new:
        for name in old.namelist():
            new.writestr(
                name, old.read(name).replace(b"<v></v>", b"<v>2</v>").replace(b"<v />", b"<v>2</v>")
            )
    (item,) = Dataset(saved).load()
    assert item.expected == 2


def test_a_sheet_with_wrong_dimensions_is_read_completely(xlsx, tmp_path):
    path = xlsx(["id", "question"], ["a", "x"], ["b", "y"])
    other = tmp_path / "other.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'ref="A1:B3"', b'ref="A1"'))
    assert [item.row["question"] for item in Dataset(other).load()] == ["x", "y"]


def test_a_workbook_that_breaks_off_is_refused(xlsx, tmp_path):
    path = xlsx(["question"], *(["x"] for _ in range(100)))
    broken = tmp_path / "broken.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(broken, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content[:1000] if "sheet1" in name else content)
    assert refused(broken)[0].startswith(f"{broken}: cannot be read as XLSX: ParseError: ")
