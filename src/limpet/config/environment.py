"""What do `${NAME}` and `${NAME:-default}` stand for?

Values of the environment are put in after the YAML has been read, so that none of them can bring
in keys of its own. A text that came so remembers how it was written: messages show that, and never
what the environment holds.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from limpet.config.errors import quoted
from limpet.config.yaml_file import KeyPath, read_scalar
from limpet.text import one_line

_PART = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_LONGEST = 80
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


class Substituted(str):
    """A text that the environment had a part in.

    Attributes:
        written: How it stands in the file: shown in its place.
        read: What it stands for where no text is wanted: if it was `${NAME}` and nothing else, a
            number, a truth value or null.
    """

    __slots__ = ("read", "written")
    read: Any
    written: str

    def __new__(cls, text: str, written: str, read: Any) -> Self:
        made = super().__new__(cls, text)
        made.written, made.read = written, read
        return made

    def __repr__(self) -> str:
        return repr(self.written)


Say = Callable[[KeyPath, str, str], None]
"""Told of a variable that is missing or badly written: where, what, and what to do."""


def substitute(data: Any, say: Say) -> Any:
    """Return plain data with the values of the environment in it."""

    def put_in(value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: put_in(held, (*path, key)) for key, held in value.items()}
        if isinstance(value, list):
            return [put_in(held, (*path, number)) for number, held in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return _put_into_text(value, os.environ)
        except _RefusedError as error:
            say(path, str(error), error.hint)
            return None

    return put_in(data, ())


class _RefusedError(Exception):
    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def _put_into_text(written: str, known: Mapping[str, str]) -> str:
    text = _PART.sub(lambda found: _value_of(found, known), written)
    if "${" not in written.replace("$${", ""):
        return text  # nothing but escapes: it stays what it is
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
        return value or str(default)  # as in a shell, an empty one counts as none
    if value is None:
        raise _RefusedError(
            f"${{{name}}} is not set in the environment",
            f"set {name}, or give a default: ${{{name}:-…}}",
        )
    return value


def settled(value: Any) -> Any:
    """Return what a value stands for where no text is asked for."""
    if isinstance(value, Substituted):
        return value.read
    if isinstance(value, dict):
        return {key: settled(held) for key, held in value.items()}
    if isinstance(value, list):
        return [settled(held) for held in value]
    return value


def is_from_environment(value: Any) -> bool:
    """Tell whether the environment had a part in a value, or in anything inside it."""
    if isinstance(value, dict):
        return any(map(is_from_environment, value.values()))
    if isinstance(value, list):
        return any(map(is_from_environment, value))
    return isinstance(value, Substituted)


def written_as(text: str) -> str:
    """Return a text as it stands in the file."""
    return text.written if isinstance(text, Substituted) else text


def shown(value: Any) -> str:
    """Return a value as a message shows it: what the environment holds is not shown."""
    if isinstance(value, Substituted):
        return f"what {one_line(value.written)} stands for"
    if isinstance(value, str):
        return quoted(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if isinstance(value, (dict, list)):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "a number too large to hold"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
