"""What is the key of a cell?

It is a hash of everything its result depends on: same key, same result. Concurrency, paths,
timeouts and secrets change no result, so no key contains them.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from typing import Any

from limpet.json_values import MOST_LEVELS, NotPlainError, encode_canonical, to_plain
from limpet.shapes import Item

KEY_VERSION = 1
"""Increased when keys are computed differently; results on disk then no longer match."""


_PARTS = frozenset({"id", "input", "expected"})
FIRST = bytes(8)
"""The end of the identity of the first item with its digest."""


def digest(*values: Any) -> str:
    """Return 32 hex digits that are equal for values with the same JSON.

    Raises:
        NotPlainError: A value has no JSON form.
    """
    return blake2b(encode_canonical(values), digest_size=16).hexdigest()


def item_identity(seen: str, occurrence: int = 0) -> bytes:
    """Return an item's identity in its dataset, independent of its id.

    Args:
        seen: The digest of the fields that the workflow reads.
        occurrence: The position among items with the same digest.
    """
    return bytes.fromhex(seen) + (occurrence.to_bytes(8, "big") if occurrence else FIRST)


class OutputKeys:
    """The keys of a workflow's cells in one trial.

    Args:
        workflow: The workflow's fingerprint: its code or declared version, model, parameters and
            prompt.
        trial: The number of the trial.
    """

    def __init__(self, workflow: str, trial: int) -> None:
        self._prefix = _prefix_hash("output", workflow, trial)

    def key(self, item: bytes) -> bytes:
        """Return the key of a cell.

        Args:
            item: The item's identity.
        """
        return self.keys([item])[0]

    def keys(self, items: Iterable[bytes]) -> list[bytes]:
        """Return the keys of many cells, twice as fast as one by one."""
        return _digests(self._prefix, items)


def seen_digest(item: Item, reads: Collection[str]) -> str:
    """Return the digest of the parts of an item that an evaluator reads: names and values."""
    return seen_bytes(item, sorted(reads)).hex()


def seen_bytes(item: Item, reads: Sequence[str]) -> bytes:
    """Return the same as bytes, by sorted names."""
    seen: dict[str, Any] = {}
    for part in reads:
        if part in _PARTS:
            seen[part] = getattr(item, part)
        elif part == "row":
            seen[part] = dict(item.row)
        elif part.startswith("row.") and (name := part.removeprefix("row.")) in item.row:
            seen[part] = item.row[name]
    return blake2b(encode_canonical((reads, seen)), digest_size=16).digest()


class ScoreKeys:
    """The keys of an evaluator's cells in one trial.

    Args:
        evaluator: The evaluator's fingerprint.
        trial: The number of the trial.
    """

    def __init__(self, evaluator: str, trial: int) -> None:
        self._prefix = _prefix_hash("score", evaluator, trial)

    def key(self, item: bytes, seen: bytes, output: str) -> bytes:
        """Return the key of a cell.

        Args:
            item: The item's identity: items with equal fields have separate scores.
            seen: The digest of the fields that the evaluator reads.
            output: The digest of the output, with its trace if the evaluator reads traces. A score
                never outlives its answer.
        """
        return self.keys([item], [seen], [output])[0]

    def keys(
        self, items: Iterable[bytes], seen: Iterable[bytes], outputs: Iterable[str]
    ) -> list[bytes]:
        """Return the keys of many cells."""
        parts = zip(items, seen, outputs, strict=True)  # the first two have a fixed length
        return _digests(self._prefix, [item + saw + output.encode() for item, saw, output in parts])


@lru_cache(maxsize=64)
def _prefix_hash(kind: str, fingerprint: str, trial: int) -> "blake2b":
    """Return the hash of the common part of a step's keys, to copy for each key."""
    person = f"limpet {kind} {KEY_VERSION}".encode()
    return blake2b(f"{trial} {fingerprint}\0".encode(), digest_size=16, person=person)


def _digests(prefix: "blake2b", texts: Iterable[bytes]) -> list[bytes]:
    copy, digests = prefix.copy, list[bytes]()
    for text in texts:
        hasher = copy()
        hasher.update(text)
        digests.append(hasher.digest())
    return digests


def output_key(seen: str, workflow: str, trial: int, occurrence: int = 0) -> str:
    """Return the key of a workflow's cell: see `item_identity` and `OutputKeys`."""
    return OutputKeys(workflow, trial).key(item_identity(seen, occurrence)).hex()


def score_key(output: str, seen: str, evaluator: str, trial: int, item: bytes) -> str:
    """Return the key of an evaluator's cell: see `ScoreKeys`."""
    return ScoreKeys(evaluator, trial).key(item, bytes.fromhex(seen), output).hex()


class Occurrences:
    """Numbers equal inputs: 0 for the first, 1 for the second."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def number(self, content: str) -> int:
        """Return how many equal inputs came before."""
        number = self._seen[content]
        self._seen[content] = number + 1
        return number


def with_types(value: Any, level: int = 0) -> Any:
    """Return plain data that differs whenever values differ, even only by type.

    In JSON a tuple equals a list, a string equals a path, and two dataclasses with the same fields
    are equal. Here they are not.

    Raises:
        NotPlainError: The value cannot be read, or is nested too deep.
    """
    kind = type(value)
    if value is None or kind is str or kind in (int, bool) or (kind is float and isfinite(value)):
        return value
    if level > MOST_LEVELS:
        raise NotPlainError(f"it is nested deeper than {MOST_LEVELS} levels, or contains itself")
    if kind is list:
        return [with_types(element, level + 1) for element in value]
    if kind is dict and all(type(key) is str for key in value):
        return {_own_key(key): with_types(element, level + 1) for key, element in value.items()}
    name = f"{kind.__module__}.{kind.__qualname__}"
    return {"~type": name, "~value": _content(kind, value, level)}


def _own_key(key: str) -> str:
    """Return the key of a dict, distinct from the keys added here."""
    return f"~{key}" if key.startswith("~") else key


def _content(kind: Any, value: Any, level: int) -> Any:
    """Return the content of a value that is not plain, without its type."""
    if isinstance(value, Mapping):
        pairs = value.items()
        return [[with_types(key), with_types(element, level + 1)] for key, element in pairs]
    if isinstance(value, (list, tuple)):
        return [with_types(element, level + 1) for element in value]
    if isinstance(value, AbstractSet):
        elements = (with_types(element, level + 1) for element in value)
        return sorted(elements, key=encode_canonical)
    if isinstance(value, Enum):  # a combination of flags may have no name
        return value.name or to_plain(value.value, level + 1)
    if isinstance(value, timedelta):  # its seconds, as a float, are not exact
        return [value.days, value.seconds, value.microseconds]
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return {name: with_types(getattr(value, name), level + 1) for name in names}
    if hasattr(kind, "model_fields"):  # not model_dump, which drops excluded fields
        every = vars(value) | (getattr(value, "__pydantic_extra__", None) or {})
        return {key: with_types(element, level + 1) for key, element in every.items()}
    plain = to_plain(value, level + 1)
    # Arrays of another type or shape may have the same elements.
    return [str(value.dtype), *value.shape, plain] if hasattr(value, "dtype") else plain
