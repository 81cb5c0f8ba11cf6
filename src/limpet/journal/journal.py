"""All files of one journal, opened for writing by one process."""

import errno
import functools
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from limpet.errors import DiskFullError, JournalError, LimpetError, OtherFormatError
from limpet.fingerprints.keys import digest
from limpet.journal.append_file import AppendFile, Job, running_loop, settle
from limpet.journal.column import Column
from limpet.journal.files import (
    NO_SPACE,
    file_system_risk,
    make_directory,
    open_for_append,
    open_to_read,
    read_whole,
    replace_file,
)
from limpet.journal.index import IndexFile, RecordOffsets
from limpet.journal.layout import Layout, layout_at
from limpet.journal.lines import PREFIX, seal, timestamp
from limpet.journal.lock import Lock
from limpet.journal.recovery import (
    ColumnState,
    move_column,
    recover,
    recover_event_log,
    set_aside_bad_lines,
)
from limpet.journal.writer import PATIENCE_S, Durability, Writer
from limpet.json_values import dumps, encode
from limpet.text import one_line

if TYPE_CHECKING:
    import asyncio

FORMAT = 2
"""The format of a run's directory. Raised when a change would make older versions misread it."""

logger = logging.getLogger("limpet.journal")
RESTORE = "restore it from a copy, or delete it: the results are in the columns"


class Journal:
    """A durable store of finished cells. Opening it takes the lock and recovers its files.

    Opening, `column` and `close` read and write files, so they may block for a while.

    Args:
        path: A directory, or a `.jsonl` file that is the only column, with the other files in
            `<name>.d/` beside it.
        durability: When a record is acknowledged: "sync" (on disk) or "flush" (passed to the
            system: survives only a killed process).
        patience_s: How long records wait for space on a full disk.

    Attributes:
        layout: The paths of its files.
        states: The state of each file when it was opened.
        listeners: Called on the writer's thread: with an error when the disk is full or has failed,
            with None when there is space again.

    Raises:
        RunLockedError: Another process writes here.
        JournalError: It cannot be opened.
    """

    def __init__(
        self,
        path: str | Path | Layout,
        *,
        durability: Durability = "sync",
        patience_s: float = PATIENCE_S,
    ) -> None:
        if durability not in ("sync", "flush"):
            raise ValueError(f'durability={durability!r}: must be "sync" or "flush"')
        self.layout = path if isinstance(path, Layout) else layout_at(path)
        self.listeners: list[Callable[[LimpetError | None], None]] = []
        self.states: list[ColumnState] = []
        self._durability = durability
        self._open_files: list[AppendFile | IndexFile] = []
        self._columns: dict[str, Column] = {}
        self._files: AppendFile | None = None
        self._lock: Lock | None = None
        self._writer: Writer | None = None
        try:
            self._begin(patience_s)
        except BaseException:
            self.close()
            raise

    def _begin(self, patience_s: float) -> None:
        with _naming(self.layout.single or self.layout.home):
            _refuse_foreign_files(self.layout)
            make_directory(self.layout.home)
            risk = file_system_risk(self.layout.home)
            if risk is not None:
                logger.warning("%s; a local disk is safe", risk)
            self._lock = Lock(self.layout.lock)
            self._failures, _, _ = self._open(self.layout.failures)
            self._events, _, _ = self._open(self.layout.events)
            self._writer = Writer(
                self._lock, self._durability, self._notify, patience_s, self._release
            )

    def _notify(self, problem: LimpetError | None) -> None:
        for listener in self.listeners:
            listener(problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def move_column(self, step: str) -> None:
        """Give a step's column its other name. Call it before `column`."""
        with _naming(self.layout.column_elsewhere(step)):
            move_column(self.layout, step)

    def column(self, step: str) -> Column:
        """Open and recover the column of a step."""
        assert self._writer is not None
        name = "" if self.layout.single else step  # in a single file, all steps are one column
        if name not in self._columns:
            path = self.layout.column(step)
            with _naming(path):
                index = IndexFile(self.layout.index(path))
                self._open_files.append(index)
                file, offsets, state = self._open(path, index)
            column = Column(file, index, self._failures, self._writer, offsets, state)
            self._columns[name] = column
        return self._columns[name]

    def _open(
        self, path: Path, index: IndexFile | None = None
    ) -> tuple[AppendFile, RecordOffsets, ColumnState]:
        make_directory(path.parent)
        file = AppendFile(path, open_for_append(path), is_event_log=path == self.layout.events)
        self._open_files.append(file)
        if file.is_event_log:
            offsets, state = RecordOffsets(), recover_event_log(self.layout, path, file.fd)
        else:
            durable = self._durability != "flush"
            offsets, state = recover(self.layout, path, file.fd, index, durable=durable)
        file.begin()
        self.states.append(state)
        return file, offsets, state

    def log_event(self, event: str, *, at_once: bool = False, **facts: Any) -> None:
        """Add a line to the event log, without waiting for it. No result depends on it.

        Args:
            event: What happened.
            at_once: Write it at once; otherwise it may wait briefly for a record.
            **facts: Its details.
        """
        if self._writer is None or not self._writer.is_open:
            return  # appending a record reports the error
        line = encode({"at": timestamp(), "event": event, **facts})[0] + b"\n"
        self._writer.put(Job(self._events, event, line))
        if at_once:
            self._writer.hasten()

    def record_file(
        self, facts: dict[str, Any], record: dict[str, Any], *, wait: bool
    ) -> "asyncio.Future[None] | None":
        """Add a line to `files.jsonl`. With `wait`, return a future that completes once durable.

        Raises:
            JournalError: It cannot be opened, or the journal is closed or broken.
        """
        assert self._writer is not None
        if self._files is None:
            with _naming(self.layout.files):
                self._files, _, _ = self._open(self.layout.files)
        line = seal(encode({"_limpet": {"key": digest(facts, record), **facts}, **record})[0])
        job = Job(self._files, self.layout.files.name, line)
        future = None
        if wait:
            job.loop = running_loop()
            future = job.loop.create_future()
            job.then = functools.partial(settle, future)
        self._writer.put(job)
        return future

    @property
    def waits_for_room(self) -> bool:
        """Whether the disk is full and records wait for space."""
        return self._writer is not None and self._writer.full_disk.is_full

    def hurry(self, within_s: float = 0.0) -> None:
        """Wait at most this long for space on a full disk. Unwritten cells run again."""
        if self._writer is not None:
            self._writer.full_disk.hurry(within_s)

    def write_run_json(self, known: dict[str, Any]) -> None:
        """Write `run.json`: the run's request, fingerprints and sessions.

        Raises:
            JournalError: It cannot be written, or the lock is lost.
        """
        self._write_whole(known, self.layout.run_json, self.layout.run_json_copy)

    def write_identity(self, known: dict[str, Any]) -> None:
        """Write `identity.json`: the parts of each step's identity.

        Raises:
            JournalError: As for `write_run_json`.
        """
        self._write_whole(known, self.layout.identity)

    def _write_whole(self, known: dict[str, Any], path: Path, *copies: Path) -> None:
        if self._lock is None or not self._lock.is_held:
            raise JournalError(f"{path}: not written: the lock is lost")
        with _naming(path):
            content = dumps({"format": FORMAT, **known}, indent=2).encode() + b"\n"
            for target in (path, *copies):
                make_directory(target.parent)
                replace_file(target, [content])

    def drain(self) -> None:
        """Return when everything appended so far has been written or has failed."""
        if self._writer is not None:
            self._writer.drain()

    def set_aside_bad_lines(self) -> None:
        """Move the bad lines to `torn/`.

        Call it only when no result is missing: until then they show the lost cells.
        """
        for state in self.states:
            if not state.bad_lines:
                continue
            try:
                to = set_aside_bad_lines(self.layout, state.path, state.bad_lines)
            except OSError as error:  # they stay, and are ignored
                logger.warning("%s: %s left in it: %s", state.path, state.bad_words, error.strerror)
            else:
                logger.warning("%s: %s set aside in %s", state.path, state.bad_words, to)
                state.bad_lines.clear()

    def close(self) -> None:
        """Write what is queued, and release the lock."""
        if self._writer is not None:
            # The writer releases the files and the lock: an interrupt here cannot let another
            # process in while it still writes.
            self._writer.close()
        else:
            self._release()

    def _release(self) -> None:
        for file in self._open_files:
            file.close()
        self._open_files.clear()
        if self._lock is not None:
            self._lock.release()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the path to system errors."""
    try:
        yield
    except OSError as error:
        kind = DiskFullError if error.errno in NO_SPACE else JournalError
        hints = dict.fromkeys(NO_SPACE, "free some space on that disk")
        hints[errno.EIO] = "check the disk (dmesg, smartctl)"
        raise kind(
            f"{path}: the journal cannot be opened for writing: {error.strerror}"
            + ("" if error.filename is None else f" ({error.filename})"),
            hint=hints.get(error.errno or 0, "check the path and its permissions"),
        ) from error


def _refuse_foreign_files(layout: Layout) -> None:
    """Raise if the path is not a journal but, say, the dataset."""
    path = layout.single
    if path is None:
        # Listed once: another process may be creating it, beginning with the lock. Directories may
        # be other runs: configurations of the toolkit have output directories inside others.
        files = layout.home.iterdir() if layout.home.is_dir() else ()
        names = sorted(file.name for file in files if not file.is_dir())
        if names and layout.lock.name not in names and not layout.columns():
            raise _not_ours(layout.home, names[0])
    elif not layout.home.exists() and path.exists() and path.stat().st_size:
        with open_to_read(path) as file:
            if not any(line.startswith(PREFIX) for line in file):
                raise _not_ours(path)


def _not_ours(path: Path, name: str = "") -> JournalError:
    holds = f"holds {one_line(name)}" if name else "is not empty"
    return JournalError(
        f"{path}: {holds}, and is not a journal",
        hint="choose another path for the results; nothing was changed",
    )


def read_run_json(layout: Layout, warn: Callable[[str], None] = logger.warning) -> dict[str, Any]:
    """Return the content of `run.json`; empty if there is none.

    Args:
        layout: Where it is.
        warn: Called with a message if its copy is used instead.

    Raises:
        JournalError: It cannot be read.
        OtherFormatError: Another version of Limpet wrote it.
    """
    try:
        known = json.loads(read_whole(layout.run_json))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        try:
            known = json.loads(read_whole(layout.run_json_copy))
        except (OSError, ValueError, RecursionError):
            raise JournalError(
                f"{layout.run_json}: cannot be read: {error}", hint=RESTORE
            ) from error
        warn(f"{layout.run_json}: cannot be read, using its copy: {error}")
    if not isinstance(known, dict):
        raise JournalError(f"{layout.run_json}: must be a JSON object", hint=RESTORE)
    theirs = known.get("format")
    if not isinstance(theirs, int) or isinstance(theirs, bool):
        raise JournalError(f"{layout.run_json}: `format` is missing or not a number", hint=RESTORE)
    if theirs != FORMAT:
        which = "an earlier" if theirs < FORMAT else "a later"
        raise OtherFormatError(
            f"{layout.run_json}: the run was written by {which} version of Limpet "
            f"(format {theirs}; this one has {FORMAT})",
            hint="nothing was changed: use that version of Limpet, or another directory",
        )
    return known
