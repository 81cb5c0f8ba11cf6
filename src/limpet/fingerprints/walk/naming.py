"""What is this called?"""

import functools
from types import FunctionType
from typing import Any

from limpet.fingerprints.walk.asking import text_at
from limpet.fingerprints.walk.ownership import is_users


def module_name(thing: Any) -> str:
    """Return the name of the module that something was made in."""
    while type(thing) is functools.partial:
        thing = thing.func
    if type(thing) is FunctionType:
        return str(thing.__globals__.get("__name__") or thing.__module__ or "")
    return text_at(thing, "__module__") or text_at(type(thing), "__module__") or ""


def plain_name(thing: Any) -> str:
    """Return the name of a function or a class; of an object, that of its class."""
    while type(thing) is functools.partial:
        thing = thing.func
    return text_at(thing, "__qualname__") or text_at(type(thing), "__qualname__") or "?"


def full_name(thing: Any) -> str:
    """Return a name that tells a library's things apart."""
    # A script's own module has another name when it is imported: there the name alone counts.
    module = "" if is_users(thing) or is_users(type(thing)) else module_name(thing)
    return f"{module}.{plain_name(thing)}".lstrip(".")
