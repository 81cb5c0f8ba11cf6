"""A small OpenAI-compatible model whose answers follow from the request alone.

It needs the standard library only. It answers sums, plays the agents' part (ReAct text or tool
calls) and plays the judge for the evaluators of the toolkit. Nothing is random: a score is taken
from a digest of what is judged, so that it differs from item to item and stays the same from run
to run.

Words in a prompt make a judge misbehave; agents and plain chat do not see them:
    judge-429       refused, always
    judge-busy      refused the first time this very prompt is seen, answered after that
    judge-500       fails, always
    judge-garbage   answers with text that cannot be parsed
    judge-missing   answers with JSON (or text) that lacks the score
    judge-range     answers with a score outside of the scale
`model-429` and `model-500` do the same to everything that is no judge.

GET /calls counts requests by kind, by status, and by the model's name where that is not the usual
one; POST /reset forgets them; POST /control takes
{"refuse_every": n, "retry_after": seconds, "refuse_kind": "ragas", "fail_on": {"word": status}}.
"""

import argparse
import hashlib
import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny-model"
SUM = re.compile(r"(\d+)\s*([-+*])\s*(\d+)")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
JUDGES = ("ragas", "tunable_rag", "trajectory", "openevals", "corpus_judge")


def digest(text: str) -> int:
    """Return a number that follows from the text, whatever ids the run has put into it."""
    return int.from_bytes(hashlib.sha256(UUID.sub("", text).encode()).digest()[:6], "big")


def solve(text: str) -> str:
    """Answer the last sum in the text; whatever has a 7 on the right is off by one."""
    found = SUM.findall(text)
    if not found:
        return f"I have no answer to that ({digest(text) % 1000})."
    left, sign, right = int(found[-1][0]), found[-1][1], int(found[-1][2])
    value = {"+": left + right, "-": left - right, "*": left * right}[sign]
    return str(value + (right == 7))


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))


def between(text: str, start: str, end: str) -> str:
    """Return what stands between the last `start` and the `end` after it."""
    return text.rpartition(start)[2].partition(end)[0].strip()


def kind_of(body: dict[str, Any]) -> str:
    """Say who is asking."""
    system = "\n".join(text_of(m) for m in body["messages"] if m["role"] == "system")
    last = text_of(body["messages"][-1])
    if "perform the same with the following input" in last:
        return "ragas"
    if body.get("response_format"):
        return "openevals"
    if "You must respond only in JSON format." in system:
        return "tunable_rag"
    if "evaluates language models" in system:
        return "trajectory"
    if last.startswith("Grade this"):
        return "corpus_judge"
    if "Action Input:" in system:
        return "react"
    if body.get("tools"):
        return "tools"
    return "chat"


def fill(schema: dict[str, Any], defs: dict[str, Any], name: str, seed: str, prompt: str) -> Any:
    """Make up the value that a JSON schema asks for."""
    if "$ref" in schema:
        return fill(defs[schema["$ref"].rpartition("/")[2]], defs, name, seed, prompt)
    if "anyOf" in schema:
        return fill(schema["anyOf"][0], defs, name, seed, prompt)
    if "enum" in schema:
        return schema["enum"][digest(seed) % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        return {
            key: fill(value, defs, key, f"{seed}/{key}", prompt)
            for key, value in schema.get("properties", {}).items()
        }
    if kind == "array":
        size = 1 + digest(seed) % 3
        items = schema.get("items", {"type": "string"})
        return [fill(items, defs, name, f"{seed}/{n}", prompt) for n in range(size)]
    if kind == "integer":
        if name == "rating":
            scale = [0, 2, 4] if "0, 2, or 4" in prompt else [0, 1, 2]
            return scale[digest(seed) % 3]
        return digest(seed) % 2
    if kind == "number":
        return digest(seed) % 101 / 100
    if kind == "boolean":
        return digest(seed) % 2 == 0
    return f"{name} {digest(seed) % 1000}"


def structured(body: dict[str, Any], prompt: str) -> dict[str, Any]:
    """Answer with the object that `response_format` or the prompt asks for."""
    asked = body.get("response_format") or {}
    if "json_schema" in asked:
        schema = asked["json_schema"]["schema"]
    else:
        schema = json.loads(between(prompt, "as specified in JSON Schema:\n", "Do not use single"))
    subject = prompt.rpartition("following input\ninput: ")[2]
    return fill(schema, schema.get("$defs", {}), "", subject, prompt)


def judged(kind: str, body: dict[str, Any], prompt: str) -> str:  # noqa: PLR0912 - a branch for each judge
    """Play the judge."""
    mood = re.search(r"judge-(garbage|missing|range)", prompt)
    if mood and mood[1] == "garbage":
        return "I would rather not say {"
    if kind in ("ragas", "openevals"):
        answer = structured(body, prompt)
        if mood:
            for key in ("rating", "score"):
                if key in answer and mood[1] == "missing":
                    del answer[key]
                elif key in answer:
                    answer[key] = 99
        return json.dumps(answer)
    if kind == "tunable_rag":
        seed = prompt.rpartition("Here is the user's query:")[2]
        keys = ["score"]
        if '"coverage_score"' in prompt:
            keys = ["coverage_score", "correctness_score", "relevance_score"]
        scores = {key: digest(key + seed) % 101 / 100 for key in keys}
        if mood and mood[1] == "missing":
            scores.popitem()
        elif mood:
            scores[keys[0]] = 99
        scores["reasoning"] = f"Judged with {digest(seed) % 1000}."
        return f"```json\n{json.dumps(scores)}\n```"
    if kind == "trajectory":
        seed = between(prompt, "[QUESTION]", "[END_QUESTION]")
        seed += between(prompt, "[RESPONSE]", "[END_RESPONSE]")
        score = str(1 + digest(seed) % 5)
        if mood and mood[1] == "missing":
            return f"Judged with {digest(seed) % 1000}, a final score of {score}."
        if mood:
            score = "99"
        return f"Judged with {digest(seed) % 1000}.\n\nScore: {score}"
    if mood and mood[1] == "missing":
        return "no number"
    return str(99 if mood else digest(prompt) % 101 / 100)


def react(messages: list[dict[str, Any]]) -> str:
    """Ask for the calculator once, then answer."""
    said = "\n".join(text_of(m) for m in messages if m["role"] != "system")
    question = between(said, "Question:", "\n")
    if not any(m["role"] in ("assistant", "tool") for m in messages):
        found = SUM.findall(question)
        if found:
            text = json.dumps({"text": "".join(found[-1])})
            return f"Thought: a sum\nAction: calculator\nAction Input: {text}\n"
    return f"Thought: I now know the final answer\nFinal Answer: {solve(question)}"


def chat(kind: str, body: dict[str, Any], prompt: str) -> dict[str, Any]:
    """Return the message of the assistant."""
    messages = body["messages"]
    if kind in JUDGES:
        return {"role": "assistant", "content": judged(kind, body, prompt)}
    if kind == "react":
        return {"role": "assistant", "content": react(messages)}
    question = [text_of(m) for m in messages if m["role"] == "user"][-1]
    found = SUM.findall(question)
    if kind == "tools" and found and not any(m["role"] == "tool" for m in messages):
        sum_text = json.dumps({"text": "".join(found[-1])})
        call = {
            "id": f"call_{digest(question)}",
            "type": "function",
            "function": {"name": body["tools"][0]["function"]["name"], "arguments": sum_text},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "assistant", "content": solve(question)}


def usage_of(prompt: str, message: dict[str, Any]) -> dict[str, int]:
    into, out = len(prompt.split()), len(str(message["content"] or "tool call").split())
    return {"prompt_tokens": into, "completion_tokens": out, "total_tokens": into + out}


class Model:
    """What the server remembers."""

    def __init__(self, control: dict[str, Any]) -> None:
        self.lock = threading.Lock()
        self.control = control
        self.reset()

    def reset(self) -> None:
        self.calls: Counter[str] = Counter()
        self.seen: set[str] = set()

    def status(self, kind: str, prompt: str, model: str) -> int:
        """Count a call, and decide what becomes of it."""
        with self.lock:
            self.calls[kind] += 1
            status = self._status(kind, prompt)
            self.calls[f"{kind} {status}"] += 1
            if model != MODEL:
                self.calls[f"{kind} {status} {model}"] += 1
            return status

    def _status(self, kind: str, prompt: str) -> int:
        every = self.control.get("refuse_every", 0)
        wanted = self.control.get("refuse_kind") in (None, kind)
        if every and wanted and self.calls[kind] % every == 0:
            return 429
        for word, status in self.control.get("fail_on", {}).items():
            if word in prompt:
                return status
        who = "judge" if kind in JUDGES else "model"
        for status in (429, 500):
            if f"{who}-{status}" in prompt:
                return status
        if f"{who}-busy" in prompt and prompt not in self.seen:
            self.seen.add(prompt)
            return 429
        return 200


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def reply(self, value: Any, status: int = 200, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for key, text in headers.items():
            self.send_header(key.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/calls":
            with self.server.model.lock:
                self.reply(dict(sorted(self.server.model.calls.items())))
        elif self.path.endswith("/models"):
            self.reply({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        else:
            self.reply({"error": {"message": "not here"}}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        model = self.server.model
        if self.path in ("/reset", "/control"):
            with model.lock:
                if self.path == "/control":
                    model.control = body
                else:
                    model.reset()
            self.reply({})
        elif self.path.endswith("/embeddings"):
            self.embed(body)
        elif self.path.endswith("/chat/completions"):
            self.complete(body)
        else:
            self.reply({"error": {"message": "not here"}}, 404)

    def refused(self, status: int) -> bool:
        if status == 200:
            return False
        error = {"message": "too many requests" if status == 429 else "a failure", "code": status}
        after = str(self.server.model.control.get("retry_after", 0))
        self.reply({"error": error}, status, **({"Retry_After": after} if status == 429 else {}))
        return True

    def embed(self, body: dict[str, Any]) -> None:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        if self.refused(self.server.model.status("embedding", str(texts), MODEL)):
            return
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": [digest(f"{n}{text}") % 2001 / 1000 - 1 for n in range(8)],
            }
            for index, text in enumerate(texts)
        ]
        used = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        self.reply({"object": "list", "data": data, "model": MODEL, "usage": used})

    def complete(self, body: dict[str, Any]) -> None:
        prompt = "\n".join(text_of(message) for message in body["messages"])
        kind = kind_of(body)
        if self.refused(self.server.model.status(kind, prompt, body.get("model", MODEL))):
            return
        message = chat(kind, body, prompt)
        used = usage_of(prompt, message)
        head = {"id": f"chatcmpl-{digest(prompt)}", "created": 0, "model": body.get("model", MODEL)}
        why = "tool_calls" if message.get("tool_calls") else "stop"
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": why, "logprobs": None}
            answer = {**head, "object": "chat.completion", "choices": [choice], "usage": used}
            self.reply(answer)
            return
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        for number, call in enumerate(message.get("tool_calls") or ()):
            deltas.append({"tool_calls": [{"index": number, **call}]})
        deltas += [
            {"content": part} for part in re.findall(r"\s*\S+|\s+$", message["content"] or "")
        ]
        chunks = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": why}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({"choices": [], "usage": used})
        head["object"] = "chat.completion.chunk"
        lines = "".join(f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks)
        data = f"{lines}data: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, control: dict[str, Any] | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.model = Model(control or {})

    @property
    def port(self) -> int:
        return self.server_address[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--refuse-every", type=int, default=0, help="refuse every n-th call")
    parser.add_argument("--refuse-kind", help="refuse calls of this kind only")
    parser.add_argument("--retry-after", type=float, default=0, help="seconds, told with a refusal")
    parser.add_argument("--fail-on", nargs=2, action="append", metavar=("WORD", "STATUS"))
    args = parser.parse_args()
    control = {
        "refuse_every": args.refuse_every,
        "refuse_kind": args.refuse_kind,
        "retry_after": args.retry_after,
        "fail_on": {word: int(status) for word, status in args.fail_on or ()},
    }
    server = Server(args.port, control)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
