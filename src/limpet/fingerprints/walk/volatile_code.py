"""Does a value come from chance alone?

A run's id from `uuid4()`, a start time, a temporary folder: such a value differs at every start
of the process though nobody edited anything. It counts by its source. All that goes into it must
be known for that: chance, literals, and functions that do nothing but compute. Where anything else
has a part in it (arguments, a file, a library, an object), it counts by its value.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code.statements import assignments, statements_in
from limpet.fingerprints.code.summary import FUNCTIONS, Chain, Function, chain_of
from limpet.fingerprints.walk.ownership import is_users
from limpet.fingerprints.walk.safe_access import is_a, module_name, names_of, text_at

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_CHANCE_MODULES = {"time", "uuid", "random", "secrets", "tempfile", "_random"}
_CHANCE: set[Chain] = {
    ("os", "getpid"),
    ("os", "urandom"),
    ("os", "getppid"),
    ("threading", "get_ident"),
}
_CHANCE |= {("datetime", "datetime", name) for name in ("now", "utcnow", "today")}
_CHANCE |= {("datetime", "date", "today"), ("builtins", "id"), ("builtins", "object")}
_PURE_MODULES = {"datetime", "math", "base64", "hashlib", "_hashlib", "string", "zoneinfo"}
_PURE: set[Chain] = {
    ("os", "path", name) for name in ("join", "basename", "dirname", "normpath", "splitext")
}
_PURE |= {("posixpath", name) for name in ("join", "basename", "dirname", "normpath", "splitext")}
_PURE |= {("pathlib", name) for name in ("Path", "PurePath", "PosixPath", "PurePosixPath")}
_PURE |= {("uuid", name) for name in ("UUID", "uuid3", "uuid5", "NAMESPACE_DNS", "NAMESPACE_URL")}
_PURE |= {("time", name) for name in ("strptime", "mktime")}
_PURE |= {
    ("dataclasses", "field"),
    ("pydantic.fields", "Field"),
    ("pydantic.fields", "PrivateAttr"),
}
_PURE |= {("pydantic", "Field"), ("pydantic", "PrivateAttr")}
_PURE |= {("attr._next_gen", "field"), ("attr._make", "attrib"), ("attr._make", "Factory")}
_BUILTIN = {"str", "int", "float", "bool", "bytes", "list", "tuple", "dict", "set", "frozenset"}
_BUILTIN |= {"len", "min", "max", "sum", "abs", "round", "repr", "format", "hex", "oct", "bin"}
_BUILTIN |= {"ord", "chr", "sorted", "reversed", "range", "zip", "enumerate", "divmod", "pow"}
_PURE |= {("builtins", name) for name in _BUILTIN}
# What may be read off a value that is no name: its parts, and what only computes.
_READ = {"hex", "int", "bytes", "bytes_le", "urn", "fields", "time_low", "node", "isoformat"}
_READ |= {"strftime", "timestamp", "timetuple", "date", "time", "replace", "astimezone"}
_READ |= {"utctimetuple", "year", "month", "day", "hour", "minute", "second", "microsecond"}
_READ |= {"weekday", "isoweekday", "total_seconds", "days", "seconds", "upper", "lower", "strip"}
_READ |= {"lstrip", "rstrip", "split", "rsplit", "join", "format", "encode", "decode", "zfill"}
_READ |= {"title", "capitalize", "removeprefix", "removesuffix", "partition", "rpartition"}
_READ |= {"hexdigest", "digest", "name", "stem", "suffix", "parent", "with_suffix", "with_name"}
_READ |= {"joinpath", "as_posix", "bit_length", "sample", "random", "choice", "choices", "randint"}
_READ |= {"randrange", "uniform", "gauss", "shuffle", "getrandbits", "rjust", "ljust"}
_READ |= {"is_integer", "to_bytes", "count", "index"}
_DATA = (str, bytes, int, float, bool, type(None), list, tuple, dict, set, frozenset)
_COMPUTES: tuple[type[ast.AST], ...] = (
    ast.Constant,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
)
_COMPUTES += (ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Subscript)
_COMPUTES += (ast.Slice, ast.Starred, ast.keyword, ast.Call, ast.operator, ast.unaryop, ast.boolop)
_COMPUTES += (ast.cmpop, ast.expr_context)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEEPEST = 12

GIVEN = ast.Await(ast.Constant(None))
"""Stands for what a function is given: nobody knows what it is."""
Locals = Mapping[str, Sequence[ast.expr]]
"""Names in a function: what is assigned to each."""


def is_volatile(
    expressions: list[ast.expr],
    scope: Mapping[str, Any],
    walk: "Walk",
    names: Locals | None = None,
    *,
    data: bool = True,
) -> bool:
    """Tell whether what these give differs at every start, and for no other reason.

    Args:
        expressions: Syntax.
        scope: The module it stands in.
        walk: Where syntax is found.
        names: Names of the function that it stands in.
        data: Whether globals that are plain data may go into it: they count by themselves.
    """
    expressions = [expression for expression in expressions if type(expression) is not ast.Constant]
    if not expressions:
        return False
    names = names or {}
    if not any(
        _may_differ(node, names) for expression in expressions for node in ast.walk(expression)
    ):
        return False
    finding = _Finding(walk, data=data)
    for expression in expressions:
        finding.look(expression, scope, names, 0)
    if not finding.chance or finding.unknown:
        return False
    return not finding.random or not walk.is_seeded


def _may_differ(node: ast.AST, names: Locals) -> bool:
    return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in names)


class _Finding:
    def __init__(self, walk: "Walk", *, data: bool) -> None:
        self._walk = walk
        self._data = data
        self.chance = self.unknown = self.random = False
        self._seen: set[int] = set()

    def look(self, node: ast.AST, scope: Mapping[str, Any], names: Locals, depth: int) -> None:
        if depth > _DEEPEST or self.unknown:
            self.unknown = True  # nobody knows
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
            self.look(child, scope, names, depth)

    def _name(self, chain: Chain, scope: Mapping[str, Any], names: Locals, depth: int) -> None:
        first, *rest = chain
        if first in names:
            self._read(rest)
            for assigned in names[first]:
                if id(assigned) not in self._seen:
                    self._seen.add(id(assigned))
                    self.look(assigned, scope, names, depth + 1)
            return
        if first not in scope:
            self._library(("builtins", *chain))
            return
        value = scope[first]
        while type(value) is ModuleType and rest:
            if not is_users(value):
                self._library(((text_at(value, "__name__") or ""), *rest))
                return
            value = names_of(value).get(rest.pop(0))
        if type(value) is FunctionType and is_users(value):
            self.unknown |= bool(rest)
            self._function(value, depth)
        elif is_a(value, *_DATA):
            self.unknown |= not self._data
            self._read(rest)
        else:
            # random.random is a method of an object that nobody sees.
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
            self.look(node.body, function.__globals__, names, depth + 1)
            return
        given = [
            default
            for default in (*node.args.defaults, *node.args.kw_defaults)
            if default is not None
        ]
        names.update(assignments(node.body))
        for default in given:
            self.look(default, function.__globals__, {}, depth + 1)
        for step in statements_in(node):
            for part in self._parts(step):
                self.look(part, function.__globals__, names, depth + 1)

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
        if chain in _CHANCE or (home in _CHANCE_MODULES and len(chain) > 1):
            self.chance = True
            self.random |= home in ("random", "_random")
        elif home not in _PURE_MODULES:
            self.unknown = True


def assigned_to_self(cls: ast.ClassDef) -> tuple[dict[str, list[ast.expr]], Locals, set[str]]:
    """Return what a class's methods and its body assign to each attribute.

    With it come the names of locals in it, and the attributes that may be given to it.
    """
    found = {name: [*values] for name, values in assignments(cls.body).items()}
    names: dict[str, Sequence[ast.expr]] = {}
    fields = [statement.target for statement in cls.body if isinstance(statement, ast.AnnAssign)]
    given_to_it = {field.id for field in fields if isinstance(field, ast.Name)}
    for method in cls.body:
        if not isinstance(method, FUNCTIONS):
            continue
        given = parameters(method)[1:]
        given_to_it |= {*given}
        names |= dict.fromkeys(given, (GIVEN,))
        for name, values in assignments(method.body).items():
            names[name] = [*names.get(name, ()), *values]
        for node in statements_in(method):
            for attribute, value in _attributes_set(node):
                named = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
                if named & {*given}:
                    given_to_it.add(attribute)
                found.setdefault(attribute, []).append(without_given(value, given))
    return found, names, given_to_it


def taken_by(cls: ast.ClassDef) -> list[str]:
    """Return the names of what a class takes and keeps under the same name, in their order."""
    for method in cls.body:
        if isinstance(method, FUNCTIONS) and method.name == "__init__":
            taken = parameters(method)[1:]
            kept = {
                name
                for node in statements_in(method)
                for name, value in _attributes_set(node)
                if isinstance(value, ast.Name) and value.id == name
            }
            return [name if name in kept else "" for name in taken]
    fields = [statement.target for statement in cls.body if isinstance(statement, ast.AnnAssign)]
    return [field.id for field in fields if isinstance(field, ast.Name)]


def without_given(node: ast.expr, given: list[str]) -> ast.expr:
    """Return what is made where nothing is given: `uuid4()` in `name or uuid4()`."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=[ast.Name(id=name), other]) if name in given:
            return other
        case ast.IfExp(body=ast.Name(id=name), orelse=other) if name in given:
            return other
        case ast.IfExp(body=other, orelse=ast.Name(id=name)) if name in given:
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
    """Return the names of what a function is given."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [parameter.arg for parameter in every if parameter is not None]


def _bound(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
