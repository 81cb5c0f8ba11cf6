"""How many results are not by the current version, or are to be made again?"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from limpet.run.results.failure_counts import class_and_exception
from limpet.text import count

PENDING = "pending"
EARLIER_ON_DISK = "earlier_on_disk"
"""In a summary: how many cells have no answer that counts, but one of an earlier version."""
_WAY_BACK = 'undo the edit, or keep them with --keep (in Python: on_change="keep")'
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


class Current(NamedTuple):
    """How far a step is: what is to be made again is not done, although its result counts.

    Attributes:
        done: How many cells are done.
        failed: How many failed, also when made again.
        not_run: How many are still to run, also again.
    """

    done: int
    failed: int
    not_run: int


def current(numbers: Mapping[str, Any]) -> Current:
    """Return how far a step is, given what `summary.json` has of it."""
    again = Counter(numbers.get("redo", {}))
    pending = again.pop(PENDING, 0)
    return Current(
        numbers["completed"] - pending - again.total(),
        sum(numbers["failed"].values()) + again.total(),
        numbers["not_run"] + pending,
    )


def earlier_words(number: int) -> list[str]:
    """Return how many answers of earlier versions are on disk, do not count, and the way back."""
    if not number:
        return []
    answers = count(number, "answer of an earlier version is", "answers of an earlier version are")
    return [f"{answers} on disk and {'does' if number == 1 else 'do'} not count: {_WAY_BACK}"]
