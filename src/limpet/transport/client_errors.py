"""What does it mean for a call when the HTTP client raises?"""

import ssl

import aiohttp
from aiohttp.http_exceptions import LineTooLong

from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.transport.failures import ConnectionLostError, Show, refused

MOST_HEADER_BYTES = 2**16
"""How long one line of a response's head may be. Some gateways put tokens of many kilobytes there,
and aiohttp alone would stop at 8,190."""


def translated(
    error: Exception, where: str, show: Show, connect_timeout: float | None
) -> LimpetError:
    """Return the error that says what became of the call.

    Args:
        error: What the client raised.
        where: What the call is called.
        show: How what others say is shown.
        connect_timeout: Seconds that the connection could take.
    """
    said = show(str(error) or type(error).__name__)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ConnectionLostError(f"{where}: no connection within {connect_timeout:g} s")
        case aiohttp.ClientHttpProxyError():
            return _refused_by_proxy(error, where, show)
        case aiohttp.ClientConnectorCertificateError():  # before 3.11 it has no os_error
            said = why_not(error.certificate_error)
            return ConnectionLostError(f"{where}: no connection: {said}")
        case aiohttp.ClientConnectorError():
            return ConnectionLostError(f"{where}: no connection: {why_not(error.os_error)}")
        case aiohttp.ServerDisconnectedError():
            # Also on a connection that was used before: the server may have taken the call and
            # begun to work, so nothing is sent again behind the back of whoever counts attempts.
            return ConnectionLostError(f"{where}: the connection was closed, without a response")
        case aiohttp.ClientPayloadError():
            why = getattr(error.__cause__, "message", None)  # aiohttp's own words are longer
            said = show(why or said).rstrip(".")
            return ConnectionLostError(f"{where}: the response breaks off: {said}")
        case aiohttp.ClientResponseError() if _is_too_long(error):
            return PermanentError(
                f"{where}: a header of the response is longer than {MOST_HEADER_BYTES // 1024} KB"
            )
        case aiohttp.ClientResponseError():
            return TransientError(f"{where}: what came is not HTTP: {show(error.message)}")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return PermanentError(f"{where}: no address that can be called")
    return ConnectionLostError(f"{where}: the connection broke: {said}")


def why_not(error: BaseException) -> str:
    """Say in few words why there is no connection."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody answers there (connection refused)"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS as we do: {error.reason or error}"
    return str(getattr(error, "strerror", None) or error)


def _refused_by_proxy(error: aiohttp.ClientHttpProxyError, where: str, show: Show) -> LimpetError:
    said = show(error.message) if error.message else ""
    return refused(f"{where}: its proxy", error.status, error.headers or {}, None, said)


def _is_too_long(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, LineTooLong):
        error = error.__cause__
    return error is not None
