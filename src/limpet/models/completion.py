"""Which text or value is in a chat completion, or why is it unusable?

The response is untrusted: each field may be missing or have another type.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from limpet.errors import InvalidReplyError, LimpetError, TransientError
from limpet.models.failures import BAD_REQUEST
from limpet.models.protocol import Reply
from limpet.models.schema import TOOL, misfit, parse_reply
from limpet.models.schema_parts import Schema
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
        choices = self._choices(body, headers, usage)
        read = functools.partial(self._read, headers=headers, schema=schema, usage=usage)
        whole, model = read(choices[0]), body.get("model")
        return replace(
            whole,
            model=model if isinstance(model, str) else None,
            first_token_s=first_token_s,
            alternatives=[*_texts_of(one for one in choices[1:] if _is_whole(one, read))],
        )

    def _read(
        self,
        choice: Mapping[str, Any],
        headers: Mapping[str, str],
        schema: Schema | None,
        usage: Usage | None,
    ) -> Reply:
        """Return the reply in a choice. Raises as `reply` does."""
        message = self._message(choice, headers, usage)
        text, finish = _text_of(message.get("content")), choice.get("finish_reason")
        finish, why = finish if isinstance(finish, str) else None, self._why(choice)
        calls = _calls_of(message)
        if refusal := message.get("refusal"):
            raise self.invalid(f"the model refuses: {self._show(refusal)}", str(refusal), usage)
        if finish == "content_filter":
            raise self.invalid(f"a content filter stopped the reply{why}", text or "", usage)
        parsed = None
        if schema is not None:
            # Some servers send the arguments as a value.
            called = [_as_text(call["arguments"]) for call in calls if call["name"] == TOOL]
            calls = [call for call in calls if call["name"] != TOOL]
            if len(set(called)) > 1:
                raise self.invalid(f"{len(called)} replies at once", "\n".join(called), usage)
            given = called[0] if called else text
            parsed = self.parsed(given or "", schema, usage, finish, why)
        elif text is None and not calls:
            more, hint = self._limit(why) if finish == "length" else ("", None)
            said = f"the reply has no text (finish_reason: {finish}{more})"
            raise self.invalid(said, "", usage, hint)
        logprobs = choice.get("logprobs")
        return Reply(
            text or "",
            parsed,
            usage,
            finish,
            headers=headers,
            tool_calls=[{**call, "arguments": _parsed(call["arguments"])} for call in calls],
            reasoning=_reasoning_of(message),
            logprobs=logprobs if isinstance(logprobs, Mapping) else None,
        )

    def usage(self, body: Any) -> Usage | None:
        """Return a response's usage, and record it: even an unusable reply is paid for."""
        usage = usage_of_body(body, self._model)
        record_usage(usage)
        return usage

    def _choices(
        self, body: Any, headers: Mapping[str, str], usage: Usage | None
    ) -> list[Mapping[str, Any]]:
        """Return the choices in the order of their numbers; without one, it is the first."""
        if (error := self.error_in(body, headers)) is not None:
            raise error
        found = body.get("choices") if isinstance(body, Mapping) else None
        choices = (
            [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        )
        if not choices:
            raise self.invalid(f"the response has no choices: {self._show(body)}", "", usage)
        return sorted(choices, key=_index_of)

    def _message(
        self, choice: Mapping[str, Any], headers: Mapping[str, str], usage: Usage | None
    ) -> Mapping[str, Any]:
        # Gateways put their provider's error into the response, or into the choice.
        if (error := self.error_in(choice, headers)) is not None:
            raise error
        if choice.get("finish_reason") == "error":
            raise TransientError(f"{self._where}: the reply ended with an error{self._why(choice)}")
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise self.invalid("the reply has no message", "", usage)
        return message

    def _why(self, choice: Mapping[str, Any]) -> str:
        """Return the provider's own reason, which a provider's translation may add."""
        why = choice.get("finish_message")
        is_said = isinstance(why, str) and why not in ("", choice.get("finish_reason"))
        return f": {self._show(why)}" if is_said else ""

    def error_in(self, body: Any, headers: Mapping[str, str]) -> LimpetError | None:
        """Return the error in a response with status 200, as gateways send it."""
        error = said_error(body)
        if error is None:
            return None
        if (status := _status_in(error)) is not None:
            return status_error(self._where, status, headers, body, self._show(error))
        return TransientError(f"{self._where}: the response is an error: {self._show(error)}")

    def _limit(self, why: str) -> tuple[str, str | None]:
        """Return why a reply was cut off if more tokens do not help, and the hint if they do."""
        return ("", self._more_tokens) if not why or "token" in why.lower() else (why, None)

    def parsed(
        self,
        text: str,
        schema: Schema,
        usage: Usage | None,
        finish: str | None = None,
        why: str = "",
    ) -> Any:
        """Return the value in a text, which must fit the schema.

        Raises:
            InvalidReplyError: It does not.
        """
        if finish == "length":
            more, hint = self._limit(why)
            said = f"the reply is truncated (finish_reason: length{more}): {self._show(text)}"
            raise self.invalid(said, text, usage, hint)
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


def _reasoning_of(message: Mapping[str, Any]) -> str | None:
    """Return what the model thought, under the names that servers have for it."""
    thoughts = [message.get(name) for name in ("reasoning_content", "reasoning")]
    return next((text for text in thoughts if isinstance(text, str) and text), None)


def _index_of(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if type(index) is int else 0


def _is_whole(choice: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Reply]) -> bool:
    """Return whether a choice could be the reply, and was not cut off."""
    try:
        return read(choice).finish != "length"
    except LimpetError:
        return False


def _texts_of(choices: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text of each choice, or its reply in the form of a tool call."""
    for choice in choices:
        message = choice.get("message")
        if isinstance(message, Mapping):
            called = [call["arguments"] for call in _calls_of(message) if call["name"] == TOOL]
            text = _as_text(called[0]) if called else _text_of(message.get("content"))
            if text is not None:
                yield text


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
