"""Which lines of a column count, and where does its torn tail begin?"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from limpet.journal.index import NO_KEY, IndexFile, Mark, Places
from limpet.journal.lines import LineKind, generation_of, is_whole, key_of, kind_of
from limpet.text import count

_GROUP_BYTES = 2**18
_MOST_NAMED = 10
IndexState = Literal["good", "behind", "missing", "wrong", "rebuilt"]


@dataclass(slots=True)
class ColumnState:
    """The state of a column, and what recovery did about it.

    Attributes:
        path: The column.
        records: How many records it has.
        lines: How many lines it has, up to the last valid one.
        end: Where the last valid line ends; what follows is a torn tail.
        bad_lines: The numbers of the invalid lines before a valid one, from 1.
        torn_bytes: How many bytes follow the last valid line.
        torn_to: Where they were set aside; None if there were none, or nothing was changed.
        lacked_line_end: Whether the last line lacked its line end, and nothing else.
        index: Whether the index fits; None: it was not checked.
    """

    path: Path
    records: int = 0
    lines: int = 0
    end: int = 0
    bad_lines: list[int] = field(default_factory=list)
    torn_bytes: int = 0
    torn_to: Path | None = None
    lacked_line_end: bool = False
    index: IndexState | None = None

    @property
    def is_sound(self) -> bool:
        """Whether every line is whole and valid."""
        return not (self.bad_lines or self.torn_bytes or self.lacked_line_end)

    @property
    def bad_words(self) -> str:
        """The bad lines, for messages."""
        numbers = ", ".join(map(str, self.bad_lines[:_MOST_NAMED]))
        more = ", …" if len(self.bad_lines) > _MOST_NAMED else ""
        return f"{count(len(self.bad_lines), 'bad line')} ({numbers}{more})"

    def __str__(self) -> str:
        are_events = self.lines and not self.records
        parts = [count(self.lines, "line") if are_events else count(self.records, "record")]
        if self.bad_lines:
            parts.append(self.bad_words)
        if self.torn_bytes:
            where = "" if self.torn_to is None else f", set aside in {self.torn_to}"
            parts.append(f"{count(self.torn_bytes, 'torn byte')} at its end{where}")
        if self.lacked_line_end:
            parts.append("a last line without its line end")
        if self.index is not None:
            parts.append(f"index {self.index}")
        return f"{self.path}: {'; '.join(parts)}"


def scan(
    column: BinaryIO, places: Places, state: ColumnState, index: IndexFile | None = None
) -> None:
    """Read a column from `state.end` to the end of the file, and check every line.

    A last line without its line end does not count: it may just be written.

    Args:
        column: The open file.
        places: Each line is added to it, except those of the torn tail.
        state: The state so far, which is updated.
        index: The same lines are added to it.
    """
    pending: list[Mark] = []  # bad lines: the torn tail, unless a valid line follows
    offset = state.end
    column.seek(offset)
    while group := column.readlines(_GROUP_BYTES):  # binary: only \n ends a line
        counted: list[Mark] = []
        for line in group:
            mark = _mark_of(line, offset)
            offset += mark.length
            pending.append(mark)
            if mark.kind is not LineKind.BAD:
                counted += pending
                pending.clear()
                state.end = offset
        places.add(counted, state.lines + 1)
        state.lines += len(counted)
        if index is not None:
            index.add(counted)
    state.torn_bytes = offset - state.end
    state.records, state.bad_lines = len(places.offsets), places.bad_lines


def _mark_of(line: bytes, offset: int) -> Mark:
    key = key_of(line) if is_whole(line) else None
    if key is None:
        return Mark(NO_KEY, offset, len(line), kind_of(line))
    return Mark(key, offset, len(line), LineKind.RECORD, generation_of(line))
