"""Where in a column does each record stand, without reading the column?

A column's index is a hint of 32 bytes per line: key, place, length, kind and generation, and a
check over all entries that were written before. It may be deleted, and it may be behind; it is
used only as far as it proves right: its lines lie within the file, the check fits, and the last
of them has its key and its CRC. Whatever comes after is read from the column itself.

Entries are written a group at a time, and those of a group have the same check: computing one for
each would take as long as encoding the records. So the last group is not covered by any check,
and its lines are read from the column too.
"""

import logging
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from limpet.errors import JournalError
from limpet.journal.checksum import crc32
from limpet.journal.files import OwnFile, make_directory, open_own, open_to_read, write_all
from limpet.journal.lines import KEY, LineKind, is_whole, kind_of

_ENTRY = struct.Struct("<16sQIHH")
_BLOCK_LINES = 64
_BLOCK = struct.Struct("<" + "16sQIHH" * _BLOCK_LINES)  # four times faster than one by one
_PLACE = struct.Struct("<16sQ8x")
_CHECK = struct.Struct("<30xH")
ENTRY_BYTES = _ENTRY.size
assert ENTRY_BYTES == 32  # noqa: PLR2004 - what the docs say
KEY_BYTES = 16
NO_KEY = bytes(KEY_BYTES)
MOST_GENERATIONS = 2**14 - 1
_CHUNK = 2**15 * ENTRY_BYTES
_GROUP_LINES = 2**12

logger = logging.getLogger("limpet.journal")


IndexEntry = tuple[bytes, int, int, int, int]
"""Key, offset, length, what `tag_of` says, and the check."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of a column, as the index knows it."""

    key: bytes
    offset: int
    length: int
    kind: LineKind
    generation: int = 0

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.offset + self.length


class IndexFile:
    """An index that grows with its column. It is a hint: a failure to write it ends it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._crc = 0
        self._fd = -1
        try:
            make_directory(path.parent)
            self._fd = open_own(path, os.O_APPEND)
            self._own = OwnFile.of(self._fd)
        except JournalError as error:
            self._give_up(str(error))
        except OSError as error:
            self._give_up(error.strerror)

    def clear(self) -> None:
        """Forget what it says: it is made anew."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
        self._crc = 0

    @property
    def check(self) -> int:
        """What the next entries have to say of those before them."""
        return self._crc & 0xFFFF

    def add_all(self, entries: Sequence[IndexEntry]) -> None:
        """Write the entries of the next lines: a group, all with the same `check`."""
        try:
            packed = [
                _BLOCK.pack(*chain.from_iterable(entries[at : at + _BLOCK_LINES]))
                for at in range(0, len(entries) - _BLOCK_LINES + 1, _BLOCK_LINES)
            ]
            left = len(entries) % _BLOCK_LINES
            packed += [_ENTRY.pack(*entry) for entry in entries[len(entries) - left :]]
        except struct.error:  # its length does not fit
            self._give_up("a line is longer than 4 GiB")
            return
        written = b"".join(packed)
        self._crc = crc32(written, self._crc)
        self._write(written)

    def _write(self, entries: bytes) -> None:
        if self._fd < 0 or not entries:
            return
        try:
            self._own.size()
            write_all(self._fd, [entries])
        except OSError as error:
            self._give_up(error.strerror)

    def _give_up(self, why: str | None) -> None:
        self.close()
        logger.warning(
            "%s: cannot be written, so the next opening takes longer: %s", self._path, why
        )

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            self._own.close()
            self._fd = -1


def tag_of(kind: int, generation: int) -> int:
    """Return a line's kind and generation as one number."""
    return kind | min(generation, MOST_GENERATIONS) << 2 if generation else kind


def kind_and_generation(tag: int) -> tuple[LineKind, int]:
    """Return what `tag_of` made one number of."""
    return LineKind(tag & 3), tag >> 2


class Index:
    """The part of an index file that fits its column.

    Attributes:
        lines: How many lines of the column it vouches for.
        end: Where in the column the first line stands that it does not vouch for.
        reach: Where the last line ends of which it says anything.
    """

    def __init__(self, path: Path, lines: int, end: int, reach: int) -> None:
        self.path = path
        self.lines = lines
        self.end = end
        self.reach = reach

    def places(self) -> "Places":
        """Return where each key's record stands, and which lines are bad."""
        # One pass in C, a chunk at a time: a million entries take a third of a second.
        offsets: dict[bytes, int] = {}
        plain = True
        for chunk in self._chunks():
            offsets.update(_PLACE.iter_unpack(chunk))
            # The two bytes of each entry that hold its tag: from 4 on, it has a generation.
            plain = plain and max(chunk[28::ENTRY_BYTES]) < 4 and not any(chunk[29::ENTRY_BYTES])  # noqa: PLR2004
        places = Places(offsets)
        if len(offsets) != self.lines or NO_KEY in offsets or not plain:
            # Some key comes twice, or a line has none: only then does each have to be looked at.
            places = Places({})
            for number, mark in enumerate(self.marks(), 1):
                places.add(mark.key, mark.offset, mark.kind, mark.generation, number)
        return places

    def marks(self) -> Iterator[Mark]:
        """Yield the lines in file order."""
        for chunk in self._chunks():
            for key, offset, length, tag, _ in _ENTRY.iter_unpack(chunk):
                yield Mark(key, offset, length, *kind_and_generation(tag))

    def _chunks(self) -> Iterator[bytes]:
        left = self.lines * ENTRY_BYTES
        with open_to_read(self.path) as file:
            while left:
                chunk = file.read(min(_CHUNK, left))
                if not chunk:
                    raise ValueError("the index was cut while it was read")
                left -= len(chunk)
                yield chunk


class Places:
    """Where each key's record stands: the first of the highest generation wins.

    Attributes:
        offsets: By key.
        bad_lines: The numbers of lines that do not count, from 1.
    """

    # Measured for a million records: 138 bytes each. A second dict for lengths would make it 200.
    __slots__ = ("_generations", "bad_lines", "offsets")

    def __init__(self, offsets: dict[bytes, int]) -> None:
        self.offsets = offsets
        self.bad_lines: list[int] = []
        self._generations: dict[bytes, int] = {}

    def add(self, key: bytes, offset: int, kind: int, generation: int, number: int) -> None:
        """Take note of a line."""
        if kind == LineKind.BAD:
            self.bad_lines.append(number)
        elif kind != LineKind.FOREIGN and (
            key not in self.offsets or generation > self._generations.get(key, 0)
        ):
            self.offsets.pop(key, None)  # to the end: the keys stay in the order of the file
            self.offsets[key] = offset
            if generation:
                self._generations[key] = generation

    def generation(self, key: bytes) -> int:
        """Return the generation of the record of a key; -1 if there is none."""
        return self._generations.get(key, 0) if key in self.offsets else -1

    def next_generation(self, key: bytes) -> int:
        """Return which generation the next record of a key needs to win over what was there."""
        known = key in self.offsets or key in self._generations
        return self._generations.get(key, 0) + 1 if known else 0

    @property
    def highest_generation(self) -> int:
        """The highest generation of all records."""
        return max(self._generations.values(), default=0)

    def forget(self, key: bytes) -> None:
        """Let a key have no record, because the one it had is damaged."""
        if self.offsets.pop(key, None) is not None:
            self._generations.setdefault(key, 0)  # an index may go on naming the damaged line


def load_index(path: Path, column: BinaryIO) -> Index | None:
    """Return as much of the index as proves right; None if there is none or it is wrong."""
    size = os.fstat(column.fileno()).st_size
    try:
        with open_to_read(path) as file:
            known = _lines_within(file, size)
            if not known:
                return None
            lines, check = _before_last_group(file, known)
            if _crc_of(file, lines) & 0xFFFF != check:
                return None
            reach = _mark_at(file, known - 1).end
            if not lines:
                return Index(path, 0, 0, reach)
            last = _mark_at(file, lines - 1)
    except (OSError, ValueError, JournalError):
        return None
    column.seek(last.offset)
    if not _is_line_of(last, column.read(last.length)):
        return None
    return Index(path, lines, last.end, reach)


def _is_line_of(mark: Mark, line: bytes) -> bool:
    if not line.endswith(b"\n") or line.count(b"\n") != 1:
        return False
    if mark.kind >= LineKind.FOREIGN:
        return kind_of(line) is mark.kind
    return is_whole(line) and line[KEY] == mark.key.hex().encode()


def _lines_within(file: BinaryIO, size: int) -> int:
    """Return how many entries speak of lines that lie within the column: places ascend."""
    low, high = 0, os.fstat(file.fileno()).st_size // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if _mark_at(file, middle).end <= size:
            low = middle + 1
        else:
            high = middle
    return low


def _before_last_group(file: BinaryIO, lines: int) -> tuple[int, int]:
    """Return how many entries come before the last group, and what it says of them."""
    check: int | None = None
    while lines:
        first = max(0, lines - _GROUP_LINES)
        file.seek(first * ENTRY_BYTES)
        raw = file.read((lines - first) * ENTRY_BYTES)
        for (one,) in reversed(list(_CHECK.iter_unpack(raw))):
            if check is not None and one != check:
                return lines, check
            check = one
            lines -= 1
    return 0, check or 0


def _crc_of(file: BinaryIO, lines: int) -> int:
    file.seek(0)
    crc, left = 0, lines * ENTRY_BYTES
    while left:
        chunk = file.read(min(_CHUNK, left))
        if not chunk:
            raise ValueError("the index ended early")
        crc = crc32(chunk, crc)
        left -= len(chunk)
    return crc


def _mark_at(file: BinaryIO, number: int) -> Mark:
    file.seek(number * ENTRY_BYTES)
    raw = file.read(ENTRY_BYTES)
    if len(raw) != ENTRY_BYTES:
        raise ValueError("the index ended early")
    key, offset, length, tag, _ = _ENTRY.unpack(raw)
    return Mark(key, offset, length, *kind_and_generation(tag))
