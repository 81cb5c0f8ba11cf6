"""Which call starts next, and what becomes of each attempt?

A Dispatch is one run of an AsyncExecutor. It has no workers: whenever an attempt settles, an
input arrives, a wait is over or the target changes, `pump` starts what may start. So there is
nothing to poll, and the run ends in the same turn of the event loop as its last call.

What the run holds (ready, waiting, in flight, fetched ahead, finished but not yet handed over)
stays within five times the concurrency; a new input is taken only when there is room.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.executors import reasons
from holdfast.executors.attempts import Attempt, Call, Cancelled, Finished
from holdfast.executors.flight import CANCEL_GRACE_S, Flight, NotAwaitableError
from holdfast.executors.hooks import Telling
from holdfast.executors.inputs import NOTHING, Inputs
from holdfast.executors.progress import Progress
from holdfast.executors.queue import CallQueue
from holdfast.executors.retry import Verdict
from holdfast.executors.settings import NO_SINK, Settings, Sink
from holdfast.pacing.signals import FailureKind

STOP_GRACE_S = 2.0
"""How long calls in flight may go on when the run stops in good order."""


class Dispatch:
    """One run: takes inputs, starts attempts, settles them, hands over what is finished.

    Attributes:
        stop_reason: Why it stopped before all inputs were done; None if it did not.
        flight: What is under way.
        ended: A future that is done when the run is; set by `begin`.
    """

    ended: asyncio.Future[None]

    def __init__(self, settings: Settings, inputs: Inputs, sink: Sink, progress: Progress) -> None:
        self.stop_reason: Exception | None = None
        self.flight = Flight(
            settings.function, settings.timeout_s, self._settle, progress.say_abandoned
        )
        self._settings = settings
        self._inputs = inputs
        self._sink = sink
        self._progress = progress
        self._telling = Telling(settings.hooks, progress, self.pump)
        self._queue = CallQueue(self.pump)
        self._taken = 0
        self._stopping = False
        self._stop_timer: asyncio.TimerHandle | None = None
        self._fatal: BaseException | None = None
        self._settling = self._pumping = self._pump_again = False
        self._signals_sent = 0
        self._signals_heard = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- the life of the run ------------------------------------------------------------

    async def conduct(self) -> None:
        """Run to the end, and leave nothing behind.

        Raises:
            Exception: What the inputs raised while they were iterated over, once every call
                that had been taken is done.
            TypeError: The function's first result was not awaitable.
        """
        try:
            self.begin()
            await asyncio.shield(self.ended)
        finally:
            await self.close()
        self.raise_input_error()

    def begin(self) -> None:
        """Start the first calls."""
        self._loop = loop = asyncio.get_running_loop()
        self.ended = loop.create_future()
        self._unsubscribe: Callable[[], None] = lambda: None
        self.flight.open()
        controller = self._settings.controller
        if controller is not None:
            controller.start()
            self._unsubscribe = controller.subscribe(self._pump_soon)
        self._inputs.open(self._has_room, self.pump)
        for _ in range(self._signals_sent):
            self._hear_signal()
        self.pump()

    async def close(self) -> None:
        """End what is still under way: after the run's end, or when its caller gave up."""
        if self._loop is None:
            return
        try:
            if not self.ended.done():
                self._stop(None, grace_s=0)
                await asyncio.wait([self.ended], timeout=2 * CANCEL_GRACE_S)
            self._inputs.close()
            await self._inputs.wait_closed(CANCEL_GRACE_S)
            await self._telling.finish(STOP_GRACE_S)
        finally:
            self._inputs.close()
            self._queue.clear()
            self.flight.close()
            self._unsubscribe()
            if self._stop_timer is not None:
                self._stop_timer.cancel()
            self._progress.close()
            self._sink = NO_SINK  # the executor remembers its latest run, not its results

    def raise_input_error(self) -> None:
        """Raise what the inputs raised, if they did."""
        if self._inputs.error is not None:
            raise self._inputs.error

    @property
    def total(self) -> int | None:
        """How many inputs there are; None if nobody knew beforehand."""
        return self._inputs.total

    def cancel(self, index: int) -> bool:
        """Fail one call that is in flight, waiting or ready; tell whether it was."""
        if self.flight.cancel(index, Cancelled.REQUEST):
            return True
        call = self._queue.remove(index)
        if call is None:
            return False
        self._fail(call, reasons.cancelled_on_request(index), on_request=True)
        self.pump()
        return True

    # ---- starting -----------------------------------------------------------------------

    def pump(self) -> None:
        """Start what may start; end the run when nothing is left to do."""
        # Hooks and eager tasks may lead back here. While an attempt is being settled its call is
        # in nobody's hands, so the run would look finished; and a pump within a pump recurses.
        if self._settling or self._pumping:
            self._pump_again = True
            return
        self._pumping = self._pump_again = True
        try:
            while self._pump_again:
                self._pump_again = False
                self._start_what_may()
        except BaseException as bug:  # noqa: BLE001 - the run raises it: it must not hang on it
            self._crash(bug)
        finally:
            self._pumping = False
        # Once it stops, the run no longer waits for its hooks here: `close` does, for a while.
        busy = self.flight or self._queue or (self._telling and not self._stopping)
        if self._inputs.exhausted and not busy:
            self._end()
        else:
            self._inputs.refill()

    def _start_what_may(self) -> None:
        while not self._stopping and len(self.flight) < self._target():
            call = self._next()
            if call is None:
                return
            self._telling.started(self.flight.start(call))

    def _pump_soon(self) -> None:
        # Not at once, as the target mostly changes while an attempt is being settled; and on our
        # own loop, as another run of the executor may have changed it in another thread.
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.pump)

    def _target(self) -> int:
        controller = self._settings.controller
        return self._settings.concurrency if controller is None else controller.target_concurrency

    def _has_room(self) -> bool:
        held = len(self.flight) + len(self._queue) + len(self._telling) + self._inputs.fetched
        return held + self._sink.backlog() < 5 * self._settings.concurrency

    def _next(self) -> Call | None:
        back = self._queue.pop()
        if back is not None:
            return back
        if not self._inputs.fetched and not self._has_room():
            return None
        taken = self._inputs.take()
        if taken is NOTHING:
            return None
        call = Call(self._taken, taken)
        self._taken += 1
        self._sink.take(call)
        return call

    # ---- settling -----------------------------------------------------------------------

    def _settle(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        outer, self._settling = self._settling, True
        try:
            # What a cancelled call returned is no answer: code that catches everything answers
            # a cancellation with None.
            if attempt.cancelled is not None:
                self._settle_cancelled(attempt)
            elif error is None:
                self._settle_completed(attempt, value)
            elif isinstance(error, asyncio.CancelledError):
                self._settle_failed(attempt, reasons.cancelled_from_inside(attempt.index, error))
            elif isinstance(error, Exception):
                self._settle_failed(attempt, error)
            else:
                self._crash(error)
        except BaseException as bug:  # noqa: BLE001 - the run raises it: it must not hang on it
            self._crash(bug)
        finally:
            self._settling = outer
        self.pump()

    def _settle_completed(self, attempt: Attempt, value: Any) -> None:
        if self._settings.controller is not None:
            self._settings.controller.record_success(attempt.seconds or 0.0)
        attempt.call.details.complete()
        self._telling.ended(attempt)
        self._finish(attempt.call, value, None)

    def _settle_failed(self, attempt: Attempt, error: Exception) -> None:
        call = attempt.call
        if isinstance(error, NotAwaitableError) and call.index == 0 and attempt.number == 1:
            self._crash(error)
            return
        call.details.log_exception(error)
        verdict = self._settings.rules.judge(error, call.retries, self._progress)
        attempt.error, attempt.kind = error, verdict.kind
        if verdict.kind is FailureKind.RATE_LIMIT and self._settings.controller is not None:
            self._settings.controller.record_error()
        if not self._stopping:
            attempt.retry_in = verdict.wait_s
        self._telling.ended(attempt)
        self._after_failure(call, error, verdict)

    def _after_failure(self, call: Call, error: Exception, verdict: Verdict) -> None:
        if verdict.kind is FailureKind.QUOTA:
            self._stop(reasons.quota_exhausted(error), grace_s=STOP_GRACE_S)
        elif verdict.wait_s is None:
            self._fail(call, error)
        elif not self._stopping:
            self._progress.say_retry(call, error, verdict.wait_s)
            call.retries += 1
            self._queue.put_later(call, verdict.wait_s)

    def _settle_cancelled(self, attempt: Attempt) -> None:
        if attempt.cancelled is Cancelled.TIMEOUT:
            self._settle_timed_out(attempt)
            return
        on_request = attempt.cancelled is Cancelled.REQUEST
        attempt.error = reasons.cancelled_on_request(attempt.index) if on_request else None
        self._telling.ended(attempt)
        if attempt.error is not None:
            self._fail(attempt.call, attempt.error, on_request=True)

    def _settle_timed_out(self, attempt: Attempt) -> None:
        call = attempt.call
        error = reasons.overdue(call.index, attempt.number, self._settings.timeout_s)
        call.details.log_exception(error)
        if self._settings.controller is not None:
            self._settings.controller.record_timeout()
        call.timeouts += 1
        spent = call.timeouts > self._settings.max_timeouts
        attempt.error = error
        attempt.retry_in = None if spent or self._stopping else 0.0
        self._telling.ended(attempt)
        if spent:
            self._fail(call, error)
        elif not self._stopping:
            self._progress.say_retry(call, error, 0.0)
            self._queue.put(call)

    # ---- finishing ----------------------------------------------------------------------

    def _fail(self, call: Call, error: Exception, *, on_request: bool = False) -> None:
        details = call.details
        if not details.exceptions or details.exceptions[-1] is not error:
            details.log_exception(error)
        details.fail()
        self._progress.say_failed(call, error)
        self._finish(call, self._settings.fallback, error)
        # If it stops already, it does so at that stop's own pace.
        if self._settings.exit_on_error and not on_request and not self._stopping:
            self._stop(error, grace_s=0)

    def _finish(self, call: Call, output: Any, error: Exception | None) -> None:
        finished = Finished(call.index, call.input, output, error, call.details)
        self._sink.finish(finished)
        self._progress.advance()
        self._telling.completed(finished)

    # ---- stopping -----------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop (the first time), stop at once (the second). From any thread or handler."""
        self._signals_sent += 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hear_signal)

    def _hear_signal(self) -> None:
        self._signals_heard += 1
        if self.ended.done():
            return
        if self._signals_heard > 1:
            self.flight.drop_all()
            self._end()
            return
        self._stop(reasons.interrupted(), grace_s=STOP_GRACE_S)

    def _stop(self, reason: Exception | None, *, grace_s: float) -> None:
        """Take no more work; cancel what is in flight when the grace is over."""
        if self.stop_reason is None and reason is not None:
            self.stop_reason = reason
            self._progress.say_stop(reason, in_flight=len(self.flight))
        self._stopping = True
        self._inputs.close()
        self._queue.clear()
        if grace_s == 0:
            self.flight.cancel_all()
        elif self._stop_timer is None:
            loop = asyncio.get_running_loop()
            self._stop_timer = loop.call_later(grace_s, self.flight.cancel_all)
        self.pump()

    def _crash(self, error: BaseException) -> None:
        """Stop, and have the run raise what no call can answer for."""
        self._fatal = self._fatal or error
        self._stop(None, grace_s=0)

    def _end(self) -> None:
        if self.ended.done():
            return
        if self._fatal is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(self._fatal)
