"""Which files do results depend on, and have these files changed?

Each record names the files that its own call read, with their digests. Files that it may have found
in a cache are in `files.jsonl`, which has a numbered line for each file that a session read for the
first time; a record says which lines precede it. Planning compares both with the files on disk. If
a line is damaged or missing, the files behind these records are unknown.
"""

import contextlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from limpet.errors import JournalError
from limpet.fingerprints.differences import differences
from limpet.fingerprints.files.file_reads import Read
from limpet.fingerprints.files.project import ABSENT, Project
from limpet.fingerprints.part_contents import PartContent
from limpet.fingerprints.walk.result import digest_of
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout
from limpet.journal.lines import Entry, decode_line, is_whole
from limpet.secrets.in_code import without_settings
from limpet.shapes import Difference

FILES, SHARED = "files", "shared"
"""Facts about a record: the files its call read, and the lines of `files.jsonl` before it."""
FILES_TRUNCATED = "files_truncated"
"""Fact about a record: its call read more files than it names."""
LONGEST_TEXT = 10_000
"""The longest text of a file that is kept, to show a diff."""
LOST = "files.jsonl: damaged"
"""Stands for the files of lines that are damaged or missing."""


class FilesRead:
    """The files that earlier sessions read, from `files.jsonl`.

    Args:
        layout: Where it is.
        recorded: The number of the last line according to `run.json`.

    Attributes:
        last: The highest line number.
    """

    def __init__(self, layout: Layout, recorded: int = 0) -> None:
        self._lines: dict[int, Read] = {}
        self._afresh: set[tuple[str, str, int]] = set()
        self._written: set[tuple[str, int]] = set()
        self._texts: dict[tuple[str, str], str] = {}
        self._bad_lines = 0
        for entry, bad_lines in _entries(layout):
            self._bad_lines += bad_lines
            step, record = str(entry.facts.get("step")), entry.record
            begin = record.get("from", 0)
            if "written" in record:
                self._written.add((record["written"], begin))
            elif "afresh" in record:
                self._afresh.add((step, record["afresh"], begin))
            elif "file" in record:
                read = Read(step, *(record.get(name) for name in Read._fields[1:]))
                number = entry.facts.get("n")
                if isinstance(number, int):
                    self._lines[number] = read
                if "text" in record:
                    self._texts[read.file, read.digest] = record["text"]
        self._numbers = sorted(self._lines)
        self.last = max(recorded, *self._numbers[-1:], 0)
        self._sessions = sorted({begin for _, begin in self._written})

    def _is_written(self, name: str, number: int) -> bool:
        """Return whether the session that recorded a line wrote the file itself."""
        return any(
            file == name
            and begin <= number
            and not any(begin < other <= number for other in self._sessions)
            for file, begin in self._written
        )

    def _not_written(self) -> Iterator[Read]:
        """Yield the reads of files that the run did not write."""
        lines = self._lines.items()
        return (read for number, read in lines if not self._is_written(read.file, number))

    def names(self, step: str) -> list[str]:
        """Return the files that a step read and the run did not write."""
        return sorted({read.file for read in self._not_written() if read.step == step})

    def differences(
        self, step: str, names: Collection[str], project: Project, clean: Callable[[Any], Any]
    ) -> tuple[Difference, ...]:
        """Return how these files changed since a step read them; `clean` removes secrets."""
        before: dict[str, str] = {}
        now: dict[str, str] = {}
        known: dict[tuple[str, str], PartContent] = {}
        for number in self._numbers:
            read = self._lines[number]
            digest = project.digest(read.file)
            if read.step != step or read.file not in names or read.digest == digest:
                continue
            before[read.file] = read.digest
            known[read.file, read.digest] = PartContent(
                "file", self._texts.get((read.file, read.digest))
            )
            if digest != ABSENT:
                now[read.file] = digest
                text = project.text(read.file, digest, LONGEST_TEXT)
                safe = None if text is None else clean(without_settings(text))
                known[read.file, digest] = PartContent("file", safe)
        return differences(before, now, known)

    def state(self, project: Project) -> str:
        """Return a digest of the current content of all files that results may depend on."""
        project.own |= {name for name, _ in self._written}
        files = {read.file for read in self._not_written()}
        return digest_of([[name, project.digest(name)] for name in sorted(files)])

    def changed(self, step: str, project: Project) -> "Changed":
        """Return the changed files of a step."""
        project.own |= {name for name, _ in self._written}
        changed = Changed(project, self._numbers)
        if self._bad_lines or len(self._numbers) < self.last:
            changed.damage = digest_of([self._bad_lines, self.last, self._numbers])
            changed.has_bad_lines = self._bad_lines > 0  # perhaps for a file that the run wrote
        changed.afresh = {(name, begin) for of, name, begin in self._afresh if of == step}
        lines: defaultdict[str, list[tuple[int, Read]]] = defaultdict(list)
        for number in self._numbers:
            read = self._lines[number]
            if read.step != step:
                continue
            if read.pattern is not None:
                changed.patterns[read.file] = read.pattern
            if self._is_written(read.file, number):
                changed.written.add(read.file)
                continue
            lines[read.file].append((number, read))
            if read.digest != project.digest(read.file):
                changed.shared[read.file] = lines[read.file]
        return changed


class Changed:
    """The files that have changed since a step read them.

    Attributes:
        shared: By file, its lines with their numbers.
        afresh: Files that every call reads itself, each with the first number of the session.
        patterns: By file, its name without the part that comes from a row.
        written: Files that the run itself wrote.
        damage: A digest of the existing lines, if some are damaged or missing: then every record
            must be checked.
        has_bad_lines: Whether a line is damaged, so that the others may mislead.
    """

    def __init__(self, project: Project, numbers: list[int]) -> None:
        self._project = project
        self._numbers = numbers
        self.shared: dict[str, list[tuple[int, Read]]] = {}
        self.afresh: set[tuple[str, int]] = set()
        self.patterns: dict[str, str] = {}
        self.written: set[str] = set()
        self.damage: str | None = None
        self.has_bad_lines = False
        self._of_rows: set[str | None] = set()

    def __bool__(self) -> bool:
        return bool(self.shared) or self.damage is not None

    def learn(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Find the patterns for which every record read a file."""
        patterns = {read.pattern for lines in self.shared.values() for _, read in lines}
        self._of_rows = {pattern for pattern in patterns if pattern is not None}
        for facts in records:
            self._of_rows &= {self.patterns.get(name) for name in facts.get(FILES) or {}}
            if not self._of_rows:
                return

    def digest(self, name: str) -> str:
        """Return the digest of a file's current content."""
        return self._project.digest(name) if name != LOST else str(self.damage)

    def among(self, facts: Mapping[str, Any]) -> Iterator[str]:
        """Yield the changed files that a record depends on."""
        own = facts.get(FILES)
        own = own if isinstance(own, dict) else {}
        yield from (
            name
            for name, digest in own.items()
            if name not in self.written and self._project.digest(name) != digest
        )
        match facts.get(SHARED):
            case [int() as first, int() as last]:
                yield from self._among_shared(
                    first, last, own, is_truncated=FILES_TRUNCATED in facts
                )

    def _among_shared(
        self, first: int, last: int, own: Mapping[str, Any], *, is_truncated: bool
    ) -> Iterator[str]:
        for name, lines in self.shared.items():
            at = bisect_right(lines, last, key=lambda line: line[0]) - 1
            if name in own or at < 0 or lines[at][0] < first:
                continue
            latest = lines[at][1]  # before the record was done
            if latest.digest == self._project.digest(name):
                continue
            if is_truncated or not self._is_anothers(latest, first, own):
                yield name
        there = bisect_right(self._numbers, last) - bisect_right(self._numbers, first - 1)
        if self.has_bad_lines or there <= last - first:
            yield LOST

    def _is_anothers(self, read: Read, first: int, own: Mapping[str, Any]) -> bool:
        """Return whether a file was read for other records only."""
        if (read.file, first) in self.afresh:
            return True
        # Every record read the file of its own row: this file belongs to another row.
        pattern = read.pattern
        return pattern in self._of_rows and any(self.patterns.get(name) == pattern for name in own)


def _entries(layout: Layout) -> Iterator[tuple[Entry, int]]:
    """Yield the lines, each with the number of bad lines before it, not counting a torn tail."""
    bad_lines = 0
    try:
        with open_to_read(layout.files) as file:
            for line in file:
                bad_lines += bool(line.strip())
                if is_whole(line):
                    with contextlib.suppress(ValueError, JournalError):
                        yield decode_line(line), bad_lines - 1
                        bad_lines = 0
    except FileNotFoundError:
        return
    except OSError as error:
        hint = "restore it from a copy, or delete it: the next run asks about the answers"
        raise JournalError(
            f"{layout.files}: cannot be read: {error.strerror}", hint=hint
        ) from error
