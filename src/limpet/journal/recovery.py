"""What is valid in a column, and what happens to the rest before appending?

- A last line that lost only its line end gets it back.
- Bytes after the last valid line are a torn tail: copied to `torn/`, synced, then truncated.
- An invalid line before a valid one is damage: its bytes stay, it is logged, its cell is not done.
  Once no result is missing, `set_aside_bad_lines` moves it away.

Recovery reads every line and ignores the index: a flipped bit changes neither size nor time.
"""

import logging
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from limpet.errors import JournalError
from limpet.journal.files import (
    make_directory,
    open_for_append,
    open_to_read,
    sync_directory,
    sync_file,
    write_all,
)
from limpet.journal.index import NO_KEY, Index, IndexFile, Mark, RecordOffsets, load_index
from limpet.journal.layout import Layout
from limpet.journal.lines import LineKind, generation_of, is_column, is_whole, key_of, kind_of
from limpet.text import count

# ---- Which lines of a column are valid, and where does its torn tail start? ---------------------

_GROUP_BYTES = 2**18
_MOST_NAMED = 10
IndexState = Literal["good", "behind", "missing", "wrong", "rebuilt"]


@dataclass(slots=True)
class ColumnState:
    """The state of a column, and what recovery did.

    Attributes:
        path: The column.
        records: How many records it has.
        lines: How many lines it has, up to the last valid one.
        end: The offset after the last valid line; the rest is a torn tail.
        bad_lines: The numbers of the invalid lines before a valid one, from 1.
        torn_bytes: How many bytes follow the last valid line.
        torn_to: The file they were set aside in; None if there were none, or nothing was changed.
        lacked_line_end: Whether the last line lacked only its line end.
        index: Whether the index matches; None: it was not checked.
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
            parts.append("a last line without a newline")
        if self.index is not None:
            parts.append(f"index {self.index}")
        return f"{self.path}: {'; '.join(parts)}"


def scan(
    column: BinaryIO, offsets: RecordOffsets, state: ColumnState, index: IndexFile | None = None
) -> None:
    """Read a column from `state.end` to the end of the file, and check every line.

    A last line without its line end is skipped: it may still be being written.

    Args:
        column: The open file.
        offsets: Each line is added to it, except those of the torn tail.
        state: The state so far, to update.
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
        offsets.add(counted, state.lines + 1)
        state.lines += len(counted)
        if index is not None:
            index.add(counted)
    state.torn_bytes = offset - state.end
    state.records, state.bad_lines = len(offsets.by_key), offsets.bad_lines


def _mark_of(line: bytes, offset: int) -> Mark:
    key = key_of(line) if is_whole(line) else None
    if key is None:
        return Mark(NO_KEY, offset, len(line), kind_of(line))
    return Mark(key, offset, len(line), LineKind.RECORD, generation_of(line))


# ---- What is valid in a column, and what happens to the rest before appending? ------------------

logger = logging.getLogger("limpet.journal")
BUFFER_BYTES = 2**20


def read_column(
    path: Path, index_path: Path | None, *, rebuild: IndexFile | None = None
) -> tuple[RecordOffsets, ColumnState]:
    """Return the offset of each record, from the verified part of the index, then from the column.

    Args:
        path: The column.
        index_path: Its index; None: read and check every line.
        rebuild: The index to rewrite; None: change nothing.
    """
    offsets, state = RecordOffsets(), ColumnState(path)
    with open_to_read(path, BUFFER_BYTES) as column:
        if index_path is not None:
            index = load_index(index_path, column)
            if index is not None:
                offsets, state.lines, state.end = index.offsets, index.lines, index.end
            size = os.fstat(column.fileno()).st_size
            state.index = _index_state(index, index_path, size)
        if rebuild is not None:
            rebuild.clear()
        scan(column, offsets, state, rebuild)
    state.lacked_line_end = bool(state.torn_bytes) and lacks_line_end(path)
    return offsets, state


def _index_state(index: Index | None, path: Path, size: int) -> IndexState:
    if index is not None:
        return "good" if index.reach == size else "behind"
    if not size:
        return "good"
    return "wrong" if path.exists() and path.stat().st_size else "missing"


def lacks_line_end(path: Path) -> bool:
    """Return whether the last line lacks only its line end."""
    line = _last_bytes(path)
    if not line or line.endswith(b"\n"):
        return False
    kind = kind_of(line + b"\n")
    # In other programs' lines, only an object is certainly complete: a number may be truncated.
    return kind is not LineKind.BAD and (kind is not LineKind.FOREIGN or line.startswith(b"{"))


def _last_bytes(path: Path) -> bytes:
    """Return the bytes after the last line end before the last byte."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        at, tail = end, b""
        while at > 0:
            start = max(0, at - BUFFER_BYTES)
            file.seek(start)
            tail = file.read(at - start) + tail
            line_end = tail.rfind(b"\n", 0, len(tail) - 1)
            if line_end >= 0:
                return tail[line_end + 1 :]
            at = start
        return tail


def recover(
    layout: Layout,
    path: Path,
    fd: int,
    index: IndexFile | None = None,
    *,
    durable: bool = True,
) -> tuple[RecordOffsets, ColumnState]:
    """Prepare a column for appending. The caller holds the lock.

    Args:
        layout: The journal's paths.
        path: The column.
        fd: The same file, open for appending.
        index: Its index, to rewrite; None: it has none.
        durable: Return once all valid lines are on disk.
    """
    lacked = lacks_line_end(path)
    if lacked:
        write_all(fd, [b"\n"])
        sync_file(fd)
    offsets, state = read_column(path, None, rebuild=index)
    state.lacked_line_end = lacked
    if state.torn_bytes:
        state.torn_to = set_aside(layout, path, state.end)
        os.ftruncate(fd, state.end)
    if durable and state.end:
        # The process that wrote it may have been killed before its own sync.
        sync_file(fd)
    if not state.is_sound:
        logger.warning("%s", state)
    return offsets, state


def recover_event_log(layout: Layout, path: Path, fd: int) -> ColumnState:
    """Prepare the event log for appending, by its last line alone: it may be long."""
    state, last = ColumnState(path), _last_bytes(path)
    if last and not last.endswith(b"\n"):
        if lacks_line_end(path):
            state.lacked_line_end = True
            write_all(fd, [b"\n"])
        else:
            end = os.fstat(fd).st_size - len(last)
            state.torn_bytes, state.torn_to = len(last), set_aside(layout, path, end)
            os.ftruncate(fd, end)
        logger.warning("%s", state)
    return state


def set_aside(layout: Layout, path: Path, start: int = 0) -> Path:
    """Copy a file's bytes from `start` to `torn/`; return once they are on disk."""
    copy, to = _new_in_torn(layout, path)
    with path.open("rb") as source, os.fdopen(to, "wb") as target:
        source.seek(start)
        shutil.copyfileobj(source, target)
        target.flush()
        sync_file(target.fileno())
    sync_directory(layout.torn)
    return copy


def move_column(layout: Layout, step: str) -> None:
    """Give a step's column its other name, to free the usual one for a live file.

    Call it under the lock, before the column is opened.
    """
    usual, elsewhere = layout.live(step), layout.column_elsewhere(step)
    is_file = usual.is_file() and not usual.is_symlink()
    has_records = is_file and usual.stat().st_size > 0 and is_column(usual)
    if has_records and elsewhere.exists():  # somebody's copy: a column is never overwritten
        logger.warning("%s: holds records, set aside in %s", usual, set_aside(layout, usual))
    elif has_records:
        usual.rename(elsewhere)
        layout.index(usual).unlink(missing_ok=True)
        sync_directory(layout.home)
    else:
        os.close(open_for_append(elsewhere))


def set_aside_bad_lines(layout: Layout, path: Path, numbers: Sequence[int]) -> Path:
    """Move lines to `torn/` and overwrite them with blanks, so all other offsets stay.

    Args:
        layout: The journal's paths.
        path: The file.
        numbers: The numbers of the lines, from 1.
    """
    wanted = frozenset(numbers)
    bad: list[tuple[int, bytes]] = []
    copy, to = _new_in_torn(layout, path)
    with path.open("r+b") as file, os.fdopen(to, "wb") as target:  # not in append mode
        begin = 0
        for number, line in enumerate(file, 1):
            if number in wanted:
                bad.append((begin, line))
            begin += len(line)
        target.writelines(line for _, line in bad)
        target.flush()
        sync_file(target.fileno())
        sync_directory(layout.torn)
        for begin, line in bad:
            file.seek(begin)
            file.write(b" " * (len(line) - 1))  # its line end stays
        file.flush()
        sync_file(file.fileno())
    return copy


def _new_in_torn(layout: Layout, path: Path) -> tuple[Path, int]:
    """Create a file for the bytes of another; return its path and its descriptor."""
    make_directory(layout.torn)
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(10**6):
        copy = layout.torn / f"{path.name}.{at}.{number}"
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return copy, os.open(copy, flags, 0o666)
    raise JournalError(f"{layout.torn}: has too many files", hint="check them, and move them away")
