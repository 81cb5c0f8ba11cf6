"""Which values replace `${NAME}` and `${NAME:-default}`?

Values are substituted after the YAML has been read, so they cannot add keys. A substituted string
remembers how it was written: messages show that, never the value from the environment.
"""

import json
import math
import os
import re
from collections.abc import Callable
from typing import Any, Self

from limpet.config.errors import KeyPath
from limpet.config.yaml_file import read_scalar
from limpet.errors import LimpetError
from limpet.text import one_line, quoted

_PART = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_LONGEST = 80
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


class Substituted(str):
    """A string that contains a value from the environment.

    Attributes:
        written: The string as written in the file, for messages.
        read: Its value if no string is required: for just `${NAME}`, it may be a number, a boolean
            or null.
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


Say = Callable[[KeyPath, str, str], Any]
"""Called for a variable that is missing or malformed: with path, message and hint.

What it returns is the value."""


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
            text = _PART.sub(_value_of, value)
        except LimpetError as error:
            return say(path, str(error), error.hint or "")
        if "${" not in value.replace("$${", ""):
            return text  # only escapes: a plain string
        return Substituted(text, value, read_scalar(text) if _PART.fullmatch(value) else text)

    return fill(data, ())


def _value_of(found: re.Match[str]) -> str:
    if found[0] == "$${":
        return "${"
    inside, closed = found[1], found[2]
    if not closed:
        hint = "close it; a literal '${' is written '$${'"
        raise LimpetError(f"{quoted(found[0])} has no '}}'", hint=hint)
    named = _NAME.fullmatch(inside)
    if named is None or "${" in inside:
        hint = "write ${NAME} or ${NAME:-default}, not nested; a literal '${' is '$${'"
        raise LimpetError(f"{quoted(found[0])} does not name a variable", hint=hint)
    name, default = named[1], named[3]
    value = os.environ.get(name)
    if default is not None:
        return value or str(default)  # as in a shell, empty counts as unset
    if value is None:
        hint = f"set {name}, here or in a file for --env-file, or give a default: ${{{name}:-…}}"
        raise LimpetError(f"${{{name}}} is not set in the environment", hint=hint)
    return value


def typed(value: Any) -> Any:
    """Return a value with each `${NAME}` replaced by its number, boolean or null."""
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
    """Return a value for a message, never showing a value from the environment."""
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
