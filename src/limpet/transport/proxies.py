"""Which proxy and certificates do the environment variables name?

Proxies: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, in upper or lower case. Certificates:
`SSL_CERT_FILE` and `SSL_CERT_DIR`, which OpenSSL reads itself, `REQUESTS_CA_BUNDLE` and
`CURL_CA_BUNDLE`. They are read once, when a run opens its connections.
"""

import os
import ssl
from urllib import request

from limpet.errors import LimpetError
from limpet.transport.address import Address

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
