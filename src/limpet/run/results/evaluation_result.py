"""What came out of an evaluation, read back from its columns."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any

from limpet.journal.lines import Entry
from limpet.run.executing.cells import MASKED, SAW_MASKED
from limpet.run.planning.plan import Plan
from limpet.run.progress.notebook import summary_html
from limpet.secrets.masking import by_environment
from limpet.text import text_of
from limpet.types import CellStatus


@dataclass(slots=True)
class ItemResult:
    """One item in one trial, with its answer and its scores.

    Attributes:
        id: The item's id.
        trial: Which repetition, from 0.
        input: What was asked.
        expected: What the answer should be.
        output: The answer; None if there is none.
        trace: What happened inside the workflow.
        metadata: What the workflow gave besides.
        scores: What each evaluator said: its record, with `score`, or `scores` if it gave several.
        error: Why there is no answer; None if there is one, or it did not run.
        score_errors: Why an evaluator has no score.
        score_usage: What the evaluators used for their scores, where they say: `usage`, `models`.
        status: How the workflow's cell ended: "completed", "completed_with_retries", "failed" or
            "not_run".
        seconds: How long the workflow took.
        attempts: How many attempts it took.
        usage: What its calls used.
        at: When its answer, or its failure, was written; empty: neither.
        row: The whole row.
        key: The key of its answer, as 32 hex digits.
        masked: The steps whose line on disk had a secret, which is masked there.
        saw_masked: The evaluators that scored an answer of which a secret was masked.
        version: Which earlier version of the workflow gave the answer; empty: the present one.
        redo: The steps whose forced redo is still to be done, with why it failed if it did. What
            is here is the earlier result.
        entry: The line of its answer; None if there is none.
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
    key: str = ""
    masked: tuple[str, ...] = ()
    saw_masked: tuple[str, ...] = ()
    version: str = ""
    redo: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    entry: Entry | None = field(default=None, repr=False)

    @property
    def is_completed(self) -> bool:
        """Whether there is an answer."""
        return self.status in (CellStatus.COMPLETED, CellStatus.COMPLETED_WITH_RETRIES)

    def note(self, step: str, facts: Mapping[str, Any]) -> None:
        """Note what the line of its answer, or of its failure, says beside what came out."""
        self.seconds, self.attempts = facts.get("seconds", 0.0), facts.get("attempts", 0)
        self.usage, self.at = facts.get("usage") or {}, facts.get("at", "")
        self.note_masked(step, facts)

    def note_score(self, name: str, facts: Mapping[str, Any], record: dict[str, Any]) -> None:
        """Note what the line of an evaluator says."""
        self.scores[name] = record
        if "usage" in facts:
            self.score_usage[name] = facts
        self.note_masked(name, facts)

    def note_masked(self, step: str, facts: Mapping[str, Any]) -> None:
        """Note what the line of a step says of secrets."""
        if facts.get(MASKED):
            self.masked += (step,)
        if facts.get(SAW_MASKED):
            self.saw_masked += (step,)


class EvaluationResult:
    """What came out of an evaluation.

    Attributes:
        summary: The numbers: how many, how many failed and why, means over what was scored.
        plan: What was kept and what was done.
        run: Where it is on disk; None if it was not to be kept.
        stop_reason: Why it stopped before all cells were done; None if it did not.
    """

    def __init__(
        self,
        read_items: Callable[[], Iterable[ItemResult]],
        summary: dict[str, Any],
        plan: Plan,
        run: str | None = None,
        stop_reason: Exception | None = None,
    ) -> None:
        self.summary = summary
        self.plan = plan
        self.run = run
        self.stop_reason = stop_reason
        self._read_items = read_items

    @functools.cached_property
    def items(self) -> list[ItemResult]:
        """Each item in each trial, in the order of the dataset, trial by trial.

        They are read from the run's files when they are first asked for.
        """
        return list(self._read_items())

    @property
    def failed(self) -> list[ItemResult]:
        """The items without an answer, or without one of their scores, because of a failure."""
        return [one for one in self.items if one.error is not None or one.score_errors]

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with a row for each item in each trial."""
        pandas = import_module("pandas")  # only if the user has it
        return pandas.DataFrame([_row(one) for one in self.items])

    def _repr_html_(self) -> str:
        stopped = "" if self.stop_reason is None else f"<p>stopped: {escape(self._why)}</p>"
        return summary_html(self.summary) + stopped

    @property
    def _why(self) -> str:
        """For a notebook, which is kept."""
        reason = "" if self.stop_reason is None else text_of(self.stop_reason)
        return by_environment().certain.text(reason)

    def __repr__(self) -> str:
        done, asked = self.summary["workflow"]["completed"], self.summary["n"]
        scores = ", ".join(
            f"{name} {_shown(one)}" for name, one in self.summary["evaluators"].items()
        )
        return f"<EvaluationResult: {done:,} of {asked:,} completed; {scores}>"


def _shown(evaluator: Mapping[str, Any]) -> str:
    mean, said = evaluator.get("mean"), f"n={evaluator['completed']:,}"
    if "by_current_version" in evaluator:
        said += f", {evaluator['by_current_version']:,} by the current version"
    return "–" if mean is None else f"{mean:.4g} ({said})"


def _row(one: ItemResult) -> dict[str, Any]:
    row = {"id": one.id, "trial": one.trial, "input": one.input, "expected": one.expected}
    row |= {"output": one.output, "status": one.status.value, "seconds": one.seconds}
    row["error"] = None if one.error is None else one.error.get("message")
    for name, score in one.scores.items():
        for part, value in told_by(score):
            row[name if part is None else f"{name}.{part}"] = value
    return row


def told_by(score: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield what an evaluator's record tells: values, and the label where there is no value."""
    parts = score.get("scores") or {None: score}
    for part, one in parts.items():
        yield part, one.get("label") if one.get("score") is None else one["score"]


def values_of(score: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield the values of an evaluator's record: one without a name, or several with theirs."""
    if "scores" in score:
        yield from ((name, one["score"]) for name, one in score["scores"].items())
    else:
        yield None, score["score"]
