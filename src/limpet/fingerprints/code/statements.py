"""What do the statements of a scope do: assign, import, call?"""

import ast
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
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
# Of expressions, only assignments are searched.
_WITHOUT_ASSIGNMENTS = (*_SCOPES, *_IMPORTS, ast.expr)
SIMPLE = frozenset({ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Import})
SIMPLE |= {ast.ImportFrom, ast.Raise, ast.Assert, ast.Pass, ast.Delete, ast.Global, ast.Nonlocal}
SIMPLE |= {ast.Break, ast.Continue}
"""Statements that contain no other statements."""


def children(node: ast.AST) -> list[Any]:
    """Return the statements, handlers and cases in a statement."""
    return [child for field in _BODIES for child in getattr(node, field, ())]


def names_in(node: ast.AST) -> set[str]:
    """Return all names in an expression."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


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
            todo += ast.iter_child_nodes(current)


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
    """Return whether a statement may do more than assign names."""
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
    if kind is ast.ClassDef and not (
        statement.bases or statement.keywords or statement.decorator_list
    ):
        # Its decorated methods belong to it: `@property`, the `register` of a singledispatchmethod.
        return any(
            may_have_effects(part) for part in statement.body if type(part) not in _FUNCTIONS
        )
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
                _add_assigned(found, target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if node.value is not None:
                _add_assigned(found, node.target, node.value)
            if type(node) is not ast.NamedExpr:
                todo += ast.iter_child_nodes(node)
        elif not isinstance(node, _WITHOUT_ASSIGNMENTS):
            todo += ast.iter_child_nodes(node)
    return found


def _add_assigned(found: dict[str, list[ast.expr]], target: ast.AST, value: ast.expr) -> None:
    if type(target) is ast.Name:
        found.setdefault(target.id, []).append(value)
        return
    match target:
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for element in targets:
                _add_assigned(found, element, value)
        case ast.Starred(value=element):
            _add_assigned(found, element, value)


# ---- Which modules does code import, and where are their files? ---------------------------------
#
# Finding out imports nothing.

SearchPath = tuple[str, ...]
Finder = Callable[[str, SearchPath], tuple[str | None, SearchPath] | None]
# An environment below the project has thousands of files.
_NOT_OF_PROJECT = {"site-packages", "dist-packages", "node_modules"}


def imports_in(nodes: Iterable[ast.AST], package: str | None) -> Iterator[str]:
    """Yield the full names of imported modules; `pkg.*` if the name is computed."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = _absolute(module or "", level, package)
                if base is not None:
                    yield base
                    yield from (f"{base}.{alias.name}" for alias in names if alias.name != "*")
            case ast.Call(args=[first, *_]):
                yield _computed(first, package)


def _absolute(module: str, level: int, package: str | None) -> str | None:
    if not level:
        return module
    parts = (package or "").split(".")
    if not package or level > len(parts):
        return None
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{module}" if module else base


def _computed(name: ast.expr, package: str | None) -> str:
    match name:
        case ast.Constant(value=str() as text):
            return _absolute(text.lstrip("."), len(text) - len(text.lstrip(".")), package) or text
        case ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]) if "." in text:
            return text.rpartition(".")[0] + ".*"
        case ast.BinOp(left=ast.Constant(value=str() as text)) if "." in text:
            return text.rpartition(".")[0] + ".*"
    return ".*"


def find_module(name: str, search_path: SearchPath) -> tuple[str | None, SearchPath] | None:
    """Return the file of a module on a search path, and the search path of its submodules."""
    spec = PathFinder.find_spec(name, search_path)
    return None if spec is None else (spec.origin, (*(spec.submodule_search_locations or ()),))


def file_of_module(name: str, importer: str, find: Finder = find_module) -> str | None:
    """Return the file of a module; None if it has none or is not Python source.

    Args:
        name: Its full name.
        importer: The file that imports it.
        find: `find_module`, or a cached version of it.
    """
    file, search_path = None, (os.path.dirname(importer) or ".", *sys.path)  # noqa: PTH120 - a string
    for part in name.split("."):
        found = find(part, search_path)
        if found is None:
            return None
        file, search_path = found
    return file if file and file.endswith(".py") else None


def modules_below(package: str, importer: str, find: Finder) -> list[tuple[str, str]]:
    """Return all modules of a package, or of the importer's folder if it is empty.

    Returns:
        The name of each module below the folder ("" for the folder itself), and its file.
    """
    folder = Path(importer).parent
    if package:
        file = file_of_module(package, importer, find)
        named = Path(importer).parent.joinpath(*package.split("."))
        folder = Path(file).parent if file is not None else named
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and name not in _NOT_OF_PROJECT]
        found += [Path(parent, name) for name in files if name.endswith(".py")]
    return [(_dotted(file.relative_to(folder)), str(file)) for file in sorted(found)]


def _dotted(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
