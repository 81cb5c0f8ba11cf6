"""How are rows read from CSV and TSV, with every value an unchanged string?

Python's reader does the work, in strict mode: otherwise an unclosed quote would silently put the
rest of the file into one value.
"""

import csv
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from limpet.datasets.columns import hint_of_separator
from limpet.datasets.rows import Flaw, NumberedLine, Row, Rows, flaw_of_columns, lines_of
from limpet.errors import DatasetError
from limpet.text import one_line

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_UNCLOSED = "unexpected end of data"
_REASONS = {
    "expected after": "there is text after the closing quote of a cell",
    _UNCLOSED: "a quote is opened and never closed",
}
_HINT = "a quote inside a quoted cell is written twice"
_ENCODING_HINT = (
    "if it was saved in another encoding, name it: encoding: latin-1 "
    '(in Python: encoding="latin-1")'
)


class CsvForm(NamedTuple):
    """How a file is written; None: as usual for its suffix."""

    delimiter: str | None = None
    encoding: str | None = None


USUAL_FORM = CsvForm()


def flaw_of_delimiter(text: str) -> str | None:
    """Return the problem with a delimiter, if any."""
    if len(text) == 1 and text not in '"\r\n\0':
        return None
    return 'must be one character, and not a quote or a line break; a tab is "\\t"'


def flaw_of_encoding(name: str) -> str | None:
    """Return the problem with the name of an encoding, if any."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        return 'must be the name of an encoding, like "latin-1", "cp1252" or "utf-16"'
    return None


def read_csv(path: Path, location: str, delimiter: str = ",", encoding: str | None = None) -> Rows:
    """Yield the rows of a comma-separated file, or of one with another delimiter."""
    # The limit is global: it is raised and not restored, because restoring it could fail a file
    # that another thread is reading.
    csv.field_size_limit(sys.maxsize)
    with closing(
        lines_of(path, location, encoding)
    ) as lines:  # closes the file if the header raises
        records = _Records(lines, location, delimiter)
        header = _header_of(records, location)
        width = len(header)
        for number, cells, flaw in records:
            if flaw is not None:
                yield Flaw(number, records.text.rstrip("\r\n"), flaw, records.hint)
            elif len(cells) == width:
                yield Row(number, dict(zip(header, cells, strict=True)))
            elif records.text.strip():
                many = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
                reason = f"{many}, where the header has {width}"
                text = records.text.rstrip("\r\n")
                yield Flaw(number, text, reason, hint_of_separator(header))


def _header_of(records: "_Records", location: str) -> list[str]:
    for number, cells, flaw in records:
        flaw = flaw or flaw_of_columns(cells)  # noqa: PLW2901 - the first problem
        if flaw is not None:
            header = one_line(records.text.rstrip("\r\n"))
            raise DatasetError(
                f"{location}, line {number}: the header cannot be used: {flaw}: {header}",
                hint=records.hint or "the first line names the columns, each once",
            )
        return cells
    raise DatasetError(f"{location}: is empty", hint="the first line names the columns")


class _Records:
    """The records of a file: the line of each, its cells, and its flaw, if any.

    Attributes:
        text: The latest record's text in the file.
        hint: What to do if its bytes do not match the encoding.
    """

    def __init__(self, lines: Iterator[NumberedLine], location: str, delimiter: str) -> None:
        self._lines = lines
        self._location = location
        self._taken: list[str] = []
        self._flaw: str | None = None
        self.hint: str | None = None
        self._reader = csv.reader(self._pieces(), delimiter=delimiter, strict=True)

    @property
    def text(self) -> str:
        return "".join(self._taken)

    def __iter__(self) -> Iterator[tuple[int, list[str], str | None]]:
        while True:
            self._taken.clear()
            self._flaw = self.hint = None
            number = self._reader.line_num + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                cells, self._flaw = [], self._flaw or self._reason(error, number)
            if cells or self._flaw is not None:
                yield number, cells, self._flaw

    def _pieces(self) -> Iterator[str]:
        """Yield and remember lines, including those that end with a lone carriage return."""
        for line in self._lines:
            text, self._flaw = line.text, self._flaw or line.flaw
            self.hint = self.hint or (_ENCODING_HINT if line.flaw else None)
            for piece in [text] if "\r" not in text.removesuffix("\r\n") else _LINE.findall(text):
                self._taken.append(piece)
                yield piece

    def _reason(self, error: csv.Error, number: int) -> str:
        if _UNCLOSED in str(error):
            # Cannot be skipped: all following rows would be lost with it.
            raise DatasetError(
                f"{self._location}, line {number}: {_REASONS[_UNCLOSED]}: {one_line(self.text)}",
                hint=_HINT,
            ) from error
        return next((text for key, text in _REASONS.items() if key in str(error)), str(error))
