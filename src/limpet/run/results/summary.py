"""The numbers of a run: means of the scores, with the counts beside them.

No number depends on the order in which results are added: floats are summed exactly. Intervals are
in `score_intervals`.
"""

import math
import platform
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple

from limpet.run.record_fields import TRUNCATED
from limpet.run.results.costs import Used, is_bounded, numbers_in, quantiles
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_numbers import (
    PENDING,
    CellItems,
    FailureCounts,
    ScoreNumbers,
    VersionCounts,
)
from limpet.run.results.score_words import scale_data
from limpet.shapes import Scale
from limpet.version import VERSION

NUMBERS = ("n", "workflow", "scores", "evaluators", "masked", "versions")
"""The keys of `summary.json` that follow from the results alone."""
_NOTHING: Mapping[str, Any] = {}


class StepNumbers(NamedTuple):
    """How far a step is.

    Attributes:
        done: The number of cells that are done, without those to redo.
        failed: The number of failed cells, including redos, by class.
        errors: The failed cells by exception.
    """

    done: int
    failed: dict[str, int]
    errors: dict[str, int]


class Numbers:
    """Adds up the numbers of a run. A failure is counted, but is never a score.

    A cell is identified by its number: items in the order in which they are added, trial by trial.

    Args:
        evaluators: The names of the evaluators.
        trials: How many times the workflow answers each item.
        scales: The scale of each evaluator's scores, where it is not the default.

    Attributes:
        cell_items: Which item and group each cell belongs to.
        items: The number of items, counting each trial.
        answered_cells: The numbers of the cells that the workflow answered.
        seconds: How long each of these took, in the same order; NaN: not known.
        costs: What each of these cost; NaN: not known.
        failures: The cells that the workflow failed.
        versions: The answers that are not by the current version, or are to be redone.
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
        self.items = self.masked = self._truncated = 0
        self.failures = FailureCounts()
        self.scores = {name: ScoreNumbers(name, scales.get(name, Scale())) for name in evaluators}
        self.versions = VersionCounts("workflow")
        self.answered_cells, self.seconds, self.costs = array("Q"), array("d"), array("d")
        self._used = Used()
        self._latencies = array("d")

    def add(self, item: ItemRecord) -> None:
        """Add an item."""
        cell = self.items
        self.items += 1
        self.cell_items.add(item)
        self.masked += len(item.masked)
        if item.error is not None:
            self.failures.add(item.error, cell)
            self.add_usage([item.failed])
        if item.entry is not None:
            self.add_answers([item.entry.facts], [cell])
            self.versions.add(item.version, item.redo)
        for name, scores in self.scores.items():
            if name in item.score_errors:
                scores.failures.add(item.score_errors[name], cell)
            scores.saw_masked += name in item.saw_masked
            if name in item.scores:
                scores.add(item.scores[name], [cell])
                scores.versions.add(item.version, item.redo)
            if name in item.score_usage:
                scores.add_usage(item.score_usage[name])

    def add_answers(self, answers: Sequence[Mapping[str, Any]], cells: Iterable[int]) -> None:
        """Add answers by the facts about them, and the numbers of their cells."""
        self.answered_cells.extend(cells)
        self.seconds.extend([facts.get("seconds", nan) for facts in answers])
        used = [facts.get("usage", _NOTHING) for facts in answers]
        self.costs.extend([_cost(some["cost"]) if "cost" in some else nan for some in used])
        self.add_usage(answers)
        self._truncated += sum(bool(facts[TRUNCATED]) for facts in answers if TRUNCATED in facts)
        times = [facts["times"] for facts in answers if "times" in facts]
        self._latencies.extend(numbers_in([some.get("llm_latency") for some in times]))

    def add_usage(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Add the usage of answers and failed calls, by the facts about them."""
        self._used.add([facts for facts in answers if "usage" in facts])

    def of_step(self, step: str) -> StepNumbers:
        """Return the numbers of a step that say how far it is."""
        if step in self.scores:
            scores = self.scores[step]
            return _step_numbers(scores.completed, scores.failures, scores.versions)
        return _step_numbers(len(self.answered_cells), self.failures, self.versions)

    def summary(self, in_flight: int | None = None) -> dict[str, Any]:
        """Return all numbers, in the shape of `summary.json`.

        Args:
            in_flight: How many cells of the workflow are in flight; None: the run is not running.
                They and the answers without a score yet widen the bounds.
        """
        completed = len(self.answered_cells)
        not_run = self.items - completed - self.failures.total
        seconds = array("d", (one for one in self.seconds if not math.isnan(one)))
        times = {"seconds": quantiles(seconds)} if seconds else {}
        each = self._used.quantiles() | times
        return {
            "n": self.items,
            "workflow": {
                "completed": completed,
                "failed": dict(self.failures.by_class),
                "errors": dict(self.failures.by_exception),
                "not_run": not_run,
                **({"truncated": self._truncated} if self._truncated else {}),
                **self.versions.summary(),
                "seconds": math.fsum(seconds),
                **self._used.summary(),
                **({"llm_latency_p95": latency} if (latency := self._latency()) else {}),
                **({"quantiles": each} if each else {}),
            },
            "scores": {
                name: score
                for scores in self.scores.values()
                for name, score in self._claims(
                    scores, None if in_flight is None else in_flight + completed
                )
            },
            "evaluators": {name: by.summary(self.items) for name, by in self.scores.items()},
            "masked": self.masked,
            "versions": {"limpet": VERSION, "python": platform.python_version()},
        }

    def _claims(
        self, scores: "ScoreNumbers", begun: int | None
    ) -> Iterable[tuple[str, dict[str, Any]]]:
        """Return the intervals of each score of an evaluator, by name.

        Args:
            scores: The scores.
            begun: While the run is running, how many cells the workflow has answered or begun.
        """
        ended = scores.completed + scores.failures.total
        found, shared = scores.by_score(), scale_data(scores.scale)
        if self.items - ended - self.failures.total:
            shared["interim"] = True
        for score in found.values():
            score.update(shared)
        if not scores.completed:
            return found.items()
        from limpet.run.results.score_intervals import claims  # noqa: PLC0415 - slow: NumPy

        claimed = claims(
            scores,
            self.cell_items,
            [*self.failures.cells, *scores.failures.cells],
            0 if begun is None else max(0, begun - ended),
        )
        return ((name, score | claimed.get(name, {})) for name, score in found.items())

    def _latency(self) -> float | None:
        """Return the 95th percentile over the items."""
        known = sorted(self._latencies)
        return known[math.ceil(0.95 * len(known)) - 1] if known else None


def _cost(cost: Any) -> float:
    return cost if isinstance(cost, (int, float)) and is_bounded(cost) else nan


def _step_numbers(completed: int, failures: FailureCounts, versions: VersionCounts) -> StepNumbers:
    again = Counter({kind: number for kind, number in versions.redo.items() if kind != PENDING})
    done = completed - versions.redo.total()
    errors = failures.by_exception + versions.errors
    return StepNumbers(done, dict(failures.by_class + again), dict(errors))
