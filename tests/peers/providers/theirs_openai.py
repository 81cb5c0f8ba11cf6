"""The questions of `asked.py`, as `client.chat.completions.create` takes them.

It takes ours as they are: what is compared here is that nothing is added and nothing is lost.
"""

from peers.providers.asked import ASKED, SCHEMA
from peers.providers.theirs import Theirs

FORMAT = {"name": "reply", "schema": SCHEMA, "strict": True}
REPLY_TOOL = {"name": "reply", "parameters": SCHEMA, "strict": True}
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
    cannot={"cache": "openai has no caching"},
    headers=("authorization", "content-type"),
    finishes={},
    errors=STATUSES,
)
