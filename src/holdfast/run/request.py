"""What was an evaluation asked to do?"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.evaluators.protocol import Evaluator
from holdfast.executors.dispatch import STOP_GRACE_S
from holdfast.executors.options import ExecutorOptions
from holdfast.journal.writer import Durability
from holdfast.run.change import OnChange
from holdfast.run.results import EvaluationResult, ItemResult
from holdfast.run.usage import Prices
from holdfast.run.watcher import Watcher
from holdfast.types import Item
from holdfast.workflows.protocol import Workflow

OnItem = Callable[[ItemResult], Awaitable[None] | None]
"""Told of an item that has its answer, or has failed, when that is on disk."""

OnEnd = Callable[[EvaluationResult], bool | None]
"""Told of what came out when all files are written, while the run is still locked. Returns False
if what it does failed: then the run is not complete, and does it again."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an evaluation was asked to do."""

    items: Sequence[Item]
    workflow: Workflow
    evaluators: Sequence[Evaluator]
    run: Path | None
    trials: int = 1
    on_change: OnChange | None = None
    retry_failed: bool = True
    durability: Durability = "sync"
    step_filter: Sequence[str] | None = None
    bare_outputs: bool = False
    on_item_complete: OnItem | None = None
    on_end: OnEnd | None = None
    watcher: Watcher | None = None
    stop_grace_s: float = STOP_GRACE_S
    configuration: Mapping[str, Any] | None = None
    prices: Prices | None = None
    bad_rows: Sequence[Any] = ()
    options: ExecutorOptions = field(default_factory=ExecutorOptions)
