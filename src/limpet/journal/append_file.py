"""One append-only file, as its writer sees it: where it ends, and how far it is on the disk."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limpet.errors import JournalError
from limpet.journal.files import OwnFile, sync_file, write_all
from limpet.text import one_line

logger = logging.getLogger("limpet.journal")


@dataclass(slots=True, eq=False)
class Job:
    """A line on its way to the disk. Once it is put, only the writer's thread touches it.

    Attributes:
        file: Where it goes.
        label: What people call it.
        line: Its bytes; empty while nobody has encoded it, and again once it is written.
        answer: What its waiter gets once it is durable.
        future: Who waits for it; None: nobody.
        encode: Fills in the line. Called on the writer's thread; None: it is filled in.
        begin: Where it was written.
        length: How many bytes were written.
        failure: Why it is not durable; None: it is, or nobody has tried yet.
    """

    file: "AppendFile"
    label: str
    line: bytes = b""
    answer: Any = None
    future: asyncio.Future[Any] | None = None
    encode: Callable[["Job"], None] | None = None
    begin: int = 0
    length: int = 0
    failure: Exception | None = None


class AppendFile:
    """A file that only grows, by whole lines.

    Used by one thread at a time: the one that opens it, then the writer's, then the one that
    closes it.

    Attributes:
        path: The file.
        end: Where the next line goes. Invariant: every byte before it belongs to a whole line.
        synced_end: How far the disk itself has it.
        is_event_log: Whether its lines are events only: never synced, and losing them loses no
            result.
        on_kept: Told of records that are durable.
    """

    def __init__(self, path: Path, fd: int, *, is_event_log: bool = False) -> None:
        self.path = path
        self.is_event_log = is_event_log
        self.fd = fd
        self._own = OwnFile.of(fd)
        self.end = self.synced_end = 0
        self.on_kept: Callable[[Sequence[Job]], None] | None = None
        self._broken: OSError | None = None

    def begin(self) -> None:
        """Append at the end of what is there now: recovery is done."""
        self.end = self.synced_end = os.lseek(self.fd, 0, os.SEEK_END)

    def append(self, jobs: Sequence[Job]) -> None:
        """Write lines at the end, all of them or none, and note where each one begins.

        Raises:
            OSError: They could not be written; the file is as it was before.
        """
        if self._broken is not None:
            raise OSError(self._broken.errno, f"an earlier failure: {self._broken.strerror}")
        # Asked each time: others may have added a line of their own, and cutting back to where we
        # thought it ended would cut into what we acknowledged.
        self.end = self._own.size()
        try:
            write_all(self.fd, [job.line for job in jobs])
        except OSError:
            self._cut_back()
            raise
        for job in jobs:
            job.begin, job.length = self.end, len(job.line)
            self.end += job.length
            job.line = b""  # large lines need not wait for their sync in memory

    def _cut_back(self) -> None:
        """Take the bytes of a broken write away, so that the next line begins where a line ends."""
        try:
            self._own.size()
            os.ftruncate(self.fd, self.end)
        except OSError as error:
            self._broken = error
            logger.exception("%s: half a line is left at its end; recovery will cut it", self.path)

    def sync(self, jobs: Sequence[Job]) -> None:
        """Return when all of it is on the disk.

        Args:
            jobs: What was written since the last time.

        Raises:
            JournalError: It may not be. These records were taken out of the file, so that their
                cells run again.
        """
        try:
            self._own.size()
            sync_file(self.fd)
        except OSError as error:
            # Nobody knows which pages reached the disk, and nobody can ask.
            self._broken = error
            self.end = self.synced_end
            self._cut_back()
            raise JournalError(
                f"{self.path}: the disk failed to keep what was written ({error.strerror}); "
                f"in doubt, to run again: {_named(jobs)}",
                hint="check the disk (dmesg, smartctl); then run again, on another disk if need be",
            ) from error
        self.synced_end = self.end

    def free_bytes(self) -> int | None:
        """Return how much room there is where the file lies, if the system tells."""
        try:
            room = os.fstatvfs(self.fd)
        except OSError:
            return None
        return room.f_bavail * room.f_frsize

    def close(self) -> None:
        """Let go of the file."""
        self._own.close()
        self._broken = OSError(errno.EBADF, "the journal is closed")


def _named(jobs: Sequence[Job]) -> str:
    names = ", ".join(one_line(job.label) for job in jobs[:10])
    return f"{len(jobs)} records: {names}" + (", …" if len(jobs) > len(jobs[:10]) else "")
