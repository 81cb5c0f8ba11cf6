"""The numbers of one evaluator: its scores, labels, votes and failures, added up."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from limpet.run.record_fields import SAW_MASKED
from limpet.run.results.failure_counts import FailureCounts
from limpet.run.results.scale_data import counted
from limpet.run.results.score_words import values_of
from limpet.run.results.table import mean
from limpet.run.results.usage_totals import Used
from limpet.run.results.version_counts import VersionCounts
from limpet.types import Scale


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
        scale: What the scores mean.
        parts: The scores by name; None: its only one.
        labels: By score and label, the numbers of the cells that have it.
        failures: The cells that it failed to score.
        completed: The number of scores.
        versions: Which scores are of an earlier answer, or are to be made again.
        saw_masked: The number of answers it scored of which a secret was masked.
    """

    def __init__(self, name: str, scale: Scale) -> None:
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
        """Add a score by its record, once for each of the cells that have it."""
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
        """Add what judges say of a score: how far the votes agree, whether the orders did."""
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
        """Add what the evaluator used for a score."""
        self._has_usage = True
        self._used.add([facts])

    def note_masked(self, facts: Mapping[str, Any]) -> None:
        """Count a line whose evaluator saw masked text."""
        self.saw_masked += bool(facts.get(SAW_MASKED))

    def summary(self, items: int) -> dict[str, Any]:
        """Return the numbers, of so many items."""
        summary: dict[str, Any] = {
            "completed": self.completed,
            "failed": dict(self.failures.by_class),
            "errors": dict(self.failures.by_exception),
            "not_run": items - self.completed - self.failures.total,
            "mean": mean(self.parts[None].values if None in self.parts else ()),
            **self.versions.summary(),
        }
        means = {
            part: mean(scores.values) for part, scores in self.parts.items() if part is not None
        }
        if means:
            summary["means"] = means
        labels = {
            part: {label: len(cells) for label, cells in by_label.items()}
            for part, by_label in self.labels.items()
        }
        if None in labels:
            summary["labels"] = labels.pop(None)
        if labels:
            summary["labels_by_score"] = labels
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
