"""Which variables of the environment does code read, by names that stand in it?"""

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

from limpet.fingerprints.bytecode import nested
from limpet.fingerprints.reading import Chain

COMPUTED = None
"""A variable whose name the code computes."""

_METHODS = {"get", "pop", "setdefault", "__getitem__"}
_READING = {("os", "getenv"), *(("os", "environ", one) for one in _METHODS)}
_OF_THE_MACHINE = {"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "PWD", "OLDPWD"}
_OF_THE_MACHINE |= {"HOSTNAME", "SHELL", "TERM", "LANG", "LC_ALL", "SHLVL", "EDITOR", "DISPLAY"}
_OF_THE_MACHINE |= {"VIRTUAL_ENV", "PYTHONPATH", "COLUMNS", "LINES", "TZ", "CI", "PYTHONHASHSEED"}


def is_of_the_machine(name: str) -> bool:
    """Tell whether a variable says where code runs and not what it does."""
    return name in _OF_THE_MACHINE or name.startswith(("XDG_", "SSH_", "LIMPET_", "PYTEST_"))


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
    first, *rest = chain
    if first not in scope:  # imported inside the function
        plain = chain if first == "os" else ("os", *chain)
        return plain in _READING or plain == ("os", "environ")
    value: Any = scope[first]
    if value is os:
        value, rest = getattr(os, rest[0], None) if rest else None, rest[1:]
    if value is os.environ:
        return not rest or (len(rest) == 1 and rest[0] in _METHODS)
    return value is os.getenv and not rest
