"""What did people write into their files?

A CSV or Excel file of `limpet sample`, filled in; or any table with the columns `id` and `label`.
"""

import os
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from limpet.datasets.csv_files import CsvForm
from limpet.datasets.rows import Flaw, Row, Table
from limpet.datasets.sources import table_of, table_of_file
from limpet.errors import LimpetError
from limpet.run.calibrating.sampling import DRAWN, LABEL
from limpet.text import hint_near, one_line, quoted

_PEOPLE = ("person", "annotator")
_MOST = 5


class Said(NamedTuple):
    """A row of a file.

    Attributes:
        where: The file and the line.
        id: The item's id as written.
        trial: The trial as written; None: not written.
        label: What the person wrote; None: nothing yet.
        drawn: What the column `drawn` says, which answer this is about; empty: there is none.
        person: Who; empty: not said.
        evaluator: The evaluator, or one of its scores; empty: any.
        note: What else the person wrote.
        seen: Whether the scores were in view.
        at: When it was said; empty: not known.
    """

    where: str
    id: str
    trial: Any
    label: Any
    drawn: str
    person: str
    evaluator: str = ""
    note: str = ""
    seen: bool = False
    at: str = ""


def read_labels(
    source: Any, *, column: str | None = None, names: Collection[str] = ()
) -> list[Said]:
    """Return the rows of what people labelled, also those that they have not labelled yet.

    Args:
        source: A path, a list of dicts, or a DataFrame.
        column: The column of the labels; None: `label`.
        names: Rows that name something else in a column `evaluator` are left out.

    Raises:
        LimpetError: It cannot be read, or a column is missing.
    """
    table = _table(source)
    rows, flaws = said_in(table, column)
    said = [one for one in rows if not one.evaluator or one.evaluator in names]
    if flaws:
        flaw = flaws[0]
        raise LimpetError(f"{table.at(flaw.number)}: {flaw.reason}: {one_line(flaw.value)}")
    if not said:
        raise LimpetError(f"{table.place}: there are no rows")
    return said


def said_in(
    table: Table, column: str | None = None, *, strict: bool = True
) -> tuple[list[Said], list[Flaw]]:
    """Return what the rows of a table say, and those that cannot be read.

    Args:
        table: The table.
        column: The column of the labels; None: `label`.
        strict: Whether a column that a row does not have is an error.

    Raises:
        LimpetError: It cannot be read, or a column is missing.
    """
    said: list[Said] = []
    flaws: list[Flaw] = []
    with closing(table.rows) as rows:
        for row in rows:
            if isinstance(row, Flaw):
                flaws.append(row)
                continue
            try:
                said += filter(None, [_said(table, row, column)])
            except LimpetError as error:
                if strict:
                    raise
                flaws.append(Flaw(row.number, row.values, str(error)))
    return said, flaws


def _table(source: Any) -> Table:
    if not isinstance(source, (str, os.PathLike)):
        return table_of(source, None)
    table = table_of_file(source)
    if Path(source).suffix.lower() == ".csv" and _has_semicolons(source):
        table.rows.close()
        return table_of_file(source, form=CsvForm(delimiter=";"))
    return table


def _has_semicolons(source: "str | os.PathLike[str]") -> bool:
    """Return whether the header is one column with semicolons: some Excels write these."""
    with closing(table_of_file(source).rows) as rows:
        first = next(rows, None)
    return isinstance(first, Row) and len(first.values) == 1 and ";" in next(iter(first.values))


def _said(table: Table, row: Row, column: str | None) -> Said | None:
    """Return what a row says; None: it is empty."""
    cells = {str(name).strip().casefold(): value for name, value in row.values.items()}
    if all(_is_empty(value) for value in cells.values()):
        return None
    named = (column or LABEL).strip().casefold()
    for name in (named, "id"):
        if name not in cells:
            known = ", ".join(map(one_line, row.values))
            raise LimpetError(
                f"{table.place}: there is no column {quoted(name)}; the columns are {known}",
                hint=hint_near(name, list(row.values))
                or "name the column of the labels with --label-column (in Python: label_column=)",
            )
    label = cells[named]
    trial = cells.get("trial")
    return Said(
        table.at(row.number),
        _text(cells.get("id")),
        None if _is_empty(trial) else trial,
        None if _is_empty(label) else label,
        _text(cells.get(DRAWN)),
        next((_text(cells[name]) for name in _PEOPLE if name in cells), ""),
        _text(cells.get("evaluator")),
        _text(cells.get("note")),
        cells.get("seen") is True,
        _text(cells.get("at")),
    )


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # a spreadsheet has no integers
        value = int(value)
    return "" if value is None else str(value)


def listed(names: Sequence[str]) -> str:
    """Return the first few names, for a message."""
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return f"{', '.join(map(one_line, names[:_MOST]))}{more}"
