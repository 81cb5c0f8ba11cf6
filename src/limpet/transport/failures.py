"""Which error does a failed HTTP call raise?

Executors decide what to do by the error's type, or by its status and headers. The server's text is
untrusted: it is shown on one line, shortened. `client.py` translates the HTTP client's own
exceptions.
"""

from collections.abc import Callable, Mapping
from typing import Any

from limpet.errors import LimpetError, PermanentError, SetupError, TransientError

Show = Callable[[object], str]
"""Formats text from the server: on one line, shortened, without our secrets."""

MOST_HEADER_BYTES = 2**16
"""Maximum length of a header line. Some gateways send tokens of many kilobytes, and aiohttp's own
limit is 8,190."""
# Statuses below 500 that may succeed later; any other is the request's fault.
_PASSING_STATUSES = frozenset({402, 408, 409, 425, 429})
_CREDENTIAL_HINTS = {
    401: "pass the credentials as headers, and run again",
    407: "put the proxy's user and password into HTTPS_PROXY or HTTP_PROXY: "
    "http://user:password@host:port",
}
UNPROCESSABLE = 422
NOT_FOUND, WRONG_METHOD = 404, 405
# Successful, but without a complete answer.
_NO_ANSWER = {
    202: "accepted, but the answer is not ready",
    204: "no content, so no answer",
    205: "no content, so no answer",
    206: "only part of the answer",
}
SUCCESSES = frozenset(range(200, 300)) - _NO_ANSWER.keys()
"""Statuses with an answer."""
_SERVER_ERROR = 500
_MOST_HEADERS = 100

_BESIDE_AN_ERROR = {"error", "error_code", "error_description", "code", "detail", "details", "id",
                    "jsonrpc", "message", "object", "ok", "path", "request_id", "status",
                    "status_code", "success", "timestamp", "trace_id", "type"}  # fmt: skip


class StatusError(LimpetError):
    """The server responded with an error status.

    Attributes:
        status: The status.
        headers: The response's headers, with lower-case names.
        body: The response's body, if it is a JSON object.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: int = 0,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        pairs = list((headers or {}).items())[:_MOST_HEADERS]
        self.headers = {name.lower(): value for name, value in pairs}
        self.body = body if isinstance(body, dict) else None


class ConnectionLostError(TransientError, ConnectionError):
    """The connection failed or broke: the server may be down."""


class TooSlowError(TransientError, TimeoutError):
    """A deadline passed: the server may be down."""


def status_error(
    where: str, status: int, headers: Mapping[str, str], body: Any, text: str
) -> LimpetError:
    """Return the error for an error status.

    Args:
        where: The call's name in messages.
        status: The status.
        headers: The response's headers.
        body: The response's JSON; None if it is not JSON.
        text: The response's text for the message.
    """
    parts = (f"{where}: status {status}", _NO_ANSWER.get(status), text)
    message = ": ".join(part for part in parts if part)
    if status in _CREDENTIAL_HINTS:
        return SetupError(message, hint=_CREDENTIAL_HINTS[status])
    if status >= _SERVER_ERROR or status in _PASSING_STATUSES:
        return StatusError(message, status=status, headers=headers, body=body)
    error = PermanentError(message)
    error.status = status
    return error


def said_error(value: Any) -> Any:
    """Return an object's `error`; None if it reports no error.

    A number is not an error report: an agent may return a measurement error.
    """
    error = value.get("error") if isinstance(value, dict) else None
    if error is True:
        return value
    return error if error and isinstance(error, (str, list, dict)) else None


def is_only_error(value: Any) -> bool:
    """Return whether an object reports an error and contains no possible answer.

    Any other key with a value makes it an answer.
    """
    if said_error(value) is None:
        return False
    return {key for key, part in value.items() if part is not None} <= _BESIDE_AN_ERROR


def wanted_fields(detail: Any, show: Show) -> str:
    """Return the fields that failed the server's validation, with the reasons."""
    if not isinstance(detail, list):
        return show(detail)
    problems = []
    for problem in detail[:5]:
        location = problem.get("loc") if isinstance(problem, dict) else None
        if not isinstance(location, list):
            problems.append(show(problem))
            continue
        names = [str(part) for part in location if part != "body"] or ["the body"]
        problems.append(show(f"{'.'.join(names)!r}: {problem.get('msg', 'not accepted')}"))
    return "; ".join(problems) or "its detail is empty"
