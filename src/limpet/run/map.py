"""A durable, adaptive, resumable map over any function."""

import inspect
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from limpet.arguments import function as checked_function
from limpet.datasets.sources import is_frame, rows_of_frame
from limpet.executors.details import InputT, OutputT
from limpet.executors.options import ExecutorOptions
from limpet.executors.progress import OnComplete
from limpet.executors.threads import Threads, uninterrupted
from limpet.fingerprints.steps import DependsOn
from limpet.run.executing.stopping import unless_stopped
from limpet.run.journaled_map import JournaledMap, MapRun
from limpet.run.options import (
    MAX_RETRIES,
    TIMEOUT_S,
    MapOptions,
    Pace,
    Retry,
    Run,
    as_options,
    as_run,
    with_options,
)
from limpet.run.results.map_result import MapResult
from limpet.run.run_file import OnChange
from limpet.secrets.masking import Masking

_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]"


@overload
def map(  # noqa: A001 - like the builtin
    fn: Callable[[InputT], Awaitable[OutputT]],
    inputs: Iterable[InputT],
    *,
    journal: str | Path | Run | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    watcher: OnComplete | None = ...,
    **options: Unpack[MapOptions],
) -> MapResult[InputT, OutputT]: ...


@overload
def map(  # noqa: A001 - like the builtin
    fn: Callable[[InputT], OutputT],
    inputs: Iterable[InputT],
    *,
    journal: str | Path | Run | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    watcher: OnComplete | None = ...,
    **options: Unpack[MapOptions],
) -> MapResult[InputT, OutputT]: ...


@with_options
def map(  # noqa: A001 - like the builtin
    fn: Callable[[Any], Any],
    inputs: Iterable[Any],
    *,
    journal: str | Path | Run | None = None,
    key: Callable[[Any], Any] | None = None,
    watcher: OnComplete | None = None,
    pace: int | Literal["auto"] | Pace = "auto",
    retry: int | Retry = MAX_RETRIES,
    timeout: float = TIMEOUT_S,
    on_change: OnChange | None = None,
    version: str | None = None,
    depends_on: Mapping[str, Sequence[str]] | DependsOn | None = None,
    secrets: Sequence[str] = (),
    mask: bool = True,
) -> MapResult[Any, Any]:
    """Call a function on every input; with a journal, never twice for the same result.

    Each result is on disk before it counts. Run it again after a crash, a kill or a stop: it keeps
    finished results and runs what is missing. Works in a notebook, too.

    Args:
        fn: The function: async, or plain (then it runs in threads).
        inputs: The inputs; for a DataFrame, its rows as dicts.
        journal: A `.jsonl` file for the results, with further files beside it in `<name>.d/`; or a
            directory for all of them; or a `Run`; None: nothing is kept.
        key: Returns a name that identifies the input. None: inputs are identified by their
            content, equal ones by their order.
        watcher: A function that is called with a `Finished` when an input is done.
        pace: How many calls are in flight: a number, "auto", or a `Pace`.
        retry: How often a failed call is tried again, or a `Retry`.
        timeout: How many seconds an attempt may take.
        on_change: What to do if the function changed: "redo" its results, or "keep" them.
        version: Identifies the function in place of its code.
        depends_on: Declares what else its results depend on, as for `evaluate`.
        secrets: Further values to mask in what is written.
        mask: Whether secrets are masked in results and errors. With a journal, outputs are returned
            as they are kept.

    Returns:
        Outputs in input order, failures, details, and how many were kept. With a journal, an output
        is what JSON keeps of it: a tuple becomes a list, a dataclass a dict.

    Raises:
        LimpetError: It stopped before all inputs were done, for this reason: a quota, an outage, a
            full disk. Finished results are in the error's `result`, and in the journal.
        KeyboardInterrupt: SIGINT stopped it; with the same `result`.
        SystemExit: SIGTERM or SIGHUP stopped it; with the same `result`.
        FunctionChangedError: `fn` changed, and `on_change` does not say what to do.
        RunLockedError: Another process writes to this journal.
        JournalError: The journal could not be read or written; it has the finished results.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    if isinstance(inputs, AsyncIterable):
        raise TypeError("inputs: an async iterable needs `await limpet.amap(...)`")
    mapping = _mapping(**locals())
    try:
        mapping.open()
        with mapping.handling_signals():
            result = mapping.finish(*mapping.executor.run(mapping.inputs))
    finally:
        mapping.close()
    return unless_stopped(result)


@overload
async def amap(
    fn: Callable[[InputT], Awaitable[OutputT]],
    inputs: Iterable[InputT] | AsyncIterable[InputT],
    *,
    journal: str | Path | Run | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    watcher: OnComplete | None = ...,
    **options: Unpack[MapOptions],
) -> MapResult[InputT, OutputT]: ...


@overload
async def amap(
    fn: Callable[[InputT], OutputT],
    inputs: Iterable[InputT] | AsyncIterable[InputT],
    *,
    journal: str | Path | Run | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    watcher: OnComplete | None = ...,
    **options: Unpack[MapOptions],
) -> MapResult[InputT, OutputT]: ...


@with_options
async def amap(
    fn: Callable[[Any], Any],
    inputs: Iterable[Any] | AsyncIterable[Any],
    *,
    journal: str | Path | Run | None = None,
    key: Callable[[Any], Any] | None = None,
    watcher: OnComplete | None = None,
    pace: int | Literal["auto"] | Pace = "auto",
    retry: int | Retry = MAX_RETRIES,
    timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - of each attempt
    on_change: OnChange | None = None,
    version: str | None = None,
    depends_on: Mapping[str, Sequence[str]] | DependsOn | None = None,
    secrets: Sequence[str] = (),
    mask: bool = True,
) -> MapResult[Any, Any]:
    """Do what `map` does, on the running event loop. `inputs` may be an async iterable."""
    if isinstance(inputs, AsyncIterable) and journal is not None:
        inputs = [value async for value in inputs]
    mapping = _mapping(**locals())
    threads = Threads()  # not asyncio's threads: calls that hang may hold all of them
    try:
        await uninterrupted(threads.run(lambda _: mapping.open(), None))
        with mapping.handling_signals():
            results = await mapping.executor.execute(mapping.inputs)
            result = await uninterrupted(threads.run(lambda _: mapping.finish(*results), None))
    finally:
        await uninterrupted(threads.run(lambda _: mapping.close(), None))
        threads.close()
    return unless_stopped(result)


def _mapping(
    fn: Any,
    inputs: Any,
    journal: str | Path | Run | None,
    key: Callable[[Any], Any] | None,
    watcher: OnComplete | None,
    **options: Any,
) -> MapRun:
    checked_function(fn=fn)
    if is_frame(inputs):  # iterating over it gives column names
        inputs = rows_of_frame(inputs)
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"fn={fn!r}: must return its result, not yield it")
    checked = as_options(options)
    for name, function in (("key", key), ("watcher", watcher)):
        if function is not None:
            checked_function(**{name: function})
    settled: ExecutorOptions = {**checked.executors, "on_complete": watcher}
    if _shows_bar():
        settled["tqdm_bar_format"] = _BAR
    run = None if journal is None else as_run(journal, "journal")
    if run is None:
        return MapRun(fn, inputs, settled, Masking(checked.secrets))
    if run.path is None:
        raise TypeError(f"journal={journal!r}: must have a path")
    return JournaledMap(fn, list(inputs), settled, run, key, checked)


def _shows_bar() -> bool:
    """Return whether to show a progress bar: a person reads stderr."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
