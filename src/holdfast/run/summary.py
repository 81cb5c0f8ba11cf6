"""The numbers of a run: over what was scored, with the counts beside them."""

import math
import platform
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from holdfast.run.results import ItemResult, values_of


def summarise(items: Sequence[ItemResult], evaluators: Sequence[str]) -> dict[str, Any]:
    """Return the summary of a run. A failure is counted, and never a score."""
    answered = [one for one in items if one.status == "completed"]
    return {
        "n": len(items),
        "workflow": {
            "completed": len(answered),
            "failed": dict(Counter(one.error["class"] for one in items if one.error)),
            "not_run": sum(one.status == "not run" for one in items),
            "seconds": math.fsum(one.seconds for one in items),
            "usage": _usage(answered),
        },
        "evaluators": {name: _of_evaluator(items, name) for name in evaluators},
        "versions": {"holdfast": version("holdfast"), "python": platform.python_version()},
    }


def _usage(items: Sequence[ItemResult]) -> dict[str, float]:
    usage: Counter[str] = Counter()
    for one in items:
        usage.update(one.entry.facts.get("usage", {}))
    return dict(usage)


def _of_evaluator(items: Sequence[ItemResult], name: str) -> dict[str, Any]:
    values: defaultdict[str | None, list[float]] = defaultdict(list)
    labels: Counter[str] = Counter()
    for one in items:
        score = one.scores.get(name, {"scores": {}})
        for part, value in values_of(score):
            if value is not None:
                values[part].append(float(value))
        if label := score.get("label"):
            labels[label] += 1
    completed = sum(name in one.scores for one in items)
    failed = Counter(one.score_errors[name]["class"] for one in items if name in one.score_errors)
    summary: dict[str, Any] = {
        "completed": completed,
        "failed": dict(failed),
        "not_run": len(items) - completed - failed.total(),
        "mean": _mean(values.pop(None, [])),
    }
    if values:
        summary["means"] = {part: _mean(some) for part, some in values.items()}
    if labels:
        summary["labels"] = dict(labels)
    return summary


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
