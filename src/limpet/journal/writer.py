"""How does a finished record get to the disk before anybody counts it?

The problem. A record counts when it is on the disk, and a disk takes as long to sync one record
as a thousand. Calls end at any moment, some thousands in a second; their event loop must never
wait for a disk. Disks get full, fail, and lie; a process may be killed between any two bytes.

What does not work. Opening, writing and closing the file in a thread for each record costs a
hundred microseconds and survives no power cut. A sync for each record is a thousand times slower
than the calls. Syncing again after a sync has failed succeeds, and the data is gone: the system
marks the pages clean when it gives up on them. Bounding the queue saves no memory: whoever waits
for a place in it holds the same record.

What we do. One thread. In each round it takes all that waits, writes each file's lines with few
system calls, syncs each file once, and wakes all the waiters with one call into their event loop:
the more there is to do, the larger the rounds. Each waiter has a future of its own, so that
cancelling one disturbs no other, and its record is written all the same.

- No room: what was half written is cut away, and all that waits goes on waiting, as full_disk.py
  says. When its patience is over, the waiters get a DiskFullError; the next may still try.
- A sync that fails ends it: the records in doubt are named and taken out of the file, and no
  more are accepted.
- Any other failure of a write is tried record by record, so that one harms no other.

Still open. A disk that acknowledges a sync and lies cannot be found out from here.
"""

import errno
import logging
import os
import threading
from asyncio import AbstractEventLoop
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Literal

from limpet.errors import JournalError, LimpetError, RecordNotWrittenError
from limpet.journal.append_file import AppendFile, Job
from limpet.journal.files import NO_SPACE
from limpet.journal.full_disk import FullDisk, disk_full
from limpet.journal.lock import Lock
from limpet.text import one_line

logger = logging.getLogger("limpet.journal")

Durability = Literal["sync", "flush"]
PATIENCE_S = 600.0
_PORTION_BYTES = 2**18


class Writer:
    """The thread that writes.

    Args:
        lock: Asked before each round whether it is still held.
        durability: When a record counts as durable: see docs/explanation/durability.md.
        on_trouble: Told, on the writer's thread, that there is no room, or that the journal is
            broken; and told None when there is room again.
        patience_s: How long waiters wait for room.
        on_end: Called on the writer's thread as its last act: only then may others write.
    """

    def __init__(
        self,
        lock: Lock,
        durability: Durability,
        on_trouble: Callable[[LimpetError | None], None],
        patience_s: float,
        on_end: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._durability = durability
        self._on_trouble = on_trouble
        self._on_end = on_end
        # A job, a drain's event to set once all before it is done, or None: the end.
        self._queue: SimpleQueue[Job | threading.Event | None] = SimpleQueue()
        self._broken: JournalError | None = None
        self._event_log_has_gap = False
        self._closing = threading.Event()
        self._full_disk = FullDisk(patience_s, self._closing, self._tell)
        self._ended = False
        # Not join(): interrupted by an exception, it takes a thread that still runs for ended.
        self._gone = threading.Event()
        self._pid = os.getpid()
        lock.on_lost = self._disown
        threading.Thread(target=self._live, name="limpet-journal", daemon=True).start()

    # ---- from any thread --------------------------------------------------------------------

    def put(self, job: Job) -> None:
        """Take a record. Its future is done when it is durable, or cannot be.

        Raises:
            JournalError: The journal is closed or broken.
        """
        if not self.is_open:
            raise self._refusal()
        self._queue.put(job)
        if self._ended:  # between the two lines above: it may not have been seen
            if job.future is not None:
                job.future.cancel()
            raise self._refusal()

    @property
    def is_open(self) -> bool:
        """Whether it takes records."""
        return self._broken is None and not self._closing.is_set()

    def _refusal(self) -> JournalError:
        if self._broken is not None:
            return JournalError(str(self._broken), hint=self._broken.hint)
        return JournalError("the journal is closed", hint="open it again to append to it")

    def _disown(self) -> None:
        """Refuse all records: this is a forked child, without the thread that writes."""
        self._broken = JournalError(
            "the journal belongs to the process that opened it, not to its forked child",
            hint='start children with the "spawn" method, and append in the parent',
        )

    @property
    def waits_for_room(self) -> bool:
        """Whether the disk is full, and records wait for room."""
        return self._full_disk.is_full

    def hurry(self, within_s: float) -> None:
        """Wait no longer than that for room on a full disk: then whoever waits is told."""
        self._full_disk.hurry(within_s)

    def drain(self) -> None:
        """Return when all that was put so far is written, or cannot be. Blocks for that long."""
        if os.getpid() != self._pid:  # a forked child: there is no thread here
            return
        reached = threading.Event()
        self._queue.put(reached)
        # Once the thread has left its loop, nobody may see the event any more.
        (self._gone if self._ended else reached).wait()

    def close(self) -> None:
        """Write and sync what waits, and end the thread. Blocks for as long as that takes."""
        if os.getpid() != self._pid:
            self._on_end()
            return
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put(None)
        self._gone.wait()

    # ---- on the writer's thread ---------------------------------------------------------------

    def _live(self) -> None:
        while not self._ended:
            jobs, drains, is_end = self._take()
            try:
                if jobs and not self._lock.is_held:
                    self._break(_lock_lost())
                self._write(jobs)
            except BaseException as bug:  # noqa: BLE001 - nobody may wait for a thread that died
                self._break(JournalError(f"the journal's writer failed: {bug!r}"))
                self._refuse(jobs)
            self._ended = is_end
            _answer(jobs, drains)
        self._queue.put(None)
        jobs, drains, _ = self._take()  # what was put while the thread left its loop
        self._refuse(jobs)
        _answer(jobs, drains)
        try:
            self._on_end()
        finally:
            self._gone.set()

    def _take(self) -> tuple[list[Job], list[threading.Event], bool]:
        """Wait until there is something to do; return all of it, and whether it is the end."""
        jobs: list[Job] = []
        drains: list[threading.Event] = []
        item = self._queue.get()
        with suppress(Empty):
            while item is not None:
                if isinstance(item, Job):
                    jobs.append(item)
                else:
                    drains.append(item)
                item = self._queue.get_nowait()
        return jobs, drains, item is None

    def _write(self, jobs: Sequence[Job]) -> None:
        """Write and sync the records; each job notes how it went."""
        portion: list[Job] = []
        size = 0
        for job in jobs:
            if not _is_encoded(job):
                continue
            portion.append(job)
            size += len(job.line)
            if size >= _PORTION_BYTES:  # large records are not all encoded in memory at once
                self._append(portion)
                portion, size = [], 0
        self._append(portion)
        for file, written in _by_file(job for job in jobs if job.failure is None).items():
            self._make_durable(file, written)

    def _append(self, jobs: Sequence[Job]) -> None:
        for file, of_file in _by_file(jobs).items():
            self._append_to(file, of_file)

    def _append_to(self, file: AppendFile, jobs: Sequence[Job]) -> None:
        """Write records to their file, one by one if need be."""
        if self._broken is not None:
            self._refuse(jobs)
            return
        try:
            self._append_with_patience(file, jobs)
        except OSError as error:
            if file.is_event_log:
                self._note_gap(file, jobs, error)
            elif len(jobs) == 1:
                jobs[0].failure = _not_written(jobs[0], error)
            else:
                for job in jobs:
                    self._append_to(file, [job])

    def _append_with_patience(self, file: AppendFile, jobs: Sequence[Job]) -> None:
        while True:
            try:
                file.append(jobs)
            except OSError as error:
                if error.errno not in NO_SPACE or file.is_event_log:
                    raise
                if not self._full_disk.wait(file, jobs, error):
                    raise
            else:
                if file.is_event_log:
                    self._event_log_has_gap = False
                else:
                    self._full_disk.end(file)
                return

    def _note_gap(self, file: AppendFile, jobs: Sequence[Job], error: OSError) -> None:
        """Say once that events are lost: no result is."""
        for job in jobs:
            job.failure = error
        if not self._event_log_has_gap:
            logger.warning("%s: some events are missing here: %s", file.path, error.strerror)
        self._event_log_has_gap = True

    def _make_durable(self, file: AppendFile, jobs: Sequence[Job]) -> None:
        if self._durability == "sync" and not file.is_event_log:
            try:
                file.sync(jobs)
            except JournalError as broken:
                self._break(broken)
                self._refuse(jobs)
                return
        if file.on_kept is not None:
            file.on_kept(jobs)

    def _refuse(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.failure = self._refusal()

    def _break(self, broken: JournalError) -> None:
        if self._broken is None:
            self._broken = broken
            logger.error("%s", broken, exc_info=broken)
            self._tell(broken)

    def _tell(self, trouble: LimpetError | None) -> None:
        try:
            self._on_trouble(trouble)
        except Exception:  # whoever listens must not take the writer with them
            logger.exception("nobody could be told of the journal's trouble")


def _by_file(jobs: Iterable[Job]) -> dict[AppendFile, list[Job]]:
    files: defaultdict[AppendFile, list[Job]] = defaultdict(list)
    for job in jobs:
        files[job.file].append(job)
    return files


def _is_encoded(job: Job) -> bool:
    """Have a job's line filled in, where that was left to this thread."""
    if job.encode is None:
        return True
    try:
        job.encode(job)
    except BaseException as error:
        label = one_line(job.label)
        logger.exception("%s could not be prepared for the journal", label)
        job.failure = JournalError(f"{label} could not be prepared: {error!r}")
        job.failure.__cause__ = error
        return False
    return True


def _answer(jobs: Iterable[Job], drains: Iterable[threading.Event]) -> None:
    """Tell those who wait how it went: one call into each event loop."""
    loops: defaultdict[AbstractEventLoop, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.future is not None:
            loops[job.future.get_loop()].append(job)
    for loop, done in loops.items():
        try:
            loop.call_soon_threadsafe(_settle, done)
        except RuntimeError:  # the loop is closed: nobody waits any more
            logger.debug("those who waited for the journal are gone")
    for reached in drains:
        reached.set()


def _settle(jobs: Iterable[Job]) -> None:
    for job in jobs:
        # One that was cancelled is left alone: its record is written all the same.
        if job.future is None or job.future.done():
            continue
        if job.failure is None:
            job.future.set_result(job.answer)
        else:
            job.future.set_exception(job.failure)


def _lock_lost() -> JournalError:
    return JournalError(
        "the journal's lock is lost: other code in this process closed its file",
        hint="find what closes file descriptors that it did not open (os.closerange, os.close); "
        "what was acknowledged is safe",
    )


def _not_written(job: Job, error: OSError) -> LimpetError:
    if error.errno in NO_SPACE:
        return disk_full(job.file, [job], error)  # said when it got full: not once more for each
    kind = RecordNotWrittenError if error.errno == errno.EFBIG else JournalError
    failure = kind(
        f"{job.file.path}: {one_line(job.label)} could not be written: {error.strerror}",
        hint="what was acknowledged is safe; this one will run again",
    )
    failure.__cause__ = error
    logger.error("%s", failure, exc_info=failure)
    return failure
