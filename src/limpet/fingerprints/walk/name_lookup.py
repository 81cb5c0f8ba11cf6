"""Which object does a name in code refer to, and which package owns it?"""

import ast
import builtins
import sys
from collections import ChainMap
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from limpet.fingerprints.code.imports import imports_in
from limpet.fingerprints.code.statements import statements_in
from limpet.fingerprints.walk.ownership import is_module, is_users, is_users_module
from limpet.fingerprints.walk.safe_access import (
    attributes_of,
    class_dict,
    module_dict,
    module_name,
    mro_of,
    text_at,
)

Scope = Mapping[str, Any]
NOTHING: Any = object()
"""The object of a name that is unknown."""


def resolved(chain: tuple[str, ...], scope: Scope) -> tuple[Any, str | None]:
    """Return the object that a chain refers to, and the package that owns it, if any."""
    first, *rest = chain
    value = scope.get(first, vars(builtins).get(first, NOTHING))
    owner: str | None = None
    for name in rest:
        if value is NOTHING:
            break
        if is_module(value):
            if not is_users_module(value):
                owner = _root(text_at(value, "__name__"))
            value = module_dict(value).get(name, NOTHING)
        elif issubclass(type(value), type):
            cls, owner = value, owner if is_users(value) else owner or package_of(value)
            value = in_class(cls, name)
            value = in_class(type(cls), name) if value is NOTHING else value
        elif is_users(type(value)):
            held = attributes_of(value)
            value = held[name] if name in held else in_class(type(value), name)
        else:
            return NOTHING, owner or package_of(value)
    if is_users_function(value):
        owner = None
    return value, owner


def _imported_in(function: Any, package: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a function imports when it is called: from libraries, and from the user."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for statement in () if isinstance(function, ast.Lambda) else statements_in(function):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        within = (
            next(imports_in([statement], package), "") if type(statement) is ast.ImportFrom else ""
        )
        for alias in statement.names:
            path = within or (alias.name if alias.asname else alias.name.partition(".")[0])
            module = sys.modules.get(path)
            if is_module(module):
                value = module_dict(module).get(alias.name, NOTHING) if within else module
                bound = (alias.asname or alias.name).partition(".")[0]
                found[is_users_module(module)][bound] = value
    return found


def is_local(name: str, scope: Scope) -> bool:
    """Return whether a name is local to a function."""
    return isinstance(scope, ChainMap) and any(name in names for names in scope.maps[:-1])


def is_imported_in(name: str, scope: Scope) -> bool:
    """Return whether a function imports a name from a library."""
    return isinstance(scope, ChainMap) and name not in scope.maps[0] and name in scope.maps[1]


def scope_in(own: dict[str, Any], function: Any, scope: Scope) -> ChainMap[str, Any]:
    """Return the names visible in a function: locals, its imports, globals."""
    libraries, users = _imported_in(function, scope.get("__package__"))
    own = {name: value for name, value in own.items() if name not in libraries}
    return ChainMap(own, libraries, users, scope)  # type: ignore[arg-type]


def in_class(cls: type, name: str) -> Any:
    """Return an attribute from a class or its bases; NOTHING if they do not have it."""
    return next(
        (class_dict(base)[name] for base in mro_of(cls) if name in class_dict(base)), NOTHING
    )


def is_users_function(value: Any) -> bool:
    """Return whether an object is a user's function."""
    return type(value) is FunctionType and is_users(value)


def is_users_own(value: Any) -> bool:
    """Return whether an object or its class is the user's."""
    return is_users(value) or is_users(type(value))


def package_of(value: Any) -> str:
    """Return the top-level package of an object."""
    return _root(text_at(value, "__name__") if is_module(value) else module_name(value))


def _root(name: str | None) -> str:
    return (name or "builtins").partition(".")[0]
