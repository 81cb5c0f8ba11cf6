"""What counts of a value under a secret's name?

Strings do not count: they are the secret. Anything else does: `guess_password` is a function,
`secret` may be a puzzle. Strings in containers and in objects of libraries do not count either.
"""

import datetime as dt
import functools
from collections import deque
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.walk.ownership import full_name, is_module, is_users
from limpet.fingerprints.walk.safe_access import attributes_of, class_dict, is_a, mro_of
from limpet.fingerprints.walk.values import UNKNOWN, contents_of, form_of_scalar

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_SECRET = (str, bytes, bytearray, type(None), dt.datetime, dt.date)
_CODE: tuple[type, ...] = (FunctionType, MethodType, BuiltinFunctionType, functools.partial)
_CODE += (staticmethod, classmethod, property)
_CONTAINERS = (list, tuple, set, frozenset, dict, deque, MappingProxyType)
_DEEPEST = 4
NOTHING: Any = object()
"""The value does not count at all."""


def form_behind_secret(walk: "Walk", path: str, value: Any, depth: int = 0) -> Any:
    """Return the form of a value under a secret's name; NOTHING if all of it is secret."""
    kind = type(value)
    if is_a(value, *_SECRET):
        walk.leave_out(path, "a secret")
        return NOTHING
    if _is_walked(walk, value):
        return walk.form(path, value)
    walk.leave_out(path, "a secret: its strings do not count")
    if depth >= _DEEPEST:
        return NOTHING
    if is_a(value, *_CONTAINERS):
        held: list[tuple[str, Any]] = [
            (f"{path}[…]", part)
            for element in contents_of(value) or ()
            for part in (element if is_a(value, dict, MappingProxyType) else [element])
        ]
    else:
        held = [
            (f"{path}.{name}", held_value)
            for name, held_value in sorted(attributes_of(value).items())
        ]
    forms = [form_behind_secret(walk, at, held_value, depth + 1) for at, held_value in held]
    return [full_name(kind), *(form for form in forms if form is not NOTHING)]


def _is_walked(walk: "Walk", value: Any) -> bool:
    """Return whether a value counts as under any other name."""
    kind = type(value)
    if is_a(value, *_CODE) or issubclass(kind, type) or is_module(value) or is_users(kind):
        return True
    if form_of_scalar(value, walk.normalizer) is not UNKNOWN:
        return True
    # An object that acts as a function: a cache around it, a tool.
    return any(
        name in class_dict(base) for base in mro_of(kind) for name in ("__call__", "__get__")
    )
