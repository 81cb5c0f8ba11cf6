"""Is a journal sound, and if not, what can be done about it?"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from limpet.errors import JournalError
from limpet.journal.files import open_for_append
from limpet.journal.index import IndexFile
from limpet.journal.layout import Layout, layout_at
from limpet.journal.lock import Lock
from limpet.journal.recovery import (
    ColumnState,
    read_column,
    recover,
    set_aside,
    set_aside_bad_lines,
)


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` or `repair` found, a state for each file that has records."""

    states: list[ColumnState]

    @property
    def is_sound(self) -> bool:
        """Whether every byte of every file is a whole line that counts."""
        return all(state.is_sound for state in self.states)

    def __str__(self) -> str:
        return "\n".join(map(str, self.states))


def verify(path: str | Path) -> Report:
    """Read and check every line of a journal, and change nothing.

    Raises:
        JournalError: There is no journal at `path`.
    """
    layout = layout_at(path)
    states = []
    for file in _files(layout):
        _, state, _ = read_column(file, None)  # every line, whatever the index says
        if file in layout.columns():
            _, hinted, _ = read_column(file, layout.index(file))
            state.index = hinted.index
        states.append(state)
    return Report(states)


def repair(path: str | Path, say: Callable[[str], None] = print) -> Report:
    """Do what opening a journal for writing would do, with a backup of each file it changes.

    Args:
        path: The journal.
        say: Where it says what it did.

    Raises:
        RunLockedError: Another process writes here.
        JournalError: There is no journal at `path`.
    """
    layout = layout_at(path)
    files = _files(layout)
    lock = Lock(layout.lock)
    try:
        return Report([_repair(layout, file, say) for file in files])
    finally:
        lock.release()


def _repair(layout: Layout, path: Path, say: Callable[[str], None]) -> ColumnState:
    _, found, _ = read_column(path, None)
    if found.torn_bytes or found.lacked_line_end:
        say(f"{path}: copied as it was to {set_aside(layout, path)}")
    index = IndexFile(layout.index(path)) if path in layout.columns() else None
    fd = open_for_append(path)
    try:
        _, state = recover(layout, path, fd, index)
    finally:
        os.close(fd)
        if index is not None:
            index.close()
    if index is not None:
        state.index = "rebuilt"
    elif state.bad_lines:  # not of results: no cell has to run again before they may go
        state.torn_to = set_aside_bad_lines(layout, path, state.bad_lines)
        say(f"{path}: {state.bad_words} set aside in {state.torn_to}")
        state.bad_lines.clear()
    say(str(state))
    return state


def _files(layout: Layout) -> list[Path]:
    beside = (layout.failures, layout.files, layout.events)
    files = [*layout.columns(), *(one for one in beside if one.exists())]
    if not files:
        raise JournalError(f"{layout.single or layout.home}: there is no journal here")
    return files
