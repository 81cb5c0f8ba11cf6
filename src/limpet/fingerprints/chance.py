"""Which values that the walk meets differ at every start? They count by their source."""

import ast
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints import origin, scopes, syntax
from limpet.fingerprints.asking import bases_of, is_a
from limpet.fingerprints.ownership import is_users
from limpet.fingerprints.parsed import Parsed
from limpet.fingerprints.reading import chain_of
from limpet.fingerprints.statements import assignments

if TYPE_CHECKING:
    from limpet.fingerprints.walk import Walk

_NEVER = (FunctionType, ModuleType, bool, type(None))


def is_by_chance(walk: "Walk", expressions: list[ast.expr], scope: Mapping[str, Any]) -> bool:
    """Tell whether what these give differs at every start, and for no other reason."""
    if all(type(one) is ast.Constant for one in expressions):
        return False
    return origin.by_chance(expressions, scope, walk)


def is_global(walk: "Walk", module: str, scope: Mapping[str, Any], name: str) -> bool:
    """Tell whether a global differs at every start; then its source counts."""
    value = scope.get(name)
    if is_a(value, *_NEVER) or issubclass(type(value), type):
        return False
    parsed = walk.sources.module(scope)
    if parsed is None:
        return False
    values = parsed.assignments.get(name, [])
    _note_places(walk, value, parsed, name, scope)
    if any(isinstance(one, ast.Dict) for one in values):
        return False  # each element is judged on its own
    if not is_by_chance(walk, values, scope) or name in parsed.changed:
        return False
    path = walk.short(module, name)
    if path not in walk.found.left_out:
        walk.leave_out_chance(path)
        reading = syntax.read(*values)
        walk.keep(path, ["source", reading.digest])
        walk.follow(path, reading, module, scope, str(scope.get("__file__")))
    return True


def _note_places(
    walk: "Walk", value: Any, parsed: Parsed, name: str, scope: Mapping[str, Any]
) -> None:
    """Note which elements and attributes of a global differ at every start."""
    for place, given in parsed.places.get(name, {}).items():
        if is_by_chance(walk, given, scope):
            walk.by_chance.setdefault(id(value), set()).add(place)
    for one in parsed.assignments.get(name, []):
        if isinstance(one, ast.Dict):
            _note_elements(walk, value, one, scope)


def _note_elements(walk: "Walk", value: Any, node: ast.Dict, scope: Mapping[str, Any]) -> None:
    if type(value) is not dict:
        return
    for key, one in zip(node.keys, node.values, strict=True):
        if type(key) is not ast.Constant or type(key.value) is not str:
            continue
        if type(one) is ast.Dict:
            _note_elements(walk, value.get(key.value), one, scope)
        elif is_by_chance(walk, [one], scope):
            walk.by_chance.setdefault(id(value), set()).add(key.value)


def is_in_class(walk: "Walk", cls: type, name: str) -> bool:
    """Tell whether a class gives an attribute a value that differs at every start."""
    known = walk.chance_in_classes.get(id(cls))
    if known is None:
        known = walk.chance_in_classes[id(cls)] = _names_in_class(walk, cls)
    return name in known


def _names_in_class(walk: "Walk", cls: type) -> set[str]:
    found = set()
    for base in bases_of(cls):
        if is_users(base):
            scope, file = scopes.home_of(base)
            node = walk.sources.class_statement(base, scope, file)
            assigned = {} if node is None else origin.assigned_to_self(node)
            found |= {one for one, values in assigned.items() if is_by_chance(walk, values, scope)}
    return found


def is_closed_over(walk: "Walk", function: FunctionType, name: str) -> bool:
    """Tell whether what a function closes over differs at every start."""
    parsed = walk.sources.module(function.__globals__)
    enclosing = function.__code__.co_qualname.rpartition(".<locals>.")[0]
    if parsed is None or not enclosing or not is_users(function):
        return False
    made = parsed.functions_called(enclosing)
    for one in made:
        values = assignments(one.body).get(name, [])
        given = origin.parameters(one)
        if not any(origin.uses_parameters(value, given) for value in values) and is_by_chance(
            walk, values, function.__globals__
        ):
            return True
    return any(_is_given_to_decorator(walk, one, name) for one in _functions_in(function))


def _functions_in(function: FunctionType) -> list[FunctionType]:
    """Return the user's functions that a wrapper closes over."""
    found = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        if type(value) is FunctionType and is_users(value):
            found.append(value)
    return found


def _is_given_to_decorator(walk: "Walk", function: FunctionType, name: str) -> bool:
    """Tell whether a parameter of a decorator of a function gets what differs at every start."""
    node = walk.sources.definition_of(function.__code__)
    for one in getattr(node, "decorator_list", ()):
        chain = chain_of(one.func) if type(one) is ast.Call else None
        maker = (
            function.__globals__.get(chain[0]) if chain is not None and len(chain) == 1 else None
        )
        if type(maker) is not FunctionType:
            continue
        given = dict(zip(maker.__code__.co_varnames, one.args, strict=False))
        given |= {each.arg: each.value for each in one.keywords if each.arg is not None}
        if name in given and is_by_chance(walk, [given[name]], function.__globals__):
            return True
    return False
