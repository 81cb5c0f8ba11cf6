"""How is a reply requested that fits a JSON schema, and how is it read?

Models and many servers ignore the schema, so every reply is checked: see `validation`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from limpet.json_values import is_deep_text
from limpet.models.protocol import Message
from limpet.models.schema_parts import Schema, flaw, inner
from limpet.text import one_line
from limpet.transport.parsing import finite, integer, refuse

_MOST_VALUES = 100_000
"""No model writes that many; checking them takes seconds."""
_THOUGHTS = re.compile(r"(?:<think>|[^{\[`\"]).*?</think>\s*", re.DOTALL)
"""A model's thoughts; their opening tag may be in the prompt."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)


# ---- the schema ---------------------------------------------------------------------------------


def check_schema(schema: Any) -> Any:
    """Check a schema, and return what checks values against it.

    Raises:
        SetupError: It is not a valid JSON schema, refers to another document, or has no end.
    """
    if not isinstance(schema, Mapping):
        raise flaw("schema", "must be an object")
    try:
        text = _ENCODER.encode(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise flaw("schema", f"is not JSON: {one_line(str(error))}") from None
    # Imported when used: most runs have no schema.
    return import_module("limpet.models.validation").validator_of(text)


def _is_strict(schema: Schema) -> bool:
    """Return whether it is in the part of JSON schema that OpenAI enforces to the letter."""
    names = schema.get("properties", {})
    is_object = "properties" in schema or schema.get("type") == "object"
    if is_object and schema.get("additionalProperties") is not False:
        return False
    if is_object and {*schema.get("required", ())} != {*names}:
        return False
    return not _NOT_STRICT & schema.keys() and all(_is_strict(part) for *_, part in inner(schema))


_NOT_STRICT = {
    "allOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "patternProperties",
}  # fmt: skip


# ---- the reply ----------------------------------------------------------------------------------


def parse_reply(text: str) -> Any:
    """Parse a reply that must be JSON only; thoughts before it and a fence are allowed.

    Raises:
        ValueError: It is not JSON, has a duplicate key, or has a number that is too large.
    """
    text = text.strip().removeprefix("\ufeff")
    if (thoughts := _THOUGHTS.match(text)) is not None:
        text = text[thoughts.end() :]
    if (fenced := _FENCE.fullmatch(text)) is not None:
        text = fenced[1]
    if is_deep_text(text):
        raise ValueError("JSON nested too deep to read")
    if sum(map(text.count, ",[{")) > _MOST_VALUES:
        raise ValueError(f"JSON with more than {_MOST_VALUES} values")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, at character {error.pos})") from None


def misfit(value: Any, schema: Schema) -> str | None:
    """Return why a value does not fit a schema that `check_schema` accepted; None: it fits."""
    why: str | None = import_module("limpet.models.validation").why_not(value, check_schema(schema))
    return why


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("JSON with a duplicate key")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=refuse, parse_float=finite, parse_int=integer
)  # created once: that takes longer than parsing most replies


# ---- How is a reply that fits a schema requested, and where in the reply is it? -----------------
#
# `auto` tries the forms in order: the server's structured outputs; a tool that the model must call;
# or text, with the schema in the prompt.

AUTO, TEXT = "auto", "text"
FORMS = ("schema", "tool", TEXT)
"""The forms that `auto` tries, best first."""
TOOL = "reply"
_INSTRUCTION = "Reply with JSON only, no other text, that fits this JSON schema:\n"


def request_fields(form: str, schema: Schema, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the fields that request a reply in this form."""
    if form == "schema":
        strict = {"strict": True} if schema.get("type") == "object" and _is_strict(schema) else {}
        wanted = {"name": TOOL, **strict, "schema": schema}
        return {
            "messages": messages,
            "response_format": {"type": "json_schema", "json_schema": wanted},
        }
    if form == "tool":
        function = {"name": TOOL, "description": "Give your reply.", "parameters": schema}
        return {
            "messages": messages,
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": TOOL}},
        }
    return {"messages": with_instruction(messages, schema)}


def with_instruction(messages: Sequence[Message], schema: Schema) -> list[Message]:
    """Return the messages with the schema at the end of the last."""
    text = _INSTRUCTION + json.dumps(schema, ensure_ascii=False, default=_plain)
    if not messages:
        return [{"role": "user", "content": text}]
    *before, last = messages
    content = last.get("content")
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{text}"}]
    if isinstance(content, Sequence):  # parts: text, images
        return [*before, {**last, "content": [*content, {"type": "text", "text": text}]}]
    return [*messages, {"role": "user", "content": text}]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a schema cannot contain a {type(value).__name__}")


_ENCODER = json.JSONEncoder(default=_plain, allow_nan=False)  # created once, as the decoder
