"""Which files does a call read?

What is read outside of any call (at import, while setting up, in a thread of the user's) is read
for all of them.

What one call reads another may use: the first fills a cache. So what a call read before is shared
by all that end later, with two exceptions, each with evidence:

- a file that a later call reads again, on the same thread, is read afresh by whoever needs it, if
  the step holds nothing that changes: a cache that is refilled looks the same;
- a file whose name comes out of the row (`docs/17.txt` for the item 17) is not for a call that read
  the file of its own row.

Not seen: what code in C and what other processes read.
"""

import itertools
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

_LONGEST_WORD = 200
_DEEPEST = 4
_MOST_READS = 1_000
_ticks = itertools.count()


class Read(NamedTuple):
    """A file that was read for the first time by a step, or said something else than before.

    Attributes:
        step: Which.
        file: What it is called.
        says: Its digest.
        pattern: Its name without what the row says, where the row says part of it.
        word: That part.
    """

    step: str
    file: str
    says: str
    pattern: str | None = None
    word: str | None = None


class Call:
    """One call, and what it reads.

    Attributes:
        files: What it read: by name, the digest.
        is_cut: It read more than that.
    """

    __slots__ = ("_begun", "_step", "_values", "ended", "files", "is_cut")

    def __init__(self, step: "StepReads", row: Any) -> None:
        self.files: dict[str, str] = {}
        self.is_cut = False
        self._step = step
        self._values = row
        self._begun, self.ended = next(_ticks), -1

    @property
    def is_over(self) -> bool:
        return self.ended >= 0

    def end(self) -> None:
        self.ended = next(_ticks)

    def began_after(self, other: "Call") -> bool:
        return 0 <= other.ended < self._begun

    def words(self) -> frozenset[str]:
        """Return what the row says: its values, each as a text."""
        if not isinstance(self._values, frozenset):
            self._values = frozenset(_words(self._values, _DEEPEST))
        return self._values

    def is_of(self, step: "StepReads") -> bool:
        return self._step is step

    def read(self, name: str, says: str) -> None:
        if self.is_over:  # by a task that it left behind
            self._step.read(name, says, None)
        else:
            if len(self.files) < _MOST_READS:
                self.files.setdefault(name, says)
            elif name not in self.files:
                self.is_cut = True
            self._step.read(name, says, self)


class StepReads:
    """What the calls of one step read in one session.

    Args:
        step: Its name.
        code: The functions of the user's that it is made of: file and line of each.
        known: Files that were read before by its functions in this process, and may be in a cache
            since, with what they said.
    """

    def __init__(
        self,
        step: str,
        code: Collection[tuple[str, int]] = (),
        known: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.step = step
        self.code = code
        self.new: list[Read] = []
        self.afresh: set[str] = set()
        self.elsewhere: set[str] = set()
        self._known: dict[str, Read] = {}
        self._readers: dict[tuple[str, int], Call] = {}
        for name, says in known:
            self.read_elsewhere(name, says)

    def knows(self, name: str) -> str | None:
        """Return what a file said when it was last read; None if it never was."""
        known = self._known.get(name)
        return None if known is None else known.says

    def read(self, name: str, says: str, call: Call | None) -> None:
        """Note that a file was read, by a call or for all of them."""
        known = self._known.get(name)
        if call is not None:
            self._look_for_reader(name, call)
        if known is not None and known.says == says:
            return
        pattern, word = (None, None) if call is None else derived_from(name, call.words())
        self._note(Read(self.step, name, says, pattern, word))

    def read_elsewhere(self, name: str, says: str) -> None:
        """Note that another step's call read a file, by a function of this one's, too."""
        self.elsewhere.add(name)
        self.read(name, says, None)

    def _note(self, read: Read) -> None:
        self._known[read.file] = read
        self.new.append(read)

    def _look_for_reader(self, name: str, call: Call) -> None:
        if name in self.afresh:
            return
        place = (name, threading.get_native_id())
        before = self._readers.setdefault(place, call)
        if before is not call and call.began_after(before):
            self.afresh.add(name)


def derived_from(name: str, words: frozenset[str]) -> tuple[str | None, str | None]:
    """Return a file's name without what a row says, and what that is; None, None if nothing."""
    found = ""
    for word in words:
        if len(word) > len(found) and word in name and re.search(_alone(word), name):
            found = word
    return (re.sub(_alone(found), "*", name), found) if found else (None, None)


def _alone(word: str) -> str:
    """Return a pattern for a word that stands by itself in a name."""
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
