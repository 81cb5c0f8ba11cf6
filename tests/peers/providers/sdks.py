"""Asks the vendors' own SDKs: `python sdks.py openai ADDRESS < calls.json`, in their environment.

Each call is `{"place": …, "stream": …, "asked": {…}}` in the words of the SDK; bytes are
`{"$bytes": base64}`. The server is told the place before each call. Writes what the SDK read from
each answer, in one shape, or its error.
"""

import base64
import functools
import json
import os
import re
import ssl
import sys
import urllib.parse
import urllib.request

KEY = "sk-the-key-of-the-test"


def read(text, calls, finish, usage, reasoning="", model=None):
    return {
        "text": text or "", "calls": calls, "finish": finish, "usage": usage,
        "reasoning": reasoning or "", "model": model,
    }  # fmt: skip


def joined(parts):
    return "".join(part for part in parts if part)


# ---- Anthropic ----------------------------------------------------------------------------------


def anthropic(address):
    from anthropic import Anthropic

    client = Anthropic(api_key=KEY, base_url=address, max_retries=0)
    return functools.partial(_message, client)


def _message(client, asked, stream):
    if stream:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    blocks, usage = message.content, message.usage
    prompt = [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens]
    return read(
        joined(block.text for block in blocks if block.type == "text"),
        [[block.name, block.input] for block in blocks if block.type == "tool_use"],
        message.stop_reason,
        [sum(count or 0 for count in prompt), usage.output_tokens],
        joined(block.thinking for block in blocks if block.type == "thinking"),
        message.model,
    )


# ---- OpenAI -------------------------------------------------------------------------------------


def openai(address):
    from openai import OpenAI

    client = OpenAI(api_key=KEY, base_url=address, max_retries=0)
    return functools.partial(_completion, client.chat.completions.create)


def _completion(create, asked, stream):
    if not stream:
        completion = create(**asked)
        choice, usage = completion.choices[0], completion.usage
        message = choice.message
        calls = [[one.function.name, one.function.arguments] for one in message.tool_calls or ()]
        reasoning = getattr(message, "reasoning_content", "")
        text, finish, model = message.content, choice.finish_reason, completion.model
        if isinstance(text, list):
            text = joined(part["text"] for part in text)
    else:
        text, reasoning, calls, finish, usage, model = [], [], [], None, None, None
        options = {"stream": True, "stream_options": {"include_usage": True}}
        for chunk in create(**asked, **options):
            usage, model = chunk.usage or usage, chunk.model
            for choice in chunk.choices:
                delta, finish = choice.delta, choice.finish_reason or finish
                text.append(delta.content)
                reasoning.append(getattr(delta, "reasoning_content", ""))
                for one in delta.tool_calls or ():
                    if one.function.name:
                        calls.append([one.function.name, ""])
                    calls[one.index][1] += one.function.arguments
        text, reasoning = joined(text), joined(reasoning)
    calls = [[name, json.loads(arguments)] for name, arguments in calls]
    usage = [usage.prompt_tokens, usage.completion_tokens]
    return read(text, calls, finish, usage, reasoning, model)


def responses(address):
    from openai import OpenAI

    client = OpenAI(api_key=KEY, base_url=address, max_retries=0)
    return functools.partial(_response, client.responses.create)


def _response(create, asked, stream):
    response = create(**asked, **({"stream": True} if stream else {}))
    if stream:
        ends = ("response.completed", "response.incomplete", "response.failed")
        (response,) = [event.response for event in response if event.type in ends]
    items = response.output
    why = response.incomplete_details and response.incomplete_details.reason
    summaries = [part.text for item in items if item.type == "reasoning" for part in item.summary]
    return read(
        response.output_text,
        [[one.name, json.loads(one.arguments)] for one in items if one.type == "function_call"],
        why or response.status,
        [response.usage.input_tokens, response.usage.output_tokens],
        joined(summaries),
        response.model,
    )


# ---- Gemini -------------------------------------------------------------------------------------


def gemini(address):
    from google import genai

    client = genai.Client(api_key=KEY, http_options={"base_url": address})
    return functools.partial(_content, client)


def _content(client, asked, stream):
    models = client.models
    if stream:
        answers = list(models.generate_content_stream(**asked))
    else:
        answers = [models.generate_content(**asked)]
    candidates = [answer.candidates[0] for answer in answers]
    parts = [part for one in candidates for part in (one.content and one.content.parts) or ()]
    usage = answers[-1].usage_metadata
    completion = [usage.candidates_token_count, usage.thoughts_token_count]
    called = [part.function_call for part in parts if part.function_call]
    return read(
        joined(part.text for part in parts if not part.thought),
        [[one.name, one.args] for one in called],
        candidates[-1].finish_reason and candidates[-1].finish_reason.value,
        [usage.prompt_token_count, sum(count or 0 for count in completion)],
        joined(part.text for part in parts if part.thought),
        answers[-1].model_version,
    )


# ---- Ollama -------------------------------------------------------------------------------------


def ollama(address):
    from ollama import Client

    client = Client(host=address, headers={"Authorization": f"Bearer {KEY}"})
    return functools.partial(_chat, client)


def _chat(client, asked, stream):
    answers = list(client.chat(**asked, stream=True)) if stream else [client.chat(**asked)]
    messages, last = [answer.message for answer in answers], answers[-1]
    called = [call.function for message in messages for call in message.tool_calls or ()]
    return read(
        joined(message.content for message in messages),
        [[one.name, one.arguments] for one in called],
        last.done_reason,
        [last.prompt_eval_count, last.eval_count],
        joined(message.thinking for message in messages),
        last.model,
    )


# ---- Bedrock ------------------------------------------------------------------------------------


def bedrock(address):
    return functools.partial(_converse, _runtime(address))


def _converse(client, asked, stream):
    if not stream:
        answer = client.converse(**asked)
        blocks, stop = answer["output"]["message"]["content"], answer["stopReason"]
        usage = answer["usage"]
    else:
        by_index, usage = {}, None
        for event in client.converse_stream(**asked)["stream"]:
            usage = event.get("metadata", {}).get("usage", usage)
            stop = event.get("messageStop", {}).get("stopReason", None) or locals().get("stop")
            started = event.get("contentBlockStart")
            if started:
                use = {**started["start"]["toolUse"], "input": ""}
                by_index[started["contentBlockIndex"]] = {"toolUse": use}
            _add(by_index, event.get("contentBlockDelta"))
        blocks = list(by_index.values())
        for block in blocks:
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
    used = [usage.get(name, 0) for name in ("inputTokens", "cacheReadInputTokens",
                                            "cacheWriteInputTokens")]  # fmt: skip
    thoughts = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
    return read(
        joined(block.get("text") for block in blocks),
        [[one["toolUse"]["name"], one["toolUse"]["input"]] for one in blocks if "toolUse" in one],
        stop,
        [sum(used), usage["outputTokens"]],
        joined(thought.get("reasoningText", {}).get("text") for thought in thoughts),
    )


def _add(blocks, delta):
    if delta is None:
        return
    block, piece = blocks.setdefault(delta["contentBlockIndex"], {}), delta["delta"]
    if "text" in piece:
        block["text"] = block.get("text", "") + piece["text"]
    if "toolUse" in piece:
        block["toolUse"]["input"] += piece["toolUse"]["input"]
    if "reasoningContent" in piece:
        thought = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})
        thought["reasoningText"]["text"] += piece["reasoningContent"].get("text", "")


def _runtime(address):
    import boto3
    from botocore.config import Config

    os.environ |= {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_EC2_METADATA_DISABLED": "true"}
    return boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=address,
        config=Config(retries={"total_max_attempts": 1}),
        verify=False,
    )


# ---- the errors that an SDK has -----------------------------------------------------------------


def statuses(module):
    """Return the class and the status of each error of an SDK that Stainless made."""
    import importlib

    found, waiting = {}, [importlib.import_module(module).APIStatusError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        annotation = str(vars(kind).get("__annotations__", {}).get("status_code"))
        for status in re.findall(r"Literal\[(\d+)\]", annotation):
            found[kind.__name__] = int(status)
    return found


def shapes():
    """Return the exceptions of Bedrock's Converse, with their statuses."""
    model = _runtime("http://127.0.0.1:9").meta.service_model.operation_model("Converse")
    return {one.name: one.metadata["error"]["httpStatusCode"] for one in model.error_shapes}


ERRORS = {
    "anthropic": lambda: statuses("anthropic"),
    "openai": lambda: statuses("openai"),
    "responses": lambda: statuses("openai"),
    "bedrock": shapes,
}


# ---- the calls ----------------------------------------------------------------------------------


def plain(value):
    """Return a value with its bytes."""
    if isinstance(value, dict):
        if value.keys() == {"$bytes"}:
            return base64.b64decode(value["$bytes"])
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def answered(ask, address, call):
    place = urllib.parse.quote(call["place"])
    is_tls = address.startswith("https:")
    context = ssl._create_unverified_context() if is_tls else None  # noqa: S323 - of this machine
    urllib.request.urlopen(f"{address}/next/{place}", context=context).close()  # noqa: S310
    try:
        return ask(plain(call["asked"]), call["stream"])
    except Exception as error:
        response = getattr(error, "response", None)
        code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
        words = {"class": code or type(error).__name__, "status": getattr(error, "status", None)}
        return {"error": {**words, "message": str(error)}}


if __name__ == "__main__":
    name, address = sys.argv[1:]
    ask = globals()[name](address)
    results = [answered(ask, address, call) for call in json.load(sys.stdin)]
    json.dump({"replies": results, "errors": ERRORS.get(name, dict)()}, sys.stdout)
