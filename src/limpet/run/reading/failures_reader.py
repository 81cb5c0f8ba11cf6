"""Which cells failed last, and why?"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from limpet.journal.files import open_to_read
from limpet.journal.lines import decode_line
from limpet.run.reading.facts_reader import facts_in
from limpet.run.reading.new_lines import NewLines


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
        """Read what was appended since, or everything if the file was cut."""
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
