"""How many concurrent calls, judging only by successes, timeouts and refusals?"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from limpet.arguments import number_from, positive_number, share, whole_number_from

# ---- What time is it? ---------------------------------------------------------------------------
#
# Inside an event loop, the loop's: a loop on virtual time then controls every wait. Outside a loop,
# the monotonic clock, which a real loop uses too.


def clock() -> Callable[[], float]:
    """Return the running loop's clock, or `time.monotonic` without a running loop."""
    try:
        return asyncio.get_running_loop().time
    except RuntimeError:
        return time.monotonic


def now() -> float:
    """Return the time by that clock."""
    return clock()()


# ---- How many concurrent calls, judging only by successes, timeouts and refusals? ---------------


class ConcurrencyController:
    """Additive increase, multiplicative decrease (AIMD) of a target concurrency.

    Feedback is collected in windows. A window without an error or timeout adds `increase_step`;
    a window with one multiplies by `decrease_ratio`. `collapse_error_threshold` errors within
    `collapse_window_seconds` drop the target to 1 at once. The target stays within
    [1, max_concurrency].

    In the steady state, with step a, ratio b and a share r of windows that see an error, gains
    and losses balance where `a(1-r) = (1-b)·r·C`, so the target hovers around

        C = a(1-r) / ((1-b)r)

    With a=1 and b=0.5 that is 18 at one bad window in ten, 2 at one in two, and one call at a
    time from two in three on.

    Args:
        max_concurrency: Maximum target.
        initial_target: Target to start with.
        window_seconds: How long feedback is collected before the target moves.
        increase_step: Added to the target after a clean window.
        decrease_ratio: Multiplies the target after a window with an error or timeout.
        inactive_check_interval: Accepted for compatibility and readable; nothing polls, because
            subscribers are notified when the target changes.
        smoothing_factor: Weight of the latest latency in `smoothed_latency_seconds`.
        collapse_window_seconds: Time span in which errors cause a collapse.
        collapse_error_threshold: Number of errors that cause a collapse.

    Attributes:
        target_concurrency: How many calls may be in flight now.
        smoothed_latency_seconds: The exponentially weighted latency of successes; None before the
            first.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        *,
        max_concurrency: int,
        initial_target: float,
        window_seconds: float = 5,
        increase_step: float = 0.5,
        decrease_ratio: float = 0.5,
        inactive_check_interval: float = 1.0,
        smoothing_factor: float = 0.2,
        collapse_window_seconds: float = 15,
        collapse_error_threshold: int = 2,
    ) -> None:
        self.max_concurrency = whole_number_from(1, max_concurrency=max_concurrency)
        self.window_seconds = positive_number(window_seconds=window_seconds)
        self.increase_step = number_from(0, increase_step=increase_step)
        self.decrease_ratio = share(decrease_ratio=decrease_ratio)
        self.inactive_check_interval = positive_number(
            inactive_check_interval=inactive_check_interval
        )
        self.smoothing_factor = share(smoothing_factor=smoothing_factor)
        self.collapse_window_seconds = positive_number(
            collapse_window_seconds=collapse_window_seconds
        )
        self.collapse_error_threshold = whole_number_from(
            1, collapse_error_threshold=collapse_error_threshold
        )
        self._target = self._clamped(positive_number(initial_target=initial_target))
        self.target_concurrency = int(self._target)
        self.smoothed_latency_seconds: float | None = None
        self._listeners: list[Callable[[], None]] = []
        self.start()

    def start(self) -> None:
        """Start a new feedback window, keeping the current target.

        A run calls this first, to ignore the time since construction, perhaps by another clock.
        """
        self._clock = clock()
        self._window_started_at = self._clock()
        self._trouble = False
        self._errors: deque[float] = deque(maxlen=self.collapse_error_threshold)

    def record_success(self, latency_seconds: float) -> None:
        """Record a successful call and its latency."""
        if self.smoothed_latency_seconds is None:
            self.smoothed_latency_seconds = float(latency_seconds)
        else:
            gap = latency_seconds - self.smoothed_latency_seconds
            self.smoothed_latency_seconds += self.smoothing_factor * gap
        self._end_window_if_due(self._clock())

    def record_timeout(self) -> None:
        """Record a call that timed out."""
        self._trouble = True
        self._end_window_if_due(self._clock())

    def record_error(self) -> None:
        """Record a call the provider refused."""
        at = self._clock()
        self._trouble = True
        self._errors.append(at)
        full = len(self._errors) == self.collapse_error_threshold
        if full and at - self._errors[0] <= self.collapse_window_seconds:
            self._move_to(1.0)
        self._end_window_if_due(at)

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the target changes. Returns a function to unsubscribe."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _end_window_if_due(self, at: float) -> None:
        if at - self._window_started_at < self.window_seconds:
            return
        if self._trouble:
            self._move_to(self._target * self.decrease_ratio)
        else:
            self._move_to(self._target + self.increase_step)
        self._window_started_at = at
        self._trouble = False

    def _move_to(self, target: float) -> None:
        # Clamped when stored, not when read: a target that had grown far beyond the maximum would
        # absorb the next decreases without effect.
        self._target = self._clamped(target)
        if self.target_concurrency != int(self._target):
            self.target_concurrency = int(self._target)
            for listener in list(self._listeners):
                listener()

    def _clamped(self, target: float) -> float:
        return min(max(1.0, float(target)), float(self.max_concurrency))
