"""Amazon Bedrock's Converse."""

import asyncio
import json
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from limpet.errors import PermanentError
from limpet.models.failures import MODEL_MISSING
from limpet.models.provider import Provider, Request
from limpet.models.providers import aws
from limpet.models.providers.messages import (
    Marked,
    Source,
    at,
    completion_of,
    forced_tool,
    functions_of,
    in_turns,
    mappings,
    merged,
    parts_of,
    renamed,
    schema_of,
    split,
    text_in,
    text_of,
    tool_calls_of,
)

_OWN = frozenset({
    "additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig",
    "inferenceConfig", "outputConfig", "performanceConfig", "promptVariables", "requestMetadata",
    "serviceTier", "toolConfig",
})  # fmt: skip
"""Fields of a request. Any other parameter is the model's own."""
_INFERENCE = {
    "max_tokens": "maxTokens", "max_completion_tokens": "maxTokens", "temperature": "temperature",
    "top_p": "topP", "stop": "stopSequences",
}  # fmt: skip
_TRANSLATED = {
    *_OWN, *_INFERENCE, "cache", "messages", "model", "reasoning_effort", "tool_choice", "tools",
}  # fmt: skip
_CHOICES: Mapping[str, Any] = {"auto": {"auto": {}}, "required": {"any": {}}}
_CACHE_POINT = {"cachePoint": {"type": "default"}}
_FORMATS = {
    "jpg": "jpeg", "plain": "txt", "markdown": "md", "msword": "doc", "vnd.ms-excel": "xls",
    "vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}  # fmt: skip
_LONGEST_NAME = 200
_A = {"image": "an image", "file": "a file"}
_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "refusal": "content_filter",
}
"""Any other reason is a failure of the model, which may succeed when repeated."""
_SAYS_MISSING = re.compile(r"(?i)model identifier is invalid|with on-demand throughput")


class Bedrock(Provider):
    """Amazon Bedrock: `POST /model/ID/converse`."""

    name = "bedrock"
    address_hint = "set AWS_REGION, or give the address"
    keyless_hint = aws.HINT
    prefixes = ("ABSK", "bedrock-api-key-")
    can = frozenset({"schema", "tools", "images", "documents", "caching"})
    models_path = ""  # another server has the list

    def __init__(self) -> None:
        region = aws.region()
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        self.address = f"https://bedrock-runtime.{region}.{suffix}" if region else ""
        self._credentials = aws.Credentials()

    @property
    def key(self) -> str | None:  # type: ignore[override]  # it is only read
        """The variable with its key; None where requests are signed instead."""
        signs = aws.is_named() or find_spec("botocore")
        return None if aws.TOKEN not in os.environ and signs else f"${{{aws.TOKEN}}}"

    def path(self, model: str, *, stream: bool) -> str:  # noqa: ARG002
        return f"/model/{quote(model, safe='-._~')}/converse"

    def body(self, request: Request, *, stream: bool) -> dict[str, Any]:  # noqa: ARG002
        ours, others = split(request)
        given = {name: value for name, value in request.items() if name in _OWN}
        unknown = {name: value for name, value in request.items() if name not in _TRANSLATED}
        fields = {
            "inferenceConfig": renamed(request, _INFERENCE),
            "toolConfig": _tools(request),
            "outputConfig": _output(request),
        }
        if fields["outputConfig"].get("textFormat"):
            unknown.pop("response_format", None)
        fields["additionalModelRequestFields"] = unknown
        body = {"messages": _turns(others), **given}
        for name, value in fields.items():
            if value:
                body[name] = merged(value, given.get(name))
        if ours:
            body["system"] = [{"text": text_of(one, self.name)} for one in ours]
        if request.get("cache"):
            _mark_constant(body)
        return body

    def completion(self, body: Any) -> Any:
        if not isinstance(at(body, "output", "message"), Mapping):
            return body
        blocks = mappings(body, "output", "message", "content")
        texts = [text for block in blocks for text in _texts(block)]
        reason = text_in(body, "stopReason")
        return completion_of(
            "".join(texts) if texts else None,
            finish=_FINISHES.get(reason, "error") if reason else None,
            calls=[
                {"id": call.get("toolUseId"), "name": call["name"], "arguments": call.get("input")}
                for block in blocks
                if isinstance(call := block.get("toolUse"), Mapping) and text_in(call, "name")
            ],
            reasoning="".join(
                text_in(block, "reasoningContent", "reasoningText", "text") for block in blocks
            ),
            why=": ".join(
                filter(None, [reason, text_in(body, "trace", "guardrail", "actionReason")])
            ),
            usage=body.get("usage"),
            error=body.get("error"),
        )

    def refusal(self, body: Any, headers: Mapping[str, str]) -> Any:
        if not isinstance(body, Mapping) or "error" in body:
            return body
        kind = headers.get("x-amzn-errortype") or text_in(body, "__type")
        kind = kind.partition(":")[0].rpartition("#")[2]
        said = text_in(body, "message") or text_in(body, "Message")
        is_missing = kind == "ResourceNotFoundException" or _SAYS_MISSING.search(said)
        message = ": ".join(filter(None, [kind, said]))
        code = MODEL_MISSING if is_missing else kind
        return {**body, "error": {"message": message, "code": code}} if message else body

    # ---- a signature in place of a key ----------------------------------------------------------

    async def get_ready(self, address: str) -> None:
        if aws.is_named() or not self.is_keyless or aws.HOST.search(urlsplit(address).netloc):
            self.secrets = await asyncio.to_thread(self._credentials.find)

    async def signed(self, url: str, body: bytes) -> Mapping[str, str]:
        if not self.secrets:
            return {}
        # It may fetch new credentials.
        headers, self.secrets = await asyncio.to_thread(self._credentials.sign, url, body)
        return headers


# ---- a request ----------------------------------------------------------------------------------


def _turns(messages: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    roles = ("assistant" if one.get("role") == "assistant" else "user" for one in messages)
    return in_turns(zip(roles, map(_blocks, messages), strict=True), "content")


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    said: list[Mapping[str, Any]] = []
    for part in parts_of(message):
        said += [_block(part)] if part != "" else []
        said += [_CACHE_POINT] if isinstance(part, Marked) else []
    if message.get("role") == "tool":
        return [{"toolResult": {"toolUseId": message.get("tool_call_id"), "content": said}}]
    used = (
        {"toolUseId": call.id, "name": call.name, "input": call.arguments or {}}
        for call in tool_calls_of(message)
    )
    return [*said, *({"toolUse": call} for call in used)]


def _block(part: str | Source | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if not isinstance(part, Source):
        return part
    kind = part.type.partition("/")[2]
    source: dict[str, Any] = {"bytes": part.data}
    if part.is_address:
        if not part.data.startswith("s3://"):
            raise PermanentError(
                f"bedrock: {_A[part.kind]} cannot be given by its address, except in S3",
                hint="give its content, as a data: address",
            )
        kind, source = PurePosixPath(part.data).suffix[1:], {"s3Location": {"uri": part.data}}
    block = {"format": _FORMATS.get(kind, kind), "source": source}
    if part.kind == "image":
        return {"image": block}
    name = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", PurePosixPath(part.name).stem).strip()
    return {"document": {**block, "name": name[:_LONGEST_NAME] or "document"}}


def _tools(request: Request) -> dict[str, Any]:
    functions, others = functions_of(request)
    choice, name = request.get("tool_choice"), forced_tool(request)
    if choice == "none":  # it has no word for it
        return {}
    specs = [
        {
            "name": one.get("name"),
            **({"description": one["description"]} if one.get("description") else {}),
            "inputSchema": {"json": one.get("parameters") or {"type": "object"}},
            **({"strict": one["strict"]} if one.get("strict") is not None else {}),
        }
        for one in functions
    ]
    tools = [*({"toolSpec": spec} for spec in specs), *others]
    chosen: Any = {"tool": {"name": name}} if name is not None else choice
    chosen = _CHOICES[choice] if choice in ("auto", "required") else chosen
    found = {"tools": tools, "toolChoice": chosen}
    return {name: value for name, value in found.items() if value}


def _output(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if (schema := schema_of(request)) is not None:
        wanted = request["response_format"]["json_schema"]
        named = {name: wanted[name] for name in ("name", "description") if wanted.get(name)}
        definition = {"schema": json.dumps(schema, default=dict), **named}
        found["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": definition}}
    if request.get("reasoning_effort") is not None:
        found["effort"] = request["reasoning_effort"]
    return found


def _mark_constant(body: dict[str, Any]) -> None:
    """Mark the end of what is the same in each request: the system's words, or else the tools."""
    tools = body.get("toolConfig")
    if body.get("system"):
        body["system"] = [*body["system"], _CACHE_POINT]
    elif isinstance(tools, Mapping) and isinstance(tools.get("tools"), list):
        body["toolConfig"] = {**tools, "tools": [*tools["tools"], _CACHE_POINT]}


# ---- a response ---------------------------------------------------------------------------------


def _texts(block: Mapping[str, Any]) -> list[str]:
    """Return the texts of a block, which may be in its citations."""
    holders = (block, *mappings(block, "citationsContent", "content"))
    return [text for holder in holders if isinstance(text := holder.get("text"), str)]
