"""One evaluation: what is asked, what is on disk, doing the rest, and what came out."""

import functools
import json
import logging
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import FunctionChangedError
from holdfast.evaluators.protocol import Evaluator
from holdfast.executors.interrupts import hearing
from holdfast.executors.options import ExecutorOptions
from holdfast.journal.code import changed_parts
from holdfast.journal.column import Column, read_failures
from holdfast.journal.fingerprint import digest
from holdfast.journal.journal import Journal
from holdfast.journal.lines import Entry
from holdfast.journal.writer import Durability
from holdfast.run.asked import Asked, ask
from holdfast.run.change import Fingerprint, OnChange, settle_change
from holdfast.run.completion import asked_hash, is_complete, sizes_of
from holdfast.run.outputs import write_outputs
from holdfast.run.pipeline import WORKFLOW, Call, Pipeline
from holdfast.run.plans import Plan, StepPlan
from holdfast.run.results import EvaluationResult, ItemResult, read_answers
from holdfast.run.scoring import scoring_of
from holdfast.run.session import begin_session, end_session, say_unfinished
from holdfast.run.summary import summarise
from holdfast.text import text_of
from holdfast.types import Cell, Item
from holdfast.workflows.protocol import Workflow

logger = logging.getLogger("holdfast.run")


@dataclass(frozen=True, slots=True)
class Request:
    """What an evaluation was asked to do."""

    items: Sequence[Item]
    workflow: Workflow
    evaluators: Sequence[Evaluator]
    run: Path | None
    trials: int = 1
    on_change: OnChange | None = None
    retry_failed: bool = True
    durability: Durability = "sync"
    step_filter: Sequence[str] | None = None
    bare_outputs: bool = False
    bad_rows: Sequence[Any] = ()
    options: ExecutorOptions = field(default_factory=ExecutorOptions)


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
        self._scores = [(one, digest(dict(one.fingerprint))) for one in request.evaluators]
        self._pipeline: Pipeline | None = None

    # ---- before ---------------------------------------------------------------------------------

    def open(self, *, only_plan: bool = False) -> None:
        """Take the lock, recover what is there, and make the plan."""
        request = self._request
        path = request.run
        if path is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="holdfast-")
            path = Path(self._temporary.name) / "run"
        self._journal = journal = Journal(path, durability=request.durability)
        self._layout = journal.layout
        self._steps = [WORKFLOW, *(one.name for one in request.evaluators)]
        self._columns = {step: journal.column(step) for step in self._steps}
        self._answers = self._columns[WORKFLOW]
        about = journal.about()
        shape = [request.step_filter, request.bare_outputs]
        self._hash = asked_hash(
            request.items, request.workflow, request.evaluators, request.trials, shape
        )
        if request.on_change is None and is_complete(journal, about, self._hash, self._steps):
            self.plan = self._nothing_to_do()
        else:
            self._look_up(about)
            self.plan = self._planned(about)
        logger.info("%s", self.plan)
        if only_plan:
            return
        say_unfinished(journal, about, self._columns.values())
        known = about.setdefault("evaluators", {})
        known.update({one.name: dict(one.fingerprint) for one in request.evaluators})
        begin_session(journal, about, "evaluation", plan=str(self.plan))
        self._about = about

    def _nothing_to_do(self) -> Plan:
        request = self._request
        cells = len(request.items) * request.trials
        evaluators = [StepPlan(one.name, cells, 0) for one in request.evaluators]
        return Plan(
            len(request.items), request.trials, StepPlan(WORKFLOW, cells, 0), tuple(evaluators)
        )

    def _look_up(self, about: dict[str, Any]) -> None:
        request = self._request
        assert self._journal is not None
        self._asked = ask(request.items, request.trials, request.workflow)
        self._calls = self._settle(about)
        failures = {} if request.retry_failed else read_failures(self._layout.failures)
        self._left_keys = frozenset(failures)
        self._divide()
        self._pipeline = Pipeline(
            self._journal, request.workflow, self._scores, request.options, request.step_filter
        )
        self._pipeline.left = self._left_keys

    @functools.cache  # noqa: B019 - one evaluation, a few fingerprints
    def _calls_under(self, fingerprint: str) -> list[Call]:
        return [
            (one, Cell(WORKFLOW, one.public_id, one.trial, one.key(fingerprint)))
            for one in self._asked
        ]

    def _settle(self, about: dict[str, Any]) -> list[Call]:
        """Return the cells whose answers count, each under the fingerprint that made it."""
        parts = dict(self._request.workflow.fingerprint)
        now = Fingerprint(digest(parts), parts)

        def done_under(whole: str) -> set[int]:
            cells = enumerate(self._calls_under(whole))
            return {place for place, (_, cell) in cells if cell.key in self._answers}

        try:
            chosen = settle_change(
                about, now, done_under, len(self._asked), self._request.on_change
            )
        except FunctionChangedError as error:
            count = len(self._asked)
            step = StepPlan(WORKFLOW, 0, count, changed=tuple(now.parts), calls=count)
            error.add_note(f"plan: {Plan(len(self._request.items), self._request.trials, step)}")
            raise
        return [self._calls_under(whole)[place] for place, whole in enumerate(chosen)]

    def _divide(self) -> None:
        """Tell what is on disk from what is missing, for the workflow and each evaluator."""
        self._missing: list[Call] = []
        self._left: list[Call] = []
        kept: list[Call] = []
        for call in self._calls:
            key = call[1].key
            if key in self._answers:
                kept.append(call)
            elif (WORKFLOW, key) in self._left_keys:
                self._left.append(call)
            else:
                self._missing.append(call)
        self._kept = len(kept)
        self._unscored: list[Call] = []
        self._unscored_by = dict.fromkeys((one.name for one, _ in self._scores), 0)
        by_key = {cell.key: (asked, cell) for asked, cell in kept}
        seen = set()
        for key, entry in self._answers.read_many(by_key):
            seen.add(key)
            # A list, and not any() alone: each evaluator counts what it lacks.
            lacks = [self._lacks_score(by_key[key][0], entry, *one) for one in self._scores]
            if any(lacks):
                self._unscored.append(by_key[key])
        damaged = [call for key, call in by_key.items() if key not in seen]
        self._missing += damaged
        self._kept -= len(damaged)

    def _lacks_score(self, asked: Asked, entry: Any, evaluator: Evaluator, fp: str) -> bool:
        key = scoring_of(asked, entry, evaluator, fp).cell.key
        left = (evaluator.name, key) in self._left_keys
        lacks = key not in self._columns[evaluator.name] and not left
        self._unscored_by[evaluator.name] += lacks
        return lacks

    def _planned(self, about: Mapping[str, Any]) -> Plan:
        request, calls = self._request, len(self._missing)
        known = self._answers.ids() if self._missing and len(self._answers) else set()
        edited = sum(cell.id in known for _, cell in self._missing)
        workflow = StepPlan(
            WORKFLOW, self._kept, calls - edited, edited, failed=len(self._left), calls=calls
        )
        evaluators = []
        for one in request.evaluators:
            before = about.get("evaluators", {}).get(one.name)
            changed = () if before is None else tuple(changed_parts(before, dict(one.fingerprint)))
            missing = self._unscored_by[one.name]
            kept = self._kept - missing
            evaluators.append(StepPlan(one.name, kept, calls, 0, 0, changed, calls + missing))
        return Plan(len(request.items), request.trials, workflow, tuple(evaluators))

    # ---- the work -------------------------------------------------------------------------------

    async def conduct(self) -> None:
        """Do what is missing. SIGTERM stops it as SIGINT does."""
        if self._pipeline is not None:
            with hearing(signal.SIGTERM, self._pipeline.stop):
                await self._pipeline.conduct(self._missing, self._unscored)

    def stop(self) -> None:
        """Stop at once, from another thread."""
        if self._pipeline is not None:
            self._pipeline.stop()

    # ---- after ----------------------------------------------------------------------------------

    def finish(self) -> EvaluationResult:
        """Read everything back, and write the files for others."""
        run = None if self._temporary is not None else str(self._layout.home)
        if self._pipeline is None:
            self._close_journal()
            summary = json.loads((self._layout.home / "summary.json").read_bytes())
            return EvaluationResult(self._read_later, summary, self.plan, run)
        assert self._journal is not None
        self._journal.drain()  # what still waits to be written counts too
        reason = self._pipeline.stop_reason
        items = self._read()
        summary = summarise(items, [one.name for one in self._request.evaluators])
        redaction = self._pipeline.redaction
        summary["stop_reason"] = None if reason is None else redaction.text(text_of(reason))
        summary["bad_rows"] = [str(one) for one in self._request.bad_rows]
        write_outputs(
            self._layout,
            self._asked,
            items,
            redaction.plain(summary),
            redaction,
            bare=self._request.bare_outputs,
            step_filter=self._request.step_filter,
        )
        steps = [summary["workflow"], *summary["evaluators"].values()]
        done = all(step["completed"] == len(items) for step in steps)
        if done and self._about is not None:
            sizes = sizes_of(self._journal, self._steps)
            self._about["complete"] = {"asked": self._hash, "columns": sizes}
        self._close_journal()
        return EvaluationResult(lambda: items, summary, self.plan, run, reason)

    def _read_later(self) -> list[ItemResult]:
        about = json.loads(self._layout.about.read_bytes())
        self._asked = ask(self._request.items, self._request.trials, self._request.workflow)
        self._calls = self._settle(about)
        return self._read()

    def _read(self) -> list[ItemResult]:
        failures = read_failures(self._layout.failures)
        calls = [(asked, cell.key) for asked, cell in self._calls]
        items = read_answers(self._answers, calls, failures)
        for evaluator, fingerprint in self._scores:
            column = self._columns[evaluator.name]
            self._read_scores(items, evaluator, fingerprint, column, failures)
        return items

    def _read_scores(
        self,
        items: Sequence[ItemResult],
        evaluator: Evaluator,
        fingerprint: str,
        column: Column,
        failures: Mapping[tuple[str, str], Entry],
    ) -> None:
        places: dict[str, int] = {}
        for place, (asked, item) in enumerate(zip(self._asked, items, strict=True)):
            if item.status == "completed":
                key = scoring_of(asked, item.entry, evaluator, fingerprint).cell.key
                places[key] = place
        read = set()
        for key, entry in column.read_many(places):
            items[places[key]].scores[evaluator.name] = entry.record
            read.add(key)
        for key, place in places.items():
            if key not in read and (evaluator.name, key) in failures:
                error = failures[evaluator.name, key].record["error"]
                items[place].score_errors[evaluator.name] = error

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        try:
            if self._about is not None:
                end_session(journal, self._about)
        finally:
            journal.close()

    def close(self) -> None:
        """Let go of everything."""
        try:
            self._close_journal()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
