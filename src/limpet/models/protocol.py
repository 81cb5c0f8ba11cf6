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
    """What a model replied.

    Attributes:
        text: The text; empty if it replied with a tool call or a decision only.
        parsed: The value that fits the schema, if one was asked for; None otherwise.
        usage: What the call used; None if the server does not tell.
        finish: Why it ended: "stop", "length", "tool_calls", "content_filter" or the server's own
            word; None if the server does not tell.
        model: The model's name, as the server says it.
        headers: The response's headers, with lower-case names.
        probabilities: The probability of each option, from a decision endpoint.
        first_token_s: Seconds until the first token, if the reply was streamed.
        tool_calls: The `name` and the `arguments` of each tool that it calls, with its `id` if it
            has one. Arguments are parsed; text if they are not JSON.
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


@runtime_checkable
class Model(Protocol):
    """A model that workflows and judges ask. `as_model` makes one of what a user gives.

    Attributes:
        name: Its name in messages.
        endpoint: The endpoint its calls are paced with, one for each server and model.
        fingerprint: What its replies depend on, part by part: address, model, parameters. Never a
            key.
        secrets: Values that must not be written anywhere.
    """

    name: str
    endpoint: str
    fingerprint: Mapping[str, str]
    secrets: Iterable[str] = ()

    @property
    def described(self) -> Mapping[str, Any]:
        """What the fingerprint covers, for people."""
        return dict(self.fingerprint)

    async def open(self) -> None:
        """Prepare. Called before the first call, by each step that uses it."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden

    @abstractmethod
    async def ask(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **params: Any
    ) -> Reply:
        """Ask once, paced: waits until a call to the endpoint may start.

        Args:
            messages: The conversation.
            schema: The JSON schema of the reply; `parsed` then fits it.
            params: Parameters of this call, over those of the model: `temperature=0`.

        Raises:
            InvalidReplyError: The reply is cut off, a refusal, or does not fit the schema.
            SetupError: No call can succeed: the key is refused, the model is not there.
            RateLimitError: The provider refused the call: also any other error with its status.
        """
        ...

    async def close(self) -> None:
        """Release everything. Called as often as `open`."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden


def model_name(model: Model) -> str:
    """Return the name by which a model is asked for: prices are by it."""
    return str(getattr(model, "asked_name", model.name))


# ---- How does what the user gave become a model? ------------------------------------------------
