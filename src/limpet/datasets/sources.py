"""Which reader fits the source of a dataset?

DataFrames are recognised by their shape: neither pandas nor polars is imported.
"""

import inspect
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from limpet.datasets.binary_files import read_parquet, read_xlsx
from limpet.datasets.csv_files import USUAL_FORM, CsvForm, read_csv
from limpet.datasets.json_files import read_json, read_jsonl
from limpet.datasets.rows import Flaw, Row, Rows, SourceTable, flaw_of_columns, plain_cell
from limpet.errors import DatasetError
from limpet.text import hint_near, nearest_file, one_line, quoted

_JSON_READERS: dict[str, Callable[..., Rows]] = {
    ".json": read_json,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
}
_CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TEXT_SUFFIXES = (*_JSON_READERS, *_CSV_DELIMITERS)
SUFFIXES = (*_TEXT_SUFFIXES, ".parquet", ".xlsx")
_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
NOT_A_FILE = "is a pipe or a device, not a file"
FILE_HINT = "write the rows to a file, or give a function that returns them"
_ACCEPTED = "a path, a list of dicts, a DataFrame, or a function that returns one of these"


def table_of(source: object, sheet: str | None, form: CsvForm = USUAL_FORM) -> SourceTable:
    """Return the table of a source.

    Raises:
        DatasetError: The source cannot be read.
    """
    if isinstance(source, str) and _is_reference(source):
        return _table_of_function(_function_at(source), source, sheet, form)
    if callable(source):
        name = getattr(source, "__qualname__", type(source).__qualname__)
        return _table_of_function(source, name, sheet, form)
    return _table_of_data(source, None, sheet, form)


def _table_of_data(
    source: object, maker: str | None, sheet: str | None, form: CsvForm
) -> SourceTable:
    """Return the table of any source except a function. `maker`: the function that returned it."""
    if isinstance(source, (str, os.PathLike)):
        return table_of_file(source, sheet, form)
    if sheet is not None:
        raise DatasetError(f"sheet={sheet!r}: only a .xlsx file has sheets")
    _check_form(form, "", is_csv=False)
    if is_frame(source):
        name = maker or "DataFrame"
        return SourceTable(name, name, "row", _read_frame(source, name))
    return _table_of_rows(source, maker or "rows")


def _is_reference(source: str) -> bool:
    """Return whether this is `module:function`, not a path to an existing or supported file."""
    suffix = Path(source).suffix.lower()
    exists = os.path.exists(source)  # noqa: PTH110 - accepts any string, while Path may raise
    return bool(_REFERENCE.fullmatch(source)) and suffix not in SUFFIXES and not exists


def table_of_file(
    source: "str | os.PathLike[str]",
    sheet: str | None = None,
    form: CsvForm = USUAL_FORM,
    *,
    nan: bool = False,
) -> SourceTable:
    """Return the rows of a file.

    Args:
        source: The file.
        sheet: The sheet of an XLSX file; None: the first.
        form: How a CSV file is written.
        nan: Whether JSON may hold NaN and Infinity, as Python writes them.

    Raises:
        DatasetError: It cannot be read.
    """
    location, path = shown_path(source), expanded(Path(source))
    suffix = path.suffix.lower()
    if sheet is not None and suffix != ".xlsx":
        raise DatasetError(f"{location}: sheet={sheet!r}: only a .xlsx file has sheets")
    _check_form(form, f"{location}: ", is_csv=suffix in _CSV_DELIMITERS)
    with _reading(location):
        _check_file(path, location)
    unit = "line" if suffix in _TEXT_SUFFIXES else "row"
    rows = _guarded(_reader_of(path, location, suffix, sheet, form, nan=nan), location)
    return SourceTable(path.name, location, unit, rows, is_file=True)


def shown_path(source: "str | os.PathLike[str]") -> str:
    """Return a path for messages: as given, but relative if it is below the current directory."""
    with suppress(OSError, ValueError):  # there is no current directory, or it is not below
        source = Path(source).relative_to(Path.cwd())
    return one_line(os.fspath(source))


def expanded(path: Path) -> Path:
    """Return a path with a leading `~` or `~user` replaced by that home directory, if it exists."""
    try:
        return path.expanduser()
    except RuntimeError:  # a name that begins with ~ but is not a home directory
        return path


def _check_file(path: Path, location: str) -> None:
    """Raise `DatasetError` if it does not exist or is not a file: reading a pipe would hang."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: has a NUL
        raise DatasetError(f"{location}: file not found", hint=_hint_of_missing(path)) from error
    if stat.S_ISDIR(mode):
        raise DatasetError(f"{location}: is a directory", hint="name one of the files in it")
    if not stat.S_ISREG(mode):
        raise DatasetError(f"{location}: {NOT_A_FILE}", hint=FILE_HINT)


def _hint_of_missing(path: Path) -> str:
    try:
        near = nearest_file(path)
    except (OSError, ValueError):
        return f"the folder {str(path.parent)!r} cannot be read either"
    if near:
        return f"did you mean {quoted(near)}?"
    return "check the name" if path.is_absolute() else f"paths start at {str(Path.cwd())!r}"


def _check_form(form: CsvForm, location: str, *, is_csv: bool) -> None:
    for name, value in form._asdict().items():
        if value is not None and not is_csv:
            raise DatasetError(f"{location}{name}={value!r}: only a .csv or .tsv file has one")


def _reader_of(
    path: Path, location: str, suffix: str, sheet: str | None, form: CsvForm, *, nan: bool
) -> Rows:
    if suffix in _JSON_READERS:
        return _JSON_READERS[suffix](path, location, nan=nan)
    if suffix in _CSV_DELIMITERS:
        return read_csv(path, location, form.delimiter or _CSV_DELIMITERS[suffix], form.encoding)
    if suffix == ".parquet":
        return read_parquet(_needed("duckdb", location), path, location)
    if suffix == ".xlsx":
        return read_xlsx(_needed("openpyxl", location), path, location, sheet)
    raise DatasetError(
        f"{location}: unsupported file type {suffix!r}; supported: {', '.join(SUFFIXES)}",
        hint="rename the file if it is one of these, or give a function that returns the rows",
    )


def _needed(module: str, location: str) -> Any:
    """Import a module of the extra `data`."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DatasetError(
            f"{location}: reading it needs {module}, which cannot be imported ({error})",
            hint="pip install 'limpet[data]'",
        ) from error


def _guarded(rows: Rows, location: str) -> Rows:
    with _reading(location):
        yield from rows


@contextmanager
def _reading(location: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"{location}: cannot be read: {error.strerror or error}",
            hint="check the permissions and the disk",
        ) from error


def _table_of_rows(source: object, name: str) -> SourceTable:
    if isinstance(source, (Mapping, bytes, bytearray)) or not isinstance(source, Iterable):
        shown = one_line(source)
        raise DatasetError(
            f"{name}: {type(source).__name__} is not a dataset: {shown}", hint=f"pass {_ACCEPTED}"
        )
    return SourceTable(name, name, "row", _read_rows(source))


def _read_rows(source: Iterable[Any]) -> Rows:
    """Yield copies of the rows of an iterable, so later changes have no effect."""
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


def rows_of_frame(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a DataFrame as dicts, without its index.

    Raises:
        DatasetError: A column name is not a string, or appears twice.
    """
    return [row.values for row in _read_frame(frame, "DataFrame") if isinstance(row, Row)]


def _read_frame(frame: Any, location: str) -> Rows:
    """Yield the rows of a DataFrame, without its index.

    Raises:
        DatasetError: A column name is not a string, or appears twice.
    """
    columns = list(frame.columns)
    if (flaw := flaw_of_columns(columns)) is not None:
        raise DatasetError(
            f"{location}: {flaw}: {one_line(columns)}", hint="rename the columns of the DataFrame"
        )
    if callable(getattr(frame, "iter_rows", None)):
        tuples = frame.iter_rows()
    else:
        tuples = frame.itertuples(index=False, name=None)
    for number, cells in enumerate(tuples, 1):
        yield Row(number, dict(zip(columns, map(plain_cell, cells), strict=True)))


def _table_of_function(
    function: Callable[[], Any], name: str, sheet: str | None, form: CsvForm
) -> SourceTable:
    location = f"{one_line(name)}()"
    try:
        source = function()
    except Exception as error:
        error.add_note(f"while calling {location} for the rows of a dataset")
        raise
    if inspect.isawaitable(source) or hasattr(source, "__aiter__"):
        if inspect.iscoroutine(source):
            source.close()
        raise DatasetError(f"{location}: is async", hint="pass a sync function; it runs only once")
    return _table_of_data(source, location, sheet, form)


def _function_at(reference: str) -> Callable[[], Any]:
    module_name, _, path = reference.partition(":")
    try:
        target: Any = import_module(module_name)
    except ImportError as error:
        raise DatasetError(
            f"{reference}: the module {module_name!r} cannot be imported: {error}",
            hint="run from its folder, or install it; a path needs one of " + ", ".join(SUFFIXES),
        ) from error
    for name in path.split("."):
        if not hasattr(target, name):
            raise DatasetError(
                f"{reference}: there is no {name!r} in {module_name!r}",
                hint=hint_near(name, dir(target)),
            )
        target = getattr(target, name)
    if not callable(target):
        raise DatasetError(f"{reference}: is {type(target).__name__}, not a function")
    return target  # type: ignore[no-any-return]  # checked by callable()
