"""The numbers of a run: over what was scored, with the counts beside them."""

import math
import platform
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from limpet.run.results import ItemResult, values_of
from limpet.run.usage import add_models, add_usage


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
        self._items = self._completed = self._not_run = 0
        self._failed: Counter[str] = Counter()
        self._seconds = array("d")
        self._usage: Counter[str] = Counter()
        self._models: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._latencies = array("d")
        self._evaluators = {name: _Scores(name) for name in evaluators}

    def add(self, item: ItemResult) -> None:
        """Count an item."""
        self._items += 1
        self._not_run += item.status == "not run"
        self._seconds.append(item.seconds)
        if item.error:
            self._failed[item.error["class"]] += 1
        if item.status == "completed":
            self._completed += 1
            facts = item.entry.facts
            add_usage(self._usage, facts)
            add_models(self._models, facts)
            latency = facts.get("times", {}).get("llm_latency")
            if latency is not None:
                self._latencies.append(latency)
        for scores in self._evaluators.values():
            scores.add(item)

    def summary(self) -> dict[str, Any]:
        """Return all of it."""
        models = {model: dict(counts) for model, counts in self._models.items()}
        return {
            "n": self._items,
            "workflow": {
                "completed": self._completed,
                "failed": dict(self._failed),
                "not_run": self._not_run,
                "seconds": math.fsum(self._seconds),
                "usage": dict(self._usage),
                **({"models": models} if models else {}),
                **({"llm_latency_p95": latency} if (latency := self._latency()) else {}),
            },
            "evaluators": {
                name: scores.summary(self._items) for name, scores in self._evaluators.items()
            },
            "versions": {"limpet": version("limpet"), "python": platform.python_version()},
        }

    def _latency(self) -> float | None:
        """Return the 95th percentile of the items' own, as each of them tells only that."""
        known = sorted(self._latencies)
        return known[math.ceil(0.95 * len(known)) - 1] if known else None


class _Scores:
    """Adds up the scores of one evaluator."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: defaultdict[str | None, array[float]] = defaultdict(lambda: array("d"))
        self._labels: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._completed = 0

    def add(self, item: ItemResult) -> None:
        if self._name in item.score_errors:
            self._failed[item.score_errors[self._name]["class"]] += 1
        score = item.scores.get(self._name)
        if score is None:
            return
        self._completed += 1
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
        }
        means = {part: _mean(some) for part, some in self._values.items() if part is not None}
        if means:
            summary["means"] = means
        if self._labels:
            summary["labels"] = dict(self._labels)
        return summary


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
