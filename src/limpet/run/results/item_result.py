"""The result of one item in one trial, as users get it: its answer and its scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.run.record_fields import score_of
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import by_name, values_words
from limpet.shapes import USAGE_COUNTS, CellStatus, Output, Score, Usage
from limpet.text import one_line


@dataclass(frozen=True, slots=True, repr=False)
class ItemResult:
    """The result of one item in one trial.

    Attributes:
        id: The item's id.
        trial: The trial, from 0.
        input: The input of the workflow.
        expected: The expected answer.
        row: The whole row.
        output: The answer, with its trace and metadata; None if there is none.
        scores: The scores by name: the evaluator's, or like "judge.quality" if it gave several.
        status: How the workflow's cell ended: "completed", "completed_with_retries", "failed" or
            "not_run".
        error: Why there is no answer: `class`, `type`, `message`, `traceback`; None if there is
            one, or it did not run.
        score_errors: The same for each evaluator that failed.
        attempts: How many attempts the workflow took.
        seconds: How long they took.
        usage: The usage of all its calls; None: not known.
        at: When its answer or failure was written; empty: neither was.
    """

    id: str
    trial: int
    input: Any
    expected: Any
    row: Mapping[str, Any] = field(default_factory=dict)
    output: Output | None = None
    scores: Mapping[str, Score] = field(default_factory=dict)
    status: CellStatus = CellStatus.NOT_RUN
    error: Mapping[str, Any] | None = None
    score_errors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    attempts: int = 0
    seconds: float = 0.0
    usage: Usage | None = None
    at: str = ""

    def __repr__(self) -> str:
        trial = f" trial {self.trial}" if self.trial else ""
        scores = [
            f"{name} {values_words(_record_of(score))}" for name, score in self.scores.items()
        ]
        failed = [f"{name} failed" for name in self.score_errors]
        words = ", ".join([self.status.words, *scores, *failed])
        return f"<ItemResult {one_line(self.id)}{trial}: {one_line(words)}>"


def _record_of(score: Score) -> dict[str, Any]:
    """Return a score as its record has it."""
    return {"value": score.value, "label": score.label, "metadata": score.metadata}


def usage_in(facts: Mapping[str, Any]) -> Usage | None:
    """Return what a cell used, given the facts about it; None: that is not known."""
    if not (counts := facts.get("usage")):
        return None
    known: dict[str, Any] = {name: counts.get(name) for name in (*USAGE_COUNTS, "cost")}
    known |= {name: facts.get(name) for name in ("models", "times", "requested")}
    return Usage(**{name: value for name, value in known.items() if value is not None})


def result_of(item: ItemRecord) -> ItemResult:
    """Return what users get of an item."""
    usage = usage_in(item.failed if item.entry is None else item.entry.facts)
    output = None
    if item.is_completed:
        output = Output(item.output, usage, item.trace, item.metadata)
    scores = {str(name): score_of(record) for name, record in by_name(item.scores)}
    return ItemResult(
        item.id, item.trial, item.input, item.expected, item.row, output, scores, item.status,
        item.error, item.score_errors, item.attempts, item.seconds, usage, item.at,
    )  # fmt: skip
