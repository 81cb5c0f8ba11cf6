"""Which cells failed, and when, without decoding what each attempt met?"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from limpet.journal.files import open_to_read
from limpet.journal.lines import Entry, decode_line, is_whole
from limpet.run.reading.column import facts_in


class Failed(NamedTuple):
    """A failure on disk: where its line begins, and our facts about it."""

    offset: int
    facts: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Its class."""
        return str(self.facts.get("class", "unknown"))

    @property
    def generation(self) -> int:
        """Of which generation the record would have been."""
        found = self.facts.get("generation", 0)
        return found if isinstance(found, int) else 0


class FailuresReader:
    """The latest failure of each step and key, read as far as the file goes.

    Whether a failure still counts, its column knows: a cell that succeeded since did not fail.

    Attributes:
        latest: By step and key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        self.latest: dict[tuple[str, str], Failed] = {}

    def refresh(self) -> None:
        """Read what was appended since."""
        with contextlib.suppress(FileNotFoundError), open_to_read(self._path) as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):  # somebody is writing it just now
                    break
                self._take(line)
                self._end += len(line)

    def _take(self, line: bytes) -> None:
        facts = facts_in(line) if is_whole(line) else None
        if facts is not None and "step" in facts:
            self.latest[str(facts["step"]), str(facts["key"])] = Failed(self._end, facts)

    def of(self, step: str, start: int = 0) -> Iterator[tuple[str, Failed]]:
        """Yield the keys and failures of a step that stand from `start` on."""
        for (name, key), one in self.latest.items():
            if name == step and one.offset >= start:
                yield key, one

    def entry(self, failed: Failed) -> Entry:
        """Return the whole record of a failure."""
        with open_to_read(self._path) as file:
            file.seek(failed.offset)
            return decode_line(file.readline())
