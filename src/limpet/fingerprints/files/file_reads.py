"""Which files does a cell read?

A file read outside any cell (at import, during setup, in a user's thread) counts for all cells.

A cell may use a file that an earlier cell read and cached. So a file counts for all cells that end
after it was read, with two exceptions:

- A file that a later cell reads again, on the same thread, is not cached, provided that the step
  has no visible state, is not a class, keeps nothing per thread, and reads no file that the run
  wrote. It counts for the cells that read it. For a class, files that only other steps read are not
  cached: no other step has its object.
- A file whose name comes from the row (`docs/17.txt` for item 17) does not count for a cell that
  read the file of its own row.

Reads by C code and by other processes are not seen.
"""

import itertools
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from limpet.fingerprints.files.project import Project
from limpet.fingerprints.walk.ownership import is_users_file

_LONGEST_WORD = 200
_DEEPEST = 4
_MOST_READS = 1_000
_MOST_IN_PROCESS = 10_000
_ticks = itertools.count()


class Read(NamedTuple):
    """A file that a step read for the first time, or whose content changed.

    Attributes:
        step: The name of the step.
        file: The name of the file.
        digest: The digest of its content.
        pattern: The name with `*` for the part that comes from the row, if any.
        word: The part that comes from the row.
    """

    step: str
    file: str
    digest: str
    pattern: str | None = None
    word: str | None = None


class CellReads:
    """The files that one cell reads.

    Attributes:
        files: The digest of each file it read, by name.
        is_truncated: Whether it read more files than are listed.
    """

    __slots__ = ("_begun", "_step", "_values", "ended", "files", "is_truncated")

    def __init__(self, step: "StepReads", row: Any) -> None:
        self.files: dict[str, str] = {}
        self.is_truncated = False
        self._step = step
        self._values = row
        self._begun, self.ended = next(_ticks), -1

    def end(self) -> None:
        self.ended = next(_ticks)

    def began_after(self, other: "CellReads") -> bool:
        return 0 <= other.ended < self._begun

    def words(self) -> frozenset[str]:
        """Return the values of the row, as strings."""
        if not isinstance(self._values, frozenset):
            self._values = frozenset(_words(self._values, _DEEPEST))
        return self._values

    def is_of(self, step: "StepReads") -> bool:
        return self._step is step

    def has_code(self, source: str | None) -> bool:
        """Return whether a source file counts as code of its step."""
        return source in self._step.sources

    def read(self, name: str, digest: str, thread: object = None) -> None:
        if self.ended >= 0:  # read by a task that outlives the cell
            self._step.read(name, digest, None)
            return
        if len(self.files) < _MOST_READS:
            self.files.setdefault(name, digest)
        elif name not in self.files:
            self.is_truncated = True
        self._step.read(name, digest, self, thread)


class StepReads:
    """The files that the cells of a step read in a session.

    Args:
        step: The name of the step.
        code: The file and line of each of its functions.
        known: Files that its functions read earlier in this process and may have cached, with
            their digests.
        sources: The source files that count as its code.

    Attributes:
        modules: Files that were loaded as modules: Python caches them.
    """

    def __init__(
        self,
        step: str,
        code: Collection[tuple[str, int]] = (),
        known: Iterable[tuple[str, str]] = (),
        sources: Collection[str] = (),
    ) -> None:
        self.step = step
        self.code = code
        self.sources = sources
        self.new: list[Read] = []
        self.afresh: set[str] = set()
        self.modules: set[str] = set()
        self.elsewhere: set[str] = set()
        self.own: set[str] = set()
        self._known: dict[str, Read] = {}
        self._readers: dict[tuple[str, object], CellReads] = {}
        for name, digest in known:
            if name.endswith(".py"):
                self.modules.add(name)
            self.read_elsewhere(name, digest)

    def knows(self, name: str) -> str | None:
        """Return the digest of a file at its last read; None if it was never read."""
        known = self._known.get(name)
        return None if known is None else known.digest

    def read(self, name: str, digest: str, cell: CellReads | None, thread: object = None) -> None:
        """Record that a file was read, by a cell or for all cells.

        Args:
            name: The file.
            digest: The digest of its content.
            cell: The cell that read it; None: it counts for all cells.
            thread: The thread of another process that read it; None: this thread.
        """
        self.own.add(name)
        self._read(name, digest, cell, thread)

    def _read(self, name: str, digest: str, cell: CellReads | None, thread: object = None) -> None:
        if cell is not None:
            self._check_read_again(name, cell, thread or threading.get_native_id())
        if self.knows(name) == digest:
            return
        pattern, word = (None, None) if cell is None else derived_from(name, cell.words())
        self._known[name] = Read(self.step, name, digest, pattern, word)
        self.new.append(self._known[name])

    def read_elsewhere(self, name: str, digest: str) -> None:
        """Record that another step read a file with a function that this step also uses."""
        self.elsewhere.add(name)
        self._read(name, digest, None)

    def _check_read_again(self, name: str, cell: CellReads, thread: object) -> None:
        if name in self.afresh:
            return
        reader = (name, thread)
        before = self._readers.setdefault(reader, cell)
        if before is not cell and cell.began_after(before):
            self.afresh.add(name)


def derived_from(name: str, words: frozenset[str]) -> tuple[str | None, str | None]:
    """Return a file's name with `*` for a value of the row, and the value; (None, None) if none."""
    longest = ""
    for word in words:
        if len(word) > len(longest) and word in name and re.search(_as_word(word), name):
            longest = word
    return (re.sub(_as_word(longest), "*", name), longest) if longest else (None, None)


def _as_word(word: str) -> str:
    """Return a pattern for a whole word in a name."""
    return rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"


def _words(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, (str, int, float)):
        text = str(value)
        if 0 < len(text) <= _LONGEST_WORD:
            yield text
    elif isinstance(value, Mapping) and depth:
        for element in value.values():
            yield from _words(element, depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for element in value:
            yield from _words(element, depth - 1)


# ---- reads of this process ----------------------------------------------------------------------

_read_in_process: dict[str, tuple[str, set[tuple[str, int]]]] = {}
_contents = Project([])


def remember(path: str, by: frozenset[tuple[str, int]]) -> None:
    """Remember the functions that read a file in this process: they may have cached it."""
    if not is_users_file(path) or len(_read_in_process) >= _MOST_IN_PROCESS:
        return
    digest = _contents.digest_at(path)
    if digest is not None:
        _, readers = _read_in_process.get(path, ("", set()))
        _read_in_process[path] = (digest, readers | by)


def read_by(code: Collection[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return the paths that functions read in this process, with their digests."""
    reads = list(_read_in_process.items())
    return [(path, digest) for path, (digest, readers) in reads if not readers.isdisjoint(code)]
