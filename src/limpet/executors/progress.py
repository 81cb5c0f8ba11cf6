"""What does the user see while a run is in progress?

With a bar, messages are written through it, so they do not garble it. Without one, they go to the
log, with retries at level INFO. If the bar breaks, because the terminal is gone, it is dropped and
the run continues.
"""

import asyncio
import functools
import logging
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from limpet.arguments import function
from limpet.errors import InterruptedRunError, LimpetError
from limpet.executors import countdown
from limpet.executors.details import Attempt, Finished, InputState
from limpet.secrets.masking import Mask, by_environment

logger = logging.getLogger("limpet.executors")


class ProgressReporter:
    """A tqdm bar, or log messages only if `bar_format` is None.

    Args:
        bar_format: The format of the bar; None: no bar.
        total: How many inputs there are, if known.
        quiet: Log no retries, failures or stops.
        mask: Masks secrets; None: those that the environment holds.
    """

    def __init__(
        self,
        bar_format: str | None,
        total: int | None,
        *,
        quiet: bool = False,
        mask: Mask | None = None,
    ) -> None:
        self._quiet = quiet
        self._mask = mask
        self._bar: Any = None
        if bar_format is not None:
            self._bar = _bar_class()(total=total, bar_format=bar_format)

    def advance(self) -> None:
        if self._bar is not None:
            self._with_bar(lambda bar: bar.update())

    def close(self) -> None:
        """Close the bar and leave it on screen."""
        if self._bar is not None:
            self._with_bar(lambda bar: bar.close())

    def say_retry(self, state: InputState, error: Exception, wait_s: float) -> None:
        self._say(
            logging.INFO,
            "input %s failed (attempt %s): %s; retrying in %s s",
            state.index,
            len(state.details.exceptions),
            error,
            f"{wait_s:.2f}",
        )

    def say_failed(self, state: InputState, error: Exception) -> None:
        count = len(state.details.exceptions)
        attempts = "1 attempt" if count == 1 else f"{count} attempts"
        self._say(logging.WARNING, "input %s failed after %s: %s", state.index, attempts, error)

    def say_second_pass(self, count: int) -> None:
        """Everything else is done: deferred inputs get their last retry."""
        inputs = "1 input" if count == 1 else f"{count} inputs"
        self._say(logging.INFO, "second pass: last retry of %s", inputs)

    def say_abandoned(self, attempt: Attempt) -> None:
        self._say(
            logging.WARNING,
            "the call for input %s ignored its cancellation and was abandoned",
            attempt.index,
        )

    def say_stop(self, reason: Exception, in_flight: int) -> None:
        if isinstance(reason, InterruptedRunError):
            calls = "1 call" if in_flight == 1 else f"{in_flight} calls"
            why = f"{calls} in flight, signal again to stop now" if in_flight else str(reason)
            self._say(logging.WARNING, "stopping: %s", why)
        elif isinstance(reason, LimpetError) and reason.hint is not None:
            self._say(logging.WARNING, "stopping: %s; %s", str(reason), reason.hint)

    def log_fault(self, fault: BaseException, message: str, *values: object) -> None:
        """Log a failure in the user's hooks or estimates, with its traceback."""

        def log() -> None:
            logger.error(message, *self._shown(values), exc_info=fault)

        if self._bar is None:
            log()
        else:
            # Log handlers may write to the terminal: clear the bar meanwhile.
            self._with_bar(lambda bar: _beside(bar, log))

    def _say(self, level: int, message: str, *values: object) -> None:
        if self._bar is None:
            if logger.isEnabledFor(level) and not self._quiet:
                logger.log(level, message, *self._shown(values))
            return
        text = message % self._shown(values)
        self._with_bar(lambda bar: bar.write(text, file=sys.stderr))

    def _shown(self, values: Sequence[object]) -> tuple[str, ...]:
        """Return values for a message, shortened and masked: an error may quote a full request."""
        mask = by_environment().ours if self._mask is None else self._mask
        return tuple(map(mask.shown, values))

    def _with_bar(self, act: Callable[[Any], object]) -> None:
        try:
            act(self._bar)
        except Exception:
            self._bar = None
            logger.exception("the progress bar broke; the run continues without it")


def _bar_class() -> Any:
    from tqdm import TqdmWarning  # noqa: PLC0415 - a fifth of our import time, rarely needed

    with warnings.catch_warnings():
        # In a notebook without widgets, tqdm asks for them each time; its text bar is fine.
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm  # noqa: PLC0415
    return tqdm


def _beside(bar: Any, act: Callable[[], None]) -> None:
    with bar.external_write_mode(file=sys.stderr):
        act()


# ---- How are hooks called, and what if they fail? -----------------------------------------------
#
# A hook may be sync or async. If it fails, the error is logged with its traceback, and the run
# continues.

OnComplete = Callable[[Finished[Any, Any]], Awaitable[None] | None]
OnAttempt = Callable[[Attempt], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The user's hooks."""

    on_complete: OnComplete | None
    on_attempt_start: OnAttempt | None
    on_attempt_end: OnAttempt | None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) is not None:
                function(**{name: getattr(self, name)})


class HookRunner:
    """Calls the hooks of one run and keeps track of the async ones still running."""

    def __init__(self, progress: ProgressReporter, on_done: Callable[[], None]) -> None:
        self._progress = progress
        self._on_done = on_done
        self.running: set[asyncio.Future[None]] = set()

    async def finish(self, timeout_s: float) -> None:
        """Wait for running async hooks, then cancel and log those that are late."""
        if not self.running:
            return
        late = await countdown.wait(self.running, timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=timeout_s)

    def call(
        self,
        hook: Callable[[Any], Awaitable[None] | None] | None,
        event: Any,
        then: Callable[[], None] | None = None,
    ) -> bool:
        """Call a hook, if there is one.

        Returns:
            Whether it is still running; then `then` is called when it ends.
        """
        if hook is None:
            return False
        try:
            result = hook(event)
            if isinstance(result, asyncio.Future):
                running = result  # it needs no task of its own
            elif result is None or not isawaitable(result):
                return False
            else:
                running = asyncio.ensure_future(result, loop=asyncio.get_running_loop())
        except Exception as fault:  # noqa: BLE001 - logged with its traceback
            self._progress.log_fault(fault, "the hook %s failed on %s", hook, type(event).__name__)
            return False
        self.running.add(running)
        # Not in the task itself: an eager task ends before it is added.
        running.add_done_callback(functools.partial(self._done, hook, then))
        return True

    def _done(
        self, hook: Any, then: Callable[[], None] | None, ended: asyncio.Future[None]
    ) -> None:
        self.running.discard(ended)
        if ended.cancelled():
            late = asyncio.CancelledError()
            self._progress.log_fault(late, "the hook %s was cancelled before it ended", hook)
        elif (fault := ended.exception()) is not None:
            self._progress.log_fault(fault, "the hook %s failed", hook)
        if then is not None:
            then()
        self._on_done()
