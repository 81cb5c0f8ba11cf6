"""How does a request get to a model's server, and its JSON back?"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from weakref import WeakKeyDictionary

from yarl import URL

from limpet.errors import (
    LimpetError,
    PermanentError,
    SetupError,
    TransientError,
)
from limpet.models.chat import Response
from limpet.models.completion import Reading
from limpet.models.failures import (
    PATH_HINT,
    ModelMissingError,
    PathMissingError,
    refusal,
    said_in,
)
from limpet.models.keys import Key, Keys
from limpet.models.provider import Provider, other_owner, provider_at
from limpet.secrets.known import may_be_secret
from limpet.secrets.masking import Mask
from limpet.text import did_you_mean, one_line
from limpet.transport.address import Address
from limpet.transport.client import CallOptions, Client, client_for
from limpet.transport.failures import SUCCESSES, said_error
from limpet.transport.parsing import encode_json, parse_json
from limpet.transport.reply import HttpReply

# ---- Which models share connections? ------------------------------------------------------------
#
# Models on one server with the same headers share a client and its pool. Each step that uses a
# model opens it, so uses are counted. A client belongs to the event loop that opened it.

_Clients = dict[Hashable, "SharedClient"]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()


class SharedClient:
    """An open client, and its number of users.

    Attributes:
        client: The client.
        models: The names of the server's models, once listed, by where they are listed.
        listing: Held by the call that lists them.
    """

    def __init__(self, client: Client, forget: Callable[[], object]) -> None:
        self.client = client
        self.models: dict[str, list[str]] = {}
        self.listing = asyncio.Lock()
        self._forget = forget
        self._uses = 0
        self._lock = asyncio.Lock()  # the second user waits until the first has opened it

    async def open(self) -> None:
        """Open it for another user."""
        async with self._lock:
            if not self._uses:
                await self.client.open()
            self._uses += 1

    async def close(self) -> None:
        """Return it. The last user closes it."""
        async with self._lock:
            self._uses -= 1
            if not self._uses:
                self._forget()
                await self.client.close()


async def opened(settings: Hashable, make: Callable[[], Client]) -> SharedClient:
    """Return the open client with these settings.

    Args:
        settings: Everything that distinguishes clients.
        make: Makes the client, if there is none yet.

    Raises:
        EndpointDownError: No connection is possible.
        LimpetError: The environment names a proxy or certificates that cannot be used.
    """
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    shared = clients.get(settings)
    if shared is None:
        shared = SharedClient(make(), lambda: clients.pop(settings, None))
        clients[settings] = shared
    try:
        await shared.open()
    except BaseException:
        clients.pop(settings, None)
        raise
    return shared


# ---- How does a request get to a server, and its JSON back? -------------------------------------

Read = Callable[[HttpReply], Awaitable[Response]]
_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_MOST_LISTED = 10
_MOST_SHOWN = 1000


class ModelServer:
    """A server, for one of its models.

    Args:
        provider: Whose API it speaks.
        address: Its address.
        model: The model's name.
        keys: The model's keys.
        api_version: Azure's `api-version`.
        options: How to call it; with `headers`.

    Attributes:
        provider: Whose API it speaks.
        keys: The model's keys.
        where: The model's name and the address, for messages.
        reading: Reads its replies.
    """

    def __init__(
        self,
        provider: Provider,
        address: Address,
        model: str,
        keys: Sequence[Key],
        endpoints: Sequence[str],
        api_version: str | None,
        options: CallOptions,
    ) -> None:
        self.provider = provider
        self._address = address
        self._model = model
        self._api_version = api_version
        self._options = options
        self._base, query = address.url.partition("?")[::2]
        versions = [] if api_version is None else [urlencode({"api-version": api_version})]
        self._query = "&".join([*filter(None, [query]), *versions])
        path = "" if address.path == "/" else address.path.rstrip("/")
        self.where = f"{one_line(model)} at {str(URL(address.origin)).rstrip('/')}{path}"
        self.keys = Keys(keys, endpoints, self.where)
        self.reading = Reading(self.where, self.show, model, provider.most)
        # For each `open`, the client of each key.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, list[list[SharedClient]]]
        self._clients = WeakKeyDictionary()
        self._answered: set[int] = set()  # the numbers of keys

    @property
    def shown_address(self) -> str:
        """The address without credentials, and without values in its query that may be keys."""
        query = parse_qsl(urlsplit(self._address.url).query)
        harmless = urlencode([pair for pair in query if not may_be_secret(pair[0])])
        return f"{self._address.origin}{self._address.path}".rstrip("/") + (
            harmless and f"?{harmless}"
        )

    @property
    def secrets(self) -> Iterable[str]:
        """The keys, what signs, the values of the headers and the credentials in the address."""
        others = client_for("a model", self._address, self._options).secrets
        keys = filter(None, (key.value for key in self.keys.keys))
        return {*others, *keys, *self.provider.secrets}

    def url(self, path: str) -> URL:
        """Return the URL of a path under the address."""
        path, _, query = path.partition("?")
        # A provider's path is quoted already: yarl would change the quotes, and a signature's path.
        base = str(URL(self._base.rstrip("/"))).rstrip("/")
        url = URL(self.provider.url(base, path), encoded=True)
        query = "&".join(filter(None, [query, self._query]))
        return url.with_query(query) if query else url

    # ---- opening and closing --------------------------------------------------------------------

    async def open(self) -> None:
        """Read the keys, and check that the server accepts connections.

        Raises:
            SetupError: A key's environment variable is not set, two keys are the same, one is
                another company's, or nothing signs requests where something has to.
            EndpointDownError: No connection is possible.
            LimpetError: The environment names a proxy or certificates that cannot be used.
        """
        opened_here = self._clients.setdefault(asyncio.get_running_loop(), [])
        if None in (values := self.keys.read()) and not self._is_authorized:
            await self.provider.get_ready(self._address.url)
        self._check_owners(values)
        async with AsyncExitStack() as opening:  # closes those that are open if one fails
            clients = []
            for key in values:
                clients.append(await self._opened(key))
                opening.push_async_callback(clients[-1].close)
            opening.pop_all()
        if not opened_here:
            self.keys.begin()
        opened_here.append(clients)

    def _check_owners(self, keys: Sequence[str | None]) -> None:
        # A gateway's keys may look like anything.
        company = provider_at(self._address.host)
        for number, key in enumerate(keys if company else ()):
            if company and (owner := other_owner(key or "", company)):
                name, hint = self.keys.name(number), self.keys.keys[number].hint
                raise SetupError(
                    f"{self.where}: the key {name} looks like one of {owner}", hint=hint
                )

    @property
    def _is_authorized(self) -> bool:
        names = {name.lower() for name in self._options.get("headers") or {}}
        return "authorization" in names or self._address.authorization is not None

    async def _opened(self, key: str | None) -> SharedClient:
        options = self._with_key(key)
        headers = tuple(sorted((options.get("headers") or {}).items()))
        settings = (
            self._address.origin,
            self._address.authorization,
            tuple(self._address.secrets),
            tuple((name, value) for name, value in options.items() if name != "headers"),
            headers,
        )
        return await opened(settings, lambda: client_for("a model", self._address, options))

    async def close(self) -> None:
        """Release the connections, once for each `open`."""
        opened_here = self._clients.get(asyncio.get_running_loop())
        async with AsyncExitStack() as closing:  # closes the others if one fails
            for shared in opened_here.pop() if opened_here else ():
                closing.push_async_callback(shared.close)

    def _with_key(self, key: str | None) -> CallOptions:
        headers = dict(self._options.get("headers") or {})
        is_azure = self._api_version is not None or self._address.host.endswith(_AZURE_HOSTS)
        own = {**self.provider.fixed_headers, **({} if key is None else self.provider.headers(key))}
        if key is not None and is_azure:
            own.pop("Authorization", None)
            own["api-key"] = key
        given = {name.lower() for name in headers}
        headers |= {name: value for name, value in own.items() if name.lower() not in given}
        return CallOptions(**{**self._options, "headers": headers})

    @property
    def _shared(self) -> list[SharedClient]:
        opened_here = self._clients.get(asyncio.get_running_loop())
        if not opened_here:
            raise LimpetError(f"the model {self._model} is not open", hint="await its open() first")
        return opened_here[-1]

    def show(self, value: object) -> str:
        """Return a server's text for a message: on one line, shortened, without secrets."""
        shown: object = Mask(self.provider.secrets).shown(value) if self.provider.secrets else value
        for shared in self._shared:
            shown = shared.client.show(shown)
        return str(shown)

    # ---- a request ------------------------------------------------------------------------------

    async def post(self, url: URL, body: Mapping[str, Any], read: Read | None = None) -> Response:
        """Send JSON; return the JSON of the response.

        Args:
            url: The URL.
            body: The JSON to send.
            read: Reads a successful response; None: as JSON.

        Raises:
            BadRequestError: The server refuses this request.
            SetupError: It refuses the key, or lacks the model or the path.
            LimpetError: The call failed in another way; the type says how.
        """
        try:
            encoded = encode_json(body)
        except ValueError as error:
            raise PermanentError(f"{self.where}: cannot be sent as JSON: {error}") from None
        number = self.keys.take()
        shared = self._shared[number]
        signed: Mapping[str, str] = {}
        if self.keys.keys[number].value is None:
            signed = await self.provider.signed(str(url), encoded)
        reading = functools.partial(self._read, number, signed, read or self.json)
        try:
            return await shared.client.ask("POST", url, encoded, reading, self.where, signed)
        except (ModelMissingError, PathMissingError) as error:
            raise await self._with_near_names(shared, error) from None

    async def _read(
        self, number: int, signed: Mapping[str, str], read: Read, reply: HttpReply
    ) -> Response:
        signature = signed.get("Authorization", "")
        hidden = Mask([*self.provider.secrets, signature, signature.rpartition("=")[2]])
        if reply.status in SUCCESSES:
            response = await read(reply)
            self._answered.add(number)
            if not signed:
                return response
            # A run knows only the credentials that it began with, and no signature.
            return response._replace(body=hidden.data(response.body)[0])
        raw = hidden.data(await reply.beginning())[0]
        try:
            body = parse_json(raw)
        except ValueError:
            body = None
        body = self.provider.refusal(body, reply.headers)
        said = said_in(body, raw.decode(errors="replace").strip(), self.show)
        hint, answered = self._key_hint(self.keys.keys[number]), number in self._answered
        raise refusal(self.where, reply.status, reply.headers, body, said, hint, answered=answered)

    def _key_hint(self, key: Key) -> str:
        if key.value is None and self.provider.keyless_hint:
            return self.provider.keyless_hint
        owner = other_owner(key.value or "", self.provider)
        return f"this looks like a key of {owner}; {key.hint}" if owner else key.hint

    @property
    def _address_hint(self) -> str:
        own = self.provider.address
        return f"check the address; that of {self.provider.name} is {own}" if own else PATH_HINT

    async def json(self, reply: HttpReply) -> Response:
        """Read a response that is a JSON document."""
        raw = await reply.read_all()
        try:
            body = parse_json(raw)
        except ValueError as error:
            shown = self.show(raw[:_MOST_SHOWN].decode(errors="replace"))
            if raw.strip() and "json" not in reply.content_type:
                kind = self.show(reply.content_type or "untyped")
                what = f"{self.where}: the response is {kind}, not JSON: {shown}"
                if self._answered:  # a proxy's page, perhaps
                    raise TransientError(what) from None
                raise PermanentError(what, hint=self._address_hint) from None
            raise TransientError(f"{self.where}: the response is {error}: {shown}") from None
        completion, said = self.provider.completion(body), said_error(body)
        if isinstance(completion, dict) and said is not None:
            completion = {**completion, "error": said}  # a gateway's, beside a reply
        return Response(completion, lower_cased(reply.headers))

    # ---- which models exist ---------------------------------------------------------------------

    async def _with_near_names(self, shared: SharedClient, error: SetupError) -> SetupError:
        """Return the error with the server's models.

        An unspecific 404 means the model is missing, if the server lists others.
        """
        place = str(self.url(self.provider.models_path))
        async with shared.listing:  # many calls fail at once, and one list is enough
            if place not in shared.models:
                shared.models[place] = await self._list(shared.client)
        models = shared.models[place]
        is_path = isinstance(error, PathMissingError)
        if is_path and self.provider.address:
            error = PathMissingError(str(error), hint=self._address_hint)
        if not models or (is_path and self._model in models):
            return error
        known = ", ".join(map(shared.client.show, models[:_MOST_LISTED]))
        near = did_you_mean(self._model, models)
        kind = PathMissingError if is_path else SetupError
        return kind(f"{error}{near}", hint=f"the server has {known}")

    async def _list(self, client: Client) -> list[str]:
        async def read(reply: HttpReply) -> list[str]:
            body = parse_json(await reply.read_all()) if reply.status in SUCCESSES else None
            return self.provider.names(body)

        if not self.provider.models_path:
            return []
        try:
            url = self.url(self.provider.models_path)
            return await client.ask("GET", url, None, read, self.where)
        except (LimpetError, ValueError):
            return []  # optional: the error is what matters


def lower_cased(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with lower-case names."""
    return {name.lower(): value for name, value in headers.items()}
