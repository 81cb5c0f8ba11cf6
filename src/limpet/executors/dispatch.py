"""Which call starts next?

A Dispatch is one run of an AsyncExecutor. It has no workers: whenever an attempt settles, an
input arrives, a wait is over, the pacer gives leave or the target changes, `pump` starts what may
start. So there is nothing to poll, and the run ends in the same turn of the event loop as its
last call.

What the run holds (ready, waiting, in flight, fetched ahead, finished but not yet handed over)
stays within five times the concurrency; a new input is taken only when there is room.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

from limpet.executors import reasons
from limpet.executors.attempts import Attempt, Call, Cancelled, Finished
from limpet.executors.countdown import Countdown
from limpet.executors.flight import CANCEL_GRACE_S, Flight
from limpet.executors.gate import Gate
from limpet.executors.hooks import Telling
from limpet.executors.inputs import NOTHING, Inputs
from limpet.executors.progress import Progress
from limpet.executors.queue import CallQueue
from limpet.executors.settings import NO_SINK, Settings, Sink
from limpet.executors.settlement import Judge, Then, Verdict
from limpet.pacing.pacer import Ticket

STOP_GRACE_S = 2.0
"""How long calls in flight may go on when the run stops in good order."""
MOST_DEFERRED = 1000
"""How many calls are kept for a second pass; memory must not grow with the inputs."""


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
        self._judge = Judge(settings, progress, self._has_itself_to_blame)
        self._completed = 0
        self._queue = CallQueue(self.pump)
        self._gate: Gate | None = None
        if settings.pacer is not None:
            self._gate = Gate(settings.pacer, settings.cost, self._start_and_pump, progress)
        self._deferred: list[Call] = []
        self._taken = 0
        self._stopping = self._paused = False
        self._beginning = settings.beginning
        self._beginning_timer: asyncio.TimerHandle | None = None
        self._stop_timer: Countdown | None = None
        self._stop_by = math.inf
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
            for timer in (self._stop_timer, self._beginning_timer):
                if timer is not None:
                    timer.cancel()
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
        if call is None and self._gate is not None:
            call = self._gate.remove(index)
        if call is None:
            call = next((one for one in self._deferred if one.index == index), None)
            if call is None:
                return False
            self._deferred.remove(call)
        error = reasons.cancelled_on_request(index)
        call.details.log_exception(error)
        self._carry_out(call, Verdict(Then.FAIL, error, on_request=True), None)
        self.pump()
        return True

    def pause(self, *, paused: bool) -> None:
        """Start nothing for now, or go on. What is in flight goes on in any case."""
        self._paused = paused
        if not paused:
            self._pump_soon()

    def stop(self, reason: Exception, grace_s: float = STOP_GRACE_S) -> None:
        """Stop in good order, for a reason that the calls do not know of."""
        if self._loop is not None and not self.ended.done():
            self._stop(reason, grace_s=grace_s)
            self.pump()

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
        waits = self._queue or self._at_gate or (self._telling and not self._stopping)
        if not self._inputs.exhausted or self.flight or waits:
            self._inputs.refill()
        elif self._deferred:
            self._begin_second_pass()
        else:
            self._end()

    def _start_what_may(self) -> None:
        while not (self._stopping or self._paused or self._at_gate):
            if len(self.flight) >= self._target():
                return
            call = self._next()
            if call is None:
                return
            ticket = None
            if self._gate is not None:
                ticket = self._gate.ask(call)
                if ticket is None:
                    return  # it waits at the gate
            self._telling.started(self.flight.start(call, ticket))

    def _start_and_pump(self, call: Call, ticket: Ticket) -> None:
        self._telling.started(self.flight.start(call, ticket))
        self.pump()

    @property
    def _at_gate(self) -> int:
        return 0 if self._gate is None or self._gate.waiting is None else 1

    def _pump_soon(self) -> None:
        # Not at once, as the target mostly changes while an attempt is being settled; and on our
        # own loop, as another run of the executor may have changed it in another thread.
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.pump)

    def _target(self) -> int:
        controller = self._settings.controller
        return self._settings.concurrency if controller is None else controller.target_concurrency

    def _has_room(self) -> bool:
        held = self._under_way + self._inputs.fetched + self._sink.backlog()
        return held < 5 * self._settings.concurrency

    @property
    def _under_way(self) -> int:
        return len(self.flight) + len(self._queue) + len(self._telling) + self._at_gate

    def _begins_gently(self) -> bool:
        """Tell whether a fresh call has to wait until the beginning is over."""
        return self._beginning is not None and self._under_way >= self._beginning.most

    def _watch_beginning(self) -> None:
        if self._beginning is not None and self._beginning_timer is None:
            loop = asyncio.get_running_loop()
            self._beginning_timer = loop.call_later(self._beginning.seconds, self.end_beginning)

    def end_beginning(self) -> None:
        """Go on at full pace."""
        if self._beginning is not None:
            self._beginning = None
            self.pump()

    def _next(self) -> Call | None:
        back = self._queue.pop()
        if back is not None:
            return back
        if not self._inputs.fetched and not self._has_room():
            return self._queue.pop_last()
        if self._begins_gently():
            return self._queue.pop_last()
        taken = self._inputs.take()
        if taken is NOTHING:
            return self._queue.pop_last()
        call = Call(self._inputs.number(self._taken), taken)
        self._taken += 1
        self._watch_beginning()
        self._sink.take(call)
        return call

    # ---- settling -----------------------------------------------------------------------

    def _settle(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        outer, self._settling = self._settling, True
        try:
            verdict = self._judge.decide(attempt, error)
            self._note(attempt, verdict)
            self._telling.ended(attempt)
            self._carry_out(attempt.call, verdict, value)
        except BaseException as bug:  # noqa: BLE001 - the run raises it: it must not hang on it
            self._crash(bug)
        finally:
            self._settling = outer
        self.pump()

    def _note(self, attempt: Attempt, verdict: Verdict) -> None:
        """Write into the attempt and the call's details what was decided."""
        attempt.error = verdict.error
        details = attempt.call.details
        if verdict.then is Then.COMPLETE:
            details.complete()
        # Of a stop, the call remembers what it met, not what the run made of it.
        met = verdict.error
        if met is not None and verdict.then is Then.STOP:
            met = met.__cause__ or met
        if isinstance(met, Exception):
            details.log_exception(met)
        if verdict.then is Then.AGAIN and not self._stopping:
            attempt.retry_in = verdict.wait_s

    def _carry_out(self, call: Call, verdict: Verdict, value: Any) -> None:
        error = verdict.error
        if verdict.then is Then.COMPLETE:
            self._finish(call, value, None)
        elif verdict.then is Then.CRASH:
            self._crash(error or AssertionError("a crash has a reason"))
        elif not isinstance(error, Exception):
            return  # it did not run
        elif verdict.then is Then.STOP:
            self._stop(error, grace_s=STOP_GRACE_S)
        elif verdict.then is Then.FAIL:
            self._fail(call, error, verdict)
        elif not self._stopping:
            self._progress.say_retry(call, error, verdict.wait_s)
            call.retries += verdict.charge == "retries"
            call.timeouts += verdict.charge == "timeouts"
            if call.seen_completed < 0:
                call.seen_completed = self._completed
            if verdict.last and self._may_defer(call):
                call.deferred = True
                self._deferred.append(call)
            elif self._gate is not None and self._gate.pacer.blocked:
                # Another call is to probe: perhaps it is just this one that cannot pass.
                self._queue.put_last(call)
            else:
                self._queue.put_later(call, verdict.wait_s)

    # ---- finishing ----------------------------------------------------------------------

    def _fail(self, call: Call, error: Exception, verdict: Verdict) -> None:
        call.details.fail()
        self._progress.say_failed(call, error)
        self._finish(call, self._settings.fallback, error)
        # If it stops already, it does so at that stop's own pace.
        if self._settings.exit_on_error and not verdict.on_request and not self._stopping:
            self._stop(error, grace_s=0)

    def _may_defer(self, call: Call) -> bool:
        """Tell whether a call's last retry is left for the end, if the run goes on without it.

        Not where nothing works at all: then it had better be known soon.
        """
        goes_on = not self._settings.exit_on_error and self._completed > 0
        fits = not call.deferred and len(self._deferred) < MOST_DEFERRED
        return self._gate is not None and goes_on and fits

    def _has_itself_to_blame(self, call: Call) -> bool:
        """Tell whether a call fails on its own: others passed since it first failed."""
        return 0 <= call.seen_completed < self._completed

    def _begin_second_pass(self) -> None:
        """Make the last retry of what failed in passing: by now a bad spell may be over."""
        calls, self._deferred = self._deferred, []
        self._progress.say_second_pass(len(calls))
        for call in calls:
            call.refusals = 0
            call.seen_completed = 0
            self._queue.put(call)
        self._pump_soon()

    def _finish(self, call: Call, output: Any, error: Exception | None) -> None:
        finished = Finished(call.index, call.input, output, error, call.details)
        self._completed += error is None
        self._sink.finish(finished)
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
        self._deferred.clear()
        if self._gate is not None:
            self._gate.close()
        if grace_s == 0:
            self.flight.cancel_all()
        elif grace_s < math.inf:
            due = asyncio.get_running_loop().time() + grace_s
            if due < self._stop_by:
                self._stop_by = due
                self._set_stop_timer(grace_s)
        self.pump()

    def _set_stop_timer(self, seconds: float) -> None:
        if self._stop_timer is not None:
            self._stop_timer.cancel()
        self._stop_timer = Countdown(seconds, self.flight.cancel_all)

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
