"""What does a result depend on?

A cell's key is a hash of exactly that, and of nothing else: same key, same result. How many calls
run at once, paths, time-outs and secrets change no result and are in no key.
"""

from collections import Counter
from hashlib import blake2b
from typing import Any

from limpet.journal.encoding import encode_canonical

KEY_VERSION = 1
"""Raised when keys are made in another way: then nothing on disk fits any more."""


def digest(*values: Any) -> str:
    """Return 32 hex digits that are the same for values that are the same as JSON.

    Raises:
        NotPlainError: A value has no JSON form.
    """
    return blake2b(encode_canonical(values), digest_size=16).hexdigest()


def output_key(seen: Any, workflow: str, trial: int, occurrence: int = 0) -> str:
    """Return the key of a workflow's cell.

    Args:
        seen: What the workflow sees of the item.
        workflow: The workflow's fingerprint: its code or declared version, model, parameters and
            prompt.
        trial: Which repetition.
        occurrence: Which of the items with the same input it is.
    """
    return digest("output", KEY_VERSION, seen, workflow, trial, occurrence)


def score_key(output: str, expected: Any, evaluator: str, trial: int) -> str:
    """Return the key of an evaluator's cell.

    Args:
        output: The digest of the output that is scored: a score cannot outlive its answer.
        expected: What the item says the answer should be.
        evaluator: The evaluator's fingerprint.
        trial: Which repetition.
    """
    return digest("score", KEY_VERSION, output, expected, evaluator, trial)


class Occurrences:
    """Tells equal inputs apart, by counting them: 0 for the first of its kind."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def number(self, content: str) -> int:
        """Return which of its kind this one is."""
        number = self._seen[content]
        self._seen[content] = number + 1
        return number
