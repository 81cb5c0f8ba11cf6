"""A trace as a tree: what was part of what, when it began and how long it took."""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from limpet.trace import events_in
from limpet.view.shown_values import Shown

_MOST_EVENTS, _MOST_LEVELS = 2_000, 60
_OURS = ("kind", "name", "type", "phase", "started", "ended", "input", "output", "usage", "id",
         "parent")  # fmt: skip


def trace_tree(trace: Sequence[Any], shown: Shown) -> list[dict[str, Any]]:
    """Return the events of a trace, each with its children, the oldest first."""
    found = (event for entry in trace[:_MOST_EVENTS] for event in events_in(entry))
    events = list(islice(found, _MOST_EVENTS))
    ended = {_id(event) for event in events if event.get("phase") != "start"} - {None}
    wanted = [e for e in events if e.get("phase") != "start" or _id(e) not in ended]
    times = (_seconds(event.get("started")) for event in wanted)
    began = min((time for time in times if time is not None), default=0.0)
    roots: list[dict[str, Any]] = []
    nodes: dict[Any, dict[str, Any]] = {}
    drawn = [(event, _node(event, began, shown)) for event in wanted]
    for event, node in drawn:
        if isinstance(event.get("id"), str):
            nodes.setdefault(event["id"], node)
    for event, node in drawn:
        parent = nodes.get(event.get("parent")) if isinstance(event.get("parent"), str) else None
        is_own = parent is None or _is_above(node, parent)
        (roots if parent is None or is_own else parent["children"]).append(node)
    _limit_levels(roots)
    return roots


def _limit_levels(roots: list[dict[str, Any]]) -> None:
    """Put what is nested deeper than a page can show below the last level, one after another."""
    level = roots
    for _ in range(_MOST_LEVELS):
        level = [child for node in level for child in node["children"]]
    for node in level:
        below, left = [], node["children"][::-1]
        while left:
            one = left.pop()
            below.append(one)
            left += one["children"][::-1]
            one["children"] = []
        node["children"] = below


def _is_above(node: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a node would become its own ancestor: ids may be anything."""
    left: list[Any] = [node]
    while left:
        one = left.pop()
        if one is other:
            return True
        left += one["children"]
    return False


def _node(event: Mapping[str, Any], began: float, shown: Shown) -> dict[str, Any]:
    started, ended = _seconds(event.get("started")), _seconds(event.get("ended"))
    took = None if started is None or ended is None else max(0.0, ended - started)
    more = {name: value for name, value in event.items() if name not in _OURS and value}
    return {
        "kind": str(event.get("kind") or "other")[:20],
        "name": str(event.get("name") or event.get("role") or "")[:200],
        "start_s": None if started is None else started - began,
        "seconds": took,
        "input": shown(event.get("input")),
        "output": shown(event.get("output", event.get("content"))),
        "usage": shown(event.get("usage")),
        "more": shown(more) if more else None,
        "children": [],
    }


def _id(event: Mapping[str, Any]) -> str | int | None:
    id_ = event.get("id")
    return id_ if isinstance(id_, (str, int)) else None


def _seconds(value: Any) -> float | None:
    """Return a time, or None if it is none: a workflow may have written anything."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
