"""Where are the functions, classes and assignments of a source file?"""

import ast
import functools
from typing import Any

from limpet.fingerprints.code import syntax
from limpet.fingerprints.code.bytecode import compiled
from limpet.fingerprints.code.pieces import Cut, Piece, cut
from limpet.fingerprints.code.statements import (
    SIMPLE,
    assignments,
    at_import,
    children,
    may_have_effects,
)
from limpet.fingerprints.code.summary import CodeSummary

_IMPORTS = (ast.Import, ast.ImportFrom)
_FAILS = (SyntaxError, ValueError, RecursionError)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.Lambda
_Found = list[tuple[ast.stmt, Definition]]


class Parsed:
    """The syntax of a file, with an index of its functions and classes.

    Top-level functions and classes are parsed on demand.

    Args:
        text: The content of the file.

    Raises:
        SyntaxError: The text is not Python; ValueError and RecursionError mean the same.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._cut = cut(text)
        self._classes: dict[str, ast.ClassDef] = {}
        self._functions: dict[str, list[Function]] = {}
        self._lines: dict[int, _Found] = {}
        self._shapes: dict[tuple[int, int], dict[str, list[Any]]] = {}
        self._lambdas: dict[int, dict[int, list[ast.Lambda]]] = {}
        self._opened: dict[int, ast.stmt] = {}
        try:
            self._use_tree(ast.parse(self._cut.rest))
        except SyntaxError:
            self._use_whole_file(ast.parse(text))

    def _use_whole_file(self, tree: ast.Module) -> None:
        """Use the whole file: it was cut in the wrong place."""
        self._cut = Cut(self.text)
        self._classes, self._functions, self._lines = {}, {}, {}
        for name in ("_statements", "assignments", "places", "effects", "imports"):
            vars(self).pop(name, None)
        self._use_tree(tree)

    def _use_tree(self, tree: ast.Module) -> None:
        self._rest = tree.body
        for statement in tree.body:
            if type(statement) not in SIMPLE:
                self._index(statement, statement, "")

    def _index(self, node: Any, statement: ast.stmt, within: str, *, deeper: bool = True) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._lines.setdefault(lines_of(node)[0], []).append((statement, node))
            self._functions.setdefault(within + node.name, []).append(node)
            within += f"{node.name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            self._classes[within + node.name] = node
            within += f"{node.name}."
        if deeper:
            for child in children(node):
                if type(child) not in SIMPLE:
                    self._index(child, statement, within)

    def _open(self, piece: Piece) -> ast.stmt | None:
        """Parse a piece; return its statement, or None if it was cut in the wrong place."""
        known = self._opened.get(piece.first)
        if known is not None:
            return known
        try:
            body = ast.parse("\n" * (piece.first - 1) + piece.text).body
        except SyntaxError:
            body = []
        if len(body) != 1:
            self._use_whole_file(self.tree)
            return None
        self._opened[piece.first] = body[0]
        self._index(body[0], body[0], "", deeper=piece.holds_others)
        return body[0]

    def release(self, line: int) -> None:
        """Forget the function that begins on a line; it is parsed again if needed.

        Most functions are read once, and syntax trees take up most of the memory of a walk.
        """
        piece = self._cut.at_line(line)
        # The other caches use the id of the statement, so it must stay alive.
        if piece is None or piece.holds_others or self._shapes or self._lambdas:
            return
        statement = self._opened.pop(piece.first, None)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            del self._lines[lines_of(statement)[0]]
            named = self._functions[statement.name]
            self._functions[statement.name] = [
                function for function in named if function is not statement
            ]

    def text_between(self, first: int, last: int) -> str:
        """Return the source from one line to another."""
        return "\n".join(self.text.split("\n")[first - 1 : last])

    def _open_named(self, name: str) -> None:
        first = name.partition(".")[0]
        for piece in self._cut.pieces:
            if piece.name == first:
                self._open(piece)

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax of the whole file."""
        return _tree_of(self.text)

    @property
    def summary(self) -> CodeSummary:
        """What the whole file does. It is shared: do not change it."""
        return _summary_of(self.text)

    def class_named(self, name: str) -> ast.ClassDef | None:
        """Return a class by its qualified name; the last if there are several."""
        self._open_named(name)
        return self._classes.get(name)

    def functions_named(self, name: str) -> list[Function]:
        """Return functions by their qualified name."""
        self._open_named(name)
        return self._functions.get(name, [])

    @functools.cached_property
    def _statements(self) -> list[ast.stmt]:
        return list(at_import(self._rest))

    @functools.cached_property
    def assignments(self) -> dict[str, list[ast.expr]]:
        """The expressions that the module assigns to each name."""
        return assignments(self._rest)

    @functools.cached_property
    def places(self) -> dict[str, dict[str, list[ast.expr]]]:
        """The expressions that the module assigns to attributes and keys of its globals."""
        found: dict[str, dict[str, list[ast.expr]]] = {}
        for statement in self._statements:
            if not isinstance(statement, ast.Assign):
                continue
            for target in statement.targets:
                if type(target) is ast.Name:  # most are
                    continue
                match target:
                    case (
                        ast.Attribute(value=ast.Name(id=name), attr=place)
                        | ast.Subscript(
                            value=ast.Name(id=name), slice=ast.Constant(value=str() as place)
                        )
                    ):
                        found.setdefault(name, {}).setdefault(place, []).append(statement.value)
        return found

    @functools.cached_property
    def changed(self) -> set[str]:
        """Names of globals that the module modifies: `CONFIG.model = …`."""
        targets = [
            node.value
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.Attribute, ast.Subscript)) and type(node.ctx) is not ast.Load
        ]
        return {target.id for target in targets if isinstance(target, ast.Name)}

    @functools.cached_property
    def effects(self) -> list[ast.stmt]:
        """The statements that may do more than assign names: calls, changes of other objects."""
        opened = [self._open(piece) for piece in self._cut.pieces if piece.may_have_effects]
        statements = self._rest if None in opened else [*self._rest, *filter(None, opened)]
        return sorted(filter(may_have_effects, statements), key=lambda statement: statement.lineno)

    def uses(self, name: str) -> bool:
        """Return whether the module uses a name that it imports."""
        if name == "*":  # unknown names
            return True
        at, count = self.text.find(name), 0
        while at >= 0 and count < 2:  # noqa: PLR2004 - the import and one use
            end = at + len(name)
            before, after = self.text[at - 1 : at], self.text[end : end + 1]
            part_of_another = before == "_" or after == "_" or before.isalnum() or after.isalnum()
            count += not part_of_another
            at = self.text.find(name, end)
        return count > 1

    @functools.cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The imports that run when the module is imported."""
        return [
            statement
            for statement in self._statements
            if isinstance(statement, _IMPORTS) and getattr(statement, "module", "") != "__future__"
        ]

    def shapes_in(self, statement: ast.stmt, flags: int) -> dict[str, list[Any]]:
        """Return the shape of each function that a statement compiles to."""
        known = (id(statement), flags)
        if known not in self._shapes:
            # The compiler treats imported names differently.
            alone = statement in self.imports
            body: list[ast.stmt] = [statement] if alone else [*self.imports, statement]
            self._shapes[known] = compiled(ast.Module(body, []), flags)
        return self._shapes[known]

    def at_line(self, line: int, name: str) -> _Found:
        """Return the functions that begin on a line, each with its top-level statement."""
        piece = self._cut.at_line(line)
        opened = None if piece is None else self._open(piece)
        if name != "<lambda>":
            return self._lines.get(line, [])
        within = self._rest if opened is None else [opened]
        found: _Found = [
            (statement, node)
            for statement in within
            if statement.lineno <= line <= (statement.end_lineno or line)
            or any(
                decorator.lineno <= line for decorator in getattr(statement, "decorator_list", ())
            )
            for node in self._lambdas_in(statement).get(line, [])
        ]
        # With several lambdas on a line, the last one that begins before the code is the right one.
        return sorted(found, key=lambda pair: -pair[1].col_offset)

    def _lambdas_in(self, statement: ast.stmt) -> dict[int, list[ast.Lambda]]:
        known = self._lambdas.get(id(statement))
        if known is None:
            known = self._lambdas[id(statement)] = {}
            for node in ast.walk(statement):
                if isinstance(node, ast.Lambda):
                    known.setdefault(node.lineno, []).append(node)
        return known


def parsed(text: str) -> Parsed | None:
    """Return the syntax of a file; None if it is empty or not Python."""
    if not text:
        return None
    try:
        return Parsed(text)
    except _FAILS:
        return None


def _tree_of(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except _FAILS:  # in a function that is never used
        return ast.Module([ast.Expr(ast.Constant(text))], [])


@functools.lru_cache(maxsize=1024)  # a file that counts as a whole counts for every step
def _summary_of(text: str) -> CodeSummary:
    return syntax.read(_tree_of(text))


def lines_of(node: Any) -> tuple[int, int]:
    """Return the first and last line of a statement, including decorators."""
    decorators = getattr(node, "decorator_list", None)
    first = min(node.lineno, decorators[0].lineno) if decorators else node.lineno
    return first, node.end_lineno
