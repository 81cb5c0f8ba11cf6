"""The keyword arguments of an AsyncExecutor, and the settings it passes to each of its runs."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

from limpet.executors.progress import Hooks, OnAttempt, OnComplete
from limpet.executors.retry import Backoff, Classify, RetryRules
from limpet.pacing.aimd import ConcurrencyController
from limpet.pacing.pacer import Cost, Pacer

# ---- Does the function work at all? Until that is known, few calls are made. --------------------
#
# A function that always fails would make thousands of calls while its first inputs are retried. A
# slow provider must not be mistaken for one: its first answers may take minutes. So a slow start
# ends with the first success, or after some seconds unless several inputs have failed by then or
# fail later. Only a few failed inputs are retried; the others are held back, in case they fail for
# the same reason.


class SlowStart(NamedTuple):
    """The limits of a slow start.

    Attributes:
        most: How many inputs may be in progress.
        retried: How many inputs that failed may be retried; this many failures keep it slow.
        seconds: After which it ends if fewer inputs have failed.
    """

    most: int
    retried: int
    seconds: float


class FirstCalls:
    """Which calls a run may make while it starts slowly.

    Args:
        limits: The limits; None: it starts at full speed. They end with `full_speed`.
        on_time: Called when the seconds have passed.
    """

    def __init__(self, limits: SlowStart | None, on_time: Callable[[], None]) -> None:
        self.limits = limits
        self._on_time = on_time
        self._timer: asyncio.TimerHandle | None = None
        self._is_time_up = False
        self._failed: set[int] = set()  # at most `retried` of them
        self._retried: set[int] = set()

    def _limits_now(self) -> SlowStart | None:
        limits = self.limits
        if limits is None or (self._is_time_up and len(self._failed) < limits.retried):
            return None
        return limits

    def may_take(self, in_progress: int) -> bool:
        """Return whether an input may be taken while this many are in progress."""
        limits = self._limits_now()
        return limits is None or in_progress < limits.most

    def took(self) -> None:
        """An input was taken: the time runs from the first."""
        if self.limits is not None and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.limits.seconds, self._time_is_up)

    def failed(self, index: int) -> None:
        """An attempt at this input failed."""
        if self.limits is not None and len(self._failed) < self.limits.retried:
            self._failed.add(index)

    def may_retry(self, index: int) -> bool:
        """Return whether a failed input may be retried; once allowed, it stays allowed."""
        limits = self._limits_now()
        if limits is None or index in self._retried:
            return True
        if len(self._retried) == limits.retried:
            return False
        self._retried.add(index)
        return True

    def ended(self, index: int) -> bool:
        """An input ended. Returns whether another may be retried instead."""
        if index not in self._retried:
            return False
        self._retried.remove(index)
        return True

    def full_speed(self) -> bool:
        """End the slow start. Returns whether it was on."""
        was_on, self.limits = self.limits is not None, None
        return was_on

    def _time_is_up(self) -> None:
        self._is_time_up = True
        self._on_time()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


# ---- The keyword arguments of an AsyncExecutor, and the settings it passes to each of its runs.

CostOf = Callable[[Any], Cost]
"""Returns the estimated cost of an input."""


class ExecutorOptions(TypedDict, total=False):
    """Keyword arguments of `AsyncExecutor`, typed for callers that pass them on."""

    concurrency: int | Literal["auto"]
    tqdm_bar_format: str | None
    max_retries: int
    exit_on_error: bool
    fallback_return_value: Any
    termination_signal: signal.Signals | None
    timeout: float | None
    enable_dynamic_concurrency: bool
    dynamic_initial_target: int | None
    dynamic_window_seconds: float
    dynamic_increase_step: float
    dynamic_decrease_ratio: float
    dynamic_inactive_check_interval: float
    max_timeouts: int | None
    max_concurrency: int
    cost: CostOf | None
    pacer: Pacer | None
    classify: Classify | None
    backoff: Backoff | None
    on_complete: OnComplete | None
    on_attempt_start: OnAttempt | None
    on_attempt_end: OnAttempt | None


@dataclass(slots=True)
class Orders:
    """What was ordered of an executor; each of its runs obeys.

    Attributes:
        pauses: Why it starts nothing now; empty: it does.
        concurrency: How many calls may be in flight; None: as in the settings.
        refuse: Returns why an input must fail instead of being started; None: it may start.
    """

    pauses: set[str] = field(default_factory=set)
    concurrency: int | None = None
    refuse: Callable[[Any], Exception | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Settings:
    """An executor's settings, the same for each of its runs."""

    function: Callable[[Any], Awaitable[Any]]
    concurrency: int
    controller: ConcurrencyController | None
    timeout_s: float
    max_timeouts: int | None  # None: timeouts count as retries
    rules: RetryRules
    exit_on_error: bool
    fallback: Any
    hooks: Hooks
    pacer: Pacer | None = None
    cost: CostOf | None = None
    slow_start: SlowStart | None = None
