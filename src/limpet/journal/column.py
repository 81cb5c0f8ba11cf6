"""The column of one step: which keys have a record, and how records are read and appended."""

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.arguments import whole_number_from
from limpet.foreign import base_value, is_interrupt
from limpet.journal.append_file import AppendFile, Job, running_loop, settle
from limpet.journal.files import open_to_read
from limpet.journal.index import MOST_GENERATIONS, IndexFile, Mark, RecordOffsets
from limpet.journal.lines import (
    KEY,
    KEY_BYTES,
    Entry,
    decode_line,
    encode_outcome,
    id_and_trial_of,
    is_whole,
)
from limpet.journal.recovery import ColumnState, read_column, scan
from limpet.journal.writer import Writer
from limpet.json_values import NotPlainError, plain_size
from limpet.shapes import CellStatus, Failure, Outcome
from limpet.text import one_line

if TYPE_CHECKING:
    import asyncio


# ---- What is recorded about a failed cell, and how is it read? ----------------------------------

_LONGEST_REPR = 10_000
_LONGEST_MESSAGE = 2_000
Masks = Callable[[str], tuple[str, int]]
"""Returns a string with its secrets masked, and how many there were."""


def not_encoded(outcome: Outcome, error: NotPlainError, mask: Masks) -> Outcome:
    """Return the failure that replaces an outcome that cannot be encoded; it shows the result."""
    message, count = mask(f"the result cannot be stored as JSON: {error}")
    shown, more = mask(_repr(outcome.record))  # before shortening: half a secret is one too
    failure = Failure("encoding", message, "NotPlainError")
    facts = {**(outcome.facts or {}), **({"masked": count + more} if count + more else {})}
    return outcome._replace(
        status=CellStatus.FAILED,
        record={"repr": shown[:_LONGEST_REPR]},
        failure=failure,
        facts=facts or None,
    )


def _repr(value: Any) -> str:
    try:
        return base_value(str, repr(value))
    except BaseException as error:
        if is_interrupt(error):
            raise
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


def encode_failure(outcome: Outcome, mask: Masks) -> bytes:
    """Return the line for a failed cell. Works for any content."""
    failure = outcome.failure or Failure("unknown", "no reason was given", "")
    more = {"step": outcome.cell.step, "class": failure.kind, "type": failure.type}
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
    """Return the latest failure of each step and key."""
    failures: dict[tuple[str, str], Entry] = {}
    with contextlib.suppress(FileNotFoundError), open_to_read(path) as file:
        for line in file:
            if is_whole(line):
                entry = decode_line(line)
                failures[entry.facts["step"], entry.facts["key"]] = entry
    return failures


# ---- Which keys have a record, and how are records read and appended? ---------------------------

logger = logging.getLogger("limpet.journal")
LARGE_BYTES = 50_000
"""Records of this size or more are encoded on the writer's thread, not on the event loop."""


class ColumnReader:
    """A column opened for reading; ignores an incomplete last line.

    Args:
        path: The column.
        index_path: Its index; None: check every line.
        opened: The same column, already open; shares its offsets, which take much memory.
    """

    def __init__(
        self, path: Path, index_path: Path | None = None, opened: "ColumnReader | None" = None
    ) -> None:
        self.path = path
        self._offsets: RecordOffsets = RecordOffsets()
        self.state: ColumnState = ColumnState(path)
        if opened is not None:
            self._offsets, self.state = opened._offsets, opened.state  # noqa: SLF001 - our own class
            return
        with contextlib.suppress(FileNotFoundError):  # nothing was written yet
            self._offsets, self.state = read_column(path, index_path)

    def refresh(self) -> None:
        """Read what was appended since the last read."""
        with contextlib.suppress(FileNotFoundError), open_to_read(self.path) as file:
            if os.fstat(file.fileno()).st_size < self.state.end:  # replaced or repaired
                self._offsets, self.state = RecordOffsets(), ColumnState(self.path)
            scan(file, self._offsets, self.state)

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._offsets.by_key

    def __len__(self) -> int:
        return len(self._offsets.by_key)

    def every_key(self) -> list[str]:
        """Return the keys that have a record."""
        return [key.hex() for key in self._offsets.by_key]

    def some_keys(self, most: int) -> list[str]:
        """Return some of these keys: as good as drawn at random, as they are digests."""
        return [key.hex() for key in nsmallest(most, self._offsets.by_key)]

    def generation_of(self, key: str) -> int:
        """Return the generation of a key's record; -1 if there is none."""
        return self._offsets.generation(bytes.fromhex(key))

    def next_generation(self, key: str) -> int:
        """Return the generation that the next record of a key needs to replace the current one."""
        return self._offsets.next_generation(bytes.fromhex(key))

    @property
    def generations(self) -> dict[str, int]:
        """The keys with a record that replaced another, with its generation."""
        return {key.hex(): value for key, value in self._offsets.generations.items()}

    @property
    def highest_generation(self) -> int:
        """The highest generation of all records."""
        return self._offsets.highest_generation

    def ids(self, start: int = 0) -> set[tuple[str, int]]:
        """Return the ids and trials of all items that have a record, under any key.

        Args:
            start: The offset of the first line that counts.
        """
        ids: set[tuple[str, int]] = set()
        with open_to_read(self.path) as file:
            for offset in sorted(at for at in self._offsets.by_key.values() if at >= start):
                file.seek(offset)
                ids.add(id_and_trial_of(file.readline()))
        return ids

    def read(self, key: str) -> Entry | None:
        """Return the record of a key; None if it has no valid one."""
        return next((entry for _, entry in self.read_many([key])), None)

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, Entry]]:
        """Yield the records of the keys that have one, in file order.

        A line that does not match its CRC is logged and skipped; its key then has no record.
        """
        by_key = self._offsets.by_key
        found = ((by_key.get(bytes.fromhex(key)), key) for key in keys)
        wanted = sorted((offset, key) for offset, key in found if offset is not None)
        if not wanted:
            return
        with open_to_read(self.path) as file:
            for offset, key in wanted:
                file.seek(offset)
                line = file.readline()
                if is_whole(line) and line[KEY].lower() == key.lower().encode():
                    yield key, decode_line(line)
                else:
                    logger.error(
                        "%s: the record at byte %s is damaged; its cell is not done (key %s)",
                        self.path,
                        offset,
                        key,
                    )
                    self._offsets.forget(bytes.fromhex(key))


class Column(ColumnReader):
    """A column that can be appended to, opened by its journal.

    Attributes:
        mask: Masks secrets in the repr of a result that cannot be encoded as JSON.
    """

    def __init__(
        self,
        file: AppendFile,
        index: IndexFile,
        failures: AppendFile,
        writer: Writer,
        offsets: RecordOffsets,
        state: ColumnState,
    ) -> None:
        self.path = file.path
        self.state = state
        self.mask: Masks = lambda text: (text, 0)
        self._offsets = offsets
        self._file = file
        self._index = index
        self._failures = failures
        self._writer = writer
        file.on_durable = self._add_to_index

    def append(self, outcome: Outcome) -> "asyncio.Future[Outcome]":
        """Append an outcome: a success to the column, a failure to `failures.jsonl`.

        The future is done when the record is durable. Its result is the outcome as recorded: a
        failure if it could not be encoded. Cancelling the future does not stop the write.

        Raises:
            ValueError: Its key is not 32 hex digits, or its generation is too high.
            DiskFullError: The disk was full for too long. Nothing was written; try again.
            JournalError: The journal is closed or broken; or, from the future, this record could
                not be written.
        """
        future: asyncio.Future[Outcome] = running_loop().create_future()
        self.append_then(outcome, functools.partial(settle, future))
        return future

    def append_then(
        self, outcome: Outcome, then: Callable[[Outcome, Exception | None], None]
    ) -> None:
        """Append an outcome like `append`, without a future: for thousands per second.

        Args:
            outcome: The outcome.
            then: Called on the running loop, with the outcome as recorded, and with the failure
                if it is not durable.

        Raises:
            Exception: As `append` does; then `then` is not called.
        """
        _check(outcome)
        job = Job(self._file, outcome.cell.id, result=outcome, then=then, loop=running_loop())
        size = plain_size(outcome.record, LARGE_BYTES)
        if size is None or size >= LARGE_BYTES or outcome.status is CellStatus.FAILED:
            job.encode = self._encode
        else:
            self._encode(job)
        self._writer.put(job)

    def _encode(self, job: Job) -> None:
        """Set a job's line. An outcome that cannot be encoded becomes a failure."""
        outcome: Outcome = job.result
        if outcome.status is not CellStatus.FAILED:
            try:
                job.line = encode_outcome(outcome)
            except NotPlainError as error:
                outcome = not_encoded(outcome, error, self.mask)
                assert outcome.failure is not None
                # Without its traceback, which is not masked.
                logger.error("%s: %s", one_line(outcome.cell.id), outcome.failure.message)  # noqa: TRY400
            else:
                return
        job.file, job.result = self._failures, outcome
        job.line = encode_failure(outcome, self.mask)

    def _add_to_index(self, jobs: Sequence[Job]) -> None:
        marks = [
            Mark(
                bytes.fromhex(job.result.cell.key),
                job.begin,
                job.length,
                generation=job.result.generation,
            )
            for job in jobs
        ]
        self._offsets.add(marks)
        self._index.add(marks)


def _check(outcome: Outcome) -> None:
    key = outcome.cell.key
    if len(bytes.fromhex(key)) != KEY_BYTES or len(key) != 2 * KEY_BYTES:
        raise ValueError(f"key={key!r}: must be 32 hex digits")
    if (
        outcome.generation
        and whole_number_from(0, generation=outcome.generation) > MOST_GENERATIONS
    ):
        raise ValueError(f"generation={outcome.generation}: must be at most {MOST_GENERATIONS}")
