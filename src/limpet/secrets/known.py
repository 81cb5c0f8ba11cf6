"""Which values are secrets, and how sure is that?

Possible secrets: the value of any variable with the name of a secret. That is enough to keep it out
of what we write ourselves: a configuration, a command, a message.

Certain secrets: those that also look like one, and those declared as a header or a key. Only these
are masked in an answer: an answer may be `postgres`, and so may a password.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from limpet.secrets.names import is_secret_variable, may_be_secret

_DIRECTORIES = ("PWD", "OLDPWD")  # the shell's; in code, `pwd` may be a password
_SHORTEST_POSSIBLE = 8  # shorter ones are words like "test", and occur everywhere
_SHORTEST_CERTAIN = 16
SHORTEST_DECLARED = 8
_SHORTEST_LINE = 24  # of a key that has several lines

_KINDS = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[^a-zA-Z0-9]")))
_WORDS = re.compile(r"[A-Z]?[^\WA-Z\d_]+|[A-Z]+|[a-z]*(?:[A-Z][a-z]{2,})+")
NUMBER = re.compile(r"[-+\d.,:_ eE]+")
# A key may begin with a slash, so a path must look like one.
_PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][A-Z]?[a-z0-9._ -]*)+"
    r"|[A-Za-z0-9._-]+(?:[/\\][A-Z]?[a-z0-9._ -]*)+\.[a-z]{2,5}"
    r"|(?:~|\.{1,2}|[A-Za-z]:)[/\\].*"
    r"|/(?:etc|home|root|usr|var|opt|run|srv|mnt|tmp|dev|app|data|private|Users|Volumes)/[\w. /@-]+"
    r"|/[\w. /@-]+\.[a-z]{2,5}"
)
_PLACEHOLDER = re.compile(r"<.*>|\$\{.*\}|\{\{.*\}\}")  # <|begin_of_text|>, <your key>
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S*")


def possible_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables with the name of a secret, and credentials in any URL."""
    for name, value in environment.items():
        if may_be_secret(name) and name not in _DIRECTORIES:
            text = value.strip()
            # A path under such a name says where the secret is.
            if len(text) >= _SHORTEST_POSSIBLE and not os.path.exists(text):  # noqa: PTH110 - Path raises
                yield text
        for part in _in_url(value.strip()):  # under any name
            if len(part) >= _SHORTEST_POSSIBLE:
                yield part


def certain_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that are secrets by name and looks, and their parts."""
    for name, value in environment.items():
        text = value.strip()
        is_secret = is_secret_variable(name) or _in_url(text)  # DATABASE_URL=postgres://u:…@…
        if is_secret and looks_secret(text):
            yield text
            yield from _parts_of(text)


def looks_secret(value: str) -> bool:
    """Return whether this is a key or password, not a path, a word, a number or a URL.

    A secret has at least 16 characters, of more than one kind.
    """
    if len(value) < _SHORTEST_CERTAIN or sum(kind.search(value) is not None for kind in _KINDS) < 2:  # noqa: PLR2004 - more than one kind
        return False
    if any(pattern.fullmatch(value) for pattern in (_WORDS, NUMBER, _PATH, _PLACEHOLDER)):
        return False
    if URL.fullmatch(value):
        return bool(secrets_of_url(value))
    return not os.path.exists(value)  # noqa: PTH110 - Path raises if a value is long


def secrets_of_url(text: str) -> list[str]:
    """Return the password of a URL, or a user that is a key, and its secret query values."""
    try:
        parts = urlsplit(text)
        query = [value for name, value in parse_qsl(parts.query) if may_be_secret(name)]
    except ValueError:
        return []
    # A user without a password may be a key.
    user = parts.username if parts.password or looks_secret(parts.username or "") else None
    return [part for part in (parts.password or user, *query) if part]


def _in_url(value: str) -> list[str]:
    """Return the credentials in a value that is a URL."""
    return secrets_of_url(value) if URL.fullmatch(value) else []


def _parts_of(value: str) -> Iterator[str]:
    """Yield the parts that are secrets themselves: of a URL, of JSON, of a key with many lines."""
    parts: list[str] = []
    parts += _in_url(value)
    if value.startswith(("{", "[")):
        with contextlib.suppress(ValueError, RecursionError):
            parts += _strings_in(json.loads(value))
    for text in [value, *parts]:
        lines = [line.strip() for line in text.splitlines()]
        parts += [line for line in lines if len(line) >= _SHORTEST_LINE and line != text]
    yield from (part for part in parts if looks_secret(part) and not part.startswith("-----"))


def _strings_in(data: Any) -> list[str]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return [text for child in data for text in _strings_in(child)]
    return [data] if isinstance(data, str) else []


def declared(values: Iterable[str]) -> list[str]:
    """Return the declared secrets that are long enough to be masked in an answer."""
    stripped = (text.strip() for text in values)
    long = (text for text in stripped if len(text) >= SHORTEST_DECLARED)
    return [text for text in long if not _PLACEHOLDER.fullmatch(text)]


def flaw_of_declared(value: str) -> str | None:
    """Return why a value that the user declares as a secret would not be masked; None if it is.

    An empty one, from an unset variable, is nothing to mask.
    """
    if 0 < len(value.strip()) < SHORTEST_DECLARED:
        return f"must have at least {SHORTEST_DECLARED} characters to be masked"
    if _VARIABLE.fullmatch(value) and (value in os.environ or is_secret_variable(value)):
        return f"is the name of a variable, not its value (in a file: ${{{value}}})"
    return None


def maskable(keys: Iterable[str]) -> list[str]:
    """Return the keys of a configuration that may be declared as secrets."""
    return [str(key) for key in keys if flaw_of_declared(key) is None]
