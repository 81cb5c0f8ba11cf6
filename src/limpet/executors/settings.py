"""What is a run told by its executor, and where does it put what it has done?"""

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
    """How gently a run begins: with so many calls under way at most, for so long at most."""

    most: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Settings:
    """What an executor was told, the same for each of its runs."""

    function: Callable[[Any], Awaitable[Any]]
    concurrency: int
    controller: ConcurrencyController | None
    timeout_s: float
    max_timeouts: int | None  # None: time-outs count as retries
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
        take: Told of each call as its input is taken, in input order.
        finish: Told of each input that is done.
        backlog: How many finished inputs nobody has fetched yet; they count as held.
    """

    take: Callable[[Call], None]
    finish: Callable[[Finished[Any, Any]], None]
    backlog: Callable[[], int]


NO_SINK = Sink(lambda _call: None, lambda _finished: None, lambda: 0)
"""For a run that is over."""
