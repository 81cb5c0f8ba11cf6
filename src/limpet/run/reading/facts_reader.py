"""How is one record found among a hundred thousand, without reading the others?

Our facts come first on a line: a short read at the record's offset gives its id, its time and its
usage, no matter how long the trace behind them is.
"""

import json
import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar, cast

from orjson import JSONDecodeError, loads

from limpet.journal.column import ColumnReader
from limpet.journal.files import open_to_read, size_of
from limpet.journal.lines import (
    KEY,
    PREFIX,
    Entry,
    LineKind,
    are_whole,
    decode_line,
    is_whole,
    key_of,
    keys_in,
    kind_of,
)
from limpet.json_values import encode

_GROUP_BYTES = 2**18
# ---- What was appended to a file since it was last read? ----------------------------------------
#
# A file of a run grows by whole lines, so each is read once. What follows the last valid line is
# read again: it may just be written, or recovery may trim it.

Lines = tuple[list[bytes], list[int], list[bytes]]
"""The keys of lines, where they begin, and the lines."""


class NewLines:
    """The valid lines of ours in a file that grows, in its order.

    Args:
        path: The file.

    Attributes:
        path: The file.
        end: Where the last valid line that was read ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0

    @property
    def left(self) -> int:
        """How many bytes follow; negative: the file was truncated."""
        try:
            return size_of(self.path) - self.end
        except FileNotFoundError:
            return -self.end

    def read(self, least: int | None = None) -> Iterator[Lines]:
        """Yield lines that were not read before, some at a time.

        Args:
            least: After so many bytes no more are read; None: all are.

        Raises:
            JournalError: It is not a regular file.
            OSError: It cannot be read.
        """
        with suppress(FileNotFoundError), open_to_read(self.path) as file:
            file.seek(self.end)
            until = self.end + (os.fstat(file.fileno()).st_size if least is None else least)
            at, pending = self.end, 0  # bytes of bad lines: they count if a valid one follows
            while (at < until or pending) and (lines := file.readlines(_GROUP_BYTES)):
                starts = list(accumulate(map(len, lines), initial=at))
                at = starts.pop()
                if not pending and are_whole(lines) and (keys := keys_in(lines)):
                    self.end = at
                    yield keys, starts, lines
                    continue
                found, pending = self._valid(starts, lines, pending)
                if found[0]:
                    yield found

    def _valid(self, starts: list[int], lines: list[bytes], pending: int) -> tuple[Lines, int]:
        """Return which lines are ours and valid, and how many bytes at the end may not count."""
        found: Lines = ([], [], [])
        for start, line in zip(starts, lines, strict=True):
            pending += len(line)
            keys = keys_in([line]) if is_whole(line) else []
            if keys:
                found[0].append(keys[0])
                found[1].append(start)
                found[2].append(line)
            if keys or kind_of(line) is not LineKind.BAD:
                self.end += pending
                pending = 0
        return found, pending


# ---- How is one record found among a hundred thousand, without reading the others? --------------

ValueT = TypeVar("ValueT")
Group: TypeAlias = tuple[list[bytes], list[ValueT], list[bytes]]
"""Keys, their values and their lines."""
_LAZY = frozenset({"_offsets", "state"})
_HEAD_BYTES = 1_000
_HALF = rb"\ud"
_BEGIN, _END = len(b'{"_limpet":{'), b'},"'
# Quotes inside a string are escaped, so these find names; ours come before those of the record.
_SECONDS = b'"seconds":'
_USAGE = b'"usage":{'


class FactsReader(ColumnReader):
    """A column whose facts can be read without its records.

    Where its records are is read when it is first needed: for a million, that takes a second and
    a hundred megabytes, and much can be said of a run without.

    Args:
        path: The column.
        index_path: Its index; None: check every line.
        opened: The same column, open already; its offsets are shared.
    """

    _file: BinaryIO | None = None

    def __init__(
        self, path: Path, index_path: Path | None = None, opened: ColumnReader | None = None
    ) -> None:
        self.path = path
        self._index_path = index_path
        if opened is not None:
            super().__init__(path, opened=opened)

    def __getattr__(self, name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(name)
        super().__init__(self.path, self._index_path)  # sets both
        return self.__dict__[name]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def refresh(self) -> None:
        """Read what was appended since, or everything if the file was replaced."""
        self.close()
        if self.__dict__.keys() >= _LAZY:
            super().refresh()

    def has(self, key: bytes) -> bool:
        """Return whether a key has a record."""
        return key in self._offsets.by_key

    def generation(self, key: bytes) -> int:
        """Return the generation of a key's record; -1 if there is none."""
        return self._offsets.generation(key)

    def offset(self, key: bytes) -> int:
        """Return where a key's record begins; -1 if there is none."""
        return self._offsets.by_key.get(key, -1)

    def keys(self) -> Iterator[bytes]:
        """Yield the keys in the order of the file."""
        return iter(self._offsets.by_key)

    def count_since(self, offset: int) -> int:
        """Return how many records begin at `offset` or later."""
        offsets = self._offsets.by_key
        if offset == 0:
            return len(offsets)
        return sum(1 for _ in takewhile(offset.__le__, reversed(offsets.values())))

    def since(self, offset: int) -> list[bytes]:
        """Return the keys of the records that begin at `offset` or later, the first first."""
        items = reversed(self._offsets.by_key.items())
        return [key for key, _ in takewhile(lambda item: item[1] >= offset, items)][::-1]

    @property
    def end(self) -> int:
        """Where the next record will begin."""
        return self.state.end

    def latest(self) -> Iterator[bytes]:
        """Yield the keys, the last in the file first."""
        return reversed(self._offsets.by_key)

    def facts(self, key: bytes) -> dict[str, Any] | None:
        """Return our facts about a record; None if there are none."""
        head = self._head(key)
        facts = None if head is None else facts_in(head)
        if facts is None and head is not None and len(head) == _HEAD_BYTES:
            facts = next((facts_in(line) for *_, line in self.lines({key: 0})), None)  # a long id
        return facts

    def usages(self, start: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the usage that calls reported, from the records that begin at `start` or later."""
        file = self._file or self._opened()
        at, end = start, self.state.end
        if file is not None:
            file.seek(start)
        while file is not None and at < end and (lines := file.readlines(_GROUP_BYTES)):
            starts = list(accumulate(map(len, lines), initial=at))
            at = starts.pop()
            # A field of the record may have the same name: only what our facts say counts.
            ours = [
                line
                for line, begin in zip(lines, starts, strict=True)
                if _USAGE in line and line.startswith(PREFIX) and begin < end
            ]
            found = (facts.get("usage") for facts in facts_to_add(ours))
            yield [usage for usage in found if usage is not None]

    def entry(self, key: bytes) -> Entry | None:
        """Return a record; None if there is none, or it is damaged."""
        return next((decode_line(line) for *_, line in self.lines({key: 0})), None)

    def lines(self, wanted: Mapping[bytes, ValueT]) -> Iterator[tuple[bytes, ValueT, bytes]]:
        """Yield each key that has a record, its value and its line, in the order of the file.

        A line that does not match its CRC is left out.
        """
        for keys, values, lines in self.groups(wanted):
            yield from zip(keys, values, lines, strict=True)

    def groups(self, wanted: Mapping[bytes, ValueT]) -> Iterator[Group[ValueT]]:
        """Yield the same as `lines`, some lines at a time: a loop over each takes longer."""
        file = self._file or self._opened()
        if file is None:
            return
        offsets = self._offsets.by_key
        if 2 * len(wanted) > len(offsets):  # most: those of the column are in order already
            by_key = offsets
        else:
            ordered = sorted((offsets[key], key) for key in wanted if key in offsets)
            by_key = {key: offset for offset, key in ordered}
        for keys, lines in _groups(file, by_key):
            values = [wanted.get(key) for key in keys]
            are_sure = are_whole(lines) and keys_in(lines) == keys
            if are_sure and None not in values:
                yield keys, cast("list[ValueT]", values), lines
                continue
            some = [
                (key, value, line)
                for key, value, line in zip(keys, values, lines, strict=True)
                if value is not None and (are_sure or (is_whole(line) and key_of(line) == key))
            ]
            if some:
                yield cast("Group[ValueT]", tuple(map(list, zip(*some, strict=True))))

    def keys_of(self, id_: str) -> list[bytes]:
        """Return the keys of all records of an item, in the order of the file."""
        needle = b'","id":' + encode(id_)[0] + b","
        keys: list[bytes] = []
        file = self._file or self._opened()
        if file is None or not self.state.end:
            return keys
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            at = text.find(needle)
            while at >= 0:
                begin = at - KEY.stop
                if begin >= 0 and text[begin : begin + len(PREFIX)] == PREFIX:
                    with suppress(ValueError):
                        key = bytes.fromhex(text[at - 32 : at].decode("ascii"))
                        if self._offsets.by_key.get(key) == begin:
                            keys.append(key)
                at = text.find(needle, at + 1)
        return keys

    def _head(self, key: bytes) -> bytes | None:
        offset = self._offsets.by_key.get(key)
        file = self._file or self._opened()
        if offset is None or file is None:
            return None
        return os.pread(file.fileno(), _HEAD_BYTES, offset)

    def _opened(self) -> BinaryIO | None:
        with suppress(FileNotFoundError):
            self._file = open_to_read(self.path)
        return self._file


def _groups(
    file: BinaryIO, by_key: Mapping[bytes, int]
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield the keys and the lines at these offsets, some at a time: a line may be very long."""
    keys, offsets, done = list(by_key), list(by_key.values()), 0
    while done < len(keys):
        at = offsets[done]
        last = offsets[bisect_right(offsets, at + _GROUP_BYTES, done) - 1]
        file.seek(at)
        lines = file.readlines(last - at + 1)
        if not lines:  # the file was truncated meanwhile
            return
        starts = list(accumulate(map(len, lines), initial=at))
        following = offsets[done : done + len(lines)]
        if following != starts[: len(following)]:  # other lines stand between them
            by_start = dict(zip(starts, lines, strict=False))
            following = following[: bisect_left(following, starts[-1])]
            lines = [by_start.get(offset, b"") for offset in following]
        yield keys[done : done + len(following)], lines[: len(following)]
        done += len(following)


def facts_in(line: bytes, begin: int = _BEGIN) -> dict[str, Any] | None:
    """Return our facts from the beginning of a line; None if they are not whole.

    Args:
        line: The line, or its beginning.
        begin: Where the first fact begins that is wanted.
    """
    # They end where a brace is followed by the next name. An id may contain that, too, and then
    # what comes before it is not JSON.
    end = line.find(_END, begin)
    while end >= 0:
        try:
            facts = loads(b"{" + line[begin : end + 1])
        except JSONDecodeError:
            facts = _with_half_characters(b"{" + line[begin : end + 1])
        if facts is not None:
            return cast("dict[str, Any]", facts)
        end = line.find(_END, end + 1)
    return None


def _with_half_characters(encoded: bytes) -> Any:
    """Return JSON with a lone surrogate, perhaps in an id; None: it has none, or is not JSON."""
    if _HALF not in encoded:
        return None
    try:
        return json.loads(encoded)
    except ValueError:
        return None


def facts_to_add(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return of each whole line those of our facts that are added up: they come last."""
    pieces: list[bytes] = []
    for line in lines:
        begin = line.find(_SECONDS, KEY.stop)
        end = line.find(_END, begin)
        while end >= 0 and line.count(b"{", begin, end) >= line.count(b"}", begin, end + 1):
            end = line.find(_END, end + 1)
        pieces.append(line[begin : end + 1])
    # A piece with a wrong end, because a string contains braces, makes all of this invalid: each
    # other piece is in the middle of an object or a string then.
    with suppress(JSONDecodeError):
        facts: list[dict[str, Any]] = loads(b"[{" + b",{".join(pieces) + b"]")
        if len(facts) == len(lines):
            return facts
    return [facts_in(line, line.find(_SECONDS, KEY.stop)) or {} for line in lines]


# ---- Which cells failed last, and why? ----------------------------------------------------------


class Failed(NamedTuple):
    """A failure on disk: the offset of its line, and our facts about it."""

    offset: int
    facts: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The class of the failure."""
        return str(self.facts.get("class", "unknown"))

    @property
    def type(self) -> str:
        """The exception."""
        return str(self.facts.get("type") or self.kind)

    @property
    def generation(self) -> int:
        """The generation that the record would have had."""
        generation = self.facts.get("generation", 0)
        return generation if isinstance(generation, int) else 0


class FailuresReader:
    """The latest failure of each step and key.

    A failure counts only while its column has no record of the cell: it may have succeeded since.

    Attributes:
        latest: The latest failures, by step and key.
        lines: The lines of the file.
    """

    def __init__(self, path: Path) -> None:
        self.lines = NewLines(path)
        self.latest: dict[tuple[str, str], Failed] = {}

    @property
    def end(self) -> int:
        """Where the next failure will begin."""
        return self.lines.end

    def refresh(self) -> None:
        """Read what was appended since, or everything if the file was truncated."""
        if self.lines.left < 0:
            self.lines, self.latest = NewLines(self.lines.path), {}
        for _, starts, lines in self.lines.read():
            for start, line in zip(starts, lines, strict=True):
                facts = facts_in(line)
                if facts is not None and "step" in facts:
                    self.latest[str(facts["step"]), str(facts["key"])] = Failed(start, facts)

    def of(self, step: str, start: int = 0) -> Iterator[tuple[str, Failed]]:
        """Yield the keys and failures of a step whose lines begin at `start` or later."""
        for (name, key), failed in self.latest.items():
            if name == step and failed.offset >= start:
                yield key, failed

    def record(self, failed: Failed) -> Mapping[str, Any]:
        """Return the whole record of a failure."""
        with open_to_read(self.lines.path) as file:
            file.seek(failed.offset)
            record = decode_line(file.readline()).record
        return record if isinstance(record, Mapping) else {}
