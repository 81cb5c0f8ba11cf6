"""How are the results of a run exported?

As a table with the columns of `EvaluationResult.to_dataframe`. The run is read twice, first for the
columns, and never held in memory: there may be a million rows.
"""

import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.journal.files import file_chunks, replace_file
from limpet.json_values import encode
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import VariantRun
from limpet.run.results.table import (
    VALUE,
    Key,
    Table,
    cells_of,
    csv_line,
    flat_cell,
    means_of,
    spreadsheet_cell,
    without_controls,
)

_MARKDOWN = re.compile(r"[\\`*_\[\]|~$]")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>", "\t": " "})


class ExportRows:
    """The results of a run as the rows of a table.

    Args:
        reader: Reads the run.
        by_item: One row for each item, with means over its trials.

    Attributes:
        columns: The columns and their names.
    """

    def __init__(self, reader: RunReader, *, by_item: bool = False) -> None:
        self._reader = reader
        self._count(Table(reader.evaluators, by_item=by_item), by_item=by_item)

    def _count(self, table: Table, *, by_item: bool) -> None:
        self._by_item = by_item
        self._length = 0
        for cells in self._cells():
            table.add(cells)
            self._length += 1
        self.columns = table.names()

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self.columns.values()]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[list[Any]]:
        for cells in self._cells():
            yield [cells.get(key) for key in self.columns]

    def _cells(self) -> Iterator[dict[Key, Any]]:
        return self._cells_in(self._reader)

    def _cells_in(self, reader: RunReader) -> Iterator[dict[Key, Any]]:
        if self._by_item:
            return map(means_of, reader.trials_of_items())
        return map(cells_of, reader.items())


class VariantRows(ExportRows):
    """The results of all runs of a matrix. The first columns name the variant.

    Args:
        variants: The variants; those that have not begun have no rows.
        by_item: One row for each item, with means over its trials.
    """

    def __init__(self, variants: Iterable[VariantRun], *, by_item: bool = False) -> None:
        self._variants = [variant for variant in variants if variant.has_begun]
        evaluators: dict[str, None] = {}
        for variant in self._variants:
            with RunReader(variant.path) as reader:
                evaluators |= dict.fromkeys(reader.evaluators)
        labels = dict.fromkeys(label for variant in self._variants for label in variant.values)
        self._count(Table(evaluators, by_item=by_item, first=("variant", *labels)), by_item=by_item)

    def _cells(self) -> Iterator[dict[Key, Any]]:
        for variant in self._variants:
            about: dict[Key, Any] = {("variant", "variant"): variant.path.name}
            about |= {("variant", label): value for label, value in variant.values.items()}
            with RunReader(variant.path) as reader:
                for cells in self._cells_in(reader):
                    yield about | cells


def as_jsonl(rows: ExportRows) -> Iterator[bytes]:
    """Yield a JSON object for each row, with unchanged values."""
    names = rows.names
    for row in rows:
        yield encode(dict(zip(names, row, strict=True)))[0] + b"\n"


def as_csv(rows: ExportRows) -> Iterator[bytes]:
    """Yield the lines of a CSV file."""
    yield csv_line(map(spreadsheet_cell, rows.names))
    for row in rows:
        yield csv_line(map(spreadsheet_cell, row))


def as_markdown(rows: ExportRows) -> Iterator[bytes]:
    """Yield the lines of a Markdown table, as GitHub renders it."""
    yield _markdown_line(map(_markdown_cell, rows.names))
    yield _markdown_line("---" for _ in rows.names)
    for row in rows:
        yield _markdown_line(map(_markdown_cell, row))


def _markdown_line(cells: Iterable[str]) -> bytes:
    return f"| {' | '.join(cells)} |\n".encode("utf-8", "backslashreplace")


def _markdown_cell(value: Any) -> str:
    """Return a value as text that Markdown shows verbatim, on one line."""
    flat = flat_cell(value)
    text = "" if flat is None else str(flat)
    return _MARKDOWN.sub(r"\\\g<0>", without_controls(text)).translate(_HTML)


# ---- Parquet, written by duckdb from lines of JSON. ---------------------------------------------

_TEXT, _WHOLE, _NUMBER, _TRUTH = "VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"
_WIDEST = {_NUMBER: 2**53, _WHOLE: 2**63}  # the narrower first
_EMPTY = {"trial": _WHOLE, "attempts": _WHOLE, "seconds": _NUMBER}


def write_parquet(rows: ExportRows, path: Path) -> None:
    """Write a Parquet file: columns of numbers are numbers, the others strings.

    Raises:
        LimpetError: duckdb is not installed, or fails.
    """
    try:
        duckdb = import_module("duckdb")
    except ImportError as error:
        raise LimpetError(
            f"writing Parquet needs duckdb, which cannot be imported ({error})",
            hint="pip install 'limpet[data]'",
        ) from error
    with tempfile.TemporaryDirectory(prefix="limpet-") as folder:
        lines, table = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        types = _types(rows)
        longest = _write_rows(rows, types, lines)
        try:
            with duckdb.connect(":memory:") as connection:
                connection.execute(_copy_query(rows.names, types, longest, lines, table))
        except duckdb.Error as error:
            raise LimpetError(f"{path}: duckdb failed: {error}") from error
        replace_file(path, file_chunks(table))


def _types(rows: ExportRows) -> list[str]:
    """Return the type of each column, by its values."""
    found: list[set[str]] = [set() for _ in rows.columns]
    for row in rows:
        for types, value in zip(found, row, strict=True):
            if value is not None:
                types.add(_type_of(value))
    return [_common(key, types) for key, types in zip(rows.columns, found, strict=True)]


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return _TRUTH
    if isinstance(value, int):
        fitting = (kind for kind, widest in _WIDEST.items() if -widest <= value < widest)
        return next(fitting, _TEXT)
    return "FLOAT" if isinstance(value, float) else _TEXT


def _common(key: Key, types: set[str]) -> str:
    """Return the type for every value: DOUBLE also stands for integers that a float holds."""
    is_score = key[0] == "score" and key[-1] == VALUE
    if not types:
        return _NUMBER if is_score else _EMPTY.get(str(key[-1]), _TEXT)
    if is_score and types <= {_TRUTH, _NUMBER, "FLOAT"}:
        return _NUMBER
    if types == {_TRUTH}:
        return _TRUTH
    if types <= {_NUMBER, _WHOLE}:
        return _WHOLE
    return _NUMBER if types <= {_NUMBER, "FLOAT"} else _TEXT


def _write_rows(rows: ExportRows, types: Sequence[str], path: Path) -> int:
    """Write the rows for duckdb to read, and return the length of the longest line."""
    longest = 0
    with path.open("wb") as file:
        for row in rows:
            cells = map(_parquet_cell, types, row)
            # By number: a column may have any name, and names may repeat.
            line = encode({f"c{number}": cell for number, cell in enumerate(cells)})[0] + b"\n"
            longest = max(longest, len(line))
            file.write(line)
    return longest


def _parquet_cell(kind: str, value: Any) -> Any:
    if kind == _TRUTH:
        return value
    cell = flat_cell(value)
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)  # duckdb reads "nan" and "inf" as numbers
    return cell if cell is None or kind != _TEXT else _sql_text(str(cell))


def _sql_text(text: str) -> str:
    # A string in Parquet can hold neither a lone surrogate nor a NUL.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _copy_query(
    columns: Sequence[str], kinds: Sequence[str], longest: int, rows: Path, to: Path
) -> str:
    types = ", ".join(f"c{number}: '{kind}'" for number, kind in enumerate(kinds))
    names = ", ".join(f"c{number} AS {_sql_name(name)}" for number, name in enumerate(columns))
    source = (
        f"read_json({_sql_string(rows)}, format='newline_delimited', columns={{{types}}}, "
        f"maximum_object_size={max(longest * 2, 2**24)})"
    )
    return f"COPY (SELECT {names} FROM {source}) TO {_sql_string(to)} (FORMAT parquet)"  # noqa: S608


def _sql_name(name: str) -> str:
    return '"' + _sql_text(name).replace('"', '""') + '"'


def _sql_string(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
