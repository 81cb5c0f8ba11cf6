"""What do the environment's variables say about the way to a server?

Proxies: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, in upper or lower case. Certificates:
`SSL_CERT_FILE` and `SSL_CERT_DIR`, which OpenSSL reads itself, `REQUESTS_CA_BUNDLE` and
`CURL_CA_BUNDLE`. They are read once, when a run opens its connections.
"""

import os
import ssl
from typing import NamedTuple
from urllib import request
from urllib.parse import urlsplit, urlunsplit

from limpet.errors import LimpetError
from limpet.transport.address import basic, secrets_in

_MORE_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PORTS = {"http": 80, "https": 443}


class Proxy(NamedTuple):
    """A proxy, without the credentials in its address.

    Attributes:
        url: Where it is.
        host: The same, in parts.
        port: The same, in parts.
        authorization: The header's value that the credentials become; None: there are none.
        secrets: What must not be shown.
    """

    url: str
    host: str
    port: int
    authorization: str | None = None
    secrets: tuple[str, ...] = ()


def proxy_for(scheme: str, host: str) -> Proxy | None:
    """Return the proxy for a server; None: go there directly.

    Raises:
        LimpetError: It is one that we cannot speak to.
    """
    proxies = request.getproxies_environment()
    named = proxies.get(scheme) or proxies.get("all")
    if not named or request.proxy_bypass_environment(host, proxies):  # type: ignore[attr-defined] # typeshed forgot it
        return None
    named = named if "://" in named else f"http://{named}"
    try:
        parts = urlsplit(named)
        port = parts.port
    except ValueError:
        parts, port = urlsplit("none://"), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise LimpetError(
            f"the proxy that the environment names for {scheme}:// is none that can be used: "
            f"{parts.scheme}://…",
            hint="it must look like http://host:port",
        )
    port = port or _PORTS[parts.scheme]
    place = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = urlunsplit((parts.scheme, f"{place}:{port}", "", "", ""))
    authorization = None if parts.username is None else basic(parts.username, parts.password)
    return Proxy(url, parts.hostname, port, authorization, secrets_in(parts))


def tls_context() -> ssl.SSLContext:
    """Return what decides which certificates are trusted.

    Raises:
        LimpetError: A file of certificates that the environment names cannot be read.
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
        except OSError as error:  # ssl.SSLError is one
            raise LimpetError(f"{name}={path}: no certificates can be read: {error}") from error
    return context
