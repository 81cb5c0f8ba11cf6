"""How does a call get to a server, and its response back?

A run uses one session and one pool of connections. No call is sent before `open` has connected to
the server; the pacer handles outages after that.
"""

import asyncio
import contextlib
import functools
import os
import select
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypedDict, TypeVar
from urllib import request

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import LineTooLong
from multidict import CIMultiDict
from yarl import URL

from limpet.arguments import positive_number
from limpet.errors import EndpointDownError, LimpetError, PermanentError, TransientError
from limpet.pacing.observation import observe
from limpet.secrets.masking import Secrets
from limpet.text import did_you_mean
from limpet.transport.address import Address, checked_headers
from limpet.transport.failures import MOST_HEADER_BYTES, ConnectionLostError, Show, status_error
from limpet.transport.reply import Deadlines, HttpReply, within

# ---- What do the HTTP client's exceptions mean? -------------------------------------------------
#
# Not in `failures`: importing the client takes a fifth of a second.


def translated(
    error: Exception, where: str, show: Show, connect_timeout: float | None
) -> LimpetError:
    """Return the error that describes how the call failed.

    Args:
        error: The client's exception.
        where: The call's name in messages.
        show: Formats untrusted text.
        connect_timeout: Seconds allowed for the connection.
    """
    text = show(str(error) or type(error).__name__)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ConnectionLostError(f"{where}: no connection within {connect_timeout:g} s")
        case aiohttp.ClientHttpProxyError():
            return _refused_by_proxy(error, where, show)
        case aiohttp.ClientConnectorCertificateError():  # before 3.11 it has no os_error
            text = why_not(error.certificate_error)
            return ConnectionLostError(f"{where}: no connection: {text}")
        case aiohttp.ClientConnectorError():
            return ConnectionLostError(f"{where}: no connection: {why_not(error.os_error)}")
        case aiohttp.ServerDisconnectedError():
            # Not resent, even on a reused connection: the server may have started to work on the
            # call, and every attempt is counted.
            return ConnectionLostError(f"{where}: the connection was closed without a response")
        case aiohttp.ClientPayloadError():
            why = getattr(error.__cause__, "message", None)  # aiohttp's own message is longer
            text = show(why or text).rstrip(".")
            return ConnectionLostError(f"{where}: the response is incomplete: {text}")
        case aiohttp.ClientResponseError() if _is_too_long(error):
            return PermanentError(
                f"{where}: a header of the response is longer than {MOST_HEADER_BYTES // 1024} KB"
            )
        case aiohttp.ClientResponseError():
            return TransientError(f"{where}: the response is not HTTP: {show(error.message)}")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return PermanentError(f"{where}: not a valid address")
    return ConnectionLostError(f"{where}: the connection broke: {text}")


def why_not(error: BaseException) -> str:
    """Return a short reason for a failed connection."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return str(getattr(error, "strerror", None) or error)


def _refused_by_proxy(error: aiohttp.ClientHttpProxyError, where: str, show: Show) -> LimpetError:
    text = show(error.message) if error.message else ""
    return status_error(f"{where}: its proxy", error.status, error.headers or {}, None, text)


def _is_too_long(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, LineTooLong):
        error = error.__cause__
    return error is not None


# ---- Which connections may be reused? -----------------------------------------------------------
#
# A server may send data on an idle connection: a second answer, a late one, or a goodbye. aiohttp
# would take it for the answer to the next call, and an item would get another item's answer. So a
# connection that received anything while idle, or has unread data or an end of stream, is not
# reused.
#
# aiohttp has no public way to do this. We use parts that have been there since version 3:
# `_factory` creates connections, `_release` returns one to the pool, and `is_connected` is called
# before reuse. A connection that was not created here is never reused: slower, but never wrong.


class Pool(aiohttp.TCPConnector):
    """A connection pool that drops connections which received unexpected data."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        handler: type[ResponseHandler] = _Connection
        self._factory = functools.partial(handler, loop=self._loop)

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        ours = isinstance(protocol, _Connection)
        if ours:
            protocol.idle = True
        super()._release(key, protocol, should_close=should_close or not ours)


class _Connection(ResponseHandler):
    """A connection.

    Attributes:
        idle: No call has been sent since the last answer.
    """

    idle = False
    _poll: "select.poll | None" = None

    def set_response_params(self, **params: Any) -> None:  # a call begins
        self.idle = False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if not self.idle:
            super().data_received(data)
        elif data:
            self.force_close()
            if self.transport is not None:
                self.transport.abort()

    def is_connected(self) -> bool:
        if not super().is_connected():
            return False
        return not self.idle or not (self.should_close or self._has_unread_data())

    def _has_unread_data(self) -> bool:
        """Return whether data has arrived that the event loop has not read yet."""
        if self._poll is None:  # made once: a connection keeps its socket
            transport = self.transport
            socket = None if transport is None else transport.get_extra_info("socket")
            if socket is None:
                return False
            self._poll = select.poll()  # select() is limited to 1,024 files
            self._poll.register(socket, select.POLLIN)
        return bool(self._poll.poll(0))


# ---- Which proxy and certificates do the environment variables name? ----------------------------
#
# Proxies: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, in upper or lower case.
# Certificates: `SSL_CERT_FILE` and `SSL_CERT_DIR`, which OpenSSL reads itself,
# `REQUESTS_CA_BUNDLE` and `CURL_CA_BUNDLE`. They are read once, when a run opens its connections.

_MORE_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def proxy_for(scheme: str, host: str) -> Address | None:
    """Return the proxy for a server; None: connect directly.

    Raises:
        LimpetError: The proxy is not an http or https one.
    """
    proxies = request.getproxies_environment()
    url = proxies.get(scheme) or proxies.get("all")
    if not url or request.proxy_bypass_environment(host, proxies):  # type: ignore[attr-defined] # missing in typeshed
        return None
    url = url if "://" in url else f"http://{url}"
    try:
        return Address(url, "proxy")
    except LimpetError:
        kind = url.partition("://")[0]
        shown = f"{kind}://…" if kind.isalnum() else "…"  # not more: it may contain a password
        raise LimpetError(
            f"the proxy for {scheme}:// in the environment cannot be used: {shown}",
            hint="it must look like http://host:port",
        ) from None


def tls_context() -> ssl.SSLContext:
    """Return a TLS context with the trusted certificates.

    Raises:
        LimpetError: A certificate file named in the environment cannot be read.
    """
    context = ssl.create_default_context()
    for name in _MORE_CERTIFICATES:
        if not (path := os.environ.get(name)):
            continue
        try:
            if os.path.isdir(path):  # noqa: PTH112 - the variable holds either
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except OSError as error:  # includes ssl.SSLError
            raise LimpetError(f"{name}={path}: cannot read certificates: {error}") from error
    return context


# ---- How does a call get to a server, and its response back? ------------------------------------

T = TypeVar("T")
MEBI = 2**20
_JSON = "application/json"
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD = frozenset({307, 308})
# Many servers close idle connections after 5 s, and a call on a connection being closed is lost.
# So a connection idle for longer than this is not reused.
_KEEP_ALIVE_S = 4.0


class Client:
    """Makes calls to one server.

    Args:
        address: The server's address.
        headers: The user's headers, treated as secrets.
        deadlines: How long each part of a call may take.
        max_response_mb: Maximum size of a response.
    """

    def __init__(
        self,
        address: Address,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        max_response_mb: float,
    ) -> None:
        self._address = address
        own = CIMultiDict(headers)
        if address.authorization:
            own.setdefault("Authorization", address.authorization)
        self._secrets = Secrets(own, address.secrets, address.keys)
        self.show = self._secrets.show
        self._has_credentials = bool(own)
        # No compression: it gains little on small text, and a server sends no compression bombs.
        self._headers = CIMultiDict({"Accept-Encoding": "identity", "User-Agent": "limpet"})
        self._headers.update(own)
        self._deadlines = deadlines
        self._most = int(min(max_response_mb, MEBI) * MEBI)  # a terabyte is no limit
        self._session: aiohttp.ClientSession | None = None
        self._proxy: Address | None = None
        self._proxy_headers: dict[str, str] = {}
        self._proxied_headers = self._headers

    @property
    def secrets(self) -> Iterable[str]:
        """Values that must not appear in an answer, even if the server repeats them."""
        return self._secrets.declared

    # ---- opening and closing --------------------------------------------------------------------

    async def open(self) -> None:
        """Check that the server accepts connections, and prepare to call it.

        Raises:
            EndpointDownError: No connection is possible.
            LimpetError: The environment names a proxy or certificates that cannot be used.
        """
        await self.close()  # opening again starts over
        address = self._address
        self._proxy = proxy = proxy_for(address.scheme, f"{address.host}:{address.port}")
        if proxy is not None:
            headers = {} if proxy.authorization is None else {"Authorization": proxy.authorization}
            self._secrets.add(proxy.secrets, headers)
        schemes = {address.scheme, "" if proxy is None else proxy.scheme}
        tls = tls_context() if "https" in schemes else None
        await self._try_connection(tls)
        self._set_proxy_headers(proxy)
        self._session = aiohttp.ClientSession(
            connector=Pool(
                limit=0,  # the executor limits the calls in flight
                ssl=True if tls is None else tls,
                keepalive_timeout=_KEEP_ALIVE_S,
                ttl_dns_cache=60,
            ),
            # No cookies: an item's call must not affect the next.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._deadlines.connect_timeout),
            auto_decompress=False,  # `HttpReply` does it, in pieces of bounded size
            max_line_size=MOST_HEADER_BYTES,
            max_field_size=MOST_HEADER_BYTES,
        )

    def _set_proxy_headers(self, proxy: Address | None) -> None:
        # Without a tunnel, the proxy's credentials go with the call. With one, they go with
        # CONNECT only: the server must not see them, nor the proxy our headers. So the session has
        # no headers of its own: aiohttp would send them to both.
        authorization = None if proxy is None else proxy.authorization
        self._proxy_headers = (
            {} if authorization is None else {"Proxy-Authorization": authorization}
        )
        self._proxied_headers = CIMultiDict({**self._headers, **self._proxy_headers})

    async def _try_connection(self, tls: ssl.SSLContext | None) -> None:
        """Open a connection and close it, without making a call."""
        address, proxy = self._address, self._proxy
        if proxy is None:
            who, host, port = address.origin, address.host, address.port
            tls = tls if address.scheme == "https" else None
        else:
            who, host, port = f"{address.origin}: its proxy {proxy.origin}", proxy.host, proxy.port
            tls = tls if proxy.scheme == "https" else None
        opening = asyncio.open_connection(host, port, ssl=tls)
        seconds = self._deadlines.connect_timeout
        try:
            _, writer = await within(seconds, opening, f"{who}: no connection")
        except ssl.SSLCertVerificationError as error:
            raise EndpointDownError(
                f"{who}: its certificate is not trusted: {error.verify_message}",
                hint="set SSL_CERT_FILE to a file with the certificates to trust",
            ) from error
        except OSError as error:  # includes TooSlowError, ssl.SSLError and unknown host names
            why = str(error) if isinstance(error, LimpetError) else f"{who}: {why_not(error)}"
            raise EndpointDownError(
                why, hint="start the server, or check the address; nothing was called"
            ) from error
        writer.close()
        with contextlib.suppress(OSError):  # the server is there: that is enough
            await asyncio.wait_for(writer.wait_closed(), 1.0)

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # ---- a call ---------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        read: Callable[[HttpReply], Awaitable[T]],
        where: str,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Make a call, and return what `read` returns for the response.

        Args:
            method: The HTTP method.
            url: The URL.
            body: The JSON body; None: no body.
            read: Reads the response.
            where: The call's name in messages.
            headers: Headers of this call only.

        Raises:
            LimpetError: The call failed; the type says how.
        """
        work = self._ask(method, url, body, read, where, headers)
        # No wrapper without a deadline: this runs for every item.
        deadline = self._deadlines.timeout
        try:
            if deadline is None:
                return await work
            return await within(deadline, work, f"{where}: no complete answer")
        except LimpetError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            seconds = self._deadlines.connect_timeout
            raise translated(error, where, self.show, seconds) from error

    async def _ask(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        read: Callable[[HttpReply], Awaitable[T]],
        where: str,
        headers: Mapping[str, str] | None,
    ) -> T:
        deadlines = self._deadlines
        for _ in range(_MOST_REDIRECTS + 1):
            sending = self._send(method, url, body, headers)
            if deadlines.first_byte_timeout is None:
                response = await sending
            else:
                late = f"{where}: no response"
                response = await within(deadlines.first_byte_timeout, sending, late)
            try:
                if response.status not in _REDIRECTS:
                    observe(headers=response.headers)
                    pause_s = deadlines.between_bytes_timeout
                    return await read(HttpReply(response, where, self._most, pause_s))
                secret = self._has_credentials or bool(headers)
                url = self._redirected(response, method, url, where, secret=secret)
            finally:
                response.release()  # closes the connection if the body was not read to its end
        raise PermanentError(f"{where}: redirected more than {_MOST_REDIRECTS} times")

    def _send(
        self, method: str, url: URL, body: bytes | None, headers: Mapping[str, str] | None
    ) -> Awaitable[aiohttp.ClientResponse]:
        if self._session is None:
            raise LimpetError("the client is not open", hint="await its open() first")
        tunnel = url.scheme == "https"
        own = self._headers if tunnel else self._proxied_headers
        if headers:
            everything = CIMultiDict(headers)
            everything.update(own)  # the user's come first
            own = everything
        return self._session.request(
            method,
            url,
            headers=own,
            # Made here: aiohttp would search for a fitting payload type.
            data=None if body is None else aiohttp.BytesPayload(body, content_type=_JSON),
            allow_redirects=False,
            proxy=None if self._proxy is None else self._proxy.origin,
            proxy_headers=self._proxy_headers if tunnel else None,
        )

    def _redirected(
        self, response: aiohttp.ClientResponse, method: str, url: URL, where: str, *, secret: bool
    ) -> URL:
        """Return the target of a redirect, if it may be followed."""
        status = response.status
        location = response.headers.get("Location", "")
        try:
            target = url.join(URL(location, encoded=True))
            shown = f"{target.origin()}{target.raw_path}"
        except ValueError:
            target, shown = url, ""
        if not location or not shown:
            raise PermanentError(
                f"{where}: status {status} without a valid location: {self.show(location)}"
            )
        shown = self.show(shown)
        if status not in _SAME_METHOD and method not in ("GET", "HEAD"):
            raise PermanentError(
                f"{where}: status {status} redirects to {shown}, which would drop the request body",
                hint="use that address if it is the right one",
            )
        moved = (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port)
        safer = target.scheme == "https" and url.scheme == "http" and target.host == url.host
        if moved and not safer and secret:
            raise PermanentError(
                f"{where}: redirects to another server, {shown}: headers are not sent there",
                hint="use that address if it is the right one",
            )
        return target


# ---- Which options does every HTTP call take? ---------------------------------------------------


class CallOptions(TypedDict, total=False):
    """Options of every remote workflow and model.

    Attributes:
        headers: Headers to send. Their values are secrets: never shown, not in any fingerprint.
        connect_timeout: Seconds to connect (10).
        first_byte_timeout: Seconds until the response begins, including connecting.
        between_bytes_timeout: Seconds between two pieces of the response.
        timeout: Seconds for the entire call.
        max_response_mb: A larger response is a failure (64).
    """

    headers: Mapping[str, str] | None
    connect_timeout: float | None
    first_byte_timeout: float | None
    between_bytes_timeout: float | None
    timeout: float | None
    max_response_mb: float


def client_for(kind: str, address: Address, options: CallOptions) -> Client:
    """Return a client for a server.

    Args:
        kind: The kind of workflow or model, for messages.
        address: The server's address.
        options: How to call it.

    Raises:
        LimpetError: A header cannot be sent.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    known = CallOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"{name!r} is not an option of {kind}{did_you_mean(name, known)}")
    deadlines = Deadlines(
        options.get("connect_timeout", 10.0),
        options.get("first_byte_timeout"),
        options.get("between_bytes_timeout"),
        options.get("timeout"),
    )
    max_response_mb = positive_number(max_response_mb=options.get("max_response_mb", 64))
    return Client(address, checked_headers(options.get("headers")), deadlines, max_response_mb)
