"""A session of an evaluation: plan, do what is missing, and read back the results."""

import functools
import logging
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from limpet.datasets.selection import Selection
from limpet.errors import DiskFullError, InterruptedRunError, JournalError, LimpetError
from limpet.executors.interrupts import on_signal
from limpet.journal.column import ColumnReader
from limpet.journal.files import NO_SPACE
from limpet.journal.journal import Journal
from limpet.journal.layout import directory_at
from limpet.journal.lock import is_held
from limpet.run.budget import Ledger, read_ledger
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.executing.pipeline import LiveAnswers, Pipeline
from limpet.run.executing.session_log import (
    begin_session,
    close_session,
    record_ended,
    say_unfinished,
)
from limpet.run.executing.session_results import SessionResults
from limpet.run.executing.stopping import interrupted, unpaused
from limpet.run.executing.taking import Taking, begin_order
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.housekeeping import remove_run
from limpet.run.planning.counting import record_outdated, record_redone
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import ItemsMark, mark_of, write_items
from limpet.run.planning.lookup import Lookup
from limpet.run.planning.plan import Plan, named
from limpet.run.planning.planner import Planner
from limpet.run.planning.redo import end_redo
from limpet.run.reading import RunReader
from limpet.run.request import Request
from limpet.run.results.costs import check_priced
from limpet.run.results.summary import Numbers
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.text import one_line

logger = logging.getLogger("limpet.run")


class EvaluationSession:
    """A session of a run, from opening its journal to reading back its results.

    `open` and `finish` read and write files; `execute` runs on an event loop.

    Attributes:
        plan: The session's plan; set by `open`.
        interruption: The first signal received; None: none.
    """

    plan: Plan
    interruption: InterruptedRunError | None = None

    def __init__(self, request: Request) -> None:
        self._request = request
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._journal: Journal | None = None
        self._made: list[Path] = []
        self._run_file: RunFile | None = None
        self._columns: Mapping[str, ColumnReader] = {}
        self._records: dict[str, int] = {}
        self._is_done = self._is_stale = False
        self._pipeline: Pipeline | None = None
        self._watched: WatchedFiles | None = None
        self._lookup: Lookup | None = None
        self._taking: Taking | None = None
        self._live: LiveAnswers | None = None
        self._ledger: Ledger | None = None

    # ---- before ---------------------------------------------------------------------------------

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
        missing = [folder for folder in (layout.home, *layout.home.parents) if not folder.exists()]
        self._journal = journal = Journal(layout, durability=request.durability)
        self._made = missing
        run_file = unpaused(layout)
        if request.as_toolkit:
            journal.move_column(WORKFLOW)
        done = self._make_plan(journal, run_file)
        self.plan = replace(self.plan, scales=request.scales)
        logger.info("%s", self.plan)
        say_unfinished(journal, run_file, map(journal.column, self._steps))
        planner.record_steps(run_file)
        if request.dataset_name and request.dataset_name not in run_file.unfinished:
            run_file.unfinished.append(request.dataset_name)
        mark = mark_of(run_file.session)
        if self._lookup is not None:
            mark = self._write_items(self._lookup, mark)
        self._identities.write(journal, planner.clean)
        columns = {step: layout.column(step) for step in self._steps}
        items = len(run_file.reported(request.items))
        begin_session(
            journal,
            run_file,
            "evaluation",
            self.plan,
            columns,
            items=items,
            done=done,
            goals=request.goals,
            mark=mark,
        )
        self._run_file = run_file
        if self._taking is not None:
            with RunReader(layout.home, self._columns) as reader:
                self._taking.add_earlier(reader.items(whole=False))
        if request.watcher is not None:
            request.watcher.planned(self.plan)
            if self._lookup is not None and self.plan.calls:
                for step, record in self._lookup.kept_scores():
                    request.watcher.kept(step, record)

    def _make_plan(self, journal: Journal, run_file: RunFile) -> Mapping[str, int]:
        """Find what is missing; return how many cells of each step are done."""
        request, planner = self._request, self._planner
        wants_more = request.on_change is not None or bool(request.redo)
        if wants_more:
            self._columns = {step: journal.column(step) for step in self._steps}
        planner.record_selection(run_file, self._columns)
        reported = run_file.reported(request.items)
        self._request_digest = planner.request_digest(reported)
        records = planner.records_if_complete(run_file, self._request_digest)
        if not wants_more and records is not None:
            self._records = records
            self.plan = planner.nothing_to_do()
            return dict.fromkeys(self._steps, len(reported) * request.trials)
        run_file.complete = None  # until this session completes it
        self._columns = {step: journal.column(step) for step in self._steps}
        self._lookup = planner.lookup(self._columns, run_file, journal)
        self.plan = self._lookup.plan
        if (again := self.plan.workflow.made_again) is not None:
            told = "the workflow changed (%s); answers redone: %s (%s)"
            logger.warning(told, named(self.plan.workflow.changed), again.answers, again)
        for step in sorted(self._lookup.in_doubt):
            logger.warning(
                "files.jsonl is damaged: the files that the scores of %s were made from are "
                "unknown; the scores are kept; --redo-step %s redoes them",
                step,
                step,
            )
        if request.goals:
            order = begin_order(run_file, request, self._columns)
            self._taking = Taking(request.goals, self._lookup, order, request.scales)
        self._pipeline = self._new_pipeline(journal, self._lookup, run_file)
        # Once the workflow has answered, a rejected request fails its item, not the run.
        if self.plan.workflow.kept or not request.fail_fast:
            request.workflow.answered_before = True
        return self._lookup.done

    def _new_pipeline(self, journal: Journal, lookup: Lookup, run_file: RunFile) -> Pipeline:
        request, planner = self._request, self._planner
        self._watched = WatchedFiles(
            journal,
            planner.steps,
            planner.project,
            FilesRead(self._layout, run_file.files_last).last,
            self._identities.identity,
            planner.clean,
        )
        self._watched.begin()
        if request.as_toolkit:
            self._live = LiveAnswers(self._layout, request.rows, lookup)
        return Pipeline(
            journal,
            request,
            run_file,
            lookup,
            self._identities.fingerprint,
            self._masking,
            self._watched,
            self._taking,
            self._open_ledger(),
            self._live,
        )

    def _open_ledger(self) -> Ledger:
        """Open what the run has spent so far.

        Raises:
            LimpetError: The budget limits the cost, and a model has no price; or what was spent so
                far, here or in a variant beside it, is not known.
        """
        request, spent = self._request, self._layout.spent
        if "cost" in request.budget:
            check_priced(request.prices, (request.workflow, *request.evaluators))
        try:
            read_ledger(spent)
        except JournalError as error:
            if request.budget:
                raise
            logger.warning("%s: it counts from zero, and the file is in torn/", error)
            self._layout.torn.mkdir(exist_ok=True)
            spent.replace(self._layout.torn / spent.name)
        beside = request.shares_budget if request.budget else ()
        if running := [file.parent for file in beside if is_held(directory_at(file.parent).lock)]:
            raise LimpetError(
                f"{one_line(running[0].name)} is running, and has the same budget",
                hint="wait until it has ended: what it spends is not known before",
            )
        durable = request.durability == "sync"
        self._ledger = Ledger(spent, durable=durable, beside=beside)
        return self._ledger

    def _write_items(self, lookup: Lookup, known: ItemsMark) -> ItemsMark:
        """Write the requested items to `items.jsonl`, for readers of the files."""
        items, contents = self._request.items, lookup.answers.work_items.contents
        try:
            record_outdated(self._layout, lookup.answers.stale.needed())
            earlier = lookup.answers.earlier_answers()
            return write_items(self._layout, items, contents, earlier, known)
        except OSError as error:
            kind = DiskFullError if error.errno in NO_SPACE else JournalError
            raise kind(
                f"{self._layout.items}: cannot be written: {error.strerror}",
                hint="nothing was called; finished results are safe: free some space and run again",
            ) from error

    # ---- the work -------------------------------------------------------------------------------

    async def execute(self) -> None:
        """Do what is missing."""
        if self._pipeline is not None:
            await self._pipeline.execute()

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
        self.interruption = self.interruption or interrupted(signum)
        if self._pipeline is not None:
            self._pipeline.stop(signum)

    # ---- after ----------------------------------------------------------------------------------

    def finish(self) -> EvaluationResult:
        """Read the results back, and write the output files."""
        assert self._journal is not None
        run = None if self._temporary is not None else str(self._layout.home)
        budget = {} if self._pipeline is None else self._pipeline.spending.facts
        results = SessionResults(
            self._request,
            self.plan,
            self._layout,
            self._masking,
            run,
            self._given_up,
            self._taking,
            budget,
        )
        if self._pipeline is None or self._lookup is None:
            self._journal.set_aside_bad_lines()
            self._is_done = True
            return results.as_before()
        self._record_end_state()
        self._journal.drain()  # write the records that still wait
        self._record_stale(self._lookup)
        reason = self._pipeline.stop_reason
        reader = RunReader(self._layout.home, self._columns)
        numbers, pending, failure = results.write(reader, reason)
        if reason is None and failure is None:  # damaged records have run again
            self._journal.set_aside_bad_lines()
        self._record_end(self._lookup, numbers, pending, reader)
        if self._run_file is not None:
            self._run_file.change_session(did_all=reason is None)
            if reason is None:
                self._run_file.paused = ""  # nothing is left to go on with
            self._record_taken(self._run_file)
        self._is_done &= failure is None
        summary = results.summary(numbers, reason, reader)
        return results.read(reader, reason or failure, summary)

    @property
    def _given_up(self) -> int:
        return 0 if self._pipeline is None else self._pipeline.given_up

    def _record_stale(self, lookup: Lookup) -> None:
        """Record which results were made from files that have changed since, for readers."""
        stale = lookup.answers.stale_now()
        # A file without a line in `files.jsonl` could change unseen.
        self._is_stale = bool(stale) or any(stale.in_doubt.values())
        with suppress(OSError):  # a hint
            record_outdated(self._layout, stale.needed())
        changed = stale.more_than(lookup.answers.stale)
        if changed:
            logger.warning(
                "%s changed during the run: results made from its earlier content run again next "
                "time",
                named(changed),
            )

    def _record_end(
        self,
        lookup: Lookup,
        numbers: Numbers,
        pending: Sequence[tuple[str, Mapping[str, Any]]],
        reader: RunReader,
    ) -> None:
        """Record which cells are done, and whether all are."""
        if self._run_file is None:
            return
        steps = {step: numbers.of_step(step) for step in self._steps}
        with suppress(OSError):  # a hint
            record_redone(self._layout, self._columns)
        end_redo(self._run_file, pending)
        record_ended(self._run_file, steps, reader.totals(), self._given_up)
        cells = len(reader)
        done = all(step.done == cells for step in steps.values())
        self._is_done = done and lookup.answers.is_settled and not self._is_stale
        with suppress(OSError, JournalError):  # a hint
            reader.save_numbers(self._run_file, numbers)
        self._records = {step: len(column) for step, column in self._columns.items()}

    def _record_taken(self, run_file: RunFile) -> None:
        """Record which items have begun, and whether they are enough."""
        if self._taking is not None and run_file.order is not None:
            run_file.order = replace(run_file.order, until=self._taking.until)
            run_file.change_session(enough=self._taking.is_enough)

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
                known = self._planner.completion(self._request_digest, self._records)
            except OSError as error:
                logger.warning("cannot record that the run is complete: %s", error)
                return
        self._run_file.complete = known
        if Selection() in self._run_file.selections:  # else a part of the items is done
            done = self._request.dataset_name
            unfinished = [name for name in self._run_file.unfinished if name != done]
            self._run_file.unfinished = unfinished

    def _record_end_state(self) -> None:
        """Inspect the steps once more after the run, and record the files they read."""
        watched, self._watched = self._watched, None
        if watched is not None:
            changing = self._identities.end(self._run_file, self._planner.certain)
            # The memory of workers cannot be inspected: it may cache what was read.
            changing |= set(self._request.engines)
            watched.end(changing, self._identities.objects, self._run_file)

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        if self._live is not None:
            self._live.close()
        if self._ledger is not None:
            self._ledger.close()
        self._record_end_state()
        close_session(journal, self._run_file)

    def _leave_nothing(self) -> None:
        """If the run was refused before it began, remove the directories that were made for it."""
        if not self._made or self._run_file is not None or self._layout.run_json.exists():
            return
        with suppress(OSError, LimpetError):  # not empty, or another process begins the run
            remove_run(self._layout)
            for folder in self._made[1:]:
                folder.rmdir()

    def close(self) -> None:
        """Close the journal and remove temporary files."""
        try:
            with self.handling_signals():
                self._close_journal()
                self._leave_nothing()
        finally:
            if self._pipeline is not None:
                self._pipeline.hand.close()
            if self._temporary is not None:
                self._temporary.cleanup()
