"""An append-only file: where does it end, and how much of it is on disk?"""

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.errors import JournalError
from limpet.journal.files import (
    OwnFile,
    make_directory,
    open_own,
    replace_file,
    sync_file,
    write_all,
)
from limpet.journal.lines import looks_like_record
from limpet.text import one_line

if TYPE_CHECKING:
    import asyncio


logger = logging.getLogger("limpet.journal")

Then = Callable[[Any, Exception | None], None]


@dataclass(slots=True, eq=False)
class Job:
    """A line on its way to disk. Once queued, only the writer's thread touches it.

    Attributes:
        file: The file it goes to.
        label: Its name in messages.
        line: Its bytes; empty before it is encoded, and again once it is written.
        result: Passed to `then` once the line is durable.
        then: Called on `loop` when the line is durable or has failed, with `result` and `failure`;
            None: nobody waits.
        loop: The waiter's event loop.
        encode: Sets `line`, on the writer's thread; None: it is already set.
        begin: Its offset in the file.
        length: Its length in bytes.
        failure: Why it is not durable; None: it is, or it is not written yet.
    """

    file: "AppendFile"
    label: str
    line: bytes = b""
    result: Any = None
    then: "Then | None" = None
    loop: "asyncio.AbstractEventLoop | None" = None
    encode: Callable[["Job"], None] | None = None
    begin: int = 0
    length: int = 0
    failure: Exception | None = None


def running_loop() -> "asyncio.AbstractEventLoop":
    """Return the running loop."""
    from asyncio import get_running_loop  # noqa: PLC0415 - slow, and readers never need it

    return get_running_loop()


def settle(future: "asyncio.Future[Any]", result: Any, failure: Exception | None) -> None:
    """Complete a future that waits for a line, unless it is cancelled."""
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)


class AppendFile:
    """A file that only grows, by whole lines.

    Only one thread uses it at a time: the opening one, then the writer's, then the closing one.

    Attributes:
        path: The file.
        end: Where the next line goes. Invariant: every byte before it belongs to a whole line.
        synced_end: The end of the part known to be on disk.
        is_event_log: Whether its lines are events: never synced, and no result depends on them.
        on_durable: Called with lines once they are durable.
    """

    def __init__(self, path: Path, fd: int, *, is_event_log: bool = False) -> None:
        self.path = path
        self.is_event_log = is_event_log
        self.fd = fd
        self._own = OwnFile.of(fd)
        self.end = self.synced_end = 0
        self.on_durable: Callable[[Sequence[Job]], None] | None = None
        self._broken: OSError | None = None

    def begin(self) -> None:
        """Start to append at the current end: recovery is done."""
        self.end = self.synced_end = os.lseek(self.fd, 0, os.SEEK_END)

    def append(self, jobs: Sequence[Job]) -> None:
        """Append all lines or none, and set each job's offset.

        Raises:
            OSError: They could not be written; the file is unchanged.
        """
        if self._broken is not None:
            raise OSError(self._broken.errno, f"an earlier failure: {self._broken.strerror}")
        # Checked each time: another program may have added a line, and truncating to the old end
        # would damage acknowledged lines.
        self.end = self._own.size()
        try:
            write_all(self.fd, [job.line for job in jobs])
        except OSError:
            self._truncate()
            raise
        for job in jobs:
            job.begin, job.length = self.end, len(job.line)
            self.end += job.length
            job.line = b""  # large lines need not stay in memory until the sync

    def _truncate(self) -> None:
        """Truncate the bytes of a failed write, so the next line starts after a complete one."""
        try:
            self._own.size()
            os.ftruncate(self.fd, self.end)
        except OSError as error:
            self._broken = error
            message = "%s: it ends with half a line; recovery will remove it: %s"
            logger.error(message, self.path, error.strerror)  # noqa: TRY400 - it is the disk's fault

    def sync(self, jobs: Sequence[Job]) -> None:
        """Return when the whole file is on disk.

        Args:
            jobs: The lines written since the last sync.

        Raises:
            JournalError: They may not be on disk. They were removed from the file, so their cells
                run again.
        """
        try:
            self._own.size()
            sync_file(self.fd)
        except OSError as error:
            # Which pages reached the disk is unknown.
            self._broken = error
            self.end = self.synced_end
            self._truncate()
            raise JournalError(
                f"{self.path}: the disk failed to store the last writes ({error.strerror}); "
                f"in doubt, will run again: {_listed(jobs)}",
                hint="check the disk (dmesg, smartctl), then run again, on another one if needed",
            ) from error
        self.synced_end = self.end

    def free_bytes(self) -> int | None:
        """Return the free space of the file's disk; None if it is unknown."""
        try:
            disk = os.fstatvfs(self.fd)
        except OSError:
            return None
        return disk.f_bavail * disk.f_frsize

    def close(self) -> None:
        """Close the file."""
        self._own.close()
        self._broken = OSError(errno.EBADF, "the journal is closed")


def _listed(jobs: Sequence[Job]) -> str:
    names = ", ".join(one_line(job.label) for job in jobs[:10])
    return f"{len(jobs)} records: {names}" + (", …" if len(jobs) > len(jobs[:10]) else "")


# ---- A live file for other programs: each line is appended as soon as it exists. ----------------
#
# It mirrors a column in another form. Nothing is read from it: a line that cannot be written is
# logged, and the others are still written.


class LiveFile:
    """Replaces a file, then appends to it, on its own thread.

    Args:
        path: The file.
        encode: Returns the line of a value, without a line end.
        begin: The file's first values.

    Attributes:
        path: The file.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(
        self, path: Path, encode: Callable[[Any], bytes], begin: Iterable[Any] = ()
    ) -> None:
        self.path = path
        self._encode = encode
        make_directory(path.parent)
        replace_file(path, self._lines(begin), sync=False)
        self._thread = ThreadPoolExecutor(1, "limpet-live")

    def _lines(self, values: Iterable[Any]) -> Iterator[bytes]:
        for value in values:
            try:
                yield self._line(value)
            except Exception:
                logger.exception("%s: a line could not be encoded", self.path)

    def _line(self, value: Any) -> bytes:
        line = self._encode(value) + b"\n"
        # The file must not look like a column, whatever a model answered.
        return b" " + line[:-1] + b" \n" if looks_like_record(line) else line

    def add(self, value: Any) -> None:
        """Append the line of a value, soon."""
        self._thread.submit(self._append, value)

    def _append(self, value: Any) -> None:
        try:
            line = self._line(value)
            fd = open_own(self.path, os.O_APPEND)
            try:
                self._write(fd, line)
            finally:
                os.close(fd)
        except Exception:
            logger.exception("%s: a line could not be written", self.path)

    def _write(self, fd: int, line: bytes) -> None:
        end = os.fstat(fd).st_size
        try:
            write_all(fd, [line])
        except OSError:
            with suppress(OSError):  # end the line, or the next one would continue it
                os.ftruncate(fd, end)
            raise

    def close(self) -> None:
        """Return when every line is written."""
        self._thread.shutdown()
