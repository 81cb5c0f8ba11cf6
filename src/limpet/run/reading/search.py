"""Which items contain a text, or have a value in a field?

That is in no column of numbers: the items themselves are read, some in each call, so that none
takes long. What was searched stays known; items that have changed since are searched again.
"""

import time

import numpy as np

from limpet.run.reading.heads import Heads
from limpet.run.reading.score_table import Flags
from limpet.run.results.filters import Filter

_CHUNK = 200


class Search:
    """A search through the items of a run.

    Args:
        heads: The items.
        wanted: The conditions.
    """

    def __init__(self, heads: Heads, wanted: Filter) -> None:
        self._heads = heads
        self._filter = wanted
        self._needs_answers = bool(wanted.grep or wanted.disagree)
        self._searched = np.zeros(len(heads), np.int16)
        self.found: Flags = np.zeros(len(heads), np.bool_)

    def go_on(self, budget_s: float) -> int:
        """Search for so long; return how many items are left to search."""
        state = self._state()
        left = np.flatnonzero(self._searched != state)
        until, at = time.monotonic() + budget_s, 0
        while at < len(left) and (at == 0 or time.monotonic() < until):
            some = left[at : at + _CHUNK]
            items = self._heads.read(some, whole=self._needs_answers)
            matching = {(item.id, item.trial) for item in self._filter.matching(items)}
            self.found[some] = [self._heads.where(int(place)) in matching for place in some]
            self._searched[some] = state[some]
            at += len(some)
        return max(0, len(left) - at)

    def _state(self) -> "np.ndarray[tuple[int], np.dtype[np.int16]]":
        """Return a number for each item that changes with what it has; never 0."""
        table = self._heads.table
        state = np.ones(len(self._heads), np.int16)
        if self._needs_answers:
            flags = [table.answered, table.failed, *table.failed_scores.values()]
            scored = [~np.isnan(values) for values in table.scores.values()]
            labelled = [labels.numbers >= 0 for labels in table.labels.values()]
            for column in (*flags, *scored, *labelled):
                state += column.reshape(-1)
        return state
