"""How are the rows of a run written as a Parquet file? By duckdb, from lines of JSON."""

import math
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.journal.files import file_chunks, replace_file
from limpet.json_values import encode
from limpet.report.export import Rows
from limpet.run.results.table import VALUE, Key, flat_cell

_TEXT, _WHOLE, _NUMBER, _TRUTH = "VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"
_WIDEST = {_WHOLE: 2**63, _NUMBER: 2**53}
_EMPTY = {"trial": _WHOLE, "attempts": _WHOLE, "seconds": _NUMBER}


def write_parquet(rows: Rows, path: Path) -> None:
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
    with tempfile.TemporaryDirectory(prefix="limpet-") as place:
        lines, table = Path(place) / "rows.jsonl", Path(place) / "rows.parquet"
        types = _types(rows)
        longest = _write_rows(rows, types, lines)
        try:
            with duckdb.connect(":memory:") as connection:
                connection.execute(_copy_query(rows.names, types, longest, lines, table))
        except duckdb.Error as error:
            raise LimpetError(f"{path}: duckdb failed: {error}") from error
        replace_file(path, file_chunks(table))


def _types(rows: Rows) -> list[str]:
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
        return next((kind for kind in (_NUMBER, _WHOLE) if _fits(value, kind)), _TEXT)
    return "FLOAT" if isinstance(value, float) else _TEXT


def _fits(number: int, kind: str) -> bool:
    return -_WIDEST[kind] <= number < _WIDEST[kind]


def _common(key: Key, types: set[str]) -> str:
    """Return the type that holds every value: DOUBLE stands for integers that a float can hold."""
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


def _write_rows(rows: Rows, types: Sequence[str], path: Path) -> int:
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
