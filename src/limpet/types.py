"""What travels between the rooms: plain frozen data, in the words of the house.

Cells and outcomes are named tuples: a frozen dataclass takes five times as long to make, and they
are made for every single call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class CellStatus(StrEnum):
    """How a cell stands: the same words in files, results and on screens."""

    COMPLETED = "completed"
    COMPLETED_WITH_RETRIES = "completed_with_retries"
    FAILED = "failed"
    NOT_RUN = "not_run"
    NOT_ASKED = "not_asked"

    @property
    def words(self) -> str:
        """The same for a sentence."""
        return self.value.replace("_", " ")


class Cell(NamedTuple):
    """One unit of work: a step done to one item, in one trial.

    Attributes:
        step: What is done: the workflow, or an evaluator by its name.
        id: Which item.
        trial: Which repetition, from 0.
        key: What the result depends on, as 32 hex digits. Same key, same result.
    """

    step: str
    id: str
    trial: int
    key: str


class Failure(NamedTuple):
    """Why a cell failed.

    Attributes:
        kind: The class of the failure: rate_limit, timeout, transient, mistake, permanent, quota,
            encoding.
        message: What happened.
        type: The name of the exception.
        attempts: What each attempt met, oldest first, as plain data.
        traceback: Where in the user's code it was raised; empty if that is not known.
    """

    kind: str
    message: str
    type: str
    attempts: tuple[Mapping[str, Any], ...] = ()
    traceback: str = ""


class Outcome(NamedTuple):
    """How a cell ended, with what came out.

    Attributes:
        cell: Which cell.
        status: How it ended.
        record: The public record: what a reader of the column sees. Of a failed cell, the
            fields beside its error.
        attempts: How many attempts it took.
        seconds: How long they ran.
        failure: Why it failed; None if it did not.
        generation: 0; a forced re-run raises it, and then wins over what was there.
        facts: What else is known of it, to stand among our facts: its usage.
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
        id: Its name, the same from run to run.
        input: What the workflow is asked.
        expected: What the answer should be; None if the dataset does not say.
        row: The whole row, with its own column names.
    """

    id: str
    input: Any
    expected: Any = None
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call used.

    Attributes:
        prompt_tokens: Tokens that went in.
        completion_tokens: Tokens that came out.
        total_tokens: Both; None: their sum.
        cost: In the currency of the prices.
        cached_tokens: Those that went in and were known already.
        reasoning_tokens: Those that came out and are not in the answer.
        models: The same counts by model, where several were called.
        times: `runtime`, `llm_latency`, `min_timestamp` and `max_timestamp`, in seconds.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int | None = None
    cost: float | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    models: Mapping[str, Mapping[str, int]] | None = None
    times: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What a workflow returns when a plain value does not say it all.

    Attributes:
        value: The answer.
        usage: What it used: a `Usage`, or the mapping or object that the client gave.
        trace: What happened inside, oldest first: events as in `limpet.trace`, or any plain data.
        metadata: Whatever else to keep with it, as plain data. Evaluators do not see it.
    """

    value: Any
    usage: Usage | Mapping[str, Any] | object | None = None
    trace: Sequence[Any] = ()
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class Score:
    """What an evaluator returns when a plain value does not say it all.

    Attributes:
        value: A number or a bool.
        label: A word for it.
        explanation: Why.
        metadata: Whatever else a reader may want, as plain data.
    """

    value: float | bool | None
    label: str | None = None
    explanation: str | None = None
    metadata: Any = None
