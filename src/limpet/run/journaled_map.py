"""One map with a journal: what is kept, what is missing, and what came out."""

import logging
from collections.abc import Callable
from typing import Any

from limpet.copies import own_copy
from limpet.errors import FunctionChangedError
from limpet.executors.details import UNSET, ExecutionDetails, ExecutionStatus, Finished
from limpet.executors.inputs import NumberedInputs
from limpet.executors.options import ExecutorOptions
from limpet.fingerprints.declared import as_declared
from limpet.fingerprints.keys import digest, output_key, with_types
from limpet.fingerprints.steps import OwnCode
from limpet.journal.journal import Journal
from limpet.journal.lines import Entry
from limpet.json_values import encode
from limpet.run.executing.recorder import Recorder
from limpet.run.executing.session_log import begin_session, close_session, say_unfinished
from limpet.run.executing.watched_files import WatchedFiles, project_of
from limpet.run.options import MapOptions, Run, secrets_in
from limpet.run.plain_map import Mapping, on_its_own
from limpet.run.planning.code_change import Fingerprint, settle_change
from limpet.run.planning.explanation import Explainer
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.input_identity import Identity, identify
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.planning.stale_records import StaleRecords
from limpet.run.planning.step_identities import StepIdentities
from limpet.run.results.map_result import MapResult
from limpet.run.run_file import RunFile
from limpet.secrets.masking import Masking
from limpet.types import Cell, CellStatus

logger = logging.getLogger("limpet.run")
STEP = "map"


class KeptMapping(Mapping):
    """One map, with a journal."""

    def __init__(
        self,
        fn: Any,
        inputs: list[Any],
        executing: ExecutorOptions,
        run: Run,
        key: Callable[[Any], Any] | None,
        options: MapOptions,
    ) -> None:
        super().__init__(fn, inputs, executing)
        assert run.path is not None
        self._path = run.path
        self._durability = run.durability
        self._all = inputs
        self._identify_by = key
        self._version = options.get("version")
        self._depends_on = as_declared(options.get("depends_on"))
        self._on_change = options.get("on_change")
        self._secrets, mask = secrets_in(options)
        self._masking = Masking(self._secrets, results=mask)
        self._journal: Journal | None = None
        self._run_file: RunFile | None = None
        self._watched: WatchedFiles | None = None
        self._kept: dict[int, Entry] = {}

    def open(self) -> None:
        self._identities = identify(self._all, self._identify_by)
        step = OwnCode(self._fn, self._version, self._depends_on)
        self._step_identities = StepIdentities({STEP: step}, secrets=self._secrets)
        now = Fingerprint(self._step_identities.version(STEP), self._step_identities.parts(STEP))
        self._journal = journal = Journal(self._path, durability=self._durability)
        self._column = column = journal.column(STEP)
        run_file = RunFile.load(journal.layout)
        project = project_of([step], [journal.layout.home, column.path])
        read = FilesRead(journal.layout)
        stale = StaleRecords(read, project, {STEP: column}, STEP, run_file, self._on_change)
        fingerprints = self._settle(run_file, now, stale)
        self._keys = list(map(self._key, self._identities, fingerprints))
        say_unfinished(journal, run_file, [column])
        places = {key: index for index, key in enumerate(self._keys)}
        kept = (key for key in self._keys if key not in stale.of(STEP))
        self._kept = {places[key]: entry for key, entry in column.read_many(kept)}
        self._missing = [index for index in range(len(self._all)) if index not in self._kept]
        missing = len(self._missing)
        plan = Plan(len(self._all), 1, StepPlan(STEP, len(self._kept), missing, calls=missing))
        self._step_identities.write(journal, self._clean_text)
        begin_session(journal, run_file, "map", plan, {STEP: column.path})
        self._run_file = run_file
        self.inputs = NumberedInputs({index: self._all[index] for index in self._missing})
        logger.info("%s: %s kept, %s to run", self._path, len(self._kept), len(self._missing))
        cells = {
            index: Cell(STEP, self._identities[index].id, 0, self._keys[index])
            for index in self._missing
        }
        self._watched = WatchedFiles(
            journal,
            {STEP: step},
            project,
            read.last,
            self._step_identities.identity,
            self._clean_text,
        )
        self._watched.begin()
        self._recorder = Recorder(
            journal,
            STEP,
            lambda index, _: cells[index],
            self._record_of,
            mask=self._masking.results,
            returned=("output",),
            generation_of=lambda cell, _: column.next_generation(cell.key),
            files=self._watched,
        )
        self._run = self._threads.as_async(on_its_own(self._fn))
        options = self._options
        if not self._missing:
            options = {**options, "tqdm_bar_format": None}
        self.executor = self._recorder.executor(self._call, options)

    def _settle(self, run_file: RunFile, now: Fingerprint, stale: StaleRecords) -> list[str]:
        def done_under(whole: str) -> set[int]:
            keys = (self._key(one, whole) for one in self._identities)
            return {place for place, key in enumerate(keys) if key in self._column}

        def stale_under(whole: str) -> dict[int, set[str]]:
            keys = (self._key(one, whole) for one in self._identities)
            undecided = ((place, stale.undecided(key)) for place, key in enumerate(keys))
            return {place: files for place, files in undecided if files}

        asked, choice = len(self._all), self._on_change
        try:
            return settle_change(
                run_file, now, done_under, asked, choice, stale_under=stale_under
            ).fingerprints
        except FunctionChangedError as error:
            assert self._journal is not None
            layout = self._journal.layout
            explaining = Explainer(
                self._step_identities, layout, run_file, self._clean_text, stale.project
            )
            explaining.question(error, STEP, self._journal)
            raise

    def _clean_text(self, data: Any) -> Any:
        return self._masking.ours.data(data)[0]

    def _clean(self, data: Any) -> Any:
        return self._masking.certain.data(data)[0]

    async def _call(self, one: Any) -> Any:
        # A copy: what the function does later to what it returned is not what it returned.
        return own_copy(await self._run(one))

    @staticmethod
    def _key(identity: Identity, fingerprint: str) -> str:
        return output_key(identity.content, fingerprint, 0, identity.occurrence)

    def _record_of(self, finished: Finished[Any, Any]) -> dict[str, Any]:
        record = {"output": finished.output} if finished.error is None else {}
        if self._is_as_it_was(finished.index, finished.input):
            record = {"input": finished.input, **record}
        return record

    def _is_as_it_was(self, index: int, one: Any) -> bool:
        """Tell whether an input can be recorded: the function may have changed it meanwhile."""
        try:
            if self._identify_by is None:
                return bool(digest(with_types(one)) == self._identities[index].content)
            encode(one)
        except Exception:  # noqa: BLE001 - it costs the input in the record, and never the output
            return False
        return True

    def finish(self, _: list[Any], details: list[ExecutionDetails]) -> MapResult[Any, Any]:
        # The outputs are read back, not taken as they are: a finished run and a resumed one are
        # the same thing. First, what still waits to be written: it counts too.
        assert self._journal is not None
        self._end_watch()
        self._journal.drain()
        if all(key in self._column for key in self._keys):
            self._journal.set_aside_bad_lines()
        self._close_journal()
        result: MapResult[Any, Any] = MapResult(
            [UNSET] * len(self._all),
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
        if self._recorder.error is not None:
            raise self._recorder.error
        return result

    def _note_failure(self, result: MapResult[Any, Any], index: int) -> None:
        details = result.details[index]
        lost = self._recorder.lost.get(index)
        if lost is not None and details.status is not ExecutionStatus.FAILED:
            details.log_exception(lost)
            details.fail()
        if details.status is ExecutionStatus.FAILED:
            output, error = result.outputs[index], details.exceptions[-1]
            result.failures.append(Finished(index, self._all[index], output, error, details))
        else:
            # It may have run, but it is not on disk: it will run again.
            details.status = ExecutionStatus.DID_NOT_RUN

    def _end_watch(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            self._step_identities.end(self._run_file, watched, self._clean)

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        self._end_watch()
        close_session(journal, self._run_file)

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
