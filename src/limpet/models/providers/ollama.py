"""Ollama's own API."""

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.errors import PermanentError
from limpet.models.failures import BadRequestError
from limpet.models.provider import Joiner, Provider, Request
from limpet.models.providers.messages import (
    SYSTEM,
    Source,
    completion_of,
    mappings,
    merged,
    parts_of,
    renamed,
    schema_of,
    text_in,
    tool_calls_of,
)

_OWN = ("model", "format", "keep_alive", "think", "logprobs", "top_logprobs", "truncate", "shift")
"""Parameters beside `options`. All others are options: `temperature`, `seed`, `num_ctx` …"""
_TRANSLATED = {
    "max_completion_tokens", "max_tokens", "messages", "options", "reasoning_effort",
    "response_format", "stop", "tool_choice", "tools",
}  # fmt: skip

_RENAMED = {"max_tokens": "num_predict", "max_completion_tokens": "num_predict", "stop": "stop"}


class Ollama(Provider):
    """Ollama: `POST /api/chat`."""

    name = "ollama"
    address = "http://localhost:11434"
    versions = ("/v1", "/api")
    can = frozenset({"schema", "tools", "images", "logprobs", "seed", "stream", "embeddings"})
    embeddings_path = "/v1/embeddings"
    models_path = "/api/tags"

    def path(self, model: str, *, stream: bool) -> str:  # noqa: ARG002
        return "/api/chat"

    def names(self, body: Any) -> list[str]:
        names = [one.get("model") or one.get("name") for one in mappings(body, "models")]
        return [name for name in names if isinstance(name, str)]

    def body(self, request: Request, *, stream: bool) -> dict[str, Any]:
        body = {name: request[name] for name in _OWN if name in request}
        body["messages"] = [*_messages(request["messages"])]
        body["stream"] = stream  # it streams unless told not to
        if (form := _format(request)) is not None:
            body["format"] = form
        if (effort := request.get("reasoning_effort")) is not None:
            body.setdefault("think", False if effort == "none" else effort)
        if tools := _tools(request):
            body["tools"] = tools
        if options := _options(request):
            body["options"] = options
        return body

    def completion(self, body: Any) -> Any:
        message = body.get("message") if isinstance(body, Mapping) else None
        if not isinstance(message, Mapping):
            return body
        if body.get("done") is False:
            return {**body, "error": {"message": "the reply is not done"}}
        finish = body.get("done_reason")
        finish = finish if isinstance(finish, str) and finish else "stop"
        calls = [{**call._asdict(), "id": call.id or None} for call in tool_calls_of(message)]
        content, logprobs = message.get("content"), body.get("logprobs")
        # An empty text is an answer, unless the model thought until it was cut off, or did not run.
        is_text = isinstance(content, str) and bool(content or (finish == "stop" and not calls))
        counts = {name: body.get(name) for name in ("prompt_eval_count", "eval_count")}
        return completion_of(
            content if is_text else None,
            finish="tool_calls" if calls and finish == "stop" else finish,
            calls=calls,
            reasoning=text_in(message, "thinking"),
            logprobs=logprobs if isinstance(logprobs, list) else (),
            model=body.get("model"),
            **counts,
        )

    def joiner(self) -> Joiner:
        return _Pieces()


# ---- a request ----------------------------------------------------------------------------------


def _messages(messages: Any) -> Iterator[dict[str, Any]]:
    """Yield messages. One without a text has no `content`, as with Ollama's own client."""
    tools: dict[str, str] = {}  # their names, by the id of the call
    for message in (one for one in messages if isinstance(one, Mapping)):
        role, calls = message.get("role"), [*tool_calls_of(message)]
        tools |= {call.id: call.name for call in calls}
        texts, images = _texts_and_images(message)
        made: dict[str, Any] = {"role": "system" if role in SYSTEM else role}
        if texts:
            made["content"] = "\n\n".join(texts)
        if images:
            made["images"] = images
        if thoughts := text_in(message, "reasoning_content"):
            made["thinking"] = thoughts
        if calls:
            made["tool_calls"] = [
                {"function": {"name": call.name, "arguments": call.arguments or {}}}
                for call in calls
            ]
        name = message.get("name") or tools.get(str(message.get("tool_call_id")))
        if role == "tool" and name:
            made["tool_name"] = name
        yield made


def _texts_and_images(message: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    texts, images = [], []
    for part in parts_of(message):
        if isinstance(part, str):
            texts += [part] if part else []
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])  # with a mark for a cache
        elif not isinstance(part, Source) or part.kind != "image":
            kind = part.kind if isinstance(part, Source) else part.get("type")
            raise PermanentError(f"ollama: a message has a part of the type {kind!r}")
        elif part.is_address:
            raise PermanentError(
                "ollama takes no image by its address",
                hint="give the image itself, as data:image/png;base64,…, or as a file",
            )
        else:
            images.append(part.data)
    return texts, images


def _tools(request: Request) -> list[Any]:
    choice = request.get("tool_choice")
    if choice not in (None, "auto", "none"):
        # It would ignore this. It is a refusal, so that `auto` tries another form of reply.
        raise BadRequestError(
            "tool_choice: ollama cannot be made to call a tool",
            hint='for a reply that fits a schema, use reply="schema"',
        )
    return [] if choice == "none" else [*(request.get("tools") or ())]


def _format(request: Request) -> Any:
    wanted = request.get("response_format")
    is_json = isinstance(wanted, Mapping) and wanted.get("type") == "json_object"
    return "json" if is_json else schema_of(request)


def _options(request: Request) -> Any:
    known = {*_OWN, *_TRANSLATED}
    options = {name: value for name, value in request.items() if name not in known}
    return merged(options | renamed(request, _RENAMED), request.get("options"))


# ---- a response ---------------------------------------------------------------------------------


class _Pieces(Joiner):
    """Joins the pieces of a streamed message; the last one has the counts."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {"content": [], "thinking": []}
        self._lists: dict[str, list[Any]] = {"tool_calls": [], "logprobs": []}

    def add(self, event: Any) -> bool:
        if not isinstance(event, Mapping) or self.is_done:
            return False
        self.body, self.is_done = dict(event), event.get("done") is True
        message = event.get("message")
        message = message if isinstance(message, Mapping) else {}
        for name, texts in self._texts.items():
            if isinstance(message.get(name), str):
                texts.append(message[name])
        for name, values in self._lists.items():
            found = (message if name == "tool_calls" else event).get(name)
            values.extend(found if isinstance(found, list) else [])
        return any(message.get(name) for name in (*self._texts, "tool_calls"))

    def joined(self) -> dict[str, Any]:
        message = {name: "".join(texts) for name, texts in self._texts.items()}
        calls, logprobs = self._lists.values()
        whole = {"message": {**message, "tool_calls": calls}, "logprobs": logprobs}
        return {**self.body, **whole}
