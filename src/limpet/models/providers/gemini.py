"""Google's Gemini."""

import mimetypes
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from limpet.models.failures import KEY_REFUSED
from limpet.models.provider import Joiner, Provider, Request, badness
from limpet.models.providers.messages import (
    Source,
    ToolCall,
    at,
    completion_of,
    forced_tool,
    functions_of,
    in_turns,
    mappings,
    merged,
    parts_of,
    renamed,
    schema_of,
    split,
    text_in,
    text_of,
    tool_calls_of,
)  # fmt: skip
from limpet.transport.parsing import parse_json

_CONFIG = {
    "temperature": "temperature", "top_p": "topP", "top_k": "topK", "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens", "stop": "stopSequences", "seed": "seed",
    "n": "candidateCount", "logprobs": "responseLogprobs", "top_logprobs": "logprobs",
    "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty",
}  # fmt: skip
_OTHERS = "cache messages model reasoning_effort response_format tool_choice tools"
_TRANSLATED = {*_CONFIG, *_OTHERS.split()}
_FUNCTION = {"name": "name", "description": "description", "parameters": "parametersJsonSchema"}
_CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
# Models before the third take a number of tokens; these are those of Google's own translation.
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
_FILTERS = """BLOCKLIST ESCALATION IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION IMAGE_SAFETY LANGUAGE
MODEL_ARMOR PROHIBITED_CONTENT PUP_LIMITED_DISABLED RECITATION SAFETY SPII"""
_FINISHES = {
    "": None, "FINISH_REASON_UNSPECIFIED": None, "STOP": "stop", "MAX_TOKENS": "length",
    "CONTINUATION": "length", **dict.fromkeys(_FILTERS.split(), "content_filter"),
    "FUNCTION_CALL": "stop",  # other servers with this API
}  # fmt: skip
"""Any other reason is a failure of the model, which may succeed when repeated."""
_CHOSEN, _TOP = ("logprobsResult", "chosenCandidates"), ("logprobsResult", "topCandidates")
_JOINED = (("content", "parts"), _CHOSEN, _TOP)
"""The lists of a candidate that come in pieces."""
_HARMLESS = ("", "NEGLIGIBLE", "LOW")


class Gemini(Provider):
    """Gemini: `POST /v1beta/models/NAME:generateContent`."""

    name = "gemini"
    address = "https://generativelanguage.googleapis.com"
    versions = ("/v1beta", "/v1beta/openai", "/v1")
    key = "${GEMINI_API_KEY}"
    prefixes = ("AIza",)
    can = Provider.can - {"caching", "embeddings"}  # it caches by itself
    models_path = "/v1beta/models?pageSize=1000"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def path(self, model: str, *, stream: bool) -> str:
        name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/{quote(name).replace('../', '..%2F')}:{method}"

    def names(self, body: Any) -> list[str]:
        names = [text_in(one, "name") for one in mappings(body, "models")]
        return [name.removeprefix("models/") for name in names if name]

    def body(self, request: Request, *, stream: bool) -> dict[str, Any]:  # noqa: ARG002
        ours, others = split(request)
        body = {name: value for name, value in request.items() if name not in _TRANSLATED}
        body["contents"] = _turns(others)
        if ours:
            text = "\n\n".join(text_of(one, self.name) for one in ours)
            body["systemInstruction"] = {"role": "user", "parts": [{"text": text}]}
        if tools := _tools(request):
            body["tools"] = tools
        if choice := _choice(request):
            body["toolConfig"] = merged({"functionCallingConfig": choice}, body.get("toolConfig"))
        if config := merged(_config(request), body.get("generationConfig")):
            body["generationConfig"] = config
        return body

    def completion(self, body: Any) -> Any:
        candidates, blocked = mappings(body, "candidates"), _blocked(body)
        if not candidates and not blocked:
            return body
        more = {"usage": _usage(body.get("usageMetadata")), "model": body.get("modelVersion")}
        more |= {"error": body.get("error"), "why": blocked}
        whole = completion_of(None, finish="content_filter", **more)
        return whole if blocked else {**whole, "choices": [*map(_choice_in, candidates)]}

    def joiner(self) -> Joiner:
        return _Candidates()

    def refusal(self, body: Any, headers: Mapping[str, str]) -> Any:  # noqa: ARG002
        body = body[0] if isinstance(body, list) and len(body) == 1 else body  # of a stream
        reasons = {text_in(detail, "reason") for detail in mappings(body, "error", "details")}
        if "API_KEY_INVALID" in reasons:  # its status is 400
            return {**body, "error": {**body["error"], "code": KEY_REFUSED}}
        return body


# ---- a request ----------------------------------------------------------------------------------


def _turns(messages: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = {call.id: call.name for message in messages for call in tool_calls_of(message)}
    roles = ("model" if one.get("role") == "assistant" else "user" for one in messages)
    return in_turns(zip(roles, (_parts(one, names) for one in messages), strict=True), "parts")


def _parts(message: Mapping[str, Any], names: Mapping[str, str]) -> list[Mapping[str, Any]]:
    if message.get("role") == "tool":
        return [_result(message, names)]
    said = (_part(part) for part in parts_of(message) if part != "")
    return [*said, *map(_call, tool_calls_of(message))]


def _call(call: ToolCall) -> Mapping[str, Any]:
    part = {"functionCall": {"name": call.name, "args": call.arguments or {}}}
    if call.id:
        part["functionCall"]["id"] = call.id
    signature = text_in(call.extra, "google", "thought_signature")
    return {**part, "thoughtSignature": signature} if signature else part


def _part(part: str | Source | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if not isinstance(part, Source):
        return part
    if not part.is_address:
        return {"inlineData": {"mimeType": part.type, "data": part.data}}
    kind, _ = mimetypes.guess_type(part.data.partition("?")[0])
    return {"fileData": {"fileUri": part.data, **({"mimeType": kind} if kind else {})}}


def _result(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of a tool, which has to be an object."""
    id_, parts = str(message.get("tool_call_id") or ""), [*parts_of(message)]
    text = "".join(part for part in parts if isinstance(part, str))
    value: Any = None
    with suppress(ValueError):
        value = parse_json(text.encode())
    result = {
        "id": id_,
        "name": names.get(id_) or message.get("name"),
        "response": value if value and isinstance(value, dict) else {"output": text},
        "parts": [_part(part) for part in parts if not isinstance(part, str)],
    }
    return {"functionResponse": {name: value for name, value in result.items() if value}}


def _tools(request: Request) -> list[Any]:
    functions, others = functions_of(request)
    ours = [
        {own: one[name] for name, own in _FUNCTION.items() if one.get(name)} for one in functions
    ]
    return [*([{"functionDeclarations": ours}] if ours else []), *others]


def _choice(request: Request) -> Any:
    choice, name = request.get("tool_choice"), forced_tool(request)
    if name is not None:
        return {"mode": "ANY", "allowedFunctionNames": [name]}
    return {"mode": _CHOICES.get(choice, choice)} if isinstance(choice, str) else choice


def _config(request: Request) -> dict[str, Any]:
    config = renamed(request, _CONFIG)
    if (effort := request.get("reasoning_effort")) is not None:
        with_budget = str(request["model"]).removeprefix("models/").startswith("gemini-2.")
        level = {"thinkingLevel": str(effort).upper()}
        budget = {"thinkingBudget": _BUDGETS.get(str(effort), effort)}
        config["thinkingConfig"] = budget if with_budget else level
    if request.get("response_format") not in (None, {"type": "text"}):
        config["responseMimeType"] = "application/json"
    if (schema := schema_of(request)) is not None:
        config["responseJsonSchema"] = schema
    return config


# ---- a response ---------------------------------------------------------------------------------


def _blocked(body: Any) -> str:
    """Return why the prompt was blocked; empty: it was not."""
    feedback = at(body, "promptFeedback")
    reason, said = text_in(feedback, "blockReason"), text_in(feedback, "blockReasonMessage")
    is_blocked = reason not in ("", "BLOCKED_REASON_UNSPECIFIED")
    return f"of the prompt: {_explained(reason, feedback, said)}" if is_blocked else ""


def _explained(reason: str, holder: Mapping[str, Any], said: str) -> str:
    """Return a reason with the categories of harm and the message that come with it."""
    rated = [
        f"{text_in(one, 'category')}: {text_in(one, 'probability')}"
        for one in mappings(holder, "safetyRatings")
        if one.get("blocked") is True or text_in(one, "probability") not in _HARMLESS
    ]
    reason += f" ({', '.join(rated)})" if rated else ""
    return f"{reason}: {said}" if said else reason


def _finish_of(candidate: Mapping[str, Any]) -> str | None:
    return _FINISHES.get(text_in(candidate, "finishReason"), "error")


def _choice_in(candidate: Mapping[str, Any]) -> Mapping[str, Any]:
    parts = mappings(candidate, "content", "parts")
    # An empty text is none: one ends each stream, or carries the signature of a thought.
    texts = [text_in(part, "text") for part in parts if not part.get("thought")]
    calls = [
        {"id": call.get("id"), "name": call["name"], "arguments": call.get("args") or {}}
        for part in parts
        if isinstance(call := part.get("functionCall"), Mapping) and text_in(call, "name")
    ]
    reason, finish = text_in(candidate, "finishReason"), _finish_of(candidate)
    choice: dict[str, Any] = completion_of(
        "".join(texts) or None,
        finish="tool_calls" if calls and finish == "stop" else finish,
        calls=calls,
        reasoning="".join(text_in(part, "text") for part in parts if part.get("thought")),
        why=_explained(reason, candidate, text_in(candidate, "finishMessage")),
    )["choices"][0]
    choice["index"] = candidate.get("index") or 0
    if logprobs := _logprobs(candidate):
        choice["logprobs"] = {"content": logprobs}
    return choice


def _logprobs(candidate: Mapping[str, Any]) -> list[dict[str, Any]]:
    def one(token: Mapping[str, Any]) -> dict[str, Any]:
        return {"token": token.get("token"), "logprob": token.get("logProbability")}

    chosen = mappings(candidate, *_CHOSEN)
    tops = [mappings(top, "candidates") for top in mappings(candidate, *_TOP)]
    tops += [[] for _ in chosen]
    pairs = zip(chosen, tops, strict=False)
    return [{**one(token), "top_logprobs": [*map(one, top)]} for token, top in pairs]


def _usage(reported: Any) -> Any:
    """Return the counts. A model that only thought reports no candidates, but is paid for."""
    if not isinstance(reported, Mapping):
        return None
    known = {name: count for name, count in reported.items() if count is not None}
    return {"candidatesTokenCount": 0, **known}


class _Candidates(Joiner):
    """Joins the events of a stream: each has pieces of candidates, and the counts so far."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}
        self._candidates: dict[str, list[Mapping[str, Any]]] = {}  # by index
        self._ended: set[str] = set()

    def add(self, event: Any) -> bool:
        for name in ("modelVersion", "promptFeedback"):
            if found := at(event, name):
                self.body[name] = found
        if isinstance(usage := at(event, "usageMetadata"), Mapping):
            self.body["usageMetadata"] = _usage({**self.body.get("usageMetadata", {}), **usage})
        pieces = mappings(event, "candidates")
        for piece in pieces:
            index = str(piece.get("index") or 0)
            self._candidates.setdefault(index, []).append(piece)
            if _finish_of(piece):
                self._ended.add(index)
        all_ended = "0" in self._ended and len(self._ended) == len(self._candidates)
        self.is_done = all_ended or bool(_blocked(self.body))
        parts = [part for piece in pieces for part in mappings(piece, "content", "parts")]
        return any(part.get("text") or part.get("functionCall") for part in parts)

    def joined(self) -> dict[str, Any]:
        return {**self.body, "candidates": [*map(_joined, self._candidates.values())]}


def _joined(pieces: list[Mapping[str, Any]]) -> dict[str, Any]:
    end = max(pieces, key=lambda piece: badness(_finish_of(piece)))
    found = (pair for piece in (*pieces, end) for pair in piece.items())
    whole: dict[str, Any] = {name: value for name, value in found if value is not None}
    whole |= {holder: {} for holder, _ in _JOINED}
    for holder, name in _JOINED:
        whole[holder][name] = [one for piece in pieces for one in mappings(piece, holder, name)]
    return whole
