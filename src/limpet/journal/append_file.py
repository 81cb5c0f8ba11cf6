"""One append-only file, as its writer sees it: where it ends, and how far it is on the disk."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from limpet.errors import JournalError
from limpet.journal.files import OwnFile, sync_file, write_all
from limpet.journal.lines import sealed
from limpet.text import one_line

logger = logging.getLogger("limpet.journal")


class Job(NamedTuple):
    """A record on its way to the disk.

    A tuple, as one is made for every record: making an object takes six times as long.

    Attributes:
        tape: Where it goes.
        text: Its JSON; None while nobody has encoded it.
        size: How many bytes its line takes; while nobody has encoded it, a guess.
        label: What people call it.
        answer: What its waiter gets once it is durable.
        key: The cell's, as 16 bytes; empty if it has none.
        tag: Its kind and generation, as the index says them.
        future: Who waits for it; None: nobody.
        encode: Returns this job with its text. Called on the writer's thread.
    """

    tape: "Tape"
    text: bytes | None
    size: int
    label: str
    answer: Any
    key: bytes
    tag: int
    future: asyncio.Future[Any] | None
    encode: Callable[["Job"], "Job"] | None


def some_of(jobs: Sequence[Job]) -> str:
    """Name the first of some records, and how many there are."""
    names = ", ".join(one_line(job.label) for job in jobs[:10])
    return f"{len(jobs)} records: {names}" + (", …" if len(jobs) > len(jobs[:10]) else "")


class Tape:
    """A file that only grows, by whole lines.

    Used by one thread at a time: the one that opens it, then the writer's, then the one that
    closes it.

    Attributes:
        path: The file.
        end: Where the next line goes. Invariant: every byte before it belongs to a whole line.
        synced_end: How far the disk itself has it.
        is_story: Whether its lines are the story only: never synced, and losing them loses no
            result.
        in_doubt: The records between `synced_end` and `end`.
        on_kept: Told of records that are durable, and where they stand.
    """

    def __init__(self, path: Path, fd: int, *, is_story: bool = False) -> None:
        self.path = path
        self.is_story = is_story
        self.fd = fd
        self._own = OwnFile.of(fd)
        self.end = self.synced_end = 0
        self.in_doubt: list[Job] = []
        self.on_kept: Callable[[list[Job], list[int]], None] | None = None
        self._broken: OSError | None = None

    def begin(self) -> None:
        """Append at the end of what is there now: recovery is done."""
        self.end = self.synced_end = os.lseek(self.fd, 0, os.SEEK_END)

    def append(self, jobs: Sequence[Job]) -> list[int]:
        """Write records at the end, all of them or none; return where each stands.

        Raises:
            OSError: They could not be written; the file is as it was before.
        """
        if self._broken is not None:
            raise OSError(self._broken.errno, f"an earlier failure: {self._broken.strerror}")
        _, texts, sizes, *_ = zip(*jobs, strict=True)
        # Asked each time: others may have added a line of their own, and cutting back to where we
        # thought it ended would cut into what we acknowledged.
        self.end = self._own.size()
        try:
            write_all(self.fd, texts if self.is_story else sealed(texts))
        except OSError:
            self._cut_back()
            raise
        places = list(accumulate(sizes, initial=self.end))
        self.end = places.pop()
        return places

    def _cut_back(self) -> None:
        """Take the bytes of a broken write away, so that the next line begins where a line ends."""
        try:
            self._own.size()
            os.ftruncate(self.fd, self.end)
        except OSError as error:
            self._broken = error
            logger.exception("%s: half a line is left at its end; recovery will cut it", self.path)

    def sync(self) -> None:
        """Return when all of it is on the disk.

        Raises:
            JournalError: It may not be. The records in doubt were taken out of the file, so that
                their cells run again.
        """
        if self.is_story or self.synced_end == self.end:
            return
        try:
            self._own.size()
            sync_file(self.fd)
        except OSError as error:
            raise self._give_up_doubtful(error) from error
        self.synced_end = self.end
        self.in_doubt.clear()

    def _give_up_doubtful(self, error: OSError) -> JournalError:
        """After a failed sync nobody knows which pages reached the disk, and nobody can ask."""
        self._broken = error
        self.end = self.synced_end
        self._cut_back()
        return JournalError(
            f"{self.path}: the disk failed to keep what was written ({error.strerror}); "
            f"in doubt, to run again: {some_of(self.in_doubt)}",
            hint="check the disk (dmesg, smartctl); then run again, on another disk if need be",
        )

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
