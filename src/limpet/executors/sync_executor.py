"""How do many calls of a plain function run one after the other, and stop cleanly?"""

import signal
import threading
from collections.abc import Callable, Iterable
from inspect import iscoroutine
from typing import Any, Generic

from limpet.arguments import function, signal_or_none
from limpet.errors import PermanentError
from limpet.executors import reasons
from limpet.executors.attempts import Call, InputT, OutputT
from limpet.executors.details import UNSET, ExecutionDetails, Unset
from limpet.executors.inputs import NOTHING, open_plain_inputs
from limpet.executors.interrupts import hearing
from limpet.executors.progress import Progress
from limpet.executors.retry import Backoff, Classify, RetryRules
from limpet.pacing.clock import now
from limpet.pacing.signals import FailureKind

_LONGEST_REST_S = 3600.0  # in one go: a lock refuses waits beyond the platform's own limit


class SyncExecutor(Generic[InputT, OutputT]):
    """Runs a plain function over inputs, one after the other, with retries.

    Args:
        generation_fn: The function: one input in, an output out.
        tqdm_bar_format: The format of the progress bar; None: no bar.
        max_retries: How often a failed input is tried again before it is FAILED.
        exit_on_error: Stop the run at the first input that is FAILED.
        fallback_return_value: What stands in the outputs for inputs without a result.
        termination_signal: The signal that stops the run; None: none is handled. The first lets
            the current call end, the second breaks it off. Only heard on the main thread.
        classify: Your say on what an error means: a `FailureKind` (or its name), a `Signal`, or
            None to leave it to us.
        backoff: The waits between retries, where the server names none.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range.
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
        """Why the latest run stopped before all inputs were done; None if it did not."""

    def run(self, inputs: Iterable[InputT]) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Run the function over all inputs; outputs and details come in input order.

        Raises:
            TypeError: `inputs` cannot be iterated over, or the function is an async one.
            Exception: What iterating over `inputs` raised.
        """
        run: _SyncRun[InputT, OutputT] = _SyncRun(self, inputs)
        try:
            run.conduct()
        finally:
            self.stop_reason = run.stop_reason
        return run.outputs, run.details


class _AsyncFunctionError(PermanentError, TypeError):
    """The function is an async one."""


class _SyncRun(Generic[InputT, OutputT]):
    def __init__(self, executor: SyncExecutor[InputT, OutputT], inputs: Iterable[InputT]) -> None:
        self._executor = executor
        self._inputs = open_plain_inputs(inputs)
        self._progress = Progress(executor.tqdm_bar_format, self._inputs.total)
        # The signal's handler runs in this very thread, perhaps within a lock's or a stream's own
        # code: it may only set flags and let go of a bare lock, which an Event is not.
        self._signals_heard = 0
        self._resting = threading.Lock()
        self._resting.acquire()
        self.stop_reason: Exception | None = None
        self.outputs: list[OutputT | Unset] = []
        self.details: list[ExecutionDetails] = []

    def conduct(self) -> None:
        with hearing(self._executor.termination_signal, self._interrupt):
            try:
                self._take_all()
            except KeyboardInterrupt:
                if self._signals_heard <= 1:
                    raise
                self._stop(reasons.interrupted())
            finally:
                self._progress.close()
        for _ in range(len(self.outputs), self._inputs.total or 0):
            self.outputs.append(self._executor.fallback_return_value)
            self.details.append(ExecutionDetails())
        if self._inputs.error is not None:
            raise self._inputs.error

    def _take_all(self) -> None:
        while not self._stopping():
            taken = self._inputs.take()
            if taken is NOTHING:
                return
            call = Call(len(self.outputs), taken)
            self.outputs.append(self._executor.fallback_return_value)
            self.details.append(call.details)
            while self._attempt(call):
                call.retries += 1

    def _stopping(self) -> bool:
        if self._signals_heard and self.stop_reason is None:
            self._stop(reasons.interrupted())
        return self.stop_reason is not None

    def _attempt(self, call: Call) -> bool:
        """Try once; tell whether to try again, now that the wait is over."""
        started_at = now()
        try:
            self.outputs[call.index] = self._call(call.input)
        except Exception as error:
            if isinstance(error, _AsyncFunctionError) and call.index == 0:
                raise
            call.details.log_exception(error)
            return self._goes_on(call, error)
        finally:
            call.details.log_runtime(started_at)
        call.details.complete()
        self._progress.advance()
        return False

    def _call(self, payload: InputT) -> Any:
        value = self._executor.generation_fn(payload)
        if iscoroutine(value):
            value.close()
            name = getattr(self._executor.generation_fn, "__qualname__", "the function")
            raise _AsyncFunctionError(
                f"{name} returned a coroutine: SyncExecutor needs a plain function; for an async "
                "one use AsyncExecutor"
            )
        return value

    def _goes_on(self, call: Call, error: Exception) -> bool:
        rules = self._executor.rules
        signal, wait_s = rules.judge(error, call.retries, self._progress, call.mistakes)
        call.mistakes += signal.kind is FailureKind.MISTAKE
        if signal.kind is FailureKind.QUOTA:
            self._stop(reasons.quota_exhausted(error, signal.retry_after_s))
            return False
        if wait_s is None:
            call.details.fail()
            self._progress.say_failed(call, error)
            self._progress.advance()
            if self._executor.exit_on_error:
                self._stop(error)
            return False
        self._progress.say_retry(call, error, wait_s)
        self._rest(wait_s)
        return not self._stopping()

    def _rest(self, wait_s: float) -> None:
        """Wait; a signal ends it."""
        until = now() + wait_s
        while not self._signals_heard and (left := until - now()) > 0:
            self._resting.acquire(timeout=min(left, _LONGEST_REST_S))

    def _stop(self, reason: Exception) -> None:
        if self.stop_reason is None:
            self.stop_reason = reason
            self._progress.say_stop(reason, in_flight=0)

    def _interrupt(self) -> None:
        self._signals_heard += 1
        if self._signals_heard > 1:
            # The call in progress blocks this very thread: only an exception ends it.
            raise KeyboardInterrupt
        self._resting.release()
