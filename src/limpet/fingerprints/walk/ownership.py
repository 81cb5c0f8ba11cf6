"""Whose code is it: the user's own, or an installed package's?

User code is what does not lie in an installed package, nor in Python, nor in this one.
"""

import functools
import os
import sys
import sysconfig
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

from limpet.fingerprints.code.imports import file_of_module
from limpet.fingerprints.walk.safe_access import module_name, names_of, plain_name, text_at

_FOR_PACKAGES = {"site-packages", "dist-packages"}


def is_module(thing: Any) -> TypeGuard[ModuleType]:
    """Tell whether something is a module, also one of a library's own kind."""
    return issubclass(type(thing), ModuleType)


def is_users(thing: Any) -> bool:
    """Tell whether a function, a class or an object's class is the user's own."""
    kind = type(thing)
    if kind is MethodType:
        thing, kind = thing.__func__, type(thing.__func__)
    if kind is FunctionType:
        # Not by its module: a wrapper from a library borrows the name of what it wraps.
        return is_users_file(thing.__code__.co_filename)
    name = text_at(thing, "__module__")
    if name is None:
        return False
    module = sys.modules.get(name)
    if module is not None and is_module(module):
        return is_users_module(module)
    return name == "__main__" or _is_users_by_name(name)


def full_name(thing: Any) -> str:
    """Return a name that tells a library's things apart."""
    # A script's own module has another name when it is imported: there the name alone counts.
    module = "" if is_users(thing) or is_users(type(thing)) else module_name(thing)
    return f"{module}.{plain_name(thing)}".lstrip(".")


@functools.lru_cache(maxsize=1024)
def _is_users_by_name(name: str) -> bool:
    """Tell of a module whose place in `sys.modules` is empty, or taken by something else."""
    file = file_of_module(name, "")
    return file is not None and is_users_file(file)


def is_users_module(module: ModuleType) -> bool:
    """Tell whether a module is the user's own."""
    names = names_of(module)
    if names.get("__name__") == "__main__":
        return True
    file = names.get("__file__")
    if type(file) is not str and "__path__" in names:
        file = _first_of(names["__path__"])
    if type(file) is str:
        return is_users_file(file)
    # Python's own have a spec; one without was made by hand.
    return names.get("__spec__") is None and type(module) is ModuleType


def _first_of(paths: Any) -> Any:
    """Return the first folder of a package; it has no file of its own, or is not loaded yet."""
    try:
        return next(iter(paths), None)
    except TypeError:
        return None


@functools.lru_cache(maxsize=4096)
def is_users_file(file: str) -> bool:
    """Tell whether a file of code is the user's own: not Python's, not a package's.

    What lies below a folder for packages is one's, however it is reached: by PYTHONPATH, by a .pth
    file, in a virtual environment within the project. A project that is installed as editable lies
    in its own folder.
    """
    if file.startswith("<frozen"):
        return False
    path = os.path.normpath(file)
    folders = Path(path).parts[:-1]
    for at, name in enumerate(folders):
        if name in _FOR_PACKAGES:
            return _is_linked(Path(*folders[: at + 2]))
    return not path.startswith(_pythons_own())


def _is_linked(package: Path) -> bool:
    """Tell whether a package is a link to a folder of the user's: a kind of editable install."""
    return package.is_symlink() and not _FOR_PACKAGES & {*Path(os.path.realpath(package)).parts}


@functools.cache
def _pythons_own() -> tuple[str, ...]:
    """Return the folders of Python itself, and of this package."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    places.add(str(Path(__file__).parents[2]))
    return tuple(os.path.join(os.path.normpath(place), "") for place in places if place)  # noqa: PTH118 - with the last slash
