"""A trace as a tree: what was part of what, when it began and how long it took."""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.trace import events_in
from limpet.view.shown_values import Shown

_MOST_EVENTS = 2_000
_OURS = ("kind", "name", "type", "phase", "started", "ended", "input", "output", "usage", "id",
         "parent")  # fmt: skip


def trace_tree(trace: Sequence[Any], shown: Shown) -> list[dict[str, Any]]:
    """Return the events of a trace, each with its children, the oldest first."""
    events = [event for entry in trace[:_MOST_EVENTS] for event in events_in(entry)]
    ended = {event.get("id") for event in events if event.get("phase") != "start"}
    wanted = [
        event
        for event in events
        if event.get("phase") != "start" or event.get("id") is None or event["id"] not in ended
    ]
    began = min((_number(event.get("started")) for event in wanted), default=0.0)
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
    return roots


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
    started, ended = event.get("started"), event.get("ended")
    took = None
    if isinstance(started, (int, float)) and isinstance(ended, (int, float)):
        took = max(0.0, ended - started)
    more = {name: value for name, value in event.items() if name not in _OURS and value}
    return {
        "kind": str(event.get("kind") or "other")[:20],
        "name": str(event.get("name") or event.get("role") or "")[:200],
        "start_s": _number(started) - began if isinstance(started, (int, float)) else None,
        "seconds": took,
        "input": shown(event.get("input")),
        "output": shown(event.get("output", event.get("content"))),
        "usage": shown(event.get("usage")),
        "more": shown(more) if more else None,
        "children": [],
    }


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float("inf")
