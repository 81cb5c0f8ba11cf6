"""What is read from a source: rows, and what is in the place of one but cannot be used?

A reader is a generator of `Row` and `Flaw`. It raises `DatasetError` only where it cannot tell any
more where the next row begins; whatever can be stepped over is a `Flaw`, and the caller decides.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from limpet.errors import DatasetError
from limpet.text import one_line

RESERVED = frozenset({"_limpet", "_crc"})
"""What we call our own facts in the files we write: no column of a dataset may."""
TAKEN = "a column is called {!r}, the name of Limpet's own facts"


class Row(NamedTuple):
    """One row.

    Attributes:
        number: Where it begins, counted from 1.
        values: By column.
        json: The same as JSON that the fast decoder reads exactly, where that is at hand.
    """

    number: int
    values: dict[str, Any]
    json: bytes | None = None


class Flaw(NamedTuple):
    """What stands where a row should, and why it is none."""

    number: int
    value: object
    reason: str


Rows: TypeAlias = Generator[Row | Flaw, None, None]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows from one source.

    Attributes:
        name: What people call it.
        place: How a message names it: the path as it was given.
        unit: What its rows are counted in: "line" or "row".
        rows: The rows, once.
        is_file: Whether they are read from a file, and nobody else holds them.
    """

    name: str
    place: str
    unit: str
    rows: Rows
    is_file: bool = False

    def at(self, number: int) -> str:
        """Return where a row stands, for people."""
        return f"{self.place}, {self.unit} {number}"


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was skipped.

    Attributes:
        place: Where it stands: `questions.jsonl, line 3`.
        line: The number in it: a line of a text file, a row of anything else, from 1.
        value: What is there, cut to size.
        reason: Why it cannot be used.
    """

    place: str
    line: int
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}: {self.value}"


class BadRows:
    """Takes the rows that cannot be used: raises the first, or lists them all.

    Args:
        table: Where they are from.
        skip: List them.
    """

    def __init__(self, table: Table, *, skip: bool) -> None:
        self.listed: list[BadRow] = []
        self._table = table
        self._skip = skip

    def add(self, number: int, value: object, reason: str) -> None:
        """Take one.

        Raises:
            DatasetError: They are not to be skipped.
        """
        bad = BadRow(self._table.at(number), number, one_line(value), reason)
        if not self._skip:
            raise DatasetError(
                str(bad), hint='fix it, or skip and list such rows with on_bad_row="skip"'
            )
        self.listed.append(bad)


def flaw_of_columns(names: list[Any]) -> str | None:
    """Return what is wrong with the names of the columns; None if nothing is."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not isinstance(name, str):
            return f"the name of column {number} is not text"
        if name in RESERVED:
            return TAKEN.format(name)
        if name in seen:
            return f"columns {seen[name]} and {number} have the same name"
        seen[name] = number
    return None
