"""How is one record found among a hundred thousand, without reading the others?

Our facts stand first on a line: a short read at the record's place gives its id, its time and what
it used, however long the trace behind them is.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from orjson import JSONDecodeError, loads

from limpet.journal.column import ColumnReader
from limpet.journal.files import open_to_read
from limpet.journal.lines import KEY, Entry, decode_line, is_whole

_HEAD_BYTES = 1_000
_BEGIN, _END = len(b'{"_limpet":'), b'},"'
# In a text the quotes would be escaped, so this finds a name; ours stands before the record's.
_USAGE = re.compile(rb'"usage":(\{[^{}]*\})')


class FactsReader(ColumnReader):
    """A column of which the facts can be asked without the records."""

    def __init__(self, path: Path, index_path: Path | None = None) -> None:
        super().__init__(path, index_path)
        self._file: BinaryIO | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def refresh(self) -> None:
        """Read what was appended since, also if the file was replaced meanwhile."""
        self.close()
        super().refresh()

    def has(self, key: bytes) -> bool:
        """Tell whether a key has a record."""
        return key in self._places.offsets

    def generation(self, key: bytes) -> int:
        """Return the generation of a key's record; -1 if there is none."""
        return self._places.generation(key)

    def keys(self) -> Iterator[bytes]:
        """Yield the keys in the order of the file."""
        return iter(self._places.offsets)

    def since(self, offset: int) -> list[bytes]:
        """Return the keys whose records begin there in the file or later, in its order."""
        places = reversed(self._places.offsets.items())
        return [key for key, _ in takewhile(lambda one: one[1] >= offset, places)][::-1]

    @property
    def end(self) -> int:
        """Where the next record will begin."""
        return self.state.end

    def latest(self) -> Iterator[bytes]:
        """Yield the keys, the last of the file first."""
        return reversed(self._places.offsets)

    def facts(self, key: bytes) -> dict[str, Any] | None:
        """Return our facts about a record; None if there are none."""
        head = self._head(key)
        facts = None if head is None else facts_in(head)
        if facts is None and head is not None and len(head) == _HEAD_BYTES:
            facts = facts_in(self._line(key))  # an id of unusual length
        return facts

    def usage(self, key: bytes) -> dict[str, Any] | None:
        """Return what a call reported to have used; None if it did not."""
        head = self._head(key)
        found = None if head is None else _USAGE.search(head)
        with suppress(JSONDecodeError):  # damaged
            return None if found is None else loads(found[1])
        return None

    def entry(self, key: bytes) -> Entry | None:
        """Return a record; None if there is none, or it is damaged."""
        line = self._line(key)
        if not is_whole(line) or line[KEY].lower() != key.hex().encode():
            return None
        with suppress(ValueError):
            return decode_line(line)
        return None

    def _head(self, key: bytes) -> bytes | None:
        offset = self._places.offsets.get(key)
        file = self._file or self._opened()
        if offset is None or file is None:
            return None
        return os.pread(file.fileno(), _HEAD_BYTES, offset)

    def _line(self, key: bytes) -> bytes:
        offset = self._places.offsets.get(key)
        file = self._file or self._opened()
        if offset is None or file is None:
            return b""
        if file.tell() != offset:  # most are read in the order of the file
            file.seek(offset)
        return file.readline()

    def _opened(self) -> BinaryIO | None:
        with suppress(FileNotFoundError):
            self._file = open_to_read(self.path)
        return self._file


def facts_in(line: bytes) -> dict[str, Any] | None:
    """Return our facts from the beginning of a line; None if they are not whole."""
    # They end where a brace is followed by the next name; in an id that may stand too, and then
    # what comes before it is no JSON.
    end = line.find(_END, _BEGIN)
    while end >= 0:
        with suppress(JSONDecodeError):
            facts = loads(line[_BEGIN : end + 1])
            return facts if isinstance(facts, dict) else None
        end = line.find(_END, end + 1)
    return None
