"""Which item, and which group of items, does each cell belong to?

Several trials of one item are not several items, and items about one document are not independent:
both make an interval wider.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from limpet.json_values import encode_canonical

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import ItemResult


class CellItems:
    """The item and the groups of each cell, by its number.

    Args:
        trials: How often each item is asked.
        fields: The fields that group items.

    Attributes:
        trials: How often each item is asked.
        fields: The fields that group items.
        items: The number of the item of each cell; with one trial empty: it is the cell's number.
        groups: By field, the number of the group of each item.
    """

    def __init__(self, trials: int, fields: Iterable[str]) -> None:
        self.trials = trials
        self.fields = sorted(fields)
        self.items = array("Q")
        self._numbers: dict[str, int] = {}
        self.groups = {field: array("Q") for field in self.fields}
        self._values: dict[str, dict[bytes, int]] = {field: {} for field in self.fields}
        self._count = 0

    def add(self, item: "ItemResult") -> None:
        """Add the next cell."""
        if self.trials > 1:
            number = self._numbers.setdefault(item.id, len(self._numbers))
            self.items.append(number)
            if number < self._count:  # another trial of it
                return
        self._add_item(item.row)

    def add_all(self, items: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add all cells of these items, trial by trial; the rows are read only if items group."""
        if self.trials > 1:
            self.items = array("Q", range(items)) * self.trials
        for row in rows if self.fields else ():
            self._add_item(row)

    def _add_item(self, row: Mapping[str, Any]) -> None:
        self._count += 1
        for field in self.fields:
            values = self._values[field]
            text = encode_canonical(row.get(field))  # items without a value are one group
            self.groups[field].append(values.setdefault(text, len(values)))

    def group_values(self, field: str) -> list[bytes]:
        """Return the value that makes each group of a field, as JSON, by the group's number."""
        return list(self._values[field])
