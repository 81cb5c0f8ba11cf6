"""Which environment variables does code read?

Most code looks up a variable by a literal name. Otherwise (it passes the environment on, iterates
over it, computes a name) every variable counts that is set and whose name appears in the code or
values that count, or starts like the computed name.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from limpet.fingerprints.code.bytecode import nested
from limpet.fingerprints.code.canonical_text import Chain, CodeSummary
from limpet.fingerprints.walk.safe_access import text_at

COMPUTED = None
"""Means a computed name."""

_METHODS = {"get", "pop", "setdefault", "__getitem__"}
_READING = {("os", "getenv"), *(("os", "environ", method) for method in _METHODS)}
_BEGINS = {"os", "environ", "getenv"}
# `if name.startswith("APP_")` shows which variables a loop over all of them reads.
_BEGINNING = {"startswith", "removeprefix"}
_WHOLE = (ast.Constant, ast.Name)
_READERS = {"environs", "decouple", "environ", "dynaconf"}  # they only read the environment
_A_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_OF_THE_MACHINE = {"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "PWD", "OLDPWD"}
_OF_THE_MACHINE |= {"HOSTNAME", "SHELL", "TERM", "LANG", "LC_ALL", "SHLVL", "EDITOR", "DISPLAY"}
_OF_THE_MACHINE |= {"VIRTUAL_ENV", "PYTHONPATH", "COLUMNS", "LINES", "TZ", "CI", "PYTHONHASHSEED"}


def is_of_the_machine(name: str) -> bool:
    """Return whether a variable describes the machine and does not affect code."""
    return name in _OF_THE_MACHINE or name.startswith(("XDG_", "SSH_", "LIMPET_", "PYTEST_"))


class EnvironmentUse:
    """How the code visited so far uses the environment.

    Attributes:
        indirect: Whether it reads variables other than by literal names.
        computes_names: Whether one of these names has no known start.
    """

    def __init__(self) -> None:
        self.indirect = self.computes_names = False
        self._texts: list[str] = []
        self._begins: set[str] = set()

    def record(self, summary: CodeSummary, scope: Mapping[str, Any]) -> None:
        """Record how some code uses the environment."""
        self._texts.append(summary.text)
        if not summary.environment:
            return
        named = [name for name in variables_read(summary.looked_up, scope) if name is not COMPUTED]
        if len(named) >= summary.environment:
            return
        self.indirect = True
        for chain, name in summary.looked_up:
            if chain[-1] in _BEGINNING or is_environment(chain, scope):
                begin = _begin(name, scope)
                if begin and (type(name) not in _WHOLE or chain[-1] in _BEGINNING):
                    self._begins.add(begin)
                self.computes_names |= not begin

    def names(self, forms: Mapping[str, Any]) -> list[str]:
        """Return the variables that are set and may be read indirectly.

        Args:
            forms: The forms of all parts.
        """
        if not self.indirect:
            return []
        variables = [name for name in os.environ if not is_of_the_machine(name)]
        begins = tuple(self._begins)
        found = {name for name in variables if begins and name.startswith(begins)}
        known = [name for name in variables if _A_NAME.fullmatch(name)]
        if not known:
            return sorted(found)
        any_name = "(" + "|".join(map(re.escape, sorted(known, key=len, reverse=True))) + ")"
        within = rf"\$\{{?{any_name}\b|\{{{any_name}[}}:!]|%{any_name}%"
        found |= {
            *_matches(rf"=(?:str |bytes b)?['\"]{any_name}['\"](?:\x1f|$)|{within}", self._texts)
        }
        found |= {*_matches(rf"^{any_name}$|{within}", _texts_in([*forms.values()]))}
        return sorted(found)


def is_handed(value: Any) -> bool:
    """Return whether a value is the environment, or an object that reads it."""
    if value is os.environ or value is os.getenv or value is os.path.expandvars:
        return True
    if type(value) is FunctionType:
        return False
    return (text_at(type(value), "__module__") or "").partition(".")[0] in _READERS


def _matches(pattern: str, texts: Iterable[str]) -> Iterator[str]:
    search = re.compile(pattern).finditer
    for text in texts:
        for found in search(text):
            yield from filter(None, found.groups())


def _texts_in(forms: list[Any]) -> Iterator[str]:
    todo = forms
    while todo:
        form = todo.pop()
        if isinstance(form, str):
            yield form
        elif isinstance(form, (list, tuple)):
            todo += form
        elif isinstance(form, dict):
            todo += [*form, *form.values()]


def _begin(name: ast.expr, scope: Mapping[str, Any]) -> str:
    """Return the known start of a computed string."""
    match name:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=known) if type(scope.get(known)) is str:
            return str(scope[known])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            begin = _begin(left, scope)
            is_whole = type(left) in _WHOLE
            return begin + _begin(right, scope) if begin and is_whole else begin
        case ast.JoinedStr(values=values):
            text = ""
            for value in values:
                part = _begin(value.value if type(value) is ast.FormattedValue else value, scope)
                if not part:
                    break
                text += part
            return text
    return ""


def variables_read(
    looked_up: Iterable[tuple[Chain, ast.expr]], scope: Mapping[str, Any]
) -> Iterator[str | None]:
    """Yield the names of the variables that code reads; COMPUTED for a computed name.

    Args:
        looked_up: The lookups of the code: container and name.
        scope: The globals of its module.
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
    """Return whether bytecode, or a function inside it, mentions the environment."""
    names = [name for inner in nested(code) for name in inner.co_names]
    return any(
        name in ("environ", "getenv")
        or scope.get(name) is os.environ
        or scope.get(name) is os.getenv
        for name in names
    )


def is_environment(chain: Chain, scope: Mapping[str, Any]) -> bool:
    """Return whether a lookup reads the environment."""
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
