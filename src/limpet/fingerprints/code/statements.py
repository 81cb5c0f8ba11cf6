"""What do the statements of a scope do: assign, import, call?"""

import ast
import re
from collections.abc import Iterator
from typing import Any

_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
REGISTERING = (
    r"register\w*|receiver|listens_for|hookimpl|patch_\w+|add_\w+|on|on_\w+|\w*hook|\w*callback"
)
"""Names of decorators that add to a registry."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CALLED_LATER = frozenset({*_FUNCTIONS, ast.Lambda})
LEAVES = frozenset({ast.Name, ast.Constant})
"""Nodes that contain no code."""

_IMPORTS = (ast.Import, ast.ImportFrom)
# Of expressions, only those that are assignments themselves are searched.
_WITHOUT_ASSIGNMENTS = (*_SCOPES, *_IMPORTS, ast.expr)
SIMPLE = frozenset({ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Import})
SIMPLE |= {ast.ImportFrom, ast.Raise, ast.Assert, ast.Pass, ast.Delete, ast.Global, ast.Nonlocal}
SIMPLE |= {ast.Break, ast.Continue}
"""Statements that contain no other statements."""


def children(node: ast.AST) -> list[Any]:
    """Return the statements, handlers and cases in a statement."""
    return [child for field in _BODIES for child in getattr(node, field, ())]


def nodes_in(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node; twice as fast as `ast.iter_child_nodes`."""
    found: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field, None)
        if type(value) is list:
            found += [child for child in value if isinstance(child, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def names_in(node: ast.AST) -> set[str]:
    """Return all names in an expression."""
    found: set[str] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        if type(node) is ast.Name:
            found.add(node.id)
        elif type(node) is not ast.Constant:
            todo += nodes_in(node)
    return found


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a statement, including inner functions and classes."""
    for child in children(node):
        yield child
        if type(child) not in SIMPLE:
            yield from statements_in(child)


def at_import(body: list[Any]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, in order."""
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        if type(node) in SIMPLE or isinstance(node, _SCOPES):
            continue
        yield from at_import(node.orelse if is_for_scripts(node) else children(node))


def is_for_scripts(node: ast.AST) -> bool:
    """Return whether a statement is `if __name__ == "__main__":`."""
    if type(node) is not ast.If:
        return False
    match node.test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]):
            return True
    return False


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run with a statement, without the bodies of its functions."""
    todo: list[Any] = [node]
    while todo:
        current = todo.pop()
        yield current
        kind = type(current)
        if kind in _CALLED_LATER:
            todo += getattr(current, "decorator_list", ())
            todo += [*current.args.defaults, *filter(None, current.args.kw_defaults)]
        elif kind is ast.AnnAssign:
            todo += [current.target] if current.value is None else [current.target, current.value]
        elif is_for_scripts(current):
            todo += current.orelse
        elif kind not in LEAVES:
            todo += nodes_in(current)


def registered_by(statement: ast.stmt) -> list[str]:
    """Return the first names of decorators that register a function or class."""
    found = []
    for decorator in getattr(statement, "decorator_list", ()):
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        last = function.attr if isinstance(function, ast.Attribute) else _first_name(function)
        if re.fullmatch(REGISTERING, last):
            found.append(_first_name(function))
    return found


def may_have_effects(statement: Any) -> bool:
    """Return whether a statement may do more than assign names; most do not."""
    kind = type(statement)
    if kind in _IMPORTS:
        return False
    if kind is ast.Assign and type(statement.value) is ast.Constant:
        return {type(target) for target in statement.targets} != {ast.Name}
    if kind is ast.Expr:  # a docstring does nothing
        return type(statement.value) is not ast.Constant
    if kind in _FUNCTIONS:
        args = statement.args
        return bool(statement.decorator_list or args.defaults or any(args.kw_defaults))
    return kind not in (ast.Pass, ast.Global)


def _first_name(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def assignments(body: list[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return the expressions that a scope assigns to each name, without inner functions."""
    found: dict[str, list[ast.expr]] = {}
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if type(node) is ast.Assign:  # most are
            for target in node.targets:
                _note(found, target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if node.value is not None:
                _note(found, node.target, node.value)
            if type(node) is not ast.NamedExpr:
                todo += nodes_in(node)
        elif not isinstance(node, _WITHOUT_ASSIGNMENTS):
            todo += nodes_in(node)
    return found


def _note(found: dict[str, list[ast.expr]], target: ast.AST, value: ast.expr) -> None:
    if type(target) is ast.Name:
        found.setdefault(target.id, []).append(value)
        return
    match target:
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for element in targets:
                _note(found, element, value)
        case ast.Starred(value=element):
            _note(found, element, value)
