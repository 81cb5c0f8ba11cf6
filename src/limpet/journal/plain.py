"""How is a value kept that is not plain JSON?

A fast encoder takes strings, 64-bit integers, finite floats, lists and dicts with text keys. All
else is turned into those here, slowly and with care, so that nothing is dropped: what JSON has no
word for becomes a string with a marker (`"~float:nan"`), which `from_plain` reads back. A text
that happens to look like a marker gets one more `~`, so that it is never mistaken for one.
"""

import base64
import dataclasses
import datetime as dt
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

from limpet.foreign import itself

MOST_LEVELS = 250
"""How deep values may be nested. The fast encoder stops at 254, Python's own at about 300."""
_MARKER = re.compile(r"~+(float|int|bytes):")
_WIDEST_INT = 10**4000  # Python refuses to print or read more than 4,300 digits


class NotPlainError(TypeError):
    """A value cannot be kept as JSON at all."""


def to_plain(value: Any, level: int = 0) -> Any:
    """Return the value as plain JSON data, with markers for what JSON has no word for.

    Raises:
        NotPlainError: It holds something that cannot be kept, or is nested too deep.
    """
    if level > MOST_LEVELS:
        raise NotPlainError(f"it is nested deeper than {MOST_LEVELS} levels, or holds itself")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, Enum):
        return to_plain(value.value, level + 1)
    if isinstance(value, str):
        text = itself(str, value)
        return f"~{text}" if _MARKER.match(text) else text
    if isinstance(value, int):
        whole = itself(int, value)
        return whole if -_WIDEST_INT < whole < _WIDEST_INT else f"~int:{whole:#x}"
    if isinstance(value, float):
        real = itself(float, value)
        return real if isfinite(real) else f"~float:{real}"
    if isinstance(value, Mapping):
        return _plain_mapping(value, level)
    if isinstance(value, (list, tuple)):
        return [to_plain(one, level + 1) for one in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"~bytes:{base64.b64encode(bytes(value)).decode()}"
    return to_plain(_unfolded(value), level + 1)


def _unfolded(value: Any) -> Any:
    """Return the one value inside, a step nearer to plain JSON."""
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (Decimal, UUID, PurePath)):
        return str(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=lambda one: (type(one).__name__, repr(one)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": str(value)}
    return _of_another_library(value)


def _of_another_library(value: Any) -> Any:
    """Read pydantic models, NumPy's and pandas' values by their shape, without importing them."""
    if isinstance(value, type):
        raise NotPlainError(f"a class ({value.__name__}) has no JSON form")
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    if callable(to_dict := getattr(value, "to_dict", None)):
        if hasattr(value, "columns"):
            return to_dict("records")  # a table: a row is an object, as in a column
        return to_dict()
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    if callable(item := getattr(value, "item", None)):
        return item()
    raise NotPlainError(f"{type(value).__module__}.{type(value).__qualname__} has no JSON form")


def _plain_mapping(value: Mapping[Any, Any], level: int) -> Any:
    pairs = [(_plain_key(key), to_plain(one, level + 1)) for key, one in value.items()]
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    # Two keys with the same text, as 1 and "1": as an object, one would hide the other.
    return [[to_plain(key, level + 1), one] for key, (_, one) in zip(value, pairs, strict=True)]


def _plain_key(key: Any) -> str:
    if isinstance(key, str) and not isinstance(key, Enum):
        return itself(str, key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int) and not isinstance(key, Enum):
        return repr(itself(int, key))
    if isinstance(key, float) and not isinstance(key, Enum):
        return repr(itself(float, key))
    plain = to_plain(key)
    return plain if isinstance(plain, str) else repr(plain)


def from_plain(value: Any) -> Any:
    """Return plain data with its markers read back."""
    if isinstance(value, str):
        return _unmarked(value) if value.startswith("~") else value
    if isinstance(value, list):
        return [from_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: from_plain(one) for key, one in value.items()}
    return value


def _unmarked(text: str) -> Any:
    found = _MARKER.match(text)
    if found is None:
        return text
    if text.startswith("~~"):
        return text[1:]
    rest = text[found.end() :]
    if found[1] == "float":
        return float(rest)
    if found[1] == "int":
        return int(rest, 16)
    return base64.b64decode(rest)


_SOME, _MANY = 100, 1000
_ATOMS = frozenset({int, bool, type(None)})
_HOLDERS = frozenset({dict, list, tuple})


def plain_size(value: Any, most: int | None = None) -> int | None:
    """Return about how many bytes a value takes, or None if it is not plain JSON.

    Plain means that a fast encoder keeps it as it is, or refuses it aloud. It writes NaN as
    `null` without a word: that is what this looks for.

    Args:
        value: What is to be encoded.
        most: From here on, stop looking when it has many parts, and return what was found.
    """
    if type(value) is not dict:
        return _size_of_parts(value, most)
    size = 0
    for one in value.values():  # most records are flat, and this is asked of every one
        kind = type(one)
        if kind is str:
            size += len(one)
        elif kind in _ATOMS or (kind is float and isfinite(one)) or (kind in _HOLDERS and not one):
            size += 8
        else:
            return _size_of_parts(value, most)
    return size


def _size_of_parts(value: Any, most: int | None) -> int | None:  # noqa: C901 - one loop, hot
    size = opened = 0
    seen: set[int] | None = None
    todo: list[Any] = [value if type(value) is dict else (value,)]
    while todo:
        holder = todo.pop()
        opened += 1
        if opened > _MANY:  # perhaps it holds itself
            seen = seen or set()
            if id(holder) in seen:
                return None
            seen.add(id(holder))
        for one in holder.values() if type(holder) is dict else holder:
            kind = type(one)
            if kind is str:
                size += len(one)
            elif kind in _ATOMS:
                size += 8
            elif kind is float:
                if not isfinite(one):
                    return None
                size += 8
            elif kind is dict or kind is list or kind is tuple:
                if one:
                    todo.append(one)
            else:
                return None
        if most is not None and size >= most and opened > _SOME:
            break  # it is large; how large exactly, others find out
    return size


def told_apart(value: Any, level: int = 0) -> Any:
    """Return plain data that differs wherever values differ, also by their types alone.

    As JSON, a tuple and a list, a text and a path, two dataclasses with the same fields are the
    same. Whoever has to recognise a value among others needs to know which it was.

    Raises:
        NotPlainError: It cannot be read, or is nested too deep.
    """
    kind = type(value)
    if value is None or kind is str or kind in _ATOMS or (kind is float and isfinite(value)):
        return value
    if level > MOST_LEVELS:
        raise NotPlainError(f"it is nested deeper than {MOST_LEVELS} levels, or holds itself")
    if kind is list:
        return [told_apart(one, level + 1) for one in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: told_apart(one, level + 1) for key, one in value.items()}
    if isinstance(value, Mapping):
        inner: Any = [[told_apart(key), told_apart(one, level + 1)] for key, one in value.items()]
    elif isinstance(value, (list, tuple)):
        inner = [told_apart(one, level + 1) for one in value]
    elif isinstance(value, Enum):
        inner = value.name
    elif dataclasses.is_dataclass(kind):
        inner = {one.name: told_apart(getattr(value, one.name), level + 1) for one in _fields(kind)}
    elif hasattr(kind, "model_fields"):  # not model_dump, which leaves out what is excluded
        inner = {key: told_apart(one, level + 1) for key, one in vars(value).items()}
    else:
        inner = to_plain(value, level + 1)
    return {"~type": f"{kind.__module__}.{kind.__qualname__}", "~value": inner}


def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)
