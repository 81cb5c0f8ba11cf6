"""Does a value come from chance alone?

A run's id from `uuid4()`, a start time, a temporary folder: such a value differs at every start
of the process though nobody edited anything. It counts by its source. One that also depends on
the world outside (arguments, the environment, a file, the network) counts by its value.
"""

import ast
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.asking import names_of, text_at
from limpet.fingerprints.naming import module_name
from limpet.fingerprints.ownership import is_users
from limpet.fingerprints.reading import FUNCTIONS, Chain, Function, chain_of
from limpet.fingerprints.statements import assignments, statements_in

if TYPE_CHECKING:
    from limpet.fingerprints.walk import Walk

_CHANCE_MODULES = {"time", "uuid", "random", "secrets", "tempfile", "_random"}
_CHANCE = {("os", "getpid"), ("os", "urandom"), ("os", "getppid"), ("threading", "get_ident")}
_CHANCE_ENDS = {"now", "utcnow", "today"}
_OUTSIDE_MODULES = {"sys", "argparse", "subprocess", "socket", "requests", "httpx", "urllib"}
_OUTSIDE_MODULES |= {"os", "io", "json", "yaml", "tomllib", "click", "typer", "fileinput"}
_OUTSIDE_MODULES |= {"importlib", "pickle", "sqlite3", "configparser", "dotenv", "getpass"}
_OUTSIDE_NAMES = {"open", "input", "eval", "exec"}
_OUTSIDE_ENDS = {"read_text", "read_bytes", "environ", "getenv", "argv", "iterdir", "glob"}
_OUTSIDE_ENDS |= {"rglob", "stat", "exists", "is_file", "is_dir", "cwd", "home", "expanduser"}
_OUTSIDE_ENDS |= {"resolve", "absolute", "readlink"}
_NEUTRAL = {("os", "path", one) for one in ("join", "basename", "dirname", "normpath", "splitext")}
_DEEPEST = 6
_OUTSIDE = ast.Name("open", ast.Load())  # stands for what comes from outside


def by_chance(expressions: list[ast.expr], scope: Mapping[str, Any], walk: "Walk") -> bool:
    """Tell whether what these give differs at every start, and for no other reason.

    Args:
        expressions: Syntax.
        scope: The module it stands in.
        walk: Where syntax is found.
    """
    expressions = [one for one in expressions if type(one) is not ast.Constant]
    if not any(isinstance(node, ast.Call) for one in expressions for node in ast.walk(one)):
        return False
    finding = _Finding(walk)
    for one in expressions:
        finding.look(one, scope, 0)
    if not finding.chance or finding.outside:
        return False
    return not finding.random or not walk.is_seeded


class _Finding:
    def __init__(self, walk: "Walk") -> None:
        self._walk = walk
        self.chance = self.outside = self.random = False
        self._seen: set[int] = set()

    def look(self, node: ast.AST, scope: Mapping[str, Any], depth: int) -> None:
        if depth > _DEEPEST:
            self.outside = True  # nobody knows
            return
        for one in ast.walk(node):
            chain = chain_of(one)
            if chain is not None:
                self._name(chain, scope, depth)
            elif isinstance(one, ast.Attribute) and one.attr in _OUTSIDE_ENDS:
                self.outside = True

    def _name(self, chain: Chain, scope: Mapping[str, Any], depth: int) -> None:
        if chain[-1] in _OUTSIDE_ENDS or (chain[0] in _OUTSIDE_NAMES and chain[0] not in scope):
            self.outside = True
            return
        if chain[0] in ("id", "object") and chain[0] not in scope:
            self.chance = True
            return
        value, place = scope.get(chain[0]), chain[1:]
        while type(value) is ModuleType and place:
            if not is_users(value) and self._library(
                (*(text_at(value, "__name__") or "").split("."), *place)
            ):
                return
            value, place = names_of(value).get(place[0]), place[1:]
        if type(value) is FunctionType and id(value) not in self._seen:
            self._seen.add(id(value))
            self._function(value, depth)
        elif value is not None and type(value) is not ModuleType:
            # random.random is a method of an object that nobody sees.
            bound = type(value) is BuiltinFunctionType and not value.__module__
            home = module_name(value.__self__ if bound else value)
            self._library((home, text_at(value, "__name__") or "", *place))

    def _function(self, function: FunctionType, depth: int) -> None:
        if not is_users(function):
            self._library((function.__module__ or "", function.__name__))
            return
        node = self._walk.sources.definition_of(function.__code__)
        if node is None:
            self.outside = True
        else:
            self.look(node, function.__globals__, depth + 1)

    def _library(self, chain: Chain) -> bool:
        if chain in _NEUTRAL:
            return True
        if chain[0] in _CHANCE_MODULES or chain[:2] in _CHANCE:
            self.chance = True
            self.random |= chain[0] in ("random", "_random")
        elif chain[0] == "datetime" and chain[-1] in _CHANCE_ENDS:
            self.chance = True
        elif chain[0] in _OUTSIDE_MODULES:
            self.outside = True
        else:
            return False
        return True


def assigned_to_self(cls: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """Return what a class's methods and its body assign to each attribute."""
    found = {name: [*values] for name, values in assignments(cls.body).items()}
    for method in cls.body:
        if isinstance(method, FUNCTIONS):
            given = parameters(method)[1:]
            for node in statements_in(method):
                for attribute, value in _attributes_set(node):
                    # What is given to it counts by its value.
                    values = [value, _OUTSIDE] if uses_parameters(value, given) else [value]
                    found.setdefault(attribute, []).extend(values)
    return found


def _attributes_set(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((one.attr, value) for one in targets if isinstance(one, ast.Attribute))
        case ast.AnnAssign(target=ast.Attribute(attr=attr), value=ast.expr() as value):
            yield attr, value


def parameters(function: Function) -> list[str]:
    """Return the names of what a function is given."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [one.arg for one in every if one is not None]


def uses_parameters(node: ast.AST, given: list[str]) -> bool:
    """Tell whether a value depends on what a function is given.

    In `name or uuid4()` it is one or the other: made by chance where nothing is given.
    """
    if isinstance(node, ast.Name):
        return node.id in given
    inner: list[ast.AST] = [*ast.iter_child_nodes(node)]
    if isinstance(node, ast.BoolOp):
        inner = [one for one in node.values if not isinstance(one, ast.Name)]
    elif isinstance(node, ast.IfExp):
        inner = [one for one in (node.body, node.orelse) if not isinstance(one, ast.Name)]
    return any(uses_parameters(one, given) for one in inner)
