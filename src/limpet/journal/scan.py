"""Which lines of a column count, and where does its torn tail begin?"""

import struct
from binascii import unhexlify
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import BinaryIO

from limpet.journal.checksum import crc32
from limpet.journal.index import KEY_BYTES, NO_KEY, IndexEntry, IndexFile, Places, tag_of
from limpet.journal.lines import (
    KEY,
    PREFIX,
    TAIL_BYTES,
    LineKind,
    key_of,
    kind_of,
    stamp_of,
)

_GROUP_BYTES = 2**18
_PREFIX_BYTES = len(PREFIX)
_SEAL = b',"_crc":"%08x"}\n'
_COMPLETED = b'"status":"completed","attempts":'
_KEYS = struct.Struct(f"{KEY_BYTES}s")


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
    sweep = _Sweep(places, start, lines, index)
    column.seek(start)
    while group := column.readlines(_GROUP_BYTES):  # of a binary file: only \n ends a line
        if not sweep.took_together(group):
            for line in group:
                sweep.take(line)
        sweep.write_index()
    return sweep.found()


class _Sweep:
    """A scan under way: where it is, and what it holds back."""

    def __init__(self, places: Places, start: int, lines: int, index: IndexFile | None) -> None:
        self._places = places
        self._offset, self._number = start, lines
        self._held: list[tuple[int, int, int]] = []  # bad lines, perhaps of the torn tail
        self._index = index
        self._entries: list[IndexEntry] = []
        self._check = 0 if index is None else index.check

    def took_together(self, lines: list[bytes]) -> bool:
        """Take lines that are all ours, whole, plainly completed and the first of their keys.

        Most groups are like that, and asking all of them at once takes half as long as asking
        each. False if one is not: nothing is taken then.
        """
        count = len(lines)
        if self._held or b"".join([line[:_PREFIX_BYTES] for line in lines]) != PREFIX * count:
            return False
        sums = tuple([crc32(line[:-TAIL_BYTES]) for line in lines])
        if b"".join([line[-TAIL_BYTES:] for line in lines]) != _SEAL * count % sums:
            return False
        # As in `stamp_of`: no text can hold this, as its quotes would be escaped.
        if min([line.find(_COMPLETED, 0, 400) for line in lines]) < 0:
            return False
        try:
            together = unhexlify(b"".join([line[KEY] for line in lines]))
        except ValueError:  # what stands at the key's place is none
            return False
        keys = [key for (key,) in _KEYS.iter_unpack(together)]
        sizes = list(map(len, lines))
        *begins, end = accumulate(sizes, initial=self._offset)
        new, offsets = dict(zip(keys, begins, strict=True)), self._places.offsets
        if len(new) != count or not offsets.keys().isdisjoint(keys):
            return False
        offsets.update(new)
        if self._index is not None:
            self._entries += zip(keys, begins, sizes, repeat(0), repeat(self._check))
        self._offset = end
        self._number += count
        return True

    def take(self, line: bytes) -> None:
        """Take any line."""
        self._number += 1
        begin, self._offset = self._offset, self._offset + len(line)
        kind = kind_of(line)
        if kind is LineKind.BAD:
            self._held.append((self._number, begin, len(line)))
            return
        self._note_bad()
        generation = 0 if kind is LineKind.FOREIGN else stamp_of(line)[1]
        key = NO_KEY if kind is LineKind.FOREIGN else key_of(line) or NO_KEY
        self._places.add(key, begin, kind, generation, self._number)
        if self._index is not None:
            self._entries.append((key, begin, len(line), tag_of(kind, generation), self._check))

    def _note_bad(self) -> None:
        """Lines before a valid one are no torn tail, but damage."""
        tag = tag_of(LineKind.BAD, 0)
        for number, offset, length in self._held:
            self._places.add(NO_KEY, offset, LineKind.BAD, 0, number)
            if self._index is not None:
                self._entries.append((NO_KEY, offset, length, tag, self._check))
        self._held.clear()

    def write_index(self) -> None:
        """Write the entries so far: a group."""
        if self._index is not None:
            self._index.add_all(self._entries)
            self._entries, self._check = [], self._index.check

    def found(self) -> Scan:
        """Return what there was. Bad lines that no good one followed are the torn tail."""
        if not self._held:
            return Scan(self._number, self._offset)
        number, begin, _ = self._held[0]
        return Scan(number - 1, begin, self._offset - begin)
