"""Which error is it when a call over HTTP fails?

The kind decides what becomes of the call, and the executors read it off the error: by its type, or
by status and headers. So one thing matters here: to raise an error of the right shape. What the
server says in it is hostile, and is shown on one line, cut short.
"""

from collections.abc import Callable, Mapping
from typing import Any

from limpet.errors import LimpetError, PermanentError, SetupError, TransientError

Show = Callable[[object], str]
"""Shows something of the server's: on one line, cut short, without our secrets."""

# Below 500 these may pass by themselves; any other is the request's own fault.
PASSING_STATUSES = frozenset({402, 408, 409, 425, 429})
_CREDENTIAL_HINTS = {
    401: "give the credentials it wants as headers, and run again",
    407: "put the proxy's user and password into its address, as HTTPS_PROXY or HTTP_PROXY has it: "
    "http://user:password@host:port",
}
UNPROCESSABLE = 422
NOT_FOUND, WRONG_METHOD = 404, 405
# They are a success, and yet the answer is not in what came.
_NO_ANSWER = {
    202: "the work is only begun, and the answer is not here",
    204: "there is no content, and so no answer",
    205: "there is no content, and so no answer",
    206: "it is only a part of the answer",
}
SUCCESSES = frozenset(range(200, 300)) - _NO_ANSWER.keys()
"""The statuses of an answer."""
_SERVER_ERROR = 500
_RATE_LIMITED = 429
_MOST_HEADERS = 100

# What an agent's own exception tells by its name, where the server passes it on.
_LIMIT_NAMES = ("RateLimit", "TooManyRequests", "ResourceExhausted", "Throttl")
_PERMANENT_NAMES = frozenset(
    {
        "NameError",
        "UnboundLocalError",
        "SyntaxError",
        "ImportError",
        "ModuleNotFoundError",
        "NotImplementedError",
        "AuthenticationError",
        "PermissionDeniedError",
    }
)

_BESIDE_AN_ERROR = frozenset(
    {
        "error",
        "error_code",
        "error_description",
        "code",
        "detail",
        "details",
        "id",
        "jsonrpc",
        "message",
        "object",
        "ok",
        "path",
        "request_id",
        "status",
        "status_code",
        "success",
        "timestamp",
        "trace_id",
        "type",
    }
)


class StatusError(LimpetError):
    """The server answered with a status that is no success; status and headers tell what to do.

    Attributes:
        status: The status.
        headers: The response's headers, with lower-case names.
        body: What it said, if that was a JSON object.
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
    """There is no connection, or it broke: perhaps the server is down."""


class TooSlowError(TransientError, TimeoutError):
    """A deadline passed: perhaps the server is down."""


class WorkflowFailedError(TransientError):
    """The agent behind the server raised an exception of its own."""


def refused(
    where: str, status: int, headers: Mapping[str, str], body: Any, said: str
) -> LimpetError:
    """Return the error of a status that is no success.

    Args:
        where: Who answered.
        status: The status.
        headers: The response's headers.
        body: What it said, as JSON; None if it is none.
        said: The same, as it is shown.
    """
    parts = (f"{where}: status {status}", _NO_ANSWER.get(status), said)
    message = ": ".join(part for part in parts if part)
    if status in _CREDENTIAL_HINTS:
        return SetupError(message, hint=_CREDENTIAL_HINTS[status])
    if status >= _SERVER_ERROR or status in PASSING_STATUSES:
        return StatusError(message, status=status, headers=headers, body=body)
    return PermanentError(message)


def agent_failure(where: str, said: Mapping[str, Any], show: Show) -> LimpetError:
    """Return the error of the toolkit's error object, by the exception that it names."""
    name = said.get("details")
    name = name if isinstance(name, str) else ""
    parts = [show(part) for part in (name, said.get("message", said)) if part]
    message = f"{where}: the workflow failed: {': '.join(parts)}"
    if any(part in name for part in _LIMIT_NAMES):
        return StatusError(message, status=_RATE_LIMITED)
    if name.rpartition(".")[2] in _PERMANENT_NAMES:
        return PermanentError(message)
    return WorkflowFailedError(message)


def is_agent_error(value: Any) -> bool:
    """Tell whether a value is the toolkit's error object."""
    return (
        isinstance(value, dict)
        and "value" not in value
        and isinstance(value.get("code"), str)
        and "message" in value
    )


def said_error(value: Any) -> Any:
    """Return what an object says under `error`; None if it says that nothing went wrong.

    A number is none of it: an agent may be asked for the error of a measurement.
    """
    error = value.get("error") if isinstance(value, dict) else None
    if error is True:
        return value
    return error if error and isinstance(error, (str, list, dict)) else None


def is_only_error(value: Any) -> bool:
    """Tell whether an object says that something went wrong, and nothing that could be an answer.

    Conservative: with any other key that has a value, it is an answer.
    """
    if said_error(value) is None:
        return False
    return {key for key, one in value.items() if one is not None} <= _BESIDE_AN_ERROR


def wanted_fields(detail: Any, show: Show) -> str:
    """Say which fields a server that validates its requests found wrong, and why."""
    if not isinstance(detail, list):
        return show(detail)
    found = []
    for one in detail[:5]:
        place = one.get("loc") if isinstance(one, dict) else None
        if not isinstance(place, list):
            found.append(show(one))
            continue
        names = [str(part) for part in place if part != "body"] or ["the body"]
        found.append(show(f"{'.'.join(names)!r}: {one.get('msg', 'not accepted')}"))
    return "; ".join(found) or "its detail is empty"
