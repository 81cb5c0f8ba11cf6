"""What is recorded of a cell: its scores, its status, and no secrets."""

from collections.abc import Sequence
from typing import Any

from limpet.evaluators.protocol import Scores
from limpet.executors.details import Finished
from limpet.json_values import NotPlainError, kept_form, plain_size
from limpet.run.planning.work_items import WorkItem
from limpet.run.record_fields import MASKED
from limpet.secrets.masking import Mask
from limpet.types import CellStatus, Score


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


def cell_status(finished: Finished[Any, Any]) -> CellStatus:
    """Return how a cell ended, in the words of a run: executors use those of Phoenix."""
    return CellStatus[finished.details.status.name]


def masked_record(
    mask: Mask, record: dict[str, Any], returned: Sequence[str], traced: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a record without secrets, and the facts that say so; empty if it had none.

    Args:
        mask: Masks the secrets.
        record: The record.
        returned: The fields that the step returned. The others are the dataset's, and are kept.
        traced: Those of them that tell what happened: credentials are masked there, too.
    """
    fields = {name: record[name] for name in returned if name in record}
    if not fields or not (mask or any(map(record.get, traced))):
        return record, {}
    try:
        plain = fields if plain_size(fields) is not None else kept_form(fields)
        masked = {
            name: mask.trace(value) if name in traced else mask.data(value)
            for name, value in plain.items()
        }
        secrets = sum(count for _, count in masked.values())
    except (NotPlainError, RecursionError):
        return record, {}  # it cannot be written; the column masks what it shows of it
    if not secrets:
        return record, {}
    return {**record, **{name: value for name, (value, _) in masked.items()}}, {MASKED: secrets}
