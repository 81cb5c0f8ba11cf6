"""A session of an evaluation: plan, do what is missing, and read back the results."""

import functools
import json
import logging
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from limpet.errors import DiskFullError, JournalError
from limpet.executors.interrupts import on_signal
from limpet.journal.column import ColumnReader
from limpet.journal.files import NO_SPACE, read_whole
from limpet.journal.journal import Journal
from limpet.journal.layout import directory_at
from limpet.run.executing.pipeline import Pipeline
from limpet.run.executing.session_log import (
    begin_session,
    close_session,
    note_ended,
    say_unfinished,
)
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.planning.completion import completed, records_if_complete
from limpet.run.planning.diff import Lookup
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import write_items
from limpet.run.planning.items_seen import write_seen
from limpet.run.planning.plan import Plan, named
from limpet.run.planning.planner import Planner
from limpet.run.planning.redo import end_redo, note_outdated, note_redone
from limpet.run.planning.why import Why
from limpet.run.reading import RunReader
from limpet.run.request import Request
from limpet.run.results.evaluation_result import EvaluationResult, ItemResult
from limpet.run.results.output_files import write_outputs
from limpet.run.results.summary import Numbers
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.text import text_of

logger = logging.getLogger("limpet.run")


class EvaluationSession:
    """A session of a run, from opening its journal to reading back its results.

    `open` and `finish` read and write files; `execute` runs on an event loop.

    Attributes:
        plan: What the session will do; set by `open`.
    """

    plan: Plan

    def __init__(self, request: Request) -> None:
        self._request = request
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._journal: Journal | None = None
        self._run_file: RunFile | None = None
        self._columns: Mapping[str, ColumnReader] = {}
        self._records: dict[str, int] = {}
        self._is_done = False
        self._pipeline: Pipeline | None = None
        self._watched: WatchedFiles | None = None
        self._lookup: Lookup | None = None

    # ---- before ---------------------------------------------------------------------------------

    def look(self) -> Plan:
        """Return the plan without a lock and without changing a file."""
        return Planner(self._request).look()

    def why(self, item: str | None = None) -> Why:
        """Explain what each step is made of and how it differs from the run; change nothing.

        Args:
            item: The id of an item to explain, too.

        Raises:
            LimpetError: The item does not exist.
        """
        return Planner(self._request).why(item)

    def open(self) -> None:
        """Take the lock, recover the journal, make the plan, and record that a session begins."""
        request, path = self._request, self._request.run
        if path is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="limpet-")
            path = Path(self._temporary.name) / "run"
        self._layout = layout = directory_at(path)
        self._planner = planner = Planner(request, layout)
        self._steps = [*planner.steps]
        self._identities, self._masking = planner.identities, planner.masking
        self._scores = [
            (evaluator, self._identities.version(evaluator.name))
            for evaluator in request.evaluators
        ]
        self._journal = journal = Journal(layout, durability=request.durability)
        run_file = RunFile.load(layout)
        there = self._make_plan(journal, run_file)
        logger.info("%s", self.plan)
        say_unfinished(journal, run_file, map(journal.column, self._steps))
        planner.note_steps(run_file)
        if self._lookup is not None:
            self._note_items(self._lookup)
        self._identities.write(journal, planner.clean)
        columns = {step: layout.column(step) for step in self._steps}
        items = len(run_file.reported(request.items))
        begin_session(journal, run_file, "evaluation", self.plan, columns, items=items, there=there)
        self._run_file = run_file
        if request.watcher is not None:
            request.watcher.planned(self.plan)

    def _make_plan(self, journal: Journal, run_file: RunFile) -> Mapping[str, int]:
        """Find what is missing; return how many cells of each step are done."""
        request, planner = self._request, self._planner
        asks_for_more = request.on_change is not None or bool(request.redo)
        if asks_for_more:
            self._columns = {step: journal.column(step) for step in self._steps}
        planner.note_asked(run_file, self._columns)
        reported = run_file.reported(request.items)
        self._asked_hash = planner.asked_hash(reported)
        records = records_if_complete(
            self._layout, run_file.complete, self._asked_hash, self._steps, planner.project
        )
        if not asks_for_more and records is not None:
            self._records = records
            self.plan = planner.nothing_to_do()
            return dict.fromkeys(self._steps, len(reported) * request.trials)
        run_file.complete = None  # until it is complete again
        self._columns = {step: journal.column(step) for step in self._steps}
        self._lookup = planner.lookup(self._columns, run_file, journal)
        self.plan = self._lookup.plan
        if (anew := self.plan.workflow.anew) is not None:
            changed = named(self.plan.workflow.changed)
            logger.warning("the workflow changed: %s; what changed: %s", anew, changed)
        self._pipeline = self._new_pipeline(journal, self._lookup)
        # Once the workflow has answered, a rejected request is a failure of its item, not the run.
        if self.plan.workflow.kept or not request.early_stop:
            request.workflow.answered_before = True
        return self._lookup.there

    def _new_pipeline(self, journal: Journal, lookup: Lookup) -> Pipeline:
        request, planner = self._request, self._planner
        self._watched = WatchedFiles(
            journal,
            planner.steps,
            planner.project,
            FilesRead(self._layout).last,
            self._identities.identity,
            planner.clean,
        )
        self._watched.begin()
        steps = (self.plan.workflow, *self.plan.evaluators)
        nothing_yet = {step.name: step.calls for step in steps if not step.kept}
        pipeline = Pipeline(
            journal,
            request.workflow,
            self._scores,
            request.options,
            request.trace_filter,
            request.watcher,
            request.stop_grace_s,
            request.on_item_complete,
            request.prices,
            self._masking,
            nothing_yet if request.early_stop else None,
            self._watched,
        )
        pipeline.left, pipeline.redos = lookup.left, lookup.redos
        pipeline.counting = lookup.counting
        return pipeline

    def _note_items(self, lookup: Lookup) -> None:
        """Write what is asked to `items.jsonl`, for readers of the files."""
        items, contents = self._request.items, lookup.asked.contents
        try:
            write_items(self._layout, items, contents, lookup.standings())
            write_seen(self._layout, items, [step.reads for step in self._request.evaluators])
            note_outdated(self._layout, lookup.outdated)
        except OSError as error:
            kind = DiskFullError if error.errno in NO_SPACE else JournalError
            raise kind(
                f"{self._layout.items}: cannot be written: {error.strerror}",
                hint="nothing was called; finished results are safe: free some space and run again",
            ) from error

    # ---- the work -------------------------------------------------------------------------------

    async def execute(self) -> None:
        """Do what is missing."""
        if self._pipeline is not None and self._lookup is not None:
            await self._pipeline.execute(self._lookup.missing, self._lookup.unscored)

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Stop at the first SIGINT, SIGTERM or SIGHUP, and at once at the second.

        The output files are still written, unless a third signal arrives.
        """
        with ExitStack() as stack:
            for signum in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None)):
                stack.enter_context(on_signal(signum, functools.partial(self.stop, signum)))
            yield

    def stop(self, signum: int | None = None) -> None:
        """Stop the session; safe to call from another thread or a signal handler."""
        if self._pipeline is not None:
            self._pipeline.stop(signum)

    # ---- after ----------------------------------------------------------------------------------

    def finish(self) -> EvaluationResult:
        """Read the results back, and write the output files."""
        assert self._journal is not None
        run = None if self._temporary is not None else str(self._layout.home)
        if self._pipeline is None or self._lookup is None:
            self._journal.set_aside_bad_lines()
            self._is_done = True
            summary = json.loads(read_whole(self._layout.home / "summary.json"))
            if self.plan.of is not None:
                return self._result(RunReader(self._layout.home), None, run, summary)
            read = functools.partial(_read_later, self._layout.home)
            return EvaluationResult(read, summary, self.plan, run)
        self._record_end_state()
        self._journal.drain()  # records that wait for the disk count too
        reason = self._pipeline.stop_reason
        reader = RunReader(self._layout.home, self._columns)
        numbers = self._numbers()
        pending: list[tuple[str, Mapping[str, Any]]] = []

        def counted() -> Iterator[ItemResult]:
            for item in reader.items():
                numbers.add(item)
                if item.redo:
                    pending.append((item.id, item.redo))
                yield item

        items = counted()
        failure = self._write_outputs(items, lambda: self._summary(numbers, reason))
        for _ in items:  # items that could not be written count too
            pass
        summary = self._summary(numbers, reason)
        if reason is None and failure is None:  # damaged records have run again
            self._journal.set_aside_bad_lines()
        self._note_end(summary, pending, reader, wrote=failure is None)
        return self._result(reader, reason or failure, run, summary)

    def _note_end(
        self,
        summary: Mapping[str, Any],
        pending: Sequence[tuple[str, Mapping[str, Any]]],
        reader: RunReader,
        *,
        wrote: bool,
    ) -> None:
        """Record what is done, and whether that is everything."""
        assert self._journal is not None
        assert self._lookup is not None
        if self._run_file is None:
            return
        steps = {WORKFLOW: summary["workflow"], **summary["evaluators"]}
        with suppress(OSError):  # a hint
            note_redone(self._layout, self._columns)
        end_redo(self._run_file, pending)
        note_ended(self._run_file, steps, reader.totals())
        cells = len(reader)
        done = all(step["completed"] == cells and "redo" not in step for step in steps.values())
        settled = self._lookup.is_settled and not self._lookup.is_outdated()
        self._is_done = wrote and done and settled
        self._records = {step: len(column) for step, column in self._columns.items()}

    def _numbers(self) -> Numbers:
        return Numbers([evaluator.name for evaluator in self._request.evaluators])

    def _summary(self, numbers: Numbers, reason: Exception | None) -> dict[str, Any]:
        summary = numbers.summary()
        safe = self._masking.certain.text
        summary["stop_reason"] = None if reason is None else safe(text_of(reason))
        summary["bad_rows"] = [str(row) for row in self._request.bad_rows]
        asked, whole = numbers.items // self._request.trials, len(self._request.items)
        if asked < whole:
            summary["selection"] = {"items": asked, "of": whole}
        return summary

    def _result(
        self,
        reader: RunReader,
        reason: Exception | None,
        run: str | None,
        summary: dict[str, Any],
    ) -> EvaluationResult:
        """Return the results of the items that this session selected."""
        places: frozenset[int] | None = None
        selected = self._request.selection.places(self._request.items)
        if len(selected) < len(self._request.items):
            places = frozenset(selected)
            numbers = self._numbers()
            for item in reader.items(places):
                numbers.add(item)
            summary = self._summary(numbers, reason)
        read = functools.partial(_read_items, reader, places)
        if run is None:  # its files are temporary
            read = functools.partial(list, read())
        reader.close()
        return EvaluationResult(read, summary, self.plan, run, reason)

    def publish(self, result: EvaluationResult) -> None:
        """Call `on_end` while the run is still locked, and record whether the run is complete."""
        if self._run_file is None:
            return
        known = self._run_file.complete
        self._run_file.complete = None  # until `on_end` is done, too
        on_end = self._request.on_end
        if on_end is not None and on_end(result) is False:
            return
        if not self._is_done:
            return
        if known is None or on_end is not None:  # which may have changed the files on purpose
            try:
                project = self._planner.project
                known = completed(
                    self._layout, self._asked_hash, self._records, self._steps, project
                )
            except OSError:
                return
        self._run_file.complete = known

    def _write_outputs(
        self,
        results: Iterable[ItemResult],
        summarise: Callable[[], dict[str, Any]],
    ) -> JournalError | None:
        """Write the output files; return the error if that failed."""
        try:
            write_outputs(
                self._layout,
                results,
                [evaluator.name for evaluator in self._request.evaluators],
                self._request.trials,
                summarise,
                bare=self._request.bare_outputs,
                trace_filter=self._request.trace_filter,
            )
        except OSError as error:
            kind = DiskFullError if error.errno in NO_SPACE else JournalError
            failure = kind(
                f"{self._layout.home}: the output files cannot be written: {error.strerror}",
                hint="the results are safe in the columns; free some space and run again",
            )
            logger.error("%s; %s", failure, failure.hint)  # noqa: TRY400 - it is the disk's fault
            return failure
        return None

    def _record_end_state(self) -> None:
        """Inspect the steps once more after the run, and record the files they read."""
        watched, self._watched = self._watched, None
        if watched is not None:
            self._identities.end(self._run_file, watched, self._planner.certain)

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        self._record_end_state()
        close_session(journal, self._run_file)

    def close(self) -> None:
        """Close the journal and remove temporary files."""
        try:
            with self.handling_signals():
                self._close_journal()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()


def _read_later(run: Path) -> list[ItemResult]:
    return _read_items(RunReader(run), None)


def _read_items(reader: RunReader, places: frozenset[int] | None) -> list[ItemResult]:
    with reader:
        return list(reader.items(places))
