"""The questions of `asked.py`, as `client.models.generate_content` takes them."""

from peers.providers.asked import OSLO, PDF, PLACE, PNG, PNG_URL, ROME, SCHEMA
from peers.providers.theirs import Theirs, loaded

TOOLS = [
    {
        "function_declarations": [
            {
                "name": "weather",
                "description": "The weather at a place.",
                "parameters_json_schema": PLACE,
            },
            {"name": "now", "description": "The time."},
        ]
    }
]
REPLY = {
    "name": "reply", "description": "Give your reply.", "parameters_json_schema": SCHEMA,
}  # fmt: skip


def turn(role, *parts):
    return {"role": role, "parts": list(parts)}


def text(said):
    return {"text": said}


USER = turn("user", text("Hello?"))


def asked(*turns, **config):
    return {"model": "m", "contents": list(turns or [USER]), "config": config}


def part(part):
    return asked(turn("user", text("What is it?"), part))


def inline(media, data):
    return {"inline_data": {"mime_type": media, "data": {"$bytes": data}}}


def tooled(**calling):
    config = {"tool_config": {"function_calling_config": calling}} if calling else {}
    return asked(tools=TOOLS, **config)


def extra(**fields):
    return {"http_options": {"extra_body": fields}}


def called(number, place):
    call = {"name": "weather", "args": loaded(place), "id": f"call_{number}"}
    return {"function_call": call}


def result(number, response):
    return {"function_response": {"name": "weather", "response": response, "id": f"call_{number}"}}


GEMINI = Theirs(
    asked={
        "text": asked(),
        "several texts": asked(),
        "system": asked(system_instruction="Be brief."),
        "turns": asked(USER, turn("model", text("Hi.")), USER),
        "parameters": asked(
            temperature=0.5, top_p=0.25, max_output_tokens=50, stop_sequences=["END", "STOP"]
        ),
        "image": part(inline("image/png", PNG)),
        "image at an address": part(
            {"file_data": {"file_uri": PNG_URL, "mime_type": "image/png"}}
        ),
        "document": part(inline("application/pdf", PDF)),
        "tools": tooled(),
        "a tool that must be called": tooled(mode="ANY"),
        "no tool may be called": tooled(mode="NONE"),
        "this tool must be called": tooled(mode="ANY", allowed_function_names=["weather"]),
        "one tool at a time": asked(tools=TOOLS, **extra(parallel_tool_calls=False)),
        "results of tools": asked(
            USER,
            turn("model", text("Let me see."), called(0, ROME), called(1, OSLO)),
            turn("user", result(0, {"sky": "blue"}), result(1, {"output": "rain"})),
            tools=TOOLS,
        ),
        "text and calls": tooled(),
        "schema": asked(response_mime_type="application/json", response_json_schema=SCHEMA),
        "schema as a tool": asked(
            tools=[{"function_declarations": [REPLY]}],
            tool_config={
                "function_calling_config": {"mode": "ANY", "allowed_function_names": ["reply"]}
            },
        ),
        "effort": asked(thinking_config={"thinking_level": "LOW"}),
        "user": asked(**extra(user="u1")),
        "seed": asked(seed=7),
        "cut off by its limit": asked(),
    },
    cannot={"cache": "gemini does not support caching on request"},
    headers=("x-goog-api-key", "content-type"),
    finishes={"STOP": "stop", "MAX_TOKENS": "length"},
    differ={("*", "path"): "it asks v1 since 3.0; v1beta has every model and field of that"},
    errors={
        "INVALID_ARGUMENT": (400, "INVALID_ARGUMENT", "permanent"),
        "FAILED_PRECONDITION": (400, "FAILED_PRECONDITION", "permanent"),
        "OUT_OF_RANGE": (400, "OUT_OF_RANGE", "permanent"),
        "UNAUTHENTICATED": (401, "UNAUTHENTICATED", "setup"),
        "PERMISSION_DENIED": (403, "PERMISSION_DENIED", "setup"),
        "NOT_FOUND": (404, "NOT_FOUND", "setup"),
        "ABORTED": (409, "ABORTED", "transient"),
        "ALREADY_EXISTS": (409, "ALREADY_EXISTS", "transient"),
        "RESOURCE_EXHAUSTED": (429, "RESOURCE_EXHAUSTED", "rate_limit"),
        "CANCELLED": (499, "CANCELLED", "permanent"),
        "INTERNAL": (500, "INTERNAL", "transient"),
        "UNKNOWN": (500, "UNKNOWN", "transient"),
        "DATA_LOSS": (500, "DATA_LOSS", "transient"),
        "UNIMPLEMENTED": (501, "UNIMPLEMENTED", "permanent"),
        "UNAVAILABLE": (503, "UNAVAILABLE", "transient"),
        "DEADLINE_EXCEEDED": (504, "DEADLINE_EXCEEDED", "transient"),
    },
)  # fmt: skip
