"""How does a finished record get to disk before it counts?

The problem. A record counts once it is on disk, and a disk takes as long to sync one record as a
thousand. Calls end at any moment, thousands per second, and their event loop must never wait for a
disk. Disks get full, fail, and lie; a process may be killed between any two bytes.

What does not work. Opening, writing and closing the file in a thread for each record costs a
hundred microseconds and does not survive a power failure. A sync for each record is a thousand
times slower than the calls. A second sync after a failed one succeeds, and the data is gone: the
system marks the pages clean when it gives up on them. A bounded queue saves no memory: a caller
that waits for space in it holds the same record.

What we do. One thread. In each round it takes everything queued, writes each file's lines with few
system calls, syncs each file once, and wakes all waiters with one call into their event loop: the
more work, the larger the rounds. Events, which nobody waits for, get no round of their own while
records arrive. Each waiter is called separately, so one that gave up, or raises, does not affect
the others, and its record is still written.

- Disk full: a partial write is truncated, and the records wait (see `FullDisk`). When the wait
  ends, the waiters get a DiskFullError; later records may still try.
- A failed sync ends the journal: the records in doubt are named and removed from the file, and no
  more are accepted.
- After any other failed write, each record is tried alone, so one cannot harm another.

Still open. A disk that acknowledges a sync and lies cannot be detected from here.
"""

import errno
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

from limpet.errors import DiskFullError, JournalError, LimpetError, RecordNotWrittenError
from limpet.journal.append_file import AppendFile, Job
from limpet.journal.files import NO_SPACE
from limpet.journal.lock import Lock
from limpet.text import one_line, size

if TYPE_CHECKING:
    import asyncio


logger = logging.getLogger("limpet.journal")
# ---- What happens to finished records while the disk is full? -----------------------------------
#
# They wait in memory, and the write is retried each second until `patience_s` or `hurry` ends the
# wait. Listeners are notified when the disk gets full, so no new work starts, and when there is
# space again.

RETRY_S = 1.0
_STEP_S = 0.1


class FullDisk:
    """The wait for space. Other threads may use only `hurry` and `is_full`.

    Args:
        patience_s: How long to wait once the disk is full.
        closing: Ends every wait.
        notify: Called with a DiskFullError when the disk gets full, and with None when there is
            space again.
    """

    def __init__(
        self,
        patience_s: float,
        closing: threading.Event,
        notify: Callable[[LimpetError | None], None],
    ) -> None:
        self._patience_s = patience_s
        self._closing = closing
        self._notify = notify
        self._since: float | None = None
        self._give_up_at = inf

    @property
    def is_full(self) -> bool:
        """Whether records wait for space."""
        return self._since is not None

    def hurry(self, within_s: float) -> None:
        """Wait at most this long from now, even if `patience_s` is longer."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + within_s)

    def wait(self, file: AppendFile, jobs: Sequence[Job], error: OSError) -> bool:
        """Wait before the next attempt; return whether to make one."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            full = disk_full(file, jobs, error)
            logger.error("%s; %s", full, full.hint)
            self._notify(full)
        end = self._since + self._patience_s
        if now >= min(end, self._give_up_at):
            return False
        # In short steps: `hurry` may be called meanwhile.
        until = min(now + RETRY_S, end)
        while (step_s := min(until, self._give_up_at) - time.monotonic()) > 0:
            if self._closing.wait(min(step_s, _STEP_S)):
                return False
        return True

    def end(self, file: AppendFile) -> None:
        """End the wait: a write succeeded."""
        if self._since is not None:
            self._since = None
            logger.warning("%s: there is space again; continuing", file.path)
            self._notify(None)


def disk_full(file: AppendFile, jobs: Sequence[Job], error: OSError) -> DiskFullError:
    """Return the error for records that do not fit on the disk."""
    needed, free = sum(len(job.line) for job in jobs), file.free_bytes()
    space = "" if free is None else f", {size(free)} free"
    full = DiskFullError(
        f"{file.path}: {error.strerror}: {size(needed)} needed{space}",
        hint="free some space on that disk and the run continues by itself; "
        "if it has stopped, run it again: no finished result is lost",
    )
    full.__cause__ = error
    return full


# ---- How does a finished record get to disk before it counts? -----------------------------------

Durability = Literal["sync", "flush"]
PATIENCE_S = 600.0
_PORTION_BYTES = 2**18
_EVENTS_S = 0.02  # how long events wait to be written with a record


class Writer:
    """The thread that writes.

    Args:
        lock: Checked before each round: it must still be held.
        durability: When a record is durable: see docs/explanation/durability.md.
        on_problem: Called on the writer's thread: with an error when the disk is full or the
            journal is broken, with None when there is space again.
        patience_s: How long waiters wait for space.
        on_end: Called last on the writer's thread: only then may others write.

    Attributes:
        full_disk: The wait for space on a full disk.
    """

    def __init__(
        self,
        lock: Lock,
        durability: Durability,
        on_problem: Callable[[LimpetError | None], None],
        patience_s: float,
        on_end: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._durability = durability
        self._on_problem = on_problem
        self._on_end = on_end
        # A job, an event to set when all jobs before it are done, or None: the end.
        self._queue: SimpleQueue[Job | threading.Event | None] = SimpleQueue()
        self._broken: JournalError | None = None
        self._event_log_has_gap = False
        self._closing = threading.Event()
        self.full_disk = FullDisk(patience_s, self._closing, self._notify)
        self._ended = False
        # Not join(): after an interrupt, it takes a running thread for ended.
        self._exited = threading.Event()
        self._pid = os.getpid()
        lock.on_lost = self._disown
        threading.Thread(target=self._run, name="limpet-journal", daemon=True).start()

    # ---- from any thread --------------------------------------------------------------------

    def put(self, job: Job) -> None:
        """Queue a record. Its `then` is called when the record is durable, or has failed.

        Raises:
            JournalError: The journal is closed or broken.
        """
        if not self.is_open:
            raise self._refusal()
        self._queue.put(job)
        if self._ended:  # just now: the thread may not have seen the job
            job.then = None
            raise self._refusal()

    @property
    def is_open(self) -> bool:
        """Whether it accepts records."""
        return self._broken is None and not self._closing.is_set()

    def _refusal(self) -> JournalError:
        if self._broken is not None:
            return JournalError(str(self._broken), hint=self._broken.hint)
        return JournalError("the journal is closed", hint="open it again to append to it")

    def _disown(self) -> None:
        """Refuse all records: a forked child does not have the writer's thread."""
        self._broken = JournalError(
            "the journal belongs to the process that opened it, not to its forked child",
            hint='start children with the "spawn" method, and append in the parent',
        )

    def hasten(self) -> None:
        """Write everything queued without waiting for more: readers want it now."""
        self._queue.put(threading.Event())

    def drain(self) -> None:
        """Return when everything queued so far is written or has failed."""
        if os.getpid() != self._pid:  # a forked child has no thread
            return
        reached = threading.Event()
        self._queue.put(reached)
        # Once the thread has left its loop, it may not see the event.
        (self._exited if self._ended else reached).wait()

    def close(self) -> None:
        """Write and sync what is queued, and end the thread."""
        if os.getpid() != self._pid:
            self._on_end()
            return
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put(None)
        self._exited.wait()

    # ---- on the writer's thread ---------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended:
            jobs, drains, is_end = self._take()
            try:
                if jobs and not self._lock.is_held:
                    self._break(_lock_lost())
                self._write(jobs)
            except BaseException as bug:  # noqa: BLE001 - a dead thread would leave waiters hanging
                self._break(JournalError(f"the journal's writer failed: {bug!r}"))
                self._refuse(jobs)
            self._ended = is_end
            _acknowledge(jobs, drains)
        self._queue.put(None)
        jobs, drains, _ = self._take()  # queued while the thread left its loop
        self._refuse(jobs)
        _acknowledge(jobs, drains)
        try:
            self._on_end()
        finally:
            self._exited.set()

    def _take(self) -> tuple[list[Job], list[threading.Event], bool]:
        """Wait for something to do; return all of it, and whether it is the end."""
        jobs: list[Job] = []
        drains: list[threading.Event] = []
        is_waited_for = False
        item = self._queue.get()
        until = time.monotonic() + _EVENTS_S
        with suppress(Empty):
            while item is not None:
                if isinstance(item, Job):
                    jobs.append(item)
                    is_waited_for |= item.then is not None
                else:
                    drains.append(item)
                    is_waited_for = True
                # Events alone wait briefly for a record: a round of their own costs as much.
                wait_s = 0.0 if is_waited_for else max(0.0, until - time.monotonic())
                item = self._queue.get(timeout=wait_s)
        return jobs, drains, item is None

    def _write(self, jobs: Sequence[Job]) -> None:
        """Write and sync the records, and set `failure` where that fails."""
        portion: list[Job] = []
        size = 0
        for job in jobs:
            if not _is_encoded(job):
                continue
            portion.append(job)
            size += len(job.line)
            if size >= _PORTION_BYTES:  # large records are not all in memory at once
                self._append(portion)
                portion, size = [], 0
        self._append(portion)
        for file, written in _by_file(job for job in jobs if job.failure is None).items():
            self._make_durable(file, written)

    def _append(self, jobs: Sequence[Job]) -> None:
        for file, of_file in _by_file(jobs).items():
            self._append_to(file, of_file)

    def _append_to(self, file: AppendFile, jobs: Sequence[Job]) -> None:
        """Write records to their file, one by one if they fail together."""
        if self._broken is not None:
            self._refuse(jobs)
            return
        try:
            self._append_with_patience(file, jobs)
        except OSError as error:
            if file.is_event_log:
                self._record_gap(file, jobs, error)
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
                if not self.full_disk.wait(file, jobs, error):
                    raise
            else:
                if file.is_event_log:
                    self._event_log_has_gap = False
                else:
                    self.full_disk.end(file)
                return

    def _record_gap(self, file: AppendFile, jobs: Sequence[Job], error: OSError) -> None:
        """Log once that events are lost; results are not."""
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
        if file.on_durable is not None:
            file.on_durable(jobs)

    def _refuse(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.failure = self._refusal()

    def _break(self, broken: JournalError) -> None:
        if self._broken is None:
            self._broken = broken
            logger.error("%s", broken)
            self._notify(broken)

    def _notify(self, problem: LimpetError | None) -> None:
        try:
            self._on_problem(problem)
        except Exception:  # a listener must not end the writer
            logger.exception("a listener of the journal failed")


def _by_file(jobs: Iterable[Job]) -> dict[AppendFile, list[Job]]:
    files: defaultdict[AppendFile, list[Job]] = defaultdict(list)
    for job in jobs:
        files[job.file].append(job)
    return files


def _is_encoded(job: Job) -> bool:
    """Encode a job's line if it has none yet; return whether it has one."""
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


def _acknowledge(jobs: Iterable[Job], drains: Iterable[threading.Event]) -> None:
    """Wake the waiters, with one call into each event loop."""
    loops: defaultdict[asyncio.AbstractEventLoop, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.loop is not None:
            loops[job.loop].append(job)
    for loop, done in loops.items():
        try:
            loop.call_soon_threadsafe(_tell, loop, done)
        except RuntimeError:
            logger.debug("an event loop closed before its records were written")
    for reached in drains:
        reached.set()


def _tell(loop: "asyncio.AbstractEventLoop", jobs: Iterable[Job]) -> None:
    """Call all waiters; if one raises, the others are called in the next turn of the loop."""
    waiting = iter(jobs)
    try:
        for job in waiting:
            if job.then is not None:
                job.then(job.result, job.failure)
    except BaseException:
        loop.call_soon(_tell, loop, waiting)
        raise


def _lock_lost() -> JournalError:
    return JournalError(
        "the journal's lock is lost: other code in this process closed its file",
        hint="find the code that closes descriptors it did not open (os.closerange, os.close); "
        "acknowledged results are safe",
    )


def _not_written(job: Job, error: OSError) -> LimpetError:
    if error.errno in NO_SPACE:
        return disk_full(job.file, [job], error)  # logged when the disk got full
    kind = RecordNotWrittenError if error.errno == errno.EFBIG else JournalError
    failure = kind(
        f"{job.file.path}: {one_line(job.label)} could not be written: {error.strerror}",
        hint="acknowledged results are safe; this one will run again",
    )
    failure.__cause__ = error
    logger.error("%s", failure)
    return failure
