"""Whose code opens a file: the user's, Python's for an import, or Limpet's own?

The frames that are running when the audit hook is called say so.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from limpet.fingerprints.walk.ownership import is_module, is_users_file

_OF_PYTHON = {"importlib._bootstrap_external", "linecache", "tokenize", "inspect", "runpy"}
_OF_PYTHON |= {"zipimport", "pkgutil", "traceback"}
_LIMPET = str(Path(__file__).parents[2])
_OF_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen")  # noqa: PTH120 - a string
_HOOK = "limpet.fingerprints.files.audit_hook"


def is_limpet() -> bool:
    """Return whether Limpet itself opens a file."""
    files = (frame.f_code.co_filename for frame in _frames())
    opener = next((file for file in files if not file.startswith(_OF_LIBRARY)), "")
    return opener.startswith(_LIMPET)


def is_imported(path: str) -> bool:
    """Return whether a path is the source of a module, or is read by an import: that is code."""
    if path.endswith(".py"):
        try:  # a copy of ten thousand modules takes longer than to look at the last ones
            return _is_of_module(path, reversed(sys.modules.values()))
        except RuntimeError:  # another thread imports a module
            return _is_of_module(path, list(sys.modules.values()))
    return os.path.isdir(path) and _is_read_by_python()  # noqa: PTH112 - a string


def _is_of_module(path: str, modules: Iterable[object]) -> bool:
    end = os.path.basename(path)  # noqa: PTH119 - a string
    files = (str(vars(module).get("__file__")) for module in modules if is_module(module))
    return any(file.endswith(end) and os.path.abspath(file) == path for file in files)  # noqa: PTH100 - strings


def is_found_by_name() -> bool:
    """Return whether a library loads a module for a user's function, by a name it was given.

    `pydoc.locate(name)`, `entry_point.load()`, `import_module(name)`: the code may not say which
    file that is. An `import` statement does. What is loaded while the user's modules are imported
    is in memory when a run is planned.
    """
    is_loading = is_by_library = is_in_function = is_at_import = False
    for frame in _frames():
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            is_loading |= code.co_name == "get_code"  # else its source is shown, as in a traceback
        elif code.co_filename.startswith(_LIMPET):
            break
        elif is_users_file(code.co_filename):
            is_at_import = code.co_name == "<module>"
            is_in_function |= not is_at_import
        else:
            is_by_library |= not is_in_function
    return is_loading and is_by_library and is_in_function and not is_at_import


def _is_read_by_python() -> bool:
    """Return whether Python itself reads: for an import or a traceback."""
    for frame in _frames():
        if frame.f_globals.get("__name__") in _OF_PYTHON:
            return True
        if not frame.f_code.co_filename.startswith(_OF_LIBRARY):
            return False
    return False


def running_functions() -> frozenset[tuple[str, int]]:
    """Return the file and line of each of the user's functions that is running."""
    codes = (frame.f_code for frame in _frames())
    return frozenset(
        (code.co_filename, code.co_firstlineno)
        for code in codes
        if code.co_name != "<module>" and is_users_file(code.co_filename)
    )


def importing_module() -> str:
    """Return the name of the user's module that is being imported; empty if there is none."""
    for frame in _frames():
        if frame.f_code.co_name == "<module>" and is_users_file(frame.f_code.co_filename):
            return str(frame.f_globals.get("__name__", ""))
    return ""


def _frames() -> Iterator[FrameType]:
    """Yield the frames that were running when the hook was called, innermost first."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - no public alternative
    # Not by `f_code`: reading that is itself an audit event.
    while frame is not None and frame.f_globals.get("__name__") != _HOOK:
        frame = frame.f_back  # of who records, wherever that is
    while frame is not None:
        if frame.f_globals.get("__name__") != _HOOK:
            yield frame
        frame = frame.f_back
