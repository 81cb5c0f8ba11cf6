"""Which form of a value is the same in every process?

A form is plain data. Scalars have one here, with their type: numbers, strings, dates, patterns,
NumPy arrays. The walk handles everything else.
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
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import FunctionType, MappingProxyType
from typing import Any

from limpet.fingerprints.walk.safe_access import attributes_of, is_a, text_at
from limpet.json_values import dumps

_LONGEST_INT = 8_000
_LONG = 8
_MOST_IN_CONSTANT = 16
_NOTHING: dict[str, str] = {}
_VIEWS = (type(_NOTHING.keys()), type(_NOTHING.values()), type(_NOTHING.items()))
_SHORT = 64
UNKNOWN: Any = object()
"""The value is not a scalar."""

_WRITTEN: tuple[type, ...] = (bool, float, complex, Decimal, Fraction, uuid.UUID, range, slice)
_WRITTEN += (dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, zoneinfo.ZoneInfo)
_WRITTEN += (ipaddress.IPv4Address, ipaddress.IPv6Address, type(Ellipsis), type(NotImplemented))
_WRITTEN += (ipaddress.IPv4Network, ipaddress.IPv6Network, type(None))


def form_of_scalar(value: Any, normalizer: "Normalizer") -> Any:
    """Return the form of a scalar; UNKNOWN for any other value.

    Args:
        value: Any object. Only its type is checked: a proxy may run code on attribute access.
        normalizer: Normalizes strings and paths.
    """
    kind = type(value)
    make = _FORMS.get(id(kind))  # by id: a metaclass may define a hash
    if make is not None:
        return [kind.__name__, *make(value, normalizer)]
    if kind is FunctionType:  # most others are
        return UNKNOWN
    if (text_at(kind, "__module__") or "").startswith("numpy") and hasattr(kind, "tobytes"):
        return _of_numpy(value)
    return UNKNOWN


def is_constant(value: Any) -> bool:
    """Return whether a value is an immutable scalar, or a short tuple or frozenset of them.

    Python keeps such a value once: `()` in the process, equal constants in a module. So sharing it
    means nothing.
    """
    room, todo = _MOST_IN_CONSTANT, [value]
    while todo:
        some = todo.pop()
        if id(type(some)) in _IMMUTABLE:
            continue
        if type(some) is not tuple and type(some) is not frozenset:
            return False
        room -= len(some)
        if room < 0:  # a long one is written once
            return False
        todo += some
    return True


def form_of_constant(value: Any, normalizer: "Normalizer") -> Any:
    """Return the form of a constant, see `is_constant`; the same as from a walk.

    Args:
        value: A constant.
        normalizer: Normalizes strings and paths.
    """
    if type(value) is not tuple and type(value) is not frozenset:
        return form_of_scalar(value, normalizer)
    forms = [form_of_constant(element, normalizer) for element in value]
    if type(value) is tuple:
        return ["a", "builtins.tuple", forms]
    return ["a", "builtins.frozenset", sorted(map(dumps, forms))]


def is_plain_member(value: Any) -> bool:
    """Return whether a value is an enum member that is a constant.

    It exists once in a process, so sharing it means nothing.
    """
    if not issubclass(type(value), Enum):
        return False
    held = attributes_of(value)
    return "_value_" in held and is_constant(held["_value_"])


def _of_int(value: int, _: "Normalizer") -> list[Any]:
    # Python refuses to convert long integers to decimal.
    return [repr(value) if value.bit_length() <= _LONGEST_INT else hex(value)]


def _of_pattern(value: re.Pattern[Any], normalizer: "Normalizer") -> list[Any]:
    written = value.pattern
    return [normalizer.string(written) if type(written) is str else repr(written), value.flags]


def _bytes(value: Any) -> str:
    content = bytes(value)
    return content.hex() if len(content) <= _SHORT else blake2b(content, digest_size=16).hexdigest()


def _of_numpy(value: Any) -> Any:
    if getattr(value, "dtype", None) is None or value.dtype.hasobject:
        return UNKNOWN
    return ["numpy", str(value.dtype), list(value.shape), _bytes(value.tobytes())]


class Normalizer:
    """Normalizes strings, so the project's folder and secrets make no difference.

    Args:
        folders: The project's folders, replaced by `<project>`.
        secrets: Values replaced by `<secret>`.
    """

    def __init__(self, folders: tuple[str, ...], secrets: frozenset[str]) -> None:
        self._folders = tuple(
            sorted((folder for folder in folders if len(folder) > 1), key=len, reverse=True)
        )
        self._secrets = secrets
        # A short secret may be part of any string by accident.
        self._inside = sorted(
            (secret for secret in secrets if len(secret) >= _LONG), key=len, reverse=True
        )

    def string(self, text: str) -> str:
        """Return the normalized string."""
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
    """Return the elements of a built-in container, in order; None for any other value.

    The elements of a dict are pairs. Subclasses of containers are included.
    """
    kind = type(value)
    for base in (list, tuple, collections.deque, set, frozenset):
        if issubclass(kind, base):  # the base's iterator: a subclass may run any code
            return list(base.__iter__(value))
    if issubclass(kind, dict):
        return [[key, element] for key, element in dict.items(value)]
    if is_a(value, *_VIEWS):
        return list(value)
    if kind is MappingProxyType:
        return [[key, element] for key, element in value.items()]
    return None


_BY_TYPE: dict[type, Callable[[Any, Normalizer], list[Any]]] = {
    **dict.fromkeys(_WRITTEN, lambda value, _: [repr(value)]),
    **dict.fromkeys((bytes, bytearray), lambda value, _: [_bytes(value)]),
    **dict.fromkeys(
        (PurePosixPath, PureWindowsPath, type(Path())),
        lambda value, normalizer: [normalizer.string(str(value))],
    ),
    int: _of_int,
    str: lambda value, normalizer: [normalizer.string(value)],
    memoryview: lambda value, _: [value.format, list(value.shape), _bytes(value)],
    array.array: lambda value, _: [value.typecode, _bytes(value)],
    re.Pattern: _of_pattern,
    string.Template: lambda value, normalizer: [normalizer.string(value.template)],
}
_FORMS = {id(kind): make for kind, make in _BY_TYPE.items()}
_MUTABLE = (bytearray, memoryview, array.array, string.Template)
_IMMUTABLE = {id(kind) for kind in _BY_TYPE if kind not in _MUTABLE}
