"""Which of our secrets may a server repeat in its messages?

A key, the URL with its password, all headers. Short values are hidden only as whole words, and only
if the name of their header is that of a secret: a message in which every "1" is hidden says
nothing.
"""

from collections.abc import Iterable, Mapping

from limpet.secrets.known import declared_in_headers, header_values
from limpet.secrets.masking import Mask
from limpet.text import one_line

_SHORTEST = 3


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
        self.add([*header_values(headers), *more], headers)

    def add(self, values: Iterable[str], headers: Mapping[str, str]) -> None:
        """Hide these values too, and keep those of the headers out of answers."""
        self.declared.update(declared_in_headers(headers))
        self._known |= {value for value in values if len(value) >= _SHORTEST}
        self._mask = Mask(self._known)

    def show(self, value: object) -> str:
        """Return text of the server for a message: on one line, shortened, without secrets."""
        if not self._mask:
            return one_line(value)
        try:
            text = value if isinstance(value, str) else repr(value)
        except Exception:  # noqa: BLE001 - `one_line` names it
            return one_line(value)
        # Hidden before it is cut: half a secret is a secret too.
        return one_line(self._mask.text(text))
