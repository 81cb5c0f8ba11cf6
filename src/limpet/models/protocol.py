"""What is a model?"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from limpet.shapes import Usage

Message = Mapping[str, Any]
"""One message of a conversation: `{"role": "user", "content": "…"}`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply.

    Attributes:
        text: The text; empty if it replied with a tool call or a decision only.
        parsed: The value that fits the schema, if one was requested; None otherwise.
        usage: The call's usage; None if the server does not report it.
        finish: Why it ended: "stop", "length", "tool_calls", "content_filter" or the server's own
            word; None if the server does not report it.
        model: The model's name, as the server reports it.
        headers: The response's headers, with lower-case names.
        probabilities: The probability of each option, from a decision endpoint.
        first_token_s: Seconds until the first token, if the reply was streamed.
        tool_calls: The `name` and `arguments` of each tool call, with its `id` if it has one.
            Arguments are parsed; text if they are not JSON.
        reasoning: What the model thought, if the server reports it beside the text.
        alternatives: The texts of the other replies, if several were requested: `n=3`. One that
            is cut off, filtered or does not fit the schema is left out.
        logprobs: The log probabilities, if requested, as Chat Completions has them.
    """

    text: str
    parsed: Any = None
    usage: Usage | None = None
    finish: str | None = None
    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    probabilities: Mapping[str, float] | None = None
    first_token_s: float | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    reasoning: str | None = None
    alternatives: Sequence[str] = ()
    logprobs: Mapping[str, Any] | None = None


@runtime_checkable
class Model(Protocol):
    """A model for workflows and judges. `as_model` creates one from a user's object.

    Attributes:
        name: Its name in messages.
        endpoint: The endpoint that paces its calls, one for each server and model.
        fingerprint: What its replies depend on, part by part: address, model, parameters. Never a
            key.
        secrets: Values that must not be written anywhere.
        reserves: Whether each request reserves what it may use: see `limpet.usage.reserving`.
        caches: Whether the provider caches the text that a message marks with `cache_control`.
    """

    name: str
    endpoint: str
    fingerprint: Mapping[str, str]
    secrets: Iterable[str] = ()
    reserves: bool = False
    caches: bool = False

    @property
    def described(self) -> Mapping[str, Any]:
        """The content of the fingerprint, for people."""
        return dict(self.fingerprint)

    async def open(self) -> None:
        """Prepare for calls. Called by each step that uses it."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden

    @abstractmethod
    async def ask(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **params: Any
    ) -> Reply:
        """Make one call, once the pacer permits it.

        Args:
            messages: The conversation.
            schema: The JSON schema of the reply; `parsed` then fits it.
            params: Parameters of this call; they override the model's: `temperature=0`.

        Raises:
            InvalidReplyError: The reply is truncated, a refusal, or does not fit the schema.
            SetupError: No call can succeed: the key is refused, the model does not exist.
            RateLimitError: The provider refused the call; any error with its status means the same.
        """
        ...

    async def close(self) -> None:
        """Release everything. Called once for each `open`."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden


def model_name(model: Model) -> str:
    """Return the name of a model in requests; prices are listed by it."""
    return str(getattr(model, "requested_name", model.name))


# ---- How does a user's object become a model? ---------------------------------------------------
