"""What of a value can be compared from one process to the next?"""

import dataclasses
import datetime as dt
import re
import string
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, SimpleNamespace
from typing import Any
from uuid import UUID

from limpet.journal.source import is_users

_MOST_LEVELS = 20
# Issue and answer are the same whoever asks and however long one waits.
_BESIDE_THE_POINT = re.compile(
    r"(?i)(^|_)(api_?key|secret|passw(or)?d|credentials?|timeout(_s|_seconds)?|concurrency)$"
    r"|(^|_)(access|auth|api|bearer)_?token$"
)


def is_beside_the_point(name: str, value: Any) -> bool:
    """Tell whether a value changes no result: a secret, a time-out, a path."""
    return bool(_BESIDE_THE_POINT.search(name)) or isinstance_safely(value, PurePath)


def isinstance_safely(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Tell by its type alone: asking a proxy for its class may run any code."""
    return issubclass(type(value), kinds)


def comparable(value: Any, take: Callable[[Any], None], level: int = 0) -> Any:
    """Return a value as plain data that is the same in every process; None: nothing to compare.

    Args:
        value: Anything.
        take: Told of functions, classes and objects of the user's own, to be read as code.
        level: How deep it is.
    """
    kind = type(value)
    if value is None or issubclass(kind, (str, bytes, bool, int, float)):
        return [kind.__qualname__, value.value if issubclass(kind, Enum) else value]
    if level > _MOST_LEVELS:
        return None
    below = partial(comparable, take=take, level=level + 1)
    if issubclass(kind, (list, tuple)):
        return [kind.__qualname__, [below(one) for one in value]]
    if issubclass(kind, Mapping):
        return ["dict", [[below(key), below(one)] for key, one in value.items()]]
    if issubclass(kind, (set, frozenset)):
        return ["set", sorted(repr(below(one)) for one in value)]
    if kind in (FunctionType, MethodType, BuiltinFunctionType, partial) or issubclass(kind, type):
        return _named(value, take)
    return _of_object(value, kind, take, below)


def _named(value: Any, take: Callable[[Any], None]) -> list[str] | None:
    if is_users(value) or type(value) is partial:
        take(value)
    elif "__wrapped__" in getattr(value, "__dict__", ()):
        take(value)  # a wrapper from a library around something of the user's own
    target = value.func if type(value) is partial else value
    return None if is_users(target) else ["code", f"{target.__module__}.{target.__qualname__}"]


def _of_object(
    value: Any, kind: type, take: Callable[[Any], None], below: Callable[[Any], Any]
) -> Any:
    name = kind.__qualname__
    if issubclass(kind, Enum):
        return [name, value.name, below(value.value)]
    if issubclass(kind, re.Pattern):
        return [name, value.pattern, value.flags]
    if issubclass(kind, string.Template):
        return [name, value.template]
    if issubclass(kind, (Decimal, UUID, dt.date, dt.time, dt.timedelta)):
        return [name, str(value)]
    if dataclasses.is_dataclass(kind):
        fields = [one.name for one in dataclasses.fields(kind)]
        return [name, [[one, below(getattr(value, one))] for one in fields]]
    if issubclass(kind, SimpleNamespace) or hasattr(kind, "model_fields"):
        return [name, below(dict(vars(value)))]
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(kind, "tolist"):
        return [name, value.tolist()]
    if is_users(kind):
        take(value)  # what it is and what it was made with; what its methods change is state
    return None
