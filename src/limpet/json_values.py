"""How does a value become JSON and come back, quickly where possible and whole in any case?

A fast encoder takes strings, 64-bit integers, finite floats, lists and dicts with text keys. All
else is turned into those here, slowly and with care, so that nothing is dropped: what JSON has no
word for becomes a string with a marker (`"~float:nan"`), which `from_plain` reads back. A text
that happens to look like a marker gets one more `~`, so that it is never mistaken for one.
"""

import base64
import dataclasses
import datetime as dt
import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

from limpet.foreign import is_interrupt, itself, readable
from limpet.text import text_of

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
    if type(value) is not dict and type(value) is not tuple:
        return _size_of_parts(value, most)
    size = 0
    # Most records are flat, and this is asked of every one.
    for one in value.values() if type(value) is dict else value:
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


def encode(value: Any) -> tuple[bytes, bool]:
    """Return the value as JSON on one line, and whether it went through `to_plain`.

    Raises:
        NotPlainError: The value cannot be kept as JSON at all.
    """
    encoded = encode_plain(value) if plain_size(value) is not None else None
    return (_encode_slowly(value, sort_keys=False), True) if encoded is None else (encoded, False)


def encode_plain(value: Any, option: int = 0) -> bytes | None:
    """Return a value that `plain_size` found plain; None if the fast encoder refuses it."""
    try:
        return orjson.dumps(value, None, option)
    except TypeError:  # bad text, wide integers, keys that are no text, too many levels
        return None


def encode_canonical(value: Any) -> bytes:
    """Return the same bytes for equal values, whatever the order of their keys.

    Raises:
        NotPlainError: The value cannot be kept as JSON at all.
    """
    encoded = None
    if plain_size(value) is not None:
        encoded = encode_plain(value, orjson.OPT_SORT_KEYS)
    if encoded is None:
        encoded = _encode_slowly(value, sort_keys=True)
        if b'"~' in encoded:  # a marker is not the text that looks like it
            encoded = b"~" + encoded
    return encoded


def _encode_slowly(value: Any, *, sort_keys: bool) -> bytes:
    try:
        plain = to_plain(value)
        encoded = encode_plain(plain, orjson.OPT_SORT_KEYS if sort_keys else 0)
        if encoded is not None:
            return encoded
        try:
            return _dump(plain, sort_keys, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate
            return _dump(plain, sort_keys, ensure_ascii=True).encode()
    except NotPlainError:
        raise
    except RecursionError as error:
        raise NotPlainError("it is nested too deep, or holds itself") from error
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"{type(error).__name__}: {text_of(error)}"
        raise NotPlainError(f"reading it raised {why}") from readable(error)


def _dump(plain: Any, sort_keys: bool, *, ensure_ascii: bool) -> str:  # noqa: FBT001 - private
    return json.dumps(
        plain,
        ensure_ascii=ensure_ascii,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
    )


def kept_form(value: Any) -> Any:
    """Return a value as it will be read back.

    Raises:
        NotPlainError: The value cannot be kept as JSON at all.
    """
    encoded, marked = encode(value)
    return decode(encoded, marked=marked)


def decode(encoded: bytes, *, marked: bool) -> Any:
    """Return the value that was encoded.

    Args:
        encoded: The JSON.
        marked: What `encode` said beside it.

    Raises:
        ValueError: It is not JSON.
    """
    # The fast decoder makes floats of large integers and refuses lone surrogates.
    return from_plain(json.loads(encoded)) if marked else orjson.loads(encoded)
