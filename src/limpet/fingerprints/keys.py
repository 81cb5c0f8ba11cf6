"""What does a result depend on?

A cell's key is a hash of exactly that, and of nothing else: same key, same result. How many calls
run at once, paths, time-outs and secrets change no result and are in no key.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from math import isfinite
from typing import Any

from limpet.json_values import MOST_LEVELS, NotPlainError, encode_canonical, to_plain

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


def score_key(output: str, seen: str, evaluator: str, trial: int, item: str) -> str:
    """Return the key of an evaluator's cell.

    Args:
        output: The digest of the output that is scored, with its trace if the evaluator reads that:
            a score cannot outlive its answer.
        seen: The digest of what the evaluator reads of the item.
        evaluator: The evaluator's fingerprint.
        trial: Which repetition.
        item: Tells items apart of which it reads the same: each has a score of its own. It does
            not change with what neither the workflow nor the evaluator reads.
    """
    return digest("score", KEY_VERSION, output, seen, evaluator, trial, item)


class Occurrences:
    """Tells equal inputs apart, by counting them: 0 for the first of its kind."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def number(self, content: str) -> int:
        """Return which of its kind this one is."""
        number = self._seen[content]
        self._seen[content] = number + 1
        return number


def told_apart(value: Any, level: int = 0) -> Any:
    """Return plain data that differs wherever values differ, also by their types alone.

    As JSON, a tuple and a list, a text and a path, two dataclasses with the same fields are the
    same. Whoever has to recognise a value among others needs to know which it was.

    Raises:
        NotPlainError: It cannot be read, or is nested too deep.
    """
    kind = type(value)
    if value is None or kind is str or kind in (int, bool) or (kind is float and isfinite(value)):
        return value
    if level > MOST_LEVELS:
        raise NotPlainError(f"it is nested deeper than {MOST_LEVELS} levels, or holds itself")
    if kind is list:
        return [told_apart(element, level + 1) for element in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: told_apart(element, level + 1) for key, element in value.items()}
    if isinstance(value, Mapping):
        inner: Any = [
            [told_apart(key), told_apart(element, level + 1)] for key, element in value.items()
        ]
    elif isinstance(value, (list, tuple)):
        inner = [told_apart(element, level + 1) for element in value]
    elif isinstance(value, Enum):
        inner = value.name
    elif dataclasses.is_dataclass(kind):
        inner = {
            field.name: told_apart(getattr(value, field.name), level + 1) for field in _fields(kind)
        }
    elif hasattr(kind, "model_fields"):  # not model_dump, which leaves out what is excluded
        inner = {key: told_apart(element, level + 1) for key, element in vars(value).items()}
    else:
        inner = to_plain(value, level + 1)
    return {"~type": f"{kind.__module__}.{kind.__qualname__}", "~value": inner}


def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)
