"""Does an expression give another value at every start, only because of time or chance?

An id from `uuid4()`, a start time, a temporary folder differ at every start of the process, without
an edit. That is certain only if all inputs of the expression are known: random and time functions,
literals, pure functions. With any other input (arguments, a file, a library, an object) the value
itself counts.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import PurePath
from random import Random
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from uuid import UUID

from limpet.fingerprints.code.canonical_text import FUNCTIONS, Chain, Function, chain_of
from limpet.fingerprints.code.statements import (
    LEAVES,
    assignments,
    names_in,
    statements_in,
)
from limpet.fingerprints.walk.ownership import is_users
from limpet.fingerprints.walk.safe_access import is_a, module_dict, module_name, text_at
from limpet.fingerprints.walk.walk import Walk

_VOLATILE_MODULES = {"time", "uuid", "random", "secrets", "tempfile", "_random"}
_VOLATILE: set[Chain] = {("os", name) for name in ("getpid", "getppid", "urandom")}
_VOLATILE |= {("threading", "get_ident")}
_VOLATILE |= {("datetime", "datetime", name) for name in ("now", "utcnow", "today")}
_VOLATILE |= {("datetime", "date", "today"), ("builtins", "id"), ("builtins", "object")}
_PURE_MODULES = {"datetime", "math", "base64", "hashlib", "_hashlib", "string", "zoneinfo"}
_PURE: set[Chain] = {
    ("os", "path", name) for name in ("join", "basename", "dirname", "normpath", "splitext")
}
_PURE |= {("posixpath", name) for name in ("join", "basename", "dirname", "normpath", "splitext")}
_PURE |= {("pathlib", name) for name in ("Path", "PurePath", "PosixPath", "PurePosixPath")}
_PURE |= {("uuid", name) for name in ("UUID", "uuid3", "uuid5", "NAMESPACE_DNS", "NAMESPACE_URL")}
_PURE |= {("time", name) for name in ("strptime", "mktime")}
_PURE |= {("dataclasses", "field"), ("pydantic", "Field"), ("pydantic", "PrivateAttr")}
_PURE |= {("pydantic.fields", "Field"), ("pydantic.fields", "PrivateAttr")}
_PURE |= {("attr._next_gen", "field"), ("attr._make", "attrib"), ("attr._make", "Factory")}
_BUILTIN = {"str", "int", "float", "bool", "bytes", "list", "tuple", "dict", "set", "frozenset"}
_BUILTIN |= {"len", "min", "max", "sum", "abs", "round", "repr", "format", "hex", "oct", "bin"}
_BUILTIN |= {"ord", "chr", "sorted", "reversed", "range", "zip", "enumerate", "divmod", "pow"}
_PURE |= {("builtins", name) for name in _BUILTIN}
# Attributes and methods that only read or compute: those of immutable types, and of `random`.
_IMMUTABLE = (str, bytes, int, float, UUID, datetime, timedelta, PurePath, type(blake2b()), Random)
_READ = {name for kind in _IMMUTABLE for name in dir(kind)} - {"seed", "setstate", "update"}
_DATA = (str, bytes, int, float, bool, type(None), list, tuple, dict, set, frozenset)
_COMPUTES: tuple[type[ast.AST], ...] = (ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.BinOp)
_COMPUTES += (ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Set)
_COMPUTES += (ast.Dict, ast.Subscript, ast.Slice, ast.Starred, ast.keyword, ast.Call, ast.operator)
_COMPUTES += (ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEEPEST = 12

ARGUMENT = ast.Await(ast.Constant(None))
"""An argument of unknown value."""
Locals = Mapping[str, Sequence[ast.expr]]
"""The expressions assigned to each local of a function."""


def is_volatile(
    expressions: list[ast.expr],
    scope: Mapping[str, Any],
    walk: Walk,
    names: Locals | None = None,
    *,
    data: bool = True,
) -> bool:
    """Return whether expressions differ at every start, only because of time or chance.

    Args:
        expressions: The expressions.
        scope: The globals of their module.
        walk: The walk, for its sources.
        names: The locals of the enclosing function.
        data: Whether they may use globals that are plain data, which count separately.
    """
    expressions = [expression for expression in expressions if type(expression) is not ast.Constant]
    names = names or {}
    if not expressions or not _may_differ(expressions, names):
        return False
    check = _Check(walk, data=data)
    for expression in expressions:
        check.visit(expression, scope, names, 0)
    if not check.volatile or check.unknown:
        return False
    return not check.random or not walk.is_seeded


def _may_differ(expressions: list[ast.expr], names: Locals) -> bool:
    todo: list[ast.AST] = [*expressions]
    while todo:
        node = todo.pop()
        if type(node) is ast.Call or (type(node) is ast.Name and node.id in names):
            return True
        if type(node) not in LEAVES:
            todo += ast.iter_child_nodes(node)
    return False


class _Check:
    def __init__(self, walk: Walk, *, data: bool) -> None:
        self._walk = walk
        self._data = data
        self.volatile = self.unknown = self.random = False
        self._seen: set[int] = set()

    def visit(self, node: ast.AST, scope: Mapping[str, Any], names: Locals, depth: int) -> None:
        if depth > _DEEPEST or self.unknown:
            self.unknown = True  # too deep to tell
            return
        inner: list[ast.AST] = []
        if isinstance(node, (ast.Name, ast.Attribute)):
            chain = chain_of(node)
            if chain is not None:
                self._name(chain, scope, names, depth)
            elif isinstance(node, ast.Attribute):
                self._read([node.attr])
                inner = [node.value]
        elif isinstance(node, ast.Lambda):
            names = {**names, **dict.fromkeys(parameters(node), ())}
            inner = [node.body]
        elif isinstance(node, _COMPREHENSIONS):
            bound = [name for generator in node.generators for name in _bound(generator.target)]
            names = {**names, **dict.fromkeys(bound, ())}
            inner = [
                child
                for child in ast.iter_child_nodes(node)
                if not isinstance(child, ast.comprehension)
            ]
            inner += [
                part for generator in node.generators for part in (generator.iter, *generator.ifs)
            ]
        elif isinstance(node, _COMPUTES):
            inner = [*ast.iter_child_nodes(node)]
        else:
            self.unknown = True
        for child in inner:
            self.visit(child, scope, names, depth)

    def _name(self, chain: Chain, scope: Mapping[str, Any], names: Locals, depth: int) -> None:
        first, *rest = chain
        if first in names:
            self._read(rest)
            for assigned in names[first]:
                if id(assigned) not in self._seen:
                    self._seen.add(id(assigned))
                    self.visit(assigned, scope, names, depth + 1)
            return
        if first not in scope:
            self._library(("builtins", *chain))
            return
        value = scope[first]
        while type(value) is ModuleType and rest:
            if not is_users(value):
                self._library(((text_at(value, "__name__") or ""), *rest))
                return
            value = module_dict(value).get(rest.pop(0))
        if type(value) is FunctionType and is_users(value):
            self.unknown |= bool(rest)
            self._function(value, depth)
        elif is_a(value, *_DATA):
            self.unknown |= not self._data
            self._read(rest)
        else:
            # random.random is a method of a hidden instance.
            bound = type(value) is BuiltinFunctionType and not value.__module__
            home = module_name(value.__self__ if bound else value)
            self._library((home, text_at(value, "__name__") or "", *rest))

    def _read(self, names: list[str]) -> None:
        self.unknown |= any(name not in _READ for name in names)

    def _function(self, function: FunctionType, depth: int) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        node = self._walk.sources.definition_of(function.__code__)
        if node is None or function.__closure__ or getattr(node, "decorator_list", ()):
            self.unknown = True
            return
        names: dict[str, Sequence[ast.expr]] = dict.fromkeys(parameters(node), ())
        if isinstance(node, ast.Lambda):
            self.visit(node.body, function.__globals__, names, depth + 1)
            return
        defaults = [
            default
            for default in (*node.args.defaults, *node.args.kw_defaults)
            if default is not None
        ]
        names.update(assignments(node.body))
        for default in defaults:
            self.visit(default, function.__globals__, {}, depth + 1)
        for step in statements_in(node):
            for part in self._parts(step):
                self.visit(part, function.__globals__, names, depth + 1)

    def _parts(self, step: ast.AST) -> list[ast.expr]:
        match step:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Return(value=None):
                return []
            case ast.Return(value=ast.expr() as value) | ast.If(test=value):
                return [value]
            case ast.Assign(targets=[ast.Name()], value=value):
                return [value]
            case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
                return [value]
        self.unknown = True
        return []

    def _library(self, chain: Chain) -> None:
        home = {"posix": "os", "pathlib._local": "pathlib"}.get(chain[0], chain[0])
        chain = (home, *chain[1:])
        if chain in _PURE:
            return
        if chain in _VOLATILE or (home in _VOLATILE_MODULES and len(chain) > 1):
            self.volatile = True
            self.random |= home in ("random", "_random")
        elif home not in _PURE_MODULES:
            self.unknown = True


def assigned_to_self(cls: ast.ClassDef) -> tuple[dict[str, list[ast.expr]], Locals, set[str]]:
    """Return the expressions that a class assigns to each attribute, in its body and methods.

    Also return the locals of its methods, and the attributes that may be passed in.
    """
    found = {name: [*values] for name, values in assignments(cls.body).items()}
    names: dict[str, Sequence[ast.expr]] = {}
    fields = [statement.target for statement in cls.body if isinstance(statement, ast.AnnAssign)]
    passed_in = {field.id for field in fields if isinstance(field, ast.Name)}
    for method in cls.body:
        if not isinstance(method, FUNCTIONS):
            continue
        arguments = parameters(method)[1:]
        passed_in |= {*arguments}
        names |= dict.fromkeys(arguments, (ARGUMENT,))
        for name, values in assignments(method.body).items():
            names[name] = [*names.get(name, ()), *values]
        for node in statements_in(method):
            for attribute, value in _attributes_set(node):
                if not names_in(value).isdisjoint(arguments):
                    passed_in.add(attribute)
                found.setdefault(attribute, []).append(default_expression(value, arguments))
    return found, names, passed_in


def kept_parameters(cls: ast.ClassDef) -> list[str]:
    """Return the parameters that a class keeps under the same name, in order; others as ''."""
    for method in cls.body:
        if isinstance(method, FUNCTIONS) and method.name == "__init__":
            arguments = parameters(method)[1:]
            kept = {
                name
                for node in statements_in(method)
                for name, value in _attributes_set(node)
                if isinstance(value, ast.Name) and value.id == name
            }
            return [name if name in kept else "" for name in arguments]
    fields = [statement.target for statement in cls.body if isinstance(statement, ast.AnnAssign)]
    return [field.id for field in fields if isinstance(field, ast.Name)]


def default_expression(node: ast.expr, arguments: list[str]) -> ast.expr:
    """Return the expression used without an argument: `uuid4()` in `name or uuid4()`."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=[ast.Name(id=name), other]) if name in arguments:
            return other
        case ast.IfExp(body=ast.Name(id=name), orelse=other) if name in arguments:
            return other
        case ast.IfExp(body=other, orelse=ast.Name(id=name)) if name in arguments:
            return other
    return node


def _attributes_set(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from (
                (target.attr, value) for target in targets if isinstance(target, ast.Attribute)
            )
        case ast.AnnAssign(target=ast.Attribute(attr=attr), value=ast.expr() as value):
            yield attr, value


def parameters(function: Function | ast.Lambda) -> list[str]:
    """Return the names of the parameters of a function."""
    args = function.args
    named = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [parameter.arg for parameter in named if parameter is not None]


def _bound(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
