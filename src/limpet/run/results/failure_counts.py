"""How many cells of a step failed, and of what?"""

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any


class FailureCounts:
    """Counts the failures of a step.

    Attributes:
        cells: The numbers of the cells that failed.
        by_class: How many there are of each class.
        by_exception: How many there are of each exception.
    """

    def __init__(self) -> None:
        self.cells = array("Q")
        self.by_class: Counter[str] = Counter()
        self.by_exception: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """How many cells failed."""
        return len(self.cells)

    def add(self, error: Mapping[str, Any], cell: int) -> None:
        """Add the failure of a cell."""
        kind, exception = class_and_exception(error)
        self.by_class[kind] += 1
        self.by_exception[exception] += 1
        self.cells.append(cell)

    def forget(self, error: Mapping[str, Any], cell: int) -> None:
        """Forget a failure that was added: the cell ran again."""
        kind, exception = class_and_exception(error)
        for counts, name in ((self.by_class, kind), (self.by_exception, exception)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        self.cells.remove(cell)


def class_and_exception(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return the class of a failure, and the name of its exception."""
    kind = str(error.get("class", "unknown"))
    return kind, str(error.get("type") or kind)
