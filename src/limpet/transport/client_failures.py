"""What do the HTTP client's exceptions mean?

Apart from `failures`, as importing the client takes a fifth of a second.
"""

import ssl

import aiohttp
from aiohttp.http_exceptions import LineTooLong

from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.transport.failures import MOST_HEADER_BYTES, ConnectionLostError, Show, status_error


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
            return ConnectionLostError(f"{where}: the connection was closed, without a response")
        case aiohttp.ClientPayloadError():
            why = getattr(error.__cause__, "message", None)  # aiohttp's own message is longer
            text = show(why or text).rstrip(".")
            return ConnectionLostError(f"{where}: the response breaks off: {text}")
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
    """Return a short reason why there is no connection."""
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
