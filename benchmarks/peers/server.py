"""A server with OpenAI's chat API on loopback, for every peer the same.

It repeats the word that it is asked for (`w17` in "Repeat the word w17."), and as a judge it always
finds the answer right, in the form that the request asks for: a tool, a schema, or plain text. So
whoever ends with another score than 1 has lost a call or counted a failure as a score.

Each request becomes a line of the log when its reply is sent: when it came and left, whether it was
for an answer or for a judgement, the key of the item, and the status (0: nobody waited any more).

    python benchmarks/peers/server.py LOG 20 0.1    # calls a second (0: any), seconds a call takes
"""

import asyncio
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

from aiohttp import web

PATIENCE_S = 1  # what Retry-After says: whole seconds, as providers send
VERDICT = {
    "pass": True, "score": 1, "value": 1, "label": "correct", "result": "yes",
    "reason": "It is right.", "reasoning": "It is right.", "rationale": "It is right.",
}  # fmt: skip


class Bucket:
    """So many calls a second, and as many at once; the others are refused."""

    def __init__(self, rate: float) -> None:
        self.rate, self.level, self.at = rate, rate, time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self.level = min(self.rate, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1:
            return False
        self.level -= 1
        return True


def fill(schema: dict[str, Any], whole: dict[str, Any], name: str = "") -> Any:
    """Return a value that fits a JSON schema and says that the answer is right."""
    if "$ref" in schema:
        return fill(whole["$defs"][schema["$ref"].split("/")[-1]], whole, name)
    if "anyOf" in schema:
        return fill(schema["anyOf"][0], whole, name)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {field: fill(of, whole, field) for field, of in fields.items()}
    if kind == "array":
        return [fill(schema.get("items", {}), whole, name)]
    if kind in {"number", "integer"}:
        return schema.get("maximum", 1)
    return True if kind == "boolean" else VERDICT.get(name, "It is right.")


def read(content: str | list[dict[str, Any]] | None) -> str:
    """Return the text of a message."""
    parts = [{"text": content}] if isinstance(content, str) else content or []
    return "\n".join(part.get("text", "") for part in parts)


def judge(body: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the message of a judge who finds everything right."""
    if body.get("tools"):
        function = body["tools"][0]["function"]
        arguments = json.dumps(fill(function["parameters"], function["parameters"]))
        called = {"name": function["name"], "arguments": arguments}
        call = {"id": "1", "type": "function", "function": called}
        return {"content": None, "tool_calls": [call]}
    if (form := body.get("response_format", {})).get("type") == "json_schema":
        schema = form["json_schema"]["schema"]
        return {"content": json.dumps(fill(schema, schema))}
    if "GRADE:" in text:
        return {"content": "It is right.\n\nGRADE: C"}
    best = 10 if re.search(r"\b0 (and|to) 10\b", text) else 1
    return {"content": json.dumps({**VERDICT, "score": best})}


async def serve(log: Path, rate: float, latency_s: float) -> None:
    """Serve until killed; print the port."""
    bucket = Bucket(rate) if rate else None
    lines = log.open("a", encoding="utf-8", buffering=1)

    async def answer(request: web.Request) -> web.Response:
        came = time.time()
        try:
            body = await request.json()
        except ConnectionError:  # killed while it was sent: it never came
            return web.Response()
        text = "\n".join(read(message.get("content")) for message in body["messages"])
        found = re.findall(r"\bw(\d+)(x*)", text)
        number, edited = found[-1] if found else ("", "")
        kind, key = ("judge" if body["model"].startswith("judge") else "bot"), f"q{number}"
        refused = bucket is not None and not bucket.take()
        if not refused:
            # The same for each item whoever asks, and from 0.5 to 1.5 of what is asked for.
            await asyncio.sleep(latency_s * (0.5 + random.Random(key).random()))
        word = {"content": f"w{number}{edited}"}
        message = {"role": "assistant", **(judge(body, text) if kind == "judge" else word)}
        stop = "tool_calls" if "tool_calls" in message else "stop"
        reply = {
            "id": "1", "object": "chat.completion", "created": int(came), "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": stop}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }  # fmt: skip
        status, headers = (429, {"Retry-After": str(PATIENCE_S)}) if refused else (200, {})
        error = {"error": {"message": "Rate limit reached", "type": "requests", "code": "429"}}
        response = web.json_response(error if refused else reply, status=status, headers=headers)
        try:
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:  # killed meanwhile: the reply reaches nobody
            status = 0
        line = {"came": came, "left": time.time(), "kind": kind, "key": key, "status": status}
        lines.write(json.dumps(line) + "\n")
        return response

    app = web.Application(client_max_size=2**26)
    app.add_routes([web.post("/v1/chat/completions", answer)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
