"""Which attempt starts next?

A Dispatch is one run of an AsyncExecutor. Any of these may let an attempt start: another settles,
an input arrives, a wait ends, the pacer issues a ticket, the target changes.

What does not work. A loop that waits for whichever comes first needs a task and a wake-up for each
of them, and polls for the rest.

What we do. Every one of these events calls `pump`, which starts all that may start and ends the run
when nothing is left. Nothing polls, and the run ends in the same turn of the event loop as its last
attempt. User code (hooks, eager tasks) can call back into `pump`: a nested call only sets a flag,
and the outer one loops. This is one class because every part reads and writes the same state.

The run holds at most five times the concurrency (ready, waiting, in flight, fetched ahead, finished
but not handed over): an input is taken only when there is room.

Still open. The bound is in inputs, not bytes: large inputs can still fill the memory.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from limpet.executors import settlement
from limpet.executors.countdown import Countdown
from limpet.executors.details import Attempt, Cancelled, Finished, InputState
from limpet.executors.flight import CANCEL_GRACE_S, Flight
from limpet.executors.gate import PacerGate, RetryQueue
from limpet.executors.inputs import NO_SINK, NOTHING, InputSource, Sink
from limpet.executors.options import FirstCalls, Orders, Settings
from limpet.executors.progress import HookRunner, ProgressReporter
from limpet.executors.settlement import Action, Decision, Settlement
from limpet.pacing.pacer import Ticket

MOST_WAITING = 1000
"""With a pacer, retries that may wait without keeping new inputs from starting."""
MOST_FAILED = 1000
"""Failed inputs that are kept to be tried again: memory must not grow with the inputs."""
STOP_GRACE_S = 2.0
"""How long calls in flight have to end when the run stops."""
_LOOK_AGAIN_S = 0.5  # between two looks for attempts that wait for an endpoint that is down


class Dispatch:
    """One run: takes inputs, starts attempts, settles them, hands over results.

    Attributes:
        stop_reason: Why it stopped before all inputs were done; None if it was not stopped.
        flight: The attempts in flight.
        ended: A future that is done when the run is; set by `begin`.
    """

    ended: asyncio.Future[None]

    def __init__(
        self,
        settings: Settings,
        inputs: InputSource,
        sink: Sink,
        progress: ProgressReporter,
        orders: Orders,
    ) -> None:
        self.stop_reason: Exception | None = None
        self.flight = Flight(
            settings.function, settings.timeout_s, self._settle, progress.say_abandoned
        )
        self._settings = settings
        self._inputs = inputs
        self._sink = sink
        self._progress = progress
        self._hooks = HookRunner(progress, self._pump_next)
        self._gate = PacerGate(settings, self._start, self.pump, progress)
        self._settlement = Settlement(settings, progress, lambda: not inputs.exhausted)
        self._queue = RetryQueue(self.pump)
        self._failed: dict[int, Any] = {}
        self._taken = 0
        self._orders = orders
        self._stopping = False
        self._first_calls = FirstCalls(settings.slow_start, self.pump)
        self._stop_timer: Countdown | None = None
        self._stop_by = math.inf
        self._fatal: BaseException | None = None
        self._settling = self._pumping = self._pump_again = self._pump_is_due = False
        self._unsubscribe: Callable[[], None] = lambda: None
        self._signals_sent = 0
        self._signals_handled = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- running ------------------------------------------------------------------------

    async def conduct(self) -> None:
        """Run to the end and clean up.

        Raises:
            Exception: Raised by iterating over the inputs; re-raised when all calls are done.
            TypeError: The function's first result is not awaitable.
        """
        try:
            self.begin()
            await asyncio.shield(self.ended)
        finally:
            await self.close()
        self.raise_input_error()

    def begin(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.ended = loop.create_future()
        self.flight.open()
        controller = self._settings.controller
        if controller is not None:
            controller.start()
            self._unsubscribe = controller.subscribe(self._pump_soon)
        self._inputs.open(self._has_room, self.pump)
        for _ in range(self._signals_sent):
            self._handle_signal()
        self.pump()

    async def close(self) -> None:
        """End whatever is still running: after the run's end, or when its caller gave up."""
        if self._loop is None:
            return
        try:
            if not self.ended.done():
                self._stop(None, grace_s=0)
                await asyncio.wait([self.ended], timeout=2 * CANCEL_GRACE_S)
            self._inputs.close()
            await self._inputs.wait_closed(CANCEL_GRACE_S)
            await self._hooks.finish(STOP_GRACE_S)
        finally:
            self._inputs.close()
            self._queue.clear()
            self._failed.clear()
            self.flight.close()
            self._unsubscribe()
            self._first_calls.close()
            if self._stop_timer is not None:
                self._stop_timer.cancel()
            self._progress.close()
            self._sink = NO_SINK  # the executor keeps its latest run, but not the results

    def raise_input_error(self) -> None:
        if self._inputs.error is not None:
            raise self._inputs.error

    def cancel(self, index: int, error: Exception | None = None, *, again: bool = False) -> bool:
        """Fail or retry one input that is in flight, waiting or ready. Returns whether it was."""
        error = error or settlement.cancelled_on_request(index)
        if self.flight.cancel(index, Cancelled.AGAIN if again else Cancelled.REQUEST, error):
            return True
        state = self._queue.remove(index) or self._gate.remove(index)
        if state is None:
            return False
        if again:
            self._queue.put(state)
        else:
            self._refuse(state, error)
        self.pump()
        return True

    def revive(self, index: int) -> bool:
        """Try one input again that failed. Returns whether it had."""
        if index not in self.failed:
            return False
        self._queue.put(InputState(index, self._failed.pop(index)))
        self.pump()
        return True

    def _refuse(self, state: InputState, error: Exception) -> None:
        state.details.log_exception(error)
        self._carry_out(state, Decision(Action.FAIL, error, on_request=True))

    def reordered(self) -> None:
        """Start what may start now, or nothing. Calls in flight are not affected."""
        if self._orders.pauses and (waiting := self._gate.waiting) is not None:
            self._gate.close()
            self._queue.put(waiting)
        self._pump_soon()

    @property
    def has_ended(self) -> bool:
        """Whether it began and ended."""
        return self._loop is not None and self.ended.done()

    @property
    def failed(self) -> Mapping[int, Any]:
        """The inputs that failed and can be revived, by index."""
        return {} if self._stopping or self.has_ended else self._failed

    def states(self) -> list[InputState]:
        """Return the inputs that were taken and are not done."""
        waiting = [] if self._gate.waiting is None else [self._gate.waiting]
        flying = (attempt.state for attempt in self.flight.attempts.values())
        return [*flying, *waiting, *self._queue.states()]

    def stop(self, reason: Exception, grace_s: float = STOP_GRACE_S) -> None:
        """Stop for a reason from outside the calls."""
        if self._loop is not None and not self.ended.done():
            self._stop(reason, grace_s=grace_s)
            self.pump()

    # ---- starting -----------------------------------------------------------------------

    def pump(self) -> None:
        """Start all attempts that may start; end the run when nothing is left."""
        # Hooks and eager tasks can call this again. While an attempt is being settled, its input is
        # neither in flight nor queued, so the run would look finished; and a nested pump recurses.
        if self._settling or self._pumping:
            self._pump_again = True
            return
        self._pumping = self._pump_again = True
        try:
            while self._pump_again:
                self._pump_again = False
                self._start_ready()
        except BaseException as bug:  # noqa: BLE001 - the run raises it instead of hanging
            self._crash(bug)
        finally:
            self._pumping = False
        if self.flight.attempts or not self._inputs.exhausted or self._is_waiting():
            self._inputs.refill()
        elif deferred := self._queue.begin_second_pass():
            # The provider may have recovered.
            self._progress.say_second_pass(deferred)
            self._pump_soon()
        else:
            self._end()

    def _is_waiting(self) -> bool:
        # When stopping, `close` waits for the hooks, with a time limit.
        at_hooks = len(self._hooks.running) > 0 and not self._stopping
        return at_hooks or len(self._queue) > 0 or self._gate.waiting is not None

    def _start_ready(self) -> None:
        while not (self._stopping or self._orders.pauses or self._gate.waiting):
            if len(self.flight.attempts) >= self._target():
                return
            # A retry, a new input, or an input that was put last.
            state = self._queue.pop() or self._take() or self._queue.pop_last()
            if state is None:
                return
            if self._settings.pacer is None:
                self._start(state, None)
            else:
                self._gate.admit(state, self._settings.pacer)

    def _target(self) -> int:
        controller = self._settings.controller
        most = self._orders.concurrency or self._settings.concurrency
        return most if controller is None else controller.target_concurrency

    def _start(self, state: InputState, ticket: Ticket | None) -> None:
        attempt = self.flight.start(state, ticket)
        self._hooks.call(self._settings.hooks.on_attempt_start, attempt)

    def _pump_soon(self) -> None:
        # Not at once: the target mostly changes while an attempt is being settled. On our own
        # loop: another run of the executor may have changed it in another thread.
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.pump)

    def _pump_next(self) -> None:
        """Pump in the next turn of the loop, once for all hooks that end in this one."""
        if not self._pump_is_due and self._loop is not None:
            self._pump_is_due = True
            self._loop.call_soon(self._pump_due)

    def _pump_due(self) -> None:
        self._pump_is_due = False
        self.pump()

    def _has_room(self) -> bool:
        waiting = min(len(self._queue), MOST_WAITING) if self._settings.pacer else 0
        held = self.in_progress() - waiting + self._inputs.fetched + self._sink.backlog()
        return held < 5 * (self._orders.concurrency or self._settings.concurrency)

    def in_progress(self) -> int:
        """Return how many inputs were taken and are not done, without those of the second pass."""
        at_gate = self._gate.waiting is not None
        return len(self.flight.attempts) + len(self._queue) + len(self._hooks.running) + at_gate

    def full_speed(self) -> None:
        """End a slow start: the function works."""
        if self._first_calls.full_speed():
            self._queue.release_all()
            self.pump()

    def _take(self) -> InputState | None:
        """Take the next input, if there is one and there is room for it."""
        if not self._inputs.fetched and not self._has_room():
            return None
        # While the pacer only probes, a new input may be the one that passes.
        limits = self._first_calls.limits
        if limits and not (self._first_calls.may_take(self.in_progress()) or self._gate.blocked):
            return None
        while (taken := self._inputs.take()) is not NOTHING:
            state = InputState(self._inputs.number(self._taken), taken)
            self._taken += 1
            self._sink.take(state)
            if (error := self._orders.refuse(taken)) is None:
                if limits:
                    self._first_calls.took()
                return state
            self._refuse(state, error)
        return None

    # ---- settling -----------------------------------------------------------------------

    def _settle(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        outer, self._settling = self._settling, True
        try:
            decision = self._settlement.decide(attempt, error)
            if self._stopping:
                attempt.retry_in = None
            self._hooks.call(self._settings.hooks.on_attempt_end, attempt)
            if decision.action is Action.COMPLETE:
                self._finish(attempt.state, value, None)
            else:
                self._carry_out(attempt.state, decision)
        except BaseException as bug:  # noqa: BLE001 - the run raises it instead of hanging
            self._crash(bug)
        finally:
            self._settling = outer
        self.pump()

    def _carry_out(self, state: InputState, decision: Decision) -> None:
        error = decision.error
        if decision.action is Action.CRASH:
            self._crash(error or AssertionError("a crash has a reason"))
        elif not isinstance(error, Exception):
            return  # it did not run
        elif decision.action is Action.STOP:
            self._stop(error, grace_s=STOP_GRACE_S)
        elif decision.action is Action.FAIL:
            self._fail(state, error, decision)
        elif not self._stopping:
            self._retry(state, error, decision)

    def _retry(self, state: InputState, error: Exception, decision: Decision) -> None:
        self._progress.say_retry(state, error, decision.wait_s)
        self._first_calls.failed(state.index)
        if decision.defer and self._queue.defer(state):
            self._retry_another(state.index)
        elif self._gate.blocked:
            # Let another input probe: perhaps only this one cannot pass.
            self._queue.put_last(state)
        elif self._first_calls.may_retry(state.index):
            self._queue.put_later(state, decision.wait_s)
        else:
            self._queue.hold(state, decision.wait_s)

    def _retry_another(self, index: int) -> None:
        """Retry an input that was held back, now that another has ended."""
        if self._first_calls.ended(index):
            self._queue.release()

    # ---- finishing ----------------------------------------------------------------------

    def _fail(self, state: InputState, error: Exception, decision: Decision) -> None:
        state.details.fail()
        if len(self._failed) < MOST_FAILED:
            self._failed[state.index] = state.input
        self._first_calls.failed(state.index)
        self._progress.say_failed(state, error)
        self._finish(state, self._settings.fallback, error)
        # A stop already in progress keeps its own grace.
        if self._settings.exit_on_error and not decision.on_request and not self._stopping:
            self._stop(error, grace_s=0)

    def _finish(self, state: InputState, output: Any, error: Exception | None) -> None:
        finished = Finished(state.index, state.input, output, error, state.details)
        self._sink.finish(finished)
        done = partial(self._done, state.index)
        if not self._hooks.call(self._settings.hooks.on_complete, finished, done):
            done()

    def _done(self, index: int) -> None:
        """An input's hook has returned; it may have stopped the run."""
        self._progress.advance()
        self._retry_another(index)

    # ---- stopping -----------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop (first call), or stop at once (second). Safe in any thread or signal handler."""
        self._signals_sent += 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._handle_signal)

    def _handle_signal(self) -> None:
        self._signals_handled += 1
        if self.ended.done():
            return
        if self._signals_handled == 1:
            self._stop(settlement.interrupted(), grace_s=STOP_GRACE_S)
        else:
            self.flight.drop_all()
            self._end()

    def _stop(self, reason: Exception | None, *, grace_s: float) -> None:
        """Take no more inputs; cancel the calls in flight when the grace is over."""
        if self.stop_reason is None and reason is not None:
            self.stop_reason = reason
            self._progress.say_stop(reason, in_flight=len(self.flight.attempts))
        self._stopping = True
        self._inputs.close()
        self._queue.clear()
        self._gate.close()
        if grace_s == 0:
            self.flight.cancel_all()
        elif grace_s < math.inf:
            self.flight.cancel_stranded()
            due = asyncio.get_running_loop().time() + grace_s
            if due < self._stop_by:
                self._stop_by = due
                if self._stop_timer is not None:
                    self._stop_timer.cancel()
                self._stop_timer = Countdown(grace_s, self.flight.cancel_all)
        elif self._stop_timer is None:
            self._cancel_stranded()
        self.pump()

    def _cancel_stranded(self) -> None:
        """Cancel attempts that wait for an endpoint that is down, until none are in flight.

        Otherwise a judge whose votes wait would delay the stop until the endpoint is back.
        """
        self.flight.cancel_stranded()
        if self.flight.attempts and not self.ended.done():
            self._stop_timer = Countdown(_LOOK_AGAIN_S, self._cancel_stranded)

    def _crash(self, error: BaseException) -> None:
        """Stop, and let the run raise an error that no input caused."""
        self._fatal = self._fatal or error
        self._stop(None, grace_s=0)

    def _end(self) -> None:
        if self.ended.done():
            return
        if self._fatal is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(self._fatal)
