"""A model behind any server that speaks the OpenAI API."""

import asyncio
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from limpet.arguments import string, true_or_false
from limpet.errors import wrong_argument
from limpet.fingerprints.keys import digest
from limpet.models.chat import ChatModel, Response
from limpet.models.decisions import decide
from limpet.models.protocol import Message, Reply
from limpet.models.schema import AUTO, FORMS, Schema
from limpet.models.server import Key, OpenAIServer
from limpet.models.streams import read_stream
from limpet.pacing.registry import endpoint, endpoint_for
from limpet.secrets.known import secrets_under_names
from limpet.shapes import Usage
from limpet.text import did_you_mean, one_line
from limpet.transport.address import Address, checked_headers
from limpet.transport.client import CallOptions, client_for

# ---- How do texts become vectors? ---------------------------------------------------------------

_PATH = "/embeddings"
_LARGEST = 1e300


class Vectors(list[list[float]]):
    """A vector for each text.

    Attributes:
        usage: The request's usage; None if the server does not report it.
    """

    usage: Usage | None = None


async def embedded(
    server: OpenAIServer, pace: str, constant: Mapping[str, Any], texts: Sequence[str]
) -> Vectors:
    """Return the vector of each text, from one request.

    Args:
        server: The server.
        pace: The endpoint that paces the request.
        constant: The model, and parameters of every request.
        texts: The texts.

    Raises:
        InvalidReplyError: The response lacks one vector for each text.
    """
    if not texts:
        return Vectors()
    request = {"encoding_format": "float", **constant, "input": list(texts)}
    async with endpoint(pace):
        response = await server.post(server.url(_PATH), request)
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


# ---- A model behind any server that speaks the OpenAI API. --------------------------------------

_CHAT = "/chat/completions"
_DECISION = "decision"
NOT_PARAMS = frozenset({"model", "messages", "stream"})
"""Fields of a call besides its parameters."""
_REPLIES = (AUTO, *FORMS, _DECISION)
_STREAMED = {"stream_options": {"include_usage": True}}


def openai_api(
    base_url: str,
    *,
    model: str,
    key: str | None = "${OPENAI_API_KEY}",
    reply: str = AUTO,
    params: Mapping[str, Any] | None = None,
    organization: str | None = None,
    api_version: str | None = None,
    stream: bool = False,
    name: str | None = None,
    **options: Unpack[CallOptions],
) -> "OpenAIModel":
    """Use a model behind a server that speaks the OpenAI API.

    Args:
        base_url: The server's address: `https://api.openai.com/v1`, `http://localhost:11434/v1`,
            or an Azure deployment's:
            `https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT`.
        model: The model's name at the server.
        key: The environment variable with its key: `${NAME}`, read when the model is opened; None:
            no key is sent. A literal key is accepted too.
        reply: How a reply that fits a schema is requested: "schema" (the server's structured
            outputs), "tool" (a forced tool call), "text" (parsed strictly), "decision" (a decision
            endpoint: a probability for each option, and no text), or "auto": the first of schema,
            tool and text that the server neither refuses nor ignores. Replies are always checked.
        params: Parameters of every call: `{"temperature": 0}`.
        organization: Sent as `OpenAI-Organization`.
        api_version: Azure's `api-version`.
        stream: Stream the replies, and keep the time until the first token.
        name: Its name in messages; None: the model's.
        **options: How to call it: `headers`, timeouts and `max_response_mb`, see `CallOptions`.

    Raises:
        LimpetError: An argument is invalid.
        TypeError: An option does not exist, or an argument has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    string(model=model)
    true_or_false(stream=stream)
    if reply not in _REPLIES:
        near = did_you_mean(reply, _REPLIES) if isinstance(reply, str) else ""
        raise wrong_argument("reply", f"must be one of {', '.join(_REPLIES)}{near}", reply)
    plain = _checked_params(params)
    address = Address(base_url, "base_url")
    if address.path.rstrip("/").endswith(_CHAT):
        raise wrong_argument("base_url", f"must be the address without {_CHAT}")
    headers = checked_headers(options.get("headers"))
    if organization is not None:
        headers["OpenAI-Organization"] = string(organization=organization)
    settings = CallOptions(**{**options, "headers": headers})
    client_for("openai_api", address, settings)  # reports invalid options now
    if api_version is not None:
        string(api_version=api_version)
    held = Key(key)
    server = OpenAIServer(address, model, held, api_version, settings)
    counted: dict[str, Any] = {"params": plain, "reply": reply}
    if api_version is not None:
        counted["api_version"] = api_version
    paced_by = endpoint_for(f"{address.origin} {model}", held.value or repr(held))
    return OpenAIModel(server, model, paced_by, counted, stream, name)


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


class OpenAIModel(ChatModel):
    """A model behind a server that speaks the OpenAI API; see `openai_api`."""

    def __init__(
        self,
        server: OpenAIServer,
        model: str,
        endpoint: str,
        counted: dict[str, Any],
        stream: bool,  # noqa: FBT001 - private
        name: str | None,
    ) -> None:
        self.name = model if name is None else name
        self.requested_name = model
        self.form = counted["reply"]
        self.endpoint = endpoint
        self._server = server
        self._described = {"address": server.shown_address, "model": model, **counted}
        self._digests = {part: digest(value) for part, value in self._described.items()}
        self._constant = {"model": model, **counted["params"]}
        self._stream = stream
        self._url = server.url(_CHAT)
        self._reading = server.reading

    def __repr__(self) -> str:
        return f"<model {self._server.where}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a model cannot be pickled: it may hold a key. Create it where it is used, with "
            "limpet.models.openai_api"
        )

    @property
    def fingerprint(self) -> Mapping[str, str]:  # type: ignore[override]  # it is only read
        """The digest of each setting that its replies depend on."""
        return self._digests

    @property
    def described(self) -> Mapping[str, Any]:
        return dict(self._described)

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
        if self.form == _DECISION:
            request = {**self._constant, **params}
            return await decide(self._server, self.endpoint, request, messages, schema)
        return await super().ask(messages, schema=schema, **params)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vector of each text, from one paced request to the embeddings endpoint.

        Raises:
            InvalidReplyError: The response lacks one vector for each text.
            SetupError: No call can succeed: the key is refused, the model does not exist.
            RateLimitError: The provider refused the call; any error with its status means the same.
        """
        return await embedded(self._server, self.endpoint, self._constant, texts)

    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        body = {**self._constant, **request}
        return {**_STREAMED, **body, "stream": True} if self._stream else body

    async def _send(self, body: dict[str, Any]) -> Response:
        if not self._stream:
            return await self._server.post(self._url, body)
        read = functools.partial(read_stream, self._server, asyncio.get_running_loop().time())
        return await self._server.post(self._url, body, read)
