"""What happened inside one call of a workflow?

A trace is a list of events, oldest first. An event is a dict with some of these keys:

    kind      "model", "tool", "agent" or "other"
    name      which model, tool or agent
    type      its type at its source, for example LLM_END
    phase     "start" if it only marks a beginning; its end follows, under the same id
    started   when it began, in seconds since 1970
    ended     when it ended
    input     what went in
    output    what came out
    usage     token counts: prompt_tokens, completion_tokens, ...
    id        its own id
    parent    the id of the enclosing event

A workflow's trace is kept unchanged, whatever its shape. `events_in` interprets an entry: it also
understands plain names, messages of OpenAI's chat API and steps of the NeMo Agent Toolkit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]

KINDS = ("tool", "model", "agent", "other")
"""The kinds of events."""
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_KINDS = {
    "LLM": "model",
    "TOOL": "tool",
    "AGENT": "agent",
    "FUNCTION": "agent",
    "TASK": "agent",
    "WORKFLOW": "agent",
}


def events_in(entry: Any, key: str = "name") -> list[Event]:
    """Return the events in an entry of a trace: one event, or the tool calls of a message.

    Args:
        entry: The entry.
        key: The key under which a plain name is returned.
    """
    if isinstance(entry, str):
        return [{key: entry}]
    if not isinstance(entry, Mapping):
        return [{}]
    if entry.get("role") in _ROLES and "kind" not in entry:
        return _events_in_message(entry, key)
    payload = entry.get("payload")
    event = payload if isinstance(payload, Mapping) else entry
    type_ = event.get("event_type")
    return [{**event, **event_of_type(type_)}] if isinstance(type_, str) else [event]


def event_of_type(type_: str) -> dict[str, Any]:
    """Return the kind and phase of an event of this type in the NeMo Agent Toolkit."""
    event: dict[str, Any] = {"kind": _KINDS.get(type_.partition("_")[0], "other"), "type": type_}
    return event | {"phase": "start"} if type_.endswith("_START") else event


def kept_events(trace: Sequence[Any], wanted: Sequence[str] | None) -> list[Any]:
    """Return the entries whose type or kind is wanted, and those that name neither."""
    if wanted is None:
        return list(trace)
    return [entry for entry in trace if _is_kept(entry, wanted)]


def _is_kept(entry: Any, wanted: Sequence[str]) -> bool:
    for event in events_in(entry):
        named = [event[key] for key in ("type", "kind") if isinstance(event.get(key), str)]
        if not named or any(name in wanted for name in named):
            return True
    return False


def _events_in_message(message: Event, key: str) -> list[Event]:
    calls = message.get("tool_calls")
    if isinstance(calls, Sequence) and not isinstance(calls, str) and calls:
        return [_event_in_call(call, key) for call in calls]
    return [{**message, "kind": "model" if message["role"] == "assistant" else "other"}]


def _event_in_call(call: Any, key: str) -> Event:
    call = call if isinstance(call, Mapping) else {}
    function = call.get("function")
    function = function if isinstance(function, Mapping) else call
    named = {key: function.get("name"), "input": function.get("arguments"), "id": call.get("id")}
    return {"kind": "tool", **named}
