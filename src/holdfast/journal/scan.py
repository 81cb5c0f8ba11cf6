"""Which lines of a column count, and where does its torn tail begin?"""

from binascii import unhexlify
from dataclasses import dataclass
from typing import BinaryIO

from holdfast.journal.checksum import crc32
from holdfast.journal.index import NO_KEY, IndexEntry, IndexFile, Places, tag_of
from holdfast.journal.lines import (
    KEY,
    PREFIX,
    TAIL_BYTES,
    LineKind,
    key_of,
    kind_of,
    stamp_of,
)

_GROUP_LINES = 2**12
_CRC, _END = b',"_crc":"', b'"}\n'
# As in `stamp_of`: no text can hold this, as its quotes would be escaped.
_COMPLETED = b'"status":"completed","attempts":'


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
    for number, line in enumerate(column, lines + 1):  # of a binary file: only \n ends a line
        # A microsecond and a half a line. Most are ours, whole, plainly completed and the first of
        # their key: that is asked first and here, where a call would be a tenth of it.
        try:
            is_plain = (
                line.startswith(PREFIX)
                and line.endswith(_END)
                and line[-11:-3] == b"%08x" % crc32(line[:-TAIL_BYTES])
                and line[-TAIL_BYTES:-11] == _CRC
                and line.find(_COMPLETED, 0, 400) > 0
                and not held
                and (key := unhexlify(line[KEY])) not in offsets
            )
        except ValueError:  # what stands at the key's place is none
            is_plain = False
        if is_plain:
            offsets[key] = offset
            tag = 0
        else:
            kind, generation = _stamp(line)
            if kind is LineKind.BAD:
                held.append((number, offset, len(line)))
                offset += len(line)
                continue
            if held:
                entries += _note_bad(held, places, check)
            key = NO_KEY if kind is LineKind.FOREIGN else key_of(line) or NO_KEY
            places.add(key, offset, kind, generation, number)
            tag = tag_of(kind, generation)
        if index is not None:
            entries.append((key, offset, len(line), tag, check))
            if len(entries) >= _GROUP_LINES:
                index.add_all(entries)
                entries, check = [], index.check
        offset += len(line)
    if index is not None:
        index.add_all(entries)
    # Bad lines that no good one followed are the torn tail.
    found.end, found.lines = (held[0][1], held[0][0] - 1) if held else (offset, number)
    found.torn_bytes = offset - found.end
    return found


def _stamp(line: bytes) -> tuple[LineKind, int]:
    kind = kind_of(line)
    return stamp_of(line) if kind < LineKind.FOREIGN else (kind, 0)


def _note_bad(held: list[tuple[int, int, int]], places: Places, check: int) -> list[IndexEntry]:
    """Lines before a valid one are no torn tail, but damage."""
    tag, entries = tag_of(LineKind.BAD, 0), []
    for number, offset, length in held:
        places.add(NO_KEY, offset, LineKind.BAD, 0, number)
        entries.append((NO_KEY, offset, length, tag, check))
    held.clear()
    return entries
