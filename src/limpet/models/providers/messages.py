"""What is in a message as Chat Completions has it, for providers with messages of their own?"""

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from limpet.errors import PermanentError
from limpet.models.provider import Request
from limpet.transport.parsing import parse_json

SYSTEM = ("system", "developer")


class Source(NamedTuple):
    """An image or a file.

    Attributes:
        kind: "image" or "file".
        type: Its media type; empty: unknown, as with an address.
        data: Its content in base64, or its address.
        is_address: Whether `data` is an address.
        name: Its name; empty: none.
    """

    kind: str
    type: str
    data: str
    is_address: bool
    name: str = ""


_MARKED = {"cache_control": {"type": "ephemeral"}}


class Marked(str):
    """A text at whose end what is the same in each request ends: it can be cached."""

    __slots__ = ()


def parts_of(message: Mapping[str, Any]) -> Iterator[str | Source | Mapping[str, Any]]:
    """Yield the texts, images and files of a message; parts of another kind as they are."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str) and len(part) == 2:  # noqa: PLR2004
            yield part["text"]
        elif kind == "text" and part == {"type": "text", "text": part.get("text"), **_MARKED}:
            yield Marked(part["text"])
        elif kind == "image_url" and isinstance(address := at(part, "image_url", "url"), str):
            yield _source("image", address)
        elif kind == "file" and isinstance(data := at(part, "file", "file_data"), str):
            yield _source("file", data, str(part["file"].get("filename") or ""))
        elif isinstance(part, Mapping):
            yield part
        elif part is not None:
            yield str(part)


def _source(kind: str, address: str, name: str = "") -> Source:
    head, comma, data = address.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        return Source(kind, "", address, is_address=True, name=name)
    media = head.removeprefix("data:").removesuffix(";base64").partition(";")[0]
    return Source(kind, media, data, is_address=False, name=name)


def decoded(file: Source) -> str:
    """Return the text of a file.

    Raises:
        PermanentError: It is none.
    """
    try:
        return b64decode(file.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise PermanentError(f"the file {file.name!r} is not a text in UTF-8 and base64") from None


def text_of(message: Mapping[str, Any], provider: str) -> str:
    """Return the text of a message that may have nothing else.

    Raises:
        PermanentError: It has an image or a file.
    """
    parts = list(parts_of(message))
    if not all(isinstance(part, str) for part in parts):
        where = f"a message of the role {message.get('role')!r}"
        raise PermanentError(f"{provider}: {where} has more than text")
    return "\n\n".join(map(str, parts))


def split(request: Request) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the system's messages, and the others."""
    messages = [one for one in request["messages"] if isinstance(one, Mapping)]
    ours = [one for one in messages if one.get("role") in SYSTEM]
    return ours, [one for one in messages if one.get("role") not in SYSTEM]


def in_turns(said: Iterable[tuple[str, Sequence[Any]]], field: str) -> list[dict[str, Any]]:
    """Return the role and parts of messages as messages; those in a row of one role become one."""
    turns: list[dict[str, Any]] = []
    for role, parts in said:
        if turns and turns[-1]["role"] == role:
            turns[-1][field] += parts
        else:
            turns.append({"role": role, field: [*parts]})
    return turns


def renamed(request: Request, names: Mapping[str, str]) -> dict[str, Any]:
    """Return parameters under the provider's names, which takes a list of stops."""
    given = {own: request[name] for name, own in names.items() if request.get(name) is not None}
    if isinstance(stop := given.get(names["stop"]), str):
        given[names["stop"]] = [stop]
    return given


class ToolCall(NamedTuple):
    """A tool call that a model made.

    Attributes:
        id: Its id; empty: none.
        name: The tool.
        arguments: Its arguments, parsed; text if they are not JSON.
        extra: What only one provider knows: `{"google": {"thought_signature": …}}`.
    """

    id: str
    name: str
    arguments: Any
    extra: Any = None


def tool_calls_of(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    """Yield the tool calls of a message."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, (list, tuple)) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            arguments = function.get("arguments")
            if isinstance(arguments, str):
                with suppress(ValueError):
                    arguments = parse_json(arguments.encode())
            id_, extra = str(call.get("id") or ""), call.get("extra_content")
            yield ToolCall(id_, function["name"], arguments, extra)


def functions_of(request: Request) -> tuple[list[Mapping[str, Any]], list[Any]]:
    """Return the functions among the tools of a request, and its other tools as they are."""
    tools = request.get("tools") or []
    functions, others = [], []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping):
            functions.append(function)
        else:
            others.append(tool)
    return functions, others


def forced_tool(request: Request) -> str | None:
    """Return the name of the tool that must be called; None: none is named."""
    choice = request.get("tool_choice")
    function = choice.get("function") if isinstance(choice, Mapping) else None
    return str(function["name"]) if isinstance(function, Mapping) and "name" in function else None


def schema_of(request: Request) -> Mapping[str, Any] | None:
    """Return the JSON schema that a reply must fit; None: none is asked for.

    Raises:
        PermanentError: The format of the reply is none that we know.
    """
    wanted = request.get("response_format")
    schema = at(wanted, "json_schema", "schema")
    if isinstance(schema, Mapping):
        return schema
    if wanted is not None and at(wanted, "type") not in ("text", "json_object"):
        raise PermanentError(
            "response_format: must be of the type text, json_object or json_schema",
            hint='for example {"type": "json_schema", "json_schema": {"name": "x", "schema": …}}',
        )
    return None


def completion_of(
    text: str | None,
    *,
    finish: str | None,
    calls: Sequence[Mapping[str, Any]] = (),
    reasoning: str = "",
    refusal: str = "",
    logprobs: Sequence[Any] = (),
    why: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Return a response as Chat Completions has it.

    Args:
        text: The text; None: it has none.
        finish: Why it ended: "stop", "length", "tool_calls", "content_filter", or another word.
        calls: Its tool calls, each with `name`, `arguments` and perhaps an `id`.
        reasoning: What the model thought.
        refusal: What it said when it refused.
        logprobs: The log probability of each token.
        why: The provider's own reason, shown if a limit, a filter or an error ended it.
        **more: `usage` and `model`, as the provider reports them.
    """
    tools = [
        {"id": call.get("id"), "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls
    ]
    message: dict[str, Any] = {"content": text, "tool_calls": tools}
    if reasoning:
        message["reasoning_content"] = reasoning
    if refusal:
        message["refusal"] = refusal
    choice: dict[str, Any] = {"message": message, "finish_reason": finish}
    if logprobs:
        choice["logprobs"] = {"content": logprobs}
    known = {name: value for name, value in more.items() if value is not None}
    if why:
        choice["finish_message"] = why
    return {**known, "choices": [choice]}


def merged(ours: Mapping[str, Any], given: Any) -> Any:
    """Return fields of ours under those that the user gave, which the provider checks."""
    return {**ours, **given} if isinstance(given, Mapping) else given or ours


# ---- a response ---------------------------------------------------------------------------------


def at(value: Any, *path: str) -> Any:
    """Return what is in objects within objects; None: nothing."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def mappings(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list there."""
    found = at(value, *path)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def text_in(value: Any, *path: str) -> str:
    """Return the text there; empty: there is none."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""
