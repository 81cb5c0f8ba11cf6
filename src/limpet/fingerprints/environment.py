"""Which variables of the environment does code read, by names that stand in it?"""

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from limpet.fingerprints.names import Chain, chain_of

COMPUTED = None
"""A variable whose name the code computes."""

_METHODS = {"get", "pop", "setdefault", "__getitem__"}
_OF_THE_MACHINE = {"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "PWD", "OLDPWD"}
_OF_THE_MACHINE |= {"HOSTNAME", "SHELL", "TERM", "LANG", "LC_ALL", "SHLVL", "EDITOR", "DISPLAY"}
_OF_THE_MACHINE |= {"VIRTUAL_ENV", "PYTHONPATH", "COLUMNS", "LINES", "TZ", "CI", "PYTHONHASHSEED"}


def is_of_the_machine(name: str) -> bool:
    """Tell whether a variable says where code runs and not what it does."""
    return name in _OF_THE_MACHINE or name.startswith(("XDG_", "SSH_", "LIMPET_", "PYTEST_"))


def variables_read(node: ast.AST, scope: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the names of the variables that code reads; COMPUTED for one that nobody can tell."""
    told = _Scope(scope)
    for one in ast.walk(node):
        match one:
            case ast.Subscript(value=value, slice=name, ctx=ast.Load()) if told.is_environ(value):
                yield told.text(name)
            case ast.Call(func=function, args=[name, *_]) if told.is_getenv(function):
                yield told.text(name)
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=[name, *_]) if (
                method in _METHODS and told.is_environ(value)
            ):
                yield told.text(name)
            case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[value]) if (
                told.is_environ(value)
            ):
                yield told.text(name)


class _Scope:
    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope

    def is_environ(self, node: ast.AST) -> bool:
        return self._is(node, lambda value: value is os.environ, ("os", "environ"))

    def is_getenv(self, node: ast.AST) -> bool:
        return self._is(node, lambda value: value is os.getenv, ("os", "getenv"))

    def _is(self, node: ast.AST, fits: Callable[[Any], bool], plain: Chain) -> bool:
        chain = chain_of(node)
        if chain is None:
            return False
        if chain[0] not in self._scope:  # imported inside the function
            return chain == plain or chain == plain[1:]
        value = self._scope[chain[0]]
        for name in chain[1:]:
            if value is not os:
                return False
            value = getattr(os, name, None)
        return fits(value)

    def text(self, node: ast.AST) -> str | None:
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name) if type(self._scope.get(name)) is str:
                return str(self._scope[name])
        return COMPUTED
