"""The questions of `asked.py`, as `client.chat.completions.create` takes them.

It takes ours as they are: what is compared here is that nothing is added and nothing is lost.
"""

from peers.providers.asked import ASKED, OSLO, PDF, PLACE, PNG, PNG_URL, ROME, SCHEMA
from peers.providers.theirs import Theirs

FORMAT = {"name": "reply", "schema": SCHEMA, "strict": True}
REPLY_TOOL = {"name": "reply", "description": "Give your reply.", "parameters": SCHEMA}
FORM = {
    "schema": {"response_format": {"type": "json_schema", "json_schema": FORMAT}},
    "schema as a tool": {
        "tools": [{"type": "function", "function": REPLY_TOOL}],
        "tool_choice": {"type": "function", "function": {"name": "reply"}},
    },
}
STATUSES = {
    "BadRequestError": (400, "invalid_value", "permanent"),
    "AuthenticationError": (401, "invalid_api_key", "setup"),
    "PermissionDeniedError": (403, "unsupported_country_region_territory", "setup"),
    "NotFoundError": (404, "model_not_found", "setup"),
    "ConflictError": (409, "conflict", "transient"),
    "UnprocessableEntityError": (422, "unprocessable", "permanent"),
    "RateLimitError": (429, "rate_limit_exceeded", "rate_limit"),
    "InternalServerError": (500, "server_error", "transient"),
}

OPENAI = Theirs(
    asked={
        name: {"model": "m", "messages": one.messages, **one.params, **FORM.get(name, {})}
        for name, one in ASKED.items()
        if name != "cache"
    },
    cannot={"cache": "openai does not support caching on request"},
    headers=("authorization", "content-type"),
    finishes={},
    errors=STATUSES,
)


# ---- Responses ----------------------------------------------------------------------------------

TOOLS = [
    {"type": "function", "strict": False, "name": "weather",
     "description": "The weather at a place.", "parameters": PLACE},
    {"type": "function", "strict": False, "name": "now", "description": "The time.",
     "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip
USER = {"role": "user", "content": "Hello?"}


def asked(*items, **more):
    return {"model": "m", "input": list(items or [USER]), "store": False, **more}


def part(part):
    words = {"type": "input_text", "text": "What is it?"}
    return asked({"role": "user", "content": [words, part]})


def image(url):
    return {"type": "input_image", "detail": "auto", "image_url": url}


def call(number, place):
    return {
        "type": "function_call", "call_id": f"call_{number}", "name": "weather", "arguments": place,
    }  # fmt: skip


def result(number, said):
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": said}


PDF_PART = {
    "type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}",
}  # fmt: skip

RESPONSES = Theirs(
    asked={
        "text": asked(),
        "several texts": asked(),
        "system": asked({"role": "system", "content": "Be brief."}, USER),
        "turns": asked(USER, {"role": "assistant", "content": "Hi."}, USER),
        "parameters": asked(
            temperature=0.5,
            top_p=0.25,
            max_output_tokens=50,
            extra_body={"stop": ["END", "STOP"]},  # it has none, and refuses it
        ),
        "image": part(image(f"data:image/png;base64,{PNG}")),
        "image at an address": part(image(PNG_URL)),
        "document": part(PDF_PART),
        "tools": asked(tools=TOOLS),
        "a tool that must be called": asked(tools=TOOLS, tool_choice="required"),
        "no tool may be called": asked(tools=TOOLS, tool_choice="none"),
        "this tool must be called": asked(
            tools=TOOLS, tool_choice={"type": "function", "name": "weather"}
        ),
        "one tool at a time": asked(tools=TOOLS, parallel_tool_calls=False),
        "results of tools": asked(
            USER,
            {"role": "assistant", "content": "Let me see."},
            call(0, ROME),
            call(1, OSLO),
            result(0, '{"sky": "blue"}'),
            result(1, "rain"),
            tools=TOOLS,
        ),
        "text and calls": asked(tools=TOOLS),
        "schema": asked(text={"format": {"type": "json_schema", **FORMAT}}),
        "schema as a tool": asked(
            tools=[{"type": "function", "strict": False, **REPLY_TOOL}],
            tool_choice={"type": "function", "name": "reply"},
        ),
        "effort": asked(reasoning={"effort": "low"}),
        "user": asked(user="u1"),
        "cut off by its limit": asked(),
    },
    cannot={
        "cache": "responses does not support caching on request",
        "seed": "responses does not support a seed",
    },
    headers=("authorization", "content-type"),
    finishes={"completed": "stop", "max_output_tokens": "length"},
    errors=STATUSES,
)
