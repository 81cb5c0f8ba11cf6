"""Which value of a dataset's field does each pair of items have?"""

from typing import Any

import numpy as np

from limpet.run.comparing.pairs import Pairs, Rows
from limpet.run.results.groups import coded


class Fields:
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
