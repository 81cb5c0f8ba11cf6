"""Is a journal sound, and how is it repaired?"""

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
    """The result of `verify` or `repair`: the state of each file."""

    states: list[ColumnState]

    @property
    def is_sound(self) -> bool:
        """Whether every line of every file is whole and valid."""
        return all(state.is_sound for state in self.states)

    def __str__(self) -> str:
        return "\n".join(map(str, self.states))


def verify(path: str | Path) -> Report:
    """Check every line of a journal without changing it.

    Raises:
        JournalError: There is no journal at `path`.
    """
    layout = layout_at(path)
    states = []
    for file in _files(layout):
        _, state = read_column(file, None)
        if file in layout.columns():
            _, hinted = read_column(file, layout.index(file))
            state.index = hinted.index
        states.append(state)
    return Report(states)


def repair(path: str | Path, say: Callable[[str], None] = print) -> Report:
    """Recover a journal as opening it does, with a backup of each file that changes.

    Args:
        path: The journal.
        say: Called with each thing that was done.

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
    _, before = read_column(path, None)
    if before.torn_bytes or before.lacked_line_end:
        say(f"{path}: backed up to {set_aside(layout, path)}")
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
    elif state.bad_lines:  # not results: no cell needs to run again first
        state.torn_to = set_aside_bad_lines(layout, path, state.bad_lines)
        say(f"{path}: {state.bad_words} set aside in {state.torn_to}")
        state.bad_lines.clear()
    say(str(state))
    return state


def _files(layout: Layout) -> list[Path]:
    others = (layout.failures, layout.files, layout.events)
    files = [*layout.columns(), *(file for file in others if file.exists())]
    if not files:
        raise JournalError(f"{layout.single or layout.home}: there is no journal here")
    return files
