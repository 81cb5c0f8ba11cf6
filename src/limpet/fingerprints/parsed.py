"""What stands where in a file of code?"""

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any

from limpet.fingerprints.bytecode import compiled

_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_SILENT = {"print", "logging", "warnings", "logger", "log", "load_dotenv", "main"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SIMPLE: tuple[type[ast.AST], ...] = (
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Return,
    ast.Import,
)
_SIMPLE += (ast.ImportFrom, ast.Raise, ast.Assert, ast.Pass)
_IMPORTS = (ast.Import, ast.ImportFrom)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Parsed:
    """A file: its tree, and where each function and class stands in it."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        self.tree = tree
        self.text = text
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self._lines: dict[int, list[tuple[ast.stmt, Definition]]] = {}
        self._shapes: dict[tuple[int, int], dict[str, list[Any]]] = {}
        self._lambdas: dict[int, list[tuple[ast.stmt, Definition]]] | None = None
        for statement in tree.body:
            self._index(statement, statement, "")

    def _index(self, node: Any, statement: ast.stmt, within: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            self._lines.setdefault(first, []).append((statement, node))
            self.functions.setdefault(within + node.name, []).append(node)
            within += f"{node.name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            self.classes[within + node.name] = node
            within += f"{node.name}."
        elif isinstance(node, _SIMPLE):
            return
        for child in _children(node):
            self._index(child, statement, within)

    @functools.cached_property
    def _statements(self) -> list[ast.stmt]:
        return list(_at_import(self.tree.body))

    @functools.cached_property
    def assignments(self) -> dict[str, list[ast.expr]]:
        """What the module assigns to each of its names."""
        return assignments(self.tree.body)

    @functools.cached_property
    def places(self) -> dict[str, dict[str, list[ast.expr]]]:
        """What the module assigns to attributes and keys of what its names stand for."""
        found: dict[str, dict[str, list[ast.expr]]] = {}
        for one in self._statements:
            if not isinstance(one, ast.Assign):
                continue
            for target in one.targets:
                match target:
                    case (
                        ast.Attribute(value=ast.Name(id=name), attr=place)
                        | ast.Subscript(
                            value=ast.Name(id=name), slice=ast.Constant(value=str() as place)
                        )
                    ):
                        found.setdefault(name, {}).setdefault(place, []).append(one.value)
        return found

    @functools.cached_property
    def changed(self) -> set[str]:
        """Names of what functions of the module change: `CONFIG.model = …`."""
        targets = [
            one.value
            for one in ast.walk(self.tree)
            if isinstance(one, (ast.Attribute, ast.Subscript)) and type(one.ctx) is not ast.Load
        ]
        return {one.id for one in targets if isinstance(one, ast.Name)}

    @functools.cached_property
    def effects(self) -> list[ast.stmt]:
        """What the module does beyond giving values to names: it calls, and changes others."""
        return [one for one in self._statements if _has_effect(one)]

    def uses(self, name: str) -> bool:
        """Tell whether a name that the module imports is used anywhere in it."""
        if name == "*":  # who knows which
            return True
        found = re.finditer(rf"\b{name}\b", self.text)
        return len(list(itertools.islice(found, 2))) > 1

    @functools.cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The imports that run when the module is imported."""
        return [
            one
            for one in self._statements
            if isinstance(one, _IMPORTS) and getattr(one, "module", "") != "__future__"
        ]

    def shapes_in(self, statement: ast.stmt, flags: int) -> dict[str, list[Any]]:
        """Return what each function in a statement of the file compiles to."""
        known = (id(statement), flags)
        if known not in self._shapes:
            # The compiler treats names differently that the module imports.
            alone = statement in self.imports
            body: list[ast.stmt] = [statement] if alone else [*self.imports, statement]
            self._shapes[known] = compiled(ast.Module(body, []), flags)
        return self._shapes[known]

    def at_line(self, line: int, name: str) -> list[tuple[ast.stmt, Definition]]:
        """Return the functions that begin on a line, each with the statement it stands in."""
        if name != "<lambda>":
            return self._lines.get(line, [])
        if self._lambdas is None:
            self._lambdas = {}
            for statement in self.tree.body:
                for node in ast.walk(statement):
                    if isinstance(node, ast.Lambda):
                        self._lambdas.setdefault(node.lineno, []).append((statement, node))
        # Of several on a line, the last that begins before the code is its own.
        found = self._lambdas.get(line, [])
        return sorted(found, key=lambda one: -one[1].col_offset)


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> Parsed | None:
    """Return the syntax of a file; None if it is empty or no Python."""
    if not text:
        return None
    try:
        return Parsed(ast.parse(text), text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def lines_of(node: Any) -> tuple[int, int]:
    """Return the first and the last line of a statement, with its decorators."""
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return first, node.end_lineno


def _children(node: ast.AST) -> list[Any]:
    """Return the statements, handlers and cases in a statement."""
    return [child for field in _BODIES for child in getattr(node, field, ())]


def _at_import(body: list[Any]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, in their order."""
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, (*_SIMPLE, *_SCOPES)) or _is_for_scripts(node):
            continue
        yield from _at_import(_children(node))


def _is_for_scripts(node: ast.AST) -> bool:
    """Tell whether it is `if __name__ == "__main__":`."""
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
    return False


def _has_effect(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=function)):
            return _first_name(function) not in _SILENT
        case ast.Assign(targets=targets):
            return any(_is_foreign(one) for one in targets)
        case ast.AugAssign(target=target):
            return _is_foreign(target)
    return False


def _is_foreign(target: ast.expr) -> bool:
    """Tell whether an assignment may change what is not the module's own.

    What a call gave, `getcontext().prec = 3`, or what lies deeper, `json.JSONEncoder.default = f`.
    """
    if isinstance(target, ast.Name):
        return False
    within = target.value if isinstance(target, (ast.Attribute, ast.Subscript)) else target
    return not isinstance(within, ast.Name)


def _first_name(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def assignments(body: list[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return what a scope assigns to each name, wherever in it; not in the functions inside."""
    found: dict[str, list[ast.expr]] = {}
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _note(found, target, value)
                continue
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                _note(found, target, value)
            case ast.AugAssign(target=target, value=value):
                _note(found, target, value)
            case ast.NamedExpr(target=target, value=value):
                _note(found, target, value)
        if not isinstance(node, ast.expr):
            todo += ast.iter_child_nodes(node)
    return found


def _note(found: dict[str, list[ast.expr]], target: ast.AST, value: ast.expr) -> None:
    match target:
        case ast.Name(id=name):
            found.setdefault(name, []).append(value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for one in targets:
                _note(found, one, value)
        case ast.Starred(value=one):
            _note(found, one, value)
