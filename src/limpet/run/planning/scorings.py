"""What does an evaluator have to score, and under which key is the score kept?"""

from typing import Any, NamedTuple

from limpet.evaluators.protocol import Evaluator
from limpet.fingerprints.keys import digest, score_key, seen_digest
from limpet.journal.lines import Entry
from limpet.run.planning.work_items import WorkItem
from limpet.run.record_fields import (
    BY,
    MASKED,
    OF,
    SAW,
    SAW_MASKED,
    answer_and_trace,
    output_digest,
)
from limpet.types import Cell


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
    return Scoring(work_item, cell, *answer_and_trace(entry), facts)


def ballot_key(work_item: WorkItem, identity: Any) -> str:
    """Return the key under which a reply of a model is kept, given what it depends on."""
    return digest("ballot", identity, work_item.trial, work_item.identity.hex())
