"""What must not be shown, though a server repeats it?

Servers repeat in their messages what they were sent: a key, the address with its password, all of
the headers. Short values are hidden only where they stand alone, as words do, and only if the name
of their header says that they are secrets: a message in which every "1" is hidden says nothing.
"""

from collections.abc import Iterable, Mapping

from limpet.secrets.known import declared_in_headers, header_values
from limpet.secrets.masking import Mask
from limpet.text import one_line

_SHORTEST = 3


class Secrets:
    """Values that nobody is to see.

    Args:
        headers: Whose values are secrets.
        more: Other secrets: of an address, say.
        keys: Those of them that are no user's name.

    Attributes:
        declared: Those that must not stand in an answer either.
    """

    def __init__(
        self, headers: Mapping[str, str], more: Iterable[str] = (), keys: Iterable[str] = ()
    ) -> None:
        self.declared: set[str] = set(keys)
        self._known: set[str] = set()
        self.add([*header_values(headers), *more], headers)

    def add(self, values: Iterable[str], headers: Mapping[str, str]) -> None:
        """Hide these values too, and keep those of headers out of answers."""
        self.declared.update(declared_in_headers(headers))
        self._known |= {value for value in values if len(value) >= _SHORTEST}
        self._mask = Mask(self._known)

    def show(self, value: object) -> str:
        """Return something of the server's for a message: one line, cut short, without them."""
        if not self._mask:
            return one_line(value)
        try:
            text = value if isinstance(value, str) else repr(value)
        except Exception:  # noqa: BLE001 - it says which
            return one_line(value)
        # Hidden before it is cut, for half a secret is one too.
        return one_line(self._mask.text(text))
