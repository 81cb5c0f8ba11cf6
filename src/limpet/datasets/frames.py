"""How are rows read from a DataFrame, without importing the library it is from?"""

from collections.abc import Iterable
from typing import Any

from limpet.datasets.cells import plain_cell
from limpet.datasets.rows import Row, Rows, flaw_of_columns
from limpet.errors import DatasetError
from limpet.text import one_line


def is_frame(source: object) -> bool:
    """Tell whether this is a DataFrame of pandas or polars, by its shape."""
    if isinstance(source, type) or not hasattr(source, "columns"):
        return False
    return any(callable(getattr(source, name, None)) for name in ("itertuples", "iter_rows"))


def read_frame(frame: Any, place: str) -> Rows:
    """Hand out the rows of a DataFrame, without its index.

    Raises:
        DatasetError: Its columns have no names that are text, or two have the same.
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
