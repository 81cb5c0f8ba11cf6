"""Which values differ at every start of the process? They count by their source.

`RUN = uuid4().hex` differs at every start without an edit. `volatile_code` checks the expression
that creates it. A value that may also be passed in, `self.run = run or uuid4().hex`, is checked
itself: an id that appears nowhere in the code, and a time since the process started, were not
passed in.
"""

import ast
import datetime as dt
import functools
import os
import random
import re
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Any

from limpet.fingerprints.code import syntax
from limpet.fingerprints.code.canonical_text import chain_of
from limpet.fingerprints.code.parsed import Parsed
from limpet.fingerprints.code.statements import assignments
from limpet.fingerprints.walk import volatile_code as code
from limpet.fingerprints.walk.ownership import home_of, is_users
from limpet.fingerprints.walk.safe_access import attributes_of, is_a, mro_of, text_at
from limpet.fingerprints.walk.values import contents_of
from limpet.fingerprints.walk.walk import Walk

_LEAVES = (str, bytes, int, float, uuid.UUID, dt.datetime, dt.date, dt.time, dt.timedelta)
_CONTAINERS = (list, tuple, dict, set, frozenset)
_RANDOM_KINDS = (object, random.Random, random.SystemRandom)
_PLAIN = {id(kind) for kind in (*_LEAVES, *_RANDOM_KINDS)}
_MADE = {1, 4, 6, 7}  # versions of UUIDs that are random or based on time
# `run-3f2a9c04`, a UUID: hexadecimal with a digit, after a short prefix.
_ID = re.compile(
    r"(?i)[\w.:-]{0,20}?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<![0-9a-z])(?=[a-f]*[0-9])[0-9a-f]{8,})"
)
_A_CONSTANT = {ast.Constant}
_STARTED = time.time() - 60  # a process may take a minute to import us
_DATE = len("2026-11-15")
_MOST = 1_000
_SHORTEST = 8
_NEVER = (FunctionType, ModuleType, bool, type(None))
Scope = Mapping[str, Any]


def is_global(walk: Walk, module: str, scope: Scope, name: str) -> bool:
    """Return whether a global differs at every start, and add its source if so."""
    value = scope.get(name)
    if is_a(value, *_NEVER) or issubclass(type(value), type):
        return False
    parsed = walk.sources.module(scope)
    if parsed is None:
        return False
    values = parsed.assignments.get(name, [])
    if (
        name not in parsed.member_assignments
        and {type(expression) for expression in values} == _A_CONSTANT
    ):
        return False  # most are
    _find_members(walk, value, parsed, name, scope)
    if any(isinstance(expression, ast.Dict) for expression in values):
        return False  # each element is checked separately
    if (
        not code.is_volatile(values, scope, walk)
        or not is_plain(value)
        or name in parsed.changed
        or times_set(walk, name)
    ):
        return False
    path = walk.short(module, name)
    if path not in walk.result.left_out:
        walk.leave_out_volatile(path)
        summary = syntax.read(*values)
        walk.add_form(path, ["source", summary.digest])
        walk.follow(path, summary, module, scope, str(scope.get("__file__")))
    return True


def _find_members(walk: Walk, value: Any, parsed: Parsed, name: str, scope: Scope) -> None:
    """Record the elements and attributes of a global that differ at every start."""
    for member, assigned in parsed.member_assignments.get(name, {}).items():
        if code.is_volatile(assigned, scope, walk) and (times_set(walk, member) == len(assigned)):
            walk.volatile.setdefault(id(value), set()).add(member)
    for expression in parsed.assignments.get(name, []):
        if isinstance(expression, ast.Dict):
            _find_elements(walk, value, expression, scope)
        elif isinstance(expression, ast.Call):
            _find_arguments(walk, value, expression, scope)


def _find_elements(walk: Walk, value: Any, node: ast.Dict, scope: Scope) -> None:
    if type(value) is not dict:
        return
    for key, element in zip(node.keys, node.values, strict=True):
        if type(key) is not ast.Constant or type(key.value) is not str:
            continue
        if type(element) is ast.Dict:
            _find_elements(walk, value.get(key.value), element, scope)
        elif (
            is_plain(value.get(key.value))
            and code.is_volatile([element], scope, walk)
            and not times_set(walk, key.value)
        ):
            walk.volatile.setdefault(id(value), set()).add(key.value)


def _find_arguments(walk: Walk, value: Any, node: ast.Call, scope: Scope) -> None:
    """Record arguments that differ at every start: `Agent(run=uuid4().hex)`."""
    named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
    if type(value) is functools.partial:
        held: dict[str, Any] = value.keywords
    elif is_users(type(value)):
        held = attributes_of(value)
        cls = walk.sources.class_statement(type(value), *home_of(type(value)))
        names = [] if cls is None else code.kept_parameters(cls)
        named |= dict(zip(names, node.args, strict=False))
    else:
        return
    for name, argument in named.items():
        if (
            name in held
            and is_created(walk, held[name])
            and code.is_volatile([argument], scope, walk, data=False)
        ):
            where = held if type(value) is functools.partial else value
            walk.volatile.setdefault(id(where), set()).add(name)


def is_in_class(walk: Walk, cls: type, name: str, value: Any) -> bool:
    """Return whether a class sets an attribute that differs at every start."""
    known = walk.volatile_in_classes.get(id(cls))
    if known is None:
        known = walk.volatile_in_classes[id(cls)] = _names_in_class(walk, cls)
    if name not in known or not is_plain(value):
        return False
    may_be_passed = known[name]
    return is_created(walk, value) if may_be_passed else not times_set(walk, name)


def _names_in_class(walk: Walk, cls: type) -> dict[str, bool]:
    """Return the volatile attributes of a class, and whether each may be passed in."""
    found: dict[str, bool] = {}
    passed_in: set[str] = set()
    for base in mro_of(cls):
        if is_users(base):
            scope, file = home_of(base)
            node = walk.sources.class_statement(base, scope, file)
            if node is None:
                continue
            assigned, names, may_be_passed = code.assigned_to_self(node)
            passed_in |= may_be_passed
            for attribute, values in assigned.items():
                if code.is_volatile(values, scope, walk, names):
                    found[attribute] = True
    return {name: name in passed_in for name in found}


def is_by_source(
    walk: Walk, value: Any, assigned: list[ast.expr], scope: Scope, *, data: bool = True
) -> bool:
    """Return whether a value differs at every start, by its expressions."""
    return is_plain(value) and code.is_volatile(assigned, scope, walk, data=data)


def is_closed_over(walk: Walk, function: FunctionType, name: str, value: Any) -> bool:
    """Return whether a variable that a function closes over differs at every start."""
    parsed = walk.sources.module(function.__globals__)
    enclosing = function.__code__.co_qualname.rpartition(".<locals>.")[0]
    if parsed is None or not enclosing or not is_users(function) or not is_plain(value):
        return False
    for around in parsed.functions_named(enclosing):
        arguments = code.parameters(around)
        names = {parameter: [code.ARGUMENT] for parameter in arguments} | assignments(around.body)
        values = [
            code.default_expression(expression, arguments) for expression in names.get(name, [])
        ]
        is_set = f"nonlocal {name}" in parsed.text
        if code.is_volatile(values, function.__globals__, walk, names, data=False) and (
            is_created(walk, value) if name in arguments or is_set else True
        ):
            return True
    return any(_is_given_to_decorator(walk, wrapped, name) for wrapped in _functions_in(function))


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


def _is_given_to_decorator(walk: Walk, function: FunctionType, name: str) -> bool:
    """Return whether a decorator of a function gets an argument that differs at every start."""
    node = walk.sources.definition_of(function.__code__)
    for decorator in getattr(node, "decorator_list", ()):
        chain = chain_of(decorator.func) if type(decorator) is ast.Call else None
        maker = (
            function.__globals__.get(chain[0]) if chain is not None and len(chain) == 1 else None
        )
        if type(maker) is not FunctionType:
            continue
        arguments = dict(zip(maker.__code__.co_varnames, decorator.args, strict=False))
        arguments |= {
            keyword.arg: keyword.value for keyword in decorator.keywords if keyword.arg is not None
        }
        if name in arguments and code.is_volatile(
            [arguments[name]], function.__globals__, walk, data=False
        ):
            return True
    return False


# ---- values that the process itself created -----------------------------------------------------


def is_plain(value: Any, room: int = _MOST) -> bool:
    """Return whether a value is plain data: a scalar, or a container of them."""
    kind = type(value)
    if id(kind) in _PLAIN or issubclass(kind, PurePath):  # by id: a metaclass may define a hash
        return True
    if is_a(value, *_CONTAINERS):
        held = contents_of(value) or []
        parts = [part for pair in held for part in pair] if kind is dict else held
        return len(parts) <= room and all(is_plain(part, room // 2) for part in parts)
    return (text_at(kind, "__module__") or "") == "tempfile"


def is_created(walk: Walk, value: Any) -> bool:
    """Return whether the process created a value: an id, or a time since it started."""
    kind = type(value)
    if kind is uuid.UUID:
        return value.version in _MADE and not _is_in_source(walk, [str(value), value.hex])
    if kind is str:
        if len(value) > _DATE and _is_since_start(_time_in(value)):
            return True
        return _ID.fullmatch(value) is not None and not _is_in_source(walk, [value])
    if kind is bytes:
        return len(value) >= _SHORTEST and not value.isascii()
    if kind is float or kind is int:
        return any(_is_since_start(value / unit) for unit in (1, 1e3, 1e6, 1e9))
    if kind is dt.datetime:
        return _is_since_start(value.timestamp())
    return False


def _time_in(text: str) -> float:
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _is_since_start(seconds: float) -> bool:
    return _STARTED <= seconds <= time.time()


def _is_in_source(walk: Walk, texts: Iterable[str]) -> bool:
    outside = [*sys.argv, *os.environ.values(), *walk.users_texts]
    return any(text in given for text in texts for given in outside)


def times_set(walk: Walk, name: str) -> int:
    """Count how often the user's code sets a name, except by `self.name = …`."""
    found = re.compile(
        rf"(?<!\bself)\.{re.escape(name)}\s*(?::[^=\n]+)?[-+*/|&%]?=(?!=)"
        rf"|\bglobal\b[^\n]*\b{re.escape(name)}\b"
        rf"|\bsetattr\([^\n]*[\"']{re.escape(name)}[\"']"
        rf"|\[\s*[\"']{re.escape(name)}[\"']\s*\]\s*[-+*/|&%]?=(?!=)"
        rf"|\b(?:update|replace|_replace|patch[\w.]*)\([^)\n]*\b{re.escape(name)}\b"
    )
    return sum(len(found.findall(text)) for text in walk.users_texts)
