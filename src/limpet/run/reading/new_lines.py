"""What was appended to a file since it was last read?

A file of a run grows by whole lines, so each is read once. What follows the last valid line is read
again: it may just be written, or recovery may cut it off.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from limpet.journal.files import open_to_read, size_of
from limpet.journal.lines import LineKind, are_whole, crc32, is_whole, keys_in, kind_of

_GROUP_BYTES = 2**18
Lines = tuple[list[bytes], list[int], list[bytes]]
"""The keys of lines, where they begin, and the lines."""


class NewLines:
    """The valid lines of ours in a file that grows, in its order.

    Args:
        path: The file.
        end: Where to begin.
        crc: The CRC32 of what comes before.

    Attributes:
        path: The file.
        end: Where the last valid line that was read ends.
        crc: The CRC32 of all bytes before it, as they were read.
    """

    def __init__(self, path: Path, end: int = 0, crc: int = 0) -> None:
        self.path = path
        self.end = end
        self.crc = crc

    @property
    def left(self) -> int:
        """How many bytes follow; negative: the file was cut."""
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
            at, pending = self.end, list[bytes]()  # bad lines: they count if a valid one follows
            while (at < until or pending) and (lines := file.readlines(_GROUP_BYTES)):
                starts = list(accumulate(map(len, lines), initial=at))
                at = starts.pop()
                if not pending and are_whole(lines) and (keys := keys_in(lines)):
                    self._pass(lines)
                    yield keys, starts, lines
                    continue
                found, pending = self._valid(starts, lines, pending)
                if found[0]:
                    yield found

    def _valid(
        self, starts: list[int], lines: list[bytes], pending: list[bytes]
    ) -> tuple[Lines, list[bytes]]:
        """Return which lines are ours and valid, and those that may not count."""
        found: Lines = ([], [], [])
        for start, line in zip(starts, lines, strict=True):
            pending.append(line)
            keys = keys_in([line]) if is_whole(line) else []
            if keys:
                found[0].append(keys[0])
                found[1].append(start)
                found[2].append(line)
            if keys or kind_of(line) is not LineKind.BAD:
                self._pass(pending)
                pending = []
        return found, pending

    def _pass(self, lines: list[bytes]) -> None:
        passed = b"".join(lines)
        self.end += len(passed)
        self.crc = crc32(passed, self.crc)
