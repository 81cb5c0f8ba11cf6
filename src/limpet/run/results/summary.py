"""The numbers of a run: over what was scored, with the counts beside them.

No number depends on the order in which results are added: floats are summed exactly.
"""

import math
import platform
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.run.record_fields import CUT_OFF, SAW_MASKED
from limpet.run.results.costs import is_bounded
from limpet.run.results.score_words import values_of
from limpet.run.results.table import mean
from limpet.version import VERSION

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import ItemResult

NUMBERS = ("n", "workflow", "evaluators", "masked", "versions")
"""What of `summary.json` follows from the results alone."""
_PENDING = "pending"
PendingRedo = Mapping[str, Mapping[str, Any] | None] | None
"""The step whose redo is pending, and why that failed, if it did."""


class StepNumbers(NamedTuple):
    """How far a step is.

    Attributes:
        done: The number of cells that are done; those to be made again are not.
        failed: The number of cells that failed, also when made again, by class.
        errors: The same, by exception.
    """

    done: int
    failed: dict[str, int]
    errors: dict[str, int]


class Numbers:
    """Adds up the numbers of a run. A failure is counted, and never a score.

    A cell is identified by its number: items in the order in which they are added, trial by trial.

    Args:
        evaluators: The names of the evaluators.

    Attributes:
        items: The number of items, counting each trial.
        failed_cells: The numbers of the cells that the workflow failed.
        failed: The number of failures of the workflow, by class.
        errors: The same, by exception.
        versions: Which answers are not by the current version, or are to be made again.
        masked: The number of lines in which a secret is masked.
        scores: The numbers of each evaluator.
    """

    def __init__(self, evaluators: Iterable[str]) -> None:
        self.items = self.masked = self._cut_off = 0
        self.failed_cells = array("Q")
        self.failed: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.scores = {name: ScoreNumbers(name) for name in evaluators}
        self.versions = VersionCounts("workflow")
        self._seconds = array("d")
        self._used = _Used()
        self._latencies = array("d")

    def add(self, item: "ItemResult") -> None:
        """Add an item."""
        cell = self.items
        self.items += 1
        self.masked += len(item.masked)
        if item.error is not None:
            self.add_failure(item.error, cell)
        if item.entry is not None:
            self.add_answers([item.entry.facts])
            self.versions.add(item.version, item.redo)
        for name, scores in self.scores.items():
            if name in item.score_errors:
                scores.add_failure(item.score_errors[name], cell)
            scores.saw_masked += name in item.saw_masked
            if name in item.scores:
                scores.add(item.scores[name], [cell])
                scores.versions.add(item.version, item.redo)
            if name in item.score_usage:
                scores.add_usage(item.score_usage[name])

    def add_failure(self, error: Mapping[str, Any], cell: int) -> None:
        """Add a failure of a cell by its class and type."""
        _count_failure(self.failed, self.errors, error)
        self.failed_cells.append(cell)

    def add_answers(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Add answers by the facts about them."""
        self._seconds.extend([facts.get("seconds", 0.0) for facts in answers])
        self._used.add([facts for facts in answers if "usage" in facts])
        for facts in answers:
            self._cut_off += bool(facts.get(CUT_OFF))
            if "times" in facts:
                latency = facts["times"].get("llm_latency")
                if isinstance(latency, (int, float)) and is_bounded(latency):
                    self._latencies.append(latency)

    def of_step(self, step: str) -> StepNumbers:
        """Return the numbers of a step that say how far it is."""
        if step in self.scores:
            scores = self.scores[step]
            return _step_numbers(scores.completed, scores.failed, scores.errors, scores.versions)
        return _step_numbers(len(self._seconds), self.failed, self.errors, self.versions)

    def summary(self) -> dict[str, Any]:
        """Return all numbers, in the shape of `summary.json`."""
        completed = len(self._seconds)
        return {
            "n": self.items,
            "workflow": {
                "completed": completed,
                "failed": dict(self.failed),
                "errors": dict(self.errors),
                "not_run": self.items - completed - self.failed.total(),
                **({"cut_off": self._cut_off} if self._cut_off else {}),
                **self.versions.summary(),
                "seconds": math.fsum(self._seconds),
                **self._used.summary(),
                **({"llm_latency_p95": latency} if (latency := self._latency()) else {}),
            },
            "evaluators": {
                name: scores.summary(self.items) for name, scores in self.scores.items()
            },
            "masked": self.masked,
            "versions": {"limpet": VERSION, "python": platform.python_version()},
        }

    def _latency(self) -> float | None:
        """Return the 95th percentile over the items."""
        known = sorted(self._latencies)
        return known[math.ceil(0.95 * len(known)) - 1] if known else None


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
        parts: The scores by name; None: its only one.
        labels: By score and label, the numbers of the cells that have it.
        failed_cells: The numbers of the cells that it failed to score.
        failed: The number of failures, by class.
        errors: The same, by exception.
        completed: The number of scores.
        versions: Which scores are of an earlier answer, or are to be made again.
        saw_masked: The number of answers it scored of which a secret was masked.
    """

    def __init__(self, name: str) -> None:
        self.failed: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.saw_masked = self.completed = 0
        self.parts: defaultdict[str | None, PartScores] = defaultdict(_no_scores)
        self.labels: defaultdict[str | None, defaultdict[str, array[int]]] = defaultdict(
            lambda: defaultdict(lambda: array("Q"))
        )
        self.failed_cells = array("Q")
        self.versions = VersionCounts(name)
        self._used: _Used | None = None
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
                scores.values.extend([float(value)] * times)
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

    def add_failure(self, error: Mapping[str, Any], cell: int) -> None:
        """Add a failure of a cell by its class and type."""
        _count_failure(self.failed, self.errors, error)
        self.failed_cells.append(cell)

    def add_usage(self, facts: Mapping[str, Any]) -> None:
        """Add what the evaluator used for a score."""
        self._used = self._used or _Used()
        self._used.add([facts])

    def note_masked(self, facts: Mapping[str, Any]) -> None:
        """Count a line whose evaluator saw masked text."""
        self.saw_masked += bool(facts.get(SAW_MASKED))

    def summary(self, items: int) -> dict[str, Any]:
        """Return the numbers, of so many items."""
        summary: dict[str, Any] = {
            "completed": self.completed,
            "failed": dict(self.failed),
            "errors": dict(self.errors),
            "not_run": items - self.completed - self.failed.total(),
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
        if self._used is not None:
            summary |= self._used.summary()
        if self.saw_masked:
            summary["saw_masked"] = self.saw_masked
        return summary


class _Used:
    """Adds up what the calls of a step used."""

    def __init__(self) -> None:
        self._usage = _Counts()
        self._models: defaultdict[str, _Counts] = defaultdict(_Counts)

    def add(self, calls: Sequence[Mapping[str, Any]]) -> None:
        self._usage.add([facts.get("usage", {}) for facts in calls])
        for facts in calls:
            if "models" in facts:
                for model, counts in facts["models"].items():
                    self._models[model].add([counts])

    def summary(self) -> dict[str, Any]:
        models = {model: counts.totals() for model, counts in self._models.items()}
        return {"usage": self._usage.totals(), **({"models": models} if models else {})}


class _Counts:
    """Adds up numbers by name: integers as such, floats exactly."""

    def __init__(self) -> None:
        self._whole: dict[str, int] = {}
        self._floats: dict[str, array[float]] = {}

    def add(self, counts: Sequence[Mapping[str, Any]]) -> None:
        names = list(counts[0]) if counts else []
        if len(counts) > 1 and all(list(some) == names for some in counts):  # most are the same
            for name, *values in zip(names, *[some.values() for some in counts], strict=True):
                self._add_all(name, values)
        else:
            for some in counts:
                for name, value in some.items():
                    self._add(name, value)

    def _add_all(self, name: str, values: Sequence[Any]) -> None:
        if {*map(type, values)} == {int} and is_bounded(min(values)) and is_bounded(max(values)):
            self._whole[name] = self._whole.get(name, 0) + sum(values)
            return
        for value in values:
            self._add(name, value)

    def _add(self, name: str, value: Any) -> None:
        if not isinstance(value, (int, float)) or not is_bounded(value):
            return
        if type(value) is int:
            self._whole[name] = self._whole.get(name, 0) + value
        else:
            self._floats.setdefault(name, array("d")).append(value)

    def totals(self) -> dict[str, float]:
        """Return the sums that a float can hold."""
        totals: dict[str, float] = dict(self._whole)
        for name, values in self._floats.items():
            try:
                totals[name] = math.fsum([*values, totals.get(name, 0)])
            except OverflowError:
                totals[name] = math.inf
        return {name: total for name, total in totals.items() if is_bounded(total)}


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
                self.redo[_PENDING] += 1
            else:
                _count_failure(self.redo, self.errors, error)

    def summary(self) -> dict[str, Any]:
        """Return the counts that differ from the usual.

        `by_current_version`: how many are by the current version of the workflow, if not all are.
        `redo`: how many are to be made again, by why that failed; "pending" where it did not.
        """
        found: dict[str, Any] = {"by_current_version": self._present} if self._earlier else {}
        return found | ({"redo": dict(self.redo)} if self.redo else {})


def _step_numbers(
    completed: int, failed: Counter[str], errors: Counter[str], versions: VersionCounts
) -> StepNumbers:
    again = Counter({kind: number for kind, number in versions.redo.items() if kind != _PENDING})
    done = completed - versions.redo.total()
    return StepNumbers(done, dict(failed + again), dict(errors + versions.errors))


def _count_failure(classes: Counter[str], errors: Counter[str], error: Mapping[str, Any]) -> None:
    kind = str(error.get("class", "unknown"))
    classes[kind] += 1
    errors[str(error.get("type") or kind)] += 1
