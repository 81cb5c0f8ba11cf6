"""The keyword arguments of an AsyncExecutor, and the settings it passes to each of its runs."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from limpet.executors.hooks import Hooks, OnAttempt, OnComplete
from limpet.executors.retry import Backoff, Classify, RetryRules
from limpet.executors.slow_start import SlowStart
from limpet.pacing.aimd import ConcurrencyController
from limpet.pacing.pacer import Cost, Pacer

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
