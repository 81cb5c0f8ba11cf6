"""One step's file: what is done, what came out, and how the next record gets there."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.arguments import whole_number_from
from holdfast.errors import JournalError
from holdfast.journal.files import Parts
from holdfast.journal.index import KEY_BYTES, MOST_GENERATIONS, IndexFile, Places, tag_of
from holdfast.journal.lines import (
    KEY,
    Entry,
    LineKind,
    decode_line,
    encode_line,
    encode_plain_line,
    id_of,
    is_whole,
)
from holdfast.journal.plain import NotPlainError, plain_size
from holdfast.journal.recovery import ColumnState, read_column
from holdfast.journal.scan import scan
from holdfast.journal.tape import Job, Tape
from holdfast.journal.writer import Writer
from holdfast.text import one_line
from holdfast.types import CellStatus, Failure, Outcome

logger = logging.getLogger("holdfast.journal")
LARGE_BYTES = 50_000
"""From here on a record is encoded on the writer's thread: the event loop has better to do."""
fromhex = bytes.fromhex
_PLAINLY_COMPLETED, _FAILED = CellStatus.COMPLETED, CellStatus.FAILED
_COMPLETED, _RETRIED = int(LineKind.COMPLETED), int(LineKind.COMPLETED_WITH_RETRIES)
_LONGEST_REPR = 10_000
_LONGEST_MESSAGE = 2_000


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
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
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

    def ids(self) -> set[str]:
        """Return the ids of all items that have a record here, under whatever key."""
        found: set[str] = set()
        with self.path.open("rb") as file:
            for offset in sorted(self._places.offsets.values()):
                file.seek(offset)
                found.add(id_of(file.readline()))
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
        with self.path.open("rb") as file:
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
                    offsets.pop(fromhex(key), None)


class Column(ColumnReader):
    """A column that can be appended to, as its journal opened it."""

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
        future: asyncio.Future[Outcome] = asyncio.Future(loop=asyncio.get_running_loop())
        if self._writer.has_room():
            self._put(outcome, future)
        else:
            # Not one task for both: cancelling the future must not keep the record from the disk.
            task = asyncio.ensure_future(self._put_later(outcome, future))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        return future

    def _put(self, outcome: Outcome, future: asyncio.Future[Outcome]) -> None:
        text = outcome[0][3]  # cell.key, without two look-ups by name
        key = fromhex(text)
        if len(key) != KEY_BYTES or len(text) != 2 * KEY_BYTES:
            raise ValueError(f"key={text!r}: must be 32 hex digits")
        size = plain_size(outcome.record, LARGE_BYTES)
        line = None
        if size is not None and size < LARGE_BYTES and outcome.status is not _FAILED:
            line = encode_plain_line(outcome)
        if line is None:
            whole_number_from(0, generation=outcome.generation)
            if outcome.generation > MOST_GENERATIONS:
                raise ValueError(f"generation={outcome.generation}: {MOST_GENERATIONS} is the most")
            job: Job = _LateJob(self, outcome, size or LARGE_BYTES, key, future)
        else:
            job = Job(self._tape, (line,), len(line), outcome[0][1], outcome, key, future)
        self._writer.put(job)

    async def _put_later(self, outcome: Outcome, future: asyncio.Future[Outcome]) -> None:
        try:
            await self._writer.wait_for_room()
        finally:  # also when the loop ends: the record is finished, and goes to the disk
            try:
                self._put(outcome, future)
            except JournalError as error:
                if not future.done():
                    future.set_exception(error)

    def encode(self, outcome: Outcome) -> tuple[Tape, Parts, Outcome]:
        """Return where an outcome goes, its line, and the outcome as it is recorded."""
        if outcome.status is not CellStatus.FAILED:
            try:
                line = encode_line(outcome)
            except NotPlainError as error:
                logger.exception("%s cannot be kept as JSON", one_line(outcome.cell.id))
                outcome = _not_encoded(outcome, error)
            else:
                return self._tape, line, outcome
        return self._failures, _failure_line(outcome), outcome

    def _keep(self, jobs: list[Job]) -> None:
        # Each line here costs a tenth of a microsecond for every record of every run.
        places, offsets, index = self._places, self._places.offsets, self._index
        entries, check = [], index.check
        for job in jobs:
            _, status, _, _, _, _, generation, _ = job.answer
            key, begin = job.key, job.offset
            kind = _COMPLETED if status is _PLAINLY_COMPLETED else _RETRIED
            if generation:
                places.add(key, begin, kind, generation, 0)
                kind = tag_of(kind, generation)
            elif key not in offsets:
                offsets[key] = begin
            entries.append((key, begin, job.size, kind, check))
        index.add_all(entries)


class _LateJob(Job):
    """An outcome that is large, or takes long to encode: left to the writer's thread."""

    __slots__ = ("_column",)

    def __init__(
        self,
        column: Column,
        outcome: Outcome,
        size: int,
        key: bytes,
        future: asyncio.Future[Outcome],
    ) -> None:
        super().__init__(column._tape, (), size, outcome.cell.id, outcome, key, future)  # noqa: SLF001 - its other half
        self._column = column

    def encode(self) -> None:
        self.tape, self.parts, self.answer = self._column.encode(self.answer)
        self.size = sum(map(len, self.parts))


def _not_encoded(outcome: Outcome, error: NotPlainError) -> Outcome:
    """A finished cell is never lost to encoding: what it gave is at least shown."""
    failure = Failure("encoding", f"the result cannot be kept as JSON: {error}", "NotPlainError")
    record = {"repr": _repr(outcome.record)}
    return outcome._replace(status=CellStatus.FAILED, record=record, failure=failure)


def _repr(value: Any) -> str:
    try:
        return repr(value)[:_LONGEST_REPR]
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


def _failure_line(outcome: Outcome) -> Parts:
    failure = outcome.failure or Failure("unknown", "no reason was given", "")
    more = {"step": outcome.cell.step, "class": failure.kind}
    error = {
        "type": failure.type,
        "message": failure.message[:_LONGEST_MESSAGE],
        "class": failure.kind,
    }
    known: dict[str, Any] = {"id": outcome.cell.id, "step": outcome.cell.step, "error": error}
    known["attempts"] = list(failure.attempts)
    fields = outcome.record if isinstance(outcome.record, dict) else {"value": outcome.record}
    try:
        return encode_line(outcome._replace(record={**fields, **known}), more)
    except NotPlainError:
        shown = {"repr": _repr(fields), **known, "attempts": [_repr(failure.attempts)]}
        return encode_line(outcome._replace(record=shown), more)


def read_failures(path: Path) -> dict[tuple[str, str], Entry]:
    """Return the latest failure of each step and key, as others left it."""
    failures: dict[tuple[str, str], Entry] = {}
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            if is_whole(line):
                entry = decode_line(line)
                failures[entry.facts["step"], entry.facts["key"]] = entry
    return failures
