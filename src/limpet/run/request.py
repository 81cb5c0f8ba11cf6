"""What was an evaluation asked to do?"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.datasets.selection import Selection
from limpet.evaluators.protocol import Evaluator
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.executors.options import ExecutorOptions
from limpet.fingerprints.declared import DependsOn
from limpet.journal.writer import Durability
from limpet.run.progress.watcher import Watcher
from limpet.run.results.costs import Prices
from limpet.run.results.evaluation_result import EvaluationResult, ItemResult
from limpet.run.run_file import OnChange
from limpet.types import Item
from limpet.workflows.protocol import Workflow

OnItem = Callable[[ItemResult], Awaitable[None] | None]
"""Told of an item that has its answer, or has failed, when that is on disk."""

OnEnd = Callable[[EvaluationResult], bool | None]
"""Told of what came out when all files are written, while the run is still locked. Returns False
if what it does failed: then the run is not complete, and does it again."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an evaluation was asked to do.

    Attributes:
        items: Every item of the dataset.
        selection: Which of them this session is about.
        redo: The steps that are to be run again whatever is there.
        redo_items: Of which items only, by their ids; None: of all.
        depends_on: What the workflow depends on that cannot be seen.
        dataset_files: Where the dataset was read from.
        made_by: Which file was run by the command line, and how; None: a script asks.
    """

    items: Sequence[Item]
    workflow: Workflow
    evaluators: Sequence[Evaluator]
    run: Path | None
    trials: int = 1
    selection: Selection = field(default_factory=Selection)
    redo: frozenset[str] = frozenset()
    redo_items: frozenset[str] | None = None
    on_change: OnChange | None = None
    depends_on: DependsOn | None = None
    retry_failed: bool = True
    durability: Durability = "sync"
    trace_filter: Sequence[str] | None = None
    bare_outputs: bool = False
    on_item_complete: OnItem | None = None
    on_end: OnEnd | None = None
    watcher: Watcher | None = None
    stop_grace_s: float = STOP_GRACE_S
    configuration: Mapping[str, Any] | None = None
    made_by: Mapping[str, Any] | None = None
    prices: Prices | None = None
    mask: bool = True
    secrets: Sequence[str] = ()
    early_stop: bool = True
    bad_rows: Sequence[Any] = ()
    dataset_files: Sequence[Path] = ()
    options: ExecutorOptions = field(default_factory=ExecutorOptions)
