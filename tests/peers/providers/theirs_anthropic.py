"""The questions of `asked.py`, as `client.messages.create` takes them."""

from peers.providers.asked import OSLO, PDF, PLACE, PNG, PNG_URL, ROME, SCHEMA
from peers.providers.theirs import Theirs, loaded

USER = {"role": "user", "content": "Hello?"}
TOOLS = [
    {"name": "weather", "description": "The weather at a place.", "input_schema": PLACE},
    {"name": "now", "description": "The time.", "input_schema": {"type": "object"}},
]


def asked(*messages, **more):
    return {"model": "m", "max_tokens": 4096, "messages": list(messages or [USER]), **more}


def part(block):
    return asked({"role": "user", "content": [{"type": "text", "text": "What is it?"}, block]})


def base64(media, data):
    return {"type": "base64", "media_type": media, "data": data}


def tooled(**choice):
    return asked(tools=TOOLS, **({"tool_choice": choice} if choice else {}))


def used(number, place):
    return {"type": "tool_use", "id": f"call_{number}", "name": "weather", "input": loaded(place)}


def result(number, content):
    return {"type": "tool_result", "tool_use_id": f"call_{number}", "content": content}


PDF_BLOCK = {"type": "document", "source": base64("application/pdf", PDF), "title": "a.pdf"}
REPLY_TOOL = {"name": "reply", "description": "Give your reply.", "input_schema": SCHEMA}
BRIEF = {"type": "text", "text": "Be brief."}

ANTHROPIC = Theirs(
    asked={
        "text": asked(),
        "several texts": asked(),
        "system": asked(system="Be brief."),
        "turns": asked(USER, {"role": "assistant", "content": "Hi."}, USER),
        "parameters": asked(  # its arguments have neither, since the version of 2026-10-21
            extra_body={"temperature": 0.5, "top_p": 0.25},
            max_tokens=50,
            stop_sequences=["END", "STOP"],
        ),
        "image": part({"type": "image", "source": base64("image/png", PNG)}),
        "image at an address": part(
            {"type": "image", "source": {"type": "url", "url": PNG_URL}}
        ),
        "document": part(PDF_BLOCK),
        "tools": tooled(),
        "a tool that must be called": tooled(type="any"),
        "no tool may be called": tooled(type="none"),
        "this tool must be called": tooled(type="tool", name="weather"),
        "one tool at a time": tooled(type="auto", disable_parallel_tool_use=True),
        "results of tools": asked(
            USER,
            {"role": "assistant", "content": [
                {"type": "text", "text": "Let me see."}, used(0, ROME), used(1, OSLO),
            ]},
            {"role": "user", "content": [result(0, '{"sky": "blue"}'), result(1, "rain")]},
            tools=TOOLS,
        ),
        "text and calls": tooled(),
        "schema": asked(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}),
        "schema as a tool": asked(
            tools=[REPLY_TOOL], tool_choice={"type": "tool", "name": "reply"}
        ),
        "cache": asked(system=[{**BRIEF, "cache_control": {"type": "ephemeral"}}]),
        "effort": asked(output_config={"effort": "low"}),
        "user": asked(metadata={"user_id": "u1"}),
        "cut off by its limit": asked(),
    },
    cannot={"seed": "anthropic does not support a seed"},
    headers=("authorization", "anthropic-version", "content-type"),
    differ={
        ("*", "authorization"): "we send x-api-key: the API takes both, and gateways only that",
        ("*", "anthropic-version"): "2026-10-21 refuses temperature, which older models take",
    },
    finishes={"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"},
    errors={
        "BadRequestError": (400, "invalid_request_error", "permanent"),
        "AuthenticationError": (401, "authentication_error", "setup"),
        "PaymentRequiredError": (402, "billing_error", "quota"),
        "PermissionDeniedError": (403, "permission_error", "setup"),
        "NotFoundError": (404, "not_found_error", "setup"),
        "RequestTimeoutError": (408, "timeout_error", "transient"),
        "ConflictError": (409, "conflict_error", "transient"),
        "PreconditionFailedError": (412, "invalid_request_error", "permanent"),
        "ContentTooLargeError": (413, "request_too_large", "permanent"),
        "UnprocessableEntityError": (422, "invalid_request_error", "permanent"),
        "RateLimitError": (429, "rate_limit_error", "rate_limit"),
        "RequestHeaderFieldsTooLargeError": (431, "invalid_request_error", "permanent"),
        "ClientClosedRequestError": (499, "api_error", "permanent"),
        "InternalServerError": (500, "api_error", "transient"),
        "HTTPNotImplementedError": (501, "api_error", "permanent"),
        "ServiceUnavailableError": (503, "api_error", "transient"),
        "GatewayTimeoutError": (504, "timeout_error", "transient"),
        "OverloadedError": (529, "overloaded_error", "overloaded"),
    },
)  # fmt: skip
