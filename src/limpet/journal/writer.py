"""How does a finished record get to the disk before anybody counts it?

The problem. A record counts when it is on the disk, and a disk takes as long to sync one record
as a thousand. Calls end at any moment, some thousands in a second; their event loop must never
wait for a disk. Disks get full, fail, and lie; a process may be killed between any two bytes.

What does not work. Opening, writing and closing the file in a thread for each record costs a
hundred microseconds and survives no power cut. A sync for each record is a thousand times slower
than the calls. Syncing again after a sync has failed succeeds, and the data is gone: the system
marks the pages clean when it gives up on them.

What we do. One thread. It takes all that waits, writes each file's lines with few system calls,
syncs each file once, and wakes all the waiters with one call into their event loop: the more
there is to do, the larger the groups. Each waiter has a future of its own, so that cancelling
one disturbs no other, and its record is written all the same. What waits is bounded by its bytes.

- No room: what was half written is cut away, all that waits goes on waiting, whoever starts new
  work is told (`on_trouble`), and the write is tried again each second. With room, all goes on.
  When there is none for `patience_s`, the waiters get a DiskFullError; the next may still try.
- A sync that fails ends it: the records in doubt are named and taken out of the file, and no
  more are accepted.
- Any other failure of a write is tried record by record, so that one harms no other.

Still open. A disk that acknowledges a sync and lies cannot be found out from here.
"""

import asyncio
import errno
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from math import inf
from queue import Empty, SimpleQueue
from typing import Literal

from limpet.errors import (
    DiskFullError,
    JournalError,
    LimpetError,
    RecordNotWrittenError,
)
from limpet.journal.acknowledgements import Answers, call_into
from limpet.journal.append_file import Job, Tape
from limpet.journal.files import NO_SPACE
from limpet.text import one_line

logger = logging.getLogger("limpet.journal")

Durability = Literal["sync", "interval", "flush"]
MOST_WAITING_BYTES = 64 * 2**20
"""How many bytes may wait to be written before `append` has to wait as well."""
INTERVAL_S = 1.0
PATIENCE_S = 600.0
_RETRY_S = 1.0
_STEP_S = 0.1
_GATHER_BYTES = 2**18


class Writer:
    """The thread that writes.

    Args:
        durability: When a record counts as durable: see docs/explanation/durability.md.
        on_trouble: Told, on the writer's thread, that there is no room, or that the journal is
            broken; and told None when there is room again.
        patience_s: How long waiters wait for room.
        on_end: Called on the writer's thread as its last act: only then may others write.

    Attributes:
        may_write: Asked before each round: whether the lock is still ours.
    """

    def __init__(
        self,
        durability: Durability,
        on_trouble: Callable[[LimpetError | None], None],
        patience_s: float,
        on_end: Callable[[], None],
    ) -> None:
        self.may_write: Callable[[], bool] = lambda: True
        self._durability = durability
        self._on_trouble = on_trouble
        self._patience_s = patience_s
        self._on_end = on_end
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        # Two counters, each raised by one side only. Where several loops append, a lost update
        # can only make the backlog look smaller.
        self._put_bytes = self._done_bytes = 0
        self._room: list[asyncio.Future[None]] = []
        self._drained: list[tuple[int, threading.Event]] = []
        self._room_lock = threading.Lock()
        self._broken: JournalError | None = None
        self._full_since: float | None = None
        self._give_up_at = inf  # however long `patience_s` is
        self._story_has_gap = False
        self._closing = threading.Event()
        self._refuses = False  # broken or closing; one look instead of two, for each record
        self._ended = False
        # Not join(): interrupted by an exception, it takes a thread that still runs for ended.
        self._gone = threading.Event()
        self._pid = os.getpid()
        self._unsynced: set[Tape] = set()
        self._synced_at = time.monotonic()
        self._thread = threading.Thread(target=self._live, name="limpet-journal", daemon=True)
        self._thread.start()

    # ---- from the event loop ----------------------------------------------------------------

    def put(self, job: Job, *, wait: bool = True) -> bool:
        """Take a record, or return False: there is no room, and `wait` asks for some.

        Its future is done when it is durable, or cannot be.

        Raises:
            JournalError: The journal is closed or broken.
        """
        if self._refuses:
            raise self._refusal()
        if wait and self._put_bytes - self._done_bytes >= MOST_WAITING_BYTES:
            return False
        self._put_bytes += job[2]
        self._queue.put(job)
        if self._ended:  # between the two lines above: it may not have been seen
            if job.future is not None:
                job.future.cancel()
            raise self._refusal()
        return True

    @property
    def is_open(self) -> bool:
        """Whether it takes records."""
        return not self._refuses

    def has_room(self) -> bool:
        """Tell whether a record may be put without waiting."""
        return self._put_bytes - self._done_bytes < MOST_WAITING_BYTES

    async def wait_for_room(self) -> None:
        """Return when there is room, or the journal broke."""
        while not self.has_room() and self._broken is None and not self._closing.is_set():
            future = asyncio.get_running_loop().create_future()
            with self._room_lock:
                self._room.append(future)
            if self.has_room():  # the writer may have been faster
                self._wake_those_with_room()
            await future

    def _refusal(self) -> JournalError:
        if self._broken is not None:
            return JournalError(str(self._broken), hint=self._broken.hint)
        return JournalError("the journal is closed", hint="open it again to append to it")

    def disown(self) -> None:
        """Refuse all records: this is a forked child, without the thread that writes."""
        self._refuses = True
        self._broken = JournalError(
            "the journal belongs to the process that opened it, not to its forked child",
            hint='start children with the "spawn" method, and append in the parent',
        )

    @property
    def waits_for_room(self) -> bool:
        """Whether the disk is full, and records wait for room."""
        return self._full_since is not None

    def hurry(self, within_s: float) -> None:
        """Wait no longer than that for room on a full disk: then whoever waits is told."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + within_s)

    def drain(self) -> None:
        """Return when all that was put so far has its answer. Blocks for as long as that takes."""
        reached = threading.Event()
        with self._room_lock:
            self._drained.append((self._put_bytes, reached))
        self._say_drained()
        reached.wait()

    def _say_drained(self) -> None:
        with self._room_lock:
            waiting, self._drained = self._drained, []
            for put_bytes, reached in waiting:
                if self._done_bytes >= put_bytes or self._gone.is_set():
                    reached.set()
                else:
                    self._drained.append((put_bytes, reached))

    def close(self) -> None:
        """Write and sync what waits, and end the thread. Blocks for as long as that takes."""
        if os.getpid() != self._pid:  # a forked child: there is no thread here
            self._on_end()
            return
        if not self._closing.is_set():
            self._refuses = True
            self._closing.set()
            self._queue.put(None)
        self._gone.wait()

    # ---- on the writer's thread ---------------------------------------------------------------

    def _live(self) -> None:
        while not self._ended:
            jobs, is_end = self._take()
            answers = Answers()
            try:
                if jobs and not self.may_write():
                    self._break(_lock_lost())
                self._write(jobs, answers)
                if self._durability == "interval":
                    self._sync_if_due(is_end=is_end)
            except BaseException as bug:  # noqa: BLE001 - nobody may wait for a thread that died
                self._break(JournalError(f"the journal's writer failed: {bug!r}"))
                answers = Answers()
                self._refuse(jobs, answers)
            self._done_bytes += sum([job.size for job in jobs])
            self._ended = is_end
            answers.give()
            self._wake_those_with_room()
            if self._drained:
                self._say_drained()
        late, _ = self._take_waiting([])
        answers = Answers()
        self._refuse(late, answers)
        answers.give()
        try:
            self._on_end()
        finally:
            self._gone.set()
            self._say_drained()

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for records; return all that wait, and whether it is the end."""
        try:
            first = self._queue.get(timeout=self._until_sync())
        except Empty:
            return [], False
        return ([], True) if first is None else self._take_waiting([first])

    def _take_waiting(self, jobs: list[Job]) -> tuple[list[Job], bool]:
        take = self._queue.get_nowait
        try:
            while (job := take()) is not None:
                jobs.append(job)
        except Empty:
            return jobs, False
        return jobs, True

    def _write(self, jobs: list[Job], answers: Answers) -> None:
        """Write and sync the records, and note what each is to be answered."""
        groups: defaultdict[Tape, _Group] = defaultdict(_Group)
        for job in jobs:
            if job[1] is not None:
                groups[job[0]].waiting.append(job)
                continue
            encoded = _encoded(job, answers)
            if encoded is None:
                continue
            group = groups[encoded.tape]
            group.waiting.append(encoded)
            group.late_bytes += encoded.size
            # Large records are encoded and written a few at a time: their bytes are still
            # in the processor's cache, and the next ones take their place.
            if group.late_bytes >= _GATHER_BYTES:
                known = len(group.written)
                self._append_waiting(encoded.tape, group, answers)
                group.written[known:] = [one._replace(text=b"") for one in group.written[known:]]
        for tape, group in groups.items():
            self._append_waiting(tape, group, answers)
            if not group.written:
                continue
            if not self._make_durable(tape, group.written):
                self._refuse(group.written, answers)
                continue
            answers.kept += group.written
            if tape.on_kept:
                tape.on_kept(group.written, group.begins)

    def _append_waiting(self, tape: Tape, group: "_Group", answers: Answers) -> None:
        if group.waiting:
            self._append(tape, group.waiting, group, answers)
        group.waiting, group.late_bytes = [], 0

    def _append(self, tape: Tape, jobs: list[Job], group: "_Group", answers: Answers) -> None:
        """Write records of a group, one by one if need be."""
        if self._broken is not None:
            self._refuse(jobs, answers)
            return
        try:
            begins = self._append_with_patience(tape, jobs)
        except OSError as error:
            if tape.is_story:
                self._say_gap(tape, error)
                return
            if len(jobs) == 1:
                answers.failed.append((jobs[0], _not_written(tape, error, jobs[0])))
                return
            for job in jobs:
                self._append(tape, [job], group, answers)
        else:
            if tape.is_story:
                self._story_has_gap = False
            group.written += jobs
            group.begins += begins

    def _say_gap(self, tape: Tape, error: OSError) -> None:
        """Say once that lines of the story are lost: no result is."""
        if not self._story_has_gap:
            logger.warning("%s: the story has a gap here: %s", tape.path, error.strerror)
        self._story_has_gap = True

    def _append_with_patience(self, tape: Tape, jobs: list[Job]) -> list[int]:
        while True:
            try:
                begins = tape.append(jobs)
            except OSError as error:
                if error.errno not in NO_SPACE or tape.is_story:
                    raise
                if not self._wait_for_space(tape, jobs, error):
                    raise
            else:
                if self._full_since is not None and not tape.is_story:
                    self._full_since = None
                    logger.warning("%s: there is room again; going on", tape.path)
                    self._tell(None)
                return begins

    def _wait_for_space(self, tape: Tape, jobs: list[Job], error: OSError) -> bool:
        """Wait before the next try; tell whether there should be one."""
        if self._full_since is None:
            self._full_since = time.monotonic()
            full = _disk_full(tape, jobs, error)
            logger.error("%s; %s", full, full.hint)
            self._tell(full)
        if self._durability == "interval":
            self._sync_if_due(is_end=False)
        now = time.monotonic()
        left_s = min(self._full_since + self._patience_s, self._give_up_at) - now
        if left_s <= 0:
            return False
        # By short steps: it may be told meanwhile that it has to hurry.
        until = now + min(_RETRY_S, left_s)
        while (step_s := min(until, self._give_up_at) - time.monotonic()) > 0:
            if self._closing.wait(min(step_s, _STEP_S)):
                return False
        return True

    def _make_durable(self, tape: Tape, jobs: list[Job]) -> bool:
        if tape.is_story or self._durability == "flush":
            return True
        tape.in_doubt += jobs
        if self._durability == "interval":
            self._unsynced.add(tape)
            return True
        try:
            tape.sync()
        except JournalError as broken:
            self._break(broken)
            return False
        return True

    def _refuse(self, jobs: list[Job], answers: Answers) -> None:
        answers.failed += [(job, self._refusal()) for job in jobs]

    # ---- the interval ---------------------------------------------------------------------------

    def _until_sync(self) -> float | None:
        if not self._unsynced:
            return None
        return max(0.0, self._synced_at + INTERVAL_S - time.monotonic())

    def _sync_if_due(self, *, is_end: bool) -> None:
        now = time.monotonic()
        if not is_end and now < self._synced_at + INTERVAL_S:
            return
        self._synced_at = now
        for tape in self._unsynced:
            try:
                tape.sync()
            except JournalError as broken:
                self._break(broken)
        self._unsynced.clear()

    # ---- telling --------------------------------------------------------------------------------

    def _break(self, broken: JournalError) -> None:
        if self._broken is None:
            self._broken = broken
            self._refuses = True
            logger.error("%s", broken, exc_info=broken)
            self._tell(broken)

    def _tell(self, trouble: LimpetError | None) -> None:
        try:
            self._on_trouble(trouble)
        except Exception:  # whoever listens must not take the writer with them
            logger.exception("nobody could be told of the journal's trouble")

    def _wake_those_with_room(self) -> None:
        if not self._room or not (self.has_room() or self._broken or self._closing.is_set()):
            return
        with self._room_lock:
            waiting, self._room = self._room, []
        for future in waiting:
            call_into(future.get_loop(), _open_door, future)


class _Group:
    """The records of one file in one round: those to be written, those that were, and where."""

    __slots__ = ("begins", "late_bytes", "waiting", "written")

    def __init__(self) -> None:
        self.waiting: list[Job] = []
        self.late_bytes = 0
        self.written: list[Job] = []
        self.begins: list[int] = []


def _encoded(job: Job, answers: Answers) -> Job | None:
    try:
        assert job.encode is not None
        return job.encode(job)
    except BaseException as error:
        label = one_line(job.label)
        logger.exception("%s could not be prepared for the journal", label)
        failure = JournalError(f"{label} could not be prepared: {error!r}")
        failure.__cause__ = error
        answers.failed.append((job, failure))
        return None


def _lock_lost() -> JournalError:
    return JournalError(
        "the journal's lock is lost: other code in this process closed its file",
        hint="find what closes file descriptors that it did not open (os.closerange, os.close); "
        "what was acknowledged is safe",
    )


def _not_written(tape: Tape, error: OSError, job: Job) -> LimpetError:
    if error.errno in NO_SPACE:
        return _disk_full(tape, [job], error)  # said when it got full: not once more for each
    kind = RecordNotWrittenError if error.errno == errno.EFBIG else JournalError
    failure = kind(
        f"{tape.path}: {one_line(job.label)} could not be written: {error.strerror}",
        hint="what was acknowledged is safe; this one will run again",
    )
    failure.__cause__ = error
    logger.error("%s", failure, exc_info=failure)
    return failure


def _disk_full(tape: Tape, jobs: list[Job], error: OSError) -> DiskFullError:
    needed, free = sum(job.size for job in jobs), tape.free_bytes()
    room = "" if free is None else f", {free / 1e6:,.1f} MB are free"
    full = DiskFullError(
        f"{tape.path}: {error.strerror}: {needed / 1e6:,.1f} MB are needed{room}",
        hint="make room on that disk and it goes on by itself; "
        "if it has stopped, run it again: nothing that was finished is lost",
    )
    full.__cause__ = error
    return full


def _open_door(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
