"""Which of our secrets may a server repeat in its messages?

A key, the URL with its password, all headers. Short values are hidden only as whole words, and only
if the name of their header is that of a secret: a message in which every "1" is hidden says
nothing.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping

from limpet.secrets.known import NUMBER, URL, looks_secret, may_be_secret, secrets_of_url
from limpet.secrets.masking import Mask

_SHORTEST, _SHORTEST_UNNAMED = 3, 8
_LONGEST_WORD = 20
_SCHEMES = frozenset({"bearer", "basic", "digest", "token", "apikey", "key", "negotiate"})
_WORD = re.compile(r"[^\W\d_]+")
_CONTENT_TYPE = re.compile(r"(?i)(?:application|text|audio|image|video|multipart|\*)/\S+(?:;.*)?")


class Secrets:
    """Values that must not be shown.

    Args:
        headers: Headers, whose values are secrets.
        more: Other secrets, like those of a URL.
        keys: Those of them that are keys, not user names.

    Attributes:
        declared: Those that must not appear in an answer either.
    """

    def __init__(
        self, headers: Mapping[str, str], more: Iterable[str] = (), keys: Iterable[str] = ()
    ) -> None:
        self.declared: set[str] = set(keys)
        self._known: set[str] = set()
        self.add([*_header_values(headers), *more], headers)

    def add(self, values: Iterable[str], headers: Mapping[str, str]) -> None:
        """Hide these values too, and keep those of the headers out of answers."""
        self.declared.update(_declared_in(headers))
        self._known |= {value for value in values if len(value) >= _SHORTEST}
        self._mask = Mask(self._known)

    def show(self, value: object) -> str:
        """Return text of the server for a message: on one line, shortened, without secrets."""
        return self._mask.shown(value)


def _is_common(text: str) -> bool:
    """Return whether a string is a word, a number, a content type or a URL without secrets."""
    is_word = len(text) <= _LONGEST_WORD and _WORD.fullmatch(text) is not None
    if is_word or NUMBER.fullmatch(text) or _CONTENT_TYPE.fullmatch(text) or " " in text:
        return True
    return URL.fullmatch(text) is not None and not secrets_of_url(text)


def _header_values(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the header values that a message must not repeat; short ones only by their names."""
    for name, whole in headers.items():
        shortest = _SHORTEST if may_be_secret(name) else _SHORTEST_UNNAMED
        values = [*_values_in(whole), *_pair_in(whole)]
        yield from (value for value in values if len(value) >= shortest)


def _declared_in(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of headers that must not appear in an answer either.

    That is every value except those that many answers contain: `X-Role: assistant`.
    """
    for name, whole in headers.items():
        for value in _values_in(whole):
            scheme, _, rest = value.partition(" ")
            has_scheme = bool(rest) and scheme.lower() in _SCHEMES
            if has_scheme or may_be_secret(name) or not _is_common(value):
                yield value
        if pair := _pair_in(whole):
            whole_pair, user, password = pair
            yield from (whole_pair, password)
            if not password or looks_secret(user):  # else a user name, which is not a secret
                yield user


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
