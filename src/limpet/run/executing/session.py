"""One evaluation: what is asked, what is on disk, doing the rest, and what came out."""

import functools
import json
import logging
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from limpet.errors import DiskFullError, FunctionChangedError, JournalError
from limpet.executors.interrupts import hearing
from limpet.fingerprints.keys import digest
from limpet.fingerprints.project import Project
from limpet.journal.column import ColumnReader
from limpet.journal.files import NO_SPACE, read_whole
from limpet.journal.journal import Journal, read_about
from limpet.journal.layout import Layout, directory_at
from limpet.json_values import kept_form
from limpet.run.executing.pipeline import WORKFLOW, Pipeline
from limpet.run.executing.records import secrets_of
from limpet.run.executing.scoring import reads_of
from limpet.run.executing.session_log import (
    begin_session,
    close_session,
    note_ended,
    say_unfinished,
)
from limpet.run.executing.watched_files import WatchedFiles, project_of
from limpet.run.planning.completion import asked_hash, completed, records_if_complete
from limpet.run.planning.diff import Lookup
from limpet.run.planning.explanation import Explaining
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import write_items
from limpet.run.planning.looks import Looks
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.planning.redo import Redo, begin_redo, end_redo, note_outdated, note_redone
from limpet.run.planning.selection import note_selection, reported_places
from limpet.run.planning.why import Why, why_now
from limpet.run.reading import RunReader
from limpet.run.request import Request
from limpet.run.results.evaluation_result import EvaluationResult, ItemResult
from limpet.run.results.output_files import write_outputs
from limpet.run.results.summary import Numbers
from limpet.secrets.masking import Masking
from limpet.text import text_of

logger = logging.getLogger("limpet.run")


class Evaluation:
    """One session of a run, from opening its journal to reading back its results.

    `open` and `finish` read and write files; `conduct` runs on an event loop.

    Attributes:
        plan: What will be done; there from `open` on.
    """

    plan: Plan

    def __init__(self, request: Request) -> None:
        self._request = request
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._journal: Journal | None = None
        self._about: dict[str, Any] | None = None
        self._steps = [WORKFLOW, *(one.name for one in request.evaluators)]
        self._columns: Mapping[str, ColumnReader] = {}
        self._records: dict[str, int] = {}
        self._is_done = False
        steps = (request.workflow, *request.evaluators)
        self._masking = Masking([*request.secrets, *secrets_of(*steps)], results=request.mask)
        self._pipeline: Pipeline | None = None
        self._watched: WatchedFiles | None = None
        self._files: Project | None = None
        self._lookup: Lookup | None = None

    # ---- before ---------------------------------------------------------------------------------

    def look(self) -> Plan:
        """Make the plan, and change nothing: no lock, no file."""
        self._look_at_steps()
        layout = directory_at(self._request.run or Path(os.devnull).parent / "nothing")
        columns = self._readers(layout)
        about = read_about(layout)
        self._note_what_is_asked(about, columns)
        try:
            plan = self._looked_up(columns, layout, about).plan
        except FunctionChangedError as error:
            if isinstance(error.plan, Plan):
                return error.plan
            raise
        return self._explaining(layout, about).plan(plan)

    def why(self, item: str | None = None) -> Why:
        """Say what each step is made of, and what differs from what the run has; change nothing.

        Args:
            item: The id of an item whose story is to be told, too.

        Raises:
            LimpetError: There is no such item.
        """
        plan = self.look()
        layout = directory_at(self._request.run or Path(os.devnull).parent / "nothing")
        about = read_about(layout)
        explaining = self._explaining(layout, about)
        return why_now(self._request, self._looks, plan, layout, about, explaining, item)

    def _readers(self, layout: Layout) -> dict[str, ColumnReader]:
        # Without their indexes: every line is checked, as `open` does.
        return {step: ColumnReader(layout.column(step)) for step in self._steps}

    def open(self) -> None:
        """Take the lock, recover what is there, and make the plan."""
        request = self._request
        self._look_at_steps()
        path = request.run
        if path is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="limpet-")
            path = Path(self._temporary.name) / "run"
        layout = directory_at(path)
        self._journal = journal = Journal(layout, durability=request.durability)
        self._layout = journal.layout
        about = journal.about()
        asks_for_more = request.on_change is not None or bool(request.redo)
        if asks_for_more:
            self._columns = {step: journal.column(step) for step in self._steps}
        self._note_what_is_asked(about, self._columns)
        reported = reported_places(about, request.items)
        # Whoever has a configuration may read in it what the files are to look like.
        shape: list[Any] = [
            request.step_filter,
            request.bare_outputs,
            digest(request.configuration),
        ]
        if len(reported) < len(request.items):
            shape.append(list(reported))
        self._hash = asked_hash(request.items, self._looks.versions, request.trials, shape)
        project = self._project(layout)
        records = records_if_complete(layout, about, self._hash, self._steps, project)
        if not asks_for_more and records is not None:
            self._records = records
            self.plan = self._nothing_to_do()
            there = dict.fromkeys(self._steps, len(reported) * request.trials)
        else:
            about.pop("complete", None)  # until it is so again
            self._columns = {step: journal.column(step) for step in self._steps}
            self._lookup = self._looked_up(self._columns, self._layout, about)
            self.plan = self._lookup.plan
            self._pipeline = Pipeline(
                journal,
                request.workflow,
                self._scores,
                request.options,
                request.step_filter,
                request.watcher,
                request.stop_grace_s,
                request.on_item_complete,
                request.prices,
                self._masking,
                self._watched_for_early_stop() if request.early_stop else None,
                self._watch_files(journal),
            )
            self._pipeline.left = self._lookup.left
            self._pipeline.redos = self._lookup.redos
            self._pipeline.counting = self._lookup.counting
            there = self._lookup.there
            self._let_items_be_refused()
        logger.info("%s", self.plan)
        say_unfinished(journal, about, map(journal.column, self._steps))
        self._clean_fingerprints(about)
        self._note_configuration(about)
        if self._lookup is not None:
            self._note_items(self._lookup)
        self._looks.write(journal, self._clean_text)
        begin_session(
            journal,
            about,
            "evaluation",
            self.plan,
            {step: layout.column(step) for step in self._steps},
            items=len(reported),
            there=there,
        )
        self._about = about
        if request.watcher is not None:
            request.watcher.planned(self.plan)

    def _let_items_be_refused(self) -> None:
        """Make a request that is refused for its form a matter of its item, not of the run."""
        workflow = self._request.workflow
        goes_on = self.plan.workflow.kept or not self._request.early_stop
        if goes_on and hasattr(workflow, "answered_before"):
            workflow.answered_before = True

    def _project(self, layout: Layout) -> Project:
        """Return whose files count: not the run's own, and not the dataset."""
        if self._files is None:
            steps = (self._request.workflow, *self._request.evaluators)
            self._files = project_of(steps, [layout.home, *self._request.dataset_files])
        return self._files

    def _watch_files(self, journal: Journal) -> WatchedFiles:
        steps: dict[str, Any] = {WORKFLOW: self._request.workflow}
        steps |= {one.name: one for one in self._request.evaluators}
        last = FilesRead(self._layout).last
        self._watched = WatchedFiles(
            journal,
            steps,
            self._project(self._layout),
            last,
            self._looks.identity,
            self._clean_text,
        )
        self._watched.begin()
        return self._watched

    def _look_at_steps(self) -> None:
        request = self._request
        steps = {WORKFLOW: request.workflow, **{one.name: one for one in request.evaluators}}
        self._looks = Looks(steps, {WORKFLOW: request.depends_on}, request.secrets)
        self._scores = [(one, self._looks.version(one.name)) for one in request.evaluators]

    def _looked_up(
        self, columns: Mapping[str, ColumnReader], layout: Layout, about: dict[str, Any]
    ) -> Lookup:
        try:
            files = self._project(layout)
            return Lookup(self._request, self._looks, columns, layout, about, files)
        except FunctionChangedError as error:
            self._explaining(layout, about).question(error, WORKFLOW, self._journal)
            raise

    def _explaining(self, layout: Layout, about: Mapping[str, Any]) -> Explaining:
        return Explaining(self._looks, layout, about, self._clean_text, self._project(layout))

    def _clean_text(self, data: Any) -> Any:
        return self._masking.ours.data(data)[0]

    def _clean(self, data: Any) -> Any:
        return self._masking.certain.data(data)[0]

    def _public(self, configuration: Mapping[str, Any]) -> Any:
        return self._masking.ours.data(kept_form(dict(configuration)))[0]

    def _note_configuration(self, about: dict[str, Any]) -> None:
        request = self._request
        if request.configuration is not None:
            about["configuration"] = self._public(request.configuration)
        about.pop("made_by", None)  # whoever ran it last knows how it is run
        if request.made_by is not None:
            about["made_by"] = self._public(request.made_by)

    def _note_items(self, lookup: Lookup) -> None:
        """Write down what is asked, for those who only read the files."""
        items, contents = self._request.items, lookup.asked.contents
        try:
            write_items(self._layout, items, contents, lookup.standings())
            note_outdated(self._layout, lookup.outdated)
        except OSError as error:
            kind = DiskFullError if error.errno in NO_SPACE else JournalError
            raise kind(f"{self._layout.items}: cannot be written: {error.strerror}") from error

    def _clean_fingerprints(self, about: dict[str, Any]) -> None:
        """Note what the evaluators are, and keep secrets out that are among the parts."""
        data = self._masking.certain.data
        functions, evaluators = about.get("functions", {}), about.setdefault("evaluators", {})
        evaluators |= {one.name: self._looks.parts(one.name) for one in self._request.evaluators}
        about["functions"] = {whole: data(parts)[0] for whole, parts in functions.items()}
        # Masked, the next session would take it for another evaluator.
        about["evaluators"] = {n: parts for n, parts in evaluators.items() if not data(parts)[1]}
        # By these, those who only read the files find which answers and scores count.
        about["steps"] = {WORKFLOW: {"fingerprint": self._looks.version(WORKFLOW)}}
        for one, version in self._scores:
            about["steps"][one.name] = {"fingerprint": version, "reads": list(reads_of(one))}

    def _note_what_is_asked(
        self, about: dict[str, Any], columns: Mapping[str, ColumnReader]
    ) -> None:
        """Note what this session selects and forces, beside what sessions before it did."""
        request = self._request
        note_selection(about, request.selection)
        selected, ids = request.selection.places(request.items), request.redo_items
        if ids is None and len(selected) < len(request.items):
            ids = frozenset(request.items[place].id for place in selected)
        highest = max((column.highest_generation for column in columns.values()), default=0)
        wanted = Redo(0, request.redo, ids, versions=self._versions_of(request.redo))
        begin_redo(about, wanted if request.redo else None, highest)

    def _versions_of(self, steps: Iterable[str]) -> tuple[tuple[str, str], ...]:
        return tuple((step, self._looks.version(step)) for step in sorted(steps))

    def _nothing_to_do(self) -> Plan:
        request = self._request
        whole, items = len(request.items), len(request.selection.places(request.items))
        cells = items * request.trials
        evaluators = [StepPlan(one.name, cells, 0) for one in request.evaluators]
        workflow = StepPlan(WORKFLOW, cells, 0)
        of = whole if items < whole else None
        return Plan(items, request.trials, workflow, tuple(evaluators), of)

    def _watched_for_early_stop(self) -> dict[str, int]:
        """Return how many cells each step has to do that has no result on disk yet."""
        steps = (self.plan.workflow, *self.plan.evaluators)
        return {step.name: step.calls for step in steps if not step.kept}

    # ---- the work -------------------------------------------------------------------------------

    async def conduct(self) -> None:
        """Do what is missing."""
        if self._pipeline is not None and self._lookup is not None:
            await self._pipeline.conduct(self._lookup.missing, self._lookup.unscored)

    @contextmanager
    def hearing_signals(self) -> Iterator[None]:
        """Stop at the first SIGINT, SIGTERM or SIGHUP, and at once at the second.

        The files at the end are written whatever comes, until a third.
        """
        asked = self._request.options.get("termination_signal", signal.SIGINT)
        with ExitStack() as stack:
            for signum in (asked, signal.SIGTERM, getattr(signal, "SIGHUP", None)):
                stack.enter_context(hearing(signum, functools.partial(self.stop, signum)))
            yield

    def stop(self, signum: int | None = None) -> None:
        """Stop, from another thread or a signal's handler."""
        if self._pipeline is not None:
            self._pipeline.stop(signum)

    # ---- after ----------------------------------------------------------------------------------

    def finish(self) -> EvaluationResult:
        """Read everything back, and write the files for others."""
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
        self._look_again()
        self._journal.drain()  # what still waits to be written counts too
        reason, reader = self._pipeline.stop_reason, RunReader(self._layout.home)
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
        for _ in items:  # what could not be written counts all the same
            pass
        summary = self._summary(numbers, reason)
        if reason is None and failure is None:  # whatever was lost has run again
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
        """Note what is done of what was asked, and whether that is all."""
        assert self._journal is not None
        assert self._lookup is not None
        if self._about is None:
            return
        steps = {WORKFLOW: summary["workflow"], **summary["evaluators"]}
        with suppress(OSError):  # a hint
            note_redone(self._layout, self._columns)
        end_redo(self._about, pending)
        note_ended(self._about, steps)
        for name, totals in reader.totals().items():
            self._about["sessions"][-1]["steps"][name] |= totals
        cells = len(reader)
        done = all(step["completed"] == cells and "redo" not in step for step in steps.values())
        settled = self._lookup.is_settled and not self._lookup.is_outdated()
        self._is_done = wrote and done and settled
        self._records = {step: len(column) for step, column in self._columns.items()}

    def _numbers(self) -> Numbers:
        return Numbers([one.name for one in self._request.evaluators])

    def _summary(self, numbers: Numbers, reason: Exception | None) -> dict[str, Any]:
        summary = numbers.summary()
        safe = self._masking.certain.text
        summary["stop_reason"] = None if reason is None else safe(text_of(reason))
        summary["bad_rows"] = [str(one) for one in self._request.bad_rows]
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
        """Return what came out of what this session was asked for, of all that the run has."""
        places: frozenset[int] | None = None
        selected = self._request.selection.places(self._request.items)
        if len(selected) < len(self._request.items):
            places = frozenset(selected)
            numbers = self._numbers()
            for item in reader.items(places):
                numbers.add(item)
            summary = self._summary(numbers, reason)
        read = functools.partial(_read_items, reader, places)
        if run is None:  # its files will be gone
            read = functools.partial(list, read())
        reader.close()
        return EvaluationResult(read, summary, self.plan, run, reason)

    def hand_over(self, result: EvaluationResult) -> None:
        """Let others do what they do with the files, while nobody else can move or change them."""
        if self._about is None:
            return
        known = self._about.pop("complete", None)  # until that is done, too
        on_end = self._request.on_end
        if on_end is not None and on_end(result) is False:
            return
        if not self._is_done:
            return
        if known is None or on_end is not None:  # who may have changed the files, on purpose
            try:
                project = self._project(self._layout)
                known = completed(self._layout, self._hash, self._records, self._steps, project)
            except OSError:
                return
        self._about["complete"] = known

    def _write_outputs(
        self,
        results: Iterable[ItemResult],
        summarise: Callable[[], dict[str, Any]],
    ) -> JournalError | None:
        """Write the files for others; return why they could not be written, if so."""
        try:
            write_outputs(
                self._layout,
                results,
                [one.name for one in self._request.evaluators],
                self._request.trials,
                summarise,
                bare=self._request.bare_outputs,
                step_filter=self._request.step_filter,
            )
        except OSError as error:
            kind = DiskFullError if error.errno in NO_SPACE else JournalError
            failure = kind(
                f"{self._layout.home}: the files for others could not be written: {error.strerror}",
                hint="the results are in the columns; make room and run it again",
            )
            logger.error("%s; %s", failure, failure.hint)  # noqa: TRY400 - it is the disk's fault
            return failure
        return None

    def _look_again(self) -> None:
        """Look at the steps as the run left them, once, and note what they read."""
        watched, self._watched = self._watched, None
        if watched is not None:
            self._looks.end(self._about, watched, self._clean)

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        self._look_again()
        close_session(journal, self._about)

    def close(self) -> None:
        """Let go of everything."""
        try:
            with self.hearing_signals():
                self._close_journal()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()


def _read_later(run: Path) -> list[ItemResult]:
    return _read_items(RunReader(run), None)


def _read_items(reader: RunReader, places: frozenset[int] | None) -> list[ItemResult]:
    with reader:
        return list(reader.items(places))
