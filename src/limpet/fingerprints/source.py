"""Where is the syntax of this code?

A file may have been edited since it was imported, so its text is believed only if it compiles to
the code that is in memory. Where there is none, or it says something else, bytecode stands in.
"""

import __future__

import ast
import functools
import linecache
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag,
    __future__.all_feature_names,
    0,
)
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_SILENT = {"print", "logging", "warnings", "logger", "log", "load_dotenv", "main"}
_IMPORTS = (ast.Import, ast.ImportFrom)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def definition_of(code: CodeType) -> Definition | None:
    """Return the syntax of a function; None if there is none that is surely its own."""
    return _definition(code, "".join(linecache.getlines(code.co_filename))) or _looked_again(code)


def _looked_again(code: CodeType) -> Definition | None:
    """Look at the file as it is now: what was read of it before may be older than the code."""
    linecache.checkcache(code.co_filename)
    return _definition(code, "".join(linecache.getlines(code.co_filename)))


def _definition(code: CodeType, text: str) -> Definition | None:
    file = parsed(text)
    if file is None:
        return None
    found = [one for one in file.at_line(code.co_firstlineno, code.co_name) if _fits(one[1], code)]
    if len(found) == 1 and _is_older_than_we(code.co_filename):
        return found[0][1]
    for statement, node in found:
        shapes = file.shapes_in(statement, code.co_flags & _FUTURE)
        if shape(code) in shapes.get(code.co_qualname, ()):
            return node
    return None


@functools.lru_cache(maxsize=4096)
def _is_older_than_we(file: str) -> bool:
    """Tell whether a file cannot have changed since this process imported it."""
    began = _began()
    try:
        return began is not None and os.stat(file).st_ctime < began
    except OSError:
        return False


@functools.cache
def _began() -> float | None:
    """Return when this process began; None where that cannot be known."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        booted = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    # Both are cut to a whole number: two seconds are certain.
    return booted + ticks / os.sysconf("SC_CLK_TCK") - 2


def class_statement(cls: type, file: str) -> ast.ClassDef | None:
    """Return the syntax of a class; None if there is no such class in the file."""
    found = parsed("".join(linecache.getlines(file)))
    return None if found is None else found.classes.get(cls.__qualname__)


def file_as_it_is(file: str) -> "Parsed | None":
    """Return the syntax of a whole file, as it is now."""
    linecache.checkcache(file)
    return parsed("".join(linecache.getlines(file)))


def _fits(node: Definition, code: CodeType) -> bool:
    if not isinstance(node, ast.Lambda):
        return node.name == code.co_name
    # Several may stand on one line: the body's place tells them apart.
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    return code.co_name == "<lambda>" and (
        not places or (node.body.lineno, node.body.col_offset) <= min(places)
    )


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
        for field in _BODIES:
            for child in getattr(node, field, ()):
                self._index(child, statement, within)

    @functools.cached_property
    def assignments(self) -> dict[str, list[ast.expr]]:
        """What the module assigns to each of its names."""
        return assignments(self.tree.body)

    @functools.cached_property
    def places(self) -> dict[str, dict[str, list[ast.expr]]]:
        """What the module assigns to attributes and keys of what its names stand for."""
        found: dict[str, dict[str, list[ast.expr]]] = {}
        for one in _outside_functions(self.tree):
            for target in one.targets if isinstance(one, ast.Assign) else ():
                match target:
                    case (
                        ast.Attribute(value=ast.Name(id=name), attr=place)
                        | ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as place))
                    ):
                        found.setdefault(name, {}).setdefault(place, []).append(one.value)
        return found

    @functools.cached_property
    def effects(self) -> list[ast.stmt]:
        """What the module does beyond giving values to names: it calls, and changes others."""
        return [one for one in _outside_functions(self.tree) if _has_effect(one)]

    @functools.cached_property
    def unused_imports(self) -> list[ast.Import | ast.ImportFrom]:
        """Imports whose names nobody uses: they are there for what the import does."""
        words = Counter(re.findall(r"\w+", self.text))
        return [
            one
            for one in self._imports
            if all(words[(a.asname or a.name).partition(".")[0]] == 1 for a in one.names)
        ]

    @functools.cached_property
    def _imports(self) -> list[ast.Import | ast.ImportFrom]:
        return [
            one
            for one in _outside_functions(self.tree)
            if isinstance(one, _IMPORTS) and getattr(one, "module", "") != "__future__"
        ]

    def shapes_in(self, statement: ast.stmt, flags: int) -> dict[str, list[Any]]:
        """Return what each function in a statement of the file compiles to."""
        known = (id(statement), flags)
        if known not in self._shapes:
            # The compiler treats names differently that the module imports.
            body = [*self._imports, statement] if statement not in self._imports else [statement]
            self._shapes[known] = _compiled(ast.Module(body, []), flags)
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
def parsed(text: str) -> "Parsed | None":
    if not text:
        return None
    try:
        return Parsed(ast.parse(text), text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _outside_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, in their order."""
    todo: list[ast.AST] = list(reversed(tree.body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            if not _is_for_scripts(node):
                todo += reversed(list(ast.iter_child_nodes(node)))


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
    """Tell whether an assignment changes what a call gave: `getcontext().prec = 3`."""
    return not isinstance(target, ast.Name) and any(
        isinstance(one, ast.Call) for one in ast.walk(target)
    )


def _first_name(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def text_of_file(file: str) -> str:
    """Return the text of a file as it was imported."""
    return "".join(linecache.getlines(file))


def text_of(node: ast.AST, file: str) -> str:
    """Return a function as it is written, comments and all."""
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])  # type: ignore[attr-defined]
    return "".join(linecache.getlines(file)[first - 1 : node.end_lineno])  # type: ignore[attr-defined]


def _compiled(module: ast.Module, flags: int) -> dict[str, list[Any]]:
    try:
        todo = [compile(module, "<read>", "exec", flags=flags, dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError):
        return {}
    shapes: dict[str, list[Any]] = {}
    while todo:
        code = todo.pop()
        shapes.setdefault(code.co_qualname, []).append(shape(code))
        todo += [one for one in code.co_consts if isinstance(one, CodeType)]
    return shapes


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
    for one in ast.walk(target):
        if isinstance(one, ast.Name):
            found.setdefault(one.id, []).append(value)


def shape(code: CodeType) -> list[Any]:
    """Return what bytecode does, without where it stood."""
    constants = [
        shape(one) if isinstance(one, CodeType) else _shown(one) for one in code.co_consts
    ]
    names = [*code.co_names], [*code.co_varnames], [*code.co_freevars]
    return [code.co_code.hex(), *names, constants]


def _shown(constant: Any) -> Any:
    if isinstance(constant, frozenset):  # its order follows the hash seed
        return sorted(map(repr, constant))
    if isinstance(constant, tuple):
        return [_shown(one) for one in constant]
    return f"{type(constant).__name__} {constant!r}"


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of all functions in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from nested(one)
