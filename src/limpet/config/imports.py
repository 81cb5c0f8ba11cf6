"""Which object does "module:name" name? If none, why?

The folder of the file is put first on `sys.path` and stays there: user functions may import more
modules when they are called.
"""

import importlib
import re
import sys
import traceback
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from limpet.config.environment import is_from_environment, written_as
from limpet.config.errors import CANNOT_IMPORT
from limpet.errors import LimpetError
from limpet.fingerprints.files.audit_hook import importing
from limpet.secrets.masking import by_environment
from limpet.text import hint_near, one_line, quoted, text_of

_WORD = r"[^\W\d]\w*"
_REFERENCE = re.compile(rf"{_WORD}(\.{_WORD})*:{_WORD}(\.{_WORD})*")


class BadReferenceError(LimpetError, ValueError):
    """A value is not "module:name", or names nothing."""


def checked_reference(value: Any) -> str:
    """Return the value if it is written as "module:name".

    Raises:
        BadReferenceError: It is not.
    """
    must = "must be module:name, like app:answer"
    if not isinstance(value, str):
        raise BadReferenceError(must)
    module = value.partition(":")[0]
    if _REFERENCE.fullmatch(value) and not module.endswith(".py"):
        return value
    raise BadReferenceError(must, hint=_meant_reference(str(value)))


def _meant_reference(value: str) -> str | None:
    if value.startswith(("http://", "https://")):
        return "for a server, write workflow: {http: …}, or {nat: …} for nat serve"
    if ":" not in value and len(value.split()) > 1:
        return "for a program, write workflow: {command: …}"
    tidy = value.strip().removeprefix("./").replace(".py:", ":").replace("/", ".")
    if ":" not in tidy and "." in tidy.removesuffix(".py"):
        tidy = ":".join(tidy.rsplit(".", 1))
    return f"did you mean {tidy}?" if tidy != value and _REFERENCE.fullmatch(tidy) else None


def put_first(folder: Path) -> None:
    """Put a folder first on `sys.path`."""
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # a module may be brand new


def imported(reference: str, folder: Path) -> Any:
    """Import the object that a "module:name" names; both parts may have dots.

    Raises:
        BadReferenceError: The module or name does not exist, or its code fails.
    """
    module_name, _, names = str(reference).partition(":")
    # Show a reference from the environment as written, never its value.
    hidden = is_from_environment(reference)
    shown = one_line(written_as(reference)) if hidden else module_name
    _check_namesake(module_name.partition(".")[0], folder)
    found = _module(module_name, shown, folder, hidden=hidden)
    for name in names.split("."):
        found = _attribute(found, name, shown, hidden=hidden)
    return found


def _check_namesake(top: str, folder: Path) -> None:
    """Raise if another module of the same name is already imported."""
    loaded = getattr(sys.modules.get(top), "__file__", None)
    spec = PathFinder.find_spec(top, [str(folder)])
    if loaded and spec and spec.origin and Path(spec.origin).resolve() != Path(loaded).resolve():
        text = f"{Path(spec.origin).name} next to this file is not the module {quoted(top)} that is"
        text += f" already imported, from {one_line(loaded)}"
        raise BadReferenceError(text, hint="rename one of them")


def _module(name: str, shown: str, folder: Path, *, hidden: bool) -> Any:
    try:
        with importing():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failure(shown, error, folder) from error
        missing = shown if hidden else error.name
        near = None if hidden else hint_near(error.name, _modules_in(folder))
        hint = near or "searched next to this file and in the installed packages"
        raise BadReferenceError(f"no module named {quoted(missing)}", hint=hint) from error
    except (Exception, SystemExit) as error:
        raise _failure(shown, error, folder) from error


def _modules_in(folder: Path) -> list[str]:
    try:
        beside = list(folder.iterdir())
    except OSError:
        return []
    return [
        file.stem for file in beside if file.suffix == ".py" or (file / "__init__.py").is_file()
    ]


def _failure(shown: str, error: BaseException, folder: Path) -> BadReferenceError:
    """Return the error for an exception in a module, with the line in the user's code."""
    raised = by_environment().ours.text(f"{type(error).__name__}: {text_of(error)}")
    file, line = _spot(error, folder)
    hint = None
    if isinstance(error, ModuleNotFoundError) and error.name:
        hint = f"{one_line(file)} imports {error.name}, which is not installed here"
    if isinstance(error, SystemExit):
        hint = "put the code that exits under: if __name__ == '__main__':"
    text = f"{shown}{CANNOT_IMPORT}{one_line(f'{file}:{line}: {raised}')}"
    return BadReferenceError(text, hint=hint)


def _spot(error: BaseException, folder: Path) -> tuple[str, int]:
    spots = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        spots = [(error.filename, error.lineno)]
    ours = (__file__, importlib.__file__)
    code = [spot for spot in spots if not spot[0].startswith("<") and spot[0] not in ours]
    own = [spot for spot in code if Path(spot[0]).is_relative_to(folder)]
    file, line = (own or code or [("?", 0)])[-1]
    return str(Path(file).relative_to(folder)) if own else file, line or 0


def _attribute(found: Any, name: str, shown: str, *, hidden: bool) -> Any:
    try:
        return getattr(found, name)
    except AttributeError:
        if hidden:
            raise BadReferenceError(f"{shown} names something its module does not have") from None
        known = [attribute for attribute in dir(found) if not attribute.startswith("__")]
        hint = hint_near(name, known)
        raise BadReferenceError(f"{shown} has no {quoted(name)}", hint=hint) from None
    except Exception as error:
        text = f"{shown}: getting {quoted(name)} failed: {one_line(text_of(error))}"
        raise BadReferenceError(text) from error
