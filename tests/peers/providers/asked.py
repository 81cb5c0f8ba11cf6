"""What is asked of every provider, in our words, and what it answers.

The same in the words of each vendor's SDK is in a file of its own, `theirs_*.py`: a case for each
of these, or the reason why the provider cannot do it.
"""

from typing import Any, NamedTuple

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
PDF = "JVBERi0xLjEKJcKlwrHDqwo="
PNG_URL = "https://example.com/a.png"
HELLO = {"role": "user", "content": "Hello?"}
SYSTEM = {"role": "system", "content": "Be brief."}
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["label"],
    "additionalProperties": False,
}
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
WEATHER = {"name": "weather", "description": "The weather at a place.", "parameters": PLACE}
NOW = {"name": "now", "description": "The time."}
TOOLS = [{"type": "function", "function": function} for function in (WEATHER, NOW)]
ROME, OSLO = '{"place": "Rome"}', '{"place": "Oslo"}'
CALLED = {
    "role": "assistant",
    "content": "Let me see.",
    "tool_calls": [
        {"id": f"call_{n}", "type": "function", "function": {"name": "weather", "arguments": place}}
        for n, place in enumerate((ROME, OSLO))
    ],
}
RESULTS = [
    {"role": "tool", "tool_call_id": "call_0", "content": '{"sky": "blue"}'},
    {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
]
ONE_CALL = {"calls": [("weather", {"place": "Rome"})], "finish": "tool_calls"}
FITS = {"text": '{"label": "yes"}'}


def with_part(part):
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def file(data):
    return {"type": "file", "file": {"filename": "a.pdf", "file_data": data}}


class Asked(NamedTuple):
    """A question.

    Attributes:
        messages: The conversation.
        params: The parameters of the call.
        reply: The answer, for `Wire.body`.
        schema: What the reply must fit.
        settings: Of the model.
    """

    messages: list[dict[str, Any]]
    params: dict[str, Any] = {}  # noqa: RUF012 - never changed
    reply: dict[str, Any] = {"text": "hello"}  # noqa: RUF012
    schema: dict[str, Any] | None = None
    settings: dict[str, Any] = {}  # noqa: RUF012


def tooled(**params):
    return Asked([HELLO], {"tools": TOOLS, **params}, ONE_CALL)


ASKED = {
    "text": Asked([HELLO]),
    "several texts": Asked([HELLO], reply={"text": ["hel", "lo"]}),
    "system": Asked([SYSTEM, HELLO]),
    "turns": Asked([HELLO, {"role": "assistant", "content": "Hi."}, HELLO]),
    "parameters": Asked(
        [HELLO], {"temperature": 0.5, "top_p": 0.25, "max_tokens": 50, "stop": ["END", "STOP"]}
    ),
    "image": Asked(with_part(image(f"data:image/png;base64,{PNG}"))),
    "image at an address": Asked(with_part(image(PNG_URL))),
    "document": Asked(with_part(file(f"data:application/pdf;base64,{PDF}"))),
    "tools": tooled(),
    "a tool that must be called": tooled(tool_choice="required"),
    "no tool may be called": tooled(tool_choice="none")._replace(reply={"text": "hello"}),
    "this tool must be called": tooled(
        tool_choice={"type": "function", "function": {"name": "weather"}}
    ),
    "one tool at a time": tooled(parallel_tool_calls=False),
    "results of tools": Asked([HELLO, CALLED, *RESULTS], {"tools": TOOLS}),
    "text and calls": Asked(
        [HELLO],
        {"tools": TOOLS},
        {"text": "See:", "calls": [("weather", {"place": "Rome"}), ("now", {})],
         "finish": "tool_calls"},
    ),
    "schema": Asked([HELLO], {}, FITS, SCHEMA, {"reply": "schema"}),
    "schema as a tool": Asked(
        [HELLO],
        {},
        {"calls": [("reply", {"label": "yes"})], "finish": "tool_calls"},
        SCHEMA,
        {"reply": "tool"},
    ),
    "cache": Asked([SYSTEM, HELLO], settings={"cache": True}),
    "effort": Asked([HELLO], {"reasoning_effort": "low"}, {"text": "hello", "thought": "hm, so"}),
    "user": Asked([HELLO], {"user": "u1"}),
    "seed": Asked([HELLO], {"seed": 7}),
    "cut off by its limit": Asked([HELLO], {}, {"text": "hel", "finish": "length"}),
}  # fmt: skip
