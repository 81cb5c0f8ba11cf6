"""Which values are secrets, and how sure is that?

Possible secrets: the value of any variable with the name of a secret. That is enough to keep it out
of what we write ourselves: a configuration, a command, a message.

Certain secrets: those that also look like one, and those declared as a header or a key. Only these
are masked in an answer: an answer may be `postgres`, and so may a password.
"""

import binascii
import contextlib
import json
import os
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from limpet.secrets.names import is_secret_variable, may_be_secret

_SCHEMES = frozenset({"bearer", "basic", "digest", "token", "apikey", "key", "negotiate"})

_DIRECTORIES = ("PWD", "OLDPWD")  # the shell's; in code, `pwd` may be a password
_SHORTEST_WIDE = 8  # shorter ones are words like "test", and occur everywhere
_SHORTEST_CERTAIN = 16
_SHORTEST_DECLARED = 8
_SHORTEST_TELLING, _SHORTEST_HEADER = 3, 8
_LONGEST_WORD = 20
_SHORTEST_LINE = 24  # of a key that has several lines

_KINDS = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[^a-zA-Z0-9]")))
_WORD = re.compile(r"[^\W\d_]+")
_WORDS = re.compile(r"[A-Z]?[^\WA-Z\d_]+|[A-Z]+|[a-z]*(?:[A-Z][a-z]{2,})+")
_NUMBER = re.compile(r"[-+\d.,:_ eE]+")
# A key may begin with a slash, so a path must look like one.
_PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][A-Z]?[a-z0-9._ -]*)+"
    r"|[A-Za-z0-9._-]+(?:[/\\][A-Z]?[a-z0-9._ -]*)+\.[a-z]{2,5}"
    r"|(?:~|\.{1,2}|[A-Za-z]:)[/\\].*"
    r"|/(?:etc|home|root|usr|var|opt|run|srv|mnt|tmp|dev|app|data|private|Users|Volumes)/[\w. /@-]+"
    r"|/[\w. /@-]+\.[a-z]{2,5}"
)
_PLACEHOLDER = re.compile(r"<.*>|\$\{.*\}|\{\{.*\}\}")  # <|begin_of_text|>, <your key>
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S*")
_CONTENT_TYPE = re.compile(r"(?i)(?:application|text|audio|image|video|multipart|\*)/\S+(?:;.*)?")


# ---- the environment ----------------------------------------------------------------------------


def wide_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that have the name of a secret."""
    for name, value in environment.items():
        if may_be_secret(name) and name not in _DIRECTORIES:
            text = value.strip()
            # A path under such a name says where the secret is.
            if len(text) >= _SHORTEST_WIDE and not os.path.exists(text):  # noqa: PTH110 - Path raises
                yield text


def certain_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that are secrets by name and looks, and their parts."""
    for name, value in environment.items():
        text = value.strip()
        if is_secret_variable(name) and looks_secret(text):
            yield text
            yield from _parts_of(text)


def looks_secret(value: str) -> bool:
    """Return whether this is a key or password, not a path, a word, a number or a URL.

    A secret has at least 16 characters, of more than one kind.
    """
    if len(value) < _SHORTEST_CERTAIN or sum(kind.search(value) is not None for kind in _KINDS) < 2:  # noqa: PLR2004 - more than one kind
        return False
    if any(pattern.fullmatch(value) for pattern in (_WORDS, _NUMBER, _PATH, _PLACEHOLDER)):
        return False
    if _URL.fullmatch(value):
        return bool(_secrets_of_url(value))
    return not os.path.exists(value)  # noqa: PTH110 - Path raises if a value is long


def _secrets_of_url(text: str) -> list[str]:
    try:
        parts = urlsplit(text)
        query = [value for name, value in parse_qsl(parts.query) if may_be_secret(name)]
    except ValueError:
        return []
    # A user without a password may be a key.
    user = parts.username if parts.password or looks_secret(parts.username or "") else None
    return [part for part in (parts.password or user, *query) if part]


def _parts_of(value: str) -> Iterator[str]:
    """Yield the parts that are secrets themselves: of a URL, of JSON, of a key with many lines."""
    parts: list[str] = []
    if _URL.fullmatch(value):
        parts += _secrets_of_url(value)
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
        return [text for held in data for text in _strings_in(held)]
    return [data] if isinstance(data, str) else []


# ---- declared secrets ---------------------------------------------------------------------------


def is_common(text: str) -> bool:
    """Return whether a string is a word, a number, a content type or a URL without secrets."""
    is_word = len(text) <= _LONGEST_WORD and _WORD.fullmatch(text) is not None
    if is_word or _NUMBER.fullmatch(text) or _CONTENT_TYPE.fullmatch(text) or " " in text:
        return True
    return _URL.fullmatch(text) is not None and not _secrets_of_url(text)


def header_values(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the header values that a message must not repeat; short ones only by their names."""
    for name, whole in headers.items():
        shortest = _SHORTEST_TELLING if may_be_secret(name) else _SHORTEST_HEADER
        values = [*_values_in(whole), *_pair_in(whole)]
        yield from (value for value in values if len(value) >= shortest)


def declared_in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of headers that must not appear in an answer either.

    That is every value except those that many answers contain: `X-Role: assistant`.
    """
    for name, whole in headers.items():
        for value in _values_in(whole):
            scheme, _, rest = value.partition(" ")
            has_scheme = bool(rest) and scheme.lower() in _SCHEMES
            if has_scheme or may_be_secret(name) or not is_common(value):
                yield value
        if pair := _pair_in(whole):
            whole_pair, user, password = pair
            yield from (whole_pair, password)
            if not password or looks_secret(user):  # else a user name, which is not a secret
                yield user


def declared(values: Iterable[str]) -> list[str]:
    """Return the declared secrets that are long enough to be masked in an answer."""
    stripped = (text.strip() for text in values)
    long = (text for text in stripped if len(text) >= _SHORTEST_DECLARED)
    return [text for text in long if not _PLACEHOLDER.fullmatch(text)]


def _values_in(header: str) -> Iterator[str]:
    """Yield a header's value and the values in it: `Bearer …`, `name=value; …`."""
    yield header
    for word in re.split(r"[\s;,]+", header):
        if word.lower() in _SCHEMES:
            continue
        yield word
        yield word.partition("=")[2].strip('"')


def _pair_in(header: str) -> tuple[str, str, str] | tuple[()]:
    """Return what `Basic …` encodes: `user:password`, the user, the password."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return ()
    try:
        pair = b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ()
    user, _, password = pair.partition(":")
    return pair, user, password
