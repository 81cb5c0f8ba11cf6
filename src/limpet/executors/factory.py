"""Which executor suits this thread and event loop?"""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable
from inspect import iscoroutine
from itertools import count
from typing import Any, Generic

from limpet.arguments import function, signal_or_none, whole_number_from
from limpet.errors import PermanentError
from limpet.executors import settlement
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import (
    UNSET,
    ExecutionDetails,
    Finished,
    InputState,
    InputT,
    OutputT,
    Unset,
)
from limpet.executors.inputs import NOTHING, OrderedResults, open_plain_inputs
from limpet.executors.interrupts import on_signal
from limpet.executors.loops import is_nest_patched, running_loop
from limpet.executors.progress import ProgressReporter
from limpet.executors.retry import Backoff, Classify, RetryRules
from limpet.pacing.aimd import now
from limpet.pacing.signals import FailureKind

# ---- How does a sync function run over many inputs, one at a time, and stop cleanly? ------------

_LONGEST_SLEEP_S = 1.0  # a signal just before a wait goes unnoticed until the wait ends


class SyncExecutor(Generic[InputT, OutputT]):
    """Runs a sync function over inputs, one at a time, with retries.

    Args:
        generation_fn: The function to call with each input.
        tqdm_bar_format: Format of the progress bar; None: no bar.
        max_retries: Retries before a failed input is FAILED.
        exit_on_error: Stop the run at the first FAILED input.
        fallback_return_value: The output of inputs without a result.
        termination_signal: The signal that stops the run; None: no signal is handled. The first
            lets the current call end, the second interrupts it. Handled on the main thread only.
        classify: Overrides what an error means: return a `FailureKind` (or its name), a
            `Signal`, or None for the built-in classification.
        backoff: Waits between retries, unless the server names one.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        generation_fn: Callable[[InputT], OutputT],
        tqdm_bar_format: str | None = None,
        max_retries: int = 10,
        exit_on_error: bool = True,  # noqa: FBT001, FBT002 - the contract's positions
        fallback_return_value: OutputT | Unset = UNSET,
        termination_signal: signal.Signals | None = signal.SIGINT,
        *,
        classify: Classify | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.generation_fn = function(generation_fn=generation_fn)
        self.tqdm_bar_format = tqdm_bar_format
        self.exit_on_error = exit_on_error
        self.fallback_return_value = fallback_return_value
        self.termination_signal = signal_or_none(termination_signal=termination_signal)
        self.classify = classify
        self.backoff = Backoff() if backoff is None else backoff
        self.rules = RetryRules(max_retries, classify, self.backoff)
        self.max_retries = self.rules.max_retries
        self.stop_reason: Exception | None = None
        """Why the latest run stopped before all inputs were done; None if it was not stopped."""

    def run(self, inputs: Iterable[InputT]) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Run the function over all inputs. Outputs and details are in input order.

        Raises:
            TypeError: `inputs` is not iterable, or the function is async.
            Exception: Raised by iterating over `inputs`.
        """
        run: _SyncRun[InputT, OutputT] = _SyncRun(self, inputs)
        try:
            run.conduct()
        finally:
            self.stop_reason = run.stop_reason
        return run.results.in_order()


class _AsyncFunctionError(PermanentError, TypeError):
    """The function is async."""


class _SyncRun(Generic[InputT, OutputT]):
    def __init__(self, executor: SyncExecutor[InputT, OutputT], inputs: Iterable[InputT]) -> None:
        self._executor = executor
        self._inputs = open_plain_inputs(inputs)
        self._progress = ProgressReporter(executor.tqdm_bar_format, self._inputs.total)
        # The signal handler runs in this thread, perhaps while a lock or stream is being used. It
        # may only set flags and release a bare lock; an Event takes a lock of its own.
        self._signals_received = 0
        self._sleeping = threading.Lock()
        self._sleeping.acquire()
        self.stop_reason: Exception | None = None
        self.results = OrderedResults(self._inputs, executor.fallback_return_value)

    def conduct(self) -> None:
        with on_signal(self._executor.termination_signal, self._interrupt):
            try:
                self._take_all()
            except KeyboardInterrupt:
                if self._signals_received <= 1:
                    raise
                self._stop(settlement.interrupted())
            finally:
                self._progress.close()
        if self._inputs.error is not None:
            raise self._inputs.error

    def _take_all(self) -> None:
        for index in count():
            if self._stopping() or (taken := self._inputs.take()) is NOTHING:
                return
            state = InputState(index, taken)
            self.results.sink.take(state)
            while self._attempt(state):
                state.retries += 1

    def _stopping(self) -> bool:
        if self._signals_received and self.stop_reason is None:
            self._stop(settlement.interrupted())
        return self.stop_reason is not None

    def _attempt(self, state: InputState) -> bool:
        """Make one attempt. Returns whether to make another; the wait is already over."""
        started_at = now()
        try:
            output = self._call(state.input)
        except Exception as error:
            if isinstance(error, _AsyncFunctionError) and state.index == 0:
                raise
            state.details.log_exception(error)
            return self._should_retry(state, error)
        finally:
            state.details.log_runtime(started_at)
        state.details.complete()
        self.results.sink.finish(Finished(state.index, state.input, output, None, state.details))
        self._progress.advance()
        return False

    def _call(self, payload: InputT) -> Any:
        value = self._executor.generation_fn(payload)
        if iscoroutine(value):
            value.close()
            name = getattr(self._executor.generation_fn, "__qualname__", "the function")
            raise _AsyncFunctionError(
                f"{name} returned a coroutine: SyncExecutor needs a sync function; use "
                "AsyncExecutor for an async one"
            )
        return value

    def _should_retry(self, state: InputState, error: Exception) -> bool:
        rules = self._executor.rules
        signal, wait_s = rules.decide(error, state.retries, self._progress, state.mistakes)
        state.mistakes += signal.kind is FailureKind.MISTAKE
        if signal.kind is FailureKind.QUOTA:
            self._stop(settlement.quota_exhausted(error, signal.retry_after_s))
            return False
        if wait_s is None:
            state.details.fail()
            self._progress.say_failed(state, error)
            self._progress.advance()
            if self._executor.exit_on_error:
                self._stop(error)
            return False
        self._progress.say_retry(state, error, wait_s)
        self._sleep(wait_s)
        return not self._stopping()

    def _sleep(self, wait_s: float) -> None:
        """Sleep until the wait is over or a signal arrives."""
        until = now() + wait_s
        while not self._signals_received and (remaining_s := until - now()) > 0:
            self._sleeping.acquire(timeout=min(remaining_s, _LONGEST_SLEEP_S))

    def _stop(self, reason: Exception) -> None:
        if self.stop_reason is None:
            self.stop_reason = reason
            self._progress.say_stop(reason, in_flight=0)

    def _interrupt(self) -> None:
        self._signals_received += 1
        if self._signals_received > 1:
            # The current call blocks this thread: only an exception ends it.
            raise KeyboardInterrupt
        self._sleeping.release()


# ---- Which executor suits this thread and event loop? -------------------------------------------

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
            "an event loop is already running here (a notebook?), so the calls run one after the "
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
