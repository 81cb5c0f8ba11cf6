"""What does an executor pass to its runs: settings, and a sink for results."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from limpet.executors.attempts import Call, Finished
from limpet.executors.gate import CostOf
from limpet.executors.hooks import Hooks
from limpet.executors.retry import RetryRules
from limpet.pacing.aimd import ConcurrencyController
from limpet.pacing.pacer import Pacer


class Beginning(NamedTuple):
    """A gentle beginning: at most `most` calls in progress, for at most `seconds`."""

    most: int
    seconds: float


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
    beginning: Beginning | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a run's results go.

    Attributes:
        take: Called with each call when its input is taken, in input order.
        finish: Called with each input that is done.
        backlog: Returns how many finished inputs have not been read yet.
    """

    take: Callable[[Call], None]
    finish: Callable[[Finished[Any, Any]], None]
    backlog: Callable[[], int]


NO_SINK = Sink(lambda _call: None, lambda _finished: None, lambda: 0)
"""For a run that is over."""
