"""Which variables does a `.env` file set?

Only a file that the user names is read. A variable that is set already keeps its value. Nothing is
expanded: `$NAME` in a value stays as it is. Messages never show a value: it may be a secret.
"""

import os
import re
from pathlib import Path
from typing import NoReturn

from limpet.config.errors import Location, refuse
from limpet.text import nearest_file, one_line

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
