"""Which proxy and certificates do the environment variables name?

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
        url: Its URL.
        host: Its host.
        port: Its port.
        authorization: Header value made of its credentials; None: it has none.
        secrets: Parts that must not be shown.
    """

    url: str
    host: str
    port: int
    authorization: str | None = None
    secrets: tuple[str, ...] = ()


def proxy_for(scheme: str, host: str) -> Proxy | None:
    """Return the proxy for a server; None: connect directly.

    Raises:
        LimpetError: The proxy is not an http or https one.
    """
    proxies = request.getproxies_environment()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or request.proxy_bypass_environment(host, proxies):  # type: ignore[attr-defined] # missing in typeshed
        return None
    address = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        parts, port = urlsplit("none://"), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise LimpetError(
            f"the proxy for {scheme}:// in the environment cannot be used: {parts.scheme}://…",
            hint="it must look like http://host:port",
        )
    port = port or _PORTS[parts.scheme]
    hostname = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = urlunsplit((parts.scheme, f"{hostname}:{port}", "", "", ""))
    authorization = None if parts.username is None else basic(parts.username, parts.password)
    return Proxy(url, parts.hostname, port, authorization, secrets_in(parts))


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
