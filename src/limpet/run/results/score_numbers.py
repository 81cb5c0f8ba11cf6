"""The numbers of one evaluator: its scores, labels, votes and failures, added up."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from limpet.json_values import encode_canonical
from limpet.run.record_fields import SAW_MASKED
from limpet.run.results.costs import Used, mean
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, counted, values_of
from limpet.shapes import Scale
from limpet.text import count

# ---- Which item, and which group of items, does each cell belong to? ----------------------------
#
# Trials of one item are not several items, and items about one document are not independent: both
# make an interval wider.


class CellItems:
    """The item and the groups of each cell, by its number.

    Args:
        trials: How many times the workflow answers each item.
        fields: The fields that group items.

    Attributes:
        trials: How many times the workflow answers each item.
        fields: The fields that group items.
        items: The number of each cell's item; empty with one trial: it is the cell's number.
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

    def add(self, item: ItemRecord) -> None:
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


# ---- How many cells of a step failed, and why? --------------------------------------------------


class FailureCounts:
    """Counts the failures of a step.

    Attributes:
        cells: The numbers of the cells that failed.
        by_class: The number of failures of each class.
        by_exception: The number of failures of each exception.
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


# ---- How many results are not by the current version, or are to be redone? ----------------------

PENDING = "pending"
EARLIER_ON_DISK = "earlier_on_disk"
"""In a summary: how many cells have no answer that counts, but one by an earlier version."""
_WAY_BACK = 'undo the edit, or keep them with --keep (in Python: on_change="keep")'
PendingRedo = Mapping[str, Mapping[str, Any] | None] | None
"""The step with a pending redo, and its error if it failed."""


class VersionCounts:
    """Counts the results of a step that are not by the current version, or are to be redone.

    Attributes:
        redo: How many are to be redone, by the class of the redo's failure, or "pending".
        errors: How many failed to be redone, by exception.
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
            redo: The pending redo; None: none.
            results: The number of results.
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
        """Return the counts, where they differ from the default.

        `by_current_version`: how many are by the current version of the workflow, if not all.
        `redo`: how many are to be redone, by the class of the redo's failure, or "pending".
        """
        found: dict[str, Any] = {"by_current_version": self._present} if self._earlier else {}
        return found | ({"redo": dict(self.redo)} if self.redo else {})


class Current(NamedTuple):
    """How far a step is: a cell to redo is not done, although its result counts.

    Attributes:
        done: How many cells are done.
        failed: How many failed, including redos.
        not_run: How many are still to run, including redos.
    """

    done: int
    failed: int
    not_run: int


def current(numbers: Mapping[str, Any]) -> Current:
    """Return how far a step is, from its part of `summary.json`."""
    again = Counter(numbers.get("redo", {}))
    pending = again.pop(PENDING, 0)
    return Current(
        numbers["completed"] - pending - again.total(),
        sum(numbers["failed"].values()) + again.total(),
        numbers["not_run"] + pending,
    )


def earlier_words(number: int) -> list[str]:
    """Return how many answers by earlier versions on disk do not count, and the way back."""
    if not number:
        return []
    answers = count(
        number, "answer from an earlier version is", "answers from an earlier version are"
    )
    return [f"{answers} on disk and {'does' if number == 1 else 'do'} not count: {_WAY_BACK}"]


# ---- The numbers of one evaluator: its scores, labels, votes and failures, added up. ------------


class PartScores(NamedTuple):
    """The values of one score of an evaluator, in any order.

    Attributes:
        cells: The number of the cell of each value.
        values: The values.
    """

    cells: "array[int]"
    values: "array[float]"


def _no_scores() -> PartScores:
    return PartScores(array("Q"), array("d"))


class ScoreNumbers:
    """Adds up the scores of one evaluator.

    Attributes:
        name: The name of the evaluator.
        scale: What the scores mean.
        parts: The scores by name; None: its only one.
        labels: By score and label, the numbers of the cells that have it.
        failures: The cells that it failed to score.
        completed: The number of scores.
        versions: The scores of earlier answers, and those to redo.
        saw_masked: The number of answers it scored with a masked secret.
    """

    def __init__(self, name: str, scale: Scale) -> None:
        self.name = name
        self.scale = scale
        self.failures = FailureCounts()
        self.saw_masked = self.completed = 0
        self.parts: defaultdict[str | None, PartScores] = defaultdict(_no_scores)
        self.labels: defaultdict[str | None, defaultdict[str, array[int]]] = defaultdict(
            lambda: defaultdict(lambda: array("Q"))
        )
        self.versions = VersionCounts(name)
        self._used, self._has_usage = Used(), False
        self._agreements, self._flips = array("d"), array("d")
        self._by_model: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, score: Mapping[str, Any], cells: Sequence[int]) -> None:
        """Add a score by its record, for each of these cells."""
        times = len(cells)
        self.completed += times
        for part, value in values_of(score):
            if value is not None:
                scores = self.parts[part]
                scores.cells.extend(cells)
                scores.values.extend([counted(float(value), self.scale)] * times)
        for part, record in (score.get("scores") or {None: score}).items():
            if label := record.get("label"):
                self.labels[part][label].extend(cells)
            if "metadata" in record:
                self._add_metadata(record["metadata"], times)
                if part is None:
                    self._add_votes(record["metadata"], times)

    def _add_metadata(self, metadata: Any, times: int) -> None:
        """Add how far the votes on a score agree, and whether both orders do."""
        if not isinstance(metadata, dict):
            return
        agreement, flipped = metadata.get("agreement"), metadata.get("flipped")
        if isinstance(agreement, (int, float)) and 0 <= agreement <= 1:
            self._agreements.extend([agreement] * times)
        if isinstance(flipped, bool):
            self._flips.extend([flipped] * times)

    def _add_votes(self, metadata: Any, times: int) -> None:
        """Add the votes of a jury, by model."""
        by_model = metadata.get("by_model") if isinstance(metadata, dict) else None
        for model, votes in by_model.items() if isinstance(by_model, dict) else ():
            for answer, number in votes.items() if isinstance(votes, dict) else ():
                if isinstance(number, int):
                    self._by_model[model][answer] += number * times

    def add_usage(self, facts: Mapping[str, Any]) -> None:
        """Add the evaluator's usage for a score."""
        self._has_usage = True
        self._used.add([facts])

    def count_masked(self, facts: Mapping[str, Any]) -> None:
        """Count a line whose evaluator saw masked text."""
        self.saw_masked += bool(facts.get(SAW_MASKED))

    def by_score(self) -> dict[str, dict[str, Any]]:
        """Return the mean and the labels of each score, by name; at least one score."""
        found: dict[str, dict[str, Any]] = {}
        for part in dict.fromkeys([*self.parts, *self.labels]) or [None]:
            values = self.parts[part].values if part in self.parts else ()
            found[str(ScoreName(self.name, part))] = score = {
                "evaluator": self.name, "completed": self.completed, "mean": mean(values)
            }  # fmt: skip
            if part in self.labels:
                score["labels"] = {label: len(cells) for label, cells in self.labels[part].items()}
        return found

    def summary(self, items: int) -> dict[str, Any]:
        """Return the numbers, for so many items."""
        summary: dict[str, Any] = {
            "completed": self.completed,
            "failed": dict(self.failures.by_class),
            "errors": dict(self.failures.by_exception),
            "not_run": items - self.completed - self.failures.total,
            **self.versions.summary(),
        }
        if self._agreements:
            summary["agreement"] = mean(self._agreements)
        if self._by_model:
            summary["votes_by_model"] = {
                model: dict(votes) for model, votes in self._by_model.items()
            }
        if self._flips:
            summary["flip_rate"] = mean(self._flips)
        if self._has_usage:
            summary |= self._used.summary()
            if each := self._used.quantiles():
                summary["quantiles"] = each
        if self.saw_masked:
            summary["saw_masked"] = self.saw_masked
        return summary
