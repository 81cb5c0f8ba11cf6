"""What will this session do, given the results of the run?"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from limpet.engines.sent_steps import is_plain
from limpet.engines.spec import words_of
from limpet.errors import FunctionChangedError, JournalError
from limpet.fingerprints.files.project import Project, project_of
from limpet.fingerprints.keys import digest
from limpet.journal.column import ColumnReader
from limpet.journal.files import file_digest, read_whole
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout, directory_at
from limpet.journal.lines import checksum
from limpet.json_values import kept_form
from limpet.run.planning.changes import Explainer
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import items_digest
from limpet.run.planning.lookup import Lookup
from limpet.run.planning.plan import EarlierRedo, Plan, StepPlan
from limpet.run.planning.redo import begin_redo, cancel_redos
from limpet.run.planning.seen_cells import SeenCells, forecast
from limpet.run.planning.versions import StepIdentities
from limpet.run.planning.why import Why, why_now
from limpet.run.request import Request, secrets_of
from limpet.run.results.costs import planned_gaps
from limpet.run.run_file import (
    WORKFLOW,
    Completion,
    DatasetFile,
    PendingRedo,
    RunFile,
    StepIdentity,
    to_data,
)
from limpet.secrets.masking import Mask, Masking

# ---- Which prices fit no model, judging by the last session? ------------------------------------


def _last_numbers(layout: Layout) -> dict[str, Mapping[str, Any]]:
    """Return the numbers of each step in the last session; empty if nothing is known."""
    try:
        summary = json.loads(read_whole(layout.home / "summary.json"))
        numbers = {WORKFLOW: summary["workflow"], **summary["evaluators"]}
    except (OSError, JournalError, ValueError, KeyError, TypeError):
        return {}  # there was no session, or its summary is damaged
    return {name: found for name, found in numbers.items() if isinstance(found, Mapping)}


# ---- What will this session do, given the results of the run? -----------------------------------


class Planner:
    """Compares the request with the results of a run. Changes no file.

    Args:
        request: The request.
        layout: The run's layout; None: the layout of the request's directory.

    Attributes:
        steps: Each step by its name, the workflow first.
        masking: Masks secrets.
    """

    def __init__(self, request: Request, layout: Layout | None = None) -> None:
        self._request = request
        nowhere = Path(os.devnull).parent / "nothing"
        self._layout = layout or directory_at(request.run or nowhere)
        evaluators = {evaluator.name: evaluator for evaluator in request.evaluators}
        self.steps: dict[str, Any] = {WORKFLOW: request.workflow, **evaluators}
        secrets = [*request.secrets, *secrets_of(*self.steps.values())]
        self.masking = Masking(secrets, results=request.mask)
        self._redo: EarlierRedo = ""

    @cached_property
    def identities(self) -> StepIdentities:
        """The identities of the steps."""
        request = self._request
        return StepIdentities(self.steps, {WORKFLOW: request.depends_on}, request.secrets)

    @cached_property
    def project(self) -> Project:
        """The project of the steps, without the files of the run and the dataset."""
        not_counted = [self._layout.home, *self._request.dataset_files]
        return project_of(tuple(self.steps.values()), not_counted)

    def clean(self, data: Any) -> Any:
        """Return Limpet's own data without secrets."""
        return self.masking.ours.data(data)[0]

    def certain(self, data: Any) -> Any:
        """Return user data without certain secrets."""
        return self.masking.certain.data(data)[0]

    # ---- plans ----------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return the plan, without a lock."""
        run_file, columns = RunFile.load(self._layout), self.readers()
        self.record_selection(run_file, columns)
        try:
            plan = self.lookup(columns, run_file).plan
        except FunctionChangedError as error:
            plan = error.plan
            if not isinstance(plan, Plan):
                raise
            return plan
        return self._explainer(run_file).plan(plan)

    def why(self, item: str | None = None) -> Why:
        """Explain what each step depends on, how it differs from the run, and an item by its id.

        Raises:
            LimpetError: The item does not exist.
        """
        explainer = self._explainer(RunFile.load(self._layout))
        return why_now(self._request, self.plan(), explainer, item)

    def readers(self) -> dict[str, ColumnReader]:
        """Return a reader of each column, which checks every line."""
        return {step: ColumnReader(self._layout.column(step)) for step in self.steps}

    def lookup(
        self,
        columns: Mapping[str, ColumnReader],
        run_file: RunFile,
        journal: Journal | None = None,
    ) -> Lookup:
        """Compare the request with the columns; record a question in the journal.

        Raises:
            FunctionChangedError: The workflow changed, and `on_change` does not say what to do.
        """
        try:
            layout, project = self._layout, self.project
            lookup = Lookup(self._request, self.identities, columns, layout, run_file, project)
        except FunctionChangedError as error:
            self._explainer(run_file).question(error, WORKFLOW, journal)
            if isinstance(error.plan, Plan):
                error.plan = self._with_forecast(error.plan, run_file, columns, ())
            raise
        goals = {str(goal.name): goal.half_width for goal in self._request.goals}
        plan = replace(
            lookup.plan,
            redo=self._redo,
            stop_when=goals,
            engine=words_of(
                self._request.engines,
                [name for name, step in self.steps.items() if is_plain(step)],
                self._request.options.get("concurrency", "auto"),
            ),
            unseen=self.identities.unseen,
            skipped=len(self._request.bad_rows),
        )
        lookup.plan = self._with_forecast(plan, run_file, columns, lookup.answers.keys)
        return lookup

    def _with_forecast(
        self,
        plan: Plan,
        run_file: RunFile,
        columns: Mapping[str, ColumnReader],
        answers: Iterable[str],
    ) -> Plan:
        """Return the plan with what its calls will take; `answers` has the keys of now."""
        if not plan.calls:
            return plan
        request, layout, fingerprint_of = self._request, self._layout, self.identities.fingerprint
        known = _last_numbers(layout).values()
        gaps = planned_gaps(request.prices, self.steps.values(), known)
        seen = SeenCells(request, layout, run_file, columns, fingerprint_of, answers)
        return replace(plan, prices=gaps, forecast=forecast(plan, seen))

    def _explainer(self, run_file: RunFile) -> Explainer:
        return Explainer(self.identities, self._layout, run_file, self.clean, self.project)

    def nothing_to_do(self) -> Plan:
        """Return the plan of a session that finds everything done."""
        request = self._request
        total, items = len(request.items), len(request.selection.positions(request.items))
        workflow, *evaluators = (StepPlan(step, items * request.trials, 0) for step in self.steps)
        of, unseen = total if items < total else None, self.identities.unseen
        skipped = len(request.bad_rows)
        steps = (workflow, tuple(evaluators))
        return Plan(items, request.trials, *steps, of, unseen=unseen, skipped=skipped)

    # ---- a complete run -------------------------------------------------------------------------
    #
    # Looking up every cell of a hundred thousand items takes seconds. A complete run records a
    # digest of its request and a checksum of each of its files, including the columns. If the same
    # is requested again and every byte is the same, there is nothing to look up. Bytes are compared
    # because a flipped bit changes neither size nor time.

    def request_digest(self, reported: Sequence[int]) -> str:
        """Return a digest of all that determines the cells of these items and the output files."""
        request, items = self._request, self._request.items
        if len(reported) < len(items):
            items = [items[position] for position in reported]
        # The configuration may determine the output files.
        files = [request.nat_files, request.written_events, request.bare_outputs]
        shape = [files, digest(request.configuration)]
        shape.append(to_data(request.names))
        shape += [sorted(evaluator.reads) for evaluator in request.evaluators]
        shape.append(to_data(request.scales))  # the summary has other numbers
        if request.workflow.sees_files:
            shape += [digest(request.workflow.seen(item)) for item in items]
        fingerprints = list(self.identities.fingerprints.items())
        return digest(fingerprints, request.trials, shape, items_digest(items))

    def completion(self, requested: str, records: Mapping[str, int]) -> Completion:
        """Return the record that a run is complete, with the number of records of each step.

        Raises:
            OSError: A file cannot be read.
        """
        layout = self._layout
        columns = {step: layout.column(step) for step in self.steps}
        sizes = {step: [records[step], path.stat().st_size] for step, path in columns.items()}
        outputs = [layout.home / f"{step}_output.json" for step in self.steps]
        outputs = outputs if self._request.nat_files else []
        files = [layout.items, layout.home / "summary.json", *outputs, *columns.values()]
        checksums = {path.name: checksum(path) for path in files}
        return Completion(requested, sizes, checksums, FilesRead(layout).state(self.project))

    def records_if_complete(self, run_file: RunFile, requested: str) -> dict[str, int] | None:
        """Return the number of records of each step if the run is complete.

        None if the request differs, the run did not complete, or its files have changed.
        """
        known, session = run_file.complete, run_file.session
        if known is None or known.requested != requested:
            return None
        items = self._layout.items
        try:
            described = [items.stat().st_size, known.files.get(items.name)]
            if session is not None and session.items_file not in ([], described):
                return None  # readers would not trust the items
            records = {step: known.columns[step][0] for step in self.steps}
            is_same = known == self.completion(requested, records)
        except (OSError, JournalError, KeyError, IndexError):
            # A file is missing, damaged, or not a regular file.
            return None
        return records if is_same else None

    # ---- records about the session --------------------------------------------------------------

    def record_selection(self, run_file: RunFile, columns: Mapping[str, ColumnReader]) -> None:
        """Record what this session selects and forces, in addition to earlier sessions."""
        request = self._request
        run_file.select(request.selection)
        wanted = self._wanted_redo() if request.redo else None
        if request.on_change == "keep" and not request.resumes_redos:
            self._redo = "cancelled" if cancel_redos(run_file, wanted) else ""
        elif run_file.redo and wanted is None:
            self._redo = "unfinished"
        if wanted is not None:
            highest = max((column.highest_generation for column in columns.values()), default=0)
            begin_redo(run_file, wanted, highest)

    def _wanted_redo(self) -> PendingRedo:
        request = self._request
        selected, ids = request.selection.positions(request.items), request.redo_items
        if ids is None and len(selected) < len(request.items):
            ids = frozenset(request.items[position].id for position in selected)
        fingerprints = {step: self.identities.fingerprint(step) for step in sorted(request.redo)}
        return PendingRedo(0, request.redo, ids, fingerprints)

    def record_steps(self, run_file: RunFile) -> None:
        """Record what the steps are and how the run was started, without secrets."""
        request = self._request
        versions = run_file.functions.items()
        run_file.functions = {one: self.certain(parts) for one, parts in versions}
        now = {step.name: self.identities.parts(step.name) for step in request.evaluators}
        evaluators = (run_file.evaluators | now).items()
        # Masked parts would look like another evaluator; without parts, its latest scores count.
        masked = self.masking.certain.data
        run_file.evaluators = {name: parts for name, parts in evaluators if not masked(parts)[1]}
        run_file.steps = {WORKFLOW: StepIdentity(self.identities.fingerprint(WORKFLOW))}
        for step in request.evaluators:
            reads = sorted(step.reads)
            run_file.steps[step.name] = StepIdentity(self.identities.fingerprint(step.name), reads)
        run_file.scales = request.scales
        if request.configuration is not None:
            kept = self.clean(kept_form(dict(request.configuration)))
            run_file.configuration = Mask().trace(kept)[0]  # keys that nobody declared
        run_file.names = request.names
        made_by = request.made_by  # the last session determines how the run is started
        run_file.made_by = None if made_by is None else self.clean(kept_form(dict(made_by)))
        run_file.dataset = self._dataset_file()

    def _dataset_file(self) -> DatasetFile | None:
        """Return the file of the dataset: pages find its images there."""
        for path in self._request.dataset_files:
            with suppress(OSError, JournalError):  # a pipe, or gone since it was read
                relative = os.path.relpath(path, self._layout.home)
                return DatasetFile(self.clean(relative), file_digest(path))
        return None
