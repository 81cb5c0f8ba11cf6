"""Where does a client's exception keep its status, headers and error code?

Each client library stores them differently: the provider's answer may be a mapping, bytes or a
string. All of it is untrusted input: reading it never raises, and reads a bounded amount.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

_HEADER_LIMIT = 500
_FORWARDED = "llm_provider-"  # LiteLLM: headers of the model's provider
TEXT_LIMIT = 4000


def status_of(exc: BaseException) -> int | None:
    """Return the HTTP error status, wherever the client keeps it."""
    response = get(exc, "response")
    candidates = (
        get(exc, "status_code"),
        get(exc, "status"),
        get(response, "status_code"),
        get(response, "status"),
        get(exc, "code"),  # google-api-core and urllib keep the status there
        get(get(response, "ResponseMetadata"), "HTTPStatusCode"),  # botocore
    )
    for value in candidates:
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:  # noqa: PLR2004 - HTTP's own range of errors
            return int(value)
    return None


def codes_of(exc: BaseException) -> Iterator[str]:
    """Yield an exception's error codes and types, in lower case."""
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
    """Read any client's headers: a mapping or pairs, up to a limit.

    Headers that a proxy forwards under its own prefix are used where it sends none itself.
    """
    try:
        pairs = headers.items() if hasattr(headers, "items") else headers
        lowered = {
            # Most are strings, and this runs for each call.
            (name if isinstance(name, str) else decoded(name)).lower(): (
                value if type(value) is str else decoded(value)
            )
            for name, value in islice(pairs, _HEADER_LIMIT)
        }
    except Exception:  # noqa: BLE001 - not headers: nothing to read
        return {}
    forwarded = [name for name in lowered if name.startswith(_FORWARDED)]
    for name in forwarded:
        lowered.setdefault(name.removeprefix(_FORWARDED), lowered[name])
    return lowered


def headers_of(exc: BaseException) -> dict[str, str]:
    """Return the response's headers, wherever the client keeps them, in lower case."""
    response = get(exc, "response")
    trailing = get(exc, "trailing_metadata")
    merged: dict[str, str] = {}
    for headers in (
        _called(trailing) if callable(trailing) else None,  # gRPC
        get(get(response, "ResponseMetadata"), "HTTPHeaders"),  # botocore
        get(exc, "headers"),
        get(response, "headers"),
    ):
        if headers is not None:
            merged.update(lower_cased(headers))
    return merged


def gemini_details(exc: BaseException) -> list[Any]:
    """Return the details of an error response in Google's format."""
    for name in ("details", "response_json", "body"):
        body = get(exc, name)
        details = get(get(body, "error"), "details") if isinstance(body, Mapping) else body
        if isinstance(details, list):
            return details[:20]
    return []


def gemini_quota_ids(exc: BaseException) -> Iterator[str]:
    """Yield the quota ids in such a response, in lower case."""
    for detail in gemini_details(exc):
        violations = get(detail, "violations")
        for violation in violations[:20] if isinstance(violations, list) else ():
            quota = get(violation, "quotaId")
            if isinstance(quota, str):
                yield quota.lower()


def get(holder: Any, name: str) -> Any:
    """Read an attribute or a key; None if it is missing or raises."""
    if holder is None:
        return None
    try:
        if isinstance(holder, Mapping):
            return holder.get(name)
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property may raise anything
        return None


def _called(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception:  # noqa: BLE001 - it may need arguments or raise anything
        return None


def decoded(value: Any) -> str:
    """Return a header's name or value as a string."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def rate_limit_types_of(exc: BaseException, headers: Mapping[str, str]) -> set[str]:
    """Return which kind of limit a proxy says was exceeded: in a header, the body or the error."""
    body = get(exc, "body")
    holders = (headers, exc, body, get(body, "error"))
    types = (get(holder, "rate_limit_type") for holder in holders)
    return {str(kind).lower() for kind in types if isinstance(kind, str)}


def texts_of(exc: BaseException) -> Iterator[str]:
    """Yield the exception's message and the response's text, in lower case.

    Wrappers like litellm keep only the text of the provider's answer. httpx and requests store the
    bytes they have read in `_content`; their public properties would read from the network.
    """
    try:
        yield str(exc)[:TEXT_LIMIT].lower()
    except Exception:  # noqa: BLE001 - __str__ may raise anything
        yield ""
    raw = get(get(exc, "response"), "_content")
    if isinstance(raw, bytes):
        yield decoded(raw[:TEXT_LIMIT]).lower()
