"""Run an evaluation, or plan one: `evaluate`, `aevaluate` and `plan`."""

import asyncio
import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from limpet.arguments import true_or_false, whole_number_from
from limpet.datasets import Dataset, LoadedDataset
from limpet.datasets.selection import Selection
from limpet.engines.ray.settings import check_installed
from limpet.engines.sent_steps import pickled_step, refuse_while_importing
from limpet.engines.spec import Engine, as_engine, runs_user_code
from limpet.errors import LimpetError
from limpet.evaluators import as_evaluators
from limpet.evaluators.protocol import Evaluator, scale_of
from limpet.evaluators.reads import check_groups, check_needs
from limpet.executors.loops import run_here, run_in_thread, running_loop
from limpet.executors.threads import Threads, uninterrupted
from limpet.fingerprints.steps import DependsOn
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.executing.session import EvaluationSession
from limpet.run.executing.stopping import unless_stopped
from limpet.run.options import (
    MAX_RETRIES,
    TIMEOUT_S,
    Options,
    Pace,
    Redo,
    Retry,
    Run,
    RunOptions,
    as_options,
    as_run,
    like,
    with_options,
)
from limpet.run.planning.plan import Plan
from limpet.run.planning.planner import Planner
from limpet.run.planning.redo import forced
from limpet.run.planning.why import Why
from limpet.run.request import Extras, OnItem, Request, as_goals
from limpet.run.results.costs import Prices
from limpet.run.run_file import WORKFLOW, OnChange
from limpet.run.session_view import NotebookView, SessionView, in_notebook, view_on_stderr
from limpet.run.watcher import Watcher
from limpet.text import one_line
from limpet.workflows import as_workflow
from limpet.workflows.protocol import Workflow

# ---- Which engine runs each step? ---------------------------------------------------------------


def engines_of(
    workflow: Workflow,
    evaluators: Sequence[Evaluator],
    engine: Engine | None,
    step_engines: Mapping[str, Any],
) -> dict[str, Engine]:
    """Return the engine of each step that runs elsewhere, by the step's name.

    Args:
        workflow: The workflow.
        evaluators: The evaluators.
        engine: The engine of all steps that are the user's own Python; None: this process.
        step_engines: The engines of single steps, by name.

    Raises:
        LimpetError: A step cannot be sent to another process, or Ray is not installed.
    """
    chosen: dict[str, Engine] = {}
    steps: list[tuple[str, str, Any]] = [(WORKFLOW, "the workflow", workflow)]
    steps += [(step.name, f"the evaluator {one_line(step.name)}", step) for step in evaluators]
    for name, who, step in steps:
        own = as_engine(step_engines.get(name)) or (engine if runs_user_code(step) else None)
        if own is not None:
            if own.ray is not None:
                check_installed()
            pickled_step(who, step)  # before anything is spent
            chosen[name] = own
    return chosen


# ---- Run an evaluation, or plan one: `evaluate`, `aevaluate` and `plan`. ------------------------

_MOST_ANSWERS = 100_000_000  # planning more takes hours and all memory


@dataclass(frozen=True, slots=True)
class Arguments(Extras):
    """The arguments of `evaluate`, with additions of the command line and the integrations.

    Attributes:
        options: The options of `evaluate`, by name.
        limit: Select the first `limit` items in this session; replaces the dataset's limit.
        rehearse: Select so many of these, drawn at random, and run all of them.
        known_secrets: Keys in the configuration: masked like `secrets`, and even with `mask=False`
            in Limpet's own files and messages.
    """

    dataset: Any
    workflow: Any
    evaluators: Iterable[Any] | Mapping[str, Any] = ()
    run: str | Path | Run | None = None
    trials: int = 1
    options: RunOptions = field(default_factory=RunOptions)
    limit: int | None = None
    rehearse: int | None = None
    known_secrets: Sequence[str] = ()
    save: bool = True

    def with_options(self, options: RunOptions) -> "Arguments":
        """Return a copy with these options replaced."""
        return replace(self, options=self.options | options)


@with_options
def evaluate(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | Run | None = None,
    trials: int = 1,
    *,
    save: bool = True,
    pace: int | Literal["auto"] | Pace = "auto",
    retry: int | Retry = MAX_RETRIES,
    timeout: float = TIMEOUT_S,
    on_change: OnChange | None = None,
    redo: bool | Sequence[str] | Redo = False,
    retry_failed: bool = True,
    version: str | None = None,
    depends_on: Mapping[str, Sequence[str]] | DependsOn | None = None,
    prices: Prices | None = None,
    secrets: Sequence[str] = (),
    mask: bool = True,
    fail_fast: bool = True,
    stop_when: Mapping[str, float] | None = None,
    budget: Mapping[str, float | str] | None = None,
    stall: Mapping[str, Any] | None = None,
    watcher: Watcher | OnItem | None = None,
    engine: str | Mapping[str, Any] | None = None,
    show: bool = True,
) -> EvaluationResult:
    """Run a workflow over a dataset, score its answers, and never lose a finished one.

    Run it again to resume where it stopped; after an edit, only what the edit touched runs again.

    Args:
        dataset: A path, rows, a DataFrame, a function that returns one of these, or a `Dataset`,
            which also defines how to read it.
        workflow: A function, plain or async, a class, "module:name", or a Workflow.
        evaluators: Functions or evaluators; a mapping names them.
        run: The run's directory, or a `Run`; None: `runs/` and the workflow's name.
        trials: How many times the workflow answers each item.
        save: Whether to save the run; False: nothing is kept.
        pace: How many calls are in flight: a number, "auto", or a `Pace`.
        retry: How often a failed call is tried again, or a `Retry`.
        timeout: How many seconds an attempt may take.
        on_change: What to do if the workflow changed: "redo" its answers, or "keep" them. "keep"
            also cancels an unfinished redo.
        redo: Run steps again even if they have results: True for the workflow, the names of
            steps, or a `Redo`, which also names items.
        retry_failed: Whether cells that failed in an earlier session are tried again.
        version: Identifies the workflow in place of its code: see `limpet.workflow`.
        depends_on: Declares what else its answers depend on: a dict with the names of `files`, of
            variables in `env`, and of `packages`.
        prices: What a million tokens cost, by model.
        secrets: Further values to mask in what is written.
        mask: Whether secrets are masked in answers, scores and errors.
        fail_fast: Whether to stop when the first cells of a step all fail the same way.
        stop_when: Stop when the 95% intervals of these scores are narrow enough:
            `{"correct": 0.02}` stops at ± 0.02. Items then run in a random order.
        budget: Stop when all sessions together have spent this:
            `{"cost": 20, "tokens": "5M", "calls": 5000, "time": "2h"}`, or some of these.
        stall: What to do with a call far beyond its step's usual time: `{"do": "wait"}`, "fail",
            or "retry": ask again beside it, and take the first answer. `{"after": "2m"}` says when.
        watcher: A function that is called with an `ItemResult` when an item's answer or failure is
            on disk, or a `Watcher`, which is notified of everything that happens.
        engine: Where your functions run: "processes" for as many local processes as there are
            processors, `{"processes": 4}`, or with a limit for each,
            `{"processes": {"workers": 4, "memory": "2GB"}}`; None: in this process.
        show: Whether to show the plan, the progress and the summary: on a terminal, or in a
            notebook; in a log, a line every 30 seconds. A `Watcher` shows them itself.

    Raises:
        LimpetError: The run stopped before it was done, for this reason: a quota, an outage, cells
            that all fail the same way, a full disk. Everything finished is on disk, and in the
            error's `result`.
        KeyboardInterrupt: SIGINT stopped it; with the same `result`.
        SystemExit: SIGTERM or SIGHUP stopped it; with the same `result`.
        DatasetError: The dataset cannot be read, or is invalid.
        FunctionChangedError: The workflow changed, and `on_change` does not say what to do.
        JournalError: The run's directory cannot be read or written, or is damaged.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    return unless_stopped(evaluate_prepared(_arguments(locals())))


@like(evaluate)
async def aevaluate(*args: Any, **options: Any) -> EvaluationResult:
    """Do what `evaluate` does, on the running event loop."""
    prepared = _bound(*args, **options)
    checked = _options(prepared)
    threads = Threads()
    with _view(checked) as view:
        session = EvaluationSession(_request(prepared, checked, view))

        def end() -> EvaluationResult:
            result = session.finish()
            session.publish(result)
            view.ended(result)
            return result

        try:
            await uninterrupted(threads.run(lambda _: session.open(), None))
            with session.handling_signals():
                try:
                    await session.execute()
                except asyncio.CancelledError:
                    # Finished results are still written to the output files.
                    await uninterrupted(threads.run(lambda _: end(), None))
                    raise
                result = await uninterrupted(threads.run(lambda _: end(), None))
        finally:
            await uninterrupted(threads.run(lambda _: session.close(), None))
            threads.close()
    return unless_stopped(_with_late_signal(result, session))


@like(evaluate)
def plan(*args: Any, **options: Any) -> Plan:
    """Return what `evaluate` would do, and do nothing."""
    return plan_prepared(_bound(*args, **options))


def _arguments(given: Mapping[str, Any]) -> Arguments:
    """Return the arguments of `evaluate` by name."""
    own = ("dataset", "workflow", "evaluators", "run", "trials", "save")
    options = {name: value for name, value in given.items() if name not in own}
    return Arguments(**{name: given[name] for name in own}, options=cast("RunOptions", options))


_SIGNATURE = inspect.signature(evaluate)


def _bound(*args: Any, **options: Any) -> Arguments:
    bound = _SIGNATURE.bind(*args, **options)
    bound.apply_defaults()
    return _arguments(bound.arguments)


# ---- for the command line and the integrations --------------------------------------------------


def evaluate_prepared(prepared: Arguments) -> EvaluationResult:
    """Do what `evaluate` does, but also return the result of a stopped run."""
    options = _options(prepared)
    with (
        _view(options) as view,
        closing(EvaluationSession(_request(prepared, options, view))) as session,
    ):
        session.open()
        with session.handling_signals():
            if running_loop() is None:
                run_here(session.execute(), given_up=list)
            else:  # a notebook
                work = lambda: run_here(session.execute(), given_up=list)  # noqa: E731 - a thread's
                run_in_thread(work, on_interrupt=session.stop)
            result = session.finish()
        session.publish(result)
        view.ended(result)
    return _with_late_signal(result, session)


def _with_late_signal(result: EvaluationResult, session: EvaluationSession) -> EvaluationResult:
    """Return the result with a signal that came after the last cell: it was meant, too."""
    result.stop_reason = result.stop_reason or session.interruption
    return result


def plan_prepared(prepared: Arguments) -> Plan:
    """Return what `evaluate_prepared` would do, and do nothing."""
    return Planner(_request(prepared, _options(prepared))).plan()


def why_prepared(prepared: Arguments, item: str | None = None) -> Why:
    """Explain what each step covers and how it differs from the run, and do nothing."""
    # The next session cancels a redo only if the user says so.
    prepared = replace(prepared, resumes_redos=True)
    return Planner(_request(prepared, _options(prepared))).why(item)


def _view(options: Options) -> SessionView:
    """Return the view of the run; it shows nothing if the caller has a watcher or wants none."""
    if options.watcher is not None or not options.show:
        return SessionView()
    return NotebookView() if in_notebook() else view_on_stderr() or SessionView()


def _options(prepared: Arguments) -> Options:
    refuse_while_importing()
    return as_options(prepared.options)


def _request(prepared: Arguments, options: Options, view: Watcher | None = None) -> Request:
    """Check the other arguments, and read the dataset."""
    whole_number_from(1, trials=prepared.trials)
    run = _run(prepared)
    flow = as_workflow(prepared.workflow, version=options.version)
    dataset, selection = _dataset(prepared.dataset, prepared.limit)
    selection = replace(selection, rehearse=prepared.rehearse)
    goals = options.stop_when if prepared.rehearse is None else None
    if len(dataset.items) * prepared.trials > _MOST_ANSWERS:
        raise LimpetError(
            f"trials={prepared.trials:,}: {len(dataset.items):,} items would have more than "
            f"{_MOST_ANSWERS:,} answers",
            hint="use fewer trials, or split the dataset",
        )
    evaluators = as_evaluators(prepared.evaluators)
    check_needs(evaluators, dataset.columns, dataset.roles.expected)
    check_groups(evaluators, dataset.columns)
    engines = engines_of(flow, evaluators, options.engine, prepared.step_engines)
    names = [evaluator.name for evaluator in evaluators]
    redo_steps, redo_items = forced(
        options.redo, options.on_change, names, dataset.items, selection
    )
    return Request(
        items=dataset.items,
        workflow=flow,
        evaluators=evaluators,
        run=None if run is None else Path(run.path or Path("runs") / flow.name),
        trials=prepared.trials,
        selection=selection,
        redo=redo_steps,
        redo_items=redo_items,
        on_change=options.on_change,
        # A version replaces what is declared.
        depends_on=None if options.version is not None else options.depends_on,
        retry_failed=options.retry_failed,
        durability="flush" if run is None else run.durability,
        on_item_complete=options.on_item,
        watcher=options.watcher or view,
        prices=options.prices,
        mask=options.mask,
        secrets=[*options.secrets, *prepared.known_secrets],
        fail_fast=options.fail_fast,
        goals=as_goals(goals, {step.name: scale_of(step).range for step in evaluators}),
        budget=options.budget,
        stall=options.stall,
        bad_rows=dataset.bad_rows,
        dataset_files=() if dataset.path is None else (dataset.path,),
        options=options.executors,
        remember_pace=options.remember_pace,
        share_pace=options.share_pace,
        engines=engines,
        **{
            **{extra.name: getattr(prepared, extra.name) for extra in fields(Extras)},
            "names": replace(prepared.names, id=dataset.roles.id or "id"),
        },
    )


def _run(prepared: Arguments) -> Run | None:
    """Return the directory for results; None: keep nothing."""
    true_or_false(save=prepared.save)
    run = as_run(prepared.run)
    if not prepared.save and prepared.run is not None:
        raise ValueError(f"run={prepared.run!r}: save=False saves nothing: leave one of them out")
    return run if prepared.save else None


def _dataset(given: Any, limit: int | None) -> tuple[LoadedDataset, Selection]:
    if isinstance(given, LoadedDataset):
        return given, Selection(limit=limit)
    dataset = given if isinstance(given, Dataset) else Dataset(given)
    selection = dataset.selection
    if limit is not None:
        selection = replace(selection, limit=limit)
    # A limit and a sample select items of this session; the whole dataset is still read.
    return replace(dataset, limit=None, sample=None).load(), selection
