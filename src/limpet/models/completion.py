"""Which text or value is in a chat completion, or why is it unusable?

The response is untrusted: each field may be missing or have another type.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from limpet.errors import InvalidReplyError, LimpetError, TransientError
from limpet.models.failures import BAD_REQUEST
from limpet.models.protocol import Reply
from limpet.models.schema import TOOL, Schema, misfit, parse_reply
from limpet.pacing import observe
from limpet.shapes import Usage
from limpet.transport.failures import said_error, status_error
from limpet.transport.parsing import parse_json
from limpet.usage import add_receipt, plain_usage, usage_of_body

Show = Callable[[object], str]
_ERROR_STATUSES = range(400, 600)
_STATUSES = {
    "rate_limit": 429, "insufficient_quota": 429, "overloaded": 529, "billing": 402,
    "authentication": 401, "invalid_api_key": 401, "permission": 403,
}  # fmt: skip
"""The status of a refusal for a reason that begins so, where an error has only the reason."""
_FAULTS = re.compile(r"invalid|image|policy|residency")
"""In a reason: this request fails each time."""


class MisfitError(InvalidReplyError):
    """The reply does not fit the requested schema.

    Attributes:
        form: How it was requested.
    """

    form: str = ""


class Reading:
    """Reads the replies of one model.

    Args:
        where: The model's name and address, for messages.
        show: Formats the server's text.
        model: The model's name in requests.
        most: The parameter that limits the tokens of a reply.
    """

    def __init__(self, where: str, show: Show, model: str, most: str = "max_tokens") -> None:
        self._where = where
        self._show = show
        self._model = model
        self._more_tokens = f"allow more tokens, with params={{'{most}': …}}"

    def reply(
        self,
        body: Any,
        headers: Mapping[str, str],
        schema: Schema | None = None,
        first_token_s: float | None = None,
    ) -> Reply:
        """Return the reply in the JSON of a response.

        Raises:
            InvalidReplyError: It cannot be used.
            LimpetError: It reports an error.
        """
        usage = self.usage(body)
        choice = self._choice(body, headers, usage)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise self.invalid("the reply has no message", "", usage)
        text, finish = _text_of(message.get("content")), choice.get("finish_reason")
        finish = finish if isinstance(finish, str) else None
        calls = _calls_of(message)
        if refusal := message.get("refusal"):
            raise self.invalid(f"the model refuses: {self._show(refusal)}", str(refusal), usage)
        if finish == "content_filter":
            raise self.invalid(
                f"a content filter stopped the reply{self._why(choice)}", text or "", usage
            )
        parsed = None
        if schema is not None:
            # Some servers send the arguments as a value.
            called = [_as_text(call["arguments"]) for call in calls if call["name"] == TOOL]
            calls = [call for call in calls if call["name"] != TOOL]
            if len(set(called)) > 1:
                raise self.invalid(f"{len(called)} replies at once", "\n".join(called), usage)
            given = called[0] if called else text
            parsed = self.parsed(given or "", schema, usage, finish)
        elif text is None and not calls:
            hint = self._more_tokens if finish == "length" else None
            raise self.invalid(f"the reply has no text (finish_reason: {finish})", "", usage, hint)
        model = body.get("model")
        return Reply(
            text or "",
            parsed,
            usage,
            finish,
            model if isinstance(model, str) else None,
            headers,
            first_token_s=first_token_s,
            tool_calls=[{**call, "arguments": _parsed(call["arguments"])} for call in calls],
        )

    def usage(self, body: Any) -> Usage | None:
        """Return a response's usage, and record it: even an unusable reply is paid for."""
        usage = usage_of_body(body, self._model)
        record_usage(usage)
        return usage

    def _choice(
        self, body: Any, headers: Mapping[str, str], usage: Usage | None
    ) -> Mapping[str, Any]:
        choices = body.get("choices") if isinstance(body, Mapping) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        # Gateways put their provider's error into the response, or into the choice.
        for holder in (body, choice):
            if (error := self.error_in(holder, headers)) is not None:
                raise error
        if isinstance(choice, Mapping):
            if choice.get("finish_reason") == "error":
                raise TransientError(
                    f"{self._where}: the reply ended with an error{self._why(choice)}"
                )
            return choice
        raise self.invalid(f"the response has no choices: {self._show(body)}", "", usage)

    def _why(self, choice: Mapping[str, Any]) -> str:
        """Return the provider's own reason, which a provider's translation may add."""
        why = choice.get("finish_message")
        return f": {self._show(why)}" if isinstance(why, str) and why else ""

    def error_in(self, body: Any, headers: Mapping[str, str]) -> LimpetError | None:
        """Return the error in a response with status 200, as gateways send it."""
        error = said_error(body)
        if error is None:
            return None
        if (status := _status_in(error)) is not None:
            return status_error(self._where, status, headers, body, self._show(error))
        return TransientError(f"{self._where}: the response is an error: {self._show(error)}")

    def parsed(
        self, text: str, schema: Schema, usage: Usage | None, finish: str | None = None
    ) -> Any:
        """Return the value in a text, which must fit the schema.

        Raises:
            InvalidReplyError: It does not.
        """
        if finish == "length":
            raise self.invalid(
                f"the reply is truncated (finish_reason: length): {self._show(text)}",
                text,
                usage,
                hint=self._more_tokens,
            )
        try:
            value = parse_reply(text)
        except ValueError as error:
            raise self._misfit(f"the reply is {error}: {self._show(text)}", text, usage) from None
        self.check(value, schema, text, usage)
        return value

    def check(self, value: Any, schema: Schema, text: str, usage: Usage | None) -> None:
        """Check a value against the schema. Raises as `parsed` does."""
        if why := misfit(value, schema):
            message = f"the reply is not as requested: {self._show(why)}: {self._show(text)}"
            raise self._misfit(message, text, usage)

    def invalid(
        self, why: str, text: str, usage: Usage | None, hint: str | None = None
    ) -> InvalidReplyError:
        """Return the error for a reply that cannot be used."""
        error = InvalidReplyError(f"{self._where}: {why}", hint=hint)
        error.reply, error.usage = text, usage
        return error

    def _misfit(self, why: str, text: str, usage: Usage | None) -> MisfitError:
        error = MisfitError(f"{self._where}: {why}")
        error.reply, error.usage = text, usage
        return error


def _status_in(error: Any) -> int | None:
    for name in ("code", "type") if isinstance(error, dict) else ():
        reason = error.get(name)
        if isinstance(reason, int) and reason in _ERROR_STATUSES:
            return reason
        if isinstance(reason, str):
            known = (status for begins, status in _STATUSES.items() if reason.startswith(begins))
            if status := next(known, BAD_REQUEST if _FAULTS.search(reason) else None):
                return status
    return None


def record_usage(usage: Usage | None, model: str | None = None) -> None:
    """Report the current call's tokens to the pacer, and add them to its cell's cost.

    Args:
        usage: What it used.
        model: The name of the model, if the usage does not name it.
    """
    if usage is not None and usage.total_tokens:
        observe(usage={"total_tokens": usage.total_tokens})
    add_receipt(plain_usage(usage, model))


def _text_of(content: Any) -> str | None:
    """Return the text of a message's content, a string or parts; None: it has none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None


def _calls_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the name and the arguments of each tool call, and its id if it has one."""
    found: list[dict[str, Any]] = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            continue
        id_ = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
        found.append({"name": function["name"], "arguments": function.get("arguments"), **id_})
    return found


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _parsed(arguments: Any) -> Any:
    """Return the value of a call's arguments; the text itself if it is not JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return parse_json(arguments.encode())
    except ValueError:
        return arguments
