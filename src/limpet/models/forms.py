"""How is a reply that fits a schema asked for, and where in the reply is it?

`auto` tries the forms in order: the server holds the model to a schema; a tool that the model must
call; or text, with the schema in the prompt.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.models.protocol import Message
from limpet.models.schema import Schema

AUTO, TEXT = "auto", "text"
FORMS = ("schema", "tool", TEXT)
"""What `auto` tries, best first."""
TOOL = "reply"
_INSTRUCTION = "Reply with JSON only, no other text, that fits this JSON schema:\n"


def asked_in(form: str, schema: Schema, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the fields of a request that ask for a reply in this form."""
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
