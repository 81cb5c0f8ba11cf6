"""How do items pass through the workflow and its evaluators at the same time?

Each step has its own executor and pacer, and each evaluator has a queue: a slow evaluator does not
hold up the workflow until its queue is full. An answer is queued once it is on disk.
"""

import asyncio
import functools
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

from limpet.engines.opened_step import OpenedStep
from limpet.engines.step_engines import StepEngines
from limpet.errors import JournalError, LimpetError
from limpet.journal.append_file import LiveFile
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout
from limpet.journal.lines import Entry
from limpet.pacing.registry import pacing_with
from limpet.run.budget import Ledger
from limpet.run.executing.blocking import LoopWatch
from limpet.run.executing.guards import FailFast, Guard, Guards, Repetition, Spent
from limpet.run.executing.hand import Hand
from limpet.run.executing.outcomes import Omissions
from limpet.run.executing.spending import Spending
from limpet.run.executing.stalls import Stalls
from limpet.run.executing.step_runner import StepRunner
from limpet.run.executing.steps import AnsweringStep, ScoringStep
from limpet.run.executing.stopping import Stopping
from limpet.run.executing.taking import Feeding, Taking
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.planning.lookup import Lookup
from limpet.run.planning.work_items import AnswerTask, ScoreTask, WorkItem
from limpet.run.record_fields import ROW, SAW_MASKED
from limpet.run.request import Request, secrets_of
from limpet.run.results.output_files import AnswerRows, as_json
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.secrets.known import certain_secrets
from limpet.secrets.masking import Masking
from limpet.shapes import Outcome
from limpet.text import count, one_line

logger = logging.getLogger("limpet.run")


# ---- Which answers of a run are in its live file, and when does one get there? ------------------
#
# `workflow_output.jsonl` of a toolkit's run has the row of each answer that `workflow_output.json`
# will have. It begins with the kept answers, so that an answer that is redone has one line.


class LiveAnswers:
    """The live file of a session. As a guard it sees each answer on disk, and stops nothing.

    Args:
        layout: The run's layout.
        rows: How answers become rows.
        lookup: Knows which answers are kept.
    """

    def __init__(self, layout: Layout, rows: AnswerRows, lookup: Lookup) -> None:
        self._rows = rows
        self._file: LiveFile | None = None
        path = layout.live(WORKFLOW)
        try:
            self._file = LiveFile(path, self._line, _kept(lookup))
        except (OSError, JournalError) as error:
            logger.warning("%s: there is no live file: %s", path, error)

    def _line(self, answer: tuple[Any, str, int]) -> bytes:
        return as_json(self._rows.of_answer(*answer))

    def see(self, outcome: Outcome) -> None:
        """Write the row of an answer."""
        cell = outcome.cell
        if self._file is not None and cell.step == WORKFLOW and outcome.failure is None:
            self._file.add((outcome.record, cell.id, cell.trial))

    def close(self) -> None:
        """Return when every row is written."""
        if self._file is not None:
            self._file.close()


def _kept(lookup: Lookup) -> Iterator[tuple[Any, str, int]]:
    """Yield the answers that the file begins with."""
    for work_item, entry in lookup.kept_answers():
        item = work_item.item
        yield {**entry.record, ROW: item.row}, item.id, work_item.trial


# ---- How do items pass through the workflow and its evaluators at the same time? ----------------

_CHUNK = 500


class Pipeline:
    """The steps of a session, and the queues between them.

    `fingerprint_of` returns the fingerprint of an evaluator, by name; `taking` takes the items one
    by one, if the session has goals; `ledger` has what was spent; `live` gets each answer.

    Attributes:
        hand: Carries out orders.
        spending: What the session spends.
    """

    def __init__(
        self,
        journal: Journal,
        request: Request,
        run_file: RunFile,
        lookup: Lookup,
        fingerprint_of: Callable[[str], str],
        masking: Masking,
        files: WatchedFiles,
        taking: Taking | None,
        ledger: Ledger,
        live: LiveAnswers | None = None,
    ) -> None:
        self._journal = journal
        self._request = request
        self._lookup = lookup
        self._masking = masking
        self._files = files
        self._answers: Column = journal.column(WORKFLOW)
        self._stopping = Stopping(journal, masking, request.watcher, request.stop_grace_s)
        steps = (lookup.plan.workflow, *lookup.plan.evaluators) if request.fail_fast else ()
        fail_fast = {step.name: step.calls for step in steps if not step.kept}
        spent = Spent()
        cells = {step.name: step.calls for step in (lookup.plan.workflow, *lookup.plan.evaluators)}
        self.spending = Spending(request.budget, ledger, request.prices, self._stop_for_the_budget)
        guards: list[Guard] = [Repetition(journal), FailFast(fail_fast, spent)]
        guards += [guard for guard in (taking, live) if guard is not None]
        self._taking = taking
        self._masked: Counter[str] = Counter()
        self._said_retired = False
        self._runner = runner = StepRunner(
            journal,
            request,
            lookup.answers.counting,
            self._stopping,
            Guards(guards, spent, self._stopping.stop),
            masking,
            files,
            frozenset(fail_fast),
            self.spending,
        )
        omissions = Omissions(journal, masking)
        pass_on = self._pass_on if request.evaluators else None
        engines = StepEngines(request.engines, cells, self._tell_of_worker)
        self._answering = AnsweringStep(runner, request, omissions, engines, pass_on)
        self._scoring = [
            ScoringStep(
                runner,
                evaluator,
                fingerprint_of(evaluator.name),
                omissions,
                engines,
                request.prices,
            )
            for evaluator in request.evaluators
        ]
        self._feeding: Feeding | None = None
        if taking is not None:
            self._feeding = Feeding(
                taking,
                self._answering,
                self._scoring,
                self._pass_on_kept,
                lambda: self.stop_reason is not None,
            )
        self._opened = AsyncExitStack()  # closes the steps, the last opened first
        self.hand = Hand(request, journal, run_file, runner, self._stopping)
        self._stalls = Stalls(request.stall, runner, request.watcher)
        runner.watched = self._stalls.watched

    @property
    def stop_reason(self) -> Exception | None:
        """Why it stopped before all cells were done; None if it did not."""
        return self._stopping.reason

    @property
    def given_up(self) -> int:
        """How many calls in flight were given up when the session stopped."""
        return self._runner.given_up

    def stop(self, signum: int | None = None) -> None:
        """Stop, from any thread."""
        self._stopping.request_stop(signum)

    # ---- the session ----------------------------------------------------------------------------

    async def execute(self) -> None:
        self._stopping.loop = asyncio.get_running_loop()
        async with self.hand.listening():
            await self._execute_all()

    async def _execute_all(self) -> None:
        taking = self._taking
        if taking is not None:
            taking.take_finished()
        if taking is None or not taking.is_enough:
            await self._execute(self._lookup.missing, self._lookup.unscored)
        if taking is not None and self.stop_reason is None:
            taking.end()

    async def _execute(self, missing: Sequence[AnswerTask], kept: Sequence[AnswerTask]) -> None:
        if not missing and not kept:
            return
        async with self._opened:
            with pacing_with(self._runner.pacers):
                if await self._open_steps(answers=bool(missing)):
                    await self._run_steps(missing, kept)

    async def _open_steps(self, *, answers: bool) -> bool:
        """Open the steps; return False if that was interrupted.

        Args:
            answers: Whether the workflow has items to answer.
        """
        steps: list[AnsweringStep | ScoringStep] = [self._answering] if answers else []
        for step in (*steps, *self._scoring):
            if not await self._open(step):
                return False
        # The set-up may have loaded secrets.
        secrets = secrets_of(self._request.workflow, *self._request.evaluators)
        for engine in (self._answering.engine, *(step.engine for step in self._scoring)):
            secrets += [*engine.secrets, *certain_secrets(engine.environment)]
        self._masking.look_again(secrets)
        return self.stop_reason is None

    async def _open(self, step: AnsweringStep | ScoringStep) -> bool:
        held = OpenedStep(step.engine, step.who, functools.partial(self._break_off, step))
        self._stopping.opening = held
        try:
            with self._files.setting_up(step.name):
                await held.open()
        except asyncio.CancelledError:
            if self.stop_reason is None:
                raise  # someone else cancelled it
            return False
        finally:
            self._stopping.opening = None
        self._opened.push_async_callback(self._stopping.close, held)
        return self.stop_reason is None  # False if it was interrupted meanwhile

    def _stop_for_the_budget(self, reason: LimpetError) -> None:
        self._stopping.stop(reason, math.inf)  # what is in flight ends and is kept

    def _tell_of_worker(self, event: str, facts: dict[str, Any]) -> None:
        self._journal.log_event(event, **facts)
        if event == "worker_lost" and self.stop_reason is None:
            # They may not all run again: one that ran alone fails, one that timed out is retried.
            had = f", with {facts['cells']} in flight" if facts["cells"] else ""
            logger.warning("worker %s %s%s", facts["worker"], facts["why"], had)
        elif event == "worker_failed":
            logger.warning(
                "worker %s is not used, and the others go on: %s", facts["worker"], facts["why"]
            )
        elif event == "worker_retired" and not self._said_retired:
            self._said_retired = True
            logger.warning(
                "the thread of an abandoned call is still running in worker %s, which is "
                "replaced (reported once); give loops an end, and clients a timeout",
                facts["worker"],
            )
        elif event == "waiting_for_workers" and facts["waiting"] == facts["workers"]:
            logger.warning("Ray has no room yet; the run starts when a worker does")

    def _break_off(self, step: AnsweringStep | ScoringStep) -> None:
        """Stop a step that no longer works. The others may continue."""
        reason = LimpetError(
            f"{step.who} stopped working: a task started in its setup failed",
            hint="see the log for the failure; run again to resume",
        )
        if step.executor is None:
            self._stopping.because(reason)
        else:  # does nothing if all its cells are done
            step.executor.stop(reason, grace_s=0.0)

    async def _run_steps(self, missing: Sequence[AnswerTask], kept: Sequence[AnswerTask]) -> None:
        watch = LoopWatch(self._journal)
        watch.start()
        self.spending.start()
        stalls = asyncio.ensure_future(self._stalls.watch())
        try:
            async with asyncio.TaskGroup() as group:
                for step in self._scoring:
                    group.create_task(step.run())
                group.create_task(self._feed(missing, kept))
        except BaseExceptionGroup as group_of_errors:
            raise _unwrap_single(group_of_errors) from None
        finally:
            stalls.cancel()
            watch.stop()
            self.spending.close()
            self._runner.close()

    # ---- from step to step ----------------------------------------------------------------------

    async def _feed(self, missing: Sequence[AnswerTask], kept: Sequence[AnswerTask]) -> None:
        feeding = self._feeding
        try:
            async with asyncio.TaskGroup() as group:
                if missing and self.stop_reason is None:
                    inputs = missing if feeding is None else feeding.tasks
                    group.create_task(self._answering.run(inputs))
                group.create_task(self._pass_on_kept(kept) if feeding is None else feeding.run())
        finally:
            for step in self._scoring:
                step.queue.end()
            self._say_masked()

    def _pass_on(self, task: AnswerTask, entry: Entry | None) -> Awaitable[object] | None:
        """Queue a new answer for the evaluators that have not scored it.

        Return what is left to wait for, if anything: a slot in a queue, or a file.
        """
        if self._lookup.answers.counting or self._taking is not None:
            return self._pass_on_with_earlier(task, entry)
        return None if entry is None else self._put(self._missing(task[0], entry))

    async def _pass_on_with_earlier(self, task: AnswerTask, entry: Entry | None) -> None:
        """Do what `_pass_on` does if results of earlier sessions count beside the new answer."""
        has_redos = bool(self._lookup.answers.counting)
        if entry is None:
            if has_redos:  # the earlier answer counts, and may lack a score
                await self._pass_on_kept([self._lookup.answers.counting_task(task)])
            return
        missing = self._missing(task[0], entry)
        if (waiting := self._put(missing)) is not None:
            await waiting
        if self._taking is not None and len(missing) < len(self._scoring):
            await self._add_kept(self._taking, task[0], entry)
        if has_redos:
            again = await asyncio.to_thread(self._scored_masked, task[0], entry)
            if (waiting := self._put(again)) is not None:
                await waiting

    async def _pass_on_kept(self, kept: Sequence[AnswerTask]) -> None:
        """Queue the answers on disk that lack a score."""
        for at in range(0, len(kept), _CHUNK):
            missing = await asyncio.to_thread(self._missing_of, kept[at : at + _CHUNK])
            masked = (step.name for step, task in missing if SAW_MASKED in task.facts)
            self._masked.update(masked)
            if (waiting := self._put(missing)) is not None:
                await waiting

    async def _add_kept(self, taking: Taking, work_item: WorkItem, entry: Entry) -> None:
        """Add the scores that a new answer keeps because it equals the earlier one."""
        for step in self._scoring:
            if step.missing(work_item, entry) is None:
                record = await asyncio.to_thread(step.kept, work_item, entry)
                if record is not None:
                    taking.add_kept(step.name, work_item.item.id, work_item.trial, record)

    def _say_masked(self) -> None:
        for name, answers in self._masked.items():
            logger.warning(
                "%s scores %s with secrets masked: the originals are not on disk",
                one_line(name),
                count(answers, "answer"),
            )

    def _put(self, tasks: Iterable[tuple[ScoringStep, ScoreTask]]) -> Awaitable[object] | None:
        """Queue tasks; return what is left to wait for if a queue is full."""
        put = [step.queue.put(task) for step, task in tasks]
        waiting = [until_queued for until_queued in put if until_queued is not None]
        if len(waiting) < 2:  # noqa: PLR2004 - a future needs no other around it
            return waiting[0] if waiting else None
        return asyncio.gather(*waiting)

    def _missing_of(self, tasks: Sequence[AnswerTask]) -> list[tuple[ScoringStep, ScoreTask]]:
        if not self._scoring:
            return []
        by_key = {cell.key: work_item for work_item, cell in tasks}
        return [
            task
            for key, entry in self._answers.read_many(by_key)
            for task in self._missing(by_key[key], entry)
        ]

    def _missing(self, work_item: WorkItem, entry: Entry) -> list[tuple[ScoringStep, ScoreTask]]:
        tasks = ((step, step.missing(work_item, entry)) for step in self._scoring)
        return [(step, task) for step, task in tasks if task is not None]

    def _scored_masked(
        self, work_item: WorkItem, entry: Entry
    ) -> list[tuple[ScoringStep, ScoreTask]]:
        tasks = ((step, step.scored_masked(work_item, entry)) for step in self._scoring)
        return [(step, task) for step, task in tasks if task is not None]


def _unwrap_single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
