"""The numbers of a run: over what was scored, with the counts beside them."""

import math
import platform
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from limpet.run.results.costs import add_counts, bounded, is_bounded
from limpet.run.results.evaluation_result import ItemResult, values_of
from limpet.types import CellStatus


def summarise(items: Iterable[ItemResult], evaluators: Sequence[str]) -> dict[str, Any]:
    """Return the summary of a run. A failure is counted, and never a score."""
    numbers = Numbers(evaluators)
    for one in items:
        numbers.add(one)
    return numbers.summary()


class Numbers:
    """Adds up the numbers of a run, an item at a time.

    Args:
        evaluators: The names of what scores.
    """

    def __init__(self, evaluators: Sequence[str]) -> None:
        self.items = self._completed = self._not_run = self._masked = 0
        self._failed: Counter[str] = Counter()
        self._standing = _Standing("workflow")
        self._seconds = array("d")
        self._used = _Used()
        self._latencies = array("d")
        self._evaluators = {name: _Scores(name) for name in evaluators}

    def add(self, item: ItemResult) -> None:
        """Count an item."""
        self.items += 1
        self._not_run += item.status is CellStatus.NOT_RUN
        self._masked += len(item.masked)
        if item.error is not None:
            self._failed[item.error.get("class", "unknown")] += 1
        if item.entry is not None:
            self._completed += 1
            self._seconds.append(item.seconds)
            self._standing.add(item)
            self._add_facts(item.entry.facts)
        for scores in self._evaluators.values():
            scores.add(item)

    def _add_facts(self, facts: Mapping[str, Any]) -> None:
        self._used.add(facts)
        latency = facts.get("times", {}).get("llm_latency")
        if isinstance(latency, (int, float)) and is_bounded(latency):
            self._latencies.append(latency)

    def summary(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "n": self.items,
            "workflow": {
                "completed": self._completed,
                "failed": dict(self._failed),
                "not_run": self._not_run,
                **self._standing.told(),
                "seconds": math.fsum(self._seconds),
                **self._used.told(),
                **({"llm_latency_p95": latency} if (latency := self._latency()) else {}),
            },
            "evaluators": {
                name: scores.summary(self.items) for name, scores in self._evaluators.items()
            },
            "masked": self._masked,
            "versions": {"limpet": version("limpet"), "python": platform.python_version()},
        }

    def _latency(self) -> float | None:
        """Return the 95th percentile of the items' own, as each of them tells only that."""
        known = sorted(self._latencies)
        return known[math.ceil(0.95 * len(known)) - 1] if known else None


class _Used:
    """Adds up what the calls of a step used."""

    def __init__(self) -> None:
        self._usage: dict[str, float] = {}
        self._models: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def add(self, facts: Mapping[str, Any]) -> None:
        add_counts(self._usage, facts.get("usage", {}))
        for model, counts in facts.get("models", {}).items():
            add_counts(self._models[model], counts)

    def told(self) -> dict[str, Any]:
        models = {model: bounded(counts) for model, counts in self._models.items()}
        return {"usage": bounded(self._usage), **({"models": models} if models else {})}


class _Standing:
    """Says of a step's results whether not all are what they should be."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._present = self._earlier = 0
        self._redo: Counter[str] = Counter()

    def add(self, item: ItemResult) -> None:
        if item.version:
            self._earlier += 1
        else:
            self._present += 1
        if item.redo and self._step in item.redo:
            error = item.redo[self._step]
            self._redo["pending" if error is None else str(error.get("class"))] += 1

    def told(self) -> dict[str, Any]:
        """Return what there is to say.

        `by_current_version`: how many are by the present version of the workflow, where not all
        are.
        `redo`: how many are still to be made anew, by why that failed; "pending" where it did not.
        """
        told: dict[str, Any] = {"by_current_version": self._present} if self._earlier else {}
        return told | ({"redo": dict(self._redo)} if self._redo else {})


class _Scores:
    """Adds up the scores of one evaluator."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: defaultdict[str | None, array[float]] = defaultdict(lambda: array("d"))
        self._labels: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._standing = _Standing(name)
        self._completed = self._saw_masked = 0
        self._used: _Used | None = None

    def add(self, item: ItemResult) -> None:
        if self._name in item.score_errors:
            self._failed[item.score_errors[self._name].get("class", "unknown")] += 1
        self._saw_masked += self._name in item.saw_masked
        score = item.scores.get(self._name)
        if score is None:
            return
        self._completed += 1
        self._standing.add(item)
        if (facts := item.score_usage.get(self._name)) is not None:
            self._used = self._used or _Used()
            self._used.add(facts)
        if "scores" not in score:  # most have one value
            if score["score"] is not None:
                self._values[None].append(float(score["score"]))
        else:
            for part, value in values_of(score):
                if value is not None:
                    self._values[part].append(float(value))
        if label := score.get("label"):
            self._labels[label] += 1

    def summary(self, items: int) -> dict[str, Any]:
        summary: dict[str, Any] = {
            "completed": self._completed,
            "failed": dict(self._failed),
            "not_run": items - self._completed - self._failed.total(),
            "mean": _mean(self._values.get(None, ())),
            **self._standing.told(),
        }
        means = {part: _mean(some) for part, some in self._values.items() if part is not None}
        if means:
            summary["means"] = means
        if self._labels:
            summary["labels"] = dict(self._labels)
        if self._used is not None:
            summary |= self._used.told()
        if self._saw_masked:
            summary["saw_masked"] = self._saw_masked
        return summary


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum is beyond 1e308, and the mean is not
        return float(sum(map(Fraction, values)) / len(values))
