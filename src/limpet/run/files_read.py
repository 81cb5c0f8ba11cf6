"""Which files did the results depend on, and do they still say the same?

Each record names the files that its own call read, with their digests. What it may have found in a
cache stands in `files.jsonl`: a numbered line for each file that a session read for the first time;
a record says which of them were read before it was done. Both are compared when a run is planned.
"""

import contextlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from limpet.errors import JournalError
from limpet.fingerprints.differences import Difference, differences
from limpet.fingerprints.looked import digest_of
from limpet.fingerprints.project import ABSENT, Project
from limpet.fingerprints.reads import Read
from limpet.fingerprints.shown import Shown
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout
from limpet.journal.lines import Entry, decode_line, is_whole

FILES, SHARED = "files", "shared"
"""Our facts about a record: what its call read, and which lines of `files.jsonl` came before it."""
LONGEST_TEXT = 10_000
"""Up to here a file's text is kept, so that a difference can be shown."""
LOST = "a file that was read (which one is lost)"


class FilesRead:
    """What sessions before read, by `files.jsonl`.

    Attributes:
        last: The highest number in it.
    """

    def __init__(self, layout: Layout) -> None:
        self._lines: dict[int, Read] = {}
        self._afresh: set[tuple[str, str]] = set()
        self._written: set[str] = set()
        self._texts: dict[tuple[str, str], str] = {}
        words: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for entry in _entries(layout):
            step, record = str(entry.facts.get("step")), entry.record
            if "written" in record:
                self._written.add(record["written"])
            elif "afresh" in record:
                self._afresh.add((step, record["afresh"]))
            elif "file" in record:
                one = Read(step, *(record.get(name) for name in Read._fields[1:]))
                self._lines[entry.facts["n"]] = one
                if "text" in record:
                    self._texts[one.file, one.says] = record["text"]
                if one.pattern is not None and one.word is not None:
                    words[step, one.pattern].add(one.word)
        self._numbers = sorted(self._lines)
        self.last = self._numbers[-1] if self._numbers else 0
        # A single file may be called as its row says by chance.
        self._by_row = {pattern for pattern, found in words.items() if len(found) > 1}

    def names(self, step: str) -> list[str]:
        """Return the files that a step has read, and nobody wrote."""
        found = {one.file for one in self._lines.values() if one.step == step}
        return sorted(found - self._written)

    def differences(
        self, step: str, names: Collection[str], project: Project, clean: Callable[[Any], Any]
    ) -> tuple[Difference, ...]:
        """Return what files say now that said something else when a step read them.

        Args:
            step: Which.
            names: The files; others are left out.
            project: Whose files they are.
            clean: Takes secrets out of a text.
        """
        before: dict[str, str] = {}
        now: dict[str, str] = {}
        known: dict[tuple[str, str], Shown] = {}
        for number in self._numbers:
            one = self._lines[number]
            says = project.says(one.file)
            if one.step != step or one.file not in names or one.says == says:
                continue
            before[one.file] = one.says
            known[one.file, one.says] = Shown("file", self._texts.get((one.file, one.says)))
            if says != ABSENT:
                now[one.file] = says
                text = project.text(one.file, says, LONGEST_TEXT)
                known[one.file, says] = Shown("file", None if text is None else clean(text))
        return differences(before, now, known)

    def state(self, project: Project) -> str:
        """Return a digest of what all the files say now that some result may depend on."""
        files = {one.file for one in self._lines.values()} - self._written
        return digest_of([[name, project.says(name)] for name in sorted(files)])

    def changed(self, step: str, project: Project) -> "Changed":
        """Return the files of a step that say something else now."""
        says = {
            one.file: project.says(one.file)
            for one in self._lines.values()
            if one.step == step and one.file not in self._written
        }
        lines: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        found: set[str] = set()
        for number in self._numbers:
            one = self._lines[number]
            if one.step != step or one.file not in says:
                continue
            if one.says != says[one.file]:
                found.add(one.file)
            by_row = one.pattern is not None and (step, one.pattern) in self._by_row
            if not by_row and (step, one.file) not in self._afresh:
                lines[one.file].append((number, one.says))
        shared = {name: lines[name] for name in found if name in lines}
        return Changed({name: says[name] for name in found}, shared, self._numbers)


class Changed:
    """Files that say something else than when a step read them.

    Args:
        says: What each says now.
        shared: Of those that a cache may hold, the numbers of their lines and what they said.
        numbers: Of all lines that are there.
    """

    def __init__(
        self,
        says: Mapping[str, str],
        shared: Mapping[str, list[tuple[int, str]]],
        numbers: list[int],
    ) -> None:
        self.says = says
        self._shared = shared
        self._numbers = numbers

    def __bool__(self) -> bool:
        return bool(self.says)

    def among(self, facts: Mapping[str, Any]) -> Iterator[str]:
        """Yield which of them a record depends on, by its facts."""
        own = facts.get(FILES)
        own = own if isinstance(own, dict) else {}
        yield from (name for name, said in own.items() if self.says.get(name, said) != said)
        match facts.get(SHARED):
            case [int() as first, int() as last]:
                yield from self._among_shared(first, last, own)

    def _among_shared(self, first: int, last: int, own: Mapping[str, Any]) -> Iterator[str]:
        for name, lines in self._shared.items():
            at = bisect_right(lines, last, key=lambda one: one[0]) - 1
            if name in own or at < 0 or lines[at][0] < first:
                continue
            if lines[at][1] != self.says[name]:  # the latest before the record was done
                yield name
        there = bisect_right(self._numbers, last) - bisect_right(self._numbers, first - 1)
        if there <= last - first:
            yield LOST


def _entries(layout: Layout) -> Iterator[Entry]:
    with contextlib.suppress(FileNotFoundError), open_to_read(layout.files) as file:
        for line in file:
            if is_whole(line):
                with contextlib.suppress(ValueError, JournalError):  # as if it were lost
                    yield decode_line(line)
