"""What is this called?"""

import functools
from types import FunctionType
from typing import Any

from limpet.fingerprints.ownership import is_users


def module_name(thing: Any) -> str:
    """Return the name of the module that something was made in."""
    while type(thing) is functools.partial:
        thing = thing.func
    if type(thing) is FunctionType:
        return str(thing.__globals__.get("__name__") or thing.__module__ or "")
    module = getattr(thing, "__module__", None)
    if not isinstance(module, str):
        module = getattr(type(thing), "__module__", "")
    return str(module)


def plain_name(thing: Any) -> str:
    """Return the name of a function or a class; of an object, that of its class."""
    while type(thing) is functools.partial:
        thing = thing.func
    name = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else type(thing).__qualname__


def full_name(thing: Any) -> str:
    """Return a name that tells a library's things apart."""
    # A script's own module has another name when it is imported: there the name alone counts.
    module = "" if is_users(thing) or is_users(type(thing)) else module_name(thing)
    return f"{module}.{plain_name(thing)}".lstrip(".")
