"""Does a reply fit the requested schema?

Models and many servers ignore the schema, so every reply is checked. Only the keywords of our own
schemas are known: any other is an error before the first call, not a skipped check.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from limpet.errors import SetupError
from limpet.json_values import is_deep_text
from limpet.models.protocol import Message
from limpet.text import one_line
from limpet.transport.parsing import finite, integer, refuse

Schema = Mapping[str, Any]
_REMARKS = frozenset({"title", "description"})
_LIMITS = frozenset({"minimum", "maximum"})
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items"}),
    "string": frozenset({"enum"}),
    "boolean": frozenset({"enum"}),
    "number": frozenset({"enum"}) | _LIMITS,
    "integer": frozenset({"enum"}) | _LIMITS,
}
_MOST_LEVELS = 20
_MOST_NAMED = 10
_THOUGHTS = re.compile(r"(?:<think>|[^{\[`\"]).*?</think>\s*", re.DOTALL)
"""A model's thoughts; their opening tag may be in the prompt."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)


# ---- the schema ---------------------------------------------------------------------------------


def check_schema(schema: Any, at: str = "schema", level: int = 0) -> None:
    """Check that a schema is supported.

    Raises:
        SetupError: It has an unknown type or keyword.
    """
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    known = _KEYWORDS.get(kind) if isinstance(kind, str) else None
    if known is None or level > _MOST_LEVELS:
        raise _flaw(at, f"must have a type: {', '.join(_KEYWORDS)}")
    for keyword in schema:
        if keyword not in known and keyword not in _REMARKS and keyword != "type":
            raise _flaw(at, f"{keyword!r} is not supported for type {kind!r}")
    if kind == "object":
        properties, required = schema.get("properties", {}), schema.get("required", ())
        if not isinstance(schema.get("additionalProperties", True), bool):
            raise _flaw(at, "additionalProperties must be true or false")
        if not isinstance(properties, Mapping) or not isinstance(required, (list, tuple)):
            raise _flaw(at, "properties must be an object, and required a list")
        for name, part in properties.items():
            check_schema(part, f"{at}.{name}", level + 1)
    elif kind == "array" and "items" in schema:
        check_schema(schema["items"], f"{at}[]", level + 1)
    elif not isinstance(schema.get("enum", []), (list, tuple)):
        raise _flaw(at, "enum must be a list")


def _flaw(at: str, flaw: str) -> SetupError:
    error = SetupError(f"{at}: {flaw}")
    flaw = flaw if at == "schema" else f"{at}: {flaw}"
    vars(error).update(argument="schema", flaw=flaw, is_part=True)
    return error


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
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, at character {error.pos})") from None


def misfit(value: Any, schema: Schema, at: str = "") -> str | None:
    """Return why a value does not fit a schema that `check_schema` accepted; None: it fits."""
    kind, where = schema["type"], at or "the reply"
    if not _IS[kind](value):
        return f"{where} must be of type {kind}, not {_kind_of(value)}"
    if kind == "object":
        return _misfit_object(value, schema, at)
    if kind == "array":
        items = schema.get("items")
        if items is None:
            return None
        whys = (misfit(element, items, f"{at}[{index}]") for index, element in enumerate(value))
        return next((why for why in whys if why), None)
    if "enum" in schema and not any(_same(value, option) for option in schema["enum"]):
        return f"{where} must be one of {_listed(schema['enum'])}, not {one_line(repr(value))}"
    if "minimum" in schema and value < schema["minimum"]:
        return f"{where} must be {schema['minimum']} or more, not {value!r}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"{where} must be {schema['maximum']} or less, not {value!r}"
    return None


def _misfit_object(value: Mapping[str, Any], schema: Schema, at: str) -> str | None:
    properties = schema.get("properties", {})
    prefix = f"{at}." if at else ""
    for name in schema.get("required", ()):
        if name not in value:
            return f"{prefix}{name} is missing"
    for name, part in value.items():
        if name in properties:
            if why := misfit(part, properties[name], f"{prefix}{name}"):
                return why
        elif not schema.get("additionalProperties", True):
            return f"{one_line(prefix + name)} was not requested"
    return None


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


_IS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    # JSON has one kind of number: 4.0 is an integer.
    "integer": lambda value: _is_number(value) and value == value // 1,
}


def _same(value: Any, option: Any) -> bool:
    return isinstance(value, bool) == isinstance(option, bool) and bool(value == option)


def _kind_of(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _listed(options: Any) -> str:
    shown = [one_line(repr(option)) for option in options[:_MOST_NAMED]]
    return ", ".join([*shown, *(["…"] if len(options) > _MOST_NAMED else [])])


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
        wanted = {"name": TOOL, "strict": True, "schema": schema}
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
