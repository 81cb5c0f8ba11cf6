"""The numbers of a run: over what was scored, with the counts beside them.

No number depends on the order in which results are added: floats are summed exactly. What may be
claimed of a mean is in `score_intervals`.
"""

import math
import platform
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.run.record_fields import CUT_OFF, SAW_MASKED
from limpet.run.results.cell_items import CellItems
from limpet.run.results.costs import is_bounded, numbers_in
from limpet.run.results.scale_data import scale_data
from limpet.run.results.score_words import values_of
from limpet.run.results.table import mean
from limpet.run.results.usage_totals import Used, quantiles
from limpet.run.results.version_counts import PENDING, VersionCounts, count_failure, forget_failure
from limpet.types import Scale
from limpet.version import VERSION

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import ItemResult

NUMBERS = ("n", "workflow", "evaluators", "masked", "versions")
"""What of `summary.json` follows from the results alone."""
_NOTHING: Mapping[str, Any] = {}


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
        trials: How often each item is asked.
        scales: What the scores of each evaluator mean, where that is not the usual.

    Attributes:
        cell_items: Which item and group each cell belongs to.
        items: The number of items, counting each trial.
        answered_cells: The numbers of the cells that the workflow answered.
        seconds: How long each of these took, in the same order; NaN where that is not known.
        costs: What each of these cost; NaN where that is not known.
        failed_cells: The numbers of the cells that the workflow failed.
        failed: The number of failures of the workflow, by class.
        errors: The same, by exception.
        versions: Which answers are not by the current version, or are to be made again.
        masked: The number of lines in which a secret is masked.
        scores: The numbers of each evaluator.
    """

    def __init__(
        self,
        evaluators: Iterable[str],
        trials: int = 1,
        scales: Mapping[str, Scale] | None = None,
    ) -> None:
        scales = scales or {}
        groups = {scale.group for scale in scales.values() if scale.group is not None}
        self.cell_items = CellItems(trials, groups)
        self.items = self.masked = self._cut_off = 0
        self.failed_cells = array("Q")
        self.failed: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.scores = {name: ScoreNumbers(name, scales.get(name, Scale())) for name in evaluators}
        self.versions = VersionCounts("workflow")
        self.answered_cells, self.seconds, self.costs = array("Q"), array("d"), array("d")
        self._used = Used()
        self._latencies = array("d")

    def add(self, item: "ItemResult") -> None:
        """Add an item."""
        cell = self.items
        self.items += 1
        self.cell_items.add(item)
        self.masked += len(item.masked)
        if item.error is not None:
            self.add_failure(item.error, cell)
        if item.entry is not None:
            self.add_answers([item.entry.facts], [cell])
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
        count_failure(self.failed, self.errors, error)
        self.failed_cells.append(cell)

    def forget_failure(self, error: Mapping[str, Any], cell: int) -> None:
        """Forget a failure that was added: the cell ran again."""
        forget_failure(self.failed, self.errors, error)
        self.failed_cells.remove(cell)

    def add_answers(self, answers: Sequence[Mapping[str, Any]], cells: Iterable[int]) -> None:
        """Add answers by the facts about them, and the numbers of their cells."""
        self.answered_cells.extend(cells)
        self.seconds.extend([facts.get("seconds", nan) for facts in answers])
        used = [facts.get("usage", _NOTHING) for facts in answers]
        self.costs.extend([_cost(some["cost"]) if "cost" in some else nan for some in used])
        self._used.add([facts for facts in answers if "usage" in facts])
        self._cut_off += sum(bool(facts[CUT_OFF]) for facts in answers if CUT_OFF in facts)
        times = [facts["times"] for facts in answers if "times" in facts]
        self._latencies.extend(numbers_in([some.get("llm_latency") for some in times]))

    def of_step(self, step: str) -> StepNumbers:
        """Return the numbers of a step that say how far it is."""
        if step in self.scores:
            scores = self.scores[step]
            return _step_numbers(scores.completed, scores.failed, scores.errors, scores.versions)
        return _step_numbers(len(self.answered_cells), self.failed, self.errors, self.versions)

    def summary(self, in_flight: int | None = None) -> dict[str, Any]:
        """Return all numbers, in the shape of `summary.json`.

        Args:
            in_flight: While the run is running, how many cells of the workflow are in flight. They
                and the answers that are not scored yet are part of the bounds. None: it is not.
        """
        completed = len(self.answered_cells)
        not_run = self.items - completed - self.failed.total()
        seconds = array("d", (one for one in self.seconds if not math.isnan(one)))
        times = {"seconds": quantiles(seconds)} if seconds else {}
        each = self._used.quantiles() | times
        return {
            "n": self.items,
            "workflow": {
                "completed": completed,
                "failed": dict(self.failed),
                "errors": dict(self.errors),
                "not_run": not_run,
                **({"cut_off": self._cut_off} if self._cut_off else {}),
                **self.versions.summary(),
                "seconds": math.fsum(seconds),
                **self._used.summary(),
                **({"llm_latency_p95": latency} if (latency := self._latency()) else {}),
                **({"quantiles": each} if each else {}),
            },
            "evaluators": {
                name: scores.summary(self.items)
                | self._claims(scores, None if in_flight is None else in_flight + completed)
                for name, scores in self.scores.items()
            },
            "masked": self.masked,
            "versions": {"limpet": VERSION, "python": platform.python_version()},
        }

    def _claims(self, scores: "ScoreNumbers", begun: int | None) -> dict[str, Any]:
        """Return what may be claimed of the scores of an evaluator.

        Args:
            scores: The scores.
            begun: While the run is running, how many cells the workflow has answered, or will.
        """
        ended = scores.completed + scores.failed.total()
        found = scale_data(scores.scale)
        if self.items - ended - self.failed.total():
            found["interim"] = True
        if not scores.completed:
            return found
        from limpet.run.results.score_intervals import claims  # noqa: PLC0415 - slow: NumPy

        return found | claims(
            scores,
            self.cell_items,
            [*self.failed_cells, *scores.failed_cells],
            0 if begun is None else max(0, begun - ended),
        )

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


def _cost(cost: Any) -> float:
    return cost if isinstance(cost, (int, float)) and is_bounded(cost) else nan


def _no_scores() -> PartScores:
    return PartScores(array("Q"), array("d"))


class ScoreNumbers:
    """Adds up the scores of one evaluator.

    Attributes:
        scale: What the scores mean.
        parts: The scores by name; None: its only one.
        labels: By score and label, the numbers of the cells that have it.
        failed_cells: The numbers of the cells that it failed to score.
        failed: The number of failures, by class.
        errors: The same, by exception.
        completed: The number of scores.
        versions: Which scores are of an earlier answer, or are to be made again.
        saw_masked: The number of answers it scored of which a secret was masked.
    """

    def __init__(self, name: str, scale: Scale) -> None:
        self.scale = scale
        self.failed: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.saw_masked = self.completed = 0
        self.parts: defaultdict[str | None, PartScores] = defaultdict(_no_scores)
        self.labels: defaultdict[str | None, defaultdict[str, array[int]]] = defaultdict(
            lambda: defaultdict(lambda: array("Q"))
        )
        self.failed_cells = array("Q")
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
        count_failure(self.failed, self.errors, error)
        self.failed_cells.append(cell)

    def forget_failure(self, error: Mapping[str, Any], cell: int) -> None:
        """Forget a failure that was added: the cell ran again."""
        forget_failure(self.failed, self.errors, error)
        self.failed_cells.remove(cell)
        self.saw_masked -= bool(error.get(SAW_MASKED))

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
        if self._has_usage:
            summary |= self._used.summary()
            if each := self._used.quantiles():
                summary["quantiles"] = each
        if self.saw_masked:
            summary["saw_masked"] = self.saw_masked
        return summary


def _step_numbers(
    completed: int, failed: Counter[str], errors: Counter[str], versions: VersionCounts
) -> StepNumbers:
    again = Counter({kind: number for kind, number in versions.redo.items() if kind != PENDING})
    done = completed - versions.redo.total()
    return StepNumbers(done, dict(failed + again), dict(errors + versions.errors))
