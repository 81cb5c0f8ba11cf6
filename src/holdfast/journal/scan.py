"""Which lines of a column count, and where does its torn tail begin?"""

from dataclasses import dataclass
from typing import BinaryIO

from holdfast.journal.checksum import crc32
from holdfast.journal.index import NO_KEY, IndexEntry, IndexFile, Places, tag_of
from holdfast.journal.lines import (
    PREFIX,
    TAIL_BYTES,
    LineKind,
    key_of,
    kind_of,
    stamp_of,
)

_GROUP_LINES = 2**12


@dataclass(slots=True)
class Scan:
    """What was found in a column, from some line on.

    Attributes:
        lines: How many lines there are, up to the last valid one.
        end: Where the last valid line ends: what comes after is a torn tail.
        torn_bytes: How many bytes come after the last valid line.
    """

    lines: int
    end: int
    torn_bytes: int = 0


def scan(
    column: BinaryIO,
    places: Places,
    *,
    start: int = 0,
    lines: int = 0,
    index: IndexFile | None = None,
) -> Scan:
    """Read a column from a line's beginning to the file's end, and check every line.

    A last line without its line end does not count: somebody may be writing it just now.

    Args:
        column: The open file.
        places: Told of each line, except those of the torn tail.
        start: Where to begin.
        lines: How many lines there are before.
        index: Told the same, to be brought up to date.
    """
    found = Scan(lines, start)
    held: list[tuple[int, int, int]] = []  # bad lines, perhaps of the torn tail
    offset, number, offsets = start, lines, places.offsets
    entries: list[IndexEntry] = []
    check = 0 if index is None else index.check
    column.seek(start)
    for line in column:  # of a binary file: only \n ends a line
        number += 1
        length = len(line)
        key: bytes | None = NO_KEY
        # A microsecond a line: most lines are ours and whole, so that is asked first and here.
        body = line[:-TAIL_BYTES]
        if line.startswith(PREFIX) and line[-TAIL_BYTES:] == b',"_crc":"%08x"}\n' % crc32(body):
            kind, generation = stamp_of(line)
            key = key_of(line)
        else:
            kind, generation = kind_of(line), 0
        if kind is LineKind.BAD or key is None:
            held.append((number, offset, length))
        else:
            if held:
                entries += _note_bad(held, places, check)
            if generation or key in offsets or key is NO_KEY:
                places.add(key, offset, kind, generation, number)
            else:
                offsets[key] = offset
            if index is not None:
                entries.append((key, offset, length, tag_of(kind, generation), check))
                if len(entries) >= _GROUP_LINES:
                    index.add_all(entries)
                    entries, check = [], index.check
            found.lines, found.end = number, offset + length
        offset += length
    if index is not None:
        index.add_all(entries)
    found.torn_bytes = offset - found.end
    return found


def _note_bad(held: list[tuple[int, int, int]], places: Places, check: int) -> list[IndexEntry]:
    """Lines before a valid one are no torn tail, but damage."""
    tag, entries = tag_of(LineKind.BAD, 0), []
    for number, offset, length in held:
        places.add(NO_KEY, offset, LineKind.BAD, 0, number)
        entries.append((NO_KEY, offset, length, tag, check))
    held.clear()
    return entries
