"""Where does a call go, and what of that may be shown?"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from limpet.errors import LimpetError
from limpet.secrets.names import may_be_secret

_PORTS = {"http": 80, "https": 443}


class Address:
    """The address of a server, without the credentials that may stand in it.

    Args:
        url: The address as the user gave it.
        argument: What the user calls it, for the message.

    Attributes:
        url: The address.
        origin: scheme://host:port: whose server it is.
        scheme: "http" or "https".
        host: The host's name.
        port: The port.
        path: The path, without the query, which may hold a secret.
        relative: Path and query.
        authorization: The header that the credentials in it become; None: there are none.
        secrets: What of it must not be shown.
        keys: Those of its query's values that are secrets.

    Raises:
        LimpetError: It is no address of a server.
    """

    def __init__(self, url: Any, argument: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except (ValueError, TypeError, AttributeError):
            parts, port = urlsplit(""), None
        if parts.scheme not in _PORTS or not parts.hostname or "{{" in parts.netloc:
            # The value is not shown: there may be a password in it.
            raise LimpetError(
                f"{argument}: must be the address of a server",
                hint="such as http://localhost:8000; placeholders only in its path and query",
            )
        self.scheme, self.host = parts.scheme, parts.hostname
        self.port = port or _PORTS[parts.scheme]
        place = f"[{self.host}]" if ":" in self.host else self.host
        self.origin = f"{self.scheme}://{place}:{self.port}"
        netloc = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
        self.path = parts.path or "/"
        self.relative = urlunsplit(("", "", parts.path, parts.query, ""))
        self.secrets = secrets_in(parts)
        self.keys = _keys_in(parts)
        self.authorization: str | None = None
        if parts.username is not None:
            self.authorization = basic(parts.username, parts.password)


def basic(user: str, password: str | None) -> str:
    """Return the header's value that the credentials in an address become."""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def secrets_in(parts: SplitResult) -> tuple[str, ...]:
    """Return what must not be shown of an address: user, password, telling values of its query."""
    written = [one for one in (parts.username, parts.password) if one]
    return (*written, *map(unquote, written), *_keys_in(parts))


def _keys_in(parts: SplitResult) -> tuple[str, ...]:
    query = parse_qsl(parts.query)
    return tuple(value for name, value in query if may_be_secret(name) and "{{" not in value)


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers to send. A message never shows a value.

    Raises:
        LimpetError: One cannot be sent.
    """
    if headers is not None and not isinstance(headers, Mapping):
        raise LimpetError("headers: must be a mapping of names to texts")
    checked = {}
    for name, value in (headers or {}).items():
        named = isinstance(name, str) and name.isascii() and name.replace("-", "").isalnum()
        if not named and not (isinstance(name, str) and name.replace("-", "").isidentifier()):
            raise LimpetError(f"headers: {name!r} is no name of a header")
        if not isinstance(value, str):
            raise LimpetError(f"headers: the value of {name!r} must be text")
        if any(sign in value for sign in "\r\n\0"):
            raise LimpetError(f"headers: the value of {name!r} holds a line break")
        checked[name] = value
    return checked
