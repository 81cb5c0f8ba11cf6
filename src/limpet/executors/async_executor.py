"""How do thousands of slow, failing, rate-limited calls run well on one event loop?

The problem. Calls take seconds, some fail, some hang, and the provider refuses what is too much.
We want every slot busy, no slot held by a call that only waits, memory that does not grow with
the inputs, and an end the moment the last call is done.

What does not work. A semaphore and `gather` make a task for every input at once, and a retry
that sleeps inside its task holds its slot. Workers that pull from a queue must learn somehow that
the queue has run dry or that the target has changed; with a time-out on `queue.get()` that is up
to a second of nothing at the end of a run and at each change. A queue that is filled up to a mark
by a producer that sleeps when it is full runs empty between two of its naps: nine calls a second.

What we do. No workers, no producer, no polling. A call that ends starts the next one
(`dispatch`); a call that failed goes into a heap until its time has come (`queue`); one timer
watches the oldest attempt in flight (`flight`); inputs are taken when there is room (`inputs`).
An attempt is a task of its own, in a copy of the caller's context, so that what it sets is not
seen by the next.

Still open. Code that blocks the event loop blocks the run: no time-out, no signal but the third
can reach it. A task that ignores its cancellation is left behind and goes on in the dark until
its loop is closed.
"""

import asyncio
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
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
from limpet.executors.attempts import Call, Finished, InputT, OutputT
from limpet.executors.details import UNSET, ExecutionDetails, Unset
from limpet.executors.dispatch import STOP_GRACE_S, Dispatch
from limpet.executors.gate import CostOf
from limpet.executors.hooks import Hooks, OnAttempt, OnComplete
from limpet.executors.inputs import Inputs, NumberedInputs, open_inputs
from limpet.executors.interrupts import hearing
from limpet.executors.loops import is_nest_patched, run_here, run_in_thread, running_loop
from limpet.executors.progress import Progress
from limpet.executors.retry import Backoff, Classify, RetryRules
from limpet.executors.settings import NO_SINK, Beginning, Settings, Sink
from limpet.pacing.aimd import ConcurrencyController
from limpet.pacing.pacer import MAX_IN_FLIGHT, Pacer

DEFAULT_TIMEOUT_S = 60
_COLLAPSE_WINDOW_S = 30.0  # the peer's executor asks its controller for twice its default


class AsyncExecutor(Generic[InputT, OutputT]):
    """Runs an async function over many inputs at once, with retries and a steady hand.

    Args:
        generation_fn: The function: one input in, an awaitable out.
        concurrency: How many calls may be in flight; "auto": as many as the provider takes,
            found and held by a pacer.
        tqdm_bar_format: The format of the progress bar; None: no bar.
        max_retries: How often a failed input is tried again before it is FAILED: N retries are
            N + 1 attempts.
        exit_on_error: Stop the run at the first input that is FAILED. What was finished is
            returned; the rest did not run.
        fallback_return_value: What stands in the outputs for inputs without a result.
        termination_signal: The signal that stops the run; None: none is handled. The first lets
            calls in flight end within a short grace, the second does not wait, the third goes
            to the handler that was there before. Only heard on the main thread.
        timeout: Seconds an attempt may take; None: 60.
        enable_dynamic_concurrency: Let a `ConcurrencyController` lower the concurrency on
            refusals and time-outs, and raise it again.
        dynamic_initial_target: Where it starts; None: at `concurrency`.
        dynamic_window_seconds: Its feedback window.
        dynamic_increase_step: What a clean window adds.
        dynamic_decrease_ratio: What a window with an error multiplies by.
        dynamic_inactive_check_interval: Accepted for compatibility; nothing polls.
        max_timeouts: How often a timed-out input is run again before it is FAILED, beside its
            retries; None: time-outs count as retries.
        max_concurrency: With "auto", how many calls may be in flight at most.
        cost: With a pacer, the estimated cost of an input: a number of tokens, or a mapping by
            dimension.
        pacer: The pacer to use: share one between all who call the same endpoint. With a number
            for `concurrency`, that is the most in flight.
        classify: Your say on what an error means: a `FailureKind` (or its name), a `Signal`, or
            None to leave it to us.
        backoff: The waits between retries, where the server names none.
        on_complete: Called with a `Finished` the moment an input is done.
        on_attempt_start: Called with the `Attempt` when it starts.
        on_attempt_end: Called with the `Attempt` when it has ended.

    The hooks may be sync or async; their failures are logged and harm nothing.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range.
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
        self.pacer = _checked_pacer(pacer)
        if pacer is None and concurrency == "auto":
            self.pacer = Pacer(max_in_flight=self.max_concurrency)
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
        self._timeouts_apart = max_timeouts is not None
        self.max_timeouts = (
            self.max_retries
            if max_timeouts is None
            else whole_number_from(0, max_timeouts=max_timeouts)
        )
        self.classify = classify
        self.backoff = Backoff() if backoff is None else backoff
        self.on_complete = on_complete
        self.on_attempt_start = on_attempt_start
        self.on_attempt_end = on_attempt_end
        self._settings = self._settled()
        self._latest: Dispatch | None = None

    def _settled(self) -> Settings:
        most = self.max_concurrency if self.concurrency == "auto" else self.concurrency
        controller = None
        if self.enable_dynamic_concurrency and self.pacer is None:
            first = self.dynamic_initial_target
            controller = ConcurrencyController(
                max_concurrency=most,
                initial_target=most if first is None else first,
                window_seconds=self.dynamic_window_seconds,
                increase_step=self.dynamic_increase_step,
                decrease_ratio=self.dynamic_decrease_ratio,
                inactive_check_interval=self.dynamic_inactive_check_interval,
                collapse_window_seconds=_COLLAPSE_WINDOW_S,
            )
        for hook in ("on_complete", "on_attempt_start", "on_attempt_end"):
            if getattr(self, hook) is not None:
                function(**{hook: getattr(self, hook)})
        return Settings(
            function=self.generation_fn,
            concurrency=most,
            controller=controller,
            timeout_s=self.timeout,
            max_timeouts=self.max_timeouts if self._timeouts_apart else None,
            rules=RetryRules(self.max_retries, self.classify, self.backoff),
            exit_on_error=self.exit_on_error,
            fallback=self.fallback_return_value,
            hooks=Hooks(self.on_complete, self.on_attempt_start, self.on_attempt_end),
            pacer=self.pacer,
            cost=self.cost,
        )

    # ---- running ------------------------------------------------------------------------

    async def execute(
        self, inputs: Iterable[InputT] | AsyncIterable[InputT] | Inputs
    ) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Run the function over all inputs; outputs and details come in input order.

        Args:
            inputs: Anything sized (then that many outputs), any iterable, or an async iterable
                (then as many outputs as it yielded).

        Raises:
            TypeError: `inputs` cannot be iterated over, or the function's first result cannot
                be awaited.
            Exception: What iterating over `inputs` raised, once all calls in flight are done.
        """
        results = _Results(self, inputs)
        await self._conduct(results.run)
        return results.in_order()

    def run(
        self, inputs: Iterable[InputT] | AsyncIterable[InputT] | Inputs
    ) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Do what `execute` does, and wait for it; also where an event loop already runs.

        On a loop that nest_asyncio patched it runs on that loop; under any other running loop,
        as in a notebook, on a loop in a thread of its own.
        """
        results = _Results(self, inputs)
        run, loop = results.run, running_loop()
        if loop is None:
            self._run_here(run)
        elif is_nest_patched(loop):
            loop.run_until_complete(self._conduct(run))
        else:
            # Handlers can only be set here, in the main thread: the signal is passed on.
            with hearing(self.termination_signal, run.interrupt):
                run_in_thread(lambda: self._run_here(run), on_interrupt=lambda: _stop_at_once(run))
        return results.in_order()

    async def stream(
        self, inputs: Iterable[InputT] | AsyncIterable[InputT]
    ) -> AsyncGenerator[Finished[InputT, OutputT], None]:
        """Yield each input the moment it is done, in the order in which they finish.

        Inputs are taken no faster than results are fetched, so a generator of any length needs
        little memory. Leaving the loop early cancels what is in flight.
        """
        done: deque[Finished[InputT, OutputT]] = deque()
        news = asyncio.Event()

        def finish(finished: Finished[InputT, OutputT]) -> None:
            done.append(finished)
            news.set()

        run = self._dispatch(inputs, Sink(NO_SINK.take, finish, done.__len__))
        with hearing(self.termination_signal, run.interrupt):
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

    # ---- looking at it, and taking a hand --------------------------------------------------

    def in_flight(self) -> dict[int, float]:
        """Return the seconds each running attempt has taken so far, by input, oldest first."""
        return {} if self._latest is None else self._latest.flight.ages()

    def cancel(self, index: int) -> bool:
        """Fail one input of the latest run, whether it runs, waits or is ready to run.

        It ends FAILED with a `CallCancelledError` and is not retried; the run goes on, whatever
        `exit_on_error` says. To be called on the run's event loop.

        Returns:
            Whether it was there to be cancelled.
        """
        return self._latest is not None and self._latest.cancel(index)

    def begin_gently(self, most: int, seconds: float) -> None:
        """Begin each run with few calls, which show whether the function works at all.

        Until `end_beginning`, or until the first began `seconds` ago, no more than `most` inputs
        are under way: in flight, waiting to be tried again, or finished and with `on_complete`.
        """
        self._settings = replace(self._settings, beginning=Beginning(most, seconds))

    def end_beginning(self) -> None:
        """Go on at full pace after `begin_gently`. On the run's event loop."""
        if self._latest is not None:
            self._latest.end_beginning()

    def pause(self) -> None:
        """Start no more calls of the latest run until `resume`. On the run's event loop."""
        if self._latest is not None:
            self._latest.pause(paused=True)

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._latest is not None:
            self._latest.pause(paused=False)

    def stop(self, reason: Exception, *, grace_s: float = STOP_GRACE_S) -> None:
        """Stop the latest run in good order, as a signal would; `reason` is its `stop_reason`.

        Calls in flight may end within the grace; `math.inf` waits for them, 0 does not. Asked
        again, the shorter grace counts. To be called on the run's event loop.
        """
        if self._latest is not None:
            self._latest.stop(reason, grace_s)

    @property
    def stop_reason(self) -> Exception | None:
        """Why the latest run stopped before all inputs were done; None if it did not."""
        return None if self._latest is None else self._latest.stop_reason

    @property
    def abandoned(self) -> int:
        """How many calls of the latest run ignored their cancellation and were left behind."""
        return 0 if self._latest is None else self._latest.flight.abandoned

    # ---- inside -----------------------------------------------------------------------------

    def _dispatch(self, inputs: Any, sink: Sink) -> Dispatch:
        source = open_inputs(inputs)
        progress = Progress(self.tqdm_bar_format, source.total)
        self._latest = Dispatch(self._settings, source, sink, progress)
        return self._latest

    async def _conduct(self, run: Dispatch) -> None:
        with hearing(self.termination_signal, run.interrupt):
            await run.conduct()

    def _run_here(self, run: Dispatch) -> None:
        run_here(self._conduct(run), given_up=lambda: run.flight.given_up)


class _Results(Generic[InputT, OutputT]):
    """Outputs and details in input order, filled in as the inputs finish."""

    def __init__(self, executor: AsyncExecutor[InputT, OutputT], inputs: Any) -> None:
        self._fallback = executor.fallback_return_value
        self._outputs: list[OutputT | Unset] = []
        self._details: list[ExecutionDetails] = []
        # Only where an index is not the place in the output.
        self._places: dict[int, int] | None = {} if isinstance(inputs, NumberedInputs) else None
        self.run = executor._dispatch(inputs, Sink(self._take, self._finish, NO_SINK.backlog))  # noqa: SLF001 - its other half

    def _take(self, call: Call) -> None:
        if self._places is not None:
            self._places[call.index] = len(self._outputs)
        self._outputs.append(self._fallback)
        self._details.append(call.details)

    def _finish(self, finished: Finished[InputT, OutputT]) -> None:
        index = finished.index
        self._outputs[index if self._places is None else self._places[index]] = finished.output

    def in_order(self) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        for _ in range(len(self._outputs), self.run.total or 0):
            self._outputs.append(self._fallback)
            self._details.append(ExecutionDetails())
        return self._outputs, self._details


def _checked_concurrency(concurrency: Any) -> int | Literal["auto"]:
    if concurrency == "auto":
        return "auto"
    if isinstance(concurrency, str):
        raise TypeError(
            f'concurrency={concurrency!r}: must be a whole number, 1 or more, or "auto"'
        )
    return whole_number_from(1, concurrency=concurrency)


def _checked_pacer(pacer: Any) -> Pacer | None:
    if pacer is not None and not isinstance(pacer, Pacer):
        raise TypeError(f"pacer={pacer!r}: must be a Pacer or None")
    return pacer


def _stop_at_once(run: Dispatch) -> None:
    run.interrupt()
    run.interrupt()
