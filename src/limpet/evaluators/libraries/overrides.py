"""How are another library's retries switched off, and switched on again?

Some can be switched off on a copy of the evaluator. Others are settings of a shared object: a
client, or the environment. Those are changed while an evaluator is open. If several need the same
setting, the last to close restores it.
"""

import copy
import re
import string
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from inspect import getattr_static
from operator import is_not
from types import CellType, FunctionType
from typing import Any

from limpet.errors import LimpetError
from limpet.evaluators.libraries.shapes import get, has
from limpet.transport.address import Address

_MISSING = object()
_Key = tuple[int, str]
_held: dict[_Key, tuple[int, Any, Any]] = {}  # how many hold it, the holder, the value before


class Overrides:
    """Temporary settings."""

    def __init__(self) -> None:
        self._keys: list[_Key] = []

    def set(self, holder: Any, name: str, value: Any) -> None:
        """Change an attribute of an object, or an item of a mapping, unless it is None."""
        if holder is None or not (isinstance(holder, MutableMapping) or hasattr(holder, name)):
            return
        key = (id(holder), name)
        count, _, before = _held.get(key, (0, holder, _MISSING))
        _held[key] = (count + 1, holder, before if count else _read(holder, name))
        self._keys.append(key)
        _write(holder, name, value)

    def restore(self) -> None:
        """Restore the settings that nobody else needs."""
        while self._keys:
            key = self._keys.pop()
            count, holder, before = _held.pop(key)
            if count > 1:
                _held[key] = (count - 1, holder, before)
            else:
                _write(holder, key[1], before)


def _read(holder: Any, name: str) -> Any:
    if isinstance(holder, MutableMapping):
        return holder.get(name, _MISSING)
    is_inherited = name not in (get(holder, "__dict__") or {name})
    is_slot = has(getattr_static(type(holder), name, None), "__set__")
    return _MISSING if is_inherited and not is_slot else get(holder, name)


def _write(holder: Any, name: str, value: Any) -> None:
    is_mapping = isinstance(holder, MutableMapping)
    if value is _MISSING:
        (holder.pop if is_mapping else holder.__delattr__)(name)
    elif is_mapping:
        holder[name] = value
    else:
        setattr(holder, name, value)


# ---- How are the retries of a model's client switched off, and which model does it ask? ---------
#
# Clients of the openai package and LangChain's models around them are recognised by their shape.
# The user's object is not changed: a copy shares its connections and makes one request per call.

UNREADABLE = (
    *("ValueError", "LookupError", "TypeError", "AttributeError"),
    *("LengthFinishReasonError", "ContentFilterFinishReasonError"),  # of the openai package
)
"""Exceptions of a library that cannot handle a reply."""
_PARAMS = "_identifying_params"  # LangChain's: model, temperature and the like, without keys


def is_client(thing: Any) -> bool:
    """Return whether an object is a client of the openai package."""
    return has(thing, "with_options", "chat", "max_retries")


def is_chat_model(thing: Any) -> bool:
    """Return whether an object is a chat model of LangChain."""
    return has(thing, "ainvoke", "with_structured_output", _PARAMS)


def without_retries(thing: Any) -> Any:
    """Return a client or a chat model that makes one request per call; other objects unchanged."""
    if is_client(thing):
        return thing.with_options(max_retries=0)
    if not is_chat_model(thing) or not has(thing, "root_async_client", "async_client"):
        return thing
    model = copy.copy(thing)
    for kind in ("", "async_"):
        root = get(thing, f"root_{kind}client")
        if is_client(root):
            root = root.with_options(max_retries=0)
            setattr(model, f"root_{kind}client", root)
            setattr(model, f"{kind}client", root.chat.completions)
    return model


def address_and_model(thing: Any, model: Any = None) -> tuple[str | None, Any]:
    """Return the address of a client or a chat model, and the model's name.

    Args:
        thing: The client or chat model.
        model: The model's name, for a client.
    """
    if is_client(thing):
        return shown_address(get(thing, "base_url")), model
    client = get(thing, "root_async_client") or get(thing, "root_client")
    return shown_address(get(client, "base_url")), get(thing, "model_name") or get(thing, "model")


def shown_address(address: Any) -> str | None:
    """Return an address without the credentials that it may contain."""
    try:
        found = Address(str(address), "base_url")
    except LimpetError:
        return None
    return found.origin + found.path


def described(thing: Any) -> Any:
    """Return what distinguishes a client or chat model, as plain data without keys."""
    address, model = address_and_model(thing)
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    facts = {"kind": kind, "address": address, "model": model}
    params = get(thing, _PARAMS)
    if isinstance(params, Mapping):
        facts["params"] = {name: params[name] for name in sorted(params, key=str)}
    return {name: value for name, value in facts.items() if value is not None}


# ---- What is in the closure of an evaluator, and how is it replaced? ----------------------------
#
# openevals and Inspect return functions: prompt and model are in their closures. A copy of such a
# function holds a model without retries, and the user's own stays unchanged.

Replace = Callable[[str, Any], Any]
"""Returns the new value of a variable, given its name and value."""


def variables(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in a function's closure, or those that a partial has filled."""
    if isinstance(function, partial):
        yield from ((f"argument {index}", value) for index, value in enumerate(function.args))
        yield from function.keywords.items()
    elif isinstance(function, FunctionType):
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                yield name, cell.cell_contents
            except ValueError:  # it has no value yet
                continue


def is_of(thing: Any, package: str) -> bool:
    """Return whether an object is a function of a package, or a partial of one."""
    function = thing.func if isinstance(thing, partial) else thing
    module = getattr(function, "__module__", None)
    is_function = isinstance(function, FunctionType) and isinstance(module, str)
    return is_function and str(module).partition(".")[0] == package


def replaced(function: Any, replace: Replace, package: str) -> Any:
    """Return a function with other values in its closure; the same one if nothing changes.

    Only what changes is copied, so that shared variables stay shared. Functions of the package in
    its closure are copied, too.
    """
    values = dict(variables(function))
    new = {name: _new(name, value, replace, package) for name, value in values.items()}
    if all(new[name] is value for name, value in values.items()):
        return function
    if isinstance(function, partial):
        named = {name: new[name] for name in function.keywords}
        return partial(function.func, *(new[name] for name in new if name not in named), **named)
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    closure = tuple(
        cell if new.get(name) is values.get(name) else CellType(new[name]) for name, cell in cells
    )
    code, names = function.__code__, function.__globals__
    copy = FunctionType(code, names, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _new(name: str, value: Any, replace: Replace, package: str) -> Any:
    if is_of(value, package):
        return replaced(value, replace, package)
    if isinstance(value, list):
        items = [_new(name, item, replace, package) for item in value]
        return items if any(map(is_not, items, value)) else value
    return replace(name, value)


def format_fields(template: str) -> tuple[str, ...] | None:
    """Return the names in a template for `str.format`; None if it is not one."""
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field]
    except ValueError:
        return None
    return tuple(dict.fromkeys(re.split(r"[.\[]", field)[0] for field in fields))
