"""Which error does the toolkit's error object raise?

The toolkit passes on the name of the exception that the agent raised, as `details`.
"""

from collections.abc import Mapping
from typing import Any

from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.transport.failures import Show, StatusError

_RATE_LIMITED = 429
_LIMIT_NAMES = ("RateLimit", "TooManyRequests", "ResourceExhausted", "Throttl")
_PERMANENT_NAMES = ("NameError", "UnboundLocalError", "SyntaxError", "ImportError",
                    "ModuleNotFoundError", "NotImplementedError", "AuthenticationError",
                    "PermissionDeniedError")  # fmt: skip


class WorkflowFailedError(TransientError):
    """The agent behind the server raised an exception."""


def agent_failure(where: str, error: Mapping[str, Any], show: Show) -> LimpetError:
    """Return the error for the toolkit's error object, by the exception it names."""
    name = error.get("details")
    name = name if isinstance(name, str) else ""
    parts = [show(part) for part in (name, error.get("message", error)) if part]
    message = f"{where}: the workflow failed: {': '.join(parts)}"
    if any(part in name for part in _LIMIT_NAMES):
        return StatusError(message, status=_RATE_LIMITED)
    if name.rpartition(".")[2] in _PERMANENT_NAMES:
        return PermanentError(message)
    return WorkflowFailedError(message)


def is_agent_error(value: Any) -> bool:
    """Return whether a value is the toolkit's error object."""
    return (
        isinstance(value, dict)
        and "value" not in value
        and isinstance(value.get("code"), str)
        and "message" in value
    )
