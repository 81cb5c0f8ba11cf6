"""What did an answer use: how many tokens of which model, and how long did it take?

The numbers are the server's own, and hostile: what is no count is none. The names are the
toolkit's.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.types import Usage
from limpet.workflows.token_counts import COUNTS, LARGEST, counts_in

Counts = dict[str, int]
_FEW = 2


def usage_of_trace(steps: Sequence[Mapping[str, Any]]) -> Usage | None:
    """Return what the steps tell; None if they tell nothing."""
    models: dict[str, Counts] = {}
    moments: list[float] = []
    begun: dict[Any, float] = {}
    latencies: list[float] = []
    for step in steps:
        payload = step["payload"]
        kind, at = payload.get("event_type"), _moment(payload.get("event_timestamp"))
        if at is not None:
            moments.append(at)
        name = str(payload.get("UUID"))
        if kind == "LLM_START" and at is not None:
            begun[name] = at
        elif kind == "LLM_END":
            _add(models, payload)
            start = begun.pop(name, None) or _moment(payload.get("span_event_timestamp"))
            if start is not None and at is not None and at >= start:
                latencies.append(at - start)
    if not moments and not models:
        return None
    times: dict[str, float] = {}
    if moments:
        first, last = min(moments), max(moments)
        times = {"runtime": last - first, "min_timestamp": first, "max_timestamp": last}
    if latencies:
        times["llm_latency"] = _p95(latencies)
    return _usage(_sum(models), models, times)


def usage_of_body(body: Any) -> Usage | None:
    """Return what an answer's own `usage` tells; None if it has none."""
    said = body.get("usage") if isinstance(body, Mapping) else None
    if not isinstance(said, Mapping):
        return None
    counts = _counts(said)
    if not any(counts.values()):
        return None
    model = body.get("model")
    return _usage(counts, {model: counts} if isinstance(model, str) else {}, {})


def _usage(counts: Counts, models: Mapping[str, Counts], times: Mapping[str, float]) -> Usage:
    return Usage(
        prompt_tokens=counts["prompt_tokens"],
        completion_tokens=counts["completion_tokens"],
        total_tokens=counts["total_tokens"],
        cached_tokens=counts["cached_tokens"],
        reasoning_tokens=counts["reasoning_tokens"],
        models=models or None,
        times=times or None,
    )


def _add(models: dict[str, Counts], payload: Mapping[str, Any]) -> None:
    said = payload.get("usage_info")
    said = said.get("token_usage") if isinstance(said, Mapping) else None
    if not isinstance(said, Mapping):
        return
    name = payload.get("name")
    name = name if isinstance(name, str) else "unknown"
    models[name] = _sum({"so far": models.get(name, {}), "this": _counts(said)})


def _sum(models: Mapping[str, Counts]) -> Counts:
    return {name: sum(one.get(name, 0) for one in models.values()) for name in COUNTS}


def _counts(said: Mapping[str, Any]) -> Counts:
    found, _ = counts_in(said)
    counts = {name: found.get(name, 0) for name in COUNTS}
    counts["total_tokens"] = counts["total_tokens"] or (
        counts["prompt_tokens"] + counts["completion_tokens"]
    )
    return counts


def _moment(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and abs(value) < LARGEST else None


def _p95(seconds: list[float]) -> float:
    if len(seconds) < _FEW:
        return seconds[0]
    return statistics.quantiles(seconds, n=100, method="inclusive")[94]
