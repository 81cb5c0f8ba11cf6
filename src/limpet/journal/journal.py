"""All the files of one journal, opened for writing by one process."""

import asyncio
import errno
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from limpet.errors import DiskFullError, JournalError, LimpetError
from limpet.fingerprints.keys import digest
from limpet.journal.append_file import Job, Tape
from limpet.journal.column import Column
from limpet.journal.files import (
    NO_SPACE,
    make_directory,
    open_for_append,
    open_to_read,
    read_whole,
    replace_file,
)
from limpet.journal.filesystems import doubt_about
from limpet.journal.index import IndexFile, Places
from limpet.journal.layout import Layout, layout_at
from limpet.journal.lines import PREFIX, SEAL_BYTES, timestamp
from limpet.journal.lock import Lock
from limpet.journal.recovery import ColumnState, recover, recover_story, set_aside_bad_lines
from limpet.journal.writer import PATIENCE_S, Durability, Writer
from limpet.json_values import encode

FORMAT = 1
"""Of a run's directory. Raised when a later version could not read it rightly."""

logger = logging.getLogger("limpet.journal")
_RESTORE = "restore it from a copy, or delete it: the results are in the columns"


class Journal:
    """A durable store of finished cells. Opening it takes the lock and recovers what is there.

    Opening, `column` and `close` read and write files: call them where that may take a while.

    Args:
        path: A directory, or a `.jsonl` file that is the one column, with the rest beside it in
            `<name>.d/`.
        durability: When an appended record counts: "sync" (on the disk), "interval" (on the disk
            within a second), "flush" (with the system: survives a killed process only).
        strict: Refuse a column that has bad lines.
        patience_s: How long records wait for room before they are given up.

    Attributes:
        layout: Where its files lie.
        states: What was found in each file that was opened.
        listeners: Told, on the writer's thread, that there is no room or that the disk failed;
            told None when there is room again.

    Raises:
        RunLockedError: Another process writes here.
        JournalError: It cannot be opened as it is.
    """

    def __init__(
        self,
        path: str | Path | Layout,
        *,
        durability: Durability = "sync",
        strict: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        if durability not in ("sync", "interval", "flush"):
            raise ValueError(f'durability={durability!r}: must be "sync", "interval" or "flush"')
        self.layout = path if isinstance(path, Layout) else layout_at(path)
        self.listeners: list[Callable[[LimpetError | None], None]] = []
        self.states: list[ColumnState] = []
        self._strict = strict
        self._durability = durability
        self._open_files: list[Tape | IndexFile] = []
        self._columns: dict[Path, Column] = {}
        self._steps: dict[str, Column] = {}
        self._files: Tape | None = None
        self._lock: Lock | None = None
        self._writer: Writer | None = None
        try:
            self._begin(patience_s)
        except BaseException:
            self.close()
            raise

    def _begin(self, patience_s: float) -> None:
        with _naming(self.layout.single or self.layout.home):
            _refuse_what_is_not_ours(self.layout)
            make_directory(self.layout.home)
            doubt = doubt_about(self.layout.home)
            if doubt is not None:
                logger.warning("%s; a local disk is safe", doubt)
            self._lock = Lock(self.layout.lock)
            self._failures, _, _ = self._open(self.layout.failures)
            self._events, _, _ = self._open(self.layout.events)
            self._writer = Writer(self._durability, self._hear_trouble, patience_s, self._let_go)
            self._lock.on_lost = self._writer.disown
            lock = self._lock
            self._writer.may_write = lambda: lock.is_held

    def _hear_trouble(self, trouble: LimpetError | None) -> None:
        for listener in self.listeners:
            listener(trouble)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def column(self, step: str) -> Column:
        """Open the column of a step, recovering what is there.

        Raises:
            JournalError: It has bad lines, and the journal is strict.
        """
        assert self._writer is not None
        if step in self._steps:
            return self._steps[step]
        path = self.layout.column(step)
        if path not in self._columns:
            with _naming(path):
                index = IndexFile(self.layout.index(path))
                self._open_files.append(index)
                tape, places, state = self._open(path, index)
            self._columns[path] = Column(tape, index, self._failures, self._writer, places, state)
        self._steps[step] = self._columns[path]
        return self._columns[path]

    def _open(self, path: Path, index: IndexFile | None = None) -> tuple[Tape, Places, ColumnState]:
        make_directory(path.parent)
        tape = Tape(path, open_for_append(path), is_story=path == self.layout.events)
        self._open_files.append(tape)
        if tape.is_story:
            places, state = Places({}), recover_story(self.layout, path, tape.fd)
        else:
            strict = self._strict and index is not None
            durable = self._durability != "flush"
            places, state = recover(
                self.layout, path, tape.fd, index, strict=strict, durable=durable
            )
        tape.begin()
        self.states.append(state)
        return tape, places, state

    def tell(self, event: str, **facts: Any) -> None:
        """Add a line to the story. Nobody waits for it, and losing it loses no result."""
        if self._writer is None or not self._writer.is_open:
            return  # whoever waits for a record hears of it
        line = encode({"at": timestamp(), "event": event, **facts})[0] + b"\n"
        self._writer.put(Job(self._events, line, len(line), event, None, b"", 0, None, None))

    def note_file(
        self, facts: dict[str, Any], record: dict[str, Any], *, wait: bool
    ) -> asyncio.Future[None] | None:
        """Add a line to `files.jsonl`. What it returns to be awaited is done when it is durable.

        Raises:
            JournalError: It cannot be opened, or the journal is closed or broken.
        """
        assert self._writer is not None
        if self._files is None:
            with _naming(self.layout.files):
                self._files, _, _ = self._open(self.layout.files)
        text, _ = encode({"_limpet": {"key": digest(facts, record), **facts}, **record})
        future = asyncio.get_running_loop().create_future() if wait else None
        size, label = len(text) + SEAL_BYTES, self.layout.files.name
        self._writer.put(
            Job(self._files, text, size, label, None, b"", 0, future, None), wait=False
        )
        return future

    @property
    def waits_for_room(self) -> bool:
        """Whether the disk is full, and what is finished waits for room."""
        return self._writer is not None and self._writer.waits_for_room

    def hurry(self, within_s: float = 0.0) -> None:
        """Wait no longer than that for room on a full disk. What cannot be written runs again."""
        if self._writer is not None:
            self._writer.hurry(within_s)

    def about(self) -> dict[str, Any]:
        """Return what `write_about` wrote; empty if it never did."""
        return read_about(self.layout)

    def write_about(self, known: dict[str, Any]) -> None:
        """Put what was asked into `run.json`, whole.

        Raises:
            JournalError: It cannot be written, or the lock is lost: then it may be another's.
        """
        self._write_whole(known, self.layout.about, self.layout.about_copy)

    def write_identity(self, known: dict[str, Any]) -> None:
        """Put what each step's identity is made of into `identity.json`, whole.

        Raises:
            JournalError: As for `write_about`.
        """
        self._write_whole(known, self.layout.identity)

    def _write_whole(self, known: dict[str, Any], path: Path, *copies: Path) -> None:
        if self._lock is None or not self._lock.is_held:
            raise JournalError(f"{path}: not written: the lock is not ours any more")
        with _naming(path):
            content = json.dumps({"format": FORMAT, **known}, indent=2).encode() + b"\n"
            for one in (path, *copies):
                make_directory(one.parent)
                replace_file(one, [content])

    def drain(self) -> None:
        """Return when all that was appended so far has been written, or could not be."""
        if self._writer is not None:
            self._writer.drain()

    def set_aside_bad_lines(self) -> None:
        """Take out the bad lines that were found: what they held is done again, or not wanted.

        They are in `torn/` then. It is for when nothing of what was asked is missing: until then
        they show which cells were lost.
        """
        for state in self.states:
            if not state.bad_lines:
                continue
            try:
                to = set_aside_bad_lines(self.layout, state.path, state.bad_lines)
            except OSError as error:  # they stay, and count for nothing
                logger.warning("%s: %s stay in it: %s", state.path, state.bad_words, error.strerror)
            else:
                logger.warning("%s: %s set aside in %s", state.path, state.bad_words, to)
                state.bad_lines.clear()

    def close(self) -> None:
        """Write what waits, and let others write."""
        if self._writer is not None:
            # The writer lets go of the files and the lock, so that an interrupt here cannot let
            # another process in while it still writes.
            self._writer.close()
        else:
            self._let_go()

    def _let_go(self) -> None:
        for file in self._open_files:
            file.close()
        self._open_files.clear()
        if self._lock is not None:
            self._lock.release()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say which journal it was that the system refused."""
    try:
        yield
    except OSError as error:
        kind = DiskFullError if error.errno in NO_SPACE else JournalError
        hints = dict.fromkeys(NO_SPACE, "make room on that disk")
        hints[errno.EIO] = "check the disk (dmesg, smartctl)"
        raise kind(
            f"{path}: the journal cannot be opened for writing: {error.strerror}"
            + ("" if error.filename is None else f" ({error.filename})"),
            hint=hints.get(error.errno or 0, "check the path and who may write there"),
        ) from error


def _refuse_what_is_not_ours(layout: Layout) -> None:
    """A path given by mistake, such as the dataset's, must not become a journal."""
    path = layout.single
    if path is None:
        # One look: another process may be making it just now. Its lock is the first file it makes.
        names = {one.name for one in layout.home.iterdir()} if layout.home.is_dir() else set()
        if names and layout.lock.name not in names and not layout.columns():
            raise _not_ours(layout.home)
    elif not layout.home.exists() and path.exists() and path.stat().st_size:
        with open_to_read(path) as file:
            if not any(line.startswith(PREFIX) for line in file):
                raise _not_ours(path)


def _not_ours(path: Path) -> JournalError:
    return JournalError(
        f"{path}: it is not empty, and it is not a journal",
        hint="give the journal a path of its own; nothing was changed",
    )


def read_about(layout: Layout) -> dict[str, Any]:
    """Return what stands in a `run.json`; empty if there is none.

    Raises:
        JournalError: It is not what it should be.
    """
    try:
        known = json.loads(read_whole(layout.about))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        try:
            known = json.loads(read_whole(layout.about_copy))
        except (OSError, ValueError):
            raise JournalError(f"{layout.about}: cannot be read: {error}", hint=_RESTORE) from error
        logger.warning("%s: cannot be read, and is taken from its copy: %s", layout.about, error)
    lists = ("sessions", "imported", "redo", "redone", "selections")
    mappings = ("functions", "decided", "evaluators", "complete")
    if not isinstance(known, dict):
        raise JournalError(f"{layout.about}: must be a JSON object", hint=_RESTORE)
    if known.get("format", FORMAT) != FORMAT:
        raise JournalError(
            f"{layout.about}: the run has format {known['format']!r}, and this Limpet knows "
            f"{FORMAT} only",
            hint="use the version of Limpet that made it, or another directory for a new run",
        )
    for names, kind in ((lists, list), (mappings, dict)):
        for name in names:
            if not isinstance(known.get(name, kind()), kind):
                raise JournalError(f"{layout.about}: {name!r} makes no sense", hint=_RESTORE)
    if not all(isinstance(one, dict) for one in known.get("sessions", [])):
        raise JournalError(f"{layout.about}: 'sessions' makes no sense", hint=_RESTORE)
    return known
