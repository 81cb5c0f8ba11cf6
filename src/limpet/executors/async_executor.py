"""How do thousands of slow, failing, rate-limited calls run well on one event loop?

The problem. Calls take seconds, some fail, some hang, and the provider refuses calls above its
limit. We want every slot busy, no slot held by a call that is only waiting, memory that does not
grow with the inputs, and a run that ends the moment its last call does.

What does not work. A semaphore with `gather` creates a task for every input up front, and a retry
that sleeps inside its task holds its slot. Workers that pull from a queue have to learn that the
queue is empty or that the target changed; a timeout on `queue.get()` costs up to a second at the
end of a run and at each change. A producer that fills the queue to a mark and sleeps when it is
full lets the queue run empty while it sleeps: nine calls a second.

What we do. No workers, no producer, no polling. A call that ends starts the next one
(`dispatch`); a failed call waits in a heap until it is due (`gate`); one timer watches the oldest
attempt in flight (`flight`); inputs are taken when there is room (`inputs`). Each attempt is its
own task, in a copy of the caller's context, so the next attempt does not see what it set.

Still open. Code that blocks the event loop blocks the run: no timeout reaches it, and no signal
but the third. A task that ignores its cancellation is abandoned and keeps running until its loop
is closed.
"""

import asyncio
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, Literal

from limpet.arguments import (
    function,
    number_from,
    positive_number,
    share,
    signal_or_none,
    whole_number_from,
)
from limpet.executors.details import (
    UNSET,
    Attempt,
    ExecutionDetails,
    Finished,
    InputT,
    OutputT,
    Unset,
)
from limpet.executors.dispatch import STOP_GRACE_S, Dispatch
from limpet.executors.inputs import NO_SINK, InputSource, OrderedResults, Sink, open_inputs
from limpet.executors.interrupts import on_signal
from limpet.executors.loops import is_nest_patched, run_here, run_in_thread, running_loop
from limpet.executors.options import CostOf, Orders, Settings, SlowStart
from limpet.executors.progress import Hooks, OnAttempt, OnComplete, ProgressReporter
from limpet.executors.retry import Backoff, Classify, RetryRules
from limpet.pacing.aimd import ConcurrencyController
from limpet.pacing.pacer import MAX_IN_FLIGHT, Pacer
from limpet.secrets.masking import Mask

DEFAULT_TIMEOUT_S = 60
_COLLAPSE_WINDOW_S = 30.0  # Phoenix's executor also doubles the controller's default


class AsyncExecutor(Generic[InputT, OutputT]):
    """Runs an async function over many inputs concurrently, with retries.

    Args:
        generation_fn: The async function to call with each input.
        concurrency: Maximum calls in flight. "auto": a pacer finds and holds as many as the
            provider accepts.
        tqdm_bar_format: Format of the progress bar; None: no bar.
        max_retries: Retries before a failed input is FAILED: N retries are N + 1 attempts.
        exit_on_error: Stop the run at the first FAILED input. Finished inputs are returned;
            the rest do not run.
        fallback_return_value: The output of inputs without a result.
        termination_signal: The signal that stops the run; None: no signal is handled. The first
            gives calls in flight a short grace, the second does not wait, the third goes to the
            previous handler. Handled on the main thread only.
        timeout: Seconds an attempt may take; None: 60.
        enable_dynamic_concurrency: Let a `ConcurrencyController` lower the concurrency on
            refusals and timeouts, and raise it again.
        dynamic_initial_target: Its initial target; None: `concurrency`.
        dynamic_window_seconds: Its feedback window.
        dynamic_increase_step: Added to the target after a clean window.
        dynamic_decrease_ratio: Multiplies the target after a window with an error.
        dynamic_inactive_check_interval: Accepted for compatibility; nothing polls.
        max_timeouts: How often a timed-out input runs again before it is FAILED, in addition to
            its retries; None: timeouts count as retries.
        max_concurrency: With "auto", maximum calls in flight.
        cost: With a pacer, returns the estimated cost of an input: a number of tokens, or a
            mapping by dimension.
        pacer: The pacer to use; share one between all callers of an endpoint. A number for
            `concurrency` then caps the calls in flight.
        classify: Overrides what an error means: return a `FailureKind` (or its name), a
            `Signal`, or None for the built-in classification.
        backoff: Waits between retries, unless the server names one.
        on_complete: Called with a `Finished` as soon as an input is done.
        on_attempt_start: Called with the `Attempt` when it starts.
        on_attempt_end: Called with the `Attempt` when it ends.

    Hooks may be sync or async. Their failures are logged and do not affect the run.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        generation_fn: Callable[[InputT], Awaitable[OutputT]],
        concurrency: int | Literal["auto"] = 3,
        tqdm_bar_format: str | None = None,
        max_retries: int = 10,
        exit_on_error: bool = True,  # noqa: FBT001, FBT002 - the contract's positions
        fallback_return_value: OutputT | Unset = UNSET,
        termination_signal: signal.Signals | None = signal.SIGINT,
        timeout: float | None = None,
        *,
        enable_dynamic_concurrency: bool = True,
        dynamic_initial_target: int | None = None,
        dynamic_window_seconds: float = 5.0,
        dynamic_increase_step: float = 1,
        dynamic_decrease_ratio: float = 0.5,
        dynamic_inactive_check_interval: float = 1.0,
        max_timeouts: int | None = None,
        max_concurrency: int = MAX_IN_FLIGHT,
        cost: CostOf | None = None,
        pacer: Pacer | None = None,
        classify: Classify | None = None,
        backoff: Backoff | None = None,
        on_complete: OnComplete | None = None,
        on_attempt_start: OnAttempt | None = None,
        on_attempt_end: OnAttempt | None = None,
    ) -> None:
        self.generation_fn = function(generation_fn=generation_fn)
        self.concurrency = _checked_concurrency(concurrency)
        self.max_concurrency = whole_number_from(1, max_concurrency=max_concurrency)
        self.cost = None if cost is None else function(cost=cost)
        if pacer is not None and not isinstance(pacer, Pacer):
            raise TypeError(f"pacer={pacer!r}: must be a Pacer or None")
        if pacer is None and concurrency == "auto":
            pacer = Pacer(max_in_flight=self.max_concurrency)
        self.pacer = pacer
        self.tqdm_bar_format = tqdm_bar_format
        self.max_retries = whole_number_from(0, max_retries=max_retries)
        self.exit_on_error = exit_on_error
        self.fallback_return_value = fallback_return_value
        self.termination_signal = signal_or_none(termination_signal=termination_signal)
        self.timeout = DEFAULT_TIMEOUT_S if timeout is None else positive_number(timeout=timeout)
        self.enable_dynamic_concurrency = enable_dynamic_concurrency
        self.dynamic_initial_target = dynamic_initial_target
        if dynamic_initial_target is not None:
            positive_number(dynamic_initial_target=dynamic_initial_target)
        self.dynamic_window_seconds = positive_number(dynamic_window_seconds=dynamic_window_seconds)
        self.dynamic_increase_step = number_from(0, dynamic_increase_step=dynamic_increase_step)
        self.dynamic_decrease_ratio = share(dynamic_decrease_ratio=dynamic_decrease_ratio)
        self.dynamic_inactive_check_interval = positive_number(
            dynamic_inactive_check_interval=dynamic_inactive_check_interval
        )
        if max_timeouts is not None:
            whole_number_from(0, max_timeouts=max_timeouts)
        self._own_timeouts = max_timeouts
        self.max_timeouts = self.max_retries if max_timeouts is None else max_timeouts
        self.classify = classify
        self.backoff = Backoff() if backoff is None else backoff
        self.on_complete = on_complete
        self.on_attempt_start = on_attempt_start
        self.on_attempt_end = on_attempt_end
        self.quiet = False  # a step of a run: the run reports failures, by their items
        self.mask: Mask | None = None  # further secrets that messages must not show
        self._settings = self._make_settings()
        self.orders = Orders()
        idle = ProgressReporter(None, 0)
        self._latest = Dispatch(self._settings, InputSource(()), NO_SINK, idle, self.orders)

    def _make_settings(self) -> Settings:
        limit = self.max_concurrency if self.concurrency == "auto" else self.concurrency
        controller = None
        if self.enable_dynamic_concurrency and self.pacer is None:
            initial = self.dynamic_initial_target
            controller = ConcurrencyController(
                max_concurrency=limit,
                initial_target=limit if initial is None else initial,
                window_seconds=self.dynamic_window_seconds,
                increase_step=self.dynamic_increase_step,
                decrease_ratio=self.dynamic_decrease_ratio,
                inactive_check_interval=self.dynamic_inactive_check_interval,
                collapse_window_seconds=_COLLAPSE_WINDOW_S,
            )
        return Settings(
            function=self.generation_fn,
            concurrency=limit,
            controller=controller,
            timeout_s=self.timeout,
            max_timeouts=self._own_timeouts,
            rules=RetryRules(self.max_retries, self.classify, self.backoff),
            exit_on_error=self.exit_on_error,
            fallback=self.fallback_return_value,
            hooks=Hooks(self.on_complete, self.on_attempt_start, self.on_attempt_end),
            pacer=self.pacer,
            cost=self.cost,
        )

    # ---- running ------------------------------------------------------------------------

    async def execute(
        self, inputs: Iterable[InputT] | AsyncIterable[InputT] | InputSource
    ) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Run the function over all inputs. Outputs and details are in input order.

        Args:
            inputs: An iterable or async iterable. One with a length gives that many outputs,
                any other as many as it yields.

        Raises:
            TypeError: `inputs` is not iterable, or the function's first result is not awaitable.
            Exception: Raised by iterating over `inputs`; re-raised when the calls in flight end.
        """
        run, results = self._ordered(inputs)
        await self._conduct(run)
        return results.in_order()

    def run(
        self, inputs: Iterable[InputT] | AsyncIterable[InputT] | InputSource
    ) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Run `execute` and wait for it, even if an event loop is already running.

        A loop patched by nest_asyncio is re-entered. Under any other running loop, such as a
        notebook's, the run gets a loop in a separate thread.
        """
        run, results = self._ordered(inputs)
        loop = running_loop()

        def stop_at_once() -> None:
            run.interrupt()
            run.interrupt()

        if loop is None:
            self._run_here(run)
        elif is_nest_patched(loop):
            loop.run_until_complete(self._conduct(run))
        else:
            # Only the main thread can install handlers, so this one passes the signal on.
            with on_signal(self.termination_signal, run.interrupt):
                run_in_thread(lambda: self._run_here(run), on_interrupt=stop_at_once)
        return results.in_order()

    async def stream(
        self, inputs: Iterable[InputT] | AsyncIterable[InputT]
    ) -> AsyncGenerator[Finished[InputT, OutputT], None]:
        """Yield each input as soon as it is done, in the order they finish.

        Inputs are taken no faster than results are read, so a generator of any length needs
        little memory. Leaving the loop early cancels the calls in flight.
        """
        done: deque[Finished[InputT, OutputT]] = deque()
        news = asyncio.Event()

        def finish(finished: Finished[InputT, OutputT]) -> None:
            done.append(finished)
            news.set()

        sink = Sink(NO_SINK.take, finish, done.__len__)
        run = self._dispatch(open_inputs(inputs), sink)
        with on_signal(self.termination_signal, run.interrupt):
            try:
                run.begin()
                run.ended.add_done_callback(lambda _: news.set())
                while True:
                    while done:
                        yield done.popleft()
                        run.pump()
                    if run.ended.done():
                        break
                    news.clear()
                    await news.wait()
                run.ended.result()
            finally:
                await run.close()
        run.raise_input_error()

    async def drain(self, inputs: Iterable[InputT] | AsyncIterable[InputT] | InputSource) -> None:
        """Run the function over all inputs, and keep no results: `on_complete` sees each."""
        await self._conduct(self._dispatch(open_inputs(inputs), NO_SINK))

    # ---- inspecting and controlling a run --------------------------------------------------

    def in_flight(self) -> dict[int, float]:
        """Return the age in seconds of each running attempt, by input index, oldest first."""
        return self._latest.flight.ages()

    @property
    def in_progress(self) -> int:
        """How many inputs of the latest run are begun and not done, including their hooks.

        Inputs deferred to the end of the run are excluded.
        """
        return self._latest.in_progress()

    def cancel(self, index: int, error: Exception | None = None) -> bool:
        """Fail one input of the latest run, whether it is running, waiting or ready to run.

        It ends FAILED with `error`, by default a `CallCancelledError`, and is not retried. The run
        continues, even with `exit_on_error`. Call this on the run's event loop.

        Returns:
            Whether the input was running, waiting or ready.
        """
        return self._latest.cancel(index, error)

    def retry(self, index: int) -> bool:
        """Try one input of the latest run again now, whether it is running, waiting or has failed.

        A running call is given up. Call this on the run's event loop.

        Returns:
            Whether the input was running, waiting or ready, or had failed while the run goes on.
        """
        return self._latest.revive(index) or self._latest.cancel(index, again=True)

    @property
    def failed(self) -> Mapping[int, Any]:
        """The first inputs of the latest run that failed and may be retried, by index."""
        return self._latest.failed

    def inputs_in_progress(self) -> dict[int, Any]:
        """Return the inputs of the latest run that are running, waiting or ready, by index."""
        return {state.index: state.input for state in self._latest.states()}

    def attempts(self) -> list[Attempt]:
        """Return the running attempts of the latest run, oldest first."""
        return list(self._latest.flight.attempts.values())

    def start_slowly(self, most: int, retried: int, seconds: float) -> None:
        """Start each run with a few calls, to see whether the function works at all.

        Until `full_speed`, at most `most` inputs are in progress (in flight, waiting for a retry,
        or finished and in `on_complete`), and at most `retried` failed inputs are retried. It also
        ends `seconds` after the first call if fewer than `retried` inputs have failed.
        """
        self._settings = replace(self._settings, slow_start=SlowStart(most, retried, seconds))

    def full_speed(self) -> None:
        """End a slow start: the function works. Call this on the run's event loop."""
        self._latest.full_speed()

    def pause(self, why: str = "") -> None:
        """Start no more calls until `resume` with the same reason. Call this on the run's loop."""
        self.orders.pauses.add(why)
        self._latest.reordered()

    def resume(self, why: str = "") -> None:
        """Continue after `pause`, unless it is paused for another reason, too."""
        self.orders.pauses.discard(why)
        self._latest.reordered()

    def set_concurrency(self, most: int) -> None:
        """Change how many calls may be in flight. Call this on the run's event loop.

        Args:
            most: The number; `max_concurrency` is never exceeded.
        """
        self.orders.concurrency = min(most, self.max_concurrency)
        self._latest.reordered()

    def interrupt(self) -> None:
        """Stop the latest run as its signal would. Safe in any thread or signal handler."""
        self._latest.interrupt()

    def stop(self, reason: Exception, *, grace_s: float = STOP_GRACE_S) -> None:
        """Stop the latest run as a signal would; `reason` becomes its `stop_reason`.

        Calls in flight may end within the grace; `math.inf` waits for them, 0 does not. If
        called again, the shorter grace applies. Call this on the run's event loop.
        """
        self._latest.stop(reason, grace_s)

    @property
    def has_ended(self) -> bool:
        """Whether the latest run has ended."""
        return self._latest.has_ended

    @property
    def stop_reason(self) -> Exception | None:
        """Why the latest run stopped before all inputs were done; None if it was not stopped."""
        return self._latest.stop_reason

    @property
    def abandoned(self) -> int:
        """How many calls of the latest run ignored their cancellation."""
        return self._latest.flight.abandoned

    # ---- internals --------------------------------------------------------------------------

    def _dispatch(self, inputs: InputSource, sink: Sink) -> Dispatch:
        progress = ProgressReporter(
            self.tqdm_bar_format, inputs.total, quiet=self.quiet, mask=self.mask
        )
        self._latest = Dispatch(self._settings, inputs, sink, progress, self.orders)
        return self._latest

    def _ordered(self, inputs: Any) -> tuple[Dispatch, OrderedResults[OutputT]]:
        source = open_inputs(inputs)
        results = OrderedResults(source, self.fallback_return_value)
        return self._dispatch(source, results.sink), results

    async def _conduct(self, run: Dispatch) -> None:
        with on_signal(self.termination_signal, run.interrupt):
            await run.conduct()

    def _run_here(self, run: Dispatch) -> None:
        run_here(self._conduct(run), given_up=lambda: run.flight.given_up)


def _checked_concurrency(concurrency: Any) -> int | Literal["auto"]:
    if concurrency == "auto":
        return "auto"
    if isinstance(concurrency, str):
        raise TypeError(
            f'concurrency={concurrency!r}: must be a whole number, 1 or more, or "auto"'
        )
    return whole_number_from(1, concurrency=concurrency)
