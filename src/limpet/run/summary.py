"""The numbers of a run: over what was scored, with the counts beside them."""

import math
import platform
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from limpet.run.results import ItemResult, values_of
from limpet.run.usage import is_bounded, sum_models, sum_usage


def summarise(items: Sequence[ItemResult], evaluators: Sequence[str]) -> dict[str, Any]:
    """Return the summary of a run. A failure is counted, and never a score."""
    answered = [one for one in items if one.status == "completed"]
    return {
        "n": len(items),
        "workflow": {
            "completed": len(answered),
            "failed": dict(Counter(one.error["class"] for one in items if one.error)),
            "not_run": sum(one.status == "not run" for one in items),
            **_standing(answered, "workflow"),
            "seconds": math.fsum(one.seconds for one in items),
            "usage": sum_usage(one.entry.facts for one in answered),
            **({"models": models} if (models := _models(answered)) else {}),
            **({"llm_latency_p95": latency} if (latency := _latency(answered)) else {}),
        },
        "evaluators": {name: _of_evaluator(items, name) for name in evaluators},
        "masked": sum(len(one.masked) for one in items),
        "versions": {"limpet": version("limpet"), "python": platform.python_version()},
    }


def _standing(items: Sequence[ItemResult], step: str) -> dict[str, Any]:
    """Say of results whether not all are what they should be.

    `by_current_version`: how many are by the present version of the workflow, where they are by
    several.
    `redo`: how many are still to be made anew, by why that failed; "pending" where it did not.
    """
    versions = Counter(one.version for one in items)
    told: dict[str, Any] = {"by_current_version": versions[""]} if len(versions) > 1 else {}
    errors = [one.redo[step] for one in items if step in one.redo]
    left = Counter("pending" if one is None else str(one.get("class")) for one in errors)
    return told | ({"redo": dict(left)} if left else {})


def _models(items: Sequence[ItemResult]) -> dict[str, dict[str, float]]:
    return sum_models(one.entry.facts for one in items)


def _latency(items: Sequence[ItemResult]) -> float | None:
    """Return the 95th percentile of the items' own, as each of them tells only that."""
    times = [one.entry.facts.get("times", {}).get("llm_latency") for one in items]
    known = sorted(one for one in times if isinstance(one, (int, float)) and is_bounded(one))
    return known[math.ceil(0.95 * len(known)) - 1] if known else None


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
        **_standing([one for one in items if name in one.scores], name),
    }
    if values:
        summary["means"] = {part: _mean(some) for part, some in values.items()}
    if labels:
        summary["labels"] = dict(labels)
    if saw_masked := sum(name in one.saw_masked for one in items):
        summary["saw_masked"] = saw_masked
    return summary


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum is beyond 1e308, and the mean is not
        return float(sum(map(Fraction, values)) / len(values))
