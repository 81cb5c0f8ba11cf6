"""The questions of `asked.py`, as Ollama's `client.chat` takes them."""

from peers.providers.asked import OSLO, PNG, ROME, SCHEMA, TOOLS
from peers.providers.theirs import Theirs, loaded

USER = {"role": "user", "content": "Hello?"}


def asked(*messages, **more):
    return {"model": "m", "messages": list(messages or [USER]), **more}


def called(place):
    return {"function": {"name": "weather", "arguments": loaded(place)}}


def result(content):
    return {"role": "tool", "content": content, "tool_name": "weather"}


OLLAMA = Theirs(
    asked={
        "text": asked(),
        "several texts": asked(),
        "system": asked({"role": "system", "content": "Be brief."}, USER),
        "turns": asked(USER, {"role": "assistant", "content": "Hi."}, USER),
        "parameters": asked(
            options={"temperature": 0.5, "top_p": 0.25, "num_predict": 50, "stop": ["END", "STOP"]}
        ),
        "image": asked({"role": "user", "content": "What is it?", "images": [PNG]}),
        "tools": asked(tools=TOOLS),
        "no tool may be called": asked(),
        "results of tools": asked(
            USER,
            {"role": "assistant", "content": "Let me see.",
             "tool_calls": [called(ROME), called(OSLO)]},
            result('{"sky": "blue"}'),
            result("rain"),
            tools=TOOLS,
        ),
        "text and calls": asked(tools=TOOLS),
        "schema": asked(format=SCHEMA),
        "effort": asked(think="low"),
        "user": asked(),
        "one tool at a time": asked(tools=TOOLS),
        "seed": asked(options={"seed": 7}),
        "cut off by its limit": asked(),
    },
    cannot={
        "cache": "ollama does not support caching on request",
        "document": "ollama does not support files",
        "image at an address": "no image by its address",
        "a tool that must be called": "cannot be made to call a tool",
        "this tool must be called": "cannot be made to call a tool",
        "schema as a tool": "cannot be made to call a tool",
    },
    headers=("authorization", "content-type"),
    finishes={},
    differ={
        ("user", "options.user"): "an unknown parameter is an option",
        ("one tool at a time", "options.parallel_tool_calls"): "an unknown parameter is an option",
    },
    errors={
        "ResponseError": (400, "", "permanent"),
    },
)  # fmt: skip
