"""One map with a journal: what is kept, what is missing, and what came out."""

import logging
import os
from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from holdfast.executors.attempts import Finished
from holdfast.executors.details import UNSET, ExecutionDetails, ExecutionStatus
from holdfast.executors.inputs import NumberedInputs
from holdfast.executors.options import ExecutorOptions
from holdfast.journal.encoding import encode
from holdfast.journal.fingerprint import output_key
from holdfast.journal.journal import Journal
from holdfast.journal.lines import Entry, timestamp
from holdfast.journal.plain import NotPlainError
from holdfast.journal.story import unfinished
from holdfast.journal.writer import Durability
from holdfast.run.change import OnChange, fingerprint_of, settle_change
from holdfast.run.identity import Identity, identify
from holdfast.run.keeping import Keeping
from holdfast.run.mapping import Mapping
from holdfast.run.result import MapResult
from holdfast.text import one_line
from holdfast.types import Cell, CellStatus

logger = logging.getLogger("holdfast.run")
STEP = "map"
_MOST_SESSIONS = 100


class KeptMapping(Mapping):
    """One map, with a journal."""

    def __init__(
        self,
        fn: Any,
        inputs: list[Any],
        options: ExecutorOptions,
        path: Path,
        key: Callable[[Any], Any] | None,
        version: str | None,
        on_change: OnChange | None,
        durability: Durability,
    ) -> None:
        super().__init__(fn, inputs, options)
        self._path = path
        self._all = inputs
        self._identities = identify(inputs, key)
        self._inputs_are_plain = key is None
        self._fingerprint = fingerprint_of(fn, version)
        self._on_change = on_change
        self._durability = durability
        self._journal: Journal | None = None
        self._about: dict[str, Any] | None = None
        self._kept: dict[int, Entry] = {}

    def open(self) -> None:
        self._journal = journal = Journal(self._path, durability=self._durability)
        self._column = column = journal.column(STEP)
        about = journal.about()
        fingerprint = settle_change(
            about,
            self._fingerprint,
            lambda whole: sum(self._key(one, whole) in column for one in self._identities),
            len(self._all),
            self._on_change,
        )
        self._keys = [self._key(one, fingerprint) for one in self._identities]
        self._say_unfinished(about)
        self._begin_session(about)
        places = {key: index for index, key in enumerate(self._keys)}
        self._kept = {places[key]: entry for key, entry in column.read_many(self._keys)}
        self._missing = [index for index in range(len(self._all)) if index not in self._kept]
        self.inputs = NumberedInputs({index: self._all[index] for index in self._missing})
        logger.info("%s: %s kept, %s to run", self._path, len(self._kept), len(self._missing))
        cells = {
            index: Cell(STEP, self._identities[index].id, 0, self._keys[index])
            for index in self._missing
        }
        self._keeping = Keeping(journal, STEP, cells, self._record_of)
        options = self._options
        if not self._missing:
            options = {**options, "tqdm_bar_format": None}
        self.executor = self._keeping.executor(self._threads.as_async(self._fn), options)

    @staticmethod
    def _key(identity: Identity, fingerprint: str) -> str:
        return output_key(identity.content, fingerprint, 0, identity.occurrence)

    def _record_of(self, finished: Finished[Any, Any]) -> dict[str, Any]:
        record = {"output": finished.output} if finished.error is None else {}
        if self._inputs_are_plain or _is_encodable(finished.input):
            record = {"input": finished.input, **record}
        return record

    def _say_unfinished(self, about: dict[str, Any]) -> None:
        assert self._journal is not None
        last = (about.get("sessions") or [{}])[-1]
        if "ended" in last or "events_at" not in last:
            return
        begun = unfinished(self._journal.layout.events, last["events_at"])
        in_flight = [id_ for key, id_ in begun.items() if key not in self._column]
        if in_flight:
            logger.warning(
                "%s: %s calls were in flight when the last session was cut off, and may have "
                "been paid for: %s",
                self._path,
                len(in_flight),
                ", ".join(one_line(id_) for id_ in in_flight[:10]),
            )

    def _begin_session(self, about: dict[str, Any]) -> None:
        assert self._journal is not None
        self._about = about
        about.update({"holdfast": version_of("holdfast"), "kind": STEP})
        session = {"began": timestamp(), "pid": os.getpid()}
        session["events_at"] = self._journal.layout.events.stat().st_size
        about["sessions"] = [*about.get("sessions", []), session][-_MOST_SESSIONS:]
        self._journal.write_about(about)
        self._journal.tell("began", pid=os.getpid(), inputs=len(self._all))

    def finish(self, _: list[Any], details: list[ExecutionDetails]) -> MapResult[Any, Any]:
        # The outputs are read back, not taken as they are: a finished run and a resumed one are
        # the same thing.
        self._close_journal()  # first: what still waited to be written counts too
        fallback = self._options.get("fallback_return_value", UNSET)
        result: MapResult[Any, Any] = MapResult(
            [fallback] * len(self._all),
            [ExecutionDetails() for _ in self._all],
            kept=len(self._kept),
            stop_reason=self.executor.stop_reason,
        )
        for index, entry in self._kept.items():
            _restore(result, index, entry)
        fresh = {self._keys[index]: index for index in self._missing}
        read = {fresh[key]: entry for key, entry in self._column.read_many(fresh)}
        for place, index in enumerate(self._missing):
            result.details[index] = details[place]
            if index in read:
                result.outputs[index] = read[index].record["output"]
            else:
                self._note_failure(result, index)
        if self._keeping.error is not None:
            raise self._keeping.error
        return self._checked(result)

    def _note_failure(self, result: MapResult[Any, Any], index: int) -> None:
        details = result.details[index]
        lost = self._keeping.lost.get(index)
        if lost is not None and details.status is not ExecutionStatus.FAILED:
            details.log_exception(lost)
            details.fail()
        if details.status is ExecutionStatus.FAILED:
            output, error = result.outputs[index], details.exceptions[-1]
            result.failures.append(Finished(index, self._all[index], output, error, details))
        else:
            # It may have run, but it is not on disk: it will run again.
            details.status = ExecutionStatus.DID_NOT_RUN

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        try:
            if self._about is not None:
                self._about["sessions"][-1]["ended"] = timestamp()
                journal.tell("ended")
                journal.write_about(self._about)
        finally:
            journal.close()

    def close(self) -> None:
        try:
            self._close_journal()
        finally:
            super().close()


def _restore(result: MapResult[Any, Any], index: int, entry: Entry) -> None:
    details = result.details[index]
    retried = entry.facts["status"] == CellStatus.COMPLETED_WITH_RETRIES
    details.status = (
        ExecutionStatus.COMPLETED_WITH_RETRIES if retried else ExecutionStatus.COMPLETED
    )
    details.execution_seconds = entry.facts.get("seconds", 0)
    result.outputs[index] = entry.record["output"]


def _is_encodable(value: Any) -> bool:
    try:
        encode(value)
    except NotPlainError:
        return False
    return True
