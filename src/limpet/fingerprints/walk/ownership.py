"""Does code belong to the user or to an installed package?

Code belongs to the user if it is not in an installed package, not in Python and not in Limpet.
"""

import functools
import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

from limpet.fingerprints.code.statements import file_of_module
from limpet.fingerprints.walk.safe_access import (
    class_dict,
    module_dict,
    module_name,
    plain_name,
    text_at,
)

_FOR_PACKAGES = {"site-packages", "dist-packages"}
# Modules that are the same as another one.
_OTHER_NAMES = {
    "__mp_main__": "__main__",  # the script in a worker, and in a child of multiprocessing
    "_collections": "collections",  # of a namedtuple, before Python 3.12
    "pathlib._local": "pathlib",  # in Python 3.13
}


def is_module(thing: Any) -> TypeGuard[ModuleType]:
    """Return whether an object is a module, or an instance of a subclass."""
    return issubclass(type(thing), ModuleType)


def is_users(thing: Any) -> bool:
    """Return whether a function or a class is the user's."""
    kind = type(thing)
    if kind is MethodType:
        thing, kind = thing.__func__, type(thing.__func__)
    if kind is FunctionType:
        # Not by `__module__`: a library's wrapper copies it from the wrapped function.
        return is_users_file(thing.__code__.co_filename)
    name = text_at(thing, "__module__")
    if name is None:
        return False
    module = sys.modules.get(name)
    if module is not None and is_module(module):
        return is_users_module(module)
    return name == "__main__" or _is_users_by_name(name)


def full_name(thing: Any) -> str:
    """Return a unique name: with the module, unless it is the user's."""
    # A script has another module name when it is imported, so the user's modules are omitted.
    module = "" if is_users(thing) or is_users(type(thing)) else module_name(thing)
    module = _OTHER_NAMES.get(module, module)
    return f"{module}.{plain_name(thing)}".lstrip(".")


@functools.lru_cache(maxsize=1024)
def _is_users_by_name(name: str) -> bool:
    """Return whether a module that is not in `sys.modules` is the user's."""
    file = file_of_module(name, "")
    return file is not None and is_users_file(file)


def is_users_module(module: ModuleType) -> bool:
    """Return whether a module is the user's."""
    names = module_dict(module)
    if names.get("__name__") == "__main__":
        return True
    file = names.get("__file__")
    if type(file) is not str and "__path__" in names:
        file = _first_of(names["__path__"])
    if type(file) is str:
        return is_users_file(file)
    # Python's modules have a spec. A module without one was created by hand.
    return names.get("__spec__") is None and type(module) is ModuleType


def _first_of(paths: Any) -> Any:
    """Return the first folder of a package without a file."""
    try:
        return next(iter(paths), None)
    except TypeError:
        return None


@functools.lru_cache(maxsize=4096)
def is_users_file(file: str) -> bool:
    """Return whether a source file is the user's: not Python's, not a package's.

    A file below `site-packages` belongs to a package, even if it is found by PYTHONPATH, by a .pth
    file or in a virtual environment inside the project. An editable install is outside it.
    """
    if file.startswith("<frozen"):
        return False
    path = os.path.normpath(file)
    folders = Path(path).parts[:-1]
    for at, name in enumerate(folders):
        if name in _FOR_PACKAGES:
            return _is_linked(Path(*folders[: at + 2]))
    return not path.startswith(_pythons_own())


@functools.lru_cache(maxsize=4096)
def holds_users_files(folder: str) -> bool:
    """Return whether files in a folder are the user's, by its path or its links' targets."""
    # Bytecode may be in a separate tree, under the path of its source.
    folder = os.path.normpath(folder.removeprefix(sys.pycache_prefix or "") or "/")
    above = os.path.dirname(folder)  # noqa: PTH120 - strings
    if above not in ("", folder) and not os.path.islink(folder) and not holds_users_files(above):  # noqa: PTH114
        return False  # cheap: a library has hundreds of folders
    return any(
        is_users_file(os.path.join(path, "any"))  # noqa: PTH118 - strings
        for path in (folder, os.path.realpath(folder))
    )


def _is_linked(package: Path) -> bool:
    """Return whether a package is a link to a user's folder: a kind of editable install."""
    return package.is_symlink() and not _FOR_PACKAGES & {*Path(os.path.realpath(package)).parts}


@functools.cache
def _pythons_own() -> tuple[str, ...]:
    """Return the folders of Python and of Limpet."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    folders.add(str(Path(__file__).parents[2]))
    return tuple(os.path.join(os.path.normpath(folder), "") for folder in folders if folder)  # noqa: PTH118 - with a trailing slash


def home_of(cls: type) -> tuple[Mapping[str, Any], str | None]:
    """Return the globals of the module that defines a class, and its file."""
    home = text_at(cls, "__module__") or ""
    module = sys.modules.get(home)
    if module is not None and is_module(module):
        file = module_dict(module).get("__file__")
        return module_dict(module), file if isinstance(file, str) else _file_of_methods(cls)
    return {}, _file_of_methods(cls) or file_of_module(home, "")


def _file_of_methods(cls: type) -> str | None:
    methods = (method for method in class_dict(cls).values() if type(method) is FunctionType)
    return next((method.__code__.co_filename for method in methods), None)


# ---- Which folder is the user's project? --------------------------------------------------------

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", ".git")


def project_folder(start: Path) -> Path | None:
    """Return the project's folder that contains a folder; None if no marker file shows it."""
    start = Path(os.path.abspath(start))  # noqa: PTH100 - links stay
    for folder in (start, *start.parents):
        if folder in (Path.home(), Path(folder.anchor)):
            break
        if any((folder / mark).exists() for mark in _MARKS):
            return folder
    return None


def folders_of(homes: Iterable[Path]) -> list[Path]:
    """Return the base folders of a project's paths, also with links resolved.

    The working directory is one of them, unless it is just any folder above the project: then paths
    would depend on where a run is started.

    Args:
        homes: The folders of the project's code.
    """
    homes = [Path(os.path.abspath(home)) for home in homes]  # noqa: PTH100 - links stay
    here = Path.cwd()
    known = [project_folder(home) for home in homes]
    is_above = any(project and here in project.parents for project in known)
    found = [project or home for project, home in zip(known, homes, strict=True)]
    if not (is_above and project_folder(here) is None):
        found.insert(0, project_folder(here) or here)
    linked = (path for one in found for path in (one, real_path(one)))
    return list(dict.fromkeys(linked))


@functools.cache
def real_path(path: Path) -> Path:
    """Return a path with links resolved."""
    return Path(os.path.realpath(path))
