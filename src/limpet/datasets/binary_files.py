"""How are rows read from a Parquet file, and from a sheet of an XLSX workbook?"""

import datetime as dt
import zipfile
from collections.abc import Iterator, Sequence
from glob import escape
from itertools import repeat
from pathlib import Path
from typing import Any

from limpet.datasets.columns import listed
from limpet.datasets.rows import Flaw, Row, Rows, flaw_of_columns, plain_cell
from limpet.errors import DatasetError
from limpet.text import hint_near, one_line

# ---- How are rows read from a Parquet file, with its exact names and values? --------------------
#
# duckdb reads the file. By default it treats the path as a pattern, adds columns from folder
# names, renames `ID` beside `id`, needs pytz for times with a zone, and drops nanoseconds; all of
# that is worked around here.

_AT_ONCE = 1000
_AS_TEXT = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS")
_FILE = "read_parquet(?, hive_partitioning=false)"


def read_parquet(duckdb: Any, path: Path, location: str) -> Rows:
    """Yield the rows of a Parquet file.

    Raises:
        DatasetError: The file is not valid Parquet.
    """
    try:
        with duckdb.connect(":memory:") as connection:
            yield from _rows(connection, escape(str(path)), location)
    except duckdb.Error as error:
        first = str(error).partition("\n")[0]
        raise DatasetError(f"{location}: cannot be read as Parquet: {one_line(first)}") from error


def _rows(connection: Any, path: str, location: str) -> Rows:
    connection.execute("SET TimeZone='UTC'")
    names = _names(connection, path)
    if (flaw := flaw_of_columns(names)) is not None:
        raise DatasetError(f"{location}: {flaw}: {one_line(names)}", hint="rename the columns")
    columns = connection.execute(f"DESCRIBE SELECT * FROM {_FILE}", [path]).fetchall()  # noqa: S608
    chosen = ", ".join(_expression(name, kind) for name, kind, *_ in columns)
    result = connection.execute(f"SELECT {chosen} FROM {_FILE}", [path])  # noqa: S608
    for number, cells in enumerate(_tuples(result), 1):
        yield Row(number, dict(zip(names, map(plain_cell, cells), strict=True)))


def _tuples(result: Any) -> Iterator[Sequence[Any]]:
    while many := result.fetchmany(_AT_ONCE):
        yield from many


def _names(connection: Any, path: str) -> list[str]:
    """Return the file's own column names: the children of the schema's root."""
    query = "SELECT name, num_children FROM parquet_schema(?)"
    (_, many), *elements = connection.execute(query, [path]).fetchall()
    names, below = [], 0
    for name, children in elements:
        if below:
            below -= 1
        else:
            names.append(name)
        below += children or 0
    assert len(names) == many
    return names


def _expression(name: str, kind: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"replace({quoted}::VARCHAR, ' ', 'T') || ':00'"
    if kind == "TIMESTAMP_NS":
        return f"replace({quoted}::VARCHAR, ' ', 'T')"
    as_text = kind
    for other in _AS_TEXT:
        as_text = as_text.replace(other, "VARCHAR")
    return quoted if as_text == kind else f"{quoted}::{as_text}"


# ---- How are rows read from a sheet of an XLSX workbook? ----------------------------------------

_FORMULA = (b"<f>", b"<f ")


def read_xlsx(openpyxl: Any, path: Path, location: str, sheet: str | None) -> Rows:
    """Yield the rows below the header of a sheet, skipping empty rows.

    Raises:
        DatasetError: The file is not valid XLSX, or the sheet is missing.
    """
    try:
        with path.open("rb") as file, path.open("rb") as again:
            values = openpyxl.load_workbook(file, read_only=True, data_only=True)
            formulas = openpyxl.load_workbook(again, read_only=True) if _calculates(path) else None
            yield from _sheet_rows(_cells(values, formulas, sheet, location), location)
    except (DatasetError, OSError):
        raise
    except Exception as error:  # a broken archive or broken XML may raise anything
        raise DatasetError(
            f"{location}: cannot be read as XLSX: {one_line(f'{type(error).__name__}: {error}')}",
            hint="open it and save it again as .xlsx",
        ) from error


def _calculates(path: Path) -> bool:
    """Return whether there are formulas: their values may not be saved."""
    with zipfile.ZipFile(path) as archive:
        sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
        contents = (archive.read(name) for name in sheets if name.endswith(".xml"))
        return any(tag in content for content in contents for tag in _FORMULA)


def _cells(
    values: Any, formulas: Any | None, sheet: str | None, location: str
) -> Iterator[tuple[int, list[Any], str | None]]:
    """Yield each row's number, its cells, and the first formula in it without a saved value."""
    rows = _sheet_of(values, sheet, location).iter_rows()
    others = repeat(()) if formulas is None else _sheet_of(formulas, sheet, location).iter_rows()
    for number, (row, other) in enumerate(zip(rows, others, strict=False), 1):
        cells = [_value_of(cell) for cell in row]
        pairs = zip(other, cells, strict=False)
        unsaved = [cell for cell, known in pairs if known is None and cell.value is not None]
        while cells and cells[-1] is None:
            cells.pop()
        yield number, cells, next((cell.coordinate for cell in unsaved), None)


def _sheet_of(workbook: Any, sheet: str | None, location: str) -> Any:
    sheets = {worksheet.title: worksheet for worksheet in workbook.worksheets}
    if not sheets:
        raise DatasetError(f"{location}: the workbook has no sheet with cells")
    if sheet is not None and sheet not in sheets:
        raise DatasetError(
            f"{location}: there is no sheet {one_line(repr(sheet))}; "
            f"the sheets are {listed(sheets)}",
            hint=hint_near(sheet, sheets),
        )
    chosen = next(iter(sheets.values())) if sheet is None else sheets[sheet]
    chosen.reset_dimensions()  # some programs write dimensions that are too small
    return chosen


def _value_of(cell: Any) -> Any:
    value = cell.value
    # A workbook has no dates, only times that are displayed without hours.
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return (value if "h" in cell.number_format.lower() else value.date()).isoformat()
    return plain_cell(value)


def _sheet_rows(rows: Iterator[tuple[int, list[Any], str | None]], location: str) -> Rows:
    header: list[str | None] | None = None
    for number, cells, lost in rows:
        if lost is not None:
            reason = f"the formula in {lost} has no saved value: open the file in Excel and save it"
            yield Flaw(number, cells, reason)
        elif cells and header is None:
            header = _header_of(cells, number, location)
        elif cells and header is not None:
            yield _row(number, header, cells)
    if header is None:
        raise DatasetError(f"{location}: is empty", hint="the first row names the columns")


def _header_of(cells: Sequence[Any], number: int, location: str) -> list[str | None]:
    names = [None if cell is None else str(cell) for cell in cells]
    if (flaw := flaw_of_columns([name for name in names if name is not None])) is not None:
        raise DatasetError(
            f"{location}, row {number}: the header cannot be used: {flaw}: {one_line(list(cells))}",
            hint="the first row names the columns, each once",
        )
    return names


def _row(number: int, header: Sequence[str | None], cells: list[Any]) -> Row | Flaw:
    names = [*header, *repeat(None, len(cells) - len(header))]
    padded = [*cells, *repeat(None, len(header) - len(cells))]
    for at, (name, value) in enumerate(zip(names, padded, strict=True), 1):
        if name is None and value is not None:
            return Flaw(number, cells, f"column {at} has a value but no name")
    pairs = zip(names, padded, strict=True)
    return Row(number, {name: value for name, value in pairs if name is not None})
