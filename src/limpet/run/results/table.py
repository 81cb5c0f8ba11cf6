"""Which columns do results have as a table, and what are they called?

Each cell of a row has a key that says exactly what it is, so that a field `output` of the dataset
and the workflow's output never meet. Only at the end does each key get a name, and no two get the
same: a name that is taken becomes `row.output` for a field of the dataset, and `judge.error_` for
what belongs to a score.
"""

import csv
import io
import math
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from limpet.errors import LimpetError
from limpet.journal.files import file_chunks, replace_file
from limpet.json_values import encode
from limpet.run.results.costs import is_bounded, mean
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import agreement_of
from limpet.shapes import COLUMNS
from limpet.text import one_line

# ---- How is a value written into one cell of a table that people open? --------------------------

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_CONTROLS = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WIDEST_BITS = 13_000  # Python refuses to print more than 4,300 digits


def csv_line(cells: Iterable[Any]) -> bytes:
    """Return a line of a CSV file."""
    text = io.StringIO()
    # This terminator makes csv quote a cell with a lone \r, too; the line itself ends in \n.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return (text.getvalue()[:-2] + "\n").encode("utf-8", "backslashreplace")


def without_controls(text: str) -> str:
    r"""Return a string with control characters written out, like `\x1b`."""
    return _CONTROLS.sub(
        lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n")
    )


def spreadsheet_cell(value: Any) -> Any:
    """Return a value for a cell that no spreadsheet runs as a formula."""
    cell = flat_cell(value)
    if not isinstance(cell, str) or not cell.startswith(_FORMULA) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def flat_cell(value: Any) -> Any:
    """Return a value for one cell: numbers and strings unchanged, the rest as JSON."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and value.bit_length() > _WIDEST_BITS:
        return hex(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return encode(value)[0].decode()


# ---- How are rows written as an Excel file? -----------------------------------------------------

MOST_LETTERS = 32_767
"""The longest text that a cell of an Excel file can hold."""
_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
_WIDEST = 2**53


class SizedRows(Protocol):
    """The rows of a table, of which the number is known: the cells of each."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[list[Any]]: ...


def write_xlsx(names: Sequence[str], rows: SizedRows, path: Path) -> int:
    """Write an Excel file, and return how many cells were too long and are shortened.

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
    shortened = 0
    with closing(book.create_sheet("results")) as sheet:
        sheet.freeze_panes = "B2"
        for row in _lines(names, rows):
            shortened += sum(isinstance(value, str) and len(value) > MOST_LETTERS for value in row)
            sheet.append([_excel_cell(sheet, value) for value in row])
    with tempfile.TemporaryDirectory(prefix="limpet-") as directory:
        file = Path(directory) / "results.xlsx"
        book.save(file)
        replace_file(path, file_chunks(file))
    return shortened


def _lines(names: Sequence[str], rows: SizedRows) -> Iterator[list[Any]]:
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


# ---- Which columns do results have as a table, and what are they called? ------------------------

Key = tuple[str, ...] | tuple[str, str, str | None, str]
"""What a cell is: `("own", name)`, `("score", evaluator, part, fact)`, `("fact", step, name)`,
`("row", field)` or, of a variant of a matrix, `("variant", label)`. The part is None where an
evaluator gives one score; the step of the workflow's facts is empty."""
VALUE = "value"
_FACTS = (VALUE, "label", "explanation", "agreement", "metadata", "n", "labels")
_BY_ITEM = ("id", "input", "expected", "trials", "completed", "failed", "seconds", "attempts")


class Table:
    """The columns of some results. Add every row, then ask for names and rows.

    A column of COLUMNS, of an evaluator or of the dataset is always there. The others are left out
    if no row has a value for them.

    Args:
        evaluators: The names of the evaluators, in order.
        by_item: Have one row for each item, with means over its trials.
        first: What a variant of a matrix varies: columns before all others.
    """

    def __init__(
        self, evaluators: Iterable[str], *, by_item: bool = False, first: Sequence[str] = ()
    ) -> None:
        self._first = first
        self._own = _BY_ITEM if by_item else COLUMNS
        self._parts: dict[str, dict[str | None, set[str]]] = {name: {} for name in evaluators}
        self._facts: dict[str, dict[str, None]] = {"": {}}
        self._fields: dict[str, None] = {}

    def add(self, cells: Mapping[Key, Any]) -> None:
        """Note the columns that a row has."""
        for key, value in cells.items():
            if key[0] == "row":
                self._fields[str(key[1])] = None
            elif value is not None and key[0] == "fact":
                self._facts.setdefault(str(key[1]), {})[str(key[2])] = None
            elif value is not None and key[0] == "score":
                _, evaluator, part, fact = key
                self._parts.setdefault(str(evaluator), {}).setdefault(part, set()).add(str(fact))

    def names(self) -> dict[Key, str]:
        """Return the name of each column, in order."""
        own: list[Key] = [("own", name) for name in self._own]
        of_workflow = self._step_keys("")
        scores = [self._score_keys(name) for name in self._parts]
        facts = [self._step_keys(name) for name in self._parts]
        fields: list[Key] = [("row", name) for name in self._fields]
        values = [key for keys in scores for key in keys if key[-1] == VALUE]
        rest = [key for keys in (*scores, *facts) for key in keys if key[-1] != VALUE]
        first: list[Key] = [("variant", name) for name in self._first]
        names = _unique_names([*own, *of_workflow, *values, *rest, *first, *fields])
        by_evaluator = [key for pair in zip(scores, facts, strict=True) for keys in pair
                        for key in keys]  # fmt: skip
        return {key: names[key] for key in (*first, *own, *by_evaluator, *of_workflow, *fields)}

    def _score_keys(self, evaluator: str) -> list[Key]:
        parts = self._parts[evaluator] or {None: {VALUE}}
        return [
            ("score", evaluator, part, fact)
            for part, known in parts.items()
            for fact in _FACTS
            if fact in known
        ]

    def _step_keys(self, step: str) -> list[Key]:
        return [("fact", step, name) for name in self._facts.get(step, ())]


def _unique_names(keys: Iterable[Key]) -> dict[Key, str]:
    names: dict[Key, str] = {}
    taken = {""}  # a column without a name is of no use in SQL
    for key in keys:
        name = _plain_name(key)
        while name.casefold() in taken:  # SQL does not tell `Output` from `output`
            name = f"row.{name}" if key[0] == "row" else f"{name}_"
        taken.add(name.casefold())
        names[key] = name
    return names


def _plain_name(key: Key) -> str:
    parts = key[1:-1] if key[0] == "score" and key[-1] == VALUE else key[1:]
    return ".".join(part for part in parts if part)


# ---- a row for each item in each trial ----------------------------------------------------------


def cells_of(item: ItemRecord) -> dict[Key, Any]:
    """Return what is known of an item in one trial."""
    error = item.error or {}
    own = (
        _id_of(item), item.trial, item.input, item.expected, item.output, item.status.value,
        item.seconds, item.attempts, error.get("message"),
    )  # fmt: skip
    cells: dict[Key, Any] = {("own", name): value for name, value in zip(COLUMNS, own, strict=True)}
    for name, record in item.scores.items():
        cells.update(_score_cells(name, record))
    for name, failure in item.score_errors.items():
        cells["fact", name, "error"] = failure.get("message")
        cells["fact", name, "error.class"] = failure.get("class")
    for name, facts in item.score_usage.items():
        cells.update(_usage_cells(name, facts.get("usage") or {}))
    cells["fact", "", "error.class"] = error.get("class")
    cells.update(_usage_cells("", item.usage))
    cells["fact", "", "output.metadata"] = item.metadata
    cells["fact", "", "output.version"] = item.version or None
    cells.update(_field_cells(item))
    return cells


def _score_cells(evaluator: str, record: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    parts: Mapping[str | None, Any] = record.get("scores") or {None: record}
    for part, score in parts.items():
        value, label = score.get("value"), score.get("label")
        yield ("score", evaluator, part, VALUE), label if value is None else value
        yield ("score", evaluator, part, "label"), label
        yield ("score", evaluator, part, "explanation"), score.get("explanation") or None
        yield ("score", evaluator, part, "agreement"), agreement_of(score)
        yield ("score", evaluator, part, "metadata"), score.get("metadata")


def _usage_cells(step: str, usage: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    return ((("fact", step, f"usage.{name}"), count) for name, count in usage.items())


def _field_cells(item: ItemRecord) -> Iterator[tuple[Key, Any]]:
    """Yield the fields of the row, but not those that are the columns id, input and expected."""
    elsewhere = {name for role, name in item.roles.items() if role != "id" or _has_id(item)}
    return ((("row", name), value) for name, value in item.row.items() if name not in elsewhere)


def _id_of(item: ItemRecord) -> Any:
    """Return the id as the dataset has it: a table is joined with the dataset by its ids."""
    return item.row[item.roles["id"]] if _has_id(item) else item.id


def _has_id(item: ItemRecord) -> bool:
    id_ = item.row.get(item.roles.get("id", ""))
    return isinstance(id_, (str, int, float)) and str(id_) == item.id


# ---- a row for each item ------------------------------------------------------------------------


def rows_by_item(items: Iterable[ItemRecord]) -> Iterator[dict[Key, Any]]:
    """Yield the means of each item, in the order in which the items appear."""
    by_id: defaultdict[str, list[ItemRecord]] = defaultdict(list)
    for item in items:
        by_id[item.id].append(item)
    return map(means_of, by_id.values())


def means_of(trials: Sequence[ItemRecord]) -> dict[Key, Any]:
    """Return the means of an item over its trials. A trial without a score does not count."""
    first = trials[0]
    failed = sum(item.error is not None for item in trials)
    counts = (len(trials), sum(item.is_completed for item in trials), failed)
    own = (_id_of(first), first.input, first.expected, *counts)
    cells: dict[Key, Any] = {("own", name): value for name, value in zip(_BY_ITEM, own)}  # noqa: B905 - the others are means
    values: defaultdict[Key, list[Any]] = defaultdict(list)
    for item in trials:
        if item.attempts:
            for key, value in cells_of(item).items():
                values[key].append(value)
    for key, known in values.items():
        cells.update(_means(key, [value for value in known if value is not None]))
    cells.update(_field_cells(first))
    return cells


def _means(key: Key, values: Sequence[Any]) -> Iterator[tuple[Key, Any]]:
    """Yield the mean of one column, and for a score the number of its values, or its labels."""
    numbers = [value for value in values if isinstance(value, (int, float)) and is_bounded(value)]
    if key[0] == "score":
        _, evaluator, part, fact = key
        if fact == VALUE and values:
            yield key, mean(numbers)
            yield ("score", str(evaluator), part, "n"), len(numbers) or None
        elif fact == "label" and values:
            yield ("score", str(evaluator), part, "labels"), dict(Counter(values))
    elif key in (("own", "seconds"), ("own", "attempts")) or (
        key[0] == "fact" and str(key[-1]).startswith("usage.")
    ):
        yield key, mean(numbers)
