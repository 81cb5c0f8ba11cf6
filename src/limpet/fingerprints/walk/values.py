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
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any

from limpet.fingerprints.walk.safe_access import is_a, text_at

_LONGEST_INT = 8_000
_LONG = 8
_NOTHING: dict[str, str] = {}
_VIEWS = (type(_NOTHING.keys()), type(_NOTHING.values()), type(_NOTHING.items()))
_SHORT = 64
UNKNOWN: Any = object()
"""It has no form here."""

_WRITTEN: tuple[type, ...] = (bool, float, complex, Decimal, Fraction, uuid.UUID, range, slice)
_WRITTEN += (dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, zoneinfo.ZoneInfo)
_WRITTEN += (ipaddress.IPv4Address, ipaddress.IPv6Address, type(Ellipsis), type(NotImplemented))
_WRITTEN += (ipaddress.IPv4Network, ipaddress.IPv6Network, type(None))


def form_of_scalar(value: Any, texts: "Texts") -> Any:
    """Return the form of a value that holds no others; UNKNOWN if it is not one.

    Args:
        value: Anything. It is told by its type alone: a proxy may run any code when asked.
        texts: How texts and paths are written.
    """
    kind = type(value)
    make = _FORMS.get(id(kind))  # by its id: a metaclass may have a hash of its own
    if make is not None:
        return [kind.__name__, *make(value, texts)]
    if (text_at(kind, "__module__") or "").startswith("numpy") and hasattr(kind, "tobytes"):
        return _of_numpy(value)
    return UNKNOWN


def _of_int(value: int, _: "Texts") -> list[Any]:
    # Python refuses to write out a long one.
    return [repr(value) if value.bit_length() <= _LONGEST_INT else hex(value)]


def _of_pattern(value: re.Pattern[Any], texts: "Texts") -> list[Any]:
    written = value.pattern
    return [texts.of(written) if type(written) is str else repr(written), value.flags]


def _bytes(value: Any) -> str:
    content = bytes(value)
    return content.hex() if len(content) <= _SHORT else blake2b(content, digest_size=16).hexdigest()


def _of_numpy(value: Any) -> Any:
    if getattr(value, "dtype", None) is None or value.dtype.hasobject:
        return UNKNOWN
    return ["numpy", str(value.dtype), list(value.shape), _bytes(value.tobytes())]


class Texts:
    """Writes texts so that another folder and another key make no difference.

    Args:
        folders: Where the project lies: what begins with one of these is written without it.
        secrets: Values that do not count.
    """

    def __init__(self, folders: tuple[str, ...], secrets: frozenset[str]) -> None:
        self._folders = tuple(
            sorted((folder for folder in folders if len(folder) > 1), key=len, reverse=True)
        )
        self._secrets = secrets
        # A short one may stand in any text by chance.
        self._inside = sorted(
            (secret for secret in secrets if len(secret) >= _LONG), key=len, reverse=True
        )

    def of(self, text: str) -> str:
        """Return the text as it counts."""
        if text in self._secrets:
            return "<secret>"
        for secret in self._inside:
            if secret in text:
                text = text.replace(secret, "<secret>")
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
        return [[key, element] for key, element in dict.items(value)]
    if issubclass(kind, (set, frozenset)):
        return list(set.__iter__(value) if issubclass(kind, set) else frozenset.__iter__(value))
    if is_a(value, *_VIEWS):
        return list(value)
    if kind is MappingProxyType:
        return [[key, element] for key, element in value.items()]
    return None


def _base_iter(value: Any, kind: type) -> Any:
    # The container's own iterator and not the subclass's, which may run any code.
    for base in (list, tuple, collections.deque):
        if issubclass(kind, base):
            return base.__iter__(value)
    raise AssertionError(kind)


_BY_TYPE: dict[type, Callable[[Any, Texts], list[Any]]] = {
    **dict.fromkeys(_WRITTEN, lambda value, _: [repr(value)]),
    **dict.fromkeys((bytes, bytearray), lambda value, _: [_bytes(value)]),
    **dict.fromkeys(
        (PurePosixPath, PureWindowsPath, type(Path())), lambda value, texts: [texts.of(str(value))]
    ),
    int: _of_int,
    str: lambda value, texts: [texts.of(value)],
    memoryview: lambda value, _: [value.format, list(value.shape), _bytes(value)],
    array.array: lambda value, _: [value.typecode, _bytes(value)],
    re.Pattern: _of_pattern,
    string.Template: lambda value, texts: [texts.of(value.template)],
}
_FORMS = {id(kind): make for kind, make in _BY_TYPE.items()}
