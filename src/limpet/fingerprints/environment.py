"""Which variables of the environment does code read, by names that stand in it?

Most code looks one up by its name. Where it goes about it in another way (the environment is handed
around or gone over, a name is computed or comes from a list) every variable counts that is set and
whose name stands anywhere in the code and values that count, or begins as the computed name does.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

from limpet.fingerprints.asking import text_at
from limpet.fingerprints.bytecode import nested
from limpet.fingerprints.reading import Chain, Reading

COMPUTED = None
"""A variable whose name the code computes."""

_METHODS = {"get", "pop", "setdefault", "__getitem__"}
_READING = {("os", "getenv"), *(("os", "environ", one) for one in _METHODS)}
_BEGINS = {"os", "environ", "getenv"}
_BEGINNING = {"startswith", "removeprefix"}
_WHOLE = (ast.Constant, ast.Name)
_READERS = {"environs", "decouple", "environ", "dynaconf"}  # packages that do nothing else
_A_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_SHORTEST = 2
_OF_THE_MACHINE = {"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "PWD", "OLDPWD"}
_OF_THE_MACHINE |= {"HOSTNAME", "SHELL", "TERM", "LANG", "LC_ALL", "SHLVL", "EDITOR", "DISPLAY"}
_OF_THE_MACHINE |= {"VIRTUAL_ENV", "PYTHONPATH", "COLUMNS", "LINES", "TZ", "CI", "PYTHONHASHSEED"}


def is_of_the_machine(name: str) -> bool:
    """Tell whether a variable says where code runs and not what it does."""
    return name in _OF_THE_MACHINE or name.startswith(("XDG_", "SSH_", "LIMPET_", "PYTEST_"))


class Touched:
    """How the code that was met so far touches the environment.

    Attributes:
        roundabout: Whether it does so in a way that no name can be read off.
    """

    def __init__(self) -> None:
        self.roundabout = False
        self._texts: list[str] = []
        self._begins: set[str] = set()

    def note(self, reading: Reading, scope: Mapping[str, Any]) -> None:
        """Take in what a piece of code does."""
        self._texts.append(reading.text)
        if not reading.environment:
            return
        named = [one for one in variables_read(reading.looked_up, scope) if one is not COMPUTED]
        if len(named) >= reading.environment:
            return
        self.roundabout = True
        for chain, name in reading.looked_up:
            if chain[-1] in _BEGINNING or is_environment(chain, scope):
                begin = _begin(name, scope)
                if len(begin) >= _SHORTEST and (
                    type(name) not in _WHOLE or chain[-1] in _BEGINNING
                ):
                    self._begins.add(begin)

    def names(self, forms: Mapping[str, Any]) -> list[str]:
        """Return the variables that are set and may be read.

        Args:
            forms: The values that count.
        """
        known = [one for one in os.environ if _A_NAME.fullmatch(one) and not is_of_the_machine(one)]
        if not self.roundabout or not known:
            return []
        one = "(" + "|".join(map(re.escape, sorted(known, key=len, reverse=True))) + ")"
        within = rf"\$\{{?{one}\b|\{{{one}[}}:!]|%{one}%"
        found = {*_matches(rf"=(?:str |bytes b)?['\"]{one}['\"](?:\x1f|$)|{within}", self._texts)}
        found |= {*_matches(rf"^{one}$|{within}", _texts_in([*forms.values()]))}
        begins = tuple(self._begins)
        return sorted(found | {each for each in known if begins and each.startswith(begins)})


def is_handed(value: Any) -> bool:
    """Tell whether a value is the environment, or reads it."""
    if value is os.environ or value is os.getenv or value is os.path.expandvars:
        return True
    return (text_at(type(value), "__module__") or "").partition(".")[0] in _READERS


def _matches(pattern: str, texts: Iterable[str]) -> Iterator[str]:
    search = re.compile(pattern).finditer
    for text in texts:
        for found in search(text):
            yield from filter(None, found.groups())


def _texts_in(forms: list[Any]) -> Iterator[str]:
    todo = forms
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, (list, tuple)):
            todo += one
        elif isinstance(one, dict):
            todo += [*one, *one.values()]


def _begin(name: ast.expr, scope: Mapping[str, Any]) -> str:
    """Return what a computed text surely begins with."""
    match name:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=known) if type(scope.get(known)) is str:
            return str(scope[known])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            begin = _begin(left, scope)
            whole = type(left) in _WHOLE
            return begin + _begin(right, scope) if begin and whole else begin
        case ast.JoinedStr(values=values):
            text = ""
            for one in values:
                part = _begin(one.value if type(one) is ast.FormattedValue else one, scope)
                if not part:
                    break
                text += part
            return text
    return ""


def variables_read(
    looked_up: Iterable[tuple[Chain, ast.expr]], scope: Mapping[str, Any]
) -> Iterator[str | None]:
    """Yield the names of the variables that code reads; COMPUTED for one that nobody can tell.

    Args:
        looked_up: What the code looks up by a name, and the name.
        scope: The module it stands in.
    """
    for chain, name in looked_up:
        if is_environment(chain, scope):
            match name:
                case ast.Constant(value=str() as text):
                    yield text
                case ast.Name(id=known) if type(scope.get(known)) is str:
                    yield str(scope[known])
                case _:
                    yield COMPUTED


def is_named_in(code: CodeType, scope: Mapping[str, Any]) -> bool:
    """Tell whether bytecode, or a function in it, names the environment."""
    every = [name for one in nested(code) for name in one.co_names]
    return any(
        name in ("environ", "getenv")
        or scope.get(name) is os.environ
        or scope.get(name) is os.getenv
        for name in every
    )


def is_environment(chain: Chain, scope: Mapping[str, Any]) -> bool:
    """Tell whether code looks something up in the environment."""
    if chain[0] not in scope:  # imported inside the function
        if chain[0] not in _BEGINS:
            return False
        plain = chain if chain[0] == "os" else ("os", *chain)
        return plain in _READING or plain == ("os", "environ")
    value: Any = scope[chain[0]]
    rest = chain[1:]
    if value is os:
        value, rest = getattr(os, rest[0], None) if rest else None, rest[1:]
    if value is os.environ:
        return not rest or (len(rest) == 1 and rest[0] in _METHODS)
    return value is os.getenv and not rest
