"""How is a configuration or a `.env` file read, and how is a wrong file reported?"""

import codecs
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from limpet.config.environment import shown
from limpet.config.errors import Location, Tree, refuse
from limpet.text import nearest_file, one_line, quoted

_LARGEST = 2**20
_USUAL = "eval.yml"
_START = "name an eval.yml, or create an example: limpet init first"
_FUNCTION = "workflow: {stem}:NAME, with the name of a function in it; a script runs with python"
_ROWS = "write an eval.yml with dataset: {name} and workflow: app:answer"
_OTHERS = {
    ".py": (
        "is Python, not an eval.yml",
        f"write an eval.yml with dataset: FILE and {_FUNCTION}",
    ),
    ".ipynb": (
        "is a notebook, not an eval.yml",
        "call limpet.evaluate() in it, or write an eval.yml: limpet init first",
    ),
    ".csv": ("is a dataset, not an eval.yml", _ROWS),
    ".jsonl": ("is a dataset, not an eval.yml", _ROWS),
}
"""Files that people give instead of an eval.yml: the message and the hint for each."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, shown: str, usual: str = _USUAL) -> str:
    """Return the text of a configuration or a `.env` file.

    Args:
        path: Where it is.
        shown: Its name in messages.
        usual: Its usual name.

    Raises:
        ConfigError: It does not exist, cannot be read, is not text, or is far too large.
    """
    raw = _bytes_of(path, Location(shown), usual).removeprefix(codecs.BOM_UTF8)
    if raw.startswith(_UTF16):
        refuse(Location(shown, 1), "is UTF-16, not UTF-8", "save the file as UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        location = Location(shown, raw.count(b"\n", 0, error.start) + 1)
        text = f"byte {raw[error.start]:#04x} is not UTF-8"
        refuse(location, text, "save the file as UTF-8")


def _bytes_of(path: Path, location: Location, usual: str) -> bytes:
    try:
        if path.is_dir():
            refuse(location, "is a directory", f"name the file in it: {usual}")
        if usual == _USUAL and path.suffix in _OTHERS and path.is_file():
            text, hint = _OTHERS[path.suffix]
            refuse(location, text, hint.format(name=one_line(path.name), stem=one_line(path.stem)))
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        with suppress(OSError, ValueError):
            if near := nearest_file(path):
                refuse(location, "file not found", f"did you mean {quoted(near)}?")
        refuse(location, "file not found", _START if usual == _USUAL else None)
    except OSError as error:
        refuse(location, f"cannot be read: {one_line(error.strerror or str(error))}")
    if len(raw) > _LARGEST:
        refuse(location, "is larger than 1 MB: not a configuration", f"name an {usual}")
    return raw


# ---- Is it an eval.yml? -------------------------------------------------------------------------


def check_eval_yml(tree: Tree) -> None:
    """Raise if the file is not an eval.yml at all.

    Raises:
        ConfigError: It is empty, not a mapping, or the toolkit's.
    """
    data: Any = tree.data
    location = Location(tree.shown, 1)
    if data is None:
        hint = "it needs at least: dataset: questions.jsonl and workflow: app:answer"
        refuse(location, "the file is empty", hint)
    if not isinstance(data, dict):
        refuse(tree.location(()), f"must be a mapping of keys to values, not {shown(data)}")
    if "eval" in data and "dataset" not in data:
        text = "'eval' at the top level: this is a configuration of the NeMo Agent Toolkit"
        hint = "use limpet run, or limpet.integrations.nat.load_nat_config"
        refuse(tree.key_location(("eval",)), text, hint)


# ---- Which variables does a `.env` file set? ----------------------------------------------------
#
# Only a file that the user names is read. A variable that is set already keeps its value. Nothing
# is expanded: `$NAME` in a value stays as it is. Messages never show a value: it may be a secret.

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
    for name, value in _variables(read_text(path, shown, ".env"), shown).items():
        os.environ.setdefault(name, value)


def _variables(text: str, shown: str) -> dict[str, str]:
    variables = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()  # noqa: PLW2901 - also a carriage return
        if not line or line.startswith("#"):
            continue
        location = Location(shown, number)
        named = _LINE.fullmatch(line)
        if named is None:
            refuse(location, "must be NAME=value", "a name has only letters, digits and _")
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
    refuse(location, "a quote is not closed properly", hint)
