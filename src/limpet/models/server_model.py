"""A model behind a server: of any provider, or one that speaks the OpenAI API."""

import asyncio
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from limpet.arguments import string, true_or_false
from limpet.errors import SetupError, wrong_argument
from limpet.fingerprints.keys import digest
from limpet.models.chat import ChatModel, Response
from limpet.models.decisions import decide
from limpet.models.keys import Key, Keys
from limpet.models.protocol import Message, Reply
from limpet.models.provider import PROVIDERS, Provider
from limpet.models.provider import provider as provider_of
from limpet.models.schema import AUTO, FORMS
from limpet.models.schema_parts import Schema
from limpet.models.server import ModelServer
from limpet.models.streams import read_stream
from limpet.pacing.registry import endpoint, endpoints_for
from limpet.secrets.known import secrets_under_names
from limpet.shapes import Usage
from limpet.text import did_you_mean, one_line
from limpet.transport.address import Address, checked_headers
from limpet.transport.client import CallOptions, client_for

# ---- How do texts become vectors? ---------------------------------------------------------------

_LARGEST = 1e300


class Vectors(list[list[float]]):
    """A vector for each text.

    Attributes:
        usage: The request's usage; None if the server does not report it.
    """

    usage: Usage | None = None


async def embedded(
    server: ModelServer, pace: str, constant: Mapping[str, Any], texts: Sequence[str]
) -> Vectors:
    """Return the vector of each text, from one request.

    Args:
        server: The server.
        pace: The endpoint that paces the request.
        constant: The model, and parameters of every request.
        texts: The texts.

    Raises:
        InvalidReplyError: The response lacks one vector for each text.
        SetupError: The provider has no embeddings.
    """
    if "embeddings" not in server.provider.can:
        raise server.provider.cannot("embeddings")
    if not texts:
        return Vectors()
    request = {"encoding_format": "float", **constant, "input": list(texts)}
    async with endpoint(pace):
        response = await server.post(server.url(server.provider.embeddings_path), request)
        reading = server.reading
        usage = reading.usage(response.body)
        if (error := reading.error_in(response.body, response.headers)) is not None:
            raise error
        try:
            vectors = Vectors(_vectors_in(response.body, len(texts)))
        except ValueError as why:
            raise reading.invalid(str(why), "", usage) from None
        vectors.usage = usage
        return vectors


def _vectors_in(body: Any, expected: int) -> list[list[float]]:
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list) or len(data) != expected:
        count = len(data) if isinstance(data, list) else "no"
        raise ValueError(f"{count} vectors for {expected} texts")
    vectors: list[list[float] | None] = [None] * expected
    for position, entry in enumerate(data):
        index = entry.get("index", position) if isinstance(entry, dict) else None
        if type(index) is not int or not 0 <= index < expected or vectors[index] is not None:
            raise ValueError("the vectors are not numbered from 0, each once")
        vectors[index] = _vector(entry.get("embedding"))
    lengths = {len(vector) for vector in vectors if vector is not None}
    if len(lengths) != 1:
        raise ValueError("the vectors have different lengths")
    return [vector for vector in vectors if vector is not None]


def _vector(value: Any) -> list[float]:
    if not isinstance(value, list) or not value:
        raise ValueError("a vector is not a list of numbers")
    if not all(type(part) in (int, float) and abs(part) < _LARGEST for part in value):
        raise ValueError("a vector is not a list of numbers")
    return value


# ---- A model behind a server. -------------------------------------------------------------------

_DECISION = "decision"
NOT_PARAMS = frozenset({"model", "messages", "stream"})
"""Fields of a call besides its parameters."""
_REPLIES = (AUTO, *FORMS, _DECISION)
_OURS = object()
"""The key is in the provider's own variable."""


def openai_api(base_url: str, *, model: str, api: str = "chat", **options: Any) -> "ServerModel":
    """Use a model behind a server that speaks the OpenAI API.

    Args:
        base_url: The server's address: `https://api.openai.com/v1`, `http://localhost:11434/v1`,
            or an Azure deployment's:
            `https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT`.
        model: The model's name at the server.
        api: "chat" for Chat Completions, which most servers speak, or "responses".
        **options: As for `provider_api`.

    Raises:
        LimpetError: An argument is invalid.
        TypeError: An option does not exist, or an argument has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    if api not in _APIS:
        raise wrong_argument("api", f"must be one of {', '.join(_APIS)}", api)
    return provider_api(_APIS[api], base_url, model=model, **options)


def provider_api(
    provider: str,
    base_url: str | None = None,
    *,
    model: str,
    key: Any = _OURS,
    keys: Sequence[str] | None = None,
    reply: str = AUTO,
    params: Mapping[str, Any] | None = None,
    organization: str | None = None,
    api_version: str | None = None,
    stream: bool = False,
    cache: bool = False,
    name: str | None = None,
    **options: Unpack[CallOptions],
) -> "ServerModel":
    """Use a model of a provider, by its own API.

    Args:
        provider: "anthropic", "gemini", "ollama", "bedrock", "openai" or "responses".
        base_url: The server's address; None: the provider's.
        model: The model's name at the server.
        key: The environment variable with its key: `${NAME}`, read when the model is opened; None:
            no key is sent. By default it is the provider's usual one. A literal key is accepted.
        keys: Several keys, instead of `key`: `["${A}", "${B}"]`. Each has a pacer, and a call
            takes the one with which it starts soonest. A key that is refused is set aside.
        reply: How a reply that fits a schema is requested: "schema" (the server's structured
            outputs), "tool" (a forced tool call), "text" (parsed strictly), "decision" (a decision
            endpoint: a probability for each option, and no text), or "auto": the first of schema,
            tool and text that the server neither refuses nor ignores. Replies are always checked.
        params: Parameters of every call: `{"temperature": 0}`.
        organization: Sent as `OpenAI-Organization`.
        api_version: Azure's `api-version`.
        stream: Stream the replies, and keep the time until the first token.
        cache: Let the provider cache the part of the prompt that is always the same, if it does
            so on request.
        name: Its name in messages; None: the model's.
        **options: How to call it: `headers`, timeouts and `max_response_mb`, see `CallOptions`.

    Raises:
        LimpetError: An argument is invalid, or the provider cannot do what is asked for.
        TypeError: An option does not exist, or an argument has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    own = _provider(provider)
    own.is_keyless = key is None
    _check_name(string(model=model))
    true_or_false(stream=stream)
    true_or_false(cache=cache)
    if reply not in _REPLIES:
        near = did_you_mean(reply, _REPLIES) if isinstance(reply, str) else ""
        raise wrong_argument("reply", f"must be one of {', '.join(_REPLIES)}{near}", reply)
    plain = _checked_params(params)
    _check_abilities(own, reply, {"stream": stream, "caching": cache, "schema": reply == "schema"})
    own.check(plain)
    if base_url is None and not own.address:
        raise wrong_argument(
            "base_url", f"is needed: {own.name} has no address of its own", hint=own.address_hint
        )
    address = Address(own.address if base_url is None else base_url, "base_url")
    base = address.url.partition("?")[0].rstrip("/")
    for end in (own.path(model, stream=stream).partition("?")[0], *own.versions):
        if address.path.rstrip("/").endswith(end):
            flaw = f"must be the address without {end}: {base.removesuffix(end)}"
            raise wrong_argument("base_url", flaw)
    headers = checked_headers(options.get("headers"))
    if organization is not None:
        headers["OpenAI-Organization"] = string(organization=organization)
    settings = CallOptions(**{**options, "headers": headers})
    client_for("a model", address, settings)  # reports invalid options now
    if api_version is not None:
        string(api_version=api_version)
    held = [Key(own.key if key is _OURS else key)] if keys is None else _several(keys, key)
    paced_by, endpoints = endpoints_for(
        f"{address.origin} {model}", [one.value or repr(one) for one in held]
    )
    server = ModelServer(own, address, model, held, endpoints, api_version, settings)
    counted: dict[str, Any] = {"params": plain, "reply": reply}
    if own.name != "openai":
        counted["provider"] = own.name
    if api_version is not None:
        counted["api_version"] = api_version
    return ServerModel(server, model, paced_by, counted, Asking(stream, cache), name)


_APIS = {"chat": "openai", "responses": "responses"}


def _provider(name: Any) -> Provider:
    if name in PROVIDERS:
        return provider_of(name)
    near = did_you_mean(name, PROVIDERS) if isinstance(name, str) else ""
    raise SetupError(
        f"provider={name!r}: must be one of {', '.join(PROVIDERS)}{near}",
        hint="for others, use openai with a compatible address, LiteLLM's proxy, or a function",
    )


def _check_name(model: str) -> None:
    try:
        model.encode()
    except UnicodeEncodeError:
        raise wrong_argument("model", "has a character that cannot be sent", model) from None


def _check_abilities(own: Provider, reply: str, asked: Mapping[str, bool]) -> None:
    for ability in asked.keys() - own.can:
        if asked[ability]:
            raise own.cannot(ability)
    if reply == _DECISION and own.name != "openai":
        raise wrong_argument("reply", f"{own.name} has no endpoint for decisions", reply)


def _several(keys: Any, key: Any) -> list[Key]:
    if key is not _OURS:
        raise wrong_argument("keys", "cannot be used with key")
    if not isinstance(keys, (list, tuple)) or not keys or not all(map(_is_text, keys)):
        raise wrong_argument("keys", 'must be a list of keys: ["${A}", "${B}"]')
    for number, one in enumerate(keys):
        if one.strip() in map(str.strip, keys[:number]):
            raise wrong_argument("keys", f"{Key(one)!r} appears twice")
    return [Key(one) for one in keys]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _checked_params(params: Any) -> dict[str, Any]:
    """Return a copy of the parameters, as they are sent.

    Raises:
        LimpetError: They cannot be sent.
    """
    if params is not None and not isinstance(params, Mapping):
        raise wrong_argument("params", "must be a mapping of names to values")
    for name in NOT_PARAMS.intersection(params or {}):
        raise wrong_argument("params", f"{name!r} is not a parameter but a separate argument")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(params or {}), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong_argument("params", f"cannot be sent as JSON: {one_line(str(error))}") from None
    return plain


class Asking(NamedTuple):
    """How a model is asked.

    Attributes:
        stream: Whether its replies are streamed.
        cache: Whether the constant part of a prompt is marked for the provider's cache.
    """

    stream: bool
    cache: bool


class ServerModel(ChatModel):
    """A model of a provider, behind its server; see `provider_api`."""

    def __init__(
        self,
        server: ModelServer,
        model: str,
        endpoint: str,
        counted: dict[str, Any],
        asking: Asking,
        name: str | None,
    ) -> None:
        self.name = model if name is None else name
        self.requested_name = model
        self.form = counted["reply"]
        self.endpoint = endpoint
        self._server = server
        self._described = {"address": server.shown_address, "model": model, **counted}
        self._digests = {part: digest(value) for part, value in self._described.items()}
        self._constant = {**server.provider.defaults, "model": model, **counted["params"]}
        self._asking = asking
        self.caches = asking.cache
        self._url = server.url(server.provider.path(model, stream=asking.stream))
        self._reading = server.reading

    def __repr__(self) -> str:
        return f"<model {self._server.where}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a model cannot be pickled: it may hold a key. Create it where it is used, with "
            "limpet.models.openai_api or provider_api"
        )

    @property
    def fingerprint(self) -> Mapping[str, str]:  # type: ignore[override]  # it is only read
        """The digest of each setting that its replies depend on."""
        return self._digests

    @property
    def described(self) -> Mapping[str, Any]:
        return dict(self._described)

    @property
    def keys(self) -> Keys:
        """Its keys; they are never shown."""
        return self._server.keys

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The key, the values of its headers, and the credentials in its address and parameters."""
        return [*self._server.secrets, *secrets_under_names(self._constant)]

    async def open(self) -> None:
        """Read the key, and check that the server accepts connections.

        Raises:
            SetupError: The key's environment variable is not set.
            EndpointDownError: No connection is possible.
            LimpetError: The environment names a proxy or certificates that cannot be used.
        """
        await self._server.open()

    async def close(self) -> None:
        await self._server.close()

    async def ask(
        self, messages: Sequence[Message], *, schema: Schema | None = None, **params: Any
    ) -> Reply:
        self._server.provider.check(params)
        self._server.provider.check_parts(messages)
        if self.form == _DECISION:
            request = {**self._constant, **params}
            call = functools.partial(decide, self._server, self.endpoint, request, messages, schema)
            return await self._server.keys.trying(call)
        return await super().ask(messages, schema=schema, **params)

    def check_asked(self, abilities: Iterable[str], params: Mapping[str, Any]) -> None:
        """Check before the first call that the provider can do what will be asked for.

        Raises:
            SetupError: It cannot.
        """
        for ability in abilities:
            if ability not in self._server.provider.can:
                raise self._server.provider.cannot(ability)
        self._server.provider.check(params)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vector of each text, from one paced request to the embeddings endpoint.

        Raises:
            InvalidReplyError: The response lacks one vector for each text.
            SetupError: No call can succeed: the key is refused, the model does not exist.
            RateLimitError: The provider refused the call; any error with its status means the same.
        """
        return await self._server.keys.trying(
            functools.partial(embedded, self._server, self.endpoint, self._constant, texts)
        )

    async def _ask(
        self, request: dict[str, Any], schema: Schema | None, form: str | None = None
    ) -> Reply:
        return await self._server.keys.trying(
            functools.partial(super()._ask, request, schema, form)
        )

    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        return {**self._constant, **request}

    def _own(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._asking.cache:
            body = {**body, "cache": True}
        return self._server.provider.body(body, stream=self._asking.stream)

    async def _send(self, body: dict[str, Any]) -> Response:
        if not self._asking.stream:
            return await self._server.post(self._url, body)
        read = functools.partial(read_stream, self._server, asyncio.get_running_loop().time())
        return await self._server.post(self._url, body, read)
