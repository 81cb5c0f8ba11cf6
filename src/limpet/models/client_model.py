"""A user's own client, or async function, as a model."""

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import PermanentError, SetupError, TransientError
from limpet.executors.threads import is_awaitable
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import OwnCode
from limpet.models.chat import ChatModel, Response
from limpet.models.completion import Reading, record_usage
from limpet.models.failures import refusal
from limpet.models.protocol import Message, Model, Reply
from limpet.models.schema import check_schema, with_instruction
from limpet.models.schema_parts import Schema
from limpet.pacing import observe, signals
from limpet.pacing.registry import endpoint, endpoint_for
from limpet.secrets.masking import Secrets
from limpet.text import one_line, text_of
from limpet.transport.address import Address
from limpet.transport.parsing import parse_json
from limpet.usage import reserving, usage_of

# ---- A user's own client as a model: an `AsyncOpenAI`, or any similar object. -------------------

_OWN_STATUSES = frozenset({400, 401, 403, 404, 422, 501})
_NOT_ASYNC = object()
_HINT = "check the key of the client, and run again"


class ClientModel(ChatModel):
    """A client with `chat.completions.create`, and the name of a model. See `as_model`.

    The client's own retries are switched off, so the pacer sees every refusal.
    """

    def __init__(self, client: Any, model: str, name: str | None = None) -> None:
        self._model = self.requested_name = model
        self.name = model if name is None else name
        kind = type(client).__name__
        address = _address_of(client)
        origin = kind if address is None else address.origin
        key = getattr(client, "api_key", None)
        keys = [key] if isinstance(key, str) and key else []
        self.endpoint = endpoint_for(f"{origin} {model}", "".join(keys))
        self._where = f"{model} at {origin}"
        self._described = {
            "client": kind,
            "address": None if address is None else address.origin + address.path,
            "model": model,
        }
        self._secrets = Secrets({}, [*keys, *(() if address is None else address.secrets)], keys)
        self._reading = Reading(self._where, self._secrets.show, model)
        if callable(getattr(client, "with_options", None)):
            client = client.with_options(max_retries=0)
        completions = client.chat.completions
        raw = getattr(completions, "with_raw_response", None)
        self._create = completions.create if raw is None else raw.create

    def __repr__(self) -> str:
        return f"<model {self._where}>"

    def __reduce__(self) -> Any:
        raise TypeError("a model cannot be pickled: its client may hold a key")

    @property
    def fingerprint(self) -> Mapping[str, str]:  # type: ignore[override]  # it is only read
        """The digest of each setting that its replies depend on."""
        return {name: digest(value) for name, value in self._described.items()}

    @property
    def described(self) -> Mapping[str, Any]:
        return dict(self._described)

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The client's key."""
        return self._secrets.declared

    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"model": self._model, **request}

    async def _send(self, body: dict[str, Any]) -> Response:
        try:
            response = self._create(**body)
            response = await response if is_awaitable(response) else _NOT_ASYNC
        except Exception as error:
            status = signals.status_of(error)
            if status not in _OWN_STATUSES:
                raise  # with its status and headers, which the pacer reads
            said, told = self._secrets.show(text_of(error)), getattr(error, "body", None)
            told = {"error": told} if isinstance(told, dict) and "error" not in told else told
            raise refusal(self._where, status, {}, told, said, _HINT) from error
        if response is _NOT_ASYNC:
            raise SetupError(
                f"{self._where}: the client is not asynchronous",
                hint="use AsyncOpenAI instead of OpenAI",
            )
        headers = signals.lower_cased(getattr(response, "headers", None) or {})
        if headers:
            observe(headers=headers)
        return Response(self._body_of(response), headers)

    def _body_of(self, response: Any) -> Any:
        if isinstance(response, Mapping):
            return response
        raw = getattr(response, "content", None)
        if isinstance(raw, bytes):
            try:
                return parse_json(raw)
            except ValueError as error:
                shown = self._secrets.show(raw[:1000].decode(errors="replace"))
                raise TransientError(f"{self._where}: the response is {error}: {shown}") from None
        dump = getattr(response, "model_dump", None)
        return dump() if callable(dump) else response


def _address_of(client: Any) -> Address | None:
    url = getattr(client, "base_url", None)
    try:
        return Address(str(url), "base_url")
    except Exception:  # noqa: BLE001 - it is only used to name the endpoint
        return None


# ---- A user's async function as a model. --------------------------------------------------------


class FunctionModel(OwnCode, Model):
    """An async function that replies to messages, with its code's fingerprint. See `as_model`."""

    reserves = True

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
        async with endpoint(self.endpoint), reserving():
            return self._reply(await self._function(messages, **params), schema)

    def _reply(self, returned: Any, schema: Schema | None) -> Reply:
        if isinstance(returned, Reply):
            # It may be a dict or the client's own object.
            usage, _ = usage_of(returned.usage)
            record_usage(usage, returned.model or self.name)
            return self._checked(replace(returned, usage=usage), schema)
        if isinstance(returned, str):
            return self._checked(Reply(returned), schema)
        if isinstance(returned, Mapping) and "choices" in returned:
            return self._reading.reply(returned, {}, schema)
        if isinstance(returned, dict):
            return self._checked(Reply(_as_json(returned), returned), schema)
        raise PermanentError(
            f"{self.name}: returned a {type(returned).__name__}; it must return a string, "
            "a dict or a Reply"
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
