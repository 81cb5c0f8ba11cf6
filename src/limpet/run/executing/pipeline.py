"""How do items pass through the workflow and its evaluators at the same time?

Each step is an executor of its own with its own pacer, and between them run belts: a slow judge
does not hold the workflow until its belt is full, nor the other way round. A cell passes on when
it is on disk, and not before.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from limpet.copies import own_copy
from limpet.errors import LimpetError, PermanentError
from limpet.evaluators.builtin import BuiltIn
from limpet.evaluators.functions import FunctionEvaluator
from limpet.evaluators.protocol import Evaluator, Scores
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.attempts import Finished
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.executors.forks import end_if_forked
from limpet.executors.options import ExecutorOptions
from limpet.foreign import is_interrupt, readable
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.journal.lines import Entry
from limpet.json_values import kept_form
from limpet.pacing.pacer import MAX_IN_FLIGHT, Pacer
from limpet.run.executing.blocking import LoopWatch
from limpet.run.executing.guards import (
    FIRST_CALLS,
    FIRST_CALLS_S,
    EarlyStop,
    Guards,
    Repetition,
    Spent,
)
from limpet.run.executing.mistakes import mistakes_once
from limpet.run.executing.pace_events import fixed_pace, tell_pace
from limpet.run.executing.recorder import Keeping
from limpet.run.executing.records import (
    SCORED,
    Call,
    answer_record,
    item_told,
    kept_steps,
    score_record,
    secrets_of,
)
from limpet.run.executing.remarks import Remarks
from limpet.run.executing.scoring import ANSWER, SAW_MASKED, STEPS, Scoring, scoring_of
from limpet.run.executing.step_queue import Belt
from limpet.run.executing.stopping import Stopping
from limpet.run.executing.taking import taken_output, taken_scores
from limpet.run.executing.tracebacks import told_safely
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.executing.workflow_task import HeldOpen
from limpet.run.planning.redo import Redos
from limpet.run.planning.work_items import Asked
from limpet.run.progress.watcher import Watcher
from limpet.run.request import OnItem
from limpet.run.results.costs import Prices, usage_facts
from limpet.secrets.masking import Masking
from limpet.text import one_line, text_of
from limpet.types import Cell, Output, Usage
from limpet.workflows.protocol import Workflow
from limpet.workflows.python import ClassWorkflow, FunctionWorkflow

_BELT = 256
_CHUNK = 500
_BUILT_IN_CONCURRENCY = 32  # they call no provider
WORKFLOW = "workflow"

logger = logging.getLogger("limpet.run")


class Pipeline:
    """One session of a run: the steps, the belts between them, and what stopped it.

    Args:
        journal: Where everything goes.
        workflow: What answers.
        evaluators: What scores, each with its fingerprint.
        options: For the executors.
        step_filter: Which types of steps are kept; None: all.
        watcher: Told of what happens.
        stop_grace_s: How long calls in flight may go on once it is asked to stop.
        on_item_complete: Told of each item when its answer or failure is on disk.
        prices: What a million tokens cost, by model.
        masking: What keeps secrets from being written.
        early_stop: How many cells each step has to do that stops the run when its first ones fail
            alike; one with results on disk is not among them.
        files: Notes which files the calls read.

    Attributes:
        keepings: What each step could not record.
        left: Steps and keys that failed before and are not to be tried again, with the generation
            in which they failed.
        redos: What is to be run again whatever is there.
        counting: Returns the call whose answer counts in place of one that has none of its own.
    """

    def __init__(
        self,
        journal: Journal,
        workflow: Workflow,
        evaluators: Sequence[tuple[Evaluator, str]],
        options: ExecutorOptions,
        step_filter: Sequence[str] | None = None,
        watcher: Watcher | None = None,
        stop_grace_s: float = STOP_GRACE_S,
        on_item_complete: OnItem | None = None,
        prices: Prices | None = None,
        masking: Masking | None = None,
        early_stop: Mapping[str, int] | None = None,
        files: WatchedFiles | None = None,
    ) -> None:
        self._masking = masking or Masking()
        self._remarks = Remarks(journal, self._masking)
        self._stopping = Stopping(journal, self._masking, watcher, stop_grace_s)
        self._early_stop = early_stop or {}
        self._files = files
        spent = Spent()
        guards = (Repetition(journal), EarlyStop(self._early_stop, spent))
        self._guards = Guards(guards, spent, self._stopping.stop)
        self._watcher = watcher
        self._on_item_complete = on_item_complete
        self._prices = prices
        self._unsubscribe: list[Callable[[], None]] = []
        self._journal = journal
        self._workflow = workflow
        self._held = HeldOpen(workflow, self._break_off)
        self._answering: AsyncExecutor[Any, Any] | None = None
        self._evaluators = evaluators
        # The run hears the signals itself: its steps have to stop together.
        self._options: ExecutorOptions = {**options, "termination_signal": None}
        self._options["classify"] = mistakes_once(options.get("classify"))
        self._step_filter = step_filter
        self.left: Mapping[tuple[str, str], int] = {}
        self.redos = Redos({})
        self.counting: Callable[[Call], Call] = lambda call: call
        self._pacers: dict[str, Pacer] = {}
        self._answers: Column = journal.column(WORKFLOW)
        self._belts: dict[str, Belt[Scoring]] = {}
        self.keepings: list[Keeping] = []

    @property
    def stop_reason(self) -> Exception | None:
        """Why it stopped before all cells were done; None if it did not."""
        return self._stopping.reason

    async def conduct(self, calls: Sequence[Call], kept: Sequence[Call]) -> None:
        """Do what is missing.

        Args:
            calls: What the workflow has to answer.
            kept: Answers that are on disk, of which some scores may be missing.
        """
        self._belts = {one.name: Belt(_BELT) for one, _ in self._evaluators}
        self._stopping.loop = asyncio.get_running_loop()
        if calls and not await self._opened():
            return
        # Setting up may have made secrets known.
        self._masking.look_again(secrets_of(self._workflow, *(one for one, _ in self._evaluators)))
        if self.stop_reason is not None:  # interrupted meanwhile
            await self._held.close()
            return
        watch = LoopWatch(self._journal)
        watch.start()
        try:
            async with asyncio.TaskGroup() as group:
                for evaluator, _ in self._evaluators:
                    group.create_task(self._score(evaluator))
                group.create_task(self._feed(calls, kept))
        except BaseExceptionGroup as group_of_errors:
            raise _the_only(group_of_errors) from None
        finally:
            watch.stop()
            for unsubscribe in self._unsubscribe:
                unsubscribe()
            await self._held.close()

    async def _opened(self) -> bool:
        """Open the workflow; tell whether that was not interrupted."""
        self._stopping.opening = self._held
        try:
            with nullcontext() if self._files is None else self._files.setting_up(WORKFLOW):
                await self._held.open()
        except asyncio.CancelledError:
            if self.stop_reason is None:
                raise  # not by us
            return False
        finally:
            self._stopping.opening = None
        return True

    def _break_off(self) -> None:
        """Ask the workflow no more: it broke down. What it answered can still be scored."""
        reason = LimpetError(
            "the workflow broke down: something that its set-up started has failed",
            hint="what failed is logged; run it again to go on",
        )
        if self._answering is None:
            self._stopping.because(reason)
        else:  # nothing, if it has answered all
            self._answering.stop(reason, grace_s=0.0)

    def stop(self, signum: int | None = None) -> None:
        """Stop, from any thread."""
        self._stopping.ask(signum)

    async def _feed(self, calls: Sequence[Call], kept: Sequence[Call]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._answer(calls))
                group.create_task(self._pass_on_kept(kept))
        finally:
            for belt in self._belts.values():
                await belt.end()

    # ---- the workflow ---------------------------------------------------------------------------

    async def _answer(self, calls: Sequence[Call]) -> None:
        if not calls or self.stop_reason is not None:
            return

        hook = self._options.get("on_complete")

        copies_itself = isinstance(self._workflow, (FunctionWorkflow, ClassWorkflow))

        async def answer(call: Call) -> Output:
            item = call[0].item if copies_itself else own_copy(call[0].item)
            with _kept_in("the workflow"):
                return taken_output(await self._workflow.call(item), self._remarks)

        async def pass_on(finished: Finished[Call, Output]) -> None:
            lost = keeping.lost.get(finished.index)
            entry = None
            if finished.error is None and lost is None and self._evaluators:
                # As it is, not yet masked; and before anybody else sees it: what they do to it is
                # not scored.
                entry = Entry({}, kept_form(self._record_of(finished)))
            if hook is not None:
                await _told("on_complete", hook, finished)
            await self._tell_item(finished if lost is None else replace(finished, error=lost))
            if entry is not None:
                await self._pass_on_new(finished.input[0], entry)
            elif self.redos and self._evaluators:  # an earlier answer stands, and may lack a score
                await self._pass_on_kept([self.counting(finished.input)])

        keeping = Keeping(
            self._journal,
            WORKFLOW,
            lambda _, call: call[1],
            self._record_of,
            facts_of=self._usage_of,
            mask=self._masking.results,
            returned=(ANSWER, STEPS),
            watcher=self._watcher,
            guards=self._guards,
            generation_of=lambda cell, call: self._generation(cell, call[0]),
            files=self._files,
            call_of=lambda call: (call[1].key, _row(call[0])),
        )
        options: ExecutorOptions = {**self._options, "on_complete": pass_on}
        if options.get("concurrency") == "auto" and options.get("pacer") is None:
            options["pacer"] = self._pacer_of(self._workflow.endpoint)
        self._answering = keeping.executor(answer, options)
        self._watch_pace(WORKFLOW, self._answering)
        await self._run(keeping, self._answering, calls)

    async def _tell_item(self, finished: Finished[Call, Output]) -> None:
        if self._on_item_complete is None:
            return
        await _told("watcher", self._on_item_complete, item_told(finished))

    def _usage_of(self, finished: Finished[Call, Output]) -> dict[str, Any] | None:
        usage = finished.output.usage if isinstance(finished.output, Output) else None
        return usage_facts(usage, self._prices) if isinstance(usage, Usage) else None

    def _record_of(self, finished: Finished[Call, Output]) -> dict[str, Any]:
        asked, _ = finished.input
        if finished.error is not None or not isinstance(finished.output, Output):
            return {"id": asked.public_id}
        steps = kept_steps(finished.output.steps, self._step_filter)
        return answer_record(asked, finished.output.value, steps)

    async def _pass_on_new(self, asked: Asked, entry: Entry) -> None:
        """Put on the belts what was just answered, for those who have not scored it as it is."""
        for name, scoring in self._missing_for(asked, entry):
            await self._belts[name].put(scoring)
        if self.redos:
            for name, scoring in await asyncio.to_thread(self._scored_masked, asked, entry):
                await self._belts[name].put(scoring)

    async def _pass_on_kept(self, kept: Sequence[Call]) -> None:
        """Put on the belts what is on disk and has no score yet."""
        masked: Counter[str] = Counter()
        for at in range(0, len(kept), _CHUNK):
            chunk = kept[at : at + _CHUNK]
            for name, scoring in await asyncio.to_thread(self._missing_scores, chunk):
                masked[name] += SAW_MASKED in scoring.facts
                await self._belts[name].put(scoring)
        for name, count in masked.items():
            if count:
                logger.warning(
                    "%s scores %s answers as they are on disk, where secrets are masked: what the "
                    "workflow gave is not there any more",
                    one_line(name),
                    count,
                )

    def _missing_scores(self, calls: Sequence[Call]) -> list[tuple[str, Scoring]]:
        by_key = {cell.key: asked for asked, cell in calls}
        missing: list[tuple[str, Scoring]] = []
        for key, entry in self._answers.read_many(by_key):
            missing += self._missing_for(by_key[key], entry)
        return missing

    def _missing_for(self, asked: Asked, entry: Entry) -> Iterable[tuple[str, Scoring]]:
        for evaluator, fingerprint in self._evaluators:
            scoring = scoring_of(asked, entry, evaluator, fingerprint)
            cell = scoring.cell
            needed = self.redos.needed(cell.step, asked.item.id, cell.key)
            left = self.left.get((cell.step, cell.key), -1) >= needed
            if not left and not self._journal.column(cell.step).reaches(cell.key, needed):
                yield evaluator.name, scoring

    def _scored_masked(self, asked: Asked, entry: Entry) -> list[tuple[str, Scoring]]:
        """Return the scores that were made of masked text: now there is the original again."""
        found = []
        for evaluator, fingerprint in self._evaluators:
            scoring = scoring_of(asked, entry, evaluator, fingerprint)
            column = self._journal.column(evaluator.name)
            for _, scored in column.read_many([scoring.cell.key]):
                if scored.facts.get(SAW_MASKED):
                    found.append((evaluator.name, scoring))
        return found

    # ---- the evaluators -------------------------------------------------------------------------

    async def _score(self, evaluator: Evaluator) -> None:
        belt = self._belts[evaluator.name]

        async def score(scoring: Scoring) -> Scores:
            with _kept_in("the evaluator"):
                if isinstance(evaluator, BuiltIn):  # changes nothing
                    return await evaluator.call(scoring.scored)
                copies_itself = isinstance(evaluator, FunctionEvaluator)
                scored = scoring.scored if copies_itself else scoring.scored.own()
                return taken_scores(await evaluator.call(scored), evaluator.name, self._remarks)

        keeping = Keeping(
            self._journal,
            evaluator.name,
            lambda _, scoring: scoring.cell,
            score_record,
            permanent="evaluator",
            facts_of=lambda finished: finished.input.facts,
            mask=self._masking.results,
            returned=SCORED,
            costs=not isinstance(evaluator, BuiltIn),
            watcher=self._watcher,
            guards=self._guards,
            generation_of=lambda cell, scoring: self._generation(cell, scoring.asked),
            files=self._files,
            call_of=lambda scoring: (scoring.cell.key, _row(scoring.asked)),
        )
        options: ExecutorOptions = {**self._options}
        options.pop("on_complete", None)
        options.pop("pacer", None)  # the workflow's
        if isinstance(evaluator, BuiltIn):
            options["concurrency"] = _BUILT_IN_CONCURRENCY
        elif evaluator.endpoint is not None:
            options["pacer"] = self._pacer_of(evaluator.endpoint)
        executor = keeping.executor(score, options)
        if not isinstance(evaluator, BuiltIn):
            self._watch_pace(evaluator.name, executor)
        try:
            await self._run(keeping, executor, belt)
        finally:
            belt.stop()

    def _pacer_of(self, endpoint: str) -> Pacer:
        """Return the pacer of an endpoint: all who call it share one."""
        if endpoint not in self._pacers:
            most = self._options.get("max_concurrency", MAX_IN_FLIGHT)
            self._pacers[endpoint] = Pacer(endpoint, max_in_flight=most)
        return self._pacers[endpoint]

    def _watch_pace(self, step: str, executor: AsyncExecutor[Any, Any]) -> None:
        pace = executor.pacer or fixed_pace(executor)
        self._unsubscribe.append(tell_pace(self._journal, step, pace, self._masking.ours.text))
        if self._watcher is not None:
            self._watcher.paced(step, pace)

    def _generation(self, cell: Cell, asked: Asked) -> int:
        """Return the generation of a cell's next record: it wins over whatever was there."""
        needed = self.redos.needed(cell.step, asked.item.id, cell.key)
        return max(needed, self._journal.column(cell.step).next_generation(cell.key))

    # ---- both -----------------------------------------------------------------------------------

    async def _run(
        self,
        keeping: Keeping,
        executor: AsyncExecutor[Any, Any],
        inputs: Iterable[Any] | AsyncIterable[Any],
    ) -> None:
        self.keepings.append(keeping)
        self._stopping.executors.append(executor)
        if keeping.step in self._early_stop:
            executor.begin_gently(FIRST_CALLS, FIRST_CALLS_S)
        async for _ in executor.stream(inputs):
            pass
        reason = keeping.error or executor.stop_reason
        if reason is None or not self._stopping.because(reason):
            return
        if self._options.get("exit_on_error"):
            for other in self._stopping.executors:
                other.stop(reason)


async def _told(name: str, hook: Callable[[Any], Any], news: Any) -> None:
    """Call a user's hook: whoever looks on must not keep the item from its scores."""
    home = os.getpid()
    try:
        if isawaitable(told := hook(news)):
            await told
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is theirs, and said
        end_if_forked(home, error)
        logger.error("%s failed: %s", name, told_safely(error))  # noqa: TRY400 - without secrets


@contextmanager
def _kept_in(who: str) -> Iterator[None]:
    """Keep user code that wants to end the process from doing so: only its cell fails."""
    try:
        yield
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"{type(error).__name__}: {text_of(error)}"
        raise PermanentError(f"{who} raised {why}") from readable(error)


def _row(asked: Asked) -> tuple[Any, ...]:
    item = asked.item
    return item.id, item.input, item.row


def _the_only(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
