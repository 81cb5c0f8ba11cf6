"""Where does a call go, and which parts of the address may be shown?"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from limpet.errors import wrong_argument
from limpet.secrets.known import may_be_secret

_PORTS = {"http": 80, "https": 443}
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110
_HOST = re.compile(
    r"\w[\w.-]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:%\w+)?"
)  # a name in any script, or IPv6


class Address:
    """The address of a server or proxy, without the credentials it may contain.

    Args:
        url: The address as the user gave it.
        argument: The name of the argument, for error messages.

    Attributes:
        url: The address.
        origin: scheme://host:port.
        scheme: "http" or "https".
        host: The host name.
        port: The port.
        path: The path, without the query, which may hold a secret.
        relative: Path and query.
        authorization: Header value made of its credentials; None: it has none.
        secrets: Parts that must not be shown.
        keys: Query values that are secrets.

    Raises:
        LimpetError: `url` is not an http or https URL.
    """

    def __init__(self, url: Any, argument: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except (ValueError, TypeError, AttributeError):
            parts, port = urlsplit(""), None
        is_server = _HOST.fullmatch(parts.hostname or "") and "{{" not in parts.netloc
        if parts.scheme not in _PORTS or not is_server or port == 0:
            # The value is not shown: it may contain a password.
            raise wrong_argument(
                argument,
                "must be the address of a server",
                hint="for example http://localhost:8000; placeholders are allowed in the path and "
                "query only",
            )
        assert parts.hostname is not None
        self.scheme, self.host = parts.scheme, parts.hostname
        self.port = port or _PORTS[parts.scheme]
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.origin = f"{self.scheme}://{host}:{self.port}"
        netloc = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
        self.path = parts.path or "/"
        self.relative = urlunsplit(("", "", parts.path, parts.query, ""))
        query = parse_qsl(parts.query)
        self.keys = [value for name, value in query if may_be_secret(name) and "{{" not in value]
        credentials = [part for part in (parts.username, parts.password) if part]
        self.secrets = [*credentials, *map(unquote, credentials), *self.keys]
        self.authorization: str | None = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.authorization = f"Basic {b64encode(pair.encode()).decode()}"


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers to send. Messages never show a value.

    Raises:
        LimpetError: A header cannot be sent.
    """
    if headers is not None and not isinstance(headers, Mapping):
        raise wrong_argument("headers", "must be a mapping of names to strings")
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise wrong_argument("headers", f"{name!r} is not a valid header name")
        if not isinstance(value, str):
            raise wrong_argument("headers", f"the value of {name!r} must be a string")
        if flaw := flaw_of_header(value):
            raise wrong_argument("headers", f"the value of {name!r} {flaw}")
    return dict(headers or {})


def flaw_of_header(value: str) -> str | None:
    """Return why the value of a header cannot be sent; None if it can."""
    if any(character in value for character in "\r\n\0"):
        return "contains a line break"
    if "{{" in value:
        return "contains '{{': placeholders are filled in the url and the body only"
    return None
