"""Dataset → workflow → evaluators: every cell durable."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Unpack

from limpet.arguments import whole_number_from
from limpet.datasets import Dataset, LoadedDataset
from limpet.datasets.choosing import Selection
from limpet.evaluators import as_evaluators
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.executors.loops import run_here, run_in_thread, running_loop
from limpet.executors.threads import Threads, uninterrupted
from limpet.fingerprints.declared import as_declared
from limpet.run.executing.session import EvaluationSession
from limpet.run.options import (
    Run,
    RunOptions,
    as_redo,
    as_retry,
    as_run,
    as_watcher,
    check_options,
    executor_options,
    secrets_in,
)
from limpet.run.planning.plan import Plan
from limpet.run.planning.planner import Planner
from limpet.run.planning.redo import forced
from limpet.run.planning.why import Why
from limpet.run.progress.notebook import NotebookView, in_notebook
from limpet.run.progress.watcher import Watcher
from limpet.run.request import OnEnd, Request
from limpet.run.results.evaluation_result import EvaluationResult
from limpet.workflows import as_workflow


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `evaluate` takes, and below `options` what only our own callers add.

    Attributes:
        options: The options of `evaluate`, by name.
        limit: Work only on the first so many items in this session, whatever the dataset says.
        known_secrets: Masked in what Limpet writes of its own accord, also with `secrets=False`.
        trace_filter: Which types or kinds of events of a trace are kept; None: all.
        bare_outputs: Whether `workflow_output.json` holds the outputs alone.
        on_end: Told of the result when all files are written, while the run is still locked.
        stop_grace_s: How long calls in flight may go on after an interrupt.
        configuration: Written into `run.json`.
        made_by: Which file was run by the command line, and how; None: a script asks.
    """

    dataset: Any
    workflow: Any
    evaluators: Iterable[Any] | Mapping[str, Any] = ()
    run: str | Path | Run | Literal[False] | None = None
    trials: int = 1
    options: RunOptions = field(default_factory=RunOptions)
    limit: int | None = None
    known_secrets: Sequence[str] = ()
    trace_filter: Sequence[str] | None = None
    bare_outputs: bool = False
    on_end: OnEnd | None = None
    stop_grace_s: float = STOP_GRACE_S
    configuration: Mapping[str, Any] | None = None
    made_by: Mapping[str, Any] | None = None

    def told(self, options: RunOptions) -> "Prepared":
        """Return the same with these options in place of those of the same names."""
        return replace(self, options=self.options | options)


def evaluate(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | Run | Literal[False] | None = None,
    trials: int = 1,
    **options: Unpack[RunOptions],
) -> EvaluationResult:
    """Run a workflow over a dataset, score what comes out, and never lose a finished answer.

    Run again, it goes on where it stopped; after an edit it runs only what the edit touched.

    Args:
        dataset: A path, rows, a DataFrame, a function that returns one of them, or a `Dataset`,
            which also says how they are read.
        workflow: A function, plain or async, a class, "module:name", or a Workflow.
        evaluators: Functions or evaluators; a mapping gives them their names.
        run: The run's directory, or a `Run`; None: `runs/` and the workflow's name; False: keep
            nothing.
        trials: How often each item is asked.
        **options: The rest, by name:

            - `pace`: How many calls are in flight: a number, "auto" (the default), or a `Pace`.
            - `retry`: How many more attempts a failed call has (10), or a `Retry`.
            - `timeout`: How many seconds an attempt may take (600).
            - `on_change`: What to do when the workflow changed: "redo" its answers, or "keep" them.
            - `redo`: Run steps again, whatever is there: True for the workflow, the names of steps,
              or a `Redo`, which also names items.
            - `version`: Declares what the workflow is, in place of its code.
            - `depends_on`: Declares what else its answers depend on: a dict of the names of
              `files`, of variables in `env`, and of `packages`.
            - `prices`: What a million tokens cost, by model.
            - `secrets`: Further values to mask in what is written; False: mask nothing in answers,
              scores and errors.
            - `early_stop`: Whether to stop when the first cells of a step all fail alike (True).
            - `watcher`: A function that is called with an `ItemResult` when an item's answer or
              failure is on disk, or a `Watcher`, which is told of all that happens.

    Raises:
        DatasetError: The dataset cannot be used as it is.
        FunctionChangedError: The workflow changed, and `on_change` does not say what to do.
        JournalError: The run's directory cannot be used as it is.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    return evaluate_prepared(Prepared(dataset, workflow, evaluators, run, trials, options))


async def aevaluate(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | Run | Literal[False] | None = None,
    trials: int = 1,
    **options: Unpack[RunOptions],
) -> EvaluationResult:
    """Do what `evaluate` does, on the running event loop."""
    prepared = Prepared(dataset, workflow, evaluators, run, trials, options)
    with _notebook_view(prepared) as view:
        return await _aevaluated(prepared, view)


def plan(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | Run | Literal[False] | None = None,
    trials: int = 1,
    **options: Unpack[RunOptions],
) -> Plan:
    """Say what `evaluate` would do, and do nothing."""
    return plan_prepared(Prepared(dataset, workflow, evaluators, run, trials, options))


# ---- for the command line and the integrations --------------------------------------------------


def evaluate_prepared(prepared: Prepared) -> EvaluationResult:
    """Do what `evaluate` does."""
    with _notebook_view(prepared) as view, _evaluation(prepared, view) as evaluation:
        evaluation.open()
        with evaluation.handling_signals():
            if running_loop() is None:
                run_here(evaluation.execute(), given_up=list)
            else:  # a notebook
                work = lambda: run_here(evaluation.execute(), given_up=list)  # noqa: E731 - a thread's
                run_in_thread(work, on_interrupt=evaluation.stop)
            result = evaluation.finish()
        evaluation.publish(result)
        return result


def plan_prepared(prepared: Prepared) -> Plan:
    """Say what `evaluate_prepared` would do, and do nothing."""
    return Planner(_request(prepared, None)).look()


def why_prepared(prepared: Prepared, item: str | None = None) -> Why:
    """Say what each step is made of and what differs from what the run has, and do nothing."""
    return Planner(_request(prepared, None)).why(item)


# ---- how it is done -----------------------------------------------------------------------------


async def _aevaluated(prepared: Prepared, view: Watcher | None) -> EvaluationResult:
    threads = Threads()
    evaluation = EvaluationSession(_request(prepared, view))
    try:
        await uninterrupted(threads.run(lambda _: evaluation.open(), None))
        with evaluation.handling_signals():
            try:
                await evaluation.execute()
            except asyncio.CancelledError:
                # Stopped is not lost: what is finished is in the files all the same.
                await uninterrupted(threads.run(lambda _: _ended(evaluation), None))
                raise
            return await uninterrupted(threads.run(lambda _: _ended(evaluation), None))
    finally:
        await uninterrupted(threads.run(lambda _: evaluation.close(), None))
        threads.close()


def _ended(evaluation: EvaluationSession) -> EvaluationResult:
    result = evaluation.finish()
    evaluation.publish(result)
    return result


@contextmanager
def _evaluation(prepared: Prepared, view: Watcher | None = None) -> Iterator[EvaluationSession]:
    evaluation = EvaluationSession(_request(prepared, view))
    try:
        yield evaluation
    finally:
        evaluation.close()


@contextmanager
def _notebook_view(prepared: Prepared) -> Iterator[Watcher | None]:
    """Show a live table where a notebook runs us and nobody else watches."""
    watcher, _ = as_watcher(prepared.options.get("watcher"))
    if watcher is not None or not in_notebook():
        yield None
        return
    with NotebookView() as view:
        yield view


def _request(prepared: Prepared, view: Watcher | None) -> Request:
    """Check everything that was asked, and read the dataset."""
    options = prepared.options
    check_options(options, RunOptions.__annotations__, "evaluate")
    whole_number_from(1, trials=prepared.trials)
    run = as_run(prepared.run)
    version, on_change = options.get("version"), options.get("on_change")
    secrets, mask = secrets_in(options)
    watcher, on_item_complete = as_watcher(options.get("watcher"))
    flow = as_workflow(prepared.workflow, version=version)
    dataset, selection = _dataset(prepared.dataset, prepared.limit)
    evaluators = as_evaluators(prepared.evaluators)
    redo = as_redo(options.get("redo"))
    names = [evaluator.name for evaluator in evaluators]
    redo_steps, redo_items = forced(redo, on_change, names, dataset.items, selection)
    return Request(
        dataset.items,
        flow,
        evaluators,
        None if run is None else Path(run.path or Path("runs") / flow.name),
        prepared.trials,
        selection,
        redo=redo_steps,
        redo_items=redo_items,
        on_change=on_change,
        # A version says it all.
        depends_on=None if version is not None else as_declared(options.get("depends_on")),
        retry_failed=as_retry(options.get("retry")).failed,
        durability="flush" if run is None else run.durability,
        trace_filter=prepared.trace_filter,
        bare_outputs=prepared.bare_outputs,
        on_item_complete=on_item_complete,
        on_end=prepared.on_end,
        watcher=watcher or view,
        stop_grace_s=prepared.stop_grace_s,
        configuration=prepared.configuration,
        made_by=prepared.made_by,
        prices=options.get("prices"),
        mask=mask,
        secrets=[*secrets, *prepared.known_secrets],
        early_stop=options.get("early_stop", True),
        bad_rows=dataset.bad_rows,
        dataset_files=() if dataset.path is None else (dataset.path,),
        options=executor_options(options),
    )


def _dataset(given: Any, limit: int | None) -> tuple[LoadedDataset, Selection]:
    if isinstance(given, LoadedDataset):
        return given, Selection(limit=limit)
    dataset = given if isinstance(given, Dataset) else Dataset(given)
    selection = dataset.selection
    if limit is not None:
        selection = replace(selection, limit=limit)
    # They select what this session is about, and make the dataset no shorter.
    return replace(dataset, limit=None, sample=None).load(), selection
