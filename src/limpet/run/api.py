"""Dataset → workflow → evaluators: every cell durable."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast

from limpet.arguments import whole_number_from
from limpet.datasets import Dataset, load
from limpet.datasets.choosing import Selection
from limpet.evaluators import as_evaluators
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.loops import run_here, run_in_thread, running_loop
from limpet.executors.options import ExecutorOptions
from limpet.executors.threads import Threads, to_its_end
from limpet.fingerprints.declared import DependsOn, as_declared
from limpet.journal.writer import Durability
from limpet.run.executing.session import Evaluation
from limpet.run.planning.code_change import OnChange
from limpet.run.planning.forcing import forced
from limpet.run.planning.plan import Plan
from limpet.run.planning.why import Why
from limpet.run.progress.notebook import NotebookView, in_notebook
from limpet.run.progress.watcher import Watcher
from limpet.run.request import OnEnd, OnItem, Request
from limpet.run.results.costs import Prices, check_prices
from limpet.run.results.evaluation_result import EvaluationResult
from limpet.text import did_you_mean
from limpet.workflows import as_workflow

TIMEOUT_S = 600


class DatasetOptions(TypedDict, total=False):
    """How the dataset is read: see `limpet.datasets.load`."""

    id: str | None
    input: str | None
    expected: str | None
    on_bad_row: Literal["raise", "skip"]
    filter: Mapping[str, Any] | None
    limit: int | None
    sample: int | None
    shuffle: bool
    seed: int
    sheet: str | None


class RunOptions(TypedDict, total=False):
    """How the run behaves."""

    version: str | None
    depends_on: Mapping[str, Sequence[str]] | DependsOn | None
    redo: bool | Sequence[str]
    redo_items: Sequence[str] | None
    on_change: OnChange | None
    retry_failed: bool
    durability: Durability
    write_output: bool
    trace_filter: Sequence[str] | None
    bare_outputs: bool
    on_item_complete: OnItem | None
    on_end: OnEnd | None
    watcher: Watcher | None
    stop_grace_s: float
    configuration: Mapping[str, Any] | None
    made_by: Mapping[str, Any] | None
    prices: Prices | None
    mask: bool
    secrets: Sequence[str]
    early_stop: bool


class EvaluationOptions(DatasetOptions, RunOptions, ExecutorOptions, total=False):
    """Everything an evaluation can be told by name."""


def evaluate(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | None = None,
    trials: int = 1,
    **options: Unpack[EvaluationOptions],
) -> EvaluationResult:
    """Run a workflow over a dataset, score what comes out, and never lose a finished answer.

    Run again, it goes on where it stopped; after an edit it runs only what the edit touched.

    Args:
        dataset: A path, rows, a DataFrame, or a function that returns one of them.
        workflow: A function, plain or async, a class, "module:name", or a Workflow.
        evaluators: Functions or evaluators; a mapping gives them their names.
        run: The run's directory; None: `runs/` and the workflow's name.
        trials: How often each item is asked.
        **options: How the dataset is read (`id`, `input`, `expected`, `on_bad_row`, `filter`,
            `limit`, `sample`, `shuffle`, `seed`); how the run behaves (`version` declares what the
            workflow is, in place of its code; `depends_on` what else its answers depend on: a dict
            of the names of `files`, of variables in `env` and of `packages`; `on_change` "redo" or
            "keep" when it changed; `redo` runs steps again whatever is there: True for the
            workflow, or the names of steps; `redo_items` only these items; `retry_failed`;
            `durability`; `write_output=False` for a temporary directory; `on_item_complete` is
            called with an `ItemResult` when an item's answer or failure is on disk; `on_end` with
            the result when all files are written, before the run is unlocked; `watcher` is told
            of all that happens; `stop_grace_s` is how long calls in flight may go on after an
            interrupt; `configuration` is written into `run.json`, and so is `made_by`, by which
            `limpet why` finds the file that the command line ran; `prices` are what a million
            tokens cost, by model; `mask=False` keeps secrets in answers, scores and errors on disk
            as they are; `secrets` are such as no variable or header holds; `early_stop=False` goes
            on though the first cells of a step all fail alike); and those of `AsyncExecutor`, with
            `concurrency="auto"` and `timeout=600`.

    Raises:
        DatasetError: The dataset cannot be used as it is.
        FunctionChangedError: The workflow changed, and `on_change` does not say what to do.
        JournalError: The run's directory cannot be used as it is.
    """
    with _shown(options) as told:
        return _evaluate(dataset, workflow, evaluators, run, trials, told)


def _evaluate(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any],
    run: str | Path | None,
    trials: int,
    options: EvaluationOptions,
) -> EvaluationResult:
    evaluation, threads = _evaluation(dataset, workflow, evaluators, run, trials, options)
    try:
        return _conducted(evaluation)
    finally:
        evaluation.close()
        threads.close()


def _conducted(evaluation: Evaluation) -> EvaluationResult:
    evaluation.open()
    with evaluation.hearing_signals():
        if running_loop() is None:
            run_here(evaluation.conduct(), given_up=list)
        else:  # a notebook
            work = lambda: run_here(evaluation.conduct(), given_up=list)  # noqa: E731 - a thread's
            run_in_thread(work, on_interrupt=evaluation.stop)
        result = evaluation.finish()
    evaluation.hand_over(result)
    return result


async def aevaluate(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | None = None,
    trials: int = 1,
    **options: Unpack[EvaluationOptions],
) -> EvaluationResult:
    """Do what `evaluate` does, on the running event loop."""
    with _shown(options) as told:
        return await _aevaluate(dataset, workflow, evaluators, run, trials, told)


async def _aevaluate(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any],
    run: str | Path | None,
    trials: int,
    options: EvaluationOptions,
) -> EvaluationResult:
    evaluation, threads = _evaluation(dataset, workflow, evaluators, run, trials, options)
    try:
        await to_its_end(threads.run(lambda _: evaluation.open(), None))
        with evaluation.hearing_signals():
            try:
                await evaluation.conduct()
            except asyncio.CancelledError:
                # Stopped is not lost: what is finished is in the files all the same.
                await to_its_end(threads.run(lambda _: _ended(evaluation), None))
                raise
            return await to_its_end(threads.run(lambda _: _ended(evaluation), None))
    finally:
        await to_its_end(threads.run(lambda _: evaluation.close(), None))
        threads.close()


def _ended(evaluation: Evaluation) -> EvaluationResult:
    result = evaluation.finish()
    evaluation.hand_over(result)
    return result


def plan(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | None = None,
    trials: int = 1,
    **options: Unpack[EvaluationOptions],
) -> Plan:
    """Say what `evaluate` would do, and do nothing."""
    evaluation, threads = _evaluation(dataset, workflow, evaluators, run, trials, options)
    try:
        return evaluation.look()
    finally:
        evaluation.close()
        threads.close()


def why(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any] = (),
    run: str | Path | None = None,
    trials: int = 1,
    item: str | None = None,
    **options: Unpack[EvaluationOptions],
) -> Why:
    """Say what each step is made of and what differs from what the run has, and do nothing."""
    evaluation, threads = _evaluation(dataset, workflow, evaluators, run, trials, options)
    try:
        return evaluation.why(item)
    finally:
        evaluation.close()
        threads.close()


def _evaluation(
    dataset: Any,
    workflow: Any,
    evaluators: Iterable[Any] | Mapping[str, Any],
    run: str | Path | None,
    trials: int,
    options: EvaluationOptions,
) -> tuple[Evaluation, Threads]:
    _check_names(options)
    whole_number_from(1, trials=trials)
    if options.get("on_change") not in (None, "redo", "keep"):
        raise ValueError(f'on_change={options.get("on_change")!r}: must be "redo", "keep" or None')
    _check_masking(options.get("mask", True), options.get("secrets", ()))
    if options.get("prices") is not None:
        check_prices(cast("Prices", options["prices"]))
    told = cast("dict[str, Any]", options)
    behaviour = {name: told[name] for name in RunOptions.__annotations__ if name in told}
    version = behaviour.pop("version", None)
    depends_on = as_declared(behaviour.get("depends_on"))
    behaviour["depends_on"] = depends_on if version is None else None  # a version says it all
    flow = as_workflow(workflow, version=version)
    keep = behaviour.pop("write_output", True)
    threads = Threads()
    executing: Any = {"concurrency": "auto", "exit_on_error": False, "timeout": TIMEOUT_S}
    executing["enable_dynamic_concurrency"] = False  # a number is a number
    executing |= {name: told[name] for name in ExecutorOptions.__annotations__ if name in told}
    AsyncExecutor(_nothing, **executing)  # a wrong option is said before anything is opened
    rows = _dataset(dataset, told)
    scoring = as_evaluators(evaluators)
    items, selection = rows.items, _selection(told)
    behaviour |= forced(behaviour, [one.name for one in scoring], items, selection)
    request = Request(
        items,
        flow,
        scoring,
        (Path(run) if run is not None else Path("runs") / flow.name) if keep else None,
        trials,
        selection,
        options=executing,
        bad_rows=rows.bad_rows,
        dataset_files=() if rows.path is None else (rows.path,),
        **behaviour,
    )
    return Evaluation(request), threads


@contextmanager
def _shown(options: EvaluationOptions) -> Iterator[EvaluationOptions]:
    """Show a live table where a notebook runs us and nobody else watches."""
    if options.get("watcher") is not None or not in_notebook():
        yield options
        return
    with NotebookView() as view:
        told = options.copy()
        told["watcher"] = view
        yield told


async def _nothing(_: Any) -> None:
    """Stand in for a step."""


def _dataset(dataset: Any, told: Mapping[str, Any]) -> Dataset:
    if isinstance(dataset, Dataset):
        return dataset
    reading: Any = {name: told[name] for name in DatasetOptions.__annotations__ if name in told}
    for name in ("limit", "sample"):
        reading.pop(name, None)  # they select what this session is about, and make it no shorter
    return load(dataset, **reading)


def _check_masking(mask: Any, secrets: Any) -> None:
    if not isinstance(mask, bool):
        raise TypeError(f"mask={mask!r}: must be True or False")
    if isinstance(secrets, str) or not all(isinstance(one, str) for one in secrets):
        raise TypeError("secrets: must be a list of texts")  # they are not shown


def _selection(told: Mapping[str, Any]) -> Selection:
    sample, limit, seed = told.get("sample"), told.get("limit"), told.get("seed", 0)
    if sample is not None:
        whole_number_from(1, sample=sample)
    if limit is not None:
        whole_number_from(1, limit=limit)
    return Selection(sample, limit, seed)


def _check_names(options: Mapping[str, Any]) -> None:
    known = EvaluationOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"{name!r} is not an option of evaluate{did_you_mean(name, known)}")
