"""How are the scores, the times and the costs of a run distributed?

Counts come from the table of items, which has no hidden scores. A bar and the list of its items
agree: edges are numbers as a query has them, and both count on the same arrays.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.run.reading.run_table import COST, SECONDS
from limpet.run.reading.score_table import Floats, LabelTable
from limpet.run.results.score_words import ScoreName
from limpet.view.hiding_table import HidingTable
from limpet.view.shown_values import line_of
from limpet.view.viewed_runs import ViewedRun

_MOST_BARS, _MOST_LABELS = 20, 20
_MOST_POINTS = 12
"""With more distinct values, bars are ranges of values."""
_LOOKED_AT = 1_000
_OFTEN = 3
"""How often values repeat, on average, if each gets a bar of its own."""
_SPREAD = 50
"""From this ratio of the largest to the smallest on, times and costs have a log scale."""
_NEAR = 1e-6
"""As in `score_words.counted`: a score outside its range by this share is a rounding error."""


def shape_of(opened: ViewedRun) -> dict[str, Any]:
    """Return the distributions, computed once for each version of the table."""
    run_table = opened.run_table
    if opened.shape[0] != run_table.version:
        opened.shape = (run_table.version, _shape(run_table))
    return opened.shape[1]


def _shape(run_table: HidingTable) -> dict[str, Any]:
    table, summary = run_table.table, run_table.summary()
    order = [*summary["scores"]]
    names = sorted(
        {*table.scores, *table.labels},
        key=lambda name: (order.index(str(name)) if str(name) in order else len(order), str(name)),
    )
    named = {str(name) for name in names}
    quantiles = summary["workflow"].get("quantiles", {})
    times = []
    for name, array in ((SECONDS, table.seconds), (COST, table.costs)):
        values = array[np.isfinite(array)]
        if len(values) and values.max() > 0:
            # A score of this name is what a query would mean.
            found = {"name": name, "n": len(values), "is_link": name not in named}
            times.append({**found, **_of_amounts(values), "quantiles": quantiles.get(name)})
    return {"scores": [_of_score(run_table, name, summary) for name in names], "times": times}


def _of_score(
    run_table: HidingTable, name: ScoreName, summary: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the bars of a score, and how many answers are in none of them."""
    table = run_table.table
    values = table.scores.get(name, np.full(table.answered.shape, np.nan))
    labels = table.labels.get(name)
    has = ~np.isnan(values)
    bars = _bars(values[has], summary["scores"].get(str(name), {}).get("range"))
    if not len(values[has]) and labels is not None:
        has = labels.numbers >= 0
        bars = _of_labels(labels)
    failed = table.failed_scores[name.evaluator] & ~has
    hidden = run_table.hidden_rows(name)
    has_none = ~has & ~failed
    has_none[hidden] = False
    return {
        "name": str(name), "n": int(has.sum()), **bars, "failed": int(failed.sum()),
        "missing": int(has_none.sum()), "hidden": len(hidden) * table.trials,
    }  # fmt: skip


def _of_labels(labels: LabelTable) -> dict[str, Any]:
    numbers = labels.numbers[labels.numbers >= 0]
    counts = np.bincount(numbers, minlength=len(labels.names))
    order = np.argsort(-counts, kind="stable")[:_MOST_LABELS].tolist()
    first = [[labels.names[number], int(counts[number])] for number in order if counts[number]]
    return {
        # A long one can be shown, but no address is that long.
        "labels": [[line_of(label), many, line_of(label) == label] for label, many in first],
        "more": int(np.count_nonzero(counts)) - len(first),
        "more_n": len(numbers) - sum(many for _, many in first),
    }


def _bars(values: Floats, among: Sequence[float] | None) -> dict[str, Any]:
    """Return the counts of values: of each, if there are few, or between edges."""
    if not len(values):
        return {}
    low, high = float(values.min()), float(values.max())
    if among is None and low >= 0 and high <= 1:
        among = (0.0, 1.0)
    points = _points(values, low, high, among)
    if points is not None:
        counts = np.bincount(np.searchsorted(points, values), minlength=len(points))
        return {"points": points.tolist(), "counts": counts.tolist()}
    if among is not None:
        near = _NEAR * (among[1] - among[0])
        low = among[0] if low >= among[0] - near else low
        high = among[1] if high <= among[1] + near else high
    return _between(values, _edges(low, high))


def _points(
    values: Floats, low: float, high: float, among: Sequence[float] | None
) -> NDArray[np.float64] | None:
    """Return the values that get a bar each; None: there are too many."""
    first, last = (low, high) if among is None else (min(low, among[0]), max(high, among[1]))
    is_whole = float(first).is_integer() and float(last).is_integer()
    if is_whole and last - first < _MOST_BARS and (values == np.floor(values)).all():
        return np.arange(first, last + 1)
    some = np.unique(values[:_LOOKED_AT])
    if len(some) <= _MOST_POINTS and (len(some) == 1 or len(some) * _OFTEN <= len(values)):
        at = np.minimum(np.searchsorted(some, values), len(some) - 1)
        return some if (some[at] == values).all() else None
    return None


def _between(values: Floats, edges: list[float]) -> dict[str, Any]:
    """Return the counts between edges; the first and the last bar have all beyond their edge."""
    at = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
    return {"edges": edges, "counts": np.bincount(at, minlength=len(edges) - 1).tolist()}


def _edges(low: float, high: float) -> list[float]:
    """Return at most 21 edges in steps of 1, 2 or 5 times a power of ten."""
    width = (high - low) / _MOST_BARS
    if width > 0 and math.isfinite(width):
        power = math.floor(math.log10(width))
        for step, exponent in ((1, 0), (2, 0), (5, 0), (1, 1), (2, 1)):
            size = step * 10.0 ** (power + exponent)
            if size < width * (1 - _NEAR) or not math.isfinite(low / size):
                continue
            first, last = math.floor(low / size + _NEAR), math.ceil(high / size - _NEAR)
            # Written in decimals, they are the shortest numbers: 0.15, not 0.15000000000000002.
            edges = [float(f"{at * step}e{power + exponent}") for at in range(first, last + 1)]
            if 1 < len(edges) <= _MOST_BARS + 1:
                return edges if all(np.diff(edges) > 0) else [low, high]
    return [low, high]


def _of_amounts(values: Floats) -> dict[str, Any]:
    """Return the counts of amounts, which are 0 or more; on a log scale if they differ much."""
    high = float(values.max())
    low = float(values[values > 0].min())
    if high < low * _SPREAD:
        return _between(values, _edges(0.0, high))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{step}e{power}") for power in powers for step in (1, 2, 5)]
    first = max(at for at, edge in enumerate(every) if edge <= low or not at)
    last = min((at for at, edge in enumerate(every) if edge >= high), default=len(every) - 1)
    edges = every[first : last + 1]
    if len(edges) > _MOST_BARS + 1:  # more than six powers of ten: one edge in each, or fewer
        edges = every[:: 3 * math.ceil(len(powers) / _MOST_BARS)]
    return {**_between(values, edges), "is_log": True}
