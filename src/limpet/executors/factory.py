"""Which executor suits this thread and event loop?"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

from limpet.arguments import function, whole_number_from
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import UNSET, InputT, OutputT, Unset
from limpet.executors.loops import is_nest_patched, running_loop
from limpet.executors.sync_executor import SyncExecutor

logger = logging.getLogger("limpet.executors")


def get_executor_on_sync_context(
    sync_fn: Callable[[InputT], OutputT],
    async_fn: Callable[[InputT], Awaitable[OutputT]],
    run_sync: bool = False,  # noqa: FBT001, FBT002 - the contract's positions
    concurrency: int = 3,
    tqdm_bar_format: str | None = None,
    max_retries: int = 10,
    exit_on_error: bool = True,  # noqa: FBT001, FBT002 - the contract's positions
    fallback_return_value: OutputT | Unset = UNSET,
    timeout: float | None = None,
) -> AsyncExecutor[InputT, OutputT] | SyncExecutor[InputT, OutputT]:
    """Return the executor whose `run` suits the caller's thread and event loop.

    Off the main thread, or with `run_sync=True`: a SyncExecutor. On the main thread with no
    running loop, or one patched by nest_asyncio: an AsyncExecutor. Under a running loop that is
    not patched: a SyncExecutor, with a warning that says what to do.

    Args:
        sync_fn: The sync version of the function.
        async_fn: The async version of the same function.
        run_sync: Always use the sync version.
        concurrency: Async only: maximum calls in flight.
        tqdm_bar_format: Format of the progress bar; None: no bar.
        max_retries: Retries of a failed input.
        exit_on_error: Stop the run at the first FAILED input.
        fallback_return_value: The output of inputs without a result.
        timeout: Async only: seconds an attempt may take; None: 60.
    """
    function(sync_fn=sync_fn)
    function(async_fn=async_fn)
    whole_number_from(1, concurrency=concurrency)
    off_main = threading.current_thread() is not threading.main_thread()
    loop = running_loop()
    if off_main and not run_sync:
        logger.warning(
            "not on the main thread, so the calls run one after the other; to run many at once, "
            "use AsyncExecutor(...).run(inputs), which works in any thread"
        )
    elif loop is not None and not run_sync and not _re_enterable(loop):
        logger.warning(
            "an event loop already runs here (a notebook?), so the calls run one after the "
            "other; to run many at once, `await AsyncExecutor(...).execute(inputs)`, or call "
            "`nest_asyncio.apply()` first"
        )
    elif not off_main and not run_sync:
        return AsyncExecutor(
            async_fn,
            concurrency=concurrency,
            tqdm_bar_format=tqdm_bar_format,
            max_retries=max_retries,
            exit_on_error=exit_on_error,
            fallback_return_value=fallback_return_value,
            timeout=timeout,
        )
    sync: SyncExecutor[InputT, OutputT] = SyncExecutor(
        sync_fn,
        tqdm_bar_format=tqdm_bar_format,
        max_retries=max_retries,
        exit_on_error=exit_on_error,
        fallback_return_value=fallback_return_value,
    )
    if off_main:
        sync.termination_signal = None
    return sync


def _re_enterable(loop: asyncio.AbstractEventLoop) -> bool:
    return is_nest_patched(loop) or bool(getattr(asyncio, "_nest_patched", False))
