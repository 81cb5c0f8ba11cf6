"""Where is the syntax of this code?

A file may have been edited since it was imported, so its text is believed only if it compiles to
the code that is in memory. Where there is none, or it says something else, bytecode stands in.
"""

import __future__

import ast
import functools
import linecache
from collections.abc import Iterator
from types import CodeType
from typing import Any

_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag,
    __future__.all_feature_names,
    0,
)
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
    file = _parsed(text)
    if file is None:
        return None
    for statement, node in file.at_line(code.co_firstlineno):
        if _fits(node, code):
            shapes = file.shapes_in(statement, code.co_flags & _FUTURE)
            if shape(code) in shapes.get(code.co_qualname, ()):
                return node
    return None


def class_statement(cls: type, file: str) -> ast.ClassDef | None:
    """Return the syntax of a class; None if there is no such class in the file."""
    parsed = _parsed("".join(linecache.getlines(file)))
    return None if parsed is None else parsed.classes.get(cls.__qualname__)


def module_of_file(file: str) -> ast.Module | None:
    """Return the syntax of a whole file, as it is now."""
    linecache.checkcache(file)
    parsed = _parsed("".join(linecache.getlines(file)))
    return None if parsed is None else parsed.tree


def _fits(node: Definition, code: CodeType) -> bool:
    if not isinstance(node, ast.Lambda):
        return node.name == code.co_name
    # Several may stand on one line: the body's place tells them apart.
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    return code.co_name == "<lambda>" and (
        not places or (node.body.lineno, node.body.col_offset) <= min(places)
    )


class _Parsed:
    """A file: its tree, and where each function and class stands in it."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.classes: dict[str, ast.ClassDef] = {}
        self._lines: dict[int, list[tuple[ast.stmt, Definition]]] = {}
        self._shapes: dict[tuple[int, int], dict[str, list[Any]]] = {}
        # The compiler treats names differently that the module imports.
        self._imports = [one for one in _outside_functions(tree) if isinstance(one, _IMPORTS)]
        for statement in tree.body:
            self._index(statement, statement, "")

    def _index(self, node: ast.AST, statement: ast.stmt, within: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            self._lines.setdefault(first, []).append((statement, node))
            within += f"{getattr(node, 'name', '<lambda>')}.<locals>."
        elif isinstance(node, ast.ClassDef):
            self.classes[within + node.name] = node
            within += f"{node.name}."
        for child in ast.iter_child_nodes(node):
            self._index(child, statement, within)

    def shapes_in(self, statement: ast.stmt, flags: int) -> dict[str, list[Any]]:
        """Return what each function in a statement of the file compiles to."""
        known = (id(statement), flags)
        if known not in self._shapes:
            body = [*self._imports, statement] if statement not in self._imports else [statement]
            self._shapes[known] = _compiled(ast.Module(body, []), flags)
        return self._shapes[known]

    def at_line(self, line: int) -> list[tuple[ast.stmt, Definition]]:
        # Of several lambdas on a line, the last that begins before the code is its own.
        found = self._lines.get(line, [])
        return sorted(found, key=lambda one: -one[1].col_offset)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> _Parsed | None:
    if not text:
        return None
    try:
        return _Parsed(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _outside_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            todo += ast.iter_child_nodes(node)


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
