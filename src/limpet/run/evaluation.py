"""One evaluation: what is asked, what is on disk, doing the rest, and what came out."""

import functools
import json
import logging
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from limpet.errors import DiskFullError, FunctionChangedError, JournalError
from limpet.executors.interrupts import hearing
from limpet.journal.column import ColumnReader, read_failures
from limpet.journal.files import NO_SPACE
from limpet.journal.fingerprint import digest
from limpet.journal.journal import Journal, read_about
from limpet.journal.layout import Layout, directory_at
from limpet.run.asked import Asked, write_asked
from limpet.run.completion import asked_hash, completed, records_if_complete
from limpet.run.lookup import Lookup
from limpet.run.outputs import write_outputs
from limpet.run.pipeline import WORKFLOW, Pipeline
from limpet.run.plans import Plan, StepPlan
from limpet.run.read_back import ReadBack
from limpet.run.redaction import Redaction
from limpet.run.request import Request
from limpet.run.results import EvaluationResult, ItemResult
from limpet.run.session import begin_session, close_session, say_unfinished
from limpet.run.summary import Numbers
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
        self._scores = [(one, digest(dict(one.fingerprint))) for one in request.evaluators]
        self._steps = [WORKFLOW, *(one.name for one in request.evaluators)]
        self._columns: Mapping[str, ColumnReader] = {}
        self._is_done = False
        self._pipeline: Pipeline | None = None
        self._lookup: Lookup | None = None

    # ---- before ---------------------------------------------------------------------------------

    def look(self) -> Plan:
        """Make the plan, and change nothing: no lock, no file."""
        layout = directory_at(self._request.run or Path(os.devnull).parent / "nothing")
        about = read_about(layout)
        try:
            return Lookup(self._request, self._readers(layout), layout, about).plan
        except FunctionChangedError as error:
            if isinstance(error.plan, Plan):
                return error.plan
            raise

    def _readers(self, layout: Layout) -> dict[str, ColumnReader]:
        # Without their indexes: every line is checked, as `open` does.
        return {step: ColumnReader(layout.column(step)) for step in self._steps}

    def open(self) -> None:
        """Take the lock, recover what is there, and make the plan."""
        request = self._request
        path = request.run
        if path is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="limpet-")
            path = Path(self._temporary.name) / "run"
        layout = directory_at(path)
        self._journal = journal = Journal(layout, durability=request.durability)
        self._layout = journal.layout
        about = journal.about()
        # Whoever has a configuration may read in it what the files are to look like.
        shape = [request.step_filter, request.bare_outputs, digest(request.configuration)]
        self._hash = asked_hash(
            request.items, request.workflow, request.evaluators, request.trials, shape
        )
        records = records_if_complete(layout, about, self._hash, self._steps)
        if request.on_change is None and records is not None:
            self.plan = self._nothing_to_do()
        else:
            about.pop("complete", None)  # until it is so again
            self._columns = {step: journal.column(step) for step in self._steps}
            records = {step: len(column) for step, column in self._columns.items()}
            self._lookup = Lookup(request, self._columns, self._layout, about)
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
            )
            self._pipeline.left = self._lookup.left
            if self.plan.workflow.kept and hasattr(request.workflow, "answered_before"):
                # Then a request that is refused for its form is a matter of its item.
                request.workflow.answered_before = True
        logger.info("%s", self.plan)
        say_unfinished(journal, about, map(journal.column, self._steps))
        known = about.setdefault("evaluators", {})
        known.update({one.name: dict(one.fingerprint) for one in request.evaluators})
        if request.configuration is not None:
            about["configuration"] = Redaction().plain(dict(request.configuration))
        if self._lookup is not None:
            write_asked(self._layout, self._lookup.keys.raw)
        begin_session(journal, about, "evaluation", self.plan, records)
        self._records = records
        self._about = about
        if request.watcher is not None:
            request.watcher.planned(self.plan)

    def _nothing_to_do(self) -> Plan:
        request = self._request
        cells = len(request.items) * request.trials
        evaluators = [StepPlan(one.name, cells, 0) for one in request.evaluators]
        return Plan(
            len(request.items), request.trials, StepPlan(WORKFLOW, cells, 0), tuple(evaluators)
        )

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
        run = None if self._temporary is not None else str(self._layout.home)
        assert self._journal is not None
        if self._pipeline is None or self._lookup is None:
            self._journal.set_aside_bad_lines()
            self._is_done = True
            summary = json.loads((self._layout.home / "summary.json").read_bytes())
            return EvaluationResult(self._read_later, summary, self.plan, run)
        self._journal.drain()  # what still waits to be written counts too
        reason = self._pipeline.stop_reason
        redaction, results = self._pipeline.redaction, self._results()
        numbers = Numbers([one.name for one in self._request.evaluators])

        def counted() -> Iterator[tuple[Asked, ItemResult]]:
            for asked, item in results:
                numbers.add(item)
                yield asked, item

        def summarise() -> dict[str, Any]:
            summary = numbers.summary()
            summary["stop_reason"] = None if reason is None else redaction.text(text_of(reason))
            summary["bad_rows"] = [str(one) for one in self._request.bad_rows]
            return summary

        pairs = counted()
        failure = self._write_outputs(pairs, summarise, redaction)
        for _ in pairs:  # what could not be written counts all the same
            pass
        summary = summarise()
        steps = [summary["workflow"], *summary["evaluators"].values()]
        all_there = all(step["completed"] == len(results) for step in steps)
        self._is_done = failure is None and all_there
        self._records = {step: len(column) for step, column in self._columns.items()}
        reason = reason or failure
        if reason is None:  # whatever was lost has run again
            self._journal.set_aside_bad_lines()
        items = functools.partial(_items_of, results)
        if run is None:  # its files will be gone
            items = functools.partial(list, items())
        return EvaluationResult(items, summary, self.plan, run, reason)

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
                known = completed(self._layout, self._hash, self._records, self._steps)
            except OSError:
                return
        self._about["complete"] = known

    def _write_outputs(
        self,
        results: Iterable[tuple[Asked, ItemResult]],
        summarise: Callable[[], dict[str, Any]],
        redaction: Redaction,
    ) -> JournalError | None:
        """Write the files for others; return why they could not be written, if so."""
        try:
            write_outputs(
                self._layout,
                results,
                [one.name for one in self._request.evaluators],
                lambda: redaction.plain(summarise()),
                redaction,
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

    def _read_later(self) -> list[ItemResult]:
        about = read_about(self._layout)
        self._columns = self._readers(self._layout)
        self._lookup = Lookup(self._request, self._columns, self._layout, about)
        return _items_of(self._results())

    def _results(self) -> ReadBack:
        assert self._lookup is not None
        failures = read_failures(self._layout.failures)
        lookup = self._lookup
        return ReadBack(lookup.asked, lookup.keys, self._columns, self._scores, failures)

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        close_session(journal, self._about)

    def close(self) -> None:
        """Let go of everything."""
        try:
            with self.hearing_signals():
                self._close_journal()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()


def _items_of(results: ReadBack) -> list[ItemResult]:
    return [item for _, item in results]
