"""What is the source or value of each part, so that a later difference can be shown?

Code is shown as written in the file, values as Python writes them. Both are limited in length and
without secrets.
"""

import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limpet.fingerprints.explaining.rendering import rendered
from limpet.fingerprints.walk.result import WalkResult
from limpet.secrets.in_code import (
    is_hidden,
    is_secret_file,
    without_keys,
    without_literals,
    without_settings,
)
from limpet.secrets.masking import MASK

MOST_TEXT = 20_000
"""The maximum number of characters per part."""
MOST_IN_ALL = 1_000_000
"""The maximum number of characters per step."""

_CLOSED_OVER = re.compile(r"(.*\.closed over \d+)(.*)", re.DOTALL)
_BY_NAME = {"file of ": "module", "module ": "module", "variable ": "variable"}
_BY_FORM = {"code": "function", "bytecode": "function", "class": "class", "module": "module"}
_BY_FORM |= {"library": "library", "see": "name", "function": "name", "unreadable": "module"}


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of a part.

    Attributes:
        kind: function, class, value, file, variable, package, module, docstring, library (a name
            from an installed package), name (an alias) or setting.
        text: Its source or value; None if unknown or over the limit.
        cut: Whether the text is only the beginning.
        called: A name for people, if the part's own name is unclear.
    """

    kind: str
    text: str | None = None
    cut: bool = False
    called: str = ""


class ShownParts:
    """The content of an identity's parts, computed on first use: most are never shown.

    Args:
        make: Computes the content.
    """

    def __init__(self, make: Callable[[], Mapping[str, Shown]] = dict) -> None:
        self._make = make
        self._computed: Mapping[str, Shown] | None = None

    @property
    def parts(self) -> Mapping[str, Shown]:
        """The content of each part, by name."""
        if self._computed is None:
            self._computed = self._make()
        return self._computed

    def forget(self) -> None:
        """Free the memory: the forms of a project's values may be large."""
        self._make, self._computed = dict, None


def shown_parts(result: WalkResult) -> dict[str, Shown]:
    """Return the content of each part that a walk found."""
    shown, room = {}, MOST_IN_ALL
    for name, form in result.forms.items():
        kind = _kind(name, form)
        text, is_cut = _text(result, name, form, kind) if room > 0 else (None, True)
        room -= len(text or "")
        shown[name] = Shown(kind, text, is_cut, _called(result, name))
    return shown


def _called(result: WalkResult, name: str) -> str:
    """Return a readable name for a variable that a function closes over."""
    match = _CLOSED_OVER.match(name)
    if match is None or match[1] not in result.variables:
        return ""
    variable, function = result.variables[match[1]]
    return f"{variable}{match[2]}, closed over by {function}"


def shown_data(data: Mapping[str, Any]) -> dict[str, Shown]:
    """Return the content of settings, given as plain data by name."""
    shown = {}
    for name, value in data.items():
        text, is_cut = rendered(_form(value), name, MOST_TEXT)
        shown[name] = Shown("setting", without_keys(text), is_cut)
    return shown


def shown_variable(name: str, value: str | None) -> Shown:
    """Return the content of an environment variable."""
    return Shown("variable", *_bounded(_value_of(name, value or None)))


def shown_text(kind: str, text: str | None) -> Shown:
    """Return a part that is a plain string, like the version of a package."""
    return Shown(kind, *_bounded(text if text is None else without_keys(text)))


def shown_file(path: Path, begin: bytes, *, is_whole: bool) -> Shown:
    """Return the content of a file, if it is text and does not hold secrets by its name.

    Args:
        path: The file.
        begin: The beginning of its content.
        is_whole: Whether that is the whole content.
    """
    if is_secret_file(path) or b"\0" in begin:
        return Shown("file")
    try:
        text = begin.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.start < len(begin) - 4:
            return Shown("file")
        text = begin[: error.start].decode()
    kept, is_cut = _bounded(without_settings(text))
    return Shown("file", kept, is_cut or not is_whole)


def _kind(name: str, form: Any) -> str:
    if name.endswith(".__doc__"):
        return "docstring"
    if name.endswith((" as written", ": names of locals")):
        return "function"
    begun = next((kind for begin, kind in _BY_NAME.items() if name.startswith(begin)), None)
    first = form[0] if isinstance(form, list) and form else None
    return begun or (_BY_FORM.get(first, "value") if isinstance(first, str) else "value")


def _text(result: WalkResult, name: str, form: Any, kind: str) -> tuple[str | None, bool]:
    if name in result.written:
        file, lines = result.written[name]
        return _bounded(without_literals(_source(file, lines)))
    match kind, form:
        case (("function" | "class" | "module"), list()):
            return None, False  # without source
        case _, str() if kind == "function":
            return _bounded(without_literals(form))
        case "docstring", [text, hints]:
            documented = [text or "", *(f"{parameter}: {hint}" for parameter, hint in hints)]
            return _bounded(without_keys("\n".join(documented)))
        case "variable", _:
            return _bounded(_value_of(name.removeprefix("variable "), form))
    text, is_cut = rendered(form, name.rpartition(".")[2].rstrip(")").rpartition("(")[2], MOST_TEXT)
    return without_keys(text), is_cut


def _value_of(name: str, value: str | None) -> str:
    if value is None:
        return "not set"
    return MASK if is_hidden(name, value) else without_keys(value)


def _source(file: str, pieces: tuple[tuple[int, int], ...]) -> str:
    """Return lines of a file, dedented by the indentation of the first."""
    lines = linecache.getlines(file)
    lines = [line for first, last in pieces for line in lines[first - 1 : last]]
    margin = lines[0][: len(lines[0]) - len(lines[0].lstrip())] if lines else ""
    return "".join(line.removeprefix(margin) for line in lines)


def _bounded(text: str | None) -> tuple[str | None, bool]:
    if text is None or len(text) <= MOST_TEXT:
        return text, False
    return text[:MOST_TEXT], True


def _form(data: Any) -> Any:
    """Return plain data in the form that the walk would give it."""
    if isinstance(data, Mapping):
        pairs = [[["str", str(key)], _form(value)] for key, value in data.items()]
        return ["a", "builtins.dict", pairs]
    if isinstance(data, (list, tuple, set, frozenset)):
        return ["a", "builtins.list", [_form(element) for element in data]]
    return ["str", str(data)] if isinstance(data, str) else ["value", repr(data)]
