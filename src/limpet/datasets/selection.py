"""Which rows does a filter keep, and which items do sample, limit and shuffle select?

Each item has a rank: a hash of the seed and its id. A sample is the items with the lowest ranks; a
shuffle is the order of the ranks. So a larger sample contains the smaller one, and adding or
removing a row moves no other: results already paid for stay useful, unlike with a random draw.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from hashlib import blake2b
from itertools import islice
from typing import Any

from limpet.datasets.columns import check_column
from limpet.datasets.items import PackedItems
from limpet.shapes import Item

_GLOB = re.compile(r"[*?\[]")


class RowFilter:
    """Keeps the rows that match every allowed column and no denied one.

    Args:
        spec: `{"allow": {column: patterns}, "deny": {column: patterns}}`, checked by `check_shape`.
        location: The dataset's name in messages.
        columns: The dataset's columns.

    Raises:
        DatasetError: It names a missing column.
    """

    def __init__(self, spec: Mapping[str, Any], location: str, columns: Collection[str]) -> None:
        self._allow = _patterns_of(spec, "allow", location, columns)
        self._deny = _patterns_of(spec, "deny", location, columns)

    def keeps(self, values: Mapping[str, Any]) -> bool:
        """Return whether the filter keeps a row."""
        return all(patterns.matches(values) for patterns in self._allow) and not any(
            patterns.matches(values) for patterns in self._deny
        )


def check_shape(spec: Mapping[str, Any]) -> None:
    """Raise `TypeError` if this is not a filter."""
    allowed = 'must be {"allow": {column: [values]}, "deny": {column: [values]}}, or one of them'
    if not isinstance(spec, Mapping) or not set(spec) <= {"allow", "deny"}:
        raise TypeError(f"filter={spec!r}: {allowed}")
    for side in spec.values():
        columns = side or {}
        if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
            raise TypeError(f"filter={spec!r}: {allowed}")


def _patterns_of(
    spec: Mapping[str, Any], side: str, location: str, columns: Collection[str]
) -> "list[_Patterns]":
    patterns = []
    for column, wanted in (spec.get(side) or {}).items():
        check_column(location, columns, column, f"filter: {side}: ", ("filter", side, column))
        patterns.append(_Patterns(column, wanted))
    return patterns


class _Patterns:
    """The patterns that match the values of one column."""

    def __init__(self, column: str, wanted: Any) -> None:
        # A single string is one pattern, not a list of its letters.
        single = isinstance(wanted, (str, Mapping)) or not isinstance(wanted, Iterable)
        strings = [_as_string(pattern) for pattern in ([wanted] if single else wanted)]
        self._column = column
        self._strings = frozenset(strings)
        # The same as `fnmatchcase`, compiled once for all rows.
        self._globs = [re.compile(translate(text)) for text in strings if _GLOB.search(text)]

    def matches(self, values: Mapping[str, Any]) -> bool:
        if self._column not in values:
            return False
        text = _as_string(values[self._column])
        return text in self._strings or any(glob.match(text) for glob in self._globs)


def _as_string(value: Any) -> str:
    """Return a string unchanged, and any other value as JSON: `7`, `true`, `null`."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected items of a dataset.

    Attributes:
        sample: How many to sample by `seed`; None: all.
        limit: How many of these to take from the start; None: all.
        seed: The seed of the sample.
        rehearse: How many of those to draw by `seed`; None: all.
    """

    sample: int | None = None
    limit: int | None = None
    seed: int = 0
    rehearse: int | None = None

    def positions(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the positions of the selected items, in dataset order."""
        positions: Sequence[int] = range(len(items))
        if self.sample is not None and self.sample < len(items):
            positions = sorted(_ranked(items, self.seed)[: self.sample])
        positions = positions[: self.limit]
        if self.rehearse is None or self.rehearse >= len(positions):
            return positions
        among = set(positions)
        drawn = (position for position in _ranked(items, self.seed) if position in among)
        return sorted(islice(drawn, self.rehearse))


def choose(items: PackedItems, selection: Selection, *, shuffle: bool) -> PackedItems:
    """Shuffle the items if requested, then return the selected ones."""
    if shuffle:
        items = items.at(_ranked(items, selection.seed))
    if selection.sample is None and selection.limit is None:
        return items
    return items.at(selection.positions(items))


def _ranked(items: Sequence[Item], seed: int) -> list[int]:
    """Return the positions of the items, lowest rank first."""
    names = items.names if isinstance(items, PackedItems) else [item.id for item in items]
    ranks = [rank(seed, name) for name in names]
    return sorted(range(len(items)), key=ranks.__getitem__)


def rank(seed: int, name: str) -> bytes:
    """Return the rank of an item by its id."""
    text = f"{seed}:{name}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=8).digest()
