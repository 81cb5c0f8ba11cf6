"""Where are the functions, classes and assignments of a source file?"""

import ast
import functools
import re
from typing import Any

from limpet.fingerprints.code import syntax
from limpet.fingerprints.code.bytecode import compiled
from limpet.fingerprints.code.canonical_text import CodeSummary
from limpet.fingerprints.code.statements import (
    SIMPLE,
    assignments,
    at_import,
    children,
    may_have_effects,
)

_IMPORTS = (ast.Import, ast.ImportFrom)
_FAILS = (SyntaxError, ValueError, RecursionError)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.Lambda
_Found = list[tuple[ast.stmt, Definition]]
# A file that counts in full counts for every step, and at both ends of a run.
_summaries: dict[str, CodeSummary] = {}
_MOST_SUMMARIES = 1024


class Parsed:
    """The syntax of a file, with an index of its functions and classes.

    Args:
        text: The content of the file.

    Raises:
        SyntaxError: The text is not Python; ValueError or RecursionError mean the same.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._classes: dict[str, ast.ClassDef] = {}
        self._functions: dict[str, list[Function]] = {}
        self._lines: dict[int, _Found] = {}
        self._shapes: dict[tuple[int, int], dict[str, list[Any]]] = {}
        for statement in self.tree.body:
            if type(statement) not in SIMPLE:
                self._index(statement, statement, "")

    def _index(self, node: Any, statement: ast.stmt, within: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._lines.setdefault(lines_of(node)[0], []).append((statement, node))
            self._functions.setdefault(within + node.name, []).append(node)
            within += f"{node.name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            self._classes[within + node.name] = node
            within += f"{node.name}."
        for child in children(node):
            if type(child) not in SIMPLE:
                self._index(child, statement, within)

    def text_between(self, first: int, last: int) -> str:
        """Return the source from one line to another."""
        return "\n".join(self.text.split("\n")[first - 1 : last])

    @property
    def summary(self) -> CodeSummary:
        """The summary of the entire file. It is shared: do not change it."""
        if self.text not in _summaries:
            if len(_summaries) >= _MOST_SUMMARIES:
                _summaries.clear()
            _summaries[self.text] = syntax.read(self.tree)
        return _summaries[self.text]

    def class_named(self, name: str) -> ast.ClassDef | None:
        """Return a class by its qualified name; the last if there are several."""
        return self._classes.get(name)

    def functions_named(self, name: str) -> list[Function]:
        """Return functions by their qualified name."""
        return self._functions.get(name, [])

    @functools.cached_property
    def _statements(self) -> list[ast.stmt]:
        return list(at_import(self.tree.body))

    @functools.cached_property
    def assignments(self) -> dict[str, list[ast.expr]]:
        """The expressions that the module assigns to each name."""
        return assignments(self.tree.body)

    @functools.cached_property
    def member_assignments(self) -> dict[str, dict[str, list[ast.expr]]]:
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
                        ast.Attribute(value=ast.Name(id=name), attr=member)
                        | ast.Subscript(
                            value=ast.Name(id=name), slice=ast.Constant(value=str() as member)
                        )
                    ):
                        found.setdefault(name, {}).setdefault(member, []).append(statement.value)
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
        """The statements that may do more than assign names: calls, changes to other objects."""
        return [*filter(may_have_effects, self.tree.body)]

    def uses(self, name: str) -> bool:
        """Return whether the module uses a name that it imports."""
        if name == "*":  # unknown names
            return True
        return len(re.findall(rf"\b{re.escape(name)}\b", self.text)) > 1  # the import and a use

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
            # The compiler handles imported names differently.
            alone = statement in self.imports
            body: list[ast.stmt] = [statement] if alone else [*self.imports, statement]
            self._shapes[known] = compiled(ast.Module(body, []), flags)
        return self._shapes[known]

    def at_line(self, line: int, name: str) -> _Found:
        """Return the functions that start on a line, each with its top-level statement."""
        if name != "<lambda>":
            return self._lines.get(line, [])
        # With several lambdas on a line, the last one that starts before the code is the right one.
        return sorted(self._lambdas.get(line, []), key=lambda pair: -pair[1].col_offset)

    @functools.cached_property
    def _lambdas(self) -> dict[int, _Found]:
        found: dict[int, _Found] = {}
        for statement in self.tree.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Lambda):
                    found.setdefault(node.lineno, []).append((statement, node))
        return found


def parsed(text: str) -> Parsed | None:
    """Return the syntax of a file; None if it is empty or not Python."""
    if not text:
        return None
    try:
        return Parsed(text)
    except _FAILS:
        return None


def lines_of(node: Any) -> tuple[int, int]:
    """Return the first and last line of a statement, including decorators."""
    decorators = getattr(node, "decorator_list", None)
    first = min(node.lineno, decorators[0].lineno) if decorators else node.lineno
    return first, node.end_lineno
