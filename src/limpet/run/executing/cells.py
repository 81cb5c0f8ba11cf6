"""What does a score's key cover, and what is written of an answer and of a score?"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from limpet.evaluators.protocol import Evaluator, Scores
from limpet.evaluators.reads import seen_digest
from limpet.executors.attempts import Finished
from limpet.fingerprints.keys import digest, score_key
from limpet.journal.lines import Entry
from limpet.json_values import NotPlainError, kept_form, plain_size
from limpet.run.planning.work_items import WorkItem
from limpet.secrets.masking import Mask
from limpet.types import Cell, CellStatus, Score

ANSWER, TRACE, METADATA = "generated_answer", "intermediate_steps", "output_metadata"
"""Where the workflow's public record holds what came out: the peer's names, and one of ours."""
SCORED = ("score", "scores", "reasoning", "label", "metadata")
"""The fields of a score's record that the evaluator gave."""
OF, BY, SAW = "of", "by", "saw"
"""Our facts about a score: the digests of the output, of the evaluator, and of what it read of the
item. A reader of the files finds the score of an answer by them."""
SAW_MASKED = "saw_masked"
"""Our fact about a score whose evaluator saw an answer without the secrets it had."""
MASKED = "masked"
"""Our fact about a line that had secrets: how many."""
OUTPUT = "output"
"""Our fact about an answer: its digests as it was returned, alone and with its trace. By them a
reader finds its scores without reading it, also if it is masked on disk."""
Call = tuple[WorkItem, Cell]
"""An item in a trial, and the cell of its answer."""


# ---- scores -------------------------------------------------------------------------------------


class Scoring(NamedTuple):
    """One output for one evaluator to score.

    Attributes:
        work_item: The item, in a trial.
        cell: The cell of the score.
        output: What is scored.
        trace: What happened on the way to it.
        facts: Of which output the score is, and by which evaluator.
    """

    work_item: WorkItem
    cell: Cell
    output: Any
    trace: Any
    facts: dict[str, Any]


def scoring_of(
    work_item: WorkItem, entry: Entry, evaluator: Evaluator, fingerprint: str
) -> Scoring:
    """Return what an evaluator has to do about an output that is on disk."""
    output, seen = (
        output_digest(entry, evaluator.reads),
        seen_digest(work_item.item, evaluator.reads),
    )
    key = score_key(output, seen, fingerprint, work_item.trial, work_item.identity)
    cell = Cell(evaluator.name, work_item.item.id, work_item.trial, key)
    facts: dict[str, Any] = {OF: output, BY: fingerprint, SAW: seen}
    if entry.facts.get(MASKED):
        facts[SAW_MASKED] = True
    return Scoring(work_item, cell, entry.record[ANSWER], entry.record[TRACE], facts)


def output_digest(entry: Entry, reads: Collection[str]) -> str:
    """Return the digest of an answer as the workflow gave it, also if it is masked on disk.

    Args:
        entry: The answer's line.
        reads: What is read of it: its trace counts for those only who look at it.
    """
    known = entry.facts.get(OUTPUT) or digests_of(entry.record[ANSWER], entry.record[TRACE])[OUTPUT]
    return str(known["trace" in reads])


def digests_of(answer: Any, trace: Any) -> dict[str, list[str]]:
    """Return the digests of an answer, as its line holds them."""
    return {OUTPUT: [digest(answer), digest(answer, trace)]}


def score_record(work_item: WorkItem, scores: Scores | None) -> dict[str, Any]:
    """Return the public record of what an evaluator gave, in the peer's shape; None: nothing."""
    record: dict[str, Any] = {"id": work_item.item.id}
    if scores is None:
        return record
    if list(scores) == ["score"]:
        return {**record, **_plain_score(scores["score"]), "error": None}
    several = {name: _plain_score(one) for name, one in scores.items()}
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
    record["id"] = id_  # whatever the row calls so
    # A field of the dataset by that name must not be read as the answer's metadata.
    if metadata is not None or METADATA in record:
        record[METADATA] = metadata
    return record


def cell_status(finished: Finished[Any, Any]) -> CellStatus:
    """Return how a cell ended, in our own words: the executors have their peer's."""
    return CellStatus[finished.details.status.name]


# ---- secrets ------------------------------------------------------------------------------------


def masked_record(
    mask: Mask, record: dict[str, Any], returned: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a record without secrets, and what its line says of that: nothing if it had none.

    Args:
        mask: Which secrets.
        record: The record.
        returned: The fields that came out of a step. The others are the dataset's, and stay.
    """
    fields = {name: record[name] for name in returned if name in record}
    if not mask or not fields:
        return record, {}
    try:
        plain = fields if plain_size(fields) is not None else kept_form(fields)
        masked = {name: mask.data(value) for name, value in plain.items()}
        found = sum(count for _, count in masked.values())
        facts = {MASKED: found} if found else {}
    except (NotPlainError, RecursionError):
        return record, {}  # it is not written as it is: what is shown of it is masked by the column
    if not found:
        return record, {}
    return {**record, **{name: value for name, (value, _) in masked.items()}}, facts
