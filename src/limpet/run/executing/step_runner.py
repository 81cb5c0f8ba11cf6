"""Runs the cells of a step.

All steps of a session share the journal, the pacers, the guards and the stop.
"""

import asyncio
import functools
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from limpet.engines.step_engines import StepEngine
from limpet.errors import ItemSkippedError, LimpetError
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import Finished
from limpet.executors.inputs import InputSource
from limpet.executors.options import ExecutorOptions
from limpet.journal.journal import Journal
from limpet.pacing.memory import of_the_user
from limpet.pacing.pacer import MAX_IN_FLIGHT, Pacer
from limpet.pacing.registry import PacerRegistry
from limpet.run.executing.ballots import StepBallots
from limpet.run.executing.guards import (
    FIRST_CALLS,
    FIRST_CALLS_S,
    FIRST_FAILURES,
    Guards,
    mistakes_once,
)
from limpet.run.executing.outcomes import Step
from limpet.run.executing.recorder import Recorder
from limpet.run.executing.spending import Spending
from limpet.run.executing.stopping import Stopping
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.planning.counting import Counting
from limpet.run.planning.work_items import WorkItem
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW
from limpet.run.watcher import FixedPace
from limpet.secrets.masking import Masking
from limpet.shapes import Cell, Output
from limpet.text import one_line

_REMEMBER_EVERY_S = 10.0
_ORDERED = "ordered"  # why executors are paused
_FREE_CONCURRENCY = 32  # of a step without an endpoint
_PACE_EVERY_S = 2.0


class StepRunner:
    """Runs the steps of a session, each in its own executor.

    Steps in `fail_fast` start with a few cells, to see whether they work.

    Attributes:
        counting: Decides whether a record counts.
        pacers: The pacer of each endpoint.
        spending: What the session spends.
        executors: The recorder and the executor of each step that has begun.
        paused_at: When it was told to start nothing; empty: it was not.
        skipped: The items that it was told to leave out, by id.
        watched: Returns a step's function such that its calls are watched.
    """

    def __init__(
        self,
        journal: Journal,
        request: Request,
        counting: Counting,
        stopping: Stopping,
        guards: Guards,
        masking: Masking,
        files: WatchedFiles,
        fail_fast: frozenset[str],
        spending: Spending,
    ) -> None:
        options = request.options
        self.journal = journal
        self.counting = counting
        self.spending = spending
        fixed = options.get("concurrency", "auto") != "auto"
        self.pacers = PacerRegistry(
            max_in_flight=_most_in_flight(options),
            fixed=fixed,
            remembered=of_the_user() if request.remember_pace else None,
            shared=request.share_pace,
        )
        if (given := options.get("pacer")) is not None and request.workflow.endpoint is not None:
            self.pacers.use(request.workflow.endpoint, given)
        # The session handles signals itself: its steps must stop together.
        self._options: ExecutorOptions = {**options, "termination_signal": None}
        self._options["classify"] = mistakes_once(options.get("classify"))
        self._stopping = stopping
        self._guards = guards
        self._masking = masking
        self._watcher = request.watcher
        self._files = files
        self._fail_fast = fail_fast
        self._recorders: list[Recorder] = []
        self._engines: dict[str, StepEngine | None] = {}  # of the steps with a pace of their own
        self.paused_at = ""
        self.skipped: set[str] = set()
        self.watched: Callable[[str, Any], Any] = lambda _, function: function
        self.executors: dict[str, tuple[Recorder, AsyncExecutor[Any, Any]]] = {}
        self._remembered_at = time.monotonic()
        self._unsubscribe: list[Callable[[], None]] = []

    def recorder(self, step: Step) -> Recorder:
        """Return the recorder of a step."""
        mask, watcher, guards = self._masking.results, self._watcher, self._guards
        recorder = Recorder(self.journal, step, mask, self._files, watcher, guards)
        self._recorders.append(recorder)
        return recorder

    def ballots(self, step: str) -> StepBallots:
        """Return the ballots of an evaluator."""
        return StepBallots(self.journal, step, self._masking)

    def taken(self, cell: Cell) -> Callable[[str], None] | None:
        """Return a callback for the worker that takes a cell; None: nobody listens."""
        watcher = self._watcher
        return None if watcher is None else functools.partial(watcher.taken, cell)

    def counted(self) -> None:
        """Count a call that begins beside a stalled one."""
        self._guards.started()

    @property
    def given_up(self) -> int:
        """How many calls in flight were given up when the session stopped."""
        return sum(recorder.given_up for recorder in self._recorders)

    def generation(self, cell: Cell, work_item: WorkItem) -> int:
        """Return the generation of a cell's next record, above that of any earlier record."""
        following = self.journal.column(cell.step).next_generation(cell.key)
        return max(following, self.counting.needed(cell.step, work_item.item.id, cell.key))

    def executor(
        self,
        recorder: Recorder,
        function: Callable[[Any], Awaitable[Any]],
        endpoint: str | None,
        on_complete: Callable[[Any], Any] | None = None,
        concurrency: int | None = None,
        engine: StepEngine | None = None,
    ) -> AsyncExecutor[Any, Any]:
        """Return the executor of a step.

        Args:
            recorder: The step's recorder.
            function: The function to call on each input.
            endpoint: The endpoint that paces the calls; None: no pacer.
            on_complete: Called with each finished input once it is on disk.
            concurrency: How many calls run at once without an endpoint; None: the usual number.
            engine: Where the step runs.
        """
        options: ExecutorOptions = {**self._options, "on_complete": on_complete}
        requested = options.get("concurrency", "auto")
        is_workflow = recorder.step.name == WORKFLOW
        if not is_workflow:
            options["pacer"] = None  # the workflow's
        if endpoint is None:
            options["pacer"] = None
            if requested == "auto" or not is_workflow:
                least = 0 if requested == "auto" else requested
                options["concurrency"] = concurrency or max(_FREE_CONCURRENCY, least)
        elif options.get("pacer") is None:
            options["pacer"] = pacer = self.pacers.get(endpoint)
            if (times := len(pacer.members)) > 1:  # a number is the number of each
                options["max_concurrency"] = times * options.get("max_concurrency", MAX_IN_FLIGHT)
                if requested != "auto":
                    options["concurrency"] = times * requested
        if engine is not None and engine.most is not None:
            most, number = engine.most, options.get("concurrency", "auto")
            options["max_concurrency"] = min(most, options.get("max_concurrency", most))
            options["concurrency"] = number if number == "auto" else min(most, number)
        executor = recorder.executor(self.watched(recorder.step.name, function), options)
        executor.quiet = True  # its messages name an index, which means nothing to users
        executor.orders.refuse = functools.partial(self.refusal, recorder.step)
        self.executors[recorder.step.name] = recorder, executor
        if self.paused_at:
            executor.pause(_ORDERED)
        if endpoint is not None or is_workflow:
            self._watch_pace(recorder.step.name, executor, engine)
        return executor

    def _watch_pace(
        self, step: str, executor: AsyncExecutor[Any, Any], engine: StepEngine | None
    ) -> None:
        self._engines[step] = engine
        fixed = f"{executor.orders.concurrency or executor.concurrency} at a time"
        pacer = executor.pacer
        if pacer is None:
            words = ", ".join(filter(None, (fixed, "" if engine is None else engine.words)))
            self.journal.log_event("pace", step=step, words=words)
        else:
            endpoint = self._masking.ours.text(pacer.key)
            stop = _tell_pace(self.journal, step, endpoint, pacer, engine, self._remember)
            self._unsubscribe.append(stop)
        if self._watcher is not None:
            pace: Any = pacer or FixedPace(fixed)
            if engine is not None and engine.words:
                pace = PaceOnWorkers(pace, engine)
            self._watcher.paced(step, pace)

    # ---- orders ---------------------------------------------------------------------------------

    def pause(self) -> None:
        """Start no more calls, in any step; time does not count."""
        self.spending.pause()
        self.paused_at = time.strftime("%H:%M:%S")
        for _, executor in self.executors.values():
            executor.pause(_ORDERED)

    def resume(self) -> None:
        """Continue after `pause`."""
        self.spending.start()
        self.paused_at = ""
        for _, executor in self.executors.values():
            executor.resume(_ORDERED)

    def refusal(self, step: Step, value: Any) -> ItemSkippedError | None:
        """Return why an input of a step must not run; None: it may."""
        if (id_ := step.cell_of(0, value).id) not in self.skipped:
            return None
        why = "left out by limpet ctl skip; the next session runs it"
        return ItemSkippedError(f"item {id_!r}: {why}")

    def change_pace(self, most: int | None, endpoint: str = "") -> str:
        """Hold another number of calls in flight to an endpoint, or find its limit again.

        Args:
            most: The number; None: find the limit.
            endpoint: The endpoint, or a step whose calls go there; empty: there is only one.

        Raises:
            LimpetError: There is no such endpoint, or there are several.
        """
        mask = self._masking.ours.text
        steps = {step: self.executors[step][1].pacer for step in self._engines}
        pacers = {mask(pacer.key): pacer for pacer in self.pacers}
        apart = [*pacers, *(step for step, pacer in steps.items() if pacer is None)]
        name, named = endpoint or (apart[0] if len(apart) == 1 else ""), {**steps, **pacers}
        if name not in named:
            what = f"{one_line(name)}: no such endpoint" if name else "pace: of which one?"
            raise LimpetError(what, hint=f"--endpoint {' or '.join(map(shlex.quote, named))}")
        pacer = named[name]
        for step, (_, executor) in self.executors.items():
            if pacer is None and step == name:
                executor.set_concurrency(most or _FREE_CONCURRENCY)
                self._watch_pace(step, executor, self._engines[step])
            elif pacer is not None and executor.pacer is pacer:
                times = len(pacer.members) or 1
                executor.set_concurrency(times * most if most else executor.max_concurrency)
        if pacer is not None:
            usual = self._options.get("max_concurrency", MAX_IN_FLIGHT)
            pacer.change(most or usual, fixed=most is not None)
        where = name if pacer is None else mask(pacer.key)
        return f"{where}: {'auto' if most is None else f'{most:,} at a time'}"

    async def run(
        self,
        recorder: Recorder,
        executor: AsyncExecutor[Any, Any],
        inputs: Iterable[Any] | InputSource,
    ) -> None:
        """Run all cells of a step."""
        if self._stopping.reason is not None:  # it came while the steps before were set up
            return
        self._stopping.executors.append(executor)
        if recorder.step.name in self._fail_fast:
            executor.start_slowly(FIRST_CALLS, FIRST_FAILURES, FIRST_CALLS_S)
        await executor.drain(inputs)
        if (reason := recorder.error or executor.stop_reason) is not None:
            self._stopping.because(reason)

    def _remember(self) -> None:
        """Remember what was learned now and then: the process may be killed."""
        now = time.monotonic()
        if now - self._remembered_at > _REMEMBER_EVERY_S:
            self._remembered_at = now
            self.pacers.save()

    def close(self) -> None:
        """Stop watching the pace, and remember it."""
        self.pacers.save()
        for unsubscribe in self._unsubscribe:
            unsubscribe()


class PaceOnWorkers:
    """The pace of a step, with the number of its workers in words."""

    def __init__(self, pace: Any, engine: Any) -> None:
        self._pace = pace
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pace, name)

    @property
    def words(self) -> str:
        """What limits the pace, and the workers."""
        return ", ".join(filter(None, (self._pace.words, self._engine.words)))


def _most_in_flight(options: ExecutorOptions) -> int:
    """Return how many calls may be in flight to one endpoint, whoever makes them."""
    concurrency = options.get("concurrency", "auto")
    return options.get("max_concurrency", MAX_IN_FLIGHT) if concurrency == "auto" else concurrency


def output_of(finished: Finished[Any, Output]) -> Output | None:
    """Return the output of a cell; None if it failed."""
    output = finished.output
    return output if finished.error is None and isinstance(output, Output) else None


def _tell_pace(
    journal: Journal,
    step: str,
    endpoint: str,
    pacer: Pacer,
    engine: StepEngine | None,
    remember: Callable[[], None],
) -> Callable[[], None]:
    """Write the pace as an event, now and on changes; return a function that stops this.

    Changes in quick succession become one event with the latest state.
    """
    later: asyncio.TimerHandle | None = None

    def tell() -> None:
        nonlocal later
        later = None
        remember()
        state = pacer.state
        journal.log_event(
            "pace",
            step=step,
            endpoint=endpoint,
            calls_per_s=round(state.calls_per_s, 3),
            steady_rate=round(pacer.memory.get("steady_rate", 0.0), 3),
            limit=state.limit,
            in_flight=state.in_flight,
            refused=state.refused,
            binding=state.binding,
            words=", ".join(filter(None, (state.words, "" if engine is None else engine.words))),
        )

    def on_change(_: object) -> None:
        nonlocal later
        if later is None:
            later = asyncio.get_running_loop().call_later(_PACE_EVERY_S, tell)

    def end() -> None:
        unsubscribe()
        if later is not None:
            later.cancel()

    unsubscribe = pacer.subscribe(on_change)
    tell()
    return end
