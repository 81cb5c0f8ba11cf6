"""What counts of an object: its class, what it holds, its attributes."""

import contextlib
import io
import json
import os
import weakref
from collections import defaultdict, deque
from enum import Enum
from pathlib import PurePath
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints import chance, hidden, opaque
from limpet.fingerprints.asking import attributes_of, bases_of, text_at
from limpet.fingerprints.naming import full_name, plain_name
from limpet.fingerprints.ownership import is_users
from limpet.fingerprints.values import UNKNOWN, contents_of, form_of_scalar

if TYPE_CHECKING:
    from limpet.fingerprints.walk import Walk

_DEEPEST_IN_LIBRARY = 20
_MOST_IN_LIBRARY = 5_000
_DEEPEST_BRIEFLY = 4
# What belongs to the process and not to the answer: a semaphore holds its loop, a loop holds all
# that goes on, a logger every other logger and who listens.
_OF_THE_PROCESS = {"logging.Logger", "logging.Handler", "threading.Thread", "os._Environ"}
_OF_THE_PROCESS |= {"asyncio.events.AbstractEventLoop", "asyncio.transports.BaseTransport"}
_OF_THE_PROCESS |= {"_asyncio.Future", "asyncio.futures.Future", "asyncio.events.Handle"}
_OF_THE_PROCESS |= {"concurrent.futures._base.Executor", "concurrent.futures._base.Future"}
_OF_THE_PROCESS |= {"_socket.socket", "_contextvars.Context", "rich.console.Console"}
# What it does, for those who have it do something.
_GIVEN_TO_IT = ["_target", "_args", "_kwargs", "function", "args", "kwargs"]
_GIVEN_TO_IT += ["_initializer", "_initargs"]
_COUNTED_BY_TENACITY = {"_local", "statistics"}  # how often something was called, and when
_PLAIN_HOMES = {"builtins", "collections", "types"}
_SECRET_TYPES = {"SecretStr", "SecretBytes", "Secret"}


class Room:
    """How many objects of libraries are still looked into, behind one name."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_IN_LIBRARY

    def has_room(self, depth: int) -> bool:
        """Take one; tell whether there was one to take."""
        self._left -= 1
        return depth < _DEEPEST_IN_LIBRARY and self._left > 0


def form_of_object(walk: "Walk", path: str, value: Any, *, named: bool, depth: int) -> Any:
    """Return the form of an instance or a container."""
    kind = type(value)
    users = is_users(kind)
    home = text_at(kind, "__module__") or ""
    builtin = home in _PLAIN_HOMES
    if not users and not builtin and not walk.room.has_room(depth):
        walk.leave_out(path, f"too much in it: counts by its class and texts, {full_name(kind)}")
        return _briefly(walk, path, value, 0)
    if not users and any(full_name(base) in _OF_THE_PROCESS for base in bases_of(kind)):
        walk.leave_out(path, f"of the process: counts by its class, {full_name(kind)}")
        held = attributes_of(value)
        given = [(name, held[name]) for name in _GIVEN_TO_IT if name in held]
        return ["a", full_name(kind), [walk.form(f"{path}.{name}", one) for name, one in given]]
    what: Any = walk.form(plain_name(kind), kind) if users else full_name(kind)
    if home.startswith("pydantic") and kind.__name__ in _SECRET_TYPES:
        walk.leave_out(path, "a secret")
        return ["a", what]
    if issubclass(kind, Enum):
        held = walk.form(f"{path}.value", value.__dict__["_value_"], depth=depth + 1)
        return ["member", what, value.__dict__["_name_"], held]
    if not depth and not issubclass(kind, (tuple, frozenset)):
        walk.held.append(value)
    deeper = depth + (not users and not builtin)
    form: list[Any] = ["a", what]
    content = contents_of(value)
    if content is not None:
        form.append(_contents(walk, path, value, content, deeper))
    form += [walk.form(path, one, depth=deeper) for one in _beside(value)]
    attributes = attributes_of(value)
    if not attributes and len(form) == 2 and not users:  # noqa: PLR2004 - nothing but its class
        return opaque.form_of_opaque(walk, path, value, form, deeper)
    form += _attributes(walk, path, value, attributes, named=named and users, depth=deeper)
    return form


def _briefly(walk: "Walk", path: str, value: Any, depth: int) -> Any:
    """Return a form of what there is no room for: its plain values, and the user's own."""
    kind = type(value)
    form = form_of_scalar(value, walk.texts)
    if form is not UNKNOWN:
        return form
    if kind is FunctionType or issubclass(kind, type) or is_users(kind):
        return walk.form(path, value)
    if depth >= _DEEPEST_BRIEFLY or any(
        full_name(one) in _OF_THE_PROCESS for one in bases_of(kind)
    ):
        return ["a", full_name(kind)]
    held: list[Any] = [["", one] for one in contents_of(value) or ()]
    if issubclass(kind, dict) or kind is MappingProxyType:
        held = [pair for _, pair in held]
    if issubclass(kind, (set, frozenset)):
        return ["a", full_name(kind), sorted(repr(one) for _, one in held if type(one) is str)]
    held += sorted(attributes_of(value).items())
    return [
        "a",
        full_name(kind),
        [
            [name if type(name) is str else "…", _briefly(walk, path, one, depth + 1)]
            for name, one in held
            if type(name) is not str or not walk.is_secret(name)
        ],
    ]


def _attributes(
    walk: "Walk", path: str, value: Any, attributes: dict[str, Any], *, named: bool, depth: int
) -> list[Any]:
    kind = type(value)
    users = is_users(kind)
    differ = walk.by_chance.get(id(value), ())
    form = []
    counting = (text_at(kind, "__module__") or "").startswith("tenacity")
    for name, one in sorted(attributes.items()):
        if counting and name in _COUNTED_BY_TENACITY:
            continue
        at = f"{path}.{name}"
        if walk.is_secret(name):
            secret = hidden.form_behind_secret(walk, at, one)
            form += [] if secret is hidden.NOTHING else [[name, secret]]
        elif name in differ or (users and chance.is_in_class(walk, kind, name, one)):
            walk.leave_out_chance(at)
        elif named:
            walk.use(at, one, holder=value)
        else:
            form.append([name, walk.form(at, one, depth=depth)])
    return form


def _beside(value: Any) -> list[Any]:
    """Return what an object of a kind of Python's own has besides elements and attributes."""
    kind = type(value)
    beside: list[Any] = [
        f"{base.__name__} {base.__repr__(value)}"
        for base in (str, bytes, int, float)
        if issubclass(kind, base)
    ]
    if issubclass(kind, BaseException):
        beside.append(BaseException.args.__get__(value))  # type: ignore[attr-defined]
    elif issubclass(kind, defaultdict):
        beside.append(vars(defaultdict)["default_factory"].__get__(value))
    elif issubclass(kind, deque):
        beside.append(vars(deque)["maxlen"].__get__(value))
    elif issubclass(kind, PurePath):
        beside.append(PurePath.__str__(value))
    elif issubclass(kind, weakref.ref):
        beside.append(weakref.ref.__call__(value))
    elif issubclass(kind, (io.StringIO, io.BytesIO)):
        base: Any = io.StringIO if issubclass(kind, io.StringIO) else io.BytesIO
        with contextlib.suppress(ValueError):  # closed
            beside += [base.getvalue(value), base.tell(value)]
    return beside


def _contents(walk: "Walk", path: str, value: Any, content: list[Any], depth: int) -> Any:
    if issubclass(type(value), (set, frozenset)):
        return sorted(json.dumps(walk.form(f"{path}[…]", one, depth=depth)) for one in content)
    if issubclass(type(value), dict) or type(value) is MappingProxyType:
        differ = walk.by_chance.get(id(value), ())
        content = _without_environment(content)
        if content and all(type(key) is int and key == id(one) for key, one in content):
            content = [["id()", one] for _, one in content]  # by where it lies in memory
        return [
            [
                walk.form(f"{path}[key]", key, depth=depth),
                _item(walk, path, key, one, depth, differs=type(key) is str and key in differ),
            ]
            for key, one in content
        ]
    return [walk.form(f"{path}[{n}]", one, depth=depth) for n, one in enumerate(content)]


def _without_environment(content: list[Any]) -> list[Any]:
    """Leave the environment out of a dict that holds all of it: `{**os.environ, "MODE": "x"}`."""
    held = {key for key, one in content if type(key) is str and type(one) is str}
    if not os.environ or any(name not in held for name in os.environ):
        return content
    return [
        [key, one]
        for key, one in content
        if type(key) is not str or type(one) is not str or os.environ.get(key) != one
    ]


def _item(walk: "Walk", path: str, key: Any, value: Any, depth: int, *, differs: bool) -> Any:
    if type(key) is not str:
        return walk.form(f"{path}[…]", value, depth=depth)
    at = f"{path}[{key!r}]"
    if walk.is_secret(key):
        secret = hidden.form_behind_secret(walk, at, value)
        return None if secret is hidden.NOTHING else secret
    if differs:
        walk.leave_out_chance(at)
    else:
        return walk.form(at, value, depth=depth)
    return None
