"""How does a request get to a model's server, and its JSON back?"""

import asyncio
import functools
import itertools
import logging
import os
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit
from weakref import WeakKeyDictionary

from yarl import URL

from limpet.errors import (
    LimpetError,
    PermanentError,
    QuotaExhaustedError,
    SetupError,
    TransientError,
    wrong_argument,
)
from limpet.models.chat import Response
from limpet.models.completion import Reading
from limpet.models.failures import (
    PATH_HINT,
    KeyRefusedError,
    ModelMissingError,
    PathMissingError,
    refusal,
    said_in,
)
from limpet.models.provider import Provider, owner_of, provider
from limpet.pacing.observation import carrying_endpoint
from limpet.pacing.signals import classify
from limpet.secrets.known import may_be_secret
from limpet.text import did_you_mean
from limpet.transport.address import Address, flaw_of_header
from limpet.transport.client import CallOptions, Client, client_for
from limpet.transport.failures import SUCCESSES, said_error
from limpet.transport.parsing import encode_json, parse_json
from limpet.transport.reply import HttpReply

# ---- Where does a model's key come from? --------------------------------------------------------
#
# From an environment variable by its name, read when the model is opened. Only Python code may
# pass a literal key. Neither is ever shown: messages name the variable.

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Key:
    """The key of a model.

    Args:
        key: `${NAME}`, a literal key, or None: no key is sent.

    Attributes:
        variable: The name of its environment variable; None: it has none.

    Raises:
        LimpetError: It is something else.
    """

    def __init__(self, key: str | None) -> None:
        if key is not None and (not isinstance(key, str) or not key.strip()):
            raise wrong_argument("key", 'must be "${NAME}" for an environment variable, or None')
        variable = _VARIABLE.fullmatch(key.strip()) if key else None
        self.variable = variable[1] if variable else None
        self._literal = None if variable else key
        if self._literal is not None:
            if "${" in self._literal:
                raise wrong_argument("key", 'must be "${NAME}" for one environment variable, alone')
            self._checked(self._literal)

    def __repr__(self) -> str:
        if self.variable is not None:
            return f"${{{self.variable}}}"
        return "None" if self._literal is None else "<a key>"

    @property
    def value(self) -> str | None:
        """The key as it is now; None if there is none, or its variable is not set."""
        value = self._literal if self.variable is None else os.environ.get(self.variable)
        return value.strip() if value and value.strip() else None

    def read(self) -> str | None:
        """Return the key to send; None: none is needed.

        Raises:
            SetupError: Its variable is not set, or its value cannot be sent.
        """
        value = self.value
        if value is None and self.variable is not None:
            raise SetupError(
                f"the environment variable {self.variable} with the model's key is not set",
                hint=f"set {self.variable}, or use key=None for a server without keys",
            )
        if value is not None:
            self._checked(value)
        return value

    def _checked(self, value: str) -> None:
        flaw = flaw_of_header(value.strip())
        if flaw is None and not value.strip().isascii():
            flaw = "contains characters that are not allowed in a header"
        if flaw is not None:
            name = "key" if self.variable is None else f"the environment variable {self.variable}"
            raise SetupError(f"{name}: the key {flaw}")

    @property
    def hint(self) -> str:
        """What to do when the server refuses it."""
        if self.variable is not None:
            return f"check the key in the environment variable {self.variable}, and run again"
        if self._literal is not None:
            return "check the key, and run again"
        return 'the server requires a key: set key="${NAME}", with the name of its variable'


# ---- Which of several keys does a call take? ----------------------------------------------------
#
# The one whose pacer lets it start. A key that is refused, or whose quota is exhausted, is set
# aside until the model is opened again, and the call goes on with another.

logger = logging.getLogger("limpet.models")
ResultT = TypeVar("ResultT")
_taken: ContextVar[int] = ContextVar("limpet_key", default=0)
"""The number of the key of the current call."""


class Keys:
    """The keys of a model: mostly one.

    Args:
        keys: The keys.
        endpoints: The key of each one's pacer.
        where: The model's name and address, for messages.

    Attributes:
        keys: The keys.
        aside: Why a key is set aside, by its number.
    """

    def __init__(self, keys: Sequence[Key], endpoints: Sequence[str], where: str) -> None:
        self.keys = keys
        self._endpoints = endpoints
        self._where = where
        self.aside: dict[int, LimpetError] = {}
        self._turns = itertools.count()

    @property
    def _left(self) -> list[int]:
        return [number for number in range(len(self.keys)) if number not in self.aside]

    def name(self, number: int) -> str:
        """Return a key's name in messages: its variable."""
        key = self.keys[number]
        return f"{key}" if key.variable else f"number {number + 1}"

    def read(self) -> list[str | None]:
        """Return the keys to send. Raises as `Key.read` does, and if two are the same."""
        values = [key.read() for key in self.keys]
        for number, value in enumerate(values):
            if value in values[:number]:
                first, second = self.name(values.index(value)), self.name(number)
                raise SetupError(f"keys: {first} and {second} are the same key", hint="keep one")
        return values

    def begin(self) -> None:
        """Use all of them again."""
        self.aside.clear()

    def take(self) -> int:
        """Return the number of the key of the current call; outside a run, they take turns."""
        paced_by, left = carrying_endpoint(), self._left or [0]
        paced = [number for number in left if self._endpoints[number] == paced_by]
        number = paced[0] if paced else left[next(self._turns) % len(left)]
        _taken.set(number)
        return number

    async def trying(self, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Make a call, with another key when that is the reason why it fails.

        Raises:
            SetupError: All keys are refused.
            QuotaExhaustedError: None is left, and the quota of one is exhausted.
        """
        while True:
            try:
                return await call()
            except LimpetError as error:
                if len(self.keys) == 1 or not _is_of_key(error):
                    raise
                self._set_aside(_taken.get(), error)
                if not self._left:
                    raise self._none_left() from error

    def _set_aside(self, number: int, error: LimpetError) -> None:
        is_known = number in self.aside
        self.aside[number] = error
        if not is_known and self._left:  # else the run's error says it
            logger.warning("the key %s is set aside: %s", self.name(number), error)

    def _none_left(self) -> LimpetError:
        reasons = [
            f"{self.name(number)}: {str(error).removeprefix(f'{self._where}: ')}"
            for number, error in sorted(self.aside.items())
        ]
        message = f"{self._where}: no key is left: {'; '.join(reasons)}"
        hints = dict.fromkeys(error.hint for error in self.aside.values() if error.hint)
        if all(isinstance(error, KeyRefusedError) for error in self.aside.values()):
            return SetupError(message, hint="; ".join(hints))
        hint = "; ".join(["top up the account or wait for its reset, then run again", *hints])
        return QuotaExhaustedError(message, hint=hint)


def _is_of_key(error: LimpetError) -> bool:
    is_setup = isinstance(error, SetupError)
    return isinstance(error, KeyRefusedError) if is_setup else classify(error).ends_account


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
        models: The names of the server's models, once listed.
        listing: Held by the call that lists them.
    """

    def __init__(self, client: Client, forget: Callable[[], object]) -> None:
        self.client = client
        self.models: list[str] | None = None
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
        self.where = f"{model} at {str(URL(address.origin)).rstrip('/')}{path}"
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
        """The key, the values of the headers and the credentials in the address."""
        others = client_for("openai_api", self._address, self._options).secrets
        return {*others, *filter(None, (key.value for key in self.keys.keys))}

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
            SetupError: A key's environment variable is not set, or two keys are the same.
            EndpointDownError: No connection is possible.
            LimpetError: The environment names a proxy or certificates that cannot be used.
        """
        opened_here = self._clients.setdefault(asyncio.get_running_loop(), [])
        async with AsyncExitStack() as opening:  # closes those that are open if one fails
            clients = []
            for key in self.keys.read():
                clients.append(await self._opened(key))
                opening.push_async_callback(clients[-1].close)
            opening.pop_all()
        if not opened_here:
            self.keys.begin()
        opened_here.append(clients)

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
        return await opened(settings, lambda: client_for("openai_api", self._address, options))

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
        shown = value
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
        reading = functools.partial(self._read, number, read or self.json)
        signed: Mapping[str, str] = {}
        if self.keys.keys[number].value is None:
            signed = await self.provider.signed(str(url), encoded)
        try:
            return await shared.client.ask("POST", url, encoded, reading, self.where, signed)
        except (ModelMissingError, PathMissingError) as error:
            raise await self._with_near_names(shared, error) from None

    async def _read(self, number: int, read: Read, reply: HttpReply) -> Response:
        if reply.status in SUCCESSES:
            response = await read(reply)
            self._answered.add(number)
            return response
        raw = await reply.beginning()
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
        own, owner = self.provider.prefixes, owner_of(key.value or "")
        if owner is None or own in ((), provider(owner).prefixes):
            return key.hint
        return f"this looks like a key of {owner}; {key.hint}"

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
        async with shared.listing:  # many calls fail at once, and one list is enough
            if shared.models is None:
                shared.models = await self._list(shared.client)
        is_path = isinstance(error, PathMissingError)
        if is_path and self.provider.address:
            error = PathMissingError(str(error), hint=self._address_hint)
        if not shared.models or (is_path and self._model in shared.models):
            return error
        known = ", ".join(map(shared.client.show, shared.models[:_MOST_LISTED]))
        near = did_you_mean(self._model, shared.models)
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
