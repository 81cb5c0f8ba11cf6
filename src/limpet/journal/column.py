"""One step's file: what is done, what came out, and how the next record gets there."""

import asyncio
import contextlib
import logging
import os
from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

from limpet.arguments import whole_number_from
from limpet.errors import JournalError
from limpet.foreign import is_interrupt, itself
from limpet.journal.append_file import Job, Tape
from limpet.journal.files import open_to_read
from limpet.journal.index import (
    KEY_BYTES,
    MOST_GENERATIONS,
    IndexFile,
    Places,
    kind_and_generation,
    tag_of,
)
from limpet.journal.lines import (
    KEY,
    SEAL_BYTES,
    Entry,
    LineKind,
    decode_line,
    encode_outcome,
    encode_plain_outcome,
    id_and_trial_of,
    is_whole,
)
from limpet.journal.recovery import ColumnState, read_column
from limpet.journal.scan import scan
from limpet.journal.writer import Writer
from limpet.json_values import NotPlainError, plain_size
from limpet.text import one_line
from limpet.types import CellStatus, Failure, Outcome

logger = logging.getLogger("limpet.journal")
LARGE_BYTES = 50_000
"""From here on a record is encoded on the writer's thread: the event loop has better to do."""
fromhex = bytes.fromhex
make = tuple.__new__
"""Makes a named tuple in a third of the time its own class takes."""
_PLAINLY_COMPLETED, _FAILED = CellStatus.COMPLETED, CellStatus.FAILED
_COMPLETED, _RETRIED = int(LineKind.COMPLETED), int(LineKind.COMPLETED_WITH_RETRIES)
_LONGEST_REPR = 10_000
_LONGEST_MESSAGE = 2_000
Masks = Callable[[str], tuple[str, int]]
"""Returns a text without secrets, and how many there were."""


class ColumnReader:
    """A column as others see it: changes nothing, and ignores a last line that is not ended.

    Args:
        path: The column.
        index_path: Its index; None: every line is checked.
    """

    def __init__(self, path: Path, index_path: Path | None = None) -> None:
        self.path = path
        self._places, self.state = Places({}), ColumnState(path)
        self._end = 0
        with contextlib.suppress(FileNotFoundError):  # nobody has written to it yet
            self._places, self.state, found = read_column(path, index_path)
            self._end = found.end

    def refresh(self) -> None:
        """Read what was appended since."""
        with contextlib.suppress(FileNotFoundError), open_to_read(self.path) as file:
            if os.fstat(file.fileno()).st_size < self._end:  # it was replaced, or repaired
                self._places, self._end = Places({}), 0
            known = 0 if self._end == 0 else self.state.lines
            found = scan(file, self._places, start=self._end, lines=known)
            self._end, self.state.lines = found.end, found.lines
            self.state.records = len(self._places.offsets)
            self.state.bad_lines = self._places.bad_lines

    def __contains__(self, key: str) -> bool:
        return fromhex(key) in self._places.offsets

    def __len__(self) -> int:
        return len(self._places.offsets)

    def every_key(self) -> list[str]:
        """Return each key that has a record."""
        return [key.hex() for key in self._places.offsets]

    def reaches(self, key: str, generation: int) -> bool:
        """Tell whether a key has a record of this generation, or a higher one."""
        return self._places.generation(fromhex(key)) >= generation

    def next_generation(self, key: str) -> int:
        """Return which generation the next record of a key needs to win over what was there."""
        return self._places.next_generation(fromhex(key))

    @property
    def generations(self) -> dict[str, int]:
        """The keys whose record was made anew, with its generation."""
        return {key.hex(): one for key, one in self._places.generations.items()}

    @property
    def highest_generation(self) -> int:
        """The highest generation of all records."""
        return self._places.highest_generation

    def ids(self) -> set[tuple[str, int]]:
        """Return the ids and trials of all items that have a record here, under whatever key."""
        found: set[tuple[str, int]] = set()
        with open_to_read(self.path) as file:
            for offset in sorted(self._places.offsets.values()):
                file.seek(offset)
                found.add(id_and_trial_of(file.readline()))
        return found

    def read(self, key: str) -> Entry | None:
        """Return the record of a key, or None if there is none that counts."""
        return next((entry for _, entry in self.read_many([key])), None)

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, Entry]]:
        """Yield the records of those keys that are there, in the order of the file.

        A line that no longer has its CRC is said and left out, and its key is forgotten.
        """
        offsets = self._places.offsets
        wanted = [(offsets.get(fromhex(key)), key) for key in keys]
        if not offsets:
            return
        with open_to_read(self.path) as file:
            at = 0
            for offset, key in sorted((place, key) for place, key in wanted if place is not None):
                if offset != at:
                    file.seek(offset)
                line = file.readline()
                at = offset + len(line)
                if is_whole(line) and line[KEY].lower() == key.lower().encode():
                    yield key, decode_line(line)
                else:
                    logger.error(
                        "%s: the record at byte %s is damaged; its cell is not done (key %s)",
                        self.path,
                        offset,
                        key,
                    )
                    self._places.forget(fromhex(key))


class Column(ColumnReader):
    """A column that can be appended to, as its journal opened it.

    Attributes:
        mask: Takes secrets out of what is shown of a result that has no JSON form; returns how
            many there were, too.
    """

    def __init__(
        self,
        tape: Tape,
        index: IndexFile,
        failures: Tape,
        writer: Writer,
        places: Places,
        state: ColumnState,
    ) -> None:
        self.path = tape.path
        self.state = state
        self.mask: Masks = lambda text: (text, 0)
        self._places = places
        self._tape = tape
        self._index = index
        self._failures = failures
        self._writer = writer
        self._waiting: set[asyncio.Task[None]] = set()
        tape.on_kept = self._keep

    def append(self, outcome: Outcome) -> asyncio.Future[Outcome]:
        """Write an outcome: a success to the column, a failure to `failures.jsonl`.

        Await what it returns: it is done when the record is durable, with the outcome as it was
        recorded. That is a failure if the record could not be encoded. Cancelling it disturbs
        nothing: the record is written all the same.

        Raises:
            ValueError: Its key is not 32 hex digits, or its generation is too high.
            DiskFullError: There was no room for a long time. Nothing is done; try again.
            JournalError: The journal is closed or broken; or, from the future, this one record
                could not be written.
        """
        text = outcome[0][3]  # cell.key, without two look-ups by name
        key = fromhex(text)
        if len(key) != KEY_BYTES or len(text) != 2 * KEY_BYTES:
            raise ValueError(f"key={text!r}: must be 32 hex digits")
        future: asyncio.Future[Outcome] = get_running_loop().create_future()
        status, line = outcome[1], None
        size = plain_size(outcome[2], LARGE_BYTES)
        if size is not None and size < LARGE_BYTES and status is not _FAILED:
            line = encode_plain_outcome(outcome)
        if line is None:
            job = self._job_for_later(outcome, size or LARGE_BYTES, key, future)
        else:
            size = len(line) + SEAL_BYTES
            tag = _COMPLETED if status is _PLAINLY_COMPLETED else _RETRIED
            job = make(
                Job, (self._tape, line, size, outcome[0][1], outcome, key, tag, future, None)
            )
        if not self._writer.put(job):
            # Not one task for both: cancelling the future must not keep the record from the disk.
            task = asyncio.ensure_future(self._put_later(job, future))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        return future

    def _job_for_later(
        self, outcome: Outcome, size: int, key: bytes, future: asyncio.Future[Outcome]
    ) -> Job:
        """Leave an outcome that is large, or takes long to encode, to the writer's thread."""
        whole_number_from(0, generation=outcome.generation)
        if outcome.generation > MOST_GENERATIONS:
            raise ValueError(f"generation={outcome.generation}: {MOST_GENERATIONS} is the most")
        kind = _COMPLETED if outcome.status is _PLAINLY_COMPLETED else _RETRIED
        tag = tag_of(kind, outcome.generation)
        return Job(
            self._tape, None, size, outcome.cell.id, outcome, key, tag, future, self._encoded
        )

    async def _put_later(self, job: Job, future: asyncio.Future[Outcome]) -> None:
        try:
            await self._writer.wait_for_room()
        finally:  # also when the loop ends: the record is finished, and goes to the disk
            try:
                self._writer.put(job, wait=False)
            except JournalError as error:
                if not future.done():
                    future.set_exception(error)

    def _encoded(self, job: Job) -> Job:
        tape, text, outcome = self.encode(job.answer)
        return job._replace(tape=tape, text=text, size=len(text) + SEAL_BYTES, answer=outcome)

    def encode(self, outcome: Outcome) -> tuple[Tape, bytes, Outcome]:
        """Return where an outcome goes, its JSON, and the outcome as it is recorded."""
        if outcome.status is not CellStatus.FAILED:
            try:
                line = encode_outcome(outcome)
            except NotPlainError as error:
                outcome = _not_encoded(outcome, error, self.mask)
                assert outcome.failure is not None
                # Without its traceback, whose texts nobody has masked.
                logger.error("%s: %s", one_line(outcome.cell.id), outcome.failure.message)  # noqa: TRY400
            else:
                return self._tape, line, outcome
        return self._failures, _failure_line(outcome, self.mask), outcome

    def _keep(self, jobs: list[Job], begins: list[int]) -> None:
        # All of a group at once: each step for each record would cost a tenth of a microsecond.
        places, index = self._places, self._index
        _, _, sizes, _, _, keys, tags, *_ = zip(*jobs, strict=True)
        new = dict(zip(keys, begins, strict=True))
        offsets = places.offsets
        if len(new) == len(keys) and max(tags) <= _RETRIED and offsets.keys().isdisjoint(keys):
            offsets.update(new)
        else:
            for key, begin, tag in zip(keys, begins, tags, strict=True):
                places.add(key, begin, *kind_and_generation(tag), 0)
        index.add_all(list(zip(keys, begins, sizes, tags, repeat(index.check))))


def _not_encoded(outcome: Outcome, error: NotPlainError, mask: Masks) -> Outcome:
    """A finished cell is never lost to encoding: what it gave is at least shown."""
    message, found = mask(f"the result cannot be kept as JSON: {error}")
    shown, more = mask(_repr(outcome.record))  # before it is cut: half a secret is one too
    failure = Failure("encoding", message, "NotPlainError")
    facts = {**(outcome.facts or {}), **({"masked": found + more} if found + more else {})}
    return outcome._replace(
        status=CellStatus.FAILED,
        record={"repr": shown[:_LONGEST_REPR]},
        failure=failure,
        facts=facts or None,
    )


def _repr(value: Any) -> str:
    try:
        return itself(str, repr(value))
    except BaseException as error:
        if is_interrupt(error):
            raise
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


def _failure_line(outcome: Outcome, mask: Masks) -> bytes:
    failure = outcome.failure or Failure("unknown", "no reason was given", "")
    more = {"step": outcome.cell.step, "class": failure.kind}
    error = {
        "type": failure.type,
        "message": failure.message[:_LONGEST_MESSAGE],
        "class": failure.kind,
    }
    if failure.traceback:
        error["traceback"] = failure.traceback
    known: dict[str, Any] = {"id": outcome.cell.id, "step": outcome.cell.step, "error": error}
    known["attempts"] = list(failure.attempts)
    fields = outcome.record if isinstance(outcome.record, dict) else {"value": outcome.record}
    try:
        return encode_outcome(outcome._replace(record={**fields, **known}), more)
    except NotPlainError:
        shown = {"repr": mask(_repr(fields))[0][:_LONGEST_REPR], **known}
        shown["attempts"] = [mask(_repr(failure.attempts))[0][:_LONGEST_REPR]]
        return encode_outcome(outcome._replace(record=shown), more)


def read_failures(path: Path) -> dict[tuple[str, str], Entry]:
    """Return the latest failure of each step and key, as others left it."""
    failures: dict[tuple[str, str], Entry] = {}
    with contextlib.suppress(FileNotFoundError), open_to_read(path) as file:
        for line in file:
            if is_whole(line):
                entry = decode_line(line)
                failures[entry.facts["step"], entry.facts["key"]] = entry
    return failures
