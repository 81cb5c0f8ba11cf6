"""Where in a column is each record?

A column's index saves reading the column. It has 32 bytes per line: key, offset, length, kind and
generation, and a checksum of all entries before it. It may be deleted or out of date. It is used
only as far as it is verified: its lines lie within the file, the checksum matches, and the last
line has its key and its CRC. The rest is read from the column.

Entries are written in groups, and all entries of a group have the same checksum. So no checksum
covers the last group, and its lines are read from the column too.
"""

import logging
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from limpet.errors import JournalError
from limpet.journal.files import OwnFile, make_directory, open_own, open_to_read, write_all
from limpet.journal.lines import KEY, KEY_BYTES, LineKind, is_whole, kind_of

_ENTRY = struct.Struct("<16sQIHH")
ENTRY_BYTES = _ENTRY.size
assert ENTRY_BYTES == 32  # noqa: PLR2004 - as documented
_KEY_AND_OFFSET, _TAG_AT = struct.Struct("<16sQ8x"), 28
NO_KEY = bytes(KEY_BYTES)
MOST_GENERATIONS = 2**14 - 1
_KINDS = (*LineKind, LineKind.BAD)  # by two bits of an entry; the last is never written
_CHUNK_LINES = 2**17

logger = logging.getLogger("limpet.journal")


class Mark(NamedTuple):
    """One line of a column, as the index describes it."""

    key: bytes
    offset: int
    length: int
    kind: LineKind = LineKind.RECORD
    generation: int = 0

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.offset + self.length


class RecordOffsets:
    """The offset of each key's record: the first of the highest generation wins.

    Attributes:
        by_key: The offset of each key's record.
        bad_lines: The numbers of invalid lines, from 1.
    """

    # Measured for a million records: 138 bytes each. A second dict for lengths would make it 200.
    __slots__ = ("_generations", "bad_lines", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[bytes, int] = {}
        self.bad_lines: list[int] = []
        self._generations: dict[bytes, int] = {}

    def add(self, marks: Iterable[tuple[bytes, int, int, LineKind, int]], first: int = 1) -> None:
        """Add lines; `first` is the number of the first in its file, from 1."""
        offsets, generations = self.by_key, self._generations
        for number, (key, offset, _, kind, generation) in enumerate(marks, first):
            if kind is LineKind.RECORD:
                if key not in offsets or generation > generations.get(key, 0):
                    if generation:
                        offsets.pop(key, None)  # to the end: keys stay in file order
                        generations[key] = generation
                    offsets[key] = offset
            elif kind is LineKind.BAD:
                self.bad_lines.append(number)

    def add_plain(self, new: dict[bytes, int]) -> bool:
        """Add records of generation 0; if any key is known, add none and return False."""
        if not self.by_key:
            self.by_key = new
        elif self.by_key.keys().isdisjoint(new):
            self.by_key.update(new)
        else:
            return False
        return True

    def generation(self, key: bytes) -> int:
        """Return the generation of a key's record; -1 if it has none."""
        return self._generations.get(key, 0) if key in self.by_key else -1

    def next_generation(self, key: bytes) -> int:
        """Return the generation that the next record of a key needs to replace the current one."""
        known = key in self.by_key or key in self._generations
        return self._generations.get(key, 0) + 1 if known else 0

    @property
    def generations(self) -> dict[bytes, int]:
        """The keys with a record that replaced another, with its generation."""
        return {
            key: generation
            for key, generation in self._generations.items()
            if generation and key in self.by_key
        }

    @property
    def highest_generation(self) -> int:
        """The highest generation of all records."""
        return max(self._generations.values(), default=0)

    def forget(self, key: bytes) -> None:
        """Remove a key's record, because it is damaged."""
        if self.by_key.pop(key, None) is not None:
            self._generations.setdefault(key, 0)  # an index may still name the damaged line


class IndexFile:
    """An index that grows with its column. After a failed write it is abandoned."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._crc = 0
        self._own: OwnFile | None = None
        try:
            make_directory(path.parent)
            self._own = OwnFile.of(open_own(path, os.O_APPEND))
        except JournalError as error:
            self._give_up(str(error))
        except OSError as error:
            self._give_up(error.strerror)

    def clear(self) -> None:
        """Empty it, to rewrite it."""
        if self._own is not None:
            os.ftruncate(self._own.fd, 0)
        self._crc = 0

    def add(self, marks: Sequence[Mark]) -> None:
        """Write the entries of the next lines, as one group."""
        if self._own is None or not marks:
            return
        try:
            entries = b"".join([self._entry_of(mark) for mark in marks])
            self._own.size()
            write_all(self._own.fd, [entries])
        except struct.error:
            self._give_up("a line is longer than 4 GiB")
        except OSError as error:
            self._give_up(error.strerror)
        else:
            self._crc = crc32(entries, self._crc)

    def _entry_of(self, mark: Mark) -> bytes:
        key, offset, length, kind, generation = mark
        tag = kind | min(generation, MOST_GENERATIONS) << 2
        return _ENTRY.pack(key, offset, length, tag, self._crc & 0xFFFF)

    def _give_up(self, why: str | None) -> None:
        self.close()
        logger.warning("%s: cannot be written, so opening takes longer: %s", self._path, why)

    def close(self) -> None:
        """Close the file."""
        if self._own is not None:
            self._own.close()
            self._own = None


@dataclass(frozen=True, slots=True)
class Index:
    """The part of an index file that matches its column.

    Attributes:
        offsets: The offsets of the verified lines.
        lines: How many lines are verified.
        end: The offset after the verified lines.
        reach: The offset after the last line it describes.
    """

    offsets: RecordOffsets
    lines: int
    end: int
    reach: int


def load_index(path: Path, column: BinaryIO) -> Index | None:
    """Return the verified part of the index; None if it is missing or wrong."""
    try:
        with open_to_read(path) as file:
            known = os.fstat(file.fileno()).st_size // ENTRY_BYTES
            # Read after the index: entries are written after their lines.
            size = os.fstat(column.fileno()).st_size
            return _load(file, known, size, column) if known else None
    except (OSError, ValueError, JournalError):  # also: it is being rewritten
        return None


def _load(file: BinaryIO, known: int, size: int, column: BinaryIO) -> Index | None:
    last, check = _entry_at(file, known - 1)
    reach, lines = last.end, known
    if reach > size:
        return None
    while lines and _entry_at(file, lines - 1)[1] == check:  # the last group
        lines -= 1
    offsets, crc = RecordOffsets(), 0
    for first in range(0, lines, _CHUNK_LINES):
        entries = _read(file, first, min(_CHUNK_LINES, lines - first))
        crc = crc32(entries, crc)
        _add_entries(offsets, entries, first + 1)
    if crc & 0xFFFF != check:
        return None
    if not lines:
        return Index(offsets, 0, 0, reach)
    last, _ = _entry_at(file, lines - 1)
    return Index(offsets, lines, last.end, reach) if _is_there(last, column) else None


def _add_entries(offsets: RecordOffsets, entries: bytes, first: int) -> None:
    if not any(memoryview(entries).cast("H")[_TAG_AT // 2 :: ENTRY_BYTES // 2].tolist()):
        # All are records of generation 0: a third of the time of adding them one by one.
        new: dict[bytes, int] = dict(_KEY_AND_OFFSET.iter_unpack(entries))
        if len(new) == len(entries) // ENTRY_BYTES and offsets.add_plain(new):
            return
    marks = (
        (key, offset, length, _KINDS[tag & 3], tag >> 2)
        for key, offset, length, tag, _ in _ENTRY.iter_unpack(entries)
    )
    offsets.add(marks, first)


def _entry_at(file: BinaryIO, number: int) -> tuple[Mark, int]:
    """Return an entry and its checksum."""
    key, offset, length, tag, check = _ENTRY.unpack(_read(file, number, 1))
    return Mark(key, offset, length, _KINDS[tag & 3], tag >> 2), check


def _read(file: BinaryIO, first: int, count: int) -> bytes:
    file.seek(first * ENTRY_BYTES)
    entries = file.read(count * ENTRY_BYTES)
    if len(entries) != count * ENTRY_BYTES:
        raise ValueError("the index was truncated while it was read")
    return entries


def _is_there(mark: Mark, column: BinaryIO) -> bool:
    """Return whether the column has this line at its offset."""
    column.seek(mark.offset)
    line = column.read(mark.length)
    if not line.endswith(b"\n") or line.count(b"\n") != 1:
        return False
    if mark.kind is LineKind.RECORD:
        return is_whole(line) and line[KEY] == mark.key.hex().encode()
    return kind_of(line) is mark.kind
