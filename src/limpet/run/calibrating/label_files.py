"""What did people write into their files?

A CSV or Excel file of `limpet sample`, filled in; or any table with the columns `id` and `label`;
or `labels.jsonl`, which the live page writes: there, what a person said last of an answer counts.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from limpet.datasets.csv_files import CsvForm
from limpet.datasets.rows import Flaw, Row, Table
from limpet.datasets.sources import table_of, table_of_file
from limpet.errors import LimpetError
from limpet.run.calibrating.sampling import DRAWN, LABEL
from limpet.text import count, hint_near, one_line, quoted

_PEOPLE = ("person", "annotator")
_MOST = 5


class Said(NamedTuple):
    """A row of a file.

    Attributes:
        where: The file and the line.
        id: The item's id as written.
        trial: The trial as written; None: not written.
        label: What the person wrote; None: nothing yet.
        drawn: What the column `drawn` says; empty: there is none.
        person: Who; empty: not said.
    """

    where: str
    id: str
    trial: Any
    label: Any
    drawn: str
    person: str


def read_labels(source: Any, *, column: str | None = None, evaluator: str = "") -> list[Said]:
    """Return the rows of what people labelled, also those that they have not labelled yet.

    Args:
        source: A path, a list of dicts, or a DataFrame.
        column: The column of the labels; None: `label`.
        evaluator: Rows that name another evaluator in a column `evaluator` are left out.

    Raises:
        LimpetError: It cannot be read, or a column is missing.
    """
    table = _table(source)
    said, flaws = _rows(table, column, evaluator)
    if flaws:
        flaw = flaws[0]
        raise LimpetError(f"{table.at(flaw.number)}: {flaw.reason}: {one_line(flaw.value)}")
    if not said:
        raise LimpetError(f"{table.place}: there are no rows")
    return said


def read_log(path: Path, evaluator: str, remarks: list[str]) -> list[Said]:
    """Return what people said on the live page: of each person and answer, what was said last.

    A line that is torn is left out, and said in the remarks.

    Raises:
        LimpetError: It cannot be read, or is empty.
    """
    table = table_of_file(path)
    said, flaws = _rows(table, None, evaluator)
    if flaws:
        lines = count(len(flaws), "line")
        remarks.append(f"{lines} of {path.name} cannot be read: {table.at(flaws[0].number)}")
    if not said:
        raise LimpetError(f"{table.place}: there are no rows")
    return list({(one.id, str(one.trial or 0), one.person): one for one in said}.values())


def _rows(table: Table, column: str | None, evaluator: str) -> tuple[list[Said], list[Flaw]]:
    said: list[Said] = []
    flaws: list[Flaw] = []
    with closing(table.rows) as rows:
        for row in rows:
            if isinstance(row, Flaw):
                flaws.append(row)
                continue
            known = _said(table, row, column)
            if known is not None and row.values.get("evaluator") in (None, "", evaluator):
                said.append(known)
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
    )


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # a spreadsheet has no integers
        value = int(value)
    return "" if value is None else str(value)


def listed(places: Sequence[str]) -> str:
    """Return the first few of some places, for a message."""
    more = f" and {len(places) - _MOST:,} more" if len(places) > _MOST else ""
    return f"{', '.join(map(one_line, places[:_MOST]))}{more}"
