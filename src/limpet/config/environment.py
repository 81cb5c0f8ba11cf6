"""What do `${NAME}` and `${NAME:-default}` stand for?

Values are substituted after the YAML has been read, so that they cannot add keys. A substituted
string remembers how it was written: messages show that, never the value from the environment.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

from limpet.config.errors import Location, refuse
from limpet.config.yaml_file import KeyPath, read_scalar
from limpet.text import nearest_file, one_line, quoted

_PART = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_LONGEST = 80
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


class Substituted(str):
    """A string with a value from the environment in it.

    Attributes:
        written: The string as written in the file, for messages.
        read: Its value where no string is needed: if it was just `${NAME}`, it may be a number,
            a boolean or null.
    """

    __slots__ = ("read", "written")
    read: Any
    written: str

    def __new__(cls, text: str, written: str, read: Any) -> Self:
        string = super().__new__(cls, text)
        string.written, string.read = written, read
        return string

    def __repr__(self) -> str:
        return repr(self.written)


Say = Callable[[KeyPath, str, str], None]
"""Called for a variable that is missing or malformed: with path, message and hint."""


def substitute(data: Any, say: Say = lambda *_: None) -> Any:
    """Return plain data with values from the environment substituted."""

    def fill(value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: fill(held, (*path, key)) for key, held in value.items()}
        if isinstance(value, list):
            return [fill(held, (*path, number)) for number, held in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return _fill_string(value, os.environ)
        except _RefusedError as error:
            say(path, str(error), error.hint)
            return None

    return fill(data, ())


class _RefusedError(Exception):
    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def _fill_string(written: str, known: Mapping[str, str]) -> str:
    text = _PART.sub(lambda found: _value_of(found, known), written)
    if "${" not in written.replace("$${", ""):
        return text  # only escapes: a plain string
    alone = _PART.fullmatch(written)
    return Substituted(text, written, read_scalar(text) if alone else text)


def _value_of(found: re.Match[str], known: Mapping[str, str]) -> str:
    if found[0] == "$${":
        return "${"
    inside, closed = found[1], found[2]
    if not closed:
        raise _RefusedError(
            f"{quoted(found[0])} has no '}}'", "close it; a literal '${' is written '$${'"
        )
    named = _NAME.fullmatch(inside)
    if named is None or "${" in inside:
        raise _RefusedError(
            f"{quoted(found[0])} does not name a variable",
            "write ${NAME} or ${NAME:-default}, none inside another; a literal '${' is '$${'",
        )
    name, default = named[1], named[3]
    value = known.get(name)
    if default is not None:
        return value or str(default)  # as in a shell, empty counts as unset
    if value is None:
        raise _RefusedError(
            f"${{{name}}} is not set in the environment",
            f"set {name}, here or in a file for --env-file, or give a default: ${{{name}:-…}}",
        )
    return value


def typed(value: Any) -> Any:
    """Return a value with each `${NAME}` in it as the number, boolean or null that it holds."""
    if isinstance(value, Substituted):
        return value.read
    if isinstance(value, dict):
        return {key: typed(held) for key, held in value.items()}
    if isinstance(value, list):
        return [typed(held) for held in value]
    return value


def is_from_environment(value: Any) -> bool:
    """Return whether a value, or anything inside it, comes from the environment."""
    if isinstance(value, dict):
        return any(map(is_from_environment, value.values()))
    if isinstance(value, list):
        return any(map(is_from_environment, value))
    return isinstance(value, Substituted)


def written_as(text: str) -> str:
    """Return a string as written in the file."""
    return text.written if isinstance(text, Substituted) else text


def shown(value: Any) -> str:
    """Return a value for a message, never showing what the environment holds."""
    if isinstance(value, Substituted):
        return f"the value of {one_line(value.written)}"
    if isinstance(value, str):
        return quoted(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if isinstance(value, (dict, list)):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "a number too large to hold"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)", re.DOTALL)
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?", re.DOTALL)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?', re.DOTALL)
_ESCAPE = re.compile(r'\\([nrt"\\$])')
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)


def load_env_file(path: Path, shown: str) -> None:
    """Set the variables of a file that are not set yet.

    Args:
        path: The file.
        shown: Its name in messages.

    Raises:
        ConfigError: It cannot be read, or a line is not NAME=value. Nothing is set then.
    """
    for name, value in _variables(_text_of(path, shown), shown).items():
        os.environ.setdefault(name, value)


def _text_of(path: Path, shown: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = nearest_file(path) if path.parent.is_dir() else None
        refuse(
            Location(shown), "does not exist", f"did you mean {one_line(near)}?" if near else None
        )
    except UnicodeDecodeError:
        refuse(Location(shown), "is not UTF-8", "save it as UTF-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        refuse(Location(shown), f"cannot be read: {one_line(str(why))}")


def _variables(text: str, shown: str) -> dict[str, str]:
    variables = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()  # noqa: PLW2901 - also a carriage return
        if not line or line.startswith("#"):
            continue
        location = Location(shown, number)
        named = _LINE.fullmatch(line)
        if named is None:
            refuse(location, "must be NAME=value", "letters, digits and _ make a name")
        variables[named[1]] = _value(named[2], location)
    return variables


def _value(text: str, location: Location) -> str:
    if "\0" in text:
        refuse(location, "the value has a NUL character")
    if text.startswith("'"):
        return (_SINGLE.fullmatch(text) or _refuse_quote(location))[1]
    if text.startswith('"'):
        inner = (_DOUBLE.fullmatch(text) or _refuse_quote(location))[1]
        return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), inner)
    return _COMMENT.sub("", text).strip()


def _refuse_quote(location: Location) -> NoReturn:
    hint = "close it on the same line, with nothing after it but a comment; \\n is a line break"
    refuse(location, "a quote is opened and not closed as it should be", hint)
