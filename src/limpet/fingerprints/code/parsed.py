"""Where are the functions, classes and assignments of a source file?"""

import ast
import bisect
import functools
import operator
import re
from dataclasses import dataclass, field
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

# ---- Where are the functions and classes of a file, without parsing it? -------------------------
#
# A workflow never reaches most of a project's code. So a file is cut into its top-level functions
# and classes, which are parsed on demand, and the rest: imports, assignments, calls.

# A statement in the first column, with everything below it that is indented. A closing bracket in
# the first column ends a statement that began above; strings and comments may hold anything.
_STATEMENT = re.compile(
    r"""(?:[^\n"'#]+|\n(?![^\s#)\]}])|#[^\n]*+"""
    r'|"""(?:[^"\\]+|\\.|"(?!""))*+"""'
    r"|'''(?:[^'\\]+|\\.|'(?!''))*+'''"
    r'|"(?:[^"\\\n]+|\\.)*+"'
    r"|'(?:[^'\\\n]+|\\.)*+')++",
    re.DOTALL,
)
_LINE = re.compile(r"\n(?=[^\s#)\]}])")
_NESTED = re.compile(r"\n[ \t]+(?:def|async|class)\b")
_HEADER = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_SIGNATURE = re.compile(r"(?:[^\n]*\n)*?[^\n]*:[ \t]*(?:#[^\n]*)?\n")
_CALLS = re.compile(r"=[^=\n][^\n]*\w\(|=\s*\w[\w.]*\(")
# A class without bases, with the indentation of its body.
_PLAIN_CLASS = re.compile(r"class[ \t]+\w+[ \t]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*\n)*([ \t]+)")
_SILENT = r"def\b|async def\b|[ \t#@'\")\]}]|\w+ = [\w.'\"]+\n|\w+: [\w.]+\n"
_MOST_LINES = 5_000  # a piece is parsed with this many empty lines before it


@dataclass
class Piece:
    """A top-level function or class of a file, including decorators.

    Attributes:
        name: Its name.
        first: Its first line.
        text: Its source.
        is_class: Whether it is a class.
        last: Its last line.
    """

    name: str
    first: int
    text: str
    is_class: bool
    last: int

    @functools.cached_property
    def holds_others(self) -> bool:
        """Whether it may contain functions or classes."""
        return self.is_class or _NESTED.search(self.text) is not None

    @property
    def may_have_effects(self) -> bool:
        """Whether defining it may do more than assign a name."""
        if self.text.startswith("@"):
            return True
        if not self.is_class:
            line = self.text[: self.text.find("\n") + 1]
            if line[-3:] == "):\n" and line.find("(", line.find("=") + 1 or len(line)) < 0:
                return False  # a signature without calls
            signature = _SIGNATURE.match(self.text)
            return signature is None or _CALLS.search(signature[0]) is not None
        header = _PLAIN_CLASS.match(self.text)
        if header is None:
            return True
        return re.search(rf"\n{header[1]}(?!{_SILENT})[^\n]*[(.\[:]", self.text) is not None


_first_line = operator.attrgetter("first")


@dataclass(slots=True)
class Cut:
    """A file cut into pieces.

    Attributes:
        rest: The text of the file, with empty lines in place of the pieces.
        pieces: Its functions and classes, in order.
    """

    rest: str
    pieces: list[Piece] = field(default_factory=list)

    def at_line(self, line: int) -> Piece | None:
        """Return the piece that contains a line."""
        before = bisect.bisect_right(self.pieces, line, key=_first_line)
        if not before:
            return None
        found = self.pieces[before - 1]
        return found if line <= found.last else None


def cut(text: str) -> Cut:
    """Cut a file into pieces; if that is uncertain, the whole file is the rest."""
    whole = Cut(text)
    begins = _begins(text)
    if begins is None:
        return whole
    begins.append(len(text))
    found = Cut("")
    rest: list[str] = []
    line, done, at = 1, 0, 0
    last = len(begins) - 1
    while at < last:
        begin = begins[at]
        if text[begin] not in "@acd":  # no decorator, async, class or def
            at += 1
            continue
        while text[begins[at]] == "@":  # every decorator begins a line
            at += 1
            if at == last:
                return whole
        header = _HEADER.match(text, begins[at])
        if header is None:
            if begins[at] != begin:
                return whole
            at += 1
            continue
        end = begins[at + 1]
        rest.append(text[done:begin])
        line += rest[-1].count("\n")
        first, line = line, line + text.count("\n", begin, end)
        is_class = header[0].startswith("class")
        found.pieces.append(Piece(header[1], first, text[begin:end], is_class, line))
        rest.append("\n" * (line - first))
        done, at = end, at + 1
    if line > _MOST_LINES:
        return whole
    found.rest = "".join([*rest, text[done:]])
    return found


def _begins(text: str) -> list[int] | None:
    """Return where statements begin in the first column; None if that is uncertain."""
    if "\f" in text or "\r" in text:
        return None
    code = _without_long_strings(text)
    if code is None:
        return _begins_by_tokens(text)
    first = int(code.startswith("\n"))
    return [first, *[line.end() for line in _LINE.finditer(code, 1)]] if code[first:] else []


def _without_long_strings(text: str) -> str | None:
    """Return a text with spaces in place of what is in triple quotes; None if that is uncertain.

    Three quotes begin a string if the line before them has no other quotes and no comment. Other
    strings end on their line, unless a backslash continues it.
    """
    parts = text.split('"""')
    outside = parts[::2]
    if len(parts) % 2 == 0 or "'''" in text or '\\"""' in text:
        return None
    if "\\\n" in text and any("\\\n" in code for code in outside):
        return None
    for code in outside[:-1]:
        before = code[code.rfind("\n") + 1 :]
        if before.strip() and ('"' in before or "'" in before or "#" in before):
            return None
    parts[1::2] = [" " * len(string) for string in parts[1::2]]
    return '"""'.join(parts)


def _begins_by_tokens(text: str) -> list[int] | None:
    begins: list[int] = []
    start = int(text.startswith("\n"))
    end = start - 1
    for statement in _STATEMENT.finditer(text, start):
        if statement.start() != end + 1 or text[end - 1 : end + 1] == "\\\n":
            return None  # an unknown kind of string, or a line that continues the one above
        begins.append(statement.start())
        end = statement.end()
    return begins if end >= len(text) - 1 else None


# ---- Where are the functions, classes and assignments of a source file? -------------------------

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
