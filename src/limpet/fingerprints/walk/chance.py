"""Which values that the walk meets differ at every start? They count by their source."""

import ast
import functools
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code import syntax
from limpet.fingerprints.code.parsed import Parsed
from limpet.fingerprints.code.reading import chain_of
from limpet.fingerprints.code.statements import assignments
from limpet.fingerprints.walk import given, origin, scopes
from limpet.fingerprints.walk.asking import attributes_of, bases_of, is_a
from limpet.fingerprints.walk.ownership import is_users

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_NEVER = (FunctionType, ModuleType, bool, type(None))
Scope = Mapping[str, Any]


def is_global(walk: "Walk", module: str, scope: Scope, name: str) -> bool:
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
    if (
        not origin.by_chance(values, scope, walk)
        or not given.is_plain(value)
        or name in parsed.changed
        or given.times_set(walk, name)
    ):
        return False
    path = walk.short(module, name)
    if path not in walk.found.left_out:
        walk.leave_out_chance(path)
        reading = syntax.read(*values)
        walk.keep(path, ["source", reading.digest])
        walk.follow(path, reading, module, scope, str(scope.get("__file__")))
    return True


def _note_places(walk: "Walk", value: Any, parsed: Parsed, name: str, scope: Scope) -> None:
    """Note which elements and attributes of a global differ at every start."""
    for place, assigned in parsed.places.get(name, {}).items():
        if origin.by_chance(assigned, scope, walk) and (
            given.times_set(walk, place) == len(assigned)
        ):
            walk.by_chance.setdefault(id(value), set()).add(place)
    for one in parsed.assignments.get(name, []):
        if isinstance(one, ast.Dict):
            _note_elements(walk, value, one, scope)
        elif isinstance(one, ast.Call):
            _note_arguments(walk, value, one, scope)


def _note_elements(walk: "Walk", value: Any, node: ast.Dict, scope: Scope) -> None:
    if type(value) is not dict:
        return
    for key, one in zip(node.keys, node.values, strict=True):
        if type(key) is not ast.Constant or type(key.value) is not str:
            continue
        if type(one) is ast.Dict:
            _note_elements(walk, value.get(key.value), one, scope)
        elif (
            given.is_plain(value.get(key.value))
            and origin.by_chance([one], scope, walk)
            and not given.times_set(walk, key.value)
        ):
            walk.by_chance.setdefault(id(value), set()).add(key.value)


def _note_arguments(walk: "Walk", value: Any, node: ast.Call, scope: Scope) -> None:
    """Note what an object was given that differs at every start: `Agent(run=uuid4().hex)`."""
    named = {one.arg: one.value for one in node.keywords if one.arg is not None}
    if type(value) is functools.partial:
        held: dict[str, Any] = value.keywords
    elif is_users(type(value)):
        held = attributes_of(value)
        cls = walk.sources.class_statement(type(value), *scopes.home_of(type(value)))
        names = [] if cls is None else origin.taken_by(cls)
        named |= dict(zip(names, node.args, strict=False))
    else:
        return
    for name, one in named.items():
        if (
            name in held
            and given.is_made(walk, held[name])
            and origin.by_chance([one], scope, walk, data=False)
        ):
            where = held if type(value) is functools.partial else value
            walk.by_chance.setdefault(id(where), set()).add(name)


def is_in_class(walk: "Walk", cls: type, name: str, value: Any) -> bool:
    """Tell whether a class gives an attribute a value that differs at every start."""
    known = walk.chance_in_classes.get(id(cls))
    if known is None:
        known = walk.chance_in_classes[id(cls)] = _names_in_class(walk, cls)
    if name not in known or not given.is_plain(value):
        return False
    may_be_given = known[name]
    return given.is_made(walk, value) if may_be_given else not given.times_set(walk, name)


def _names_in_class(walk: "Walk", cls: type) -> dict[str, bool]:
    """Return which attributes are made by chance; of each, whether somebody may give it."""
    found: dict[str, bool] = {}
    taken: set[str] = set()
    for base in bases_of(cls):
        if is_users(base):
            scope, file = scopes.home_of(base)
            node = walk.sources.class_statement(base, scope, file)
            if node is None:
                continue
            assigned, names, may_be_given = origin.assigned_to_self(node)
            taken |= may_be_given
            for one, values in assigned.items():
                if origin.by_chance(values, scope, walk, names):
                    found[one] = True
    return {name: name in taken for name in found}


def is_member(walk: "Walk", name: str, member: Any, assigned: list[ast.expr], scope: Scope) -> bool:
    """Tell whether an attribute of a class differs at every start."""
    return (
        given.is_plain(member)
        and origin.by_chance(assigned, scope, walk)
        and not given.times_set(walk, name)
    )


def is_local(walk: "Walk", value: Any, assigned: list[ast.expr], scope: Scope) -> bool:
    """Tell whether a local of a function that is running differs at every start."""
    return bool(assigned) and given.is_plain(value) and origin.by_chance(assigned, scope, walk)


def is_default(walk: "Walk", written: ast.expr, value: Any, scope: Scope) -> bool:
    """Tell whether the default of a parameter differs at every start."""
    return given.is_plain(value) and origin.by_chance([written], scope, walk, data=False)


def is_closed_over(walk: "Walk", function: FunctionType, name: str, value: Any) -> bool:
    """Tell whether what a function closes over differs at every start."""
    parsed = walk.sources.module(function.__globals__)
    enclosing = function.__code__.co_qualname.rpartition(".<locals>.")[0]
    if parsed is None or not enclosing or not is_users(function) or not given.is_plain(value):
        return False
    for one in parsed.functions_called(enclosing):
        taken = origin.parameters(one)
        names = {each: [origin.GIVEN] for each in taken} | assignments(one.body)
        values = [origin.without_given(each, taken) for each in names.get(name, [])]
        is_set = f"nonlocal {name}" in parsed.text
        if origin.by_chance(values, function.__globals__, walk, names, data=False) and (
            given.is_made(walk, value) if name in taken or is_set else True
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
        taken = dict(zip(maker.__code__.co_varnames, one.args, strict=False))
        taken |= {each.arg: each.value for each in one.keywords if each.arg is not None}
        if name in taken and origin.by_chance(
            [taken[name]], function.__globals__, walk, data=False
        ):
            return True
    return False
