"""A user's async function as a model."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import PermanentError
from limpet.fingerprints.steps import OwnCode
from limpet.models.completion import Reading, note_usage
from limpet.models.forms import with_instruction
from limpet.models.protocol import Message, Model, Reply
from limpet.models.schema import Schema, check_schema
from limpet.pacing.registry import endpoint
from limpet.text import one_line
from limpet.usage import usage_of


class FunctionModel(OwnCode, Model):
    """An async function that replies to messages; its code counts. See `as_model`."""

    def __init__(self, function: Any, name: str | None = None) -> None:
        super().__init__(function)
        own = getattr(function, "__name__", type(function).__name__)
        self.name = own if name is None else name
        self.endpoint = self.name
        self._function = function
        self._reading = Reading(self.name, one_line, self.name)
        self._takes_schema = _takes_schema(function)

    def __repr__(self) -> str:
        return f"<model {self.name}: {self._function!r}>"

    async def ask(
        self, messages: Sequence[Message], *, schema: Schema | None = None, **params: Any
    ) -> Reply:
        if schema is not None:
            check_schema(schema)
            if self._takes_schema:
                params["schema"] = schema
            else:
                messages = with_instruction(messages, schema)
        async with endpoint(self.endpoint):
            return self._reply(await self._function(messages, **params), schema)

    def _reply(self, returned: Any, schema: Schema | None) -> Reply:
        if isinstance(returned, Reply):
            # As a client reports it, it may be a dict or an object of the client's own.
            usage, _ = usage_of(returned.usage)
            note_usage(usage, returned.model or self.name)
            return self._checked(replace(returned, usage=usage), schema)
        if isinstance(returned, str):
            return self._checked(Reply(returned), schema)
        if isinstance(returned, Mapping) and "choices" in returned:
            return self._reading.reply(returned, {}, schema)
        if isinstance(returned, dict):
            return self._checked(Reply(_as_json(returned), returned), schema)
        raise PermanentError(
            f"{self.name}: returned a {type(returned).__name__}: it must be a string, a dict or a "
            "Reply"
        )

    def _checked(self, reply: Reply, schema: Schema | None) -> Reply:
        if schema is None:
            return reply
        parsed = reply.parsed
        if parsed is None:
            parsed = self._reading.parsed(reply.text, schema, reply.usage, reply.finish)
        else:
            self._reading.check(parsed, schema, reply.text, reply.usage)
        return replace(reply, parsed=parsed)


def _as_json(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentError(f"the returned dict is not JSON: {one_line(str(error))}") from None


def _takes_schema(function: Any) -> bool:
    try:
        return "schema" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
