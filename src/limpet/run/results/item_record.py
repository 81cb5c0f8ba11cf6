"""What the files of a run have of one item in one trial: of this, all results are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limpet.journal.lines import Entry
from limpet.run.record_fields import MASKED, SAW_MASKED
from limpet.shapes import CellStatus


@dataclass(slots=True)
class ItemRecord:
    """What the files of a run have of one item in one trial.

    Attributes:
        id: The item's id.
        trial: The trial, from 0.
        input: The input of the workflow.
        expected: The expected answer.
        output: The answer; None if there is none.
        trace: What happened inside the workflow.
        metadata: The metadata that the workflow returned.
        scores: The record of each evaluator, with `value`, or `scores` if it gave several.
        error: Why there is no answer; None if there is one, or it did not run.
        score_errors: Why an evaluator has no score.
        score_usage: What the evaluators used, if they report it: `usage`, `models`.
        status: How the workflow's cell ended: "completed", "completed_with_retries", "failed" or
            "not_run".
        seconds: How long the workflow took.
        attempts: How many attempts it took.
        usage: What its calls used.
        at: When its answer or failure was written; empty: neither was.
        row: The whole row.
        roles: Which fields of the row are its `id`, `input` and `expected`.
        key: The key of its answer, as 32 hex digits.
        masked: The steps whose line on disk has a masked secret.
        saw_masked: The evaluators that scored an answer with a masked secret.
        version: The earlier version of the workflow that gave the answer; empty: the current one.
        redo: The steps whose forced redo is pending, with the error if it failed. Their results
            here are the earlier ones.
        entry: The line of its answer; None if there is none.
        failed: The facts about its failure; empty if it did not fail.
    """

    id: str
    trial: int
    input: Any
    expected: Any
    output: Any = None
    trace: Sequence[Any] = ()
    metadata: Any = None
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    score_errors: dict[str, dict[str, Any]] = field(default_factory=dict)
    score_usage: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    status: CellStatus = CellStatus.NOT_RUN
    seconds: float = 0.0
    attempts: int = 0
    usage: Mapping[str, float] = field(default_factory=dict)
    at: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    masked: tuple[str, ...] = ()
    saw_masked: tuple[str, ...] = ()
    version: str = ""
    redo: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    entry: Entry | None = field(default=None, repr=False)
    failed: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_completed(self) -> bool:
        """Whether there is an answer."""
        return self.status in (CellStatus.COMPLETED, CellStatus.COMPLETED_WITH_RETRIES)

    def add_facts(self, step: str, facts: Mapping[str, Any]) -> None:
        """Add the facts about its answer or failure."""
        self.seconds, self.attempts = facts.get("seconds", 0.0), facts.get("attempts", 0)
        self.usage, self.at = facts.get("usage") or {}, facts.get("at", "")
        self.add_masked(step, facts)

    def add_score(self, name: str, facts: Mapping[str, Any], record: dict[str, Any]) -> None:
        """Add a score, with the facts about it."""
        self.scores[name] = record
        if "usage" in facts:
            self.score_usage[name] = facts
        self.add_masked(name, facts)

    def add_masked(self, step: str, facts: Mapping[str, Any]) -> None:
        """Add a step whose line has masked secrets, or whose evaluator saw them."""
        if facts.get(MASKED):
            self.masked += (step,)
        if facts.get(SAW_MASKED):
            self.saw_masked += (step,)
