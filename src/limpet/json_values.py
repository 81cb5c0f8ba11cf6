"""How does a value become JSON and come back, fast if possible, always complete?

A fast encoder handles strings, 64-bit integers, finite floats, lists and dicts with string keys.
Everything else is converted to those here, slowly, so that nothing is lost: values that JSON cannot
express become a string with a marker (`"~float:nan"`), which `from_plain` reads back. A string that
looks like a marker gets an extra `~`, so that it is never mistaken for one.
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
from itertools import accumulate
from json import JSONEncoder
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

from limpet.foreign import base_value, is_interrupt, readable
from limpet.text import text_of

MOST_LEVELS = 250
"""The deepest nesting. The fast encoder stops at 254, Python's own at about 300."""
_MARKER = re.compile(r"~+(float|int|bytes):")
_NO_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++', re.DOTALL)  # strings, and all else
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
_WIDEST_INT = 10**4000  # Python refuses to print or read more than 4,300 digits


def is_deep_text(text: str | bytes, most: int = MOST_LEVELS) -> bool:
    """Return whether JSON has more than `most` levels, without parsing it.

    Check this before Python's parser reads untrusted text. Its own limit differs between versions:
    about 900 levels in 3.11, 10,000 in 3.13, then what the stack holds.
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")  # brackets and quotes are the same bytes in UTF-8
    if text.count("[") + text.count("{") <= most:  # fast, and mostly enough
        return False
    brackets = _NO_BRACKETS.sub("", text)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > most


class NotPlainError(TypeError):
    """A value cannot be stored as JSON."""


def to_plain(value: Any, level: int = 0) -> Any:
    """Return the value as plain JSON data, with markers for what JSON cannot express.

    Raises:
        NotPlainError: It contains something that cannot be stored, or is nested too deep.
    """
    if level > MOST_LEVELS:
        raise NotPlainError(f"it is nested deeper than {MOST_LEVELS} levels, or contains itself")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, Enum):
        return to_plain(value.value, level + 1)
    if isinstance(value, str):
        text = base_value(str, value)
        return f"~{text}" if _MARKER.match(text) else text
    if isinstance(value, int):
        whole = base_value(int, value)
        return whole if -_WIDEST_INT < whole < _WIDEST_INT else f"~int:{whole:#x}"
    if isinstance(value, float):
        real = base_value(float, value)
        return real if isfinite(real) else f"~float:{real}"
    if isinstance(value, Mapping):
        return _plain_mapping(value, level)
    if isinstance(value, (list, tuple)):
        return [to_plain(part, level + 1) for part in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"~bytes:{base64.b64encode(bytes(value)).decode()}"
    return to_plain(_converted(value), level + 1)


def _converted(value: Any) -> Any:
    """Return a value of another type as one that is closer to plain JSON."""
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (Decimal, UUID, PurePath)):
        return str(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=lambda part: (type(part).__name__, repr(part)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": str(value)}
    return _of_another_library(value)


def _of_another_library(value: Any) -> Any:
    """Convert values of pydantic, NumPy and pandas by their methods, without importing these."""
    if isinstance(value, type):
        raise NotPlainError(f"a class ({value.__name__}) has no JSON form")
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    if callable(to_dict := getattr(value, "to_dict", None)):
        if hasattr(value, "columns"):
            return to_dict("records")  # a table: each row becomes an object
        return to_dict()
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    if callable(item := getattr(value, "item", None)):
        return item()
    raise NotPlainError(f"{type(value).__module__}.{type(value).__qualname__} has no JSON form")


def _plain_mapping(value: Mapping[Any, Any], level: int) -> Any:
    pairs = [(_plain_key(key), to_plain(part, level + 1)) for key, part in value.items()]
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    # Two keys with the same string, like 1 and "1": in an object, one would hide the other.
    return [[to_plain(key, level + 1), part] for key, (_, part) in zip(value, pairs, strict=True)]


def _plain_key(key: Any) -> str:
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if not isinstance(key, Enum):
        if isinstance(key, str):
            return base_value(str, key)
        if isinstance(key, int):
            return repr(base_value(int, key))
        if isinstance(key, float):
            return repr(base_value(float, key))
    plain = to_plain(key)
    return plain if isinstance(plain, str) else repr(plain)


def from_plain(value: Any) -> Any:
    """Return plain data with its markers read back."""
    if isinstance(value, str):
        return _unmarked(value) if value.startswith("~") else value
    if isinstance(value, list):
        return [from_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: from_plain(part) for key, part in value.items()}
    return value


def _unmarked(text: str) -> Any:
    marker = _MARKER.match(text)
    if marker is None:
        return text
    if text.startswith("~~"):
        return text[1:]
    rest = text[marker.end() :]
    if marker[1] == "float":
        return float(rest)
    if marker[1] == "int":
        return int(rest, 16)
    return base64.b64decode(rest)


_SOME, _MANY = 100, 1000
_ATOMS = frozenset({int, bool, type(None)})
_SCALARS = _ATOMS | {str, float, bytes}
_CONTAINERS = frozenset({dict, list, tuple})
_PLAIN_ONLY = (
    orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)


def plain_size(value: Any, most: int | None = None) -> int | None:
    """Return the approximate size of a value in bytes, or None if it is not plain JSON.

    Plain means that the fast encoder keeps it unchanged or raises. It silently writes NaN as
    `null`: this finds such values first.

    Args:
        value: The value to encode.
        most: Stop at this size if the value has many parts, and return the size so far.
    """
    size = opened = 0
    seen: set[int] = set()
    todo: list[Any] = [value if type(value) in _CONTAINERS else (value,)]
    while todo:
        container = todo.pop()
        opened += 1
        if opened > _MANY:  # it may contain itself
            if id(container) in seen:
                return None
            seen.add(id(container))
        for part in container.values() if type(container) is dict else container:
            kind = type(part)
            if kind is str:
                size += len(part)
            elif kind in _CONTAINERS:
                if part:
                    todo.append(part)
            elif kind in _ATOMS or (kind is float and isfinite(part)):
                size += 8
            else:
                return None
        if most is not None and size >= most and opened > _SOME:
            break
    return size


def encode(value: Any) -> tuple[bytes, bool]:
    """Return the value as JSON on one line, and whether it went through `to_plain`.

    Raises:
        NotPlainError: The value cannot be stored as JSON.
    """
    encoded = encode_fast(value)
    if encoded is not None:
        return encoded, False
    return _encode_slowly(value, sort_keys=False), True


def encode_plain(value: Any, option: int = 0) -> bytes | None:
    """Return a plain value as JSON; None if the fast encoder refuses it."""
    try:
        return orjson.dumps(value, None, option)
    except TypeError:  # lone surrogates, wide integers, keys that are not strings, too many levels
        return None


def encode_fast(value: Any, option: int = 0) -> bytes | None:
    """Return a value as JSON if the fast encoder keeps it unchanged; else None.

    It refuses all other types. Two exceptions show in its output: NaN becomes `null`, and a member
    of an enum may be a string that looks like a marker. Only then is the value inspected, which
    takes longer than encoding it.
    """
    encoded = encode_plain(value, option | _PLAIN_ONLY)
    if encoded is not None and (b"null" in encoded or b'"~' in encoded):
        return encoded if plain_size(value) is not None else None
    return encoded


def dumps(value: Any, **options: Any) -> str:
    """Call the original `json.dumps`, even if user code has replaced it."""
    return JSONEncoder(**options).encode(value)


def spellings(text: str) -> set[bytes]:
    """Return how a string may be written as JSON.

    Two halves of a character are written as such, and read as that character.
    """
    halves = {dumps(text).encode()} if max(text, default="") > "\uffff" else set[bytes]()
    return {encode(text)[0], *halves}


def encode_canonical(value: Any) -> bytes:
    """Return the same bytes for equal values, regardless of the order of keys.

    Raises:
        NotPlainError: The value cannot be stored as JSON.
    """
    encoded = encode_fast(value, orjson.OPT_SORT_KEYS)
    if encoded is None:
        encoded = _encode_slowly(value, sort_keys=True)
        if b'"~' in encoded:  # a marker differs from a string that looks like it
            encoded = b"~" + encoded
    return encoded


def _encode_slowly(value: Any, *, sort_keys: bool) -> bytes:
    try:
        plain = to_plain(value)
        encoded = encode_plain(plain, orjson.OPT_SORT_KEYS if sort_keys else 0)
        if encoded is not None:
            return encoded
        text = dumps(plain, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
        return text.encode()
    except NotPlainError:
        raise
    except RecursionError as error:
        raise NotPlainError("it is nested too deep, or contains itself") from error
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"{type(error).__name__}: {text_of(error)}"
        raise NotPlainError(f"reading it raised {why}") from readable(error)


def kept_form(value: Any) -> Any:
    """Return a value as it is read back from disk.

    Raises:
        NotPlainError: The value cannot be stored as JSON.
    """
    encoded, marked = encode(value)
    return decode(encoded, marked=marked)


def exception_in(value: Any) -> BaseException | None:
    """Return the first exception in a value, however deep in its containers and dataclasses."""
    parts: list[Any] = [value]  # grows; it also keeps what was opened, so that ids are unique
    opened: set[int] = set()
    for part in parts:
        kind = type(part)
        if kind in _SCALARS:
            continue
        if issubclass(kind, BaseException):
            found: BaseException = part
            return found
        if id(part) not in opened:  # it may contain itself
            opened.add(id(part))
            parts.extend(_parts_of(part, kind))
    return None


def _parts_of(value: Any, kind: type) -> list[Any]:
    if issubclass(kind, dict):
        return [*dict.keys(value), *dict.values(value)]
    if issubclass(kind, Mapping):
        return [*value.keys(), *value.values()]
    if issubclass(kind, (list, tuple, set, frozenset)):
        return list(value)
    if dataclasses.is_dataclass(kind):
        return [getattr(value, field.name, None) for field in dataclasses.fields(kind)]
    if hasattr(kind, "model_fields"):  # pydantic
        return list(vars(value).values())
    return []


def decode(encoded: bytes, *, marked: bool) -> Any:
    """Return the value that `encode` encoded, given both values that it returned.

    Raises:
        ValueError: It is not JSON.
    """
    # The fast decoder turns large integers into floats and refuses lone surrogates.
    return from_plain(json.loads(encoded)) if marked else orjson.loads(encoded)
