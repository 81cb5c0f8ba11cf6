"""What does a reader yield? Rows, and flaws in place of unusable rows.

A reader is a generator of `Row` and `Flaw`. It raises `DatasetError` only if it cannot find the
next row; anything it can skip is a `Flaw`, and the caller decides.
"""

import codecs
import datetime as dt
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from limpet.errors import DatasetError
from limpet.text import one_line

RESERVED = frozenset({"_limpet", "_crc"})
"""Names of our own fields in the files we write; not allowed as column names."""
TAKEN = "the column name {!r} is reserved by Limpet"
_UNCHANGED = frozenset({str, int, bool, type(None), bytes})
_MISSING = frozenset({"NAType", "NaTType"})


class Row(NamedTuple):
    """One row.

    Attributes:
        number: The line or row where it begins, from 1.
        values: The values by column.
        json: The row as JSON that the fast decoder reads exactly, if available.
    """

    number: int
    values: dict[str, Any]
    json: bytes | None = None


class Flaw(NamedTuple):
    """An unusable row, why, and what to do, if known."""

    number: int
    value: object
    reason: str
    hint: str | None = None


Rows: TypeAlias = Generator[Row | Flaw, None, None]


@dataclass(frozen=True, slots=True)
class SourceTable:
    """Rows from one source.

    Attributes:
        name: Its name for people.
        location: Its name in messages: the path.
        unit: How its rows are counted: "line" or "row".
        rows: The rows, to be read once.
        is_file: Whether the rows come from a file: no caller shares them.
    """

    name: str
    location: str
    unit: str
    rows: Rows
    is_file: bool = False

    def at(self, number: int) -> str:
        """Return the location of a row, for messages."""
        return f"{self.location}, {self.unit} {number}"


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was skipped.

    Attributes:
        location: For messages: `questions.jsonl, line 3`.
        line: The line in a text file, the row in any other source, from 1.
        value: Its content, shortened.
        reason: Why it cannot be used.
    """

    location: str
    line: int
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}: {self.value}"


class BadRows:
    """Collects unusable rows, or raises on the first.

    Args:
        table: The source of the rows.
        skip: Collect them instead of raising.
    """

    def __init__(self, table: SourceTable, *, skip: bool) -> None:
        self.listed: list[BadRow] = []
        self._table = table
        self._skip = skip

    def add(self, number: int, value: object, reason: str, hint: str | None = None) -> None:
        """Add an unusable row.

        Raises:
            DatasetError: Unusable rows are not skipped.
        """
        bad = BadRow(self._table.at(number), number, one_line(value), reason)
        if not self._skip:
            fix = "fix it, or skip and list bad rows with on_bad_row: skip (in Python: "
            raise DatasetError(str(bad), hint=hint or f'{fix}on_bad_row="skip")')
        self.listed.append(bad)


def flaw_of_columns(names: list[Any]) -> str | None:
    """Return the problem with the column names; None if they are fine."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not isinstance(name, str):
            return f"the name of column {number} is not a string"
        if name in RESERVED:
            return TAKEN.format(name)
        if name in seen:
            return f"columns {seen[name]} and {number} have the same name"
        seen[name] = number
    return None


def plain_cell(value: Any) -> Any:
    """Return the value of a typed table as JSON data, with None for NaN, NaT and NA.

    A date becomes an ISO string, a decimal its digits, a duration its seconds. Values are
    recognised by their shape: neither pandas nor NumPy is imported.
    """
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    if kind.__name__ in _MISSING or is_nan(value):
        return None
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if callable(isoformat := getattr(value, "isoformat", None)):
        return isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, dict):
        return {name: plain_cell(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_cell(part) for part in value]
    if callable(to_list := getattr(value, "tolist", None)):  # NumPy's arrays and scalars
        return plain_cell(to_list()) if not isinstance(value, float) else float(value)
    return value


def is_nan(value: object) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and value != value  # noqa: PLR0124 - true for NaN only


# ---- How is a text file split into numbered, unchanged lines? -----------------------------------
#
# A line ends at a line feed, never at U+2028 or U+0085, which may occur inside a value. Bytes that
# are not UTF-8 are kept as lone surrogates, so the row can be reported and the next ones read.

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class NumberedLine(NamedTuple):
    """One line with its line end, its number from 1, and the flaw of its bytes, if any."""

    number: int
    text: str
    flaw: str | None


def lines_of(
    path: Path, location: str, encoding: str | None = None
) -> Generator[NumberedLine, None, None]:
    """Yield the lines of a file as strings, without a byte order mark.

    Raises:
        DatasetError: The file is UTF-16, or not in the given encoding.
    """
    if encoding is not None and codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig"):
        with closing(_lines_in(path, location, encoding)) as lines:
            yield from lines
        return
    with closing(raw_lines_of(path, location)) as raw:
        yield from starmap(decoded, raw)


def _lines_in(path: Path, location: str, encoding: str) -> Generator[NumberedLine, None, None]:
    number = 0
    try:
        with path.open(encoding=encoding, newline="\n") as file:
            for number, text in enumerate(file, 1):
                yield NumberedLine(
                    number, text.removeprefix("\ufeff") if number == 1 else text, None
                )
    except UnicodeError as error:
        # The rest cannot be skipped: the start of the next line is unknown.
        raise DatasetError(
            f"{location}, after line {number}: is not {encoding}: "
            f"{getattr(error, 'reason', error)}",
            hint="name the encoding of the file",
        ) from error


def raw_lines_of(path: Path, location: str) -> Generator[tuple[int, bytes, int], None, None]:
    """Yield the lines of a file without a byte order mark: number, bytes, and offset.

    Raises:
        DatasetError: The file is UTF-16.
    """
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if number == 1 and raw.startswith(_UTF16):
                raise DatasetError(
                    f"{location}: is UTF-16, not UTF-8",
                    hint="save it as UTF-8, or if it is .csv or .tsv, name it: encoding: utf-16",
                )
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line, offset + len(raw) - len(line)
            offset += len(raw)


def decoded(number: int, raw: bytes, offset: int) -> NumberedLine:
    """Decode a line."""
    try:
        return NumberedLine(number, raw.decode(), None)
    except UnicodeDecodeError as error:
        at = offset + error.start
        flaw = f"byte {raw[error.start]:#04x} at offset {at:,} of the file is not UTF-8"
        return NumberedLine(number, raw.decode(errors="surrogateescape"), flaw)
