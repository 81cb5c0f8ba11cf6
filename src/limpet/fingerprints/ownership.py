"""Whose code is it: the user's own, or an installed package's?

User code is what does not lie in an installed package, nor in Python, nor in this one.
"""

import functools
import os
import site
import sys
import sysconfig
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

from limpet.fingerprints.modules import file_of_module


def is_module(thing: Any) -> TypeGuard[ModuleType]:
    """Tell whether something is a module, also one of a library's own kind."""
    return ModuleType in type(thing).__mro__


def is_users(thing: Any) -> bool:
    """Tell whether a function, a class or an object's class is the user's own."""
    kind = type(thing)
    if kind is MethodType:
        thing, kind = thing.__func__, type(thing.__func__)
    if kind is FunctionType:
        # Not by its module: a wrapper from a library borrows the name of what it wraps.
        return is_users_file(thing.__code__.co_filename)
    name = getattr(thing, "__module__", None)
    if not isinstance(name, str):
        return False
    module = sys.modules.get(name)
    if module is not None and is_module(module):
        return is_users_module(module)
    return name == "__main__" or _is_users_by_name(name)


@functools.lru_cache(maxsize=1024)
def _is_users_by_name(name: str) -> bool:
    """Tell of a module whose place in `sys.modules` is empty, or taken by something else."""
    file = file_of_module(name, "")
    return file is not None and is_users_file(file)


def is_users_module(module: ModuleType) -> bool:
    """Tell whether a module is the user's own."""
    if module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if isinstance(file, str):
        return is_users_file(file)
    # Python's own have a spec; one without was made by hand.
    return getattr(module, "__spec__", None) is None and type(module) is ModuleType


@functools.lru_cache(maxsize=4096)
def is_users_file(file: str) -> bool:
    """Tell whether a file of code is the user's own: not Python's, not a package's."""
    if file.startswith("<frozen"):
        return False
    return not os.path.normpath(file).startswith(_libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    places |= {one for one in sys.path if Path(one).name in ("site-packages", "dist-packages")}
    return tuple(os.path.join(os.path.normpath(place), "") for place in places if place)  # noqa: PTH118 - with the last slash
