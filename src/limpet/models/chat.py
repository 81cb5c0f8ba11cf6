"""How is a reply requested from a chat model, over any transport?"""

import functools
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from limpet.errors import InvalidReplyError, LimpetError
from limpet.models.completion import MisfitError, Reading
from limpet.models.failures import BadRequestError
from limpet.models.protocol import Message, Model, Reply
from limpet.models.schema import AUTO, FORMS, TEXT, check_schema, request_fields
from limpet.models.schema_parts import Schema
from limpet.pacing.registry import endpoint
from limpet.shapes import Usage
from limpet.transport.parsing import encode_json
from limpet.usage import reserving

logger = logging.getLogger("limpet.models")
_working_form: dict[str, str] = {}
"""The form that `auto` found for each endpoint, for the rest of the process."""
_fitted: set[tuple[str, str]] = set()
"""Endpoints and forms that have produced a reply that fits its schema."""


class Response(NamedTuple):
    """A chat completion.

    Attributes:
        body: Its JSON.
        headers: Its headers, with lower-case names.
        first_token_s: Seconds until the first token, if it was streamed.
    """

    body: Any
    headers: Mapping[str, str]
    first_token_s: float | None = None


class ChatModel(Model):
    """A chat completions model. A subclass defines `_body` and `_send`, and sets `_reading`.

    Attributes:
        form: How a reply that fits a schema is requested: "auto", "schema", "tool" or "text".
        requested_name: The model's name in requests.
    """

    form: str = AUTO
    reserves = True
    requested_name: str
    _reading: Reading

    @abstractmethod
    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the whole body of a request."""

    def _own(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a body in the words of the server, if it has others."""
        return body

    @abstractmethod
    async def _send(self, body: dict[str, Any]) -> Response:
        """Send a body in the server's words; an HTTP 400 raises `BadRequestError`."""

    async def ask(
        self, messages: Sequence[Message], *, schema: Schema | None = None, **params: Any
    ) -> Reply:
        if schema is None:
            return await self._ask({**params, "messages": messages}, None)
        check_schema(schema)
        first: LimpetError | None = None
        for form in self._forms():
            request = {**params, **request_fields(form, schema, messages)}
            try:
                return await self._ask(request, schema, form)
            except BadRequestError as error:
                first = first or error
                if not error.form:
                    break
        assert first is not None
        raise first

    def _forms(self) -> tuple[str, ...]:
        if self.form != AUTO:
            return (self.form,)
        # Once a form has worked, a 400 is about the request itself: no other form is tried.
        working = _working_form.get(self.endpoint)
        return FORMS if working is None else (working,)

    async def _ask(
        self, request: dict[str, Any], schema: Schema | None, form: str | None = None
    ) -> Reply:
        body = self._body(request)
        own = self._own(body)
        most_of = functools.partial(most_usage, self.requested_name, body, own)
        async with endpoint(self.endpoint), reserving(most_of):
            response = await self._send(own)
            if form is not None and self.form == AUTO:
                _working_form.setdefault(self.endpoint, form)
            try:
                reply = self._reading.reply(
                    response.body, response.headers, schema, response.first_token_s
                )
            except MisfitError as error:
                error.form = form or error.form
                raise
            if form is not None:
                _fitted.add((self.endpoint, form))
            return reply


_UNBOUNDED = frozenset(
    {"audio", "conversation", "extra_body", "modalities", "prediction", "previous_response_id",
     "prompt", "web_search_options"}
)  # fmt: skip
"""Parameters that may add tokens neither in the request nor counted by its `max_tokens`."""


def most_usage(model: str, body: Mapping[str, Any], own: Mapping[str, Any]) -> Usage | None:
    """Return what a request can use at most; None: no bound is known.

    A token is at least one byte of the request. Images and files have more tokens than that.

    Args:
        model: The model.
        body: The request as Chat Completions has it.
        own: The request as it is sent.
    """
    limits = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name)]
    replies = body.get("n", 1)
    if not limits or not all(type(number) is int and number > 0 for number in (*limits, replies)):
        return None
    if _UNBOUNDED & body.keys() or not all(map(_is_text, body["messages"])):
        return None
    try:
        prompt = max(len(encode_json(body)), len(encode_json(own)))
    except ValueError:  # it will not be sent
        return None
    completion = max(limits) * replies
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    counts["cache_write_tokens"] = prompt  # all of it may be, at a higher price
    return Usage(prompt, completion, models={model: counts})


def _is_text(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else ()
    if isinstance(content, list):
        return all(isinstance(part, dict) and part.get("type") == "text" for part in content)
    return content is None or isinstance(content, str)


def fall_back(model: Model, error: InvalidReplyError) -> bool:
    """Request text from now on, since no reply fits the schema that the server accepted.

    For a server that accepts a schema and ignores it. Call it when a model was told the error in
    its reply and made it again.

    Returns:
        Whether the question may now be asked in another form.
    """
    if not isinstance(model, ChatModel) or model.form != AUTO or not isinstance(error, MisfitError):
        return False
    if error.form == TEXT or (model.endpoint, error.form) in _fitted:
        return False
    if _working_form.get(model.endpoint) != TEXT:
        _working_form[model.endpoint] = TEXT
        logger.warning(
            "%s: no reply fits the schema that its server accepted (reply: %s); from now on the "
            "schema is in the prompt, as with reply: text",
            model.name,
            error.form,
        )
    return True
