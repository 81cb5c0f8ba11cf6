"""How are rows read from a Parquet file, with its exact names and values?

duckdb reads the file. By default it treats the path as a pattern, adds columns from folder names,
renames `ID` beside `id`, needs pytz for times with a zone, and drops nanoseconds; all of that is
worked around here.
"""

from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from limpet.datasets.rows import Row, Rows, flaw_of_columns, plain_cell
from limpet.errors import DatasetError
from limpet.text import one_line

_AT_ONCE = 1000
_AS_TEXT = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS")
_FILE = "read_parquet(?, hive_partitioning=false)"


def read_parquet(duckdb: Any, path: Path, place: str) -> Rows:
    """Yield the rows of a Parquet file.

    Raises:
        DatasetError: The file is not valid Parquet.
    """
    try:
        with duckdb.connect(":memory:") as connection:
            yield from _rows(connection, escape(str(path)), place)
    except duckdb.Error as error:
        first = str(error).partition("\n")[0]
        raise DatasetError(f"{place}: cannot be read as Parquet: {one_line(first)}") from error


def _rows(connection: Any, path: str, place: str) -> Rows:
    connection.execute("SET TimeZone='UTC'")
    names = _names(connection, path)
    if (flaw := flaw_of_columns(names)) is not None:
        raise DatasetError(f"{place}: {flaw}: {one_line(names)}", hint="rename the columns")
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
