"""How are attributes and names read without running any code of the object?

A proxy has every attribute, a lazy module is imported on access, a property runs arbitrary code. So
attributes are read from dicts and slots only.
"""

import contextlib
import functools
from collections.abc import Mapping
from threading import local
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

_HONEST = {id(FunctionType), id(BuiltinFunctionType), id(MethodType)}
_HONEST |= {id(MethodDescriptorType), id(WrapperDescriptorType)}
_LISTS = (str, tuple, list, dict, set, frozenset)
_bases = type.__dict__["__mro__"].__get__
_held = type.__dict__["__dict__"].__get__
_OF_CLASSES = {
    name: type.__dict__[name].__get__ for name in ("__module__", "__name__", "__qualname__")
}
_names_of_module = vars(ModuleType)["__dict__"].__get__


def is_a(thing: Any, *kinds: type) -> bool:
    """Return whether an object has exactly one of these types, not a subclass."""
    kind = type(thing)
    for wanted in kinds:  # noqa: SIM110 - called very often, and any() takes twice as long
        if kind is wanted:
            return True
    return False


def mro_of(cls: type) -> tuple[type, ...]:
    """Return a class and all its bases: its `__mro__`."""
    found: tuple[type, ...] = _bases(cls)
    return found


def class_dict(cls: type) -> Mapping[str, Any]:
    """Return the `__dict__` of a class."""
    found: Mapping[str, Any] = _held(cls)
    return found


def module_dict(module: ModuleType) -> dict[str, Any]:
    """Return the `__dict__` of a module, even if it is not loaded yet."""
    found: dict[str, Any] | None = _names_of_module(module)
    return {} if found is None else found


def text_at(thing: Any, name: str) -> str | None:
    """Return `__module__`, `__name__` or `__qualname__`; None if it is not a string."""
    kind = type(thing)
    found: Any = None
    if issubclass(kind, type):
        found = _OF_CLASSES[name](thing)
    elif id(kind) in _HONEST:
        found = getattr(thing, name, None)
    elif issubclass(kind, ModuleType):
        found = module_dict(thing).get(name)
    else:
        found = _own_dict(thing).get(name)
        if type(found) is not str and name == "__module__":
            found = _OF_CLASSES[name](kind)
    return found if type(found) is str else None


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object."""
    attributes: dict[str, Any] = {}
    for cls in mro_of(type(value)):
        slots = class_dict(cls).get("__slots__", ())
        if not is_a(slots, *_LISTS):
            continue
        for name in [slots] if type(slots) is str else tuple(slots):
            if type(name) is not str:
                continue
            slot = class_dict(cls).get(_mangled(cls, name))
            if type(slot) is MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # not set yet
                    attributes[name] = slot.__get__(value)
    attributes.update(_own_dict(value))
    return {name: held for name, held in attributes.items() if type(name) is str}


def _mangled(cls: type, name: str) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{(text_at(cls, '__name__') or '').lstrip('_')}{name}" if private else name


def _own_dict(value: Any) -> dict[Any, Any]:
    kind = type(value)
    if issubclass(kind, local):
        held: dict[Any, Any] = local.__getattribute__(value, "__dict__")
        return held
    for cls in mro_of(kind):
        found = class_dict(cls).get("__dict__")
        if type(found) is GetSetDescriptorType:
            with contextlib.suppress(AttributeError, TypeError):
                held = found.__get__(value)
                return held if type(held) is dict else {}
    return {}


def module_name(thing: Any) -> str:
    """Return the name of the module that defines an object or its class."""
    while type(thing) is functools.partial:
        thing = thing.func
    if type(thing) is FunctionType:
        return str(thing.__globals__.get("__name__") or thing.__module__ or "")
    return text_at(thing, "__module__") or text_at(type(thing), "__module__") or ""


def plain_name(thing: Any) -> str:
    """Return the qualified name of a function or class, or of an object's class."""
    while type(thing) is functools.partial:
        thing = thing.func
    return text_at(thing, "__qualname__") or text_at(type(thing), "__qualname__") or "?"
