"""The keys of scores, and the records of answers and scores."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from limpet.evaluators.protocol import Evaluator, Scores
from limpet.executors.details import Finished
from limpet.fingerprints.keys import score_key, seen_digest
from limpet.journal.lines import Entry
from limpet.json_values import NotPlainError, kept_form, plain_size
from limpet.run.planning.work_items import WorkItem
from limpet.run.record_fields import (
    ANSWER,
    BY,
    MASKED,
    METADATA,
    OF,
    SAW,
    SAW_MASKED,
    TRACE,
    output_digest,
)
from limpet.secrets.masking import Mask
from limpet.types import Cell, CellStatus, Score

# ---- scores -------------------------------------------------------------------------------------


class Scoring(NamedTuple):
    """An output for an evaluator to score.

    Attributes:
        work_item: The work item.
        cell: The cell of the score.
        output: The output.
        trace: The output's trace.
        facts: Which output is scored, and by which evaluator.
    """

    work_item: WorkItem
    cell: Cell
    output: Any
    trace: Any
    facts: dict[str, Any]


def scoring_of(
    work_item: WorkItem, entry: Entry, evaluator: Evaluator, fingerprint: str
) -> Scoring:
    """Return what an evaluator has to score for an answer on disk."""
    output = output_digest(entry, evaluator.reads)
    seen = seen_digest(work_item.item, evaluator.reads)
    key = score_key(output, seen, fingerprint, work_item.trial, work_item.identity)
    cell = Cell(evaluator.name, work_item.item.id, work_item.trial, key)
    facts: dict[str, Any] = {OF: output, BY: fingerprint, SAW: seen}
    if entry.facts.get(MASKED):
        facts[SAW_MASKED] = True
    return Scoring(work_item, cell, entry.record[ANSWER], entry.record[TRACE], facts)


def score_record(work_item: WorkItem, scores: Scores | None) -> dict[str, Any]:
    """Return the public record of an evaluator's scores, in NAT's shape; None: it failed."""
    record: dict[str, Any] = {"id": work_item.item.id}
    if scores is None:
        return record
    if list(scores) == ["score"]:
        return {**record, **_plain_score(scores["score"]), "error": None}
    several = {name: _plain_score(score) for name, score in scores.items()}
    return {**record, "score": None, "scores": several, "error": None}


def _plain_score(score: Score) -> dict[str, Any]:
    plain: dict[str, Any] = {"score": score.value, "reasoning": score.explanation or {}}
    if score.label is not None:
        plain["label"] = score.label
    if score.metadata is not None:
        plain["metadata"] = score.metadata
    return plain


# ---- answers ------------------------------------------------------------------------------------


def answer_record(
    id_: str, row: Mapping[str, Any], value: Any, trace: list[Any], metadata: Any = None
) -> dict[str, Any]:
    """Return the public record of an answer: the row, the answer, its trace and its metadata."""
    record = {"id": id_, **row, ANSWER: value, TRACE: trace}
    record["id"] = id_  # even if the row has another "id"
    # A field of that name in the dataset must not be read as the answer's metadata.
    if metadata is not None or METADATA in record:
        record[METADATA] = metadata
    return record


def cell_status(finished: Finished[Any, Any]) -> CellStatus:
    """Return how a cell ended, in the words of a run: executors use those of Phoenix."""
    return CellStatus[finished.details.status.name]


# ---- secrets ------------------------------------------------------------------------------------


def masked_record(
    mask: Mask, record: dict[str, Any], returned: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a record without secrets, and the facts that say so; empty if it had none.

    Args:
        mask: Masks the secrets.
        record: The record.
        returned: The fields that the step returned. The others are the dataset's, and are kept.
    """
    fields = {name: record[name] for name in returned if name in record}
    if not mask or not fields:
        return record, {}
    try:
        plain = fields if plain_size(fields) is not None else kept_form(fields)
        masked = {name: mask.data(value) for name, value in plain.items()}
        secrets = sum(count for _, count in masked.values())
    except (NotPlainError, RecursionError):
        return record, {}  # it cannot be written; the column masks what it shows of it
    if not secrets:
        return record, {}
    return {**record, **{name: value for name, (value, _) in masked.items()}}, {MASKED: secrets}
