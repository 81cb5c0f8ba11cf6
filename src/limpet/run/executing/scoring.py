"""What does a score depend on, and what does an evaluator get to see?"""

from typing import Any, NamedTuple

from limpet.evaluators.protocol import Evaluator, Scored
from limpet.fingerprints.keys import digest, score_key
from limpet.journal.lines import Entry
from limpet.run.executing.masked import MASKED, ORIGINAL
from limpet.run.planning.work_items import Asked
from limpet.types import Cell, Item

ANSWER, STEPS = "generated_answer", "intermediate_steps"
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

    The key covers all that it may look at: the output and its steps, the item's input, expected
    answer and id. What else the row holds counts only for those who ask for the whole item.
    """
    item, record = asked.item, entry.record
    scored = Scored(record[ANSWER], item.expected, item.input, item, record[STEPS])
    output = output_digest(entry)
    seen = seen_digest(item, reads_of(evaluator))
    key = score_key(output, seen, fingerprint, asked.trial)
    cell = Cell(evaluator.name, item.id, asked.trial, key)
    facts: dict[str, Any] = {"of": output, "by": fingerprint}
    if entry.facts.get(MASKED):
        facts[SAW_MASKED] = True
    return Scoring(asked, cell, scored, facts)


class ScoredBy(NamedTuple):
    """What a score's key has to know of its evaluator: its fingerprint, and what it reads."""

    fingerprint: str
    reads: tuple[str, ...]


def reads_of(evaluator: Evaluator) -> tuple[str, ...]:
    """Return which parts of an item an evaluator may look at."""
    wanted = getattr(evaluator, "wanted", None)
    whole = wanted is None or "item" in wanted
    return ("id", "expected", "input", *(["row"] if whole else []))


def seen_digest(item: Item, reads: tuple[str, ...]) -> str:
    """Return the digest of what an evaluator reads of an item, which its scores' keys hold."""
    row = dict(item.row) if "row" in reads else None
    return digest(item.id, item.expected, item.input, row)


def output_digest(entry: Entry) -> str:
    """Return the digest of an answer as the workflow gave it, also if it is masked on disk."""
    original = entry.facts.get(ORIGINAL)
    return str(original or digest(entry.record[ANSWER], entry.record[STEPS]))
