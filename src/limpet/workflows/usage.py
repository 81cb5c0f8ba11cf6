"""What did an answer use: how many tokens of which model, and how long did it take?

The numbers are the server's own, and hostile: what is no count is none. The names are the
toolkit's.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.types import Usage
from limpet.workflows.token_counts import COUNTS, LARGEST, counts_in

Counts = dict[str, int]
_FEW = 2


def usage_of_trace(trace: Sequence[Any]) -> Usage | None:
    """Return what the events of a trace tell; None if they tell nothing."""
    models: dict[str, Counts] = {}
    moments: list[float] = []
    begun: dict[Any, float] = {}
    latencies: list[float] = []
    for event in (entry for entry in trace if isinstance(entry, Mapping)):
        started, ended = moment(event.get("started")), moment(event.get("ended"))
        is_start, id_ = event.get("phase") == "start", str(event.get("id"))
        if (at := started if is_start else ended) is not None:
            moments.append(at)
        if event.get("kind") != "model":
            continue
        _add(models, event)
        if is_start and started is not None:
            begun[id_] = started
        elif ended is not None:
            started = begun.pop(id_, None) or started
            if started is not None and ended >= started:
                latencies.append(ended - started)
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


def _add(models: dict[str, Counts], event: Mapping[str, Any]) -> None:
    said = event.get("usage")
    if not isinstance(said, Mapping):
        return
    name = event.get("name")
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


def moment(value: Any) -> float | None:
    """Return a time in seconds; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < LARGEST else None  # and neither NaN nor infinite


def _p95(seconds: list[float]) -> float:
    if len(seconds) < _FEW:
        return seconds[0]
    return statistics.quantiles(seconds, n=100, method="inclusive")[94]
