"""The questions of `asked.py`, as boto3's `client.converse` takes them."""

import json

from peers.providers.asked import OSLO, PDF, PLACE, PNG, ROME, SCHEMA
from peers.providers.theirs import Theirs, loaded

USER = {"role": "user", "content": [{"text": "Hello?"}]}


def asked(*messages, **more):
    return {"modelId": "m", "messages": list(messages or [USER]), **more}


def part(block):
    return asked({"role": "user", "content": [{"text": "What is it?"}, block]})


def tool(name, description, schema):
    spec = {"name": name, "description": description, "inputSchema": {"json": schema}}
    return {"toolSpec": spec}


TOOLS = [
    tool("weather", "The weather at a place.", PLACE),
    tool("now", "The time.", {"type": "object"}),
]


def tooled(choice=None, *messages, **more):
    chosen = {} if choice is None else {"toolChoice": choice}
    return asked(*messages, toolConfig={"tools": TOOLS, **chosen}, **more)


def called(number, place):
    use = {"toolUseId": f"call_{number}", "name": "weather", "input": loaded(place)}
    return {"toolUse": use}


def result(number, said):
    return {"toolResult": {"toolUseId": f"call_{number}", "content": [{"text": said}]}}


FORMAT = {
    "type": "json_schema",
    "structure": {"jsonSchema": {"schema": json.dumps(SCHEMA), "name": "reply"}},
}
PDF_BLOCK = {"format": "pdf", "name": "a", "source": {"bytes": {"$bytes": PDF}}}

BEDROCK = Theirs(
    asked={
        "text": asked(),
        "several texts": asked(),
        "system": asked(system=[{"text": "Be brief."}]),
        "turns": asked(USER, {"role": "assistant", "content": [{"text": "Hi."}]}, USER),
        "parameters": asked(
            inferenceConfig={
                "temperature": 0.5, "topP": 0.25, "maxTokens": 50, "stopSequences": ["END", "STOP"]
            }
        ),
        "image": part({"image": {"format": "png", "source": {"bytes": {"$bytes": PNG}}}}),
        "document": part({"document": PDF_BLOCK}),
        "tools": tooled(),
        "a tool that must be called": tooled({"any": {}}),
        "no tool may be called": asked(),
        "this tool must be called": tooled({"tool": {"name": "weather"}}),
        "one tool at a time": tooled(
            additionalModelRequestFields={"parallel_tool_calls": False}
        ),
        "results of tools": tooled(
            None,
            USER,
            {"role": "assistant", "content": [
                {"text": "Let me see."}, called(0, ROME), called(1, OSLO),
            ]},
            {"role": "user", "content": [result(0, '{"sky": "blue"}'), result(1, "rain")]},
        ),
        "text and calls": tooled(),
        "schema": asked(outputConfig={"textFormat": FORMAT}),
        "schema as a tool": asked(
            toolConfig={
                "tools": [tool("reply", "Give your reply.", SCHEMA)],
                "toolChoice": {"tool": {"name": "reply"}},
            }
        ),
        "cache": asked(system=[{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]),
        "effort": asked(outputConfig={"effort": "low"}),
        "user": asked(additionalModelRequestFields={"user": "u1"}),
        "cut off by its limit": asked(),
    },
    cannot={
        "image at an address": "cannot be given by its address",
        "seed": "bedrock does not support a seed",
    },
    headers=("authorization", "content-type"),
    finishes={"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"},
    errors={
        "AccessDeniedException": (403, "AccessDeniedException", "setup"),
        "InternalServerException": (500, "InternalServerException", "transient"),
        "ModelErrorException": (424, "ModelErrorException", "permanent"),
        "ModelNotReadyException": (429, "ModelNotReadyException", "rate_limit"),
        "ModelTimeoutException": (408, "ModelTimeoutException", "transient"),
        "ResourceNotFoundException": (404, "ResourceNotFoundException", "setup"),
        "ServiceUnavailableException": (503, "ServiceUnavailableException", "transient"),
        "ThrottlingException": (429, "ThrottlingException", "rate_limit"),
        "ValidationException": (400, "ValidationException", "permanent"),
    },
)  # fmt: skip
