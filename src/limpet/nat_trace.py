"""How do the toolkit's intermediate steps become our trace, and our trace its steps again?

A step holds about the same values as an event, under other paths. Values that an event has a key
for are moved there, the rest of the step stays under `nat`: nothing is stored twice or lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.trace import event_of_type
from limpet.transport.parsing import parse_json
from limpet.usage import moment

_KEYS = {"parent_id", "function_ancestry", "payload"}
_NUMBER = (int, float)
_AT = ("payload", "event_timestamp")
_Paths = Mapping[str, tuple[tuple[str, ...], Any]]
# For each key of an event: its path in a step, and the type it must have to be moved.
_PATHS: _Paths = {
    "name": (("payload", "name"), str),
    "input": (("payload", "data", "input"), object),
    "output": (("payload", "data", "output"), object),
    "id": (("payload", "UUID"), str),
    "parent": (("parent_id",), str),
}
_TIMES: Mapping[str, _Paths] = {
    "START": {"started": (_AT, _NUMBER)},
    # Only the end of a call has its own token counts.
    "END": {
        "started": (("payload", "span_event_timestamp"), _NUMBER),
        "ended": (_AT, _NUMBER),
        "usage": (("payload", "usage_info", "token_usage"), Mapping),
    },
}
_TYPES = {"model": "LLM_END", "tool": "TOOL_END", "agent": "FUNCTION_END"}


def trace_of(steps: Any) -> list[Any]:
    """Return the trace of a list of steps. Entries that are not steps stay unchanged."""
    return [_event(step) for step in steps] if isinstance(steps, (list, tuple)) else []


def event_of(sent: Any) -> Any:
    """Return the event in a line from a server.

    A line that does not look like a step becomes the step's data.
    """
    sent = sent if isinstance(sent, Mapping) else {"payload": sent}
    payload = _payload(sent.get("payload"))
    payload.setdefault("event_type", sent.get("type"))
    payload.setdefault("name", sent.get("name"))
    payload.setdefault("UUID", sent.get("id"))
    ancestry = {
        "function_id": payload["UUID"],
        # Readers of the toolkit's files require a name.
        "function_name": payload["name"] or sent.get("name") or "unknown",
        "parent_id": sent.get("parent_id"),
        "parent_name": None,
    }
    parent = sent.get("parent_id")
    return _event({"parent_id": parent, "function_ancestry": ancestry, "payload": payload})


def _payload(payload: Any) -> dict[str, Any]:
    if isinstance(payload, str):
        try:
            parsed = parse_json(payload.encode(errors="surrogatepass"))
        except ValueError:  # some servers send plain text
            parsed = None
        payload = parsed if isinstance(parsed, dict) else payload
    return dict(payload) if isinstance(payload, Mapping) else {"data": {"payload": payload}}


def _is_step(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and entry.keys() <= _KEYS
        and isinstance(entry.get("payload"), Mapping)
    )


def _event(step: Any) -> Any:
    if not _is_step(step):
        return step
    rest = _copied(step)
    type_ = rest["payload"].get("event_type")
    event = event_of_type(rest["payload"].pop("event_type")) if isinstance(type_, str) else {}
    for key, (path, kind) in _paths(event).items():
        within = _within(rest, path)
        value = within.get(path[-1])
        if isinstance(value, kind) and value is not None:
            event[key] = within.pop(path[-1])
    return event | {"nat": rest}


def nat_steps(trace: Sequence[Any]) -> list[Any]:
    """Return any trace as steps: the toolkit rejects a file with anything else."""
    return [_step(entry, number) for number, entry in enumerate(trace)]


def _step(entry: Any, number: int) -> Any:
    if _is_step(entry):
        return entry
    if not isinstance(entry, Mapping) or not _is_step(entry.get("nat")):
        return _new_step(entry, number)
    step = _copied(entry["nat"])
    if "type" in entry:
        step["payload"]["event_type"] = entry["type"]
    for key, (path, _) in _paths(entry).items():
        if key in entry:
            _within(step, path)[path[-1]] = entry[key]
    return step


def _copied(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy, with copies of the parts that values are moved out of or into."""
    payload = {**step["payload"]}
    for name in ("data", "usage_info"):
        if isinstance(payload.get(name), Mapping):
            payload[name] = {**payload[name]}
    return {**step, "payload": payload}


def _paths(event: Mapping[str, Any]) -> _Paths:
    return {**_PATHS, **_TIMES.get(str(event.get("type", "")).rpartition("_")[2], {})}


def _within(step: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the part of a step that holds the last key of a path; empty if it is missing."""
    for name in path[:-1]:
        part = step.get(name)
        step = part if isinstance(part, dict) else {}
    return step


def _new_step(entry: Any, number: int) -> dict[str, Any]:
    event = entry if isinstance(entry, Mapping) else {}
    name, type_ = event.get("name"), _TYPES.get(str(event.get("kind")))
    name = name if isinstance(name, str) else "step"
    id_ = f"step-{number}"
    data = {"input": None, "output": entry, "chunk": None, "payload": None}
    if type_ is not None:
        data |= {"input": event.get("input"), "output": event.get("output"), "payload": entry}
    return {
        "parent_id": "root",
        "function_ancestry": {
            "function_id": id_,
            "function_name": name,
            "parent_id": "root",
            "parent_name": "root",
        },
        "payload": {
            "event_type": type_ or "CUSTOM_END",
            "event_timestamp": moment(event.get("ended")) or 0.0,
            "name": name,
            "data": data,
            "UUID": id_,
        },
    }
