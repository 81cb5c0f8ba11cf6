"""The keyword arguments of an AsyncExecutor, typed for callers that pass them on."""

import signal
from typing import Any, Literal, TypedDict

from limpet.executors.gate import CostOf
from limpet.executors.hooks import OnAttempt, OnComplete
from limpet.executors.retry import Backoff, Classify
from limpet.pacing.pacer import Pacer


class ExecutorOptions(TypedDict, total=False):
    """Keyword arguments of `AsyncExecutor`."""

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
