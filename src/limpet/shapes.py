"""Which data types do all packages share? Plain frozen data.

Cells and outcomes are named tuples: they are created for every call, and a frozen dataclass takes
five times as long to create.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from typing import Any, NamedTuple

COLUMNS = (
    "id", "trial", "input", "expected", "output", "status", "seconds", "attempts", "error",
)  # fmt: skip
"""The first columns of every table of results. No evaluator may be called like one of them."""


class CellStatus(StrEnum):
    """The status of a cell: the same words in files, results and on screens."""

    COMPLETED = "completed"
    COMPLETED_WITH_RETRIES = "completed_with_retries"
    FAILED = "failed"
    NOT_RUN = "not_run"
    NOT_SELECTED = "not_selected"

    @property
    def words(self) -> str:
        """The same for a sentence."""
        return self.value.replace("_", " ")


class Cell(NamedTuple):
    """One unit of work: a step done to one item, in one trial.

    Attributes:
        step: The step: the workflow, or an evaluator by its name.
        id: The item's id.
        trial: The repetition, from 0.
        key: Fingerprint of what the result depends on, as 32 hex digits. Same key, same result.
    """

    step: str
    id: str
    trial: int
    key: str


class Failure(NamedTuple):
    """Why a cell failed.

    Attributes:
        kind: The class of the failure: rate_limit, timeout, transient, mistake, permanent, quota,
            encoding, worker_died.
        message: What happened.
        type: The name of the exception.
        attempts: The error of each attempt, oldest first, as plain data.
        traceback: Where in the user's code it was raised; empty if unknown.
    """

    kind: str
    message: str
    type: str
    attempts: tuple[Mapping[str, Any], ...] = ()
    traceback: str = ""


class Outcome(NamedTuple):
    """How a cell ended, with its result.

    Attributes:
        cell: The cell.
        status: How it ended.
        record: The public record, as readers of the column see it. For a failed cell, the
            fields beside its error.
        attempts: How many attempts it took.
        seconds: How long they ran in total.
        failure: Why it failed; None if it completed.
        generation: 0; a forced re-run increases it and replaces earlier results.
        facts: More about it, stored with our own facts: its usage.
    """

    cell: Cell
    status: CellStatus = CellStatus.COMPLETED
    record: Any = None
    attempts: int = 1
    seconds: float = 0.0
    failure: Failure | None = None
    generation: int = 0
    facts: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the dataset.

    Attributes:
        id: Its id, the same from run to run.
        input: The input of the workflow.
        expected: The expected answer; None if the dataset has none.
        row: The whole row, with its own column names.
    """

    id: str
    input: Any
    expected: Any = None
    row: Mapping[str, Any] = field(default_factory=dict)


USAGE_COUNTS = (
    "prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens",
    "reasoning_tokens", "total_tokens",
)  # fmt: skip
"""The token counts of a `Usage`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a call.

    Attributes:
        prompt_tokens: Input tokens.
        completion_tokens: Output tokens.
        total_tokens: All tokens; None: the sum of both.
        cost: Cost in the currency of the prices.
        cached_tokens: Input tokens read from a cache.
        reasoning_tokens: Output tokens that are not part of the answer.
        models: The same counts by model, as the server calls it; prices need the name.
        times: `runtime`, `llm_latency`, `min_timestamp` and `max_timestamp`, in seconds.
        requested: The requested name of each model that the server calls by another.
        cache_write_tokens: Input tokens written to a cache.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int | None = None
    cost: float | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    models: Mapping[str, Mapping[str, int]] | None = None
    times: Mapping[str, float] | None = None
    requested: Mapping[str, str] | None = None
    cache_write_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What a workflow returns if a plain value is not enough.

    Attributes:
        value: The answer.
        usage: Its usage: a `Usage`, or the client's own mapping or object.
        trace: What happened inside, oldest first: events as in `limpet.trace`, or any plain data.
        metadata: Anything else to keep with it, as plain data. Evaluators do not see it.
    """

    value: Any
    usage: Usage | Mapping[str, Any] | object | None = None
    trace: Sequence[Any] = ()
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class Score:
    """What an evaluator returns if a plain value is not enough.

    Attributes:
        value: A number or a bool.
        label: A label, for example "correct".
        explanation: Why.
        metadata: Anything else to keep with it, as plain data.
    """

    value: float | bool | None = None
    label: str | None = None
    explanation: str | None = None
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class Scale:
    """What the scores of an evaluator mean, for the numbers of a summary.

    It changes no score, so nothing runs again when it changes.

    Attributes:
        range: The lowest and the highest score that it can give. None: 0 to 1 if all scores are
            in that range, else any number.
        group: The field of the dataset that groups items, for example questions about the same
            document. None: items are independent.
        higher_is_better: Whether a higher score is better.
    """

    range: tuple[float, float] | None = None
    group: str | None = None
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        group: Any = self.group
        if self.range is not None:
            object.__setattr__(self, "range", _checked_range(self.range))
        if group is not None and not (isinstance(group, str) and group):
            raise TypeError(f"group={group!r}: must be the name of a field")
        if self.higher_is_better not in (True, False):
            raise TypeError(f"higher_is_better={self.higher_is_better!r}: must be True or False")


def _checked_range(given: Any) -> tuple[float, float]:
    must = "must be two finite numbers, the lower first, for example (1, 5)"
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2  # noqa: PLR2004 - a pair
    if not is_pair or any(isinstance(e, bool) or not isinstance(e, Real) for e in given):
        raise TypeError(f"range={given!r}: {must}")
    try:
        low, high = map(float, given)
    except OverflowError:
        low = high = math.inf
    # The width, too, must be a number: scores are mapped to 0 to 1.
    if not (low < high and math.isfinite(low) and math.isfinite(high - low)):
        raise ValueError(f"range={given!r}: {must}")
    return low, high


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of a step's code or settings that differs between two runs.

    Attributes:
        name: Its name in plain words.
        change: "changed", "new" or "no longer used".
        kind: Its kind: function, class, value, file: see `fingerprints.shown`.
        lines: The difference, like a unified diff: each line begins with "-", "+" or a space; "…"
            marks omitted lines.
        why_no_lines: Why there are no lines, if there are none.
    """

    name: str
    change: str
    kind: str
    lines: tuple[str, ...] = ()
    why_no_lines: str = ""
