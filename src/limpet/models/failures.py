"""Why does a model's server refuse a call: the key, the model, or this request?"""

import re
from collections.abc import Mapping
from typing import Any

from limpet.errors import LimpetError, PermanentError, QuotaExhaustedError, SetupError
from limpet.transport.failures import (
    NOT_FOUND,
    WRONG_METHOD,
    Show,
    StatusError,
    said_error,
    status_error,
)

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN = 400, 401, 403
_REFUSES_REQUEST = (BAD_REQUEST, 422, 501)  # servers differ
_OF_ONE_REQUEST = frozenset(
    {"context_length_exceeded", "content_filter", "string_above_max_length", "invalid_prompt"}
)
KEY_REFUSED, MODEL_MISSING = "invalid_api_key", "model_not_found"
QUOTA_EXHAUSTED = "insufficient_quota"
_MISSING_CODES = frozenset({MODEL_MISSING, "model_decommissioned", "deploymentnotfound"})
_SAYS_MISSING = re.compile(r"(?is)\bmodels?\W.{0,200}(?:not found|not exist)|invalid model name")
_ABOUT_KEY = re.compile(r"(?i)key|token|credential|permission|auth|access|denied|organi[sz]ation")
_ABOUT_PROMPT = re.compile(r"(?i)moderation|flagged|content|policy")


QUOTA_HINT = "top up the account or wait for its reset, then run again"
PATH_HINT = "check the address; most servers' addresses end with /v1"


class KeyRefusedError(SetupError):
    """The server refuses the key."""


class ModelMissingError(SetupError):
    """The server does not have the model."""


class PathMissingError(SetupError):
    """The server has nothing at the path."""


class BadRequestError(PermanentError):
    """The server refuses the request: an unknown parameter, or this prompt.

    Attributes:
        form: Another form of the reply may be accepted.
    """

    form: bool = True


def refusal(
    where: str,
    status: int,
    headers: Mapping[str, str],
    body: Any,
    said: str,
    key: str,
    *,
    answered: bool = False,
) -> LimpetError:
    """Return the error for an error status of a model's server.

    The text may repeat the prompt, so it is searched for problems with the model only until the
    first answer.

    Args:
        where: The model's name and address.
        status: The status.
        headers: The response's headers.
        body: The response's JSON; None if it is not JSON.
        said: The response's text, safe to show.
        key: What to do about the key.
        answered: Whether the model has answered before.
    """
    error = status_error(where, status, headers, body, said)
    message, code = str(error), _code_in(body)
    if status == UNAUTHORIZED or code == KEY_REFUSED:
        return KeyRefusedError(message, hint=key)
    if code == QUOTA_EXHAUSTED and not isinstance(error, StatusError):  # the pacer reads those
        return QuotaExhaustedError(message, hint=QUOTA_HINT)
    if status == FORBIDDEN and not answered and _is_about_key(said):
        return KeyRefusedError(message, hint=key)
    if status in (BAD_REQUEST, NOT_FOUND):
        says_missing = not answered and _SAYS_MISSING.search(said) is not None
        if code in _MISSING_CODES or says_missing:
            return ModelMissingError(message)
    if status in (NOT_FOUND, WRONG_METHOD) and not answered:
        return PathMissingError(message, hint=PATH_HINT)
    if status in _REFUSES_REQUEST:
        bad = BadRequestError(message)
        bad.form, bad.status = code not in _OF_ONE_REQUEST, status
        return bad
    return error


def said_in(body: Any, text: str, show: Show) -> str:
    """Return the server's message for a failure, or else its text."""
    error = said_error(body)
    message = error.get("message") if isinstance(error, dict) else error
    return show(message if isinstance(message, str) and message else text)


def _code_in(body: Any) -> str | None:
    error = said_error(body)
    code = error.get("code") if isinstance(error, dict) else None
    return code.lower() if isinstance(code, str) else None


def _is_about_key(said: str) -> bool:
    return bool(_ABOUT_KEY.search(said)) and not _ABOUT_PROMPT.search(said)
