"""How are rows read from a list or a DataFrame in memory?

DataFrames are recognised by their shape: neither pandas nor polars is imported.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from limpet.datasets.cells import plain_cell
from limpet.datasets.rows import Flaw, Row, Rows, flaw_of_columns
from limpet.errors import DatasetError
from limpet.text import one_line


def read_rows(source: Iterable[Any]) -> Rows:
    """Yield copies of the rows of an iterable, so that later changes do not matter."""
    for number, row in enumerate(source, 1):
        if not isinstance(row, Mapping):
            yield Flaw(number, row, f"a row must be a dict, not {type(row).__name__}")
        elif not all(isinstance(name, str) for name in row):
            yield Flaw(number, row, "a column name is not a string")
        else:
            yield Row(number, dict(row))


def is_frame(source: object) -> bool:
    """Return whether this looks like a pandas or polars DataFrame."""
    if isinstance(source, type) or not hasattr(source, "columns"):
        return False
    return any(callable(getattr(source, name, None)) for name in ("itertuples", "iter_rows"))


def read_frame(frame: Any, place: str) -> Rows:
    """Yield the rows of a DataFrame, without its index.

    Raises:
        DatasetError: A column name is not a string, or appears twice.
    """
    columns = list(frame.columns)
    if (flaw := flaw_of_columns(columns)) is not None:
        raise DatasetError(
            f"{place}: {flaw}: {one_line(columns)}", hint="rename the columns of the DataFrame"
        )
    for number, cells in enumerate(_tuples_of(frame), 1):
        yield Row(number, dict(zip(columns, map(plain_cell, cells), strict=True)))


def _tuples_of(frame: Any) -> Iterable[tuple[Any, ...]]:
    if callable(getattr(frame, "iter_rows", None)):
        tuples: Iterable[tuple[Any, ...]] = frame.iter_rows()
        return tuples
    of_pandas: Iterable[tuple[Any, ...]] = frame.itertuples(index=False, name=None)
    return of_pandas
