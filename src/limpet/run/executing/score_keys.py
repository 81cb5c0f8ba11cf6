"""What is the key of a score made of? The same for those who write and those who only read."""

from typing import NamedTuple

from limpet.fingerprints.keys import digest
from limpet.journal.lines import Entry
from limpet.run.executing.masked import ORIGINAL
from limpet.types import Item

ANSWER, STEPS = "generated_answer", "intermediate_steps"
"""Where the workflow's public record holds what came out: the peer's names."""
SAW_MASKED = "saw_masked"
"""Our fact about a score whose evaluator saw an answer without the secrets it had."""


class ScoredBy(NamedTuple):
    """What a score's key has to know of its evaluator: its fingerprint, and what it reads."""

    fingerprint: str
    reads: tuple[str, ...]


def seen_digest(item: Item, reads: tuple[str, ...]) -> str:
    """Return the digest of what an evaluator reads of an item, which its scores' keys hold."""
    row = dict(item.row) if "row" in reads else None
    return digest(item.id, item.expected, item.input, row)


def output_digest(entry: Entry) -> str:
    """Return the digest of an answer as the workflow gave it, also if it is masked on disk."""
    original = entry.facts.get(ORIGINAL)
    return str(original or digest(entry.record[ANSWER], entry.record[STEPS]))
