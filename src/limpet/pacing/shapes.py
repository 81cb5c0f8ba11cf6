"""Where does a foreign exception keep what it knows?

Each client's errors have a shape of their own: the status here, the headers there, the provider's
answer as a mapping, as bytes or as text. All of it is hostile input: reading it never raises, and
never reads much.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

_HEADER_LIMIT = 500
_PASSED_ON = "llm_provider-"  # LiteLLM: what the model's provider said
TEXT_LIMIT = 4000


def status_of(exc: BaseException) -> int | None:
    """Return the HTTP error status, wherever the client keeps it."""
    response = get(exc, "response")
    found = (
        get(exc, "status_code"),
        get(exc, "status"),
        get(response, "status_code"),
        get(response, "status"),
        get(exc, "code"),  # google-api-core and urllib keep the status there
        get(get(response, "ResponseMetadata"), "HTTPStatusCode"),  # botocore
    )
    for value in found:
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:  # noqa: PLR2004 - HTTP's own range of errors
            return int(value)
    return None


def codes_of(exc: BaseException) -> Iterator[str]:
    """Yield the error codes and types that an exception carries, in lower case."""
    body = get(exc, "body")
    holders = (exc, body, get(body, "error"), get(get(exc, "response"), "Error"))
    for holder in holders:
        for name in ("code", "type", "status", "Code"):
            value = get(holder, name)
            if callable(value):  # gRPC: code() is an enum
                value = get(_called(value), "name")
            if isinstance(value, str):
                yield value.lower()


def lower_cased(headers: Any) -> dict[str, str]:
    """Read headers of any client's: any mapping, or pairs; at most some hundreds of them.

    What a proxy passes on under a name of its own counts, where it says nothing itself.
    """
    try:
        pairs = headers.items() if hasattr(headers, "items") else headers
        told = {decoded(k).lower(): decoded(v) for k, v in islice(pairs, _HEADER_LIMIT)}
    except Exception:  # noqa: BLE001 - no headers after all: then they tell nothing
        return {}
    passed_on = [name for name in told if name.startswith(_PASSED_ON)]
    for name in passed_on:
        told.setdefault(name.removeprefix(_PASSED_ON), told[name])
    return told


def headers_of(exc: BaseException) -> dict[str, str]:
    """Return the response's headers, wherever the client keeps them, in lower case."""
    response = get(exc, "response")
    trailing = get(exc, "trailing_metadata")
    merged: dict[str, str] = {}
    for found in (
        _called(trailing) if callable(trailing) else None,  # gRPC
        get(get(response, "ResponseMetadata"), "HTTPHeaders"),  # botocore
        get(exc, "headers"),
        get(response, "headers"),
    ):
        if found is not None:
            merged.update(lower_cased(found))
    return merged


def gemini_details(exc: BaseException) -> list[Any]:
    """Return the details of an answer in Google's form."""
    for name in ("details", "response_json", "body"):
        found = get(exc, name)
        details = get(get(found, "error"), "details") if isinstance(found, Mapping) else found
        if isinstance(details, list):
            return details[:20]
    return []


def gemini_quota_ids(exc: BaseException) -> Iterator[str]:
    """Yield which quotas such an answer names, in lower case."""
    for detail in gemini_details(exc):
        violations = get(detail, "violations")
        for violation in violations[:20] if isinstance(violations, list) else ():
            quota = get(violation, "quotaId")
            if isinstance(quota, str):
                yield quota.lower()


def get(holder: Any, name: str) -> Any:
    """Read an attribute or a key; what is not there, or raises when asked, is None."""
    if holder is None:
        return None
    try:
        if isinstance(holder, Mapping):
            return holder.get(name)
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a foreign property may raise anything; then it tells nothing
        return None


def _called(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception:  # noqa: BLE001 - it wanted arguments, or it bites; then it tells nothing
        return None


def decoded(value: Any) -> str:
    """Return text of whatever a header is."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def text_of(exc: BaseException) -> str:
    """Return what the exception says, in lower case."""
    try:
        return str(exc)[:TEXT_LIMIT].lower()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return ""
