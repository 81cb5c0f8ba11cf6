"""How do items pass through the workflow and its evaluators at the same time?

Each step has its own executor and pacer, and each evaluator has a queue: a slow evaluator does not
hold up the workflow until its queue is full. An answer is queued once it is on disk, not before.
"""

import asyncio
import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext

from limpet.errors import LimpetError
from limpet.evaluators.protocol import Evaluator
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.executors.options import ExecutorOptions
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.journal.lines import Entry
from limpet.pacing.registry import pacing_with
from limpet.run.executing.answering import AnsweringStep
from limpet.run.executing.blocking import LoopWatch
from limpet.run.executing.cells import SAW_MASKED, Scoring
from limpet.run.executing.guards import (
    EarlyStop,
    Guards,
    Repetition,
    Spent,
)
from limpet.run.executing.opened_step import OpenedStep
from limpet.run.executing.returned_values import Remarks
from limpet.run.executing.scoring import ScoringStep
from limpet.run.executing.step_runner import StepRunner
from limpet.run.executing.stopping import Stopping
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.planning.redo import Redos
from limpet.run.planning.work_items import Call, WorkItem
from limpet.run.progress.watcher import Watcher
from limpet.run.request import OnItem
from limpet.run.results.costs import Prices
from limpet.run.run_file import WORKFLOW
from limpet.secrets.masking import Masking
from limpet.text import one_line
from limpet.workflows.protocol import Workflow

_CHUNK = 500

logger = logging.getLogger("limpet.run")


class Pipeline:
    """The steps of a session, and the queues between them.

    Args:
        journal: The run's journal.
        workflow: The workflow.
        evaluators: The evaluators, each with its fingerprint.
        options: Options of the executors.
        trace_filter: Which types or kinds of events are kept; None: all.
        watcher: Notified of progress.
        stop_grace_s: How long calls in flight may continue after a stop is requested.
        on_item_complete: Called with each item once its answer or failure is on disk.
        prices: What a million tokens cost, by model.
        masking: Keeps secrets out of what is written.
        early_stop: The number of cells of each step that stops the run when its first cells fail
            alike; steps with results on disk are not in it.
        files: Records which files the calls read.

    Attributes:
        left: Cells that failed before and are not retried, by step and key, with the generation
            in which they failed.
        counting: Returns the call whose answer counts for a call without an answer of its own.
    """

    def __init__(
        self,
        journal: Journal,
        workflow: Workflow,
        evaluators: Sequence[tuple[Evaluator, str]],
        options: ExecutorOptions,
        trace_filter: Sequence[str] | None = None,
        watcher: Watcher | None = None,
        stop_grace_s: float = STOP_GRACE_S,
        on_item_complete: OnItem | None = None,
        prices: Prices | None = None,
        masking: Masking | None = None,
        early_stop: Mapping[str, int] | None = None,
        files: WatchedFiles | None = None,
    ) -> None:
        self.left: Mapping[tuple[str, str], int] = {}
        self.counting: Callable[[Call], Call] = lambda call: call
        self._journal = journal
        self._answers: Column = journal.column(WORKFLOW)
        self._masking = masking or Masking()
        self._files = files
        self._stopping = Stopping(journal, self._masking, watcher, stop_grace_s)
        self._workflow, self._evaluators = workflow, [evaluator for evaluator, _ in evaluators]
        spent, watched = Spent(), early_stop or {}
        guards = (Repetition(journal), EarlyStop(watched, spent))
        self._runner = runner = StepRunner(
            journal,
            (workflow, *self._evaluators),
            options,
            stopping=self._stopping,
            guards=Guards(guards, spent, self._stopping.stop),
            masking=self._masking,
            watcher=watcher,
            files=files,
            early_stop=watched,
        )
        remarks = Remarks(journal, self._masking)
        self._answering = AnsweringStep(
            runner,
            workflow,
            remarks,
            self._pass_on if evaluators else None,
            trace_filter=trace_filter,
            prices=prices,
            on_complete=options.get("on_complete"),
            on_item_complete=on_item_complete,
        )
        self._scoring = [
            ScoringStep(runner, evaluator, fingerprint, remarks, self._is_given_up, prices)
            for evaluator, fingerprint in evaluators
        ]
        self._opened_steps: list[OpenedStep] = []

    @property
    def redos(self) -> Redos:
        """The forced redos."""
        return self._runner.redos

    @redos.setter
    def redos(self, redos: Redos) -> None:
        self._runner.redos = redos

    @property
    def stop_reason(self) -> Exception | None:
        """Why it stopped before all cells were done; None if it did not."""
        return self._stopping.reason

    def stop(self, signum: int | None = None) -> None:
        """Stop, from any thread."""
        self._stopping.request_stop(signum)

    def _is_given_up(self, step: str, key: str, needed: int) -> bool:
        return self.left.get((step, key), -1) >= needed

    # ---- the session ----------------------------------------------------------------------------

    async def execute(self, calls: Sequence[Call], kept: Sequence[Call]) -> None:
        """Do what is missing.

        Args:
            calls: The calls that the workflow has to answer.
            kept: Calls whose answers are on disk and may lack scores.
        """
        self._stopping.loop = asyncio.get_running_loop()
        if not calls and not kept:
            return
        try:
            with pacing_with(self._runner.pacers):
                if await self._open_steps(asks=bool(calls)):
                    await self._run_steps(calls, kept)
        finally:
            await self._close()

    async def _close(self) -> None:
        if self._opened_steps:
            held = self._opened_steps.pop()
            try:
                await held.close()
            finally:  # close the others, too
                await self._close()

    async def _open_steps(self, *, asks: bool) -> bool:
        """Open the steps; return False if that was interrupted.

        Args:
            asks: Whether the workflow has calls to answer.
        """
        steps: list[AnsweringStep | ScoringStep] = [self._answering] if asks else []
        for step in (*steps, *self._scoring):
            if not await self._open(step):
                return False
        # The set-up may have loaded secrets.
        self._masking.look_again(secrets_of(self._workflow, *self._evaluators))
        return self.stop_reason is None

    async def _open(self, step: AnsweringStep | ScoringStep) -> bool:
        held = OpenedStep(step.target, step.who, functools.partial(self._break_off, step))
        self._stopping.opening = held
        try:
            with nullcontext() if self._files is None else self._files.setting_up(step.name):
                await held.open()
        except asyncio.CancelledError:
            if self.stop_reason is None:
                raise  # someone else cancelled it
            return False
        finally:
            self._stopping.opening = None
        self._opened_steps.append(held)
        return self.stop_reason is None  # False if it was interrupted meanwhile

    def _break_off(self, step: AnsweringStep | ScoringStep) -> None:
        """Stop calling a step that broke down. The other steps may continue."""
        reason = LimpetError(
            f"{step.who} broke down: something its set-up started has failed",
            hint="see the log for the failure; run again to resume",
        )
        if step.executor is None:
            self._stopping.because(reason)
        else:  # does nothing if all its cells are done
            step.executor.stop(reason, grace_s=0.0)

    async def _run_steps(self, calls: Sequence[Call], kept: Sequence[Call]) -> None:
        watch = LoopWatch(self._journal)
        watch.start()
        try:
            async with asyncio.TaskGroup() as group:
                for step in self._scoring:
                    group.create_task(step.run())
                group.create_task(self._feed(calls, kept))
        except BaseExceptionGroup as group_of_errors:
            raise _unwrap_single(group_of_errors) from None
        finally:
            watch.stop()
            self._runner.close()

    # ---- from step to step ----------------------------------------------------------------------

    async def _feed(self, calls: Sequence[Call], kept: Sequence[Call]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                if calls and self.stop_reason is None:
                    group.create_task(self._answering.run(calls))
                group.create_task(self._pass_on_kept(kept))
        finally:
            for step in self._scoring:
                await step.queue.end()

    async def _pass_on(self, call: Call, entry: Entry | None) -> None:
        """Queue a new answer for the evaluators that have not scored it."""
        if entry is not None:
            await self._put(self._missing(call[0], entry))
            if self.redos:
                await self._put(await asyncio.to_thread(self._scored_masked, call[0], entry))
        elif self.redos:  # the earlier answer counts, and may lack a score
            await self._pass_on_kept([self.counting(call)])

    async def _pass_on_kept(self, kept: Sequence[Call]) -> None:
        """Queue the answers on disk that lack a score."""
        masked: Counter[str] = Counter()
        for at in range(0, len(kept), _CHUNK):
            missing = await asyncio.to_thread(self._missing_of, kept[at : at + _CHUNK])
            masked.update(step.name for step, scoring in missing if SAW_MASKED in scoring.facts)
            await self._put(missing)
        for name, count in masked.items():
            logger.warning(
                "%s scores %s answers with their secrets masked: the original answers are not on "
                "disk",
                one_line(name),
                count,
            )

    async def _put(self, scorings: Iterable[tuple[ScoringStep, Scoring]]) -> None:
        for step, scoring in scorings:
            await step.queue.put(scoring)

    def _missing_of(self, calls: Sequence[Call]) -> list[tuple[ScoringStep, Scoring]]:
        if not self._scoring:
            return []
        by_key = {cell.key: work_item for work_item, cell in calls}
        return [
            scoring
            for key, entry in self._answers.read_many(by_key)
            for scoring in self._missing(by_key[key], entry)
        ]

    def _missing(self, work_item: WorkItem, entry: Entry) -> list[tuple[ScoringStep, Scoring]]:
        found = ((step, step.missing(work_item, entry)) for step in self._scoring)
        return [(step, scoring) for step, scoring in found if scoring is not None]

    def _scored_masked(
        self, work_item: WorkItem, entry: Entry
    ) -> list[tuple[ScoringStep, Scoring]]:
        found = ((step, step.scored_masked(work_item, entry)) for step in self._scoring)
        return [(step, scoring) for step, scoring in found if scoring is not None]


def secrets_of(*steps: Workflow | Evaluator) -> list[str]:
    """Return the secrets that workflows and evaluators declare, for example values of headers."""
    declared = (step.secrets for step in steps)
    # A bare string would be read as a list of letters, and mask everything.
    lists = (secrets for secrets in declared if isinstance(secrets, (list, tuple, set, frozenset)))
    return [secret for secrets in lists for secret in secrets if isinstance(secret, str)]


def _unwrap_single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
