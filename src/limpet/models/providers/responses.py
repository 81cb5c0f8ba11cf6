"""OpenAI's Responses."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from limpet.models.provider import Joiner, Provider, Request
from limpet.models.providers.messages import completion_of, mappings, merged, text_in

_PATH = "/responses"
_DEPLOYMENT = re.compile(r"/deployments/[^/]+$")
_LOGPROBS = "message.output_text.logprobs"
_TRANSLATED = {
    "logprobs", "max_completion_tokens", "max_tokens", "messages", "reasoning_effort",
    "response_format", "tool_choice", "tools", "verbosity",
}  # fmt: skip


class Responses(Provider):
    """OpenAI and Azure: `POST /responses`."""

    name = "responses"
    address = "https://api.openai.com/v1"
    key = "${OPENAI_API_KEY}"
    prefixes = ("sk-", "sk-proj-")
    can = Provider.can - {"n", "seed", "caching"}  # it caches by itself

    def path(self, model: str, *, stream: bool) -> str:  # noqa: ARG002
        return _PATH

    def url(self, address: str, path: str) -> str:
        # Azure has it beside its deployments.
        return (_DEPLOYMENT.sub("", address) if path == _PATH else address) + path

    def body(self, request: Request, *, stream: bool) -> dict[str, Any]:
        body = {name: value for name, value in request.items() if name not in _TRANSLATED}
        body["input"] = [item for one in request["messages"] for item in _items(one)]
        body.setdefault("store", False)  # it would keep every prompt and reply for 30 days
        for name in ("max_tokens", "max_completion_tokens"):
            if request.get(name) is not None:
                body["max_output_tokens"] = request[name]
        if request.get("reasoning_effort") is not None:
            effort = {"effort": request["reasoning_effort"]}
            body["reasoning"] = merged(effort, body.get("reasoning"))
        if request.get("logprobs"):
            given = request.get("include") or ()  # what is no list is refused there
            body["include"] = [*given, _LOGPROBS] if isinstance(given, (list, tuple)) else given
        if request.get("tools"):
            body["tools"] = [_tool(tool) for tool in request["tools"]]
        if request.get("tool_choice") is not None:
            body["tool_choice"] = _flat(request["tool_choice"])
        if text := _text(request):
            body["text"] = merged(text, body.get("text"))
        if stream:
            body["stream"] = True
        return body

    def completion(self, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        if (error := _error(body)) is not None:
            return {**body, "error": error}
        if not isinstance(body.get("output"), list):
            return body
        items = [*map(_as_thought, mappings(body, "output"))]
        parts = [*_parts(items, "message", "content")]
        texts = [part for part in parts if isinstance(part.get("text"), str)]
        calls = [
            {"id": item.get("call_id"), "name": item["name"], "arguments": item.get("arguments")}
            for item in items
            if item.get("type") == "function_call" and isinstance(item.get("name"), str)
        ]
        return completion_of(
            "".join(part["text"] for part in texts) if texts else None,
            finish=_finish(body) or ("tool_calls" if calls else "stop"),
            calls=calls,
            reasoning="\n\n".join(filter(None, _thoughts(items))),
            refusal="".join(str(part["refusal"]) for part in parts if part.get("refusal")),
            logprobs=[one for part in texts for one in mappings(part, "logprobs")],
            why=text_in(body, "incomplete_details", "reason"),
            usage=body.get("usage"),
            model=body.get("model"),
        )

    def joiner(self) -> Joiner:
        return _Events()


# ---- a request ----------------------------------------------------------------------------------


def _items(message: Any) -> Iterator[Any]:
    """Yield a message as items; one that is an item already as it is.

    Instructions stay where they are: `instructions` would be the same message, before all others.
    """
    role = message.get("role") if isinstance(message, Mapping) else None
    if role is None:
        yield message
        return
    content = message.get("content")
    if role == "tool":
        call = {"type": "function_call_output", "call_id": message.get("tool_call_id")}
        yield {**call, "output": _content(content, "input_text")}
    else:
        if content or not message.get("tool_calls"):
            kind = "output_text" if role == "assistant" else "input_text"
            yield {"role": role, "content": _content(content, kind)}
        for call in message.get("tool_calls") or ():
            yield _call(call)


def _content(content: Any, text: str) -> Any:
    return [_part(part, text) for part in content] if isinstance(content, list) else content


def _part(part: Any, text: str) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text":
        return {**part, "type": text}
    held = part.get(kind) if isinstance(kind, str) else None
    if not isinstance(held, Mapping):
        return part
    more = {name: value for name, value in part.items() if name not in ("type", kind)}
    if kind == "image_url":
        return {"type": "input_image", "detail": "auto", **more, **_renamed(held, "url", kind)}
    if kind == "file":
        data = held.get("file_data")
        is_address = isinstance(data, str) and data.startswith(("https://", "http://"))
        held = _renamed(held, "file_data", "file_url") if is_address else held
        return {"type": "input_file", **more, **held}
    return part


def _renamed(part: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in part.items()}


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    arguments = function.get("arguments")
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    made = {"type": "function_call", "call_id": call.get("id"), "name": function.get("name")}
    return {**made, "arguments": arguments}


def _tool(tool: Any) -> Any:
    flat = _flat(tool)
    if flat is tool or flat.get("type") != "function":
        return flat
    # Here, unlike in Chat Completions, a function is strict unless it says that it is not.
    return {"parameters": {"type": "object", "properties": {}}, "strict": False, **flat}


def _flat(value: Any) -> Any:
    """Return `{"type": "x", "x": {…}}` as `{"type": "x", …}`; anything else as it is."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    held = value.get(kind) if isinstance(kind, str) else None
    if not isinstance(held, Mapping):
        return value
    if kind == "allowed_tools" and isinstance(held.get("tools"), list):
        held = {**held, "tools": [_flat(tool) for tool in held["tools"]]}
    return {"type": kind, **held}


def _text(request: Request) -> dict[str, Any]:
    form, verbosity = request.get("response_format"), request.get("verbosity")
    found = {} if form is None else {"format": _flat(form)}
    return found if verbosity is None else {**found, "verbosity": verbosity}


# ---- a response ---------------------------------------------------------------------------------


def _error(body: Mapping[str, Any]) -> Any:
    error, status = body.get("error"), body.get("status")
    if not error and status in ("failed", "cancelled", "queued", "in_progress"):
        return {"message": f"the response is {status}"}
    return error or None


def _finish(body: Mapping[str, Any]) -> str | None:
    if body.get("status") != "incomplete":
        return None
    reason = text_in(body, "incomplete_details", "reason")
    return reason if reason == "content_filter" else "length"


def _as_thought(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message on the way to the answer as a thought; any other item as it is."""
    return {**item, "type": "reasoning"} if item.get("phase") == "commentary" else item


def _parts(items: list[Mapping[str, Any]], kind: str, name: str) -> Iterator[Mapping[str, Any]]:
    for item in items:
        if item.get("type") == kind:
            yield from mappings(item, name)


def _thoughts(items: list[Mapping[str, Any]]) -> Iterator[str]:
    for name in ("summary", "content"):
        yield from (text_in(part, "text") for part in _parts(items, "reasoning", name))


_ENDS = {"response.completed": 1, "response.incomplete": 2, "response.failed": 3, "error": 4}
"""The events that end a stream; of several, the worst counts."""


class _Events(Joiner):
    """Waits for the last event, which has the whole response."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}
        self._error: dict[str, Any] | None = None
        self._end = 0

    def add(self, event: Any) -> bool:
        kind = event.get("type") if isinstance(event, Mapping) else None
        if not isinstance(kind, str) or (self.is_done and _ENDS.get(kind, 0) <= self._end):
            return False
        if isinstance(event.get("response"), Mapping):
            self.body = dict(event["response"])
        self._end = _ENDS.get(kind, 0)
        self.is_done = self._end > 0
        if kind == "error":
            self._error = {name: event.get(name) for name in ("code", "message", "param")}
        return kind.endswith(".delta") and bool(event.get("delta"))

    def joined(self) -> dict[str, Any]:
        return self.body if self._error is None else {**self.body, "error": self._error}
