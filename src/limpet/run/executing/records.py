"""What is written of an answer and of a score, and told of an item?"""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.copies import own_copy
from limpet.evaluators.protocol import Scores
from limpet.executors.attempts import Finished
from limpet.run.executing.score_keys import ANSWER, STEPS
from limpet.run.executing.scoring import Scoring
from limpet.run.planning.work_items import Asked
from limpet.run.results.evaluation_result import ItemResult
from limpet.text import text_of
from limpet.types import Cell, CellStatus, Output, Score

SCORED = ("score", "scores", "reasoning", "label", "details")
"""The fields of a score's record that the evaluator gave."""
Call = tuple[Asked, Cell]
"""An item in a trial, and the cell of its answer."""


def answer_record(id_: str, row: Mapping[str, Any], value: Any, steps: list[Any]) -> dict[str, Any]:
    """Return the public record of an answer: the row, the answer and the steps."""
    return {"id": id_, **row, "id": id_, ANSWER: value, STEPS: steps}  # noqa: F601 - first, and ours


def kept_steps(steps: Sequence[Any], types: Sequence[str] | None) -> list[Any]:
    """Return the steps whose type is one of these; those that name no type are kept."""
    if types is None:
        return list(steps)
    return [one for one in steps if (kind := _type_of(one)) is None or kind in types]


def _type_of(step: Any) -> str | None:
    if not isinstance(step, Mapping):
        return None
    payload = step.get("payload")
    inner = payload if isinstance(payload, Mapping) else step
    kind = inner.get("event_type", inner.get("type"))
    return kind if isinstance(kind, str) else None


def item_told(finished: Finished[Call, Output]) -> ItemResult:
    """Return an item that is done, as the results will have it, without scores yet."""
    asked, _ = finished.input
    own = own_copy(asked.item)
    item = ItemResult(asked.item.id, asked.trial, own.input, own.expected)
    item.seconds = finished.details.execution_seconds
    if finished.error is None and isinstance(finished.output, Output):
        item.status, item.output = cell_status(finished), own_copy(finished.output.value)
        item.steps = own_copy(finished.output.steps)
    else:
        error = finished.error
        item.status = CellStatus.FAILED
        item.error = {"type": type(error).__name__, "message": text_of(error) if error else ""}
    return item


def cell_status(finished: Finished[Any, Any]) -> CellStatus:
    """Return how a cell ended, in our own words: the executors have their peer's."""
    return CellStatus[finished.details.status.name]


def secrets_of(*steps: Any) -> list[str]:
    """Return what workflows and evaluators declare to be secret: the values of headers, say."""
    told = [getattr(step, "secrets", ()) for step in steps]
    lists = [one for one in told if isinstance(one, (list, tuple, set, frozenset))]
    return [text for one in lists for text in one if isinstance(text, str)]


def score_record(finished: Finished[Scoring, Scores]) -> dict[str, Any]:
    """Return the public record of what an evaluator gave, in the peer's shape."""
    record: dict[str, Any] = {"id": finished.input.asked.item.id}
    if finished.error is not None or not isinstance(finished.output, dict):
        return record
    scores: dict[str, Score] = finished.output
    if list(scores) == ["score"]:
        return {**record, **_plain_score(scores["score"]), "error": None}
    several = {name: _plain_score(one) for name, one in scores.items()}
    return {**record, "score": None, "scores": several, "error": None}


def _plain_score(score: Score) -> dict[str, Any]:
    plain: dict[str, Any] = {"score": score.value, "reasoning": score.reason or {}}
    if score.label is not None:
        plain["label"] = score.label
    if score.details is not None:
        plain["details"] = score.details
    return plain
