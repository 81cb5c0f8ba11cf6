"""How are the results of a run exported?

As a table with the columns of `EvaluationResult.to_dataframe` and one row per item and trial, or as
the files of `nat eval`.
"""

import csv
import io
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.evaluators.protocol import COLUMNS
from limpet.journal.files import CHUNK_BYTES, make_directory, replace_file
from limpet.journal.layout import Layout
from limpet.json_values import encode
from limpet.run.reading import RunReader
from limpet.run.results.evaluation_result import ItemResult, row_of
from limpet.run.results.output_files import write_outputs

_TYPES = {"trial": "BIGINT", "seconds": "DOUBLE"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def columns_of(reader: RunReader) -> list[str]:
    """Return the names of all columns."""
    parts = [
        name if part is None else f"{name}.{part}"
        for name, known in reader.score_parts().items()
        for part in known
    ]
    return [*COLUMNS, *parts]


def _row(item: ItemResult, columns: Sequence[str]) -> dict[str, Any]:
    known = row_of(item)
    return {name: known.get(name) for name in columns}


def as_jsonl(reader: RunReader) -> Iterator[bytes]:
    """Yield a JSON object for each item, with unchanged values."""
    columns = columns_of(reader)
    for item in reader.items():
        yield encode(_row(item, columns))[0] + b"\n"


def as_csv(reader: RunReader) -> Iterator[bytes]:
    """Yield the lines of a CSV file."""
    columns = columns_of(reader)
    yield _csv_line(map(_safe, columns))
    for item in reader.items():
        yield _csv_line(map(_csv_cell, _row(item, columns).values()))


def _csv_line(cells: Iterator[Any]) -> bytes:
    text = io.StringIO()
    # This terminator makes csv quote a cell with a lone \r, too; the line itself ends in \n.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return (text.getvalue()[:-2] + "\n").encode("utf-8", "backslashreplace")


def _csv_cell(value: Any) -> Any:
    cell = _flat(value)
    return _safe(cell) if isinstance(cell, str) else cell


def _safe(text: str) -> str:
    # A spreadsheet would run such a cell as a formula.
    return f"'{text}" if text.startswith(_FORMULA) else text


def _flat(value: Any) -> Any:
    """Return a value for one cell: numbers and strings unchanged, the rest as JSON."""
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return encode(value)[0].decode()


def write_parquet(reader: RunReader, path: Path) -> None:
    """Write a Parquet file: scores are numbers, the rest strings.

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
    columns = columns_of(reader)
    with tempfile.TemporaryDirectory(prefix="limpet-") as place:
        lines, table = Path(place) / "rows.jsonl", Path(place) / "rows.parquet"
        types = _types(reader, columns)
        longest = _write_rows(reader, columns, types, lines)
        try:
            with duckdb.connect(":memory:") as connection:
                connection.execute(_copy_query(columns, types, longest, lines, table))
        except duckdb.Error as error:
            raise LimpetError(f"{path}: duckdb failed: {error}") from error
        replace_file(path, _chunks(table))


def _write_rows(reader: RunReader, columns: Sequence[str], types: Sequence[str], path: Path) -> int:
    """Write the rows for duckdb to read, and return the length of the longest line."""
    longest = 0
    with path.open("wb") as file:
        for item in reader.items():
            cells = map(_parquet_cell, types, _row(item, columns).values())
            # By number: a column may have any name, and names may repeat.
            line = encode({f"c{number}": cell for number, cell in enumerate(cells)})[0] + b"\n"
            longest = max(longest, len(line))
            file.write(line)
    return longest


def _parquet_cell(kind: str, value: Any) -> Any:
    cell = _flat(value)
    if cell is None or kind != "VARCHAR":
        return cell
    # A string in Parquet can hold neither a lone surrogate nor a NUL.
    return str(cell).encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _types(reader: RunReader, columns: Sequence[str]) -> list[str]:
    """Return each column's type: scores are numbers, unless an evaluator returns labels."""
    labels = {name for item in reader.items() for name, value in _row(item, columns).items()
              if isinstance(value, str)}  # fmt: skip
    known = (_TYPES.get(name, "VARCHAR" if name in COLUMNS else "DOUBLE") for name in columns)
    return [
        "VARCHAR" if name in labels else kind for name, kind in zip(columns, known, strict=True)
    ]


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
    return '"' + name.replace('"', '""') + '"'


def _sql_string(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def nat_files(reader: RunReader) -> list[str]:
    """Return the names of the files to write."""
    return [f"{step}_output.json" for step in ("workflow", *reader.evaluators)] + ["summary.json"]


def write_nat(reader: RunReader, directory: Path) -> None:
    """Write `workflow_output.json`, `<evaluator>_output.json` and `summary.json`."""
    make_directory(directory)
    items, evaluators = reader.items(), reader.evaluators
    write_outputs(
        Layout(directory),
        items,
        evaluators,
        reader.trials,
        reader.summary,
        names=reader.run_file.names,
    )
