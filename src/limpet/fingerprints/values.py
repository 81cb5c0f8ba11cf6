"""What of a value is the same in every process?

Plain data stands for itself, with its type. What is known to be a value (a date, a pattern, a
number of NumPy's) is written in a form of its own. Everything else is the walk's business.
"""

import array
import collections
import datetime as dt
import ipaddress
import re
import string
import uuid
import zoneinfo
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

_LONGEST_INT = 8_000
_LONG = 8
UNKNOWN: Any = object()
"""It has no form here."""

_SCALARS = (bool, int, float, complex)
_TEXTUAL = (Decimal, Fraction, uuid.UUID, dt.date, dt.time, dt.timedelta, dt.timezone)
_TEXTUAL += (ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, range, slice)
_TEXTUAL += (ipaddress.IPv6Network, type(Ellipsis), type(NotImplemented), type(None))


def form_of_scalar(value: Any, texts: "Texts") -> Any:
    """Return the form of a value that holds no others; UNKNOWN if it is not one.

    Args:
        value: Anything. It is told by its type alone: a proxy may run any code when asked.
        texts: How texts and paths are written.
    """
    kind = type(value)
    if kind is str:
        return ["str", texts.of(value)]
    if kind is int and value.bit_length() > _LONGEST_INT:  # Python refuses to write it out
        return ["int", hex(value)]
    if kind in _SCALARS or kind in _TEXTUAL or (kind.__mro__[1:2] and kind in _TEXTUAL):
        return [kind.__name__, repr(value)]
    if issubclass(kind, PurePath):
        return ["path", texts.of(str(value))]
    if kind in (bytes, bytearray):
        return [kind.__name__, _bytes(value)]
    if kind is memoryview:
        return ["memoryview", value.format, list(value.shape), _bytes(value.tobytes())]
    if kind is re.Pattern:
        return ["pattern", texts.of(value.pattern) if kind is str else repr(value.pattern), value.flags]
    if kind is string.Template:
        return ["template", texts.of(value.template)]
    if kind is zoneinfo.ZoneInfo:
        return ["zone", str(value)]
    if kind is array.array:
        return ["array", value.typecode, _bytes(value.tobytes())]
    if kind is ContextVar:
        return UNKNOWN
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(kind, "tobytes"):
        return _of_numpy(value)
    if kind in _TEXTUAL or issubclass(kind, (dt.date, dt.time)) and kind.__module__ == "datetime":
        return [kind.__name__, repr(value)]
    return UNKNOWN


def _bytes(value: Any) -> str:
    return bytes(value).hex() if len(value) <= 64 else blake2b(value, digest_size=16).hexdigest()


def _of_numpy(value: Any) -> Any:
    if getattr(value, "dtype", None) is not None and value.dtype.hasobject:
        return UNKNOWN
    return ["numpy", str(value.dtype), list(value.shape), _bytes(value.tobytes())]


class Texts:
    """Writes texts so that another folder and another key make no difference.

    Args:
        folders: Where the project lies: what begins with one of these is written without it.
        secrets: Values that do not count.
    """

    def __init__(self, folders: tuple[str, ...], secrets: frozenset[str]) -> None:
        self._folders = tuple(sorted((one for one in folders if len(one) > 1), key=len, reverse=True))
        self._secrets = secrets
        # A short one may stand in any text by chance.
        self._inside = sorted((one for one in secrets if len(one) >= _LONG), key=len, reverse=True)

    def of(self, text: str) -> str:
        """Return the text as it counts."""
        if text in self._secrets:
            return "<secret>"
        for one in self._inside:
            if one in text:
                text = text.replace(one, "<secret>")
        for folder in self._folders:
            if folder in text:
                text = text.replace(folder, "<project>")
        return text


def contents_of(value: Any) -> list[Any] | None:
    """Return what a container of Python's own holds, in order; None if it is none.

    A dict's items come as pairs. Subclasses count too: what a user's own holds besides is for the
    walk to find.
    """
    kind = type(value)
    if issubclass(kind, (list, tuple, collections.deque)):
        return list(_base_iter(value, kind))
    if issubclass(kind, dict):
        return [[key, one] for key, one in dict.items(value)]
    if issubclass(kind, (set, frozenset)):
        return list(set.__iter__(value) if issubclass(kind, set) else frozenset.__iter__(value))
    if kind.__name__ == "mappingproxy":
        return [[key, one] for key, one in value.items()]
    return None


def _base_iter(value: Any, kind: type) -> Any:
    # The container's own iterator and not the subclass's, which may run any code.
    for base in (list, tuple, collections.deque):
        if issubclass(kind, base):
            return base.__iter__(value)
    raise AssertionError(kind)
