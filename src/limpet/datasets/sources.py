"""Which reader fits the source of a dataset?"""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from limpet.datasets.columns import nearest
from limpet.datasets.delimited import read_csv, read_tsv
from limpet.datasets.in_memory import is_frame, read_frame, read_rows
from limpet.datasets.json_array import read_json
from limpet.datasets.jsonl import read_jsonl
from limpet.datasets.parquet import read_parquet
from limpet.datasets.rows import Rows, Table
from limpet.datasets.text_files import check_file
from limpet.datasets.xlsx import read_xlsx
from limpet.errors import DatasetError
from limpet.text import one_line

_TEXT_READERS: dict[str, Callable[[Path, str], Rows]] = {
    ".json": read_json,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".csv": read_csv,
    ".tsv": read_tsv,
}
SUFFIXES = (*_TEXT_READERS, ".parquet", ".xlsx")
_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_ACCEPTED = "a path, a list of dicts, a DataFrame, or a function that returns one of these"


def table_of(source: object, sheet: str | None) -> Table:
    """Return the table of a source.

    Raises:
        DatasetError: The source cannot be read.
    """
    if isinstance(source, str) and _is_reference(source):
        return _table_of_function(_function_at(source), source, sheet)
    if callable(source):
        name = getattr(source, "__qualname__", type(source).__qualname__)
        return _table_of_function(source, name, sheet)
    return _table_of_data(source, None, sheet)


def _table_of_data(source: object, maker: str | None, sheet: str | None) -> Table:
    """Return the table of any source but a function. `maker`: the function that returned it."""
    if isinstance(source, (str, os.PathLike)):
        return _table_of_file(source, sheet)
    if sheet is not None:
        raise DatasetError(f"sheet={sheet!r}: only a .xlsx file has sheets")
    if is_frame(source):
        name = maker or "DataFrame"
        return Table(name, name, "row", read_frame(source, name))
    return _table_of_rows(source, maker or "rows")


def _is_reference(source: str) -> bool:
    """Return whether this is `module:function`, not a path to an existing or supported file."""
    suffix = Path(source).suffix.lower()
    return bool(_REFERENCE.fullmatch(source)) and suffix not in SUFFIXES and not _exists(source)


def _exists(source: str) -> bool:
    return os.path.exists(source)  # noqa: PTH110 - accepts any string, while Path may raise


def _table_of_file(source: "str | os.PathLike[str]", sheet: str | None) -> Table:
    place = one_line(os.fspath(source))
    path = _expanded(Path(source))
    suffix = path.suffix.lower()
    if sheet is not None and suffix != ".xlsx":
        raise DatasetError(f"{place}: sheet={sheet!r}: only a .xlsx file has sheets")
    with _reading(place):
        check_file(path, place)
    unit = "line" if suffix in _TEXT_READERS else "row"
    rows = _guarded(_reader_of(path, place, suffix, sheet), place)
    return Table(path.name, place, unit, rows, is_file=True)


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # a name that begins with ~ but is not a home directory
        return path


def _reader_of(path: Path, place: str, suffix: str, sheet: str | None) -> Rows:
    if suffix in _TEXT_READERS:
        return _TEXT_READERS[suffix](path, place)
    if suffix == ".parquet":
        return read_parquet(path, place)
    if suffix == ".xlsx":
        return read_xlsx(path, place, sheet)
    raise DatasetError(
        f"{place}: no reader for the suffix {suffix!r}; there are {', '.join(SUFFIXES)}",
        hint="rename the file if it is one of these, or give a function that returns the rows",
    )


def _guarded(rows: Rows, place: str) -> Rows:
    with _reading(place):
        yield from rows


@contextmanager
def _reading(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"{place}: cannot be read: {error.strerror or error}",
            hint="check the permissions and the disk",
        ) from error


def _table_of_rows(source: object, name: str) -> Table:
    if isinstance(source, (Mapping, bytes, bytearray)) or not isinstance(source, Iterable):
        shown = one_line(source)
        raise DatasetError(
            f"{name}: {type(source).__name__} is not a dataset: {shown}", hint=f"pass {_ACCEPTED}"
        )
    return Table(name, name, "row", read_rows(source))


def _table_of_function(function: Callable[[], Any], name: str, sheet: str | None) -> Table:
    place = f"{one_line(name)}()"
    try:
        source = function()
    except Exception as error:
        error.add_note(f"while {place} was called for the rows of a dataset")
        raise
    if inspect.isawaitable(source) or hasattr(source, "__aiter__"):
        if inspect.iscoroutine(source):
            source.close()
        raise DatasetError(f"{place}: is async", hint="pass a sync function; it runs only once")
    return _table_of_data(source, place, sheet)


def _function_at(reference: str) -> Callable[[], Any]:
    module_name, _, path = reference.partition(":")
    try:
        target: Any = import_module(module_name)
    except ImportError as error:
        raise DatasetError(
            f"{reference}: the module {module_name!r} cannot be imported: {error}",
            hint="run from the folder it is in, or install it; a path needs one of "
            + ", ".join(SUFFIXES),
        ) from error
    for name in path.split("."):
        if not hasattr(target, name):
            near = nearest(name, dir(target))
            raise DatasetError(
                f"{reference}: there is no {name!r} in {module_name!r}",
                hint=f"did you mean {near}?" if near else None,
            )
        target = getattr(target, name)
    if not callable(target):
        raise DatasetError(f"{reference}: is {type(target).__name__}, not a function")
    return target  # type: ignore[no-any-return]  # checked by callable()
