"""How does each provider word a reply, the events of a stream, and a refusal?

    @pytest.mark.parametrize("wire", WIRES, ids=str)
    def test_…(wire):
        with model_server(raw(wire.body("hello"))) as server:
            model = provider_api(wire.name, server.url.removesuffix("/v1"), model="m", key=None)

The words are those that the vendors' SDKs read: `tests/peers/test_provider_sdks.py` asks them.
"""

import binascii
import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from model_server import raw

IN, OUT = 10, 5
"""The tokens of a prompt and of a reply, in every body."""


class Wire(NamedTuple):
    """What one provider sends.

    Attributes:
        name: The provider.
        body: Makes a response from the texts, tool calls `(name, arguments)`, thoughts and the
            reason why it ended, as Chat Completions has it.
        events: Makes the events of the stream with such a response.
        refusal: Makes the body of an error from its status, message and the provider's own word.
        usage: Where a response has its usage; empty: at the top.
        content: Places in a response without which there is no reply.
        sse: How an event is written.
        type: The content type of a stream.
        streams: Whether it streams.
    """

    name: str
    body: Callable[..., dict[str, Any]]
    events: Callable[[dict[str, Any]], list[dict[str, Any]]]
    refusal: Callable[[int, str, str], dict[str, Any]]
    usage: str
    content: tuple[tuple[str | int, ...], ...]
    written: Callable[[dict[str, Any]], bytes]
    type: str = "text/event-stream"
    last: bytes = b""

    def __str__(self):
        return self.name

    def with_usage(self, body, usage):
        """Return a response with another usage."""
        if self.usage:
            return {**body, self.usage: usage}
        counts = usage if isinstance(usage, dict) else {"prompt_eval_count": usage}
        return {**body, "prompt_eval_count": None, "eval_count": None, **counts}

    def stream(self, events, *, ended=True):
        """Return the bytes of a stream."""
        return b"".join(map(self.written, events)) + (self.last if ended else b"")

    def streamed(self, body):
        """Return the stream with a response."""
        return raw(self.stream(self.events(body)), headers={"Content-Type": self.type})

    def failure(self, status, message="no", headers=None, word=""):
        """Return an error as the provider words it."""
        named = {"x-amzn-ErrorType": word} if word and self.name == "bedrock" else {}
        return raw(self.refusal(status, message, word), status, {**named, **(headers or {})})


def halves(text):
    return [part for part in (text[: len(text) // 2], text[len(text) // 2 :]) if part]


def _data(event):
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _named(event):
    kind = event.get("type") if isinstance(event, dict) else None
    return b"event: " + json.dumps(kind).strip('"').encode() + b"\n" + _data(event)


def _texts(text):
    return [] if text is None else [text] if isinstance(text, str) else list(text)


# ---- Chat Completions ---------------------------------------------------------------------------


def _chat(text=None, *, calls=(), thought="", finish="stop"):
    tools = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    content = text
    if isinstance(text, list):
        content = [{"type": "text", "text": part} for part in text]
    message = {"role": "assistant", "content": content, "refusal": None}
    message |= {"tool_calls": tools} if tools else {}
    message |= {"reasoning_content": thought} if thought else {}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": IN, "completion_tokens": OUT, "total_tokens": IN + OUT}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


def _chat_events(body):
    choice = body["choices"][0]
    message = choice["message"]
    deltas = [{"reasoning_content": part} for part in halves(message.get("reasoning_content", ""))]
    content = message["content"] or ""
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    deltas += [{"content": part} for part in halves(text)]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": index, "function": function}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
            for part in halves(call["function"]["arguments"])
        ]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    pieces = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    pieces.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
    events = [{**head, "choices": [piece]} for piece in pieces]
    return [*events, {**head, "choices": [], "usage": body["usage"]}]


def _chat_refusal(status, message, word):
    return {"error": {"message": message, "type": word or "error", "param": None, "code": word}}


# ---- Responses ----------------------------------------------------------------------------------

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def _response(text=None, *, calls=(), thought="", finish="stop"):
    output = []
    if thought:
        summary = [{"type": "summary_text", "text": thought}]
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary})
    if text is not None:
        content = [
            {"type": "output_text", "text": part, "annotations": []} for part in _texts(text)
        ]
        message = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
        output.append({**message, "content": content})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    why = _INCOMPLETE.get(finish)
    details = {"cached_tokens": 0}, {"reasoning_tokens": 0}
    usage = {"input_tokens": IN, "output_tokens": OUT, "total_tokens": IN + OUT}
    usage |= {"input_tokens_details": details[0], "output_tokens_details": details[1]}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": output,
        "status": "incomplete" if why else "completed", "error": None, "usage": usage,
        "incomplete_details": {"reason": why} if why else None, "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [],
    }  # fmt: skip


def _response_events(body):
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    events = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(body["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {"content": [], "arguments": "", "summary": []}
        opened = {**item, **{name: empty[name] for name in empty if name in item}}
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        for number, part in enumerate(item.get("content", ())):
            place = {**at, "content_index": number}
            added = {**part, "text": ""}
            events.append({"type": "response.content_part.added", **place, "part": added})
            for half in halves(part["text"]):
                delta = {**place, "delta": half, "logprobs": []}
                events.append({"type": "response.output_text.delta", **delta})
            done = {**place, "text": part["text"], "logprobs": []}
            events.append({"type": "response.output_text.done", **done})
            events.append({"type": "response.content_part.done", **place, "part": part})
        for number, part in enumerate(item.get("summary", ())):
            place = {**at, "summary_index": number}
            for half in halves(part["text"]):
                delta = {**place, "delta": half}
                events.append({"type": "response.reasoning_summary_text.delta", **delta})
        for half in halves(item.get("arguments", "")):
            delta = {**at, "delta": half}
            events.append({"type": "response.function_call_arguments.delta", **delta})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{body['status']}", "response": body})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


# ---- Anthropic ----------------------------------------------------------------------------------

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use",
          "content_filter": "refusal"}  # fmt: skip


def _message(text=None, *, calls=(), thought="", finish="stop"):
    content = [{"type": "thinking", "thinking": thought, "signature": "s"}] if thought else []
    content += [{"type": "text", "text": part} for part in _texts(text)]
    content += [
        {"type": "tool_use", "id": f"call_{number}", "name": name, "input": arguments}
        for number, (name, arguments) in enumerate(calls)
    ]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    usage = {"input_tokens": IN, "output_tokens": OUT, "cache_read_input_tokens": 0}
    stop = {"stop_reason": _STOPS.get(finish, finish), "stop_sequence": None}
    return {**head, "content": content, **stop, "usage": usage}


def _message_events(body):
    begun = {**body, "content": [], "stop_reason": None}
    begun["usage"] = {**body["usage"], "output_tokens": 1}
    events = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(body["content"]):
        name = {"thinking": "thinking", "text": "text", "tool_use": "input"}[block["type"]]
        opened = {**block, name: {} if name == "input" else ""}
        if "signature" in block:
            opened["signature"] = ""
        at = {"index": index}
        events.append({"type": "content_block_start", **at, "content_block": opened})
        text = json.dumps(block["input"]) if name == "input" else block[name]
        field = "partial_json" if name == "input" else name
        kind = "input_json_delta" if name == "input" else f"{name}_delta"
        deltas = [{"type": kind, field: part} for part in halves(text)]
        if "signature" in block:
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        events += [{"type": "content_block_delta", **at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", **at})
    stop = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": body["usage"]["output_tokens"]}
    return [*events, {"type": "message_delta", "delta": stop, "usage": usage},
            {"type": "message_stop"}]  # fmt: skip


def _message_refusal(status, message, word):
    return {"type": "error", "error": {"type": word or "api_error", "message": message}}


# ---- Gemini -------------------------------------------------------------------------------------

_GEMINI_STOPS = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP",
                 "content_filter": "SAFETY"}  # fmt: skip


def _candidates(text=None, *, calls=(), thought="", finish="stop"):
    parts = [{"text": thought, "thought": True}] if thought else []
    parts += [{"text": part} for part in _texts(text)]
    parts += [{"functionCall": {"name": name, "args": arguments}} for name, arguments in calls]
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    candidate["finishReason"] = _GEMINI_STOPS.get(finish, finish)
    usage = {"promptTokenCount": IN, "candidatesTokenCount": OUT, "totalTokenCount": IN + OUT}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m",
            "responseId": "r1"}  # fmt: skip


def _candidate_events(body):
    parts = []
    for part in body["candidates"][0]["content"]["parts"]:
        pieces = halves(part["text"]) if "text" in part else [None]
        parts += [part if piece is None else {**part, "text": piece} for piece in pieces]
    made = [{"content": {"role": "model", "parts": [part]}, "index": 0} for part in parts]
    made = made or [{"content": {"role": "model", "parts": []}, "index": 0}]
    made[-1]["finishReason"] = body["candidates"][0]["finishReason"]
    return [{**body, "candidates": [one]} for one in made]


def _gemini_refusal(status, message, word):
    return {"error": {"code": status, "message": message, "status": word or "UNKNOWN"}}


# ---- Ollama -------------------------------------------------------------------------------------


def _ollama(text=None, *, calls=(), thought="", finish="stop"):
    tools = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    message = {"role": "assistant", "content": "".join(_texts(text))}
    message |= {"thinking": thought} if thought else {}
    message |= {"tool_calls": tools} if tools else {}
    head = {"model": "m", "created_at": "2026-11-15T00:00:00Z", "message": message}
    done = {"done": True, "done_reason": "stop" if finish == "tool_calls" else finish}
    return {**head, **done, "prompt_eval_count": IN, "eval_count": OUT, "total_duration": 1}


def _ollama_events(body):
    head = {name: body[name] for name in ("model", "created_at")}
    message, made = body["message"], []
    for name in ("thinking", "content"):
        pieces = halves(message.get(name, ""))
        made += [{"role": "assistant", "content": "", name: piece} for piece in pieces]
    made += [
        {"role": "assistant", "content": "", "tool_calls": [call]}
        for call in message.get("tool_calls", ())
    ]
    last = {**body, "message": {"role": "assistant", "content": ""}}
    return [*({**head, "message": one, "done": False} for one in made), last]


def _ollama_refusal(status, message, word):
    return {"error": message}


# ---- Bedrock ------------------------------------------------------------------------------------

_BEDROCK_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use",
                  "content_filter": "guardrail_intervened"}  # fmt: skip


def _converse(text=None, *, calls=(), thought="", finish="stop"):
    thoughts = {"reasoningText": {"text": thought, "signature": "s"}}
    content = [{"reasoningContent": thoughts}] if thought else []
    content += [{"text": part} for part in _texts(text)]
    content += [
        {"toolUse": {"toolUseId": f"call_{number}", "name": name, "input": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    usage = {"inputTokens": IN, "outputTokens": OUT, "totalTokens": IN + OUT}
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _BEDROCK_STOPS.get(finish, finish),
        "usage": usage,
        "metrics": {"latencyMs": 1},
    }


def _converse_events(body):
    events = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(body["output"]["message"]["content"]):
        at = {"contentBlockIndex": index}
        if "toolUse" in block:
            use = block["toolUse"]
            start = {"toolUse": {name: use[name] for name in ("toolUseId", "name")}}
            events.append({"contentBlockStart": {**at, "start": start}})
            deltas = [{"toolUse": {"input": part}} for part in halves(json.dumps(use["input"]))]
        elif "text" in block:
            deltas = [{"text": part} for part in halves(block["text"])]
        else:
            thought = block["reasoningContent"]["reasoningText"]["text"]
            deltas = [{"reasoningContent": {"text": part}} for part in halves(thought)]
        events += [{"contentBlockDelta": {**at, "delta": delta}} for delta in deltas]
        events.append({"contentBlockStop": at})
    events.append({"messageStop": {"stopReason": body["stopReason"]}})
    return [*events, {"metadata": {"usage": body["usage"], "metrics": body["metrics"]}}]


def _framed(event):
    """Write an event in AWS's binary framing: lengths, headers, payload and two checksums."""
    ((name, payload),) = event.items()
    headers = b""
    for key, value in (
        (b":event-type", name.encode()),
        (b":content-type", b"application/json"),
        (b":message-type", b"event"),
    ):
        headers += bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(value)) + value
    data = json.dumps(payload).encode()
    head = struct.pack(">II", 16 + len(headers) + len(data), len(headers))
    frame = head + struct.pack(">I", binascii.crc32(head)) + headers + data
    return frame + struct.pack(">I", binascii.crc32(frame))


def _bedrock_refusal(status, message, word):
    return {"message": message}


# ---- the table ----------------------------------------------------------------------------------

WIRES = (
    Wire(
        "openai", _chat, _chat_events, _chat_refusal, "usage",
        (("choices",), ("choices", 0), ("choices", 0, "message")), _data, last=b"data: [DONE]\n\n",
    ),
    Wire(
        "responses", _response, _response_events, _chat_refusal, "usage",
        (("output",), ("output", 0), ("output", 0, "content")), _named,
    ),
    Wire(
        "anthropic", _message, _message_events, _message_refusal, "usage",
        (("content",), ("content", 0)), _named,
    ),
    Wire(
        "gemini", _candidates, _candidate_events, _gemini_refusal, "usageMetadata",
        (("candidates",), ("candidates", 0), ("candidates", 0, "content"),
         ("candidates", 0, "content", "parts")), _data,
    ),
    Wire(
        "ollama", _ollama, _ollama_events, _ollama_refusal, "", (("message",),),
        lambda event: json.dumps(event).encode() + b"\n", "application/x-ndjson",
    ),
    Wire(
        "bedrock", _converse, _converse_events, _bedrock_refusal, "usage",
        (("output",), ("output", "message"), ("output", "message", "content")), _framed,
        "application/vnd.amazon.eventstream",
    ),
)  # fmt: skip
WIRE = {wire.name: wire for wire in WIRES}
