"""What does a score depend on, and what does an evaluator get to see?"""

from typing import Any, NamedTuple

from limpet.evaluators.protocol import Evaluator, Scored
from limpet.fingerprints.keys import digest, score_key
from limpet.journal.lines import Entry
from limpet.run.executing.masked import MASKED, ORIGINAL
from limpet.run.planning.work_items import Asked
from limpet.types import Cell

ANSWER, TRACE = "generated_answer", "intermediate_steps"
"""Where the workflow's public record holds what came out: the peer's names."""
SAW_MASKED = "saw_masked"
"""Our fact about a score whose evaluator saw an answer without the secrets it had."""


class Scoring(NamedTuple):
    """One output for one evaluator to score.

    Attributes:
        asked: The item, in a trial.
        cell: The cell of the score.
        scored: What the evaluator sees.
        facts: Of which output the score is, and by which evaluator: how a reader of the files
            finds the score of an answer.
    """

    asked: Asked
    cell: Cell
    scored: Scored
    facts: dict[str, Any]


def scoring_of(asked: Asked, entry: Entry, evaluator: Evaluator, fingerprint: str) -> Scoring:
    """Return what an evaluator has to do about an output that is on disk.

    The key covers all that it may look at: the output and its trace, the item's input, expected
    answer and id. What else the row holds counts only for those who ask for the whole item.
    """
    item, record = asked.item, entry.record
    scored = Scored(record[ANSWER], item.expected, item.input, item, record[TRACE])
    wanted = getattr(evaluator, "wanted", None)
    whole = wanted is None or "item" in wanted
    seen = [item.id, item.expected, item.input, dict(item.row) if whole else None]
    output = output_digest(entry)
    key = score_key(output, seen, fingerprint, asked.trial)
    cell = Cell(evaluator.name, asked.public_id, asked.trial, key)
    facts: dict[str, Any] = {"of": output, "by": fingerprint}
    if entry.facts.get(MASKED):
        facts[SAW_MASKED] = True
    return Scoring(asked, cell, scored, facts)


def output_digest(entry: Entry) -> str:
    """Return the digest of an answer as the workflow gave it, also if it is masked on disk."""
    original = entry.facts.get(ORIGINAL)
    return str(original or digest(entry.record[ANSWER], entry.record[TRACE]))
