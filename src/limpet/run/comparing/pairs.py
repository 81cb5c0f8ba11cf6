"""Which cells of two runs belong together?

Items are paired by their ids, and then trial by trial. A pair counts only if the item is the same
in both runs: the workflow and the evaluator have read the same of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet import stats
from limpet.run.comparing.opened_run import RunToCompare
from limpet.run.comparing.results import AmountDifference, Amounts
from limpet.run.reading.score_table import Flags, Floats
from limpet.run.results.groups import coded

Rows = NDArray[np.int64]


@dataclass
class Pairs:
    """The items of two runs: those of the base in its order, then those that only the new one has.

    Attributes:
        base: The base.
        new: The new run.
        base_rows: The row of each item in the base's table; -1: it has no such item.
        new_rows: The row of each item in the new run's table; -1: it has no such item.
    """

    base: RunToCompare
    new: RunToCompare
    base_rows: Rows
    new_rows: Rows

    @cached_property
    def common(self) -> Flags:
        """Which of the items both runs have."""
        return (self.base_rows >= 0) & (self.new_rows >= 0)

    def ids(self, which: Flags, most: int) -> list[str]:
        """Return the ids of the first of some items."""
        base, new = self.base.table.ids, self.new.table.ids
        return [
            base[self.base_rows[at]] if self.base_rows[at] >= 0 else new[self.new_rows[at]]
            for at in np.flatnonzero(which)[:most]
        ]

    def differing(self, evaluator: str) -> Flags:
        """Return which items differ in what the workflow or the evaluator reads of them."""
        found = np.zeros(len(self.common), np.bool_)
        for at in self._edited:
            found[at] = not self._is_seen_the_same(at, evaluator)
        return found

    @cached_property
    def _edited(self) -> list[int]:
        """The items that are not the same line in both runs."""
        base, new = self.base.file, self.new.file
        if base is None or new is None:
            return []  # not known, and said
        return [
            at
            for at in np.flatnonzero(self.common).tolist()
            if base.content(self._here(at)) != new.content(self._there(at))
        ]

    def _is_seen_the_same(self, at: int, evaluator: str) -> bool:
        seen = self.base.seen(self._here(at), evaluator)
        if seen is not None and seen == self.new.seen(self._there(at), evaluator):
            return True
        one, other = self.base.item(self._here(at)), self.new.item(self._there(at))
        return (one.input, one.expected, one.row) == (other.input, other.expected, other.row)

    def _here(self, at: int) -> int:
        return self.base.table.positions[int(self.base_rows[at])]

    def _there(self, at: int) -> int:
        return self.new.table.positions[int(self.new_rows[at])]


def pair(base: RunToCompare, new: RunToCompare) -> Pairs:
    """Pair the items of two runs."""
    ids, others = base.table.ids, new.table.ids
    if ids == others:
        rows = np.arange(len(ids))
        return Pairs(base, new, rows, rows)
    return Pairs(base, new, *_by_id(ids, others))


def _by_id(ids: Sequence[str], others: Sequence[str]) -> tuple[Rows, Rows]:
    rows = {id_: row for row, id_ in enumerate(others)}
    new_rows = [rows.pop(id_, -1) for id_ in ids]
    only_new = list(rows.values())
    return (
        np.array([*range(len(ids)), *(-1 for _ in only_new)], np.int64),
        np.array([*new_rows, *only_new], np.int64),
    )


# ---- Which value of a dataset's field does each pair of items have? -----------------------------


class PairedFields:
    """The fields of the items of two runs: those of the base, where it has the item."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._known: dict[str, tuple[Rows, list[Any]]] = {}

    def coded(self, name: str) -> tuple[Rows, list[Any]]:
        """Return the number of each item's value of a field, and the values in order.

        Raises:
            LimpetError: No item has the field.
        """
        if name not in self._known:
            numbers, values = coded(self._values(name))
            self._known[name] = np.array(numbers, np.int64), values
        return self._known[name]

    def _values(self, name: str) -> list[Any]:
        pairs = self._pairs
        base = pairs.base.values(name)
        new = pairs.new.values(name) if (pairs.base_rows < 0).any() else []
        return [
            base[row] if row >= 0 else new[other]
            for row, other in zip(pairs.base_rows.tolist(), pairs.new_rows.tolist(), strict=True)
        ]


# ---- By how much do the cost and the latency of two runs differ? --------------------------------


def latency(pairs: Pairs) -> AmountDifference | None:
    """Return by how much the seconds of an answer differ; None: there are no pairs."""
    return _difference(pairs, pairs.base.table.seconds, pairs.new.table.seconds)


def cost(pairs: Pairs) -> AmountDifference | None:
    """Return by how much the cost of an answer differs; None: it is not known."""
    return _difference(pairs, pairs.base.table.costs, pairs.new.table.costs)


def _difference(pairs: Pairs, base: Floats, new: Floats) -> AmountDifference | None:
    trials = min(base.shape[1], new.shape[1])
    a = base[pairs.base_rows[pairs.common], :trials]
    b = new[pairs.new_rows[pairs.common], :trials]
    there = ~(np.isnan(a) | np.isnan(b))
    if not there.any():
        return None
    items = np.nonzero(there)[0]
    found = stats.paired(a[there], b[there], items=items if trials > 1 else None, range=None)
    return AmountDifference(
        found.n, _amounts(a[there]), _amounts(b[there]), found.delta, found.low, found.high
    )


def _amounts(values: Floats) -> Amounts:
    median, p95 = np.quantile(values, [0.5, 0.95])
    return Amounts(float(values.sum()), float(values.mean()), float(median), float(p95))
