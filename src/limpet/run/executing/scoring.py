"""What does a score depend on, and what does an evaluator get to see?"""

from typing import Any, NamedTuple

from limpet.evaluators.protocol import Evaluator, Scored
from limpet.fingerprints.keys import score_key
from limpet.journal.lines import Entry
from limpet.run.executing.masked import MASKED
from limpet.run.executing.score_keys import ANSWER, SAW_MASKED, STEPS, output_digest, seen_digest
from limpet.run.planning.work_items import Asked
from limpet.types import Cell


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


def reads_of(evaluator: Evaluator) -> tuple[str, ...]:
    """Return which parts of an item an evaluator may look at."""
    wanted = getattr(evaluator, "wanted", None)
    whole = wanted is None or "item" in wanted
    return ("id", "expected", "input", *(["row"] if whole else []))
