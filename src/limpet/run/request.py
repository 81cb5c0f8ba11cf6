"""What does an evaluation do?"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from limpet.arguments import as_seconds, positive_number
from limpet.datasets.selection import Selection
from limpet.engines.spec import Engine
from limpet.errors import LimpetError
from limpet.evaluators.protocol import Evaluator, scale_of
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.executors.options import ExecutorOptions
from limpet.fingerprints.steps import DependsOn
from limpet.journal.writer import Durability
from limpet.run.record_fields import ToolkitNames
from limpet.run.results.costs import Prices
from limpet.run.results.item_result import ItemResult
from limpet.run.results.output_files import AnswerRows
from limpet.run.results.score_words import ScoreName, split_name
from limpet.run.run_file import OnChange
from limpet.run.watcher import Watcher
from limpet.shapes import Item, Scale
from limpet.text import did_you_mean
from limpet.workflows.protocol import Workflow

# ---- At which half-widths of its scores does a run stop? ----------------------------------------

_ALLOWED = 'must map scores to half-widths, for example {"correct": 0.02}'


class Goal(NamedTuple):
    """The half-width of a score's 95% interval that is narrow enough.

    Attributes:
        name: The score.
        half_width: The half-width, in the score's own units.
    """

    name: ScoreName
    half_width: float

    def __str__(self) -> str:
        return f"{self.name} ± {self.half_width:g}"


def check_goals(stop_when: Any) -> None:
    """Check the option `stop_when`, as far as possible without the evaluators.

    Raises:
        TypeError: It has the wrong type.
        ValueError: A half-width is not allowed.
    """
    if stop_when is None:
        return
    if not isinstance(stop_when, Mapping) or not all(isinstance(name, str) for name in stop_when):
        raise TypeError(f"stop_when={stop_when!r}: {_ALLOWED}")
    for name, half_width in stop_when.items():
        positive_number(**{f"stop_when[{name!r}]": half_width})


def as_goals(
    stop_when: Mapping[str, float] | None, evaluators: Mapping[str, tuple[float, float] | None]
) -> list[Goal]:
    """Return the option `stop_when` as goals; empty: the run covers all items.

    Args:
        stop_when: The option.
        evaluators: The range of each evaluator; None: not declared.

    Raises:
        LimpetError: A half-width is so large that the first item reaches it.
        ValueError: It names a score that no evaluator gives.
    """
    goals = []
    for text, half_width in (stop_when or {}).items():
        name = split_name(text, evaluators)
        if name is None:
            near = did_you_mean(text, evaluators)
            raise ValueError(f"stop_when: unknown evaluator {text!r}{near}")
        low, high = evaluators[name.evaluator] or (-math.inf, math.inf)
        if half_width >= (high - low) / 2:
            raise LimpetError(
                f"stop_when: {text} ± {half_width:g}: no interval is wider, its range is {low:g} "
                f"to {high:g}",
                hint="name the half-width in the units of the score",
            )
        goals.append(Goal(name, float(half_width)))
    return goals


# ---- When is a call stalled, and what is done about it? -----------------------------------------

_STALLS = ("wait", "retry", "fail")


@dataclass(frozen=True, slots=True)
class Stall:
    """The option `stall`.

    Attributes:
        after: The age in seconds at which a call is stalled; None: by what is usual for its step.
        do: "wait"; "retry": ask again beside it, the first answer counts; "fail".
    """

    after: float | None = None
    do: str = "wait"


def as_stall(stall: Any) -> Stall:
    """Return the option `stall`.

    Raises:
        TypeError: It has the wrong type or another key.
        ValueError: It has a value that is not allowed.
    """
    if stall is None:
        return Stall()
    if not isinstance(stall, Mapping) or not {"after", "do"}.issuperset(stall):
        raise TypeError(f"stall={stall!r}: must be like {{'after': '2m', 'do': 'retry'}}")
    after, do = as_seconds(stall.get("after")), stall.get("do", "wait")
    if do not in _STALLS:
        raise ValueError(f"stall['do']={do!r}: must be one of {', '.join(_STALLS)}")
    return Stall(None if after is None else positive_number(**{"stall['after']": after}), do)


# ---- What does an evaluation do? ----------------------------------------------------------------

OnItem = Callable[[ItemResult], Awaitable[None] | None]
"""Called with each item once its answer or failure is on disk."""

OnEnd = Callable[[Any], bool | None]
"""Called with the `EvaluationResult` when all files are written, while the run is still locked. If
it returns False, it failed: the run is not complete, and the next session calls it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What the command line and the integrations add to the arguments of `evaluate`.

    Attributes:
        nat_files: Whether the toolkit's output files are written at the end.
        written_events: Which types or kinds of events `workflow_output.json` gets; None: all.
        bare_outputs: Whether `workflow_output.json` holds only the outputs.
        as_toolkit: Whether these are exactly the toolkit's, including `workflow_output.jsonl`, a
            live file that gets each row once its answer is on disk.
        dataset_name: The name of the dataset; empty: any. A run may serve several datasets, and
            knows which of them it began and did not finish.
        names: The names of the fields in the toolkit's files; the id has its name in the dataset.
        on_end: Called at the end: see `OnEnd`.
        stop_grace_s: How long calls in flight may continue after an interrupt.
        configuration: Written to `run.json`.
        made_by: Which file the command line ran, and how; None: a script called `evaluate`.
        step_engines: The engines of single steps, by the step's name, as for `evaluate`.
        shares_budget: The ledgers of the runs that share its budget.
        resumes_redos: Whether to resume unfinished redos even if `on_change` is "keep": a file may
            set that for every session without meaning to cancel them.
    """

    nat_files: bool = False
    written_events: Sequence[str] | None = None
    bare_outputs: bool = False
    as_toolkit: bool = False
    dataset_name: str = ""
    names: ToolkitNames = field(default_factory=ToolkitNames)
    on_end: OnEnd | None = None
    stop_grace_s: float = STOP_GRACE_S
    configuration: Mapping[str, Any] | None = None
    made_by: Mapping[str, Any] | None = None
    step_engines: Mapping[str, Any] = field(default_factory=dict)
    shares_budget: Sequence[Path] = ()
    resumes_redos: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Extras):
    """The arguments of `evaluate`, checked and with the dataset read.

    Attributes:
        items: Every item of the dataset.
        run: The run's directory; None: nothing is kept.
        selection: The items that this session selects.
        redo: The steps that run again although they have results.
        redo_items: The ids of the items to run again; None: all.
        depends_on: Declared dependencies of the workflow.
        retry_failed: Whether cells that failed in an earlier session are tried again.
        mask: Whether secrets are masked in results.
        goals: The half-widths at which it stops; empty: it does all items.
        budget: How much all its sessions may spend, by kind; empty: no limit.
        stall: When a call is stalled, and what is done about it.
        dataset_files: The files that the dataset was read from.
        options: The options of the executors.
        remember_pace: Whether pacers start from what earlier runs learned, and pass it on.
        share_pace: Whether pacers share limits with other processes of this user.
        engines: The engine of each step that runs elsewhere, by the step's name.
    """

    items: Sequence[Item]
    workflow: Workflow
    evaluators: Sequence[Evaluator]
    run: Path | None
    trials: int
    selection: Selection
    redo: frozenset[str]
    redo_items: frozenset[str] | None
    on_change: OnChange | None
    depends_on: DependsOn | None
    retry_failed: bool
    durability: Durability
    on_item_complete: OnItem | None
    watcher: Watcher | None
    prices: Prices | None
    mask: bool
    secrets: Sequence[str]
    fail_fast: bool
    goals: Sequence[Goal]
    budget: Mapping[str, float]
    stall: Stall
    bad_rows: Sequence[Any]
    dataset_files: Sequence[Path]
    options: ExecutorOptions
    remember_pace: bool
    share_pace: bool
    engines: Mapping[str, Engine]

    @property
    def rows(self) -> AnswerRows:
        """How answers become rows of `workflow_output.json`."""
        events, bare = self.written_events, self.bare_outputs
        return AnswerRows(self.names, self.trials, events, bare, self.as_toolkit)

    @property
    def scales(self) -> dict[str, Scale]:
        """The scale of each evaluator's scores, where it is not the default."""
        scales = {evaluator.name: scale_of(evaluator) for evaluator in self.evaluators}
        return {name: scale for name, scale in scales.items() if scale != Scale()}


def secrets_of(*steps: Workflow | Evaluator) -> list[str]:
    """Return the secrets that workflows and evaluators declare, for example values of headers."""
    declared = (step.secrets for step in steps)
    # A bare string would be read as a list of letters, and mask everything.
    lists = (secrets for secrets in declared if isinstance(secrets, (list, tuple, set, frozenset)))
    return [secret for secrets in lists for secret in secrets if isinstance(secret, str)]
