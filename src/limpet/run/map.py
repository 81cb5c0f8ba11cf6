"""A durable, adaptive, resumable map over any function."""

import inspect
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from collections.abc import Mapping as StrMapping
from pathlib import Path
from typing import Any, Unpack, overload

from limpet.arguments import function as checked_function
from limpet.executors.attempts import InputT, OutputT
from limpet.executors.options import ExecutorOptions, check_names
from limpet.executors.threads import Threads, to_its_end
from limpet.fingerprints.declared import as_declared
from limpet.journal.writer import Durability
from limpet.run.journaled_map import KeptMapping
from limpet.run.plain_map import Mapping
from limpet.run.planning.code_change import OnChange
from limpet.run.results.map_result import MapResult

Names = StrMapping[str, Sequence[str]]
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]"


@overload
def map(  # noqa: A001 - it is one
    fn: Callable[[InputT], Awaitable[OutputT]],
    inputs: Iterable[InputT],
    *,
    journal: str | Path | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    version: str | None = ...,
    depends_on: Names | None = ...,
    on_change: OnChange | None = ...,
    durability: Durability = ...,
    mask: bool = ...,
    **options: Unpack[ExecutorOptions],
) -> MapResult[InputT, OutputT]: ...


@overload
def map(  # noqa: A001 - it is one
    fn: Callable[[InputT], OutputT],
    inputs: Iterable[InputT],
    *,
    journal: str | Path | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    version: str | None = ...,
    depends_on: Names | None = ...,
    on_change: OnChange | None = ...,
    durability: Durability = ...,
    mask: bool = ...,
    **options: Unpack[ExecutorOptions],
) -> MapResult[InputT, OutputT]: ...


def map(  # noqa: A001 - it is one
    fn: Callable[[Any], Any],
    inputs: Iterable[Any],
    *,
    journal: str | Path | None = None,
    key: Callable[[Any], Any] | None = None,
    version: str | None = None,
    depends_on: Names | None = None,
    on_change: OnChange | None = None,
    durability: Durability = "sync",
    mask: bool = True,
    **options: Unpack[ExecutorOptions],
) -> MapResult[Any, Any]:
    """Call a function on every input; with a journal, never twice for the same result.

    Each result is on disk before it counts. Run again after a crash, a kill or a stop, it keeps
    what is there and runs what is missing. Works in a notebook as it is.

    Args:
        fn: What to call: async, or plain (then it runs in threads).
        inputs: What to call it on.
        journal: A `.jsonl` file for the results, with its notes beside it in `<name>.d/`; or a
            directory for all of them; None: nothing is kept.
        key: Returns an input's name; inputs are then told apart by it alone. None: by their
            content, equal ones by their order.
        version: Declares what `fn` is, in place of its code.
        depends_on: Declares what else its results depend on: a dict of the names of `files`, of
            variables in `env`, and of `packages`.
        on_change: What to do when `fn` is not what made the results on disk: "redo" them, or
            "keep" them.
        durability: When a result counts: "sync" (on the disk), "interval" (on the disk within a
            second), "flush" (survives a killed process only).
        mask: Whether secrets of the environment are masked in what is kept of outputs and errors.
            An output comes back as it is kept.
        **options: As for `AsyncExecutor`; `concurrency` is "auto", `exit_on_error` is False, and
            a number is held: `enable_dynamic_concurrency` is False.

    Returns:
        Outputs in input order, failures, details, and what was kept. With a journal, an output is
        what JSON keeps of it: a tuple is a list, a dataclass a dict.

    Raises:
        FunctionChangedError: `fn` changed, and `on_change` does not say what to do.
        RunLockedError: Another process writes to this journal.
        JournalError: The journal could not be read or written; what was finished is in it.
        Exception: With `exit_on_error=True`, what the first failed input raised.
    """
    if isinstance(inputs, AsyncIterable):
        raise TypeError("inputs: an async iterable needs `await limpet.amap(...)`")
    mapping = _mapping(
        fn, inputs, journal, key, version, depends_on, on_change, durability, mask, options
    )
    try:
        mapping.open()
        return mapping.finish(*mapping.executor.run(mapping.inputs))
    finally:
        mapping.close()


@overload
async def amap(
    fn: Callable[[InputT], Awaitable[OutputT]],
    inputs: Iterable[InputT] | AsyncIterable[InputT],
    *,
    journal: str | Path | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    version: str | None = ...,
    depends_on: Names | None = ...,
    on_change: OnChange | None = ...,
    durability: Durability = ...,
    mask: bool = ...,
    **options: Unpack[ExecutorOptions],
) -> MapResult[InputT, OutputT]: ...


@overload
async def amap(
    fn: Callable[[InputT], OutputT],
    inputs: Iterable[InputT] | AsyncIterable[InputT],
    *,
    journal: str | Path | None = ...,
    key: Callable[[InputT], Any] | None = ...,
    version: str | None = ...,
    depends_on: Names | None = ...,
    on_change: OnChange | None = ...,
    durability: Durability = ...,
    mask: bool = ...,
    **options: Unpack[ExecutorOptions],
) -> MapResult[InputT, OutputT]: ...


async def amap(
    fn: Callable[[Any], Any],
    inputs: Iterable[Any] | AsyncIterable[Any],
    *,
    journal: str | Path | None = None,
    key: Callable[[Any], Any] | None = None,
    version: str | None = None,
    depends_on: Names | None = None,
    on_change: OnChange | None = None,
    durability: Durability = "sync",
    mask: bool = True,
    **options: Unpack[ExecutorOptions],
) -> MapResult[Any, Any]:
    """Do what `map` does, on the running event loop. `inputs` may be an async iterable."""
    if isinstance(inputs, AsyncIterable) and journal is not None:
        inputs = [one async for one in inputs]
    mapping = _mapping(
        fn, inputs, journal, key, version, depends_on, on_change, durability, mask, options
    )
    threads = Threads()  # not asyncio's: calls that hang may hold all of those
    try:
        await to_its_end(threads.run(lambda _: mapping.open(), None))
        results = await mapping.executor.execute(mapping.inputs)
        return await to_its_end(threads.run(lambda _: mapping.finish(*results), None))
    finally:
        await to_its_end(threads.run(lambda _: mapping.close(), None))
        threads.close()


def _mapping(
    fn: Any,
    inputs: Any,
    journal: str | Path | None,
    key: Callable[[Any], Any] | None,
    version: str | None,
    depends_on: Names | None,
    on_change: OnChange | None,
    durability: Durability,
    mask: bool,  # noqa: FBT001 - private
    options: ExecutorOptions,
) -> Mapping:
    checked_function(fn=fn)
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"fn={fn!r}: must return its result, and not yield it")
    for hook in ("on_complete", "on_attempt_start", "on_attempt_end"):
        if options.get(hook) is not None:
            checked_function(**{hook: options.get(hook)})
    check_names(options)
    if on_change not in (None, "redo", "keep"):
        raise ValueError(f'on_change={on_change!r}: must be "redo", "keep" or None')
    if version is not None and not isinstance(version, str):
        raise TypeError(f"version={version!r}: must be a text or None")
    declared = as_declared(depends_on)
    if key is not None:
        checked_function(key=key)
    if not isinstance(mask, bool):
        raise TypeError(f"mask={mask!r}: must be True or False")
    settled: ExecutorOptions = {
        "concurrency": "auto",
        "exit_on_error": False,
        "enable_dynamic_concurrency": False,  # a number is a number
        **options,
    }
    if "tqdm_bar_format" not in options and _is_watched():
        settled["tqdm_bar_format"] = _BAR
    if journal is None:
        return Mapping(fn, inputs, settled)
    return KeptMapping(
        fn,
        list(inputs),
        settled,
        journal,
        key,
        version,
        on_change,
        durability,
        mask=mask,
        depends_on=declared,
    )


def _is_watched() -> bool:
    """Tell whether a person sees what is written to stderr."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
