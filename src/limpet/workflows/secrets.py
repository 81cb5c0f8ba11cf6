"""What must not be shown, though a server repeats it?

Servers repeat in their messages what they were sent: a key, the address with its password, all of
the headers. A value is looked for as it is and as it looks inside JSON, an address or base64. Short
ones are hidden only where they stand alone, as words do, and only if the name of their header says
that they are secrets: a message in which every "1" is hidden says nothing.
"""

import binascii
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from limpet.text import one_line

MASK = "[redacted]"
_TELLING = re.compile(r"(?i)auth|key|token|secret|passw|pwd|credential|cookie|session|signature")
_SCHEMES = frozenset({"bearer", "basic", "digest", "token", "apikey", "key", "negotiate"})
_SHORTEST, _SHORTEST_ANYWHERE = 3, 8
# Where a word may begin: also behind what JSON and addresses write for a sign that is no letter.
_BEGINS = r"(?:(?<![^\W_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_ENDS = r"(?![^\W_])"


class Secrets:
    """Values that nobody is to see.

    Args:
        headers: Whose values are secrets.
        more: Other secrets: of an address, say.
    """

    def __init__(self, headers: Mapping[str, str], more: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        found = {
            value
            for name, whole in headers.items()
            for value in _values(whole)
            if len(value) >= (_SHORTEST if is_telling(name) else _SHORTEST_ANYWHERE)
        }
        self.add([*found, *more])

    def add(self, values: Iterable[str]) -> None:
        """Hide these too."""
        secrets = {one for one in values if len(one) >= _SHORTEST}
        self._known |= {form for one in secrets for form in _forms(one)}
        longest_first = sorted(self._known, key=lambda form: (-len(form), form))
        if longest_first:
            self._pattern = re.compile("|".join(map(_expression, longest_first)))

    def show(self, value: object) -> str:
        """Return something of the server's for a message: one line, cut short, without them."""
        if self._pattern is None:
            return one_line(value)
        try:
            text = value if isinstance(value, str) else repr(value)
        except Exception:  # noqa: BLE001 - it says which
            return one_line(value)
        # Hidden before it is cut, for half a secret is one too.
        return one_line(self._pattern.sub(MASK, text))


def is_telling(name: str) -> bool:
    """Tell whether a name says that its value is a secret."""
    return _TELLING.search(name) is not None


def _values(header: str) -> Iterator[str]:
    """Yield a header's value and those in it: `Basic …`, `name=value; …`."""
    yield header
    for word in re.split(r"[\s;,]+", header):
        if word.lower() in _SCHEMES:
            continue
        yield word
        yield word.partition("=")[2].strip('"')
    scheme, _, told = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            pair = b64decode(told, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield pair
        yield from pair.split(":", 1)


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield repr(secret)[1:-1]
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    raw = secret.encode(errors="replace")
    for encoded in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield encoded
        yield re.sub("%..", lambda found: found[0].lower(), encoded)
    for packed in (b64encode(raw), urlsafe_b64encode(raw)):
        yield packed.decode().rstrip("=")


def _expression(form: str) -> str:
    if len(form) >= _SHORTEST_ANYWHERE:
        return re.escape(form)
    begins = _BEGINS if form[0].isalnum() else ""
    ends = _ENDS if form[-1].isalnum() else ""
    return begins + re.escape(form) + ends
