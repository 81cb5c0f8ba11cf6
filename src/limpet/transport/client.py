"""How does a call get to a server, and its response back?

One session and one pool of connections for a run. Nothing is sent before `open` has found somebody
there; what becomes of a server later is the pacer's matter.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from limpet.errors import EndpointDownError, LimpetError, PermanentError
from limpet.pacing.observation import observe
from limpet.secrets.in_replies import Secrets
from limpet.transport.address import Address
from limpet.transport.client_errors import MOST_HEADER_BYTES, translated, why_not
from limpet.transport.deadlines import Deadlines, within
from limpet.transport.pool import Pool
from limpet.transport.proxies import Proxy, proxy_for, tls_context
from limpet.transport.reply import Reply

T = TypeVar("T")
MEBI = 2**20
_JSON = "application/json"
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD = frozenset({307, 308})
# Many servers close an idle connection after 5 s; one that is older than this is not used again,
# for a call that meets a connection being closed is lost.
_KEEP_ALIVE_S = 4.0


class Client:
    """Makes the calls of one workflow.

    Args:
        address: Where they go.
        headers: The user's, which are secrets.
        deadlines: How long each part may take.
        max_response_mb: How much of a response is taken.
    """

    def __init__(
        self,
        address: Address,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        max_response_mb: float,
    ) -> None:
        self._address = address
        own = dict(headers)
        if address.authorization and not any(n.lower() == "authorization" for n in own):
            own["Authorization"] = address.authorization
        self._secrets = Secrets(own, address.secrets, address.keys)
        self.show = self._secrets.show
        self._has_credentials = bool(own)
        # Nothing packed: text this small gains little, and a packed bomb is not even sent.
        ours = {"Accept-Encoding": "identity", "User-Agent": "limpet"}
        ours = {n: v for n, v in ours.items() if n.lower() not in {o.lower() for o in own}}
        self._headers = CIMultiDict({**ours, **own})
        self._deadlines = deadlines
        self._most = int(max_response_mb * MEBI)
        self._session: aiohttp.ClientSession | None = None
        self._proxy: Proxy | None = None
        self._proxy_headers: dict[str, str] = {}
        self._proxied_headers = self._headers

    @property
    def secrets(self) -> Iterable[str]:
        """What must not stand in an answer, though the server may repeat it."""
        return self._secrets.declared

    # ---- before and after -----------------------------------------------------------------------

    async def open(self) -> None:
        """Find out that somebody is there, and get ready to call.

        Raises:
            EndpointDownError: Nobody is.
            LimpetError: The environment names a proxy or certificates that cannot be used.
        """
        await self.close()  # opened twice is opened anew
        address = self._address
        self._proxy = proxy = proxy_for(address.scheme, f"{address.host}:{address.port}")
        if proxy is not None:
            told = {} if proxy.authorization is None else {"Authorization": proxy.authorization}
            self._secrets.add(proxy.secrets, told)
        schemes = {address.scheme, "" if proxy is None else proxy.url.partition(":")[0]}
        tls = tls_context() if "https" in schemes else None
        await self._find(tls)
        self._say_to_proxy(proxy)
        self._session = aiohttp.ClientSession(
            connector=Pool(
                limit=0,  # how many calls are in flight is the executor's matter
                ssl=True if tls is None else tls,
                keepalive_timeout=_KEEP_ALIVE_S,
                ttl_dns_cache=60,
            ),
            # Items are asked one by one: none may leave something behind for the next.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._deadlines.connect_timeout),
            auto_decompress=False,  # done by us, piece by piece
            max_line_size=MOST_HEADER_BYTES,
            max_field_size=MOST_HEADER_BYTES,
        )

    def _say_to_proxy(self, proxy: Proxy | None) -> None:
        # What is said to the proxy stands beside a call that it passes on, and before a tunnel,
        # through which the server would read it; there the proxy is to read none of ours either.
        # So no header is the session's own: aiohttp would say those to both.
        told = None if proxy is None else proxy.authorization
        self._proxy_headers = {} if told is None else {"Proxy-Authorization": told}
        self._proxied_headers = CIMultiDict({**self._headers, **self._proxy_headers})

    async def _find(self, tls: ssl.SSLContext | None) -> None:
        """Open a connection and close it: no call is made."""
        address, proxy = self._address, self._proxy
        if proxy is None:
            who, host, port = address.origin, address.host, address.port
            tls = tls if address.scheme == "https" else None
        else:
            who, host, port = f"{address.origin}: its proxy {proxy.url}", proxy.host, proxy.port
            tls = tls if proxy.url.startswith("https") else None
        opening = asyncio.open_connection(host, port, ssl=tls)
        seconds = self._deadlines.connect_timeout
        try:
            _, writer = await within(seconds, opening, f"{who}: no connection")
        except ssl.SSLCertVerificationError as error:
            raise EndpointDownError(
                f"{who}: its certificate is not trusted: {error.verify_message}",
                hint="SSL_CERT_FILE names a file with the certificates to trust",
            ) from error
        except OSError as error:  # TooSlowError is one, ssl.SSLError and a name unknown too
            why = str(error) if isinstance(error, LimpetError) else f"{who}: {why_not(error)}"
            raise EndpointDownError(
                why, hint="start the server, or check the address; nothing was called"
            ) from error
        writer.close()
        with contextlib.suppress(OSError):  # it was there: that is all we wanted to know
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
        read: Callable[[Reply], Awaitable[T]],
        where: str,
    ) -> T:
        """Make a call, and return what `read` makes of the response.

        Args:
            method: How.
            url: Where to.
            body: What is sent, JSON; None: nothing.
            read: Takes the response.
            where: What the call is called in messages.

        Raises:
            LimpetError: It failed; the type tells the kind of the failure.
        """
        work = self._ask(method, url, body, read, where)
        # Without a deadline nothing is put around it: this is passed once for every item.
        deadline = self._deadlines.timeout
        try:
            if deadline is None:
                return await work
            return await within(deadline, work, f"{where}: no whole answer")
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
        read: Callable[[Reply], Awaitable[T]],
        where: str,
    ) -> T:
        deadlines = self._deadlines
        for _ in range(_MOST_REDIRECTS + 1):
            sending = self._send(method, url, body)
            if deadlines.first_byte_timeout is None:
                response = await sending
            else:
                late = f"{where}: no response"
                response = await within(deadlines.first_byte_timeout, sending, late)
            try:
                if response.status not in _REDIRECTS:
                    observe(headers=response.headers)
                    pause_s = deadlines.between_bytes_timeout
                    return await read(Reply(response, where, self._most, pause_s))
                url = self._redirected(response, method, url, where)
            finally:
                response.release()  # an unread rest closes the connection
        raise PermanentError(f"{where}: redirected more than {_MOST_REDIRECTS} times")

    def _send(self, method: str, url: URL, body: bytes | None) -> Awaitable[aiohttp.ClientResponse]:
        if self._session is None:
            raise LimpetError("the workflow is not open", hint="await workflow.open() first")
        tunnel = url.scheme == "https"
        return self._session.request(
            method,
            url,
            headers=self._headers if tunnel else self._proxied_headers,
            # Made here, for aiohttp would look for what fits.
            data=None if body is None else aiohttp.BytesPayload(body, content_type=_JSON),
            allow_redirects=False,
            proxy=None if self._proxy is None else self._proxy.url,
            proxy_headers=self._proxy_headers if tunnel else None,
        )

    def _redirected(
        self, response: aiohttp.ClientResponse, method: str, url: URL, where: str
    ) -> URL:
        """Return where a redirect leads, if we may follow."""
        status = response.status
        named = response.headers.get("Location", "")
        try:
            target = url.join(URL(named, encoded=True))
            shown = f"{target.origin()}{target.raw_path}"
        except ValueError:
            target, shown = url, ""
        if not named or not shown:
            raise PermanentError(f"{where}: status {status} leads nowhere: {self.show(named)}")
        shown = self.show(shown)
        if status not in _SAME_METHOD and method not in ("GET", "HEAD"):
            raise PermanentError(
                f"{where}: status {status} redirects to {shown}, and would lose what is sent",
                hint="give that address, if it is the right one",
            )
        moved = (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port)
        safer = target.scheme == "https" and url.scheme == "http" and target.host == url.host
        if moved and not safer and self._has_credentials:
            raise PermanentError(
                f"{where}: redirects to another server, {shown}: headers are not sent there",
                hint="give that address, if it is the right one",
            )
        return target
