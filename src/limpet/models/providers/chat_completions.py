"""Chat Completions: the API of OpenAI, and of most servers."""

from typing import Any

from limpet.models.provider import Joiner, Provider, Request, badness

_STREAMED = {"stream_options": {"include_usage": True}}
_MOST_CALLS = _MOST_CHOICES = 128
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class ChatCompletions(Provider):
    """OpenAI, Azure, and every server that speaks as they do."""

    name = "openai"
    key = "${OPENAI_API_KEY}"
    prefixes = ("sk-", "sk-proj-")
    can = Provider.can - {"caching"}  # it caches by itself

    def path(self, model: str, *, stream: bool) -> str:  # noqa: ARG002
        return "/chat/completions"

    def body(self, request: Request, *, stream: bool) -> dict[str, Any]:
        return {**_STREAMED, **request, "stream": True} if stream else dict(request)

    def completion(self, body: Any) -> Any:
        return body

    def joiner(self) -> Joiner:
        return _Pieces()


class _Pieces(Joiner):
    """Joins the deltas of a streamed completion, each of its choices for itself."""

    ends_with_done = True

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}
        self._choices = {0: _Choice()}

    def add(self, event: Any) -> bool:
        if not isinstance(event, dict):
            return False
        self.body |= {name: event[name] for name in ("model", "usage") if event.get(name)}
        choices = event.get("choices")
        pieces = choices if isinstance(choices, list) else ()
        added = [self._add(piece) for piece in pieces if isinstance(piece, dict)]
        return any(added)

    def _add(self, piece: dict[str, Any]) -> bool:
        index = piece.get("index", 0)
        if type(index) is not int or not 0 <= index < _MOST_CHOICES:
            return False
        is_part = self._choices.setdefault(index, _Choice()).add(piece)
        self.is_done = all(choice.finish for choice in self._choices.values())
        return is_part

    def joined(self) -> dict[str, Any]:
        choices = [choice.joined() for _, choice in sorted(self._choices.items())]
        return {**self.body, "choices": choices}


class _Choice:
    """Joins the deltas of one choice."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self._texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: dict[str, list[Any]] = {}

    def add(self, piece: dict[str, Any]) -> bool:
        """Add a piece; return whether it has a part of the reply."""
        if badness(finish := piece.get("finish_reason")) > badness(self.finish):
            self.finish = finish
        logprobs = piece.get("logprobs")
        for name, tokens in logprobs.items() if isinstance(logprobs, dict) else ():
            if isinstance(tokens, list):
                self._logprobs.setdefault(name, []).extend(tokens)
        delta = piece.get("delta")
        return isinstance(delta, dict) and self._add_delta(delta)

    def _add_delta(self, delta: dict[str, Any]) -> bool:
        calls = delta.get("tool_calls")
        calls = calls if isinstance(calls, list) else []
        for name, texts in self._texts.items():
            if isinstance(delta.get(name), str):
                texts.append(delta[name])
        for call in calls:
            if isinstance(call, dict):
                self._add_call(call)
        return bool(calls) or any(delta.get(name) for name in _TEXTS)

    def _add_call(self, piece: dict[str, Any]) -> None:
        index, function = piece.get("index", 0), piece.get("function")
        if not isinstance(index, int) or not 0 <= index < _MOST_CALLS:
            return
        call = self._calls.setdefault(index, {"id": None, "name": "", "arguments": []})
        call["id"] = piece.get("id") or call["id"]
        for name in ("name", "arguments"):
            value = function.get(name) if isinstance(function, dict) else None
            if isinstance(value, str):
                call[name] = value if name == "name" and value else call[name]
                if name == "arguments":
                    call[name].append(value)

    def joined(self) -> dict[str, Any]:
        """Return the complete choice."""
        calls = [
            {
                "id": call["id"],
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for _, call in sorted(self._calls.items())
        ]
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        if calls and not texts["content"]:
            del texts["content"]
        message = {"content": None, **texts, "tool_calls": calls}
        more = {"logprobs": self._logprobs} if self._logprobs else {}
        return {"message": message, "finish_reason": self.finish, **more}
