"""How are rows written as an Excel file?"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from limpet.errors import LimpetError
from limpet.journal.files import file_chunks, replace_file
from limpet.run.results.table_cells import spreadsheet_cell, without_controls
from limpet.text import one_line

MOST_LETTERS = 32_767
"""The longest text that a cell of an Excel file can hold."""
_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
_WIDEST = 2**53


class Rows(Protocol):
    """The rows of a table, of which the number is known: the cells of each."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[list[Any]]: ...


def write_xlsx(names: Sequence[str], rows: Rows, path: Path) -> int:
    """Write an Excel file, and return how many cells were too long and are cut.

    Args:
        names: The names of the columns.
        rows: The cells of each row.
        path: The file.

    Raises:
        LimpetError: openpyxl is not installed, or a sheet cannot hold so many rows or columns.
    """
    try:
        book = import_module("openpyxl").Workbook(write_only=True)
    except ImportError as error:
        raise LimpetError(
            f"writing Excel files needs openpyxl, which cannot be imported ({error})",
            hint="pip install 'limpet[data]'",
        ) from error
    if len(rows) >= _MOST_ROWS or len(names) > _MOST_COLUMNS:  # one row has the names
        raise LimpetError(
            f"{one_line(str(path))}: an Excel sheet holds {_MOST_ROWS:,} rows and "
            f"{_MOST_COLUMNS:,} columns, not {len(rows) + 1:,} and {len(names):,}",
            hint="write csv or parquet instead",
        )
    cut = 0
    with closing(book.create_sheet("results")) as sheet:
        sheet.freeze_panes = "B2"
        for row in _lines(names, rows):
            cut += sum(isinstance(value, str) and len(value) > MOST_LETTERS for value in row)
            sheet.append([_excel_cell(sheet, value) for value in row])
    with tempfile.TemporaryDirectory(prefix="limpet-") as place:
        file = Path(place) / "results.xlsx"
        book.save(file)
        replace_file(path, file_chunks(file))
    return cut


def _lines(names: Sequence[str], rows: Rows) -> Iterator[list[Any]]:
    yield [_excel_value(name) for name in names]
    for row in rows:
        yield [_excel_value(value) for value in row]


def _excel_value(value: Any) -> Any:
    """Return a number that Excel holds exactly, or a string."""
    cell = spreadsheet_cell(value)
    if isinstance(cell, int):
        return cell if abs(cell) <= _WIDEST else str(cell)
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else str(cell)
    return None if cell is None else without_controls(cell)


def _excel_cell(sheet: Any, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    cell = import_module("openpyxl.cell").WriteOnlyCell(sheet, value[:MOST_LETTERS])
    cell.data_type = "s"  # openpyxl would take "#N/A" as an error
    return cell
