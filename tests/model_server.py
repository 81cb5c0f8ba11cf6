"""A small server on loopback that speaks the OpenAI API, scripted by the test.

    def answer(request, number):             # the request's JSON; 0, 1, 2 … in order of arrival
        return {"reason": "fits", "label": "correct"}

    with model_server(answer) as server:
        model = openai_api(server.url, model="m", key=None)
        ...
    assert server.requests[0].json["messages"] == [...]

What `answer` returns, or the constant given instead of a function:
    a string        the text of the reply
    a dict          a structured reply: arguments of the tool if one is forced, JSON text otherwise;
                    the answers by question's name, if a decision is asked for
    completion(…)   a chat completion that you make: cut off, refused, with other usage
    failure(…)      an error status with OpenAI's error body and headers: a 429
    raw(…)          any status, headers and bytes
    CUT_OFF         half of a response, then the connection closes
    DISCONNECT      the connection closes without a response
"""

import asyncio
import json
from typing import Any, NamedTuple

from aiohttp import web
from e2e.servers import accepted, on_a_thread

CUT_OFF, DISCONNECT = object(), object()
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Asked(NamedTuple):
    """A request.

    Attributes:
        method: The method.
        path: The path with its query.
        headers: The headers, whose names have no case.
        json: The body; None if there is none.
    """

    method: str
    path: str
    headers: Any
    json: Any


class Raw(NamedTuple):
    body: bytes
    status: int
    headers: dict


def raw(body, status=200, headers=None):
    """Return a response of any kind; a body that is not bytes is sent as JSON."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Raw(body, status, {"Content-Type": "application/json", **(headers or {})})


def failure(status, message="no", headers=None, **error):
    """Return an error as OpenAI words it: `failure(429, headers={"Retry-After": "1"})`."""
    return raw({"error": {"message": message, **error}}, status, headers)


def completion(text="", *, finish="stop", usage=USAGE, model="m", headers=None, **message):
    """Return a chat completion: `completion("{", finish="length")`, `completion(refusal="no")`."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    body["usage"] = usage
    return raw({**body, "choices": [{**choice, "finish_reason": finish}]}, headers=headers)


def calling(name, arguments, **more):
    """Return a chat completion with a tool call; `arguments` is a string or a value."""
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": name, "arguments": arguments}
    call = {"id": "call_1", "type": "function", "function": function}
    return completion(None, finish="tool_calls", tool_calls=[call], **more)


class ModelServer:
    """The server.

    Attributes:
        url: Its base address, to `/v1`.
        requests: Every `Asked`, in order of arrival.
    """

    def __init__(self, answer="ok", *, refuse=(), models=None, key=None, headers=None, embed=None):
        self._answer = answer if callable(answer) else lambda request, number: answer
        self._refuse = refuse
        self._models = models
        self._key = key
        self._headers = headers or {}
        self._embed = embed or (lambda text: [float(len(text)), 1.0])
        self.requests = []

    @property
    def asked(self):
        """The bodies of the requests that `answer` saw."""
        return [request.json for request in self.requests if request.method == "POST"]

    async def _handle(self, request):
        body = await request.read()
        asked = Asked(
            request.method, request.path_qs, request.headers.copy(), json.loads(body or b"null")
        )
        number = len(self.asked)
        self.requests.append(asked)
        refused = self._refusal(asked)
        if refused is not None:
            return _response(refused, self._headers)
        if request.method == "GET":
            listed = [{"id": name, "object": "model"} for name in self._models or ("m",)]
            return _response(raw({"object": "list", "data": listed}), self._headers)
        if request.path.endswith("/embeddings"):
            return _response(self._embeddings(asked.json), self._headers)
        reply = self._answer(asked.json, number)
        if asyncio.iscoroutine(reply):
            reply = await reply
        if reply is DISCONNECT:
            request.transport.close()
            return web.Response()
        if reply is CUT_OFF:
            return await _cut_off(request)
        decides = request.path.endswith(("/decisions", "/systemone"))
        made = _decided(asked.json, reply) if decides else _replied(asked.json, reply)
        whole = made.headers["Content-Type"] == "application/json"
        if asked.json.get("stream") and made.status == 200 and whole:
            return await _streamed(request, made, self._headers)
        return _response(made, self._headers)

    def _refusal(self, asked):
        key = asked.headers.get("api-key") or asked.headers.get("Authorization", "")
        if self._key and key.removeprefix("Bearer ") != self._key:
            return failure(401, f"Incorrect API key provided: {key}", code="invalid_api_key")
        if asked.method == "GET":
            return None
        if self._models is not None and asked.json["model"] not in self._models:
            name = asked.json["model"]
            return failure(404, f"The model '{name}' does not exist", code="model_not_found")
        given = {"schema": "response_format" in asked.json, "tool": "tools" in asked.json}
        for mode in self._refuse:
            if given.get(mode, mode == "text" and not any(given.values())):
                return failure(400, f"{mode} is not supported", code="unsupported_parameter")
        return None

    def _embeddings(self, asked):
        data = [
            {"object": "embedding", "index": index, "embedding": self._embed(text)}
            for index, text in enumerate(asked["input"])
        ]
        usage = {"prompt_tokens": len(data), "total_tokens": len(data)}
        return raw({"object": "list", "data": data, "model": asked["model"], "usage": usage})

    async def __aenter__(self):
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{any:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_):
        await accepted()
        await self._runner.cleanup()


def model_server(answer="ok", **options):
    """Run a server on a thread of its own: `with model_server("yes") as server:`.

    Args:
        answer: The script: a function of the request's JSON and its number, or its only answer.
        options: `refuse`: answers 400 to requests with a "schema", with a "tool", or with neither
            ("text"). `models`: the names of the models there are; another is a 404. `key`: the
            only key it accepts; another is a 401 that repeats it. `headers`: sent with every
            response. `embed`: the vector of a text.
    """
    return on_a_thread(ModelServer(answer, **options))


def _replied(asked, reply):
    if isinstance(reply, Raw):
        return reply
    if isinstance(reply, str):
        return completion(reply, model=asked["model"])
    if "tools" in asked:
        return calling(asked["tools"][0]["function"]["name"], reply, model=asked["model"])
    return completion(json.dumps(reply), model=asked["model"])


def _decided(asked, reply):
    """Answer every question with this choice, or each with its own, at a probability of 0.75."""
    if isinstance(reply, Raw):
        return reply
    by_name = isinstance(asked["questions"], dict)  # /systemone
    questions = (
        asked["questions"].items()
        if by_name
        else ((question["name"], question) for question in asked["questions"])
    )
    answers = {}
    for name, question in questions:
        chosen = reply if isinstance(reply, str) else reply[name]
        options = (
            list(question["criteria"]) if by_name else [c["value"] for c in question["choices"]]
        )
        rest = 0.25 / max(1, len(options) - 1)
        shares = {option: 0.75 if option == chosen else rest for option in options}
        answers[name] = {"type": "choice", "choice": chosen, "confidence": 0.5}
        answers[name]["probabilities"] = (
            shares if by_name else [{"value": v, "probability": p} for v, p in shares.items()]
        )
    usage = {"input_tokens": 10, "output_tokens": 0}
    if not by_name:
        answers = [{**answer, "name": name} for name, answer in answers.items()]
        usage["total_tokens"] = 10
    return raw({"model": asked["model"], "answers": answers, "usage": usage})


def _response(made, headers):
    return web.Response(body=made.body, status=made.status, headers={**headers, **made.headers})


async def _cut_off(request):
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"message": {"content": "half')
    request.transport.close()
    return response


async def _streamed(request, made, headers):
    """Send a completion as events: its text or its arguments in two pieces, then the usage."""
    body = json.loads(made.body)
    choice = body["choices"][0]
    message, pieces = choice["message"], []
    if message.get("tool_calls"):
        call = message["tool_calls"][0]
        whole = call["function"]["arguments"]
        first = {**call, "index": 0, "function": {**call["function"], "arguments": ""}}
        pieces.append({"tool_calls": [first]})
        for part in (whole[: len(whole) // 2], whole[len(whole) // 2 :]):
            pieces.append({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
    else:
        text = message["content"] or ""
        half = len(text) // 2
        pieces += [{"role": "assistant", "content": text[:half]}, {"content": text[half:]}]
    events = [{"choices": [{"index": 0, "delta": piece}]} for piece in pieces]
    finish = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    events += [{"choices": [finish]}, {"choices": [], "usage": body["usage"]}]
    response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        chunk = {"object": "chat.completion.chunk", "model": body["model"], **event}
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response
