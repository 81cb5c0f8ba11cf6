"""How are rows read from a sheet of an XLSX workbook?"""

import datetime as dt
import zipfile
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from limpet.datasets.columns import listed
from limpet.datasets.rows import Flaw, Row, Rows, flaw_of_columns, plain_cell
from limpet.errors import DatasetError
from limpet.text import hint_near, one_line

_FORMULA = (b"<f>", b"<f ")


def read_xlsx(openpyxl: Any, path: Path, place: str, sheet: str | None) -> Rows:
    """Yield the rows below the header of a sheet, skipping empty rows.

    Raises:
        DatasetError: The file is not valid XLSX, or the sheet is missing.
    """
    try:
        with path.open("rb") as file, path.open("rb") as again:
            values = openpyxl.load_workbook(file, read_only=True, data_only=True)
            formulas = openpyxl.load_workbook(again, read_only=True) if _calculates(path) else None
            yield from _rows(_cells(values, formulas, sheet, place), place)
    except (DatasetError, OSError):
        raise
    except Exception as error:  # a broken archive or broken XML may raise anything
        raise DatasetError(
            f"{place}: cannot be read as XLSX: {one_line(f'{type(error).__name__}: {error}')}",
            hint="open it and save it again as .xlsx",
        ) from error


def _calculates(path: Path) -> bool:
    """Return whether there are formulas, whose values may not have been saved."""
    with zipfile.ZipFile(path) as archive:
        sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
        contents = (archive.read(name) for name in sheets if name.endswith(".xml"))
        return any(tag in content for content in contents for tag in _FORMULA)


def _cells(
    values: Any, formulas: Any | None, sheet: str | None, place: str
) -> Iterator[tuple[int, list[Any], str | None]]:
    """Yield each row's number, its cells, and the first formula in it without a saved value."""
    rows = _sheet_of(values, sheet, place).iter_rows()
    others = repeat(()) if formulas is None else _sheet_of(formulas, sheet, place).iter_rows()
    for number, (row, other) in enumerate(zip(rows, others, strict=False), 1):
        cells = [_value_of(cell) for cell in row]
        pairs = zip(other, cells, strict=False)
        unsaved = [cell for cell, known in pairs if known is None and cell.value is not None]
        while cells and cells[-1] is None:
            cells.pop()
        yield number, cells, next((cell.coordinate for cell in unsaved), None)


def _sheet_of(workbook: Any, sheet: str | None, place: str) -> Any:
    sheets = {worksheet.title: worksheet for worksheet in workbook.worksheets}
    if not sheets:
        raise DatasetError(f"{place}: the workbook has no sheet of cells")
    if sheet is not None and sheet not in sheets:
        raise DatasetError(
            f"{place}: there is no sheet {one_line(repr(sheet))}; the sheets are {listed(sheets)}",
            hint=hint_near(sheet, sheets),
        )
    chosen = next(iter(sheets.values())) if sheet is None else sheets[sheet]
    chosen.reset_dimensions()  # some programs write too small ones, which would hide rows
    return chosen


def _value_of(cell: Any) -> Any:
    value = cell.value
    # A workbook has no dates, only times that are displayed without hours.
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return (value if "h" in cell.number_format.lower() else value.date()).isoformat()
    return plain_cell(value)


def _rows(rows: Iterator[tuple[int, list[Any], str | None]], place: str) -> Rows:
    header: list[str | None] | None = None
    for number, cells, lost in rows:
        if lost is not None:
            reason = f"the formula in {lost} has no saved value: open the file in Excel and save it"
            yield Flaw(number, cells, reason)
        elif cells and header is None:
            header = _header_of(cells, number, place)
        elif cells and header is not None:
            yield _row(number, header, cells)
    if header is None:
        raise DatasetError(f"{place}: is empty", hint="the first row names the columns")


def _header_of(cells: Sequence[Any], number: int, place: str) -> list[str | None]:
    names = [None if cell is None else str(cell) for cell in cells]
    if (flaw := flaw_of_columns([name for name in names if name is not None])) is not None:
        raise DatasetError(
            f"{place}, row {number}: the header cannot be used: {flaw}: {one_line(list(cells))}",
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
