"""What counts of a value under a secret's name?

A string without white space does not count: it is the secret. If it does not look like a key, the
plan names it. A string with white space is prose, like a prompt about passwords: it counts by its
digest, and is not shown.
Anything else counts: `guess_password` is a function, `secret` may be a puzzle. The same holds for
strings in containers and in objects of libraries.
"""

import functools
from collections import deque
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.walk.ownership import full_name, is_module, is_users
from limpet.fingerprints.walk.result import UNSEEN_NAME, digest_of
from limpet.fingerprints.walk.safe_access import attributes_of, class_dict, is_a, mro_of
from limpet.fingerprints.walk.values import UNKNOWN, contents_of, form_of_scalar
from limpet.secrets.known import looks_secret

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_TEXT = (str, bytes, bytearray)
_CODE: tuple[type, ...] = (FunctionType, MethodType, BuiltinFunctionType, functools.partial)
_CODE += (staticmethod, classmethod, property)
_CONTAINERS = (list, tuple, set, frozenset, dict, deque, MappingProxyType)
_DEEPEST, _DEEPEST_IN_LIBRARIES = 20, 4
NOTHING: Any = object()
"""The value does not count at all."""


def form_behind_secret(walk: "Walk", path: str, value: Any, depth: int = 0) -> Any:
    """Return the form of a value under a secret's name; NOTHING if all of it is secret."""
    kind = type(value)
    if value is None:  # a key that is not set
        return NOTHING
    if is_a(value, *_TEXT):
        return form_of_text(walk, path, value)
    if _is_walked(walk, value):
        return walk.form(path, value)
    is_container = is_a(value, *_CONTAINERS)
    if depth >= (_DEEPEST if is_container else _DEEPEST_IN_LIBRARIES):
        return NOTHING
    if is_container:
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


def form_of_text(walk: "Walk", path: str, value: Any) -> Any:
    """Return the form of a text under a secret's name; NOTHING if it is the secret."""
    text = str.__str__(value) if is_a(value, str) else bytes(value).decode("latin-1")
    if is_prose(text):
        return ["text", digest_of(walk.normalizer.string(text))]
    is_known = not text or looks_secret(text) or walk.normalizer.string(text) != text
    walk.leave_out(path, "a secret" if is_known else UNSEEN_NAME)
    return NOTHING


def is_prose(text: str) -> bool:
    """Return whether a text under a secret's name is no secret: it has white space.

    A private key has lines, too, and says what it is.
    """
    return len(text.split()) > 1 and not text.lstrip().startswith("-----BEGIN ")


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
