"""How many results are not by the current version, or are to be made again?"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from limpet.run.results.failure_counts import class_and_exception

PENDING = "pending"
PendingRedo = Mapping[str, Mapping[str, Any] | None] | None
"""The step whose redo is pending, and why that failed, if it did."""


class VersionCounts:
    """Counts the results of a step that are not by the current version, or are to be made again.

    Attributes:
        redo: How many are to be made again, by why that failed; "pending" where it did not.
        errors: How many failed when made again, by exception.
    """

    def __init__(self, step: str) -> None:
        self._step = step
        self._present = self._earlier = 0
        self.redo: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def add(self, by_version: str, redo: PendingRedo, results: int = 1) -> None:
        """Add results.

        Args:
            by_version: The earlier version that gave the answer; empty: the current one.
            redo: The redo that is pending; None: none is.
            results: How many.
        """
        if by_version:
            self._earlier += results
        else:
            self._present += results
        if redo and self._step in redo:
            error = redo[self._step]
            if error is None:
                self.redo[PENDING] += 1
            else:
                kind, exception = class_and_exception(error)
                self.redo[kind] += 1
                self.errors[exception] += 1

    def summary(self) -> dict[str, Any]:
        """Return the counts that differ from the usual.

        `by_current_version`: how many are by the current version of the workflow, if not all are.
        `redo`: how many are to be made again, by why that failed; "pending" where it did not.
        """
        found: dict[str, Any] = {"by_current_version": self._present} if self._earlier else {}
        return found | ({"redo": dict(self.redo)} if self.redo else {})
