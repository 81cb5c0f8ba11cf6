"""A map with a journal: what is kept, what is missing, and the results."""

import logging
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from limpet.copies import own_containers, own_copy
from limpet.errors import FunctionChangedError, InterruptedRunError
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import UNSET, ExecutionDetails, ExecutionStatus, Finished
from limpet.executors.inputs import NumberedInputs
from limpet.executors.interrupts import on_signal
from limpet.executors.options import ExecutorOptions
from limpet.executors.threads import Threads, is_async
from limpet.fingerprints.files.project import project_of
from limpet.fingerprints.keys import Occurrences, digest, output_key, with_types
from limpet.fingerprints.steps import OwnCode
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.journal.lines import Entry
from limpet.json_values import NotPlainError, encode, exception_in
from limpet.run.executing.guards import mistakes_once
from limpet.run.executing.outcomes import Step
from limpet.run.executing.recorder import Recorder
from limpet.run.executing.session_log import begin_session, close_session, say_unfinished
from limpet.run.executing.stopping import interrupted
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.options import Options, Run
from limpet.run.planning.changes import Explainer, StaleRecords, settle_change
from limpet.run.planning.counting import Counting
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.plan import Plan, StepPlan, named
from limpet.run.planning.versions import StepIdentities, Version
from limpet.run.results.map_result import MapResult
from limpet.run.run_file import RunFile
from limpet.secrets.masking import Masking
from limpet.shapes import Cell, CellStatus
from limpet.text import one_line

# ---- How does the next run recognise the inputs of a map? ---------------------------------------

_LONGEST_NAME = 80


class InputIdentity(NamedTuple):
    """The identity of an input, independent of its position.

    Attributes:
        id: A readable name.
        content: What identifies the input.
        occurrence: The number of earlier inputs with the same content.
    """

    id: str
    content: Any
    occurrence: int


def identify(inputs: Sequence[Any], key: Callable[[Any], Any] | None) -> list[InputIdentity]:
    """Return the identity of each input: by content and occurrence, or by `key`.

    Raises:
        TypeError: An input, or its key, has no JSON form.
        ValueError: Two inputs have the same key.
    """
    return _by_content(inputs) if key is None else _by_key(inputs, key)


def _by_content(inputs: Sequence[Any]) -> list[InputIdentity]:
    occurrences, identities = Occurrences(), []
    for index, value in enumerate(inputs):
        try:
            content = digest(with_types(value))
        except NotPlainError as error:
            raise TypeError(
                f"input {index} ({one_line(value)}) cannot be identified by its content: {error}; "
                "pass key=, a function that returns its name"
            ) from error
        number = occurrences.number(content)
        name = _name_of(value, content)
        identities.append(InputIdentity(f"{name}-{number}" if number else name, content, number))
    return identities


def _name_of(value: Any, content: str) -> str:
    """Return a readable name: the input itself if short, else part of its hash."""
    if isinstance(value, (str, int, float)):
        name = one_line(value)
        if len(name) <= _LONGEST_NAME:
            return name
    return content[:12]


def _by_key(inputs: Sequence[Any], key: Callable[[Any], Any]) -> list[InputIdentity]:
    seen: dict[str, int] = {}
    identities = []
    for index, value in enumerate(inputs):
        name = key(value)
        try:
            content = digest("key", name)
        except NotPlainError as error:
            raise TypeError(f"key= returned {one_line(name)} for input {index}: {error}") from error
        if content in seen:
            raise ValueError(
                f"key= returned {one_line(repr(name))} for inputs {seen[content]} and {index}: "
                "each input needs its own key"
            )
        seen[content] = index
        identities.append(InputIdentity(name if isinstance(name, str) else str(name), content, 0))
    return identities


# ---- A map, and how its function gets its inputs. -----------------------------------------------


def with_own_input(function: Any) -> Any:
    """Return a function that gets a copy of its input at each call: a retry sees no edits.

    Only containers are copied: other objects, for example a client or an array, are passed as they
    are.
    """
    if is_async(function):

        async def call_async(value: Any) -> Any:
            return await function(own_containers(value))

        return call_async

    def call(value: Any) -> Any:
        return function(own_containers(value))

    return call


class MapRun:
    """Runs a function over inputs, from `open` to `close`. Keeps nothing on disk.

    Attributes:
        inputs: The inputs to run.
        executor: Runs them; set by `open`.
    """

    executor: AsyncExecutor[Any, Any]

    def __init__(self, fn: Any, inputs: Any, options: ExecutorOptions, masking: Masking) -> None:
        self.inputs = inputs
        self._masking = masking
        self._fn = fn
        self._options: ExecutorOptions = {**options}
        self._options["classify"] = mistakes_once(options.get("classify"))
        self._threads = Threads()
        self._failures: dict[int, Finished[Any, Any]] = {}
        self._signum: int | None = None

    def open(self) -> None:
        """Prepare the executor. May read and write files."""
        own = self._options.get("on_complete")

        def record(finished: Finished[Any, Any]) -> Awaitable[None] | None:
            if finished.error is not None:
                self._failures[finished.index] = finished
            return None if own is None else own(finished)

        options: ExecutorOptions = {**self._options, "on_complete": record}
        self.executor = AsyncExecutor(self._as_cell(), **options)
        self.executor.mask = self._masking.ours

    def _as_cell(self) -> Callable[[Any], Awaitable[Any]]:
        """Return the function for an executor: an exception that it returns is raised."""
        run = self._threads.as_async(with_own_input(self._fn))

        async def call(value: Any) -> Any:
            output = await run(value)
            if (failure := exception_in(output)) is not None:
                raise failure
            return output

        return call

    def finish(self, outputs: list[Any], details: list[ExecutionDetails]) -> MapResult[Any, Any]:
        """Return the result, from the executor's outputs and details."""
        failures = [self._failures[index] for index in sorted(self._failures)]
        return MapResult(outputs, details, failures, stop_reason=self._stop_reason)

    @property
    def _stop_reason(self) -> Exception | None:
        reason = self.executor.stop_reason
        if self._signum is not None and (reason is None or isinstance(reason, InterruptedRunError)):
            reason = interrupted(self._signum)
        return reason

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGHUP as at SIGINT, which the executor handles itself."""
        with ExitStack() as stack:
            for signum in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):
                stack.enter_context(on_signal(signum, partial(self._stop, signum)))
            yield

    def _stop(self, signum: int | None) -> None:
        self._signum = self._signum or signum
        self.executor.interrupt()

    def close(self) -> None:
        """Release everything. May write files."""
        self._threads.close()


# ---- A map with a journal: what is kept, what is missing, and the results. ----------------------

logger = logging.getLogger("limpet.run")
STEP = "map"


class MapStep(Step):
    """The one step of a map.

    Args:
        column: Its column.
        inputs: What identifies each input.
        keys: The key of each input.
        by_key: Whether the user's `key` identifies the inputs.
    """

    name, returned, shares_calls = STEP, ("output",), True

    def __init__(
        self, column: Column, inputs: list[InputIdentity], keys: list[str], *, by_key: bool
    ) -> None:
        self._column = column
        self._inputs = inputs
        self._keys = keys
        self._by_key = by_key

    def cell_of(self, index: int, value: Any) -> Cell:
        del value
        return Cell(STEP, self._inputs[index].id, 0, self._keys[index])

    def generation_of(self, cell: Cell, value: Any) -> int:
        del value
        return self._column.next_generation(cell.key)

    def call_of(self, value: Any) -> tuple[Any, Any]:
        return id(value), value

    def record_of(self, finished: Finished[Any, Any]) -> dict[str, Any]:
        record = {"output": finished.output} if finished.error is None else {}
        if self._is_recordable(finished.index, finished.input):
            record = {"input": finished.input, **record}
        return record

    def _is_recordable(self, index: int, value: Any) -> bool:
        """Return whether an input can still be recorded: the function may have changed it."""
        try:
            if not self._by_key:
                return bool(digest(with_types(value)) == self._inputs[index].content)
            encode(value)
        except Exception:  # noqa: BLE001 - then the record lacks the input, but not the output
            return False
        return True


class JournaledMap(MapRun):
    """A map that keeps its results in a journal."""

    def __init__(
        self,
        fn: Any,
        inputs: list[Any],
        executing: ExecutorOptions,
        run: Run,
        key: Callable[[Any], Any] | None,
        options: Options,
    ) -> None:
        self._secrets, mask = options.secrets, options.mask
        super().__init__(fn, inputs, executing, Masking(self._secrets, results=mask))
        assert run.path is not None
        self._path = run.path
        self._durability = run.durability
        self._all = inputs
        self._identify_by = key
        self._function = OwnCode(fn, options.version, options.depends_on)
        self._on_change = options.on_change
        self._journal: Journal | None = None
        self._run_file: RunFile | None = None
        self._watched: WatchedFiles | None = None

    def open(self) -> None:
        self._inputs = identify(self._all, self._identify_by)
        self._identities = StepIdentities({STEP: self._function}, secrets=self._secrets)
        self._journal = journal = Journal(self._path, durability=self._durability)
        self._column = column = journal.column(STEP)
        run_file = RunFile.load(journal.layout)
        read = FilesRead(journal.layout, run_file.files_last)
        project = project_of([self._function], [journal.layout.home, column.path])
        stale = StaleRecords(read, project, {STEP: column}, STEP, run_file, self._on_change)
        self._keys = list(map(self._key, self._inputs, self._settle(run_file, stale)))
        say_unfinished(journal, run_file, [column])
        indexes = {key: index for index, key in enumerate(self._keys)}
        rules, generation = Counting(outdated=stale.needed()), column.generation_of
        kept = (key for key in self._keys if rules.verdict(STEP, key, generation(key)).is_done)
        self._kept = {indexes[key]: entry for key, entry in column.read_many(kept)}
        self._missing = [index for index in range(len(self._all)) if index not in self._kept]
        missing = len(self._missing)
        plan = Plan(len(self._all), 1, StepPlan(STEP, len(self._kept), missing, calls=missing))
        self._identities.write(journal, self._clean)
        begin_session(journal, run_file, "map", plan, {STEP: column.path})
        self._run_file = run_file
        logger.info("%s: %s kept, %s to run", self._path, len(self._kept), missing)
        if unseen := self._identities.unseen:
            said = "%s: not part of the identity: %s (declare what matters with depends_on)"
            logger.warning(said, self._path, named(unseen))
        self._watched = WatchedFiles(
            journal,
            {STEP: self._function},
            project,
            read.last,
            self._identities.identity,
            self._clean,
        )
        self._watched.begin()
        self._prepare_executor(journal, self._watched)

    def _settle(self, run_file: RunFile, stale: StaleRecords) -> list[str]:
        """Return, for each input, the fingerprint of the function whose result counts."""
        assert self._journal is not None

        def keys_under(fingerprint: str) -> list[str]:
            return [self._key(identity, fingerprint) for identity in self._inputs]

        now = Version(self._identities.fingerprint(STEP), self._identities.parts(STEP))
        try:
            return settle_change(
                run_file, now, keys_under, self._column, stale, self._on_change
            ).fingerprints
        except FunctionChangedError as error:
            layout = self._journal.layout
            explainer = Explainer(self._identities, layout, run_file, self._clean, stale.project)
            explainer.question(error, STEP, self._journal)
            raise

    def _prepare_executor(self, journal: Journal, watched: WatchedFiles) -> None:
        self.inputs = NumberedInputs({index: self._all[index] for index in self._missing})
        by_key = self._identify_by is not None
        step = MapStep(self._column, self._inputs, self._keys, by_key=by_key)
        self._recorder = Recorder(journal, step, self._masking.results, watched)
        run = self._as_cell()

        async def call(value: Any) -> Any:
            # A copy: the function may change later what it returned.
            return own_copy(await run(value))

        options = self._options
        if not self._missing:
            options = {**options, "tqdm_bar_format": None}
        self.executor = self._recorder.executor(call, options)
        self.executor.mask = self._masking.ours

    def _clean(self, data: Any) -> Any:
        return self._masking.ours.data(data)[0]

    @staticmethod
    def _key(identity: InputIdentity, fingerprint: str) -> str:
        return output_key(identity.content, fingerprint, 0, identity.occurrence)

    def finish(self, _: list[Any], details: list[ExecutionDetails]) -> MapResult[Any, Any]:
        # Outputs are read back, so that a finished run and a resumed one return the same.
        assert self._journal is not None
        self._end_watch()
        if self._run_file is not None:
            self._run_file.change_session(given_up=self._recorder.given_up)
        self._journal.drain()  # write the records that still wait
        if all(key in self._column for key in self._keys):
            self._journal.set_aside_bad_lines()
        self._close_journal()
        result: MapResult[Any, Any] = MapResult(
            [UNSET] * len(self._all),
            [ExecutionDetails() for _ in self._all],
            kept=len(self._kept),
            stop_reason=self._recorder.error or self._stop_reason,
        )
        for index, entry in self._kept.items():
            _restore(result, index, entry)
        fresh = {self._keys[index]: index for index in self._missing}
        read = {fresh[key]: entry for key, entry in self._column.read_many(fresh)}
        for at, index in enumerate(self._missing):
            result.details[index] = details[at]
            if index in read:
                result.outputs[index] = read[index].record["output"]
            else:
                self._add_failure(result, index)
        return result

    def _add_failure(self, result: MapResult[Any, Any], index: int) -> None:
        details = result.details[index]
        lost = self._recorder.lost.get(index)
        if lost is not None and details.status is not ExecutionStatus.FAILED:
            details.log_exception(lost)
            details.fail()
        if details.status is ExecutionStatus.FAILED:
            output, error = result.outputs[index], details.exceptions[-1]
            result.failures.append(Finished(index, self._all[index], output, error, details))
        else:
            # It may have run, but without a result on disk it runs again.
            details.status = ExecutionStatus.DID_NOT_RUN

    def _end_watch(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            certain = self._masking.certain
            changing = self._identities.end(self._run_file, lambda data: certain.data(data)[0])
            watched.end(changing, self._identities.objects, self._run_file)

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
