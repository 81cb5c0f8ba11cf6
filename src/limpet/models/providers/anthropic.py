"""Anthropic's Messages."""

from collections.abc import Mapping
from typing import Any

from limpet.models.failures import QUOTA_EXHAUSTED, BadRequestError
from limpet.models.provider import Joiner, Provider, Request, badness
from limpet.models.providers.messages import (
    Marked,
    Source,
    at,
    completion_of,
    decoded,
    forced_tool,
    functions_of,
    merged,
    parts_of,
    schema_of,
    split,
    text_in,
    tool_calls_of,
)

_CACHED = {"type": "ephemeral"}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_FINISHES = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
    "model_context_window_exceeded": "length", "refusal": "content_filter",
    "pause_turn": "length",  # with a tool of the server: it would go on if asked again
}  # fmt: skip
_OUT_OF_CREDIT = ("Your credit balance is too low", "You have reached your specified API usage")
_TRANSLATED = {
    "cache", "max_completion_tokens", "messages", "model", "parallel_tool_calls",
    "reasoning_effort", "response_format", "stop", "tool_choice", "tools", "user",
}  # fmt: skip


class Anthropic(Provider):
    """Anthropic: `POST /v1/messages`."""

    name = "anthropic"
    address = "https://api.anthropic.com"
    versions = ("/v1",)
    key = "${ANTHROPIC_API_KEY}"
    prefixes = ("sk-ant-",)
    can = frozenset({"schema", "tools", "images", "documents", "stream", "caching"})
    defaults = {"max_tokens": 4096}  # noqa: RUF012 - never changed
    fixed_headers = {"anthropic-version": "2023-06-01"}  # noqa: RUF012 - never changed
    models_path = "/v1/models"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def path(self, model: str, *, stream: bool) -> str:  # noqa: ARG002
        return "/v1/messages"

    def body(self, request: Request, *, stream: bool) -> dict[str, Any]:
        ours, others = split(request)
        body = {name: value for name, value in request.items() if name not in _TRANSLATED}
        body |= {"model": request["model"], "messages": _turns(others)}
        if "max_completion_tokens" in request:
            body["max_tokens"] = request["max_completion_tokens"]
        if (stop := request.get("stop")) is not None:
            body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
        if request.get("user") is not None:
            body["metadata"] = {"user_id": request["user"]}
        body |= {"system": _system(ours)} if ours else {}
        if tools := _tools(request):
            body["tools"] = tools
        if (choice := _choice(request)) is not None:
            body["tool_choice"] = choice
        if output := _output(request):
            body["output_config"] = merged(output, body.get("output_config"))
        body |= {"stream": True} if stream else {}
        if request.get("cache"):
            _mark_constant(body)
        return body

    def completion(self, body: Any) -> Any:
        if not isinstance(body, Mapping) or not isinstance(body.get("content"), list):
            return body
        blocks = [block for block in body["content"] if isinstance(block, Mapping)]
        texts, reason = _texts(blocks, "text"), body.get("stop_reason")
        said, kind = (text_in(body, "stop_details", name) for name in ("explanation", "category"))
        return completion_of(
            "".join(texts) if texts else None,
            finish=_finish_of(reason),
            calls=[
                {"id": block.get("id"), "name": block["name"], "arguments": block.get("input")}
                for block in blocks
                if block.get("type") == "tool_use" and isinstance(block.get("name"), str)
            ],
            reasoning="".join(_texts(blocks, "thinking")),
            why=said or kind or text_in(body, "stop_reason"),
            usage=_usage(body.get("usage")),
            model=body.get("model"),
        )

    def joiner(self) -> Joiner:
        return _Blocks()

    def refusal(self, body: Any, headers: Mapping[str, str]) -> Any:  # noqa: ARG002
        if text_in(body, "error", "message").startswith(_OUT_OF_CREDIT):  # its status is 400
            return {**body, "error": {**body["error"], "code": QUOTA_EXHAUSTED}}
        return body


# ---- a request ----------------------------------------------------------------------------------


def _turns(messages: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages; those in a row of one role, like the results of tools, become one."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.get("role") == "assistant" else "user"
        content = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] = _as_blocks(turns[-1]["content"]) + _as_blocks(content)
        else:
            turns.append({"role": role, "content": content})
    return turns


def _system(messages: list[Mapping[str, Any]]) -> Any:
    parts = [part for message in messages for part in parts_of(message)]
    if all(type(part) is str for part in parts):
        return "\n\n".join(map(str, parts))
    return [_block(part) for part in parts]


def _as_blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _blocks(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    if message.get("role") == "tool":
        said = content if isinstance(content, str) else [_block(one) for one in parts_of(message)]
        result = {
            "type": "tool_result",
            "tool_use_id": message.get("tool_call_id"),
            "content": said,
            **({"is_error": True} if message.get("is_error") else {}),
        }
        return [result]
    if isinstance(content, str) and not message.get("tool_calls"):
        return content
    used = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments or {}}
        for call in tool_calls_of(message)
    ]
    return [*(_block(part) for part in parts_of(message) if part != ""), *used]


def _block(part: str | Source | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(part, str):
        mark = {"cache_control": _CACHED} if isinstance(part, Marked) else {}
        return {"type": "text", "text": part, **mark}
    if not isinstance(part, Source):
        return part
    source = {"type": "base64", "media_type": part.type, "data": part.data}
    if part.is_address:
        source = {"type": "url", "url": part.data}
    elif part.type.startswith("text/"):  # only a PDF may be in base64
        source = {"type": "text", "media_type": "text/plain", "data": decoded(part)}
    if part.kind == "image":
        return {"type": "image", "source": source}
    title = {"title": part.name} if part.name else {}
    return {"type": "document", "source": source, **title}


def _tools(request: Request) -> list[Any]:
    functions, others = functions_of(request)
    ours = [
        {
            "name": one.get("name"),
            **({"description": one["description"]} if one.get("description") else {}),
            "input_schema": one.get("parameters") or {"type": "object"},
            **({"strict": one["strict"]} if "strict" in one else {}),
        }
        for one in functions
    ]
    return [*ours, *others]


def _choice(request: Request) -> Any:
    choice, name = request.get("tool_choice"), forced_tool(request)
    found: Any = {"type": "tool", "name": name} if name is not None else choice
    if isinstance(choice, str):
        found = {"type": _CHOICES.get(choice, choice)}
    if request.get("parallel_tool_calls") is False and choice != "none":
        found = merged({"disable_parallel_tool_use": True}, found or {"type": "auto"})
    return found


def _output(request: Request) -> dict[str, Any]:
    effort, schema = request.get("reasoning_effort"), schema_of(request)
    form = request.get("response_format")
    if schema is None and isinstance(form, Mapping) and form.get("type") != "text":
        raise BadRequestError(
            f"response_format: anthropic has no {form.get('type')!r}",
            hint="give it a JSON schema, with the type json_schema",
        )
    found: dict[str, Any] = {} if effort is None else {"effort": effort}
    wanted = {"type": "json_schema", "schema": schema}
    return found if schema is None else {**found, "format": wanted}


def _mark_constant(body: dict[str, Any]) -> None:
    """Mark the end of what is the same in each request: the system's words, or else the tools.

    A judge marks its prompt itself, which is after these.
    """
    name = "system" if body.get("system") else "tools"
    *before, last = _as_blocks(body.get(name) or [None])
    if isinstance(last, Mapping):
        body[name] = [*before, {"cache_control": _CACHED, **last}]


# ---- a response ---------------------------------------------------------------------------------


def _finish_of(reason: Any) -> str | None:
    return _FINISHES.get(reason, reason) if isinstance(reason, str) else None


def _texts(blocks: list[Mapping[str, Any]], kind: str) -> list[str]:
    ours = (block.get(kind) for block in blocks if block.get("type") == kind)
    return [text for text in ours if isinstance(text, str)]


def _usage(reported: Any) -> Any:
    """Return a usage with the thinking tokens where we look for them."""
    thought = at(reported, "output_tokens_details", "thinking_tokens")
    return reported if thought is None else {**reported, "reasoning_tokens": thought}


class _Blocks(Joiner):
    """Joins the events of a streamed message."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}
        self._blocks: dict[str, dict[str, Any]] = {}  # by their number, in order
        self._parts: dict[tuple[str, str], list[str]] = {}

    def add(self, event: Any) -> bool:
        kind = event.get("type") if isinstance(event, Mapping) else None
        if self.is_done and kind != "message_delta":
            return False
        index = str(at(event, "index"))
        self.flaw = self.flaw or self._flaw_of(kind, index)
        if kind == "message_start" and isinstance(event.get("message"), Mapping):
            self.body = dict(event["message"])
        elif kind == "content_block_start" and isinstance(event.get("content_block"), Mapping):
            self._blocks[index] = dict(event["content_block"])
            return bool(event["content_block"].get("type") == "tool_use")
        elif kind == "content_block_delta" and isinstance(event.get("delta"), Mapping):
            return self._add_delta(index, event["delta"])
        elif kind == "message_delta":
            delta, usage = event.get("delta"), event.get("usage")
            if isinstance(delta, Mapping):
                self._end(delta)
            if isinstance(usage, Mapping):
                counts = {name: count for name, count in usage.items() if count is not None}
                before = self.body.get("usage")
                self.body["usage"] = {**(before if isinstance(before, Mapping) else {}), **counts}
        elif kind == "message_stop":
            self.is_done = True
        return False

    def _flaw_of(self, kind: Any, index: str) -> str:
        if kind == "message_start" and (self.body or self._blocks):
            return "a second message began"
        if kind == "content_block_start" and index in self._blocks:
            return "a block began twice"
        is_lost = kind == "content_block_delta" and index not in self._blocks
        return "a part of a block that never began" if is_lost else ""

    def _end(self, delta: Mapping[str, Any]) -> None:
        before, now = (_finish_of(one.get("stop_reason")) for one in (self.body, delta))
        if badness(now) > badness(before):
            self.body |= {name: delta.get(name) for name in ("stop_reason", "stop_details")}

    def _add_delta(self, index: str, delta: Mapping[str, Any]) -> bool:
        name = str(delta.get("type")).removesuffix("_delta").replace("input_json", "partial_json")
        text = delta.get(name)
        if index not in self._blocks or not isinstance(text, str):
            return False
        self._parts.setdefault((index, name), []).append(text)
        return bool(text)

    def joined(self) -> dict[str, Any]:
        for (index, name), parts in self._parts.items():
            text, block = "".join(parts), self._blocks[index]
            if name == "partial_json":
                block["input"] = text or {}
            else:
                block[name] = str(block.get(name) or "") + text
        return {**self.body, "content": [*self._blocks.values()]}
