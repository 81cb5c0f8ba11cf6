"""What is the form of an object: its class, elements and attributes?

An object without visible elements or attributes counts by its pickled state. Without that, the
user's functions and objects that it refers to count: a wrapper written in C refers to the function
that it wraps.
"""

import contextlib
import gc
import io
import os
import warnings
import weakref
from collections import defaultdict, deque
from enum import Enum
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
)
from typing import Any

from limpet.fingerprints.walk import volatile
from limpet.fingerprints.walk.ownership import full_name, is_users
from limpet.fingerprints.walk.safe_access import (
    attributes_of,
    class_dict,
    is_a,
    mro_of,
    plain_name,
    text_at,
)
from limpet.fingerprints.walk.values import UNKNOWN, contents_of, form_of_scalar
from limpet.fingerprints.walk.walk import ALL_SECRET, Walk
from limpet.json_values import dumps
from limpet.secrets.known import is_secret_name

_DEEPEST_BRIEFLY = 4
# Objects of the process that do not affect answers: an event loop refers to all running tasks, a
# logger to every other logger.
_OF_THE_PROCESS = {"logging.Logger", "logging.Handler", "threading.Thread", "os._Environ"}
_OF_THE_PROCESS |= {"asyncio.events.AbstractEventLoop", "asyncio.transports.BaseTransport"}
_OF_THE_PROCESS |= {"_asyncio.Future", "asyncio.futures.Future", "asyncio.events.Handle"}
_OF_THE_PROCESS |= {"concurrent.futures._base.Executor", "concurrent.futures._base.Future"}
_OF_THE_PROCESS |= {"_socket.socket", "_contextvars.Context", "rich.console.Console"}
# The functions that such an object calls.
_CALLED = ["_target", "_args", "_kwargs", "function", "args", "kwargs", "_initializer", "_initargs"]
# Models, which describe themselves without their keys and connections.
_DESCRIBED = {"limpet.models.server_model.ServerModel", "limpet.models.client_model.ClientModel"}
_COUNTED_BY_TENACITY = {"_local", "statistics"}  # the number and times of calls
# Type hints that `functools.update_wrapper` copies; the wrapped function has them too.
_COPIED_HINTS = {"__annotations__", "__annotate__", "__type_params__"}
_PLAIN_HOMES = {"builtins", "collections", "types"}
_SECRET_TYPES = {"SecretStr", "SecretBytes", "Secret"}
# The base class in C: isinstance checks against an abstract class run code of its subclasses.
_STREAM: type = io.IOBase.__base__ or io.IOBase


def form_of_object(walk: Walk, path: str, value: Any, *, named: bool, depth: int) -> Any:
    """Return the form of an instance or a container."""
    kind = type(value)
    users = is_users(kind)
    home = text_at(kind, "__module__") or ""
    builtin = home in _PLAIN_HOMES
    if not users and not builtin and not walk.has_room(depth):
        walk.leave_out(path, f"too large: counts by its class and strings, {full_name(kind)}")
        return _briefly(walk, path, value, 0)
    if not users and _is_of_process(kind):
        walk.leave_out(path, f"of the process: counts by its class, {full_name(kind)}")
        held = attributes_of(value)
        called = [(name, held[name]) for name in _CALLED if name in held]
        return [
            "a",
            full_name(kind),
            [walk.form(f"{path}.{name}", held_value) for name, held_value in called],
        ]
    if not users and full_name(kind) in _DESCRIBED:
        return ["a", full_name(kind), walk.form(path, value.described)]
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
    form += [walk.form(path, part, depth=deeper) for part in _builtin_state(value)]
    attributes = attributes_of(value)
    if not attributes and len(form) == 2 and not users:  # noqa: PLR2004 - only its class
        return _form_of_opaque(walk, path, value, form, deeper)
    form += _attributes(walk, path, value, attributes, named=named and users, depth=deeper)
    return form


def _is_of_process(kind: type) -> bool:
    return any(full_name(base) in _OF_THE_PROCESS for base in mro_of(kind))


def _briefly(walk: Walk, path: str, value: Any, depth: int) -> Any:
    """Return a short form when there is no room: plain values, and the user's objects."""
    kind = type(value)
    form = form_of_scalar(value, walk.normalizer)
    if form is not UNKNOWN:
        return form
    if kind is FunctionType or issubclass(kind, type) or is_users(kind):
        return walk.form(path, value)
    if depth >= _DEEPEST_BRIEFLY or _is_of_process(kind):
        return ["a", full_name(kind)]
    held: list[Any] = [["", element] for element in contents_of(value) or ()]
    if issubclass(kind, dict) or kind is MappingProxyType:
        held = [pair for _, pair in held]
    if issubclass(kind, (set, frozenset)):
        strings = (element for _, element in held if type(element) is str)
        return ["a", full_name(kind), sorted(map(repr, strings))]
    held += sorted(attributes_of(value).items())
    forms = []
    for name, element in held:
        if type(name) is str and is_secret_name(name):
            form = walk.form_behind_secret(f"{path}.{name}", element)
        else:
            form = _briefly(walk, path, element, depth + 1)
        if form is not ALL_SECRET:
            forms.append([name if type(name) is str else "…", form])
    return ["a", full_name(kind), forms]


def _attributes(
    walk: Walk, path: str, value: Any, attributes: dict[str, Any], *, named: bool, depth: int
) -> list[Any]:
    kind = type(value)
    users = is_users(kind)
    differ = walk.volatile.get(id(value), ())
    form = []
    counting = (text_at(kind, "__module__") or "").startswith("tenacity")
    for name, held in sorted(attributes.items()):
        if counting and name in _COUNTED_BY_TENACITY:
            continue
        if name in _COPIED_HINTS and "__wrapped__" in attributes:
            continue
        at = f"{path}.{name}"
        if is_secret_name(name):
            secret = walk.form_behind_secret(at, held)
            form += [] if secret is ALL_SECRET else [[name, secret]]
        elif name in differ or (users and volatile.is_in_class(walk, kind, name, held)):
            walk.leave_out_volatile(at)
        elif named:
            walk.add(at, held, holder=value)
        else:
            form.append([name, walk.form(at, held, depth=depth)])
    return form


def _builtin_state(value: Any) -> list[Any]:
    """Return the state of a built-in class's instance besides elements and attributes."""
    kind = type(value)
    state: list[Any] = [
        f"{base.__name__} {base.__repr__(value)}"
        for base in (str, bytes, int, float)
        if issubclass(kind, base)
    ]
    if issubclass(kind, BaseException):
        state.append(BaseException.args.__get__(value))  # type: ignore[attr-defined]
    elif issubclass(kind, defaultdict):
        state.append(vars(defaultdict)["default_factory"].__get__(value))
    elif issubclass(kind, deque):
        state.append(vars(deque)["maxlen"].__get__(value))
    elif issubclass(kind, PurePath):
        state.append(PurePath.__str__(value))
    elif issubclass(kind, weakref.ref):
        state.append(weakref.ref.__call__(value))
    elif issubclass(kind, (io.StringIO, io.BytesIO)):
        base: Any = io.StringIO if issubclass(kind, io.StringIO) else io.BytesIO
        with contextlib.suppress(ValueError):  # closed
            state += [base.getvalue(value), base.tell(value)]
    return state


def _contents(walk: Walk, path: str, value: Any, content: list[Any], depth: int) -> Any:
    if issubclass(type(value), (set, frozenset)):
        return sorted(dumps(walk.form(f"{path}[…]", element, depth=depth)) for element in content)
    if issubclass(type(value), dict) or type(value) is MappingProxyType:
        differ = walk.volatile.get(id(value), ())
        content = _without_environment(content)
        if content and all(type(key) is int and key == id(element) for key, element in content):
            content = [["id()", element] for _, element in content]  # the keys are addresses
        return [
            [
                walk.form(f"{path}[key]", key, depth=depth),
                _item(walk, path, key, element, depth, differs=type(key) is str and key in differ),
            ]
            for key, element in content
        ]
    return [walk.form(f"{path}[{n}]", element, depth=depth) for n, element in enumerate(content)]


def _without_environment(content: list[Any]) -> list[Any]:
    """Drop the environment from a dict that contains all of it: `{**os.environ, "MODE": "x"}`."""
    held = {key for key, element in content if type(key) is str and type(element) is str}
    if not os.environ or any(name not in held for name in os.environ):
        return content
    return [
        [key, element]
        for key, element in content
        if type(key) is not str or type(element) is not str or os.environ.get(key) != element
    ]


def _item(walk: Walk, path: str, key: Any, value: Any, depth: int, *, differs: bool) -> Any:
    if type(key) is not str:
        return walk.form(f"{path}[…]", value, depth=depth)
    at = f"{path}[{key!r}]"
    if is_secret_name(key):
        secret = walk.form_behind_secret(at, value)
        return None if secret is ALL_SECRET else secret
    if not differs:
        return walk.form(at, value, depth=depth)
    walk.leave_out_volatile(at)
    return None


# ---- opaque objects -----------------------------------------------------------------------------


def _form_of_opaque(walk: Walk, path: str, value: Any, form: list[Any], depth: int) -> Any:
    """Return the form of an object without visible elements or attributes."""
    kind = type(value)
    if kind is object:
        return form
    pickled = _pickled(value)
    if pickled is not None:
        held = list(walk.held)
        form = [*form, [walk.form(f"{path}.state", part, depth=depth) for part in pickled]]
        walk.held = held  # objects created for the pickle are not state
        return form
    inner = [referent for referent in gc.get_referents(value) if _is_followed(referent)]
    texts = [] if issubclass(kind, _STREAM) else _texts(value)
    if not inner and not texts:
        walk.leave_out(path, f"no stable form: counts by its class, {full_name(kind)}")
    form += [walk.form(f"{path}.held", referent, depth=depth) for referent in inner]
    return form + texts


def _pickled(value: Any) -> list[Any] | None:
    if issubclass(type(value), _STREAM):
        return None
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pickled = value.__reduce_ex__(2)
        if isinstance(pickled, str):
            return [pickled]
        # The last two are iterators.
        return [
            *pickled[:3],
            *(None if elements is None else list(elements) for elements in pickled[3:5]),
        ]
    return None


def _is_followed(referent: Any) -> bool:
    kind = type(referent)
    if issubclass(kind, type):
        return False
    return is_a(referent, FunctionType, MethodType, BuiltinFunctionType) or is_users(kind)


def _texts(value: Any) -> list[Any]:
    """Return the strings that a C object exposes. Numbers may be addresses."""
    found = []
    for name, member in sorted(class_dict(type(value)).items()):
        if is_a(member, GetSetDescriptorType, MemberDescriptorType) and name not in (
            "__doc__",
            "__module__",
            "__dict__",
            "__text_signature__",
        ):
            with contextlib.suppress(Exception):
                text = member.__get__(value)
                if type(text) is str and " at 0x" not in text:
                    found.append([name, text])
    return found


# ---- What is the form of a `typing` object: `Literal["a"]`, a type variable? --------------------
#
# Their attributes differ between versions of Python; their meaning does not.

_VARIABLES = {"TypeVar", "ParamSpec", "TypeVarTuple"}
_OF_ALIASES = ("__origin__", "__args__", "__metadata__")


def form_of_typing(walk: Walk, path: str, value: Any, depth: int) -> Any:
    """Return the form of an object of `typing`; UNKNOWN for any other value."""
    kind = type(value)
    if text_at(kind, "__module__") != "typing":
        return UNKNOWN
    held = attributes_of(value)
    if any(base.__name__ == "_SpecialForm" for base in mro_of(kind)):
        return ["library", f"typing.{held['_name']}"]
    if kind.__name__ in _VARIABLES:
        return ["library", f"typing.{value.__name__}"]
    if "__origin__" not in held:
        return UNKNOWN
    parts = [(name, held[name]) for name in _OF_ALIASES if name in held]
    forms = [walk.form(f"{path}.{name}", part, depth=depth) for name, part in parts]
    return ["a", full_name(kind), forms]
