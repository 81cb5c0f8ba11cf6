"""How is a text file split into numbered, unchanged lines?

A line ends at a line feed, never at U+2028 or U+0085, which may occur inside a value. Bytes that
are not UTF-8 are kept as lone surrogates, so that the row can be reported and the next ones read.
"""

import codecs
from collections.abc import Generator
from contextlib import closing
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from limpet.errors import DatasetError

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Line(NamedTuple):
    """One line with its line end, its number from 1, and what is wrong with its bytes, if any."""

    number: int
    text: str
    flaw: str | None


def lines_of(path: Path, place: str, encoding: str | None = None) -> Generator[Line, None, None]:
    """Yield the lines of a file as strings, without a byte order mark.

    Raises:
        DatasetError: The file is UTF-16, or not in the encoding that was named.
    """
    if encoding is not None and codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig"):
        with closing(_lines_in(path, place, encoding)) as lines:
            yield from lines
        return
    with closing(raw_lines_of(path, place)) as raw:
        yield from starmap(decoded, raw)


def _lines_in(path: Path, place: str, encoding: str) -> Generator[Line, None, None]:
    number = 0
    try:
        with path.open(encoding=encoding, newline="\n") as file:
            for number, text in enumerate(file, 1):
                yield Line(number, text.removeprefix("\ufeff") if number == 1 else text, None)
    except UnicodeError as error:
        # The rest cannot be skipped: where the next line begins is unknown.
        raise DatasetError(
            f"{place}, after line {number}: is not {encoding}: {getattr(error, 'reason', error)}",
            hint="name the encoding that the file was saved in",
        ) from error


def raw_lines_of(path: Path, place: str) -> Generator[tuple[int, bytes, int], None, None]:
    """Yield the lines of a file without a byte order mark: number, bytes, and offset.

    Raises:
        DatasetError: The file is UTF-16.
    """
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if number == 1 and raw.startswith(_UTF16):
                raise DatasetError(
                    f"{place}: is UTF-16, not UTF-8",
                    hint="save it as UTF-8, or if it is .csv or .tsv, name it: encoding: utf-16",
                )
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line, offset + len(raw) - len(line)
            offset += len(raw)


def decoded(number: int, raw: bytes, offset: int) -> Line:
    """Decode a line."""
    try:
        return Line(number, raw.decode(), None)
    except UnicodeDecodeError as error:
        at = offset + error.start
        flaw = f"byte {raw[error.start]:#04x} at offset {at:,} of the file is not UTF-8"
        return Line(number, raw.decode(errors="surrogateescape"), flaw)
