"""Which lines differ between two versions of a function or class?

Comments, docstrings, hints and names of locals do not count. Lines are compared without them, and
shown as written.
"""

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping

Line = tuple[str, str]
"""A line for comparison, and the line as written."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def compared_lines(old: str, new: str) -> tuple[list[Line], list[Line]]:
    """Return the lines that count, for two versions of some code."""
    a, b = _Piece(old), _Piece(new)
    gone = [name for name in a.locals if name not in b.names]
    came = [name for name in b.locals if name not in a.names]
    # Equal numbers mean renamed locals. Otherwise the lines differ anyway.
    renamed = dict(zip(came, gone, strict=True)) if len(came) == len(gone) else {}
    return a.compared({}), b.compared(renamed)


class _Piece:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._cuts: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self._docstring_lines: set[int] = set()
        self._places: list[tuple[str, int, int]] = []
        self.names: set[str] = set()
        self.locals: list[str] = []
        try:
            self._cut_comments(text)
            tree = ast.parse(text)
        except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
            return  # part of a statement
        self._read(tree)

    def compared(self, renamed: Mapping[str, str]) -> list[Line]:
        """Return the lines that count.

        Args:
            renamed: The old name of each renamed local.
        """
        cuts = {at: list(in_line) for at, in_line in self._cuts.items()}
        for name, at, column in self._places:
            if name in renamed:
                cut = (column, column + len(name), renamed[name])
                cuts.setdefault(at, []).append(cut)
        lines = []
        for at, line in enumerate(self._lines, 1):
            bare = line
            for begin, end, replacement in sorted(cuts.get(at, ()), reverse=True):
                bare = bare[:begin] + replacement + bare[end:]
            if bare.strip() and at not in self._docstring_lines:
                lines.append((bare.rstrip(), line))
        return lines

    def _cut_comments(self, text: str) -> None:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                self._cuts[line].append((column, len(self._lines[line - 1]), ""))

    def _read(self, tree: ast.AST) -> None:
        kept: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(node)
                    kept.add(node.name)
                case ast.arg(arg=name):
                    kept.add(name)  # callers may use the name
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    kept |= {*names}
                case ast.ClassDef():
                    self._docstring(node.body)
                    kept |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
                case ast.Name(id=name):
                    self.names.add(name)
                    self._places.append((name, node.lineno, self._column(node)))
        self.names |= kept
        stored = {name: None for name in _stored(tree) if name not in kept}
        self.locals = list(stored)

    def _function(self, node: _Function) -> None:
        if len(node.body) > 1:
            self._docstring(node.body)
        args = node.args
        for parameter in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if parameter is not None and parameter.annotation is not None:
                self._cut(parameter.annotation, ":", of_argument=True)
        if node.returns is not None:
            self._cut(node.returns, "->")
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign) and inner.value is not None:
                self._cut(inner.annotation, ":")

    def _docstring(self, body: list[ast.stmt]) -> None:
        match body:
            case [ast.Expr(value=ast.Constant(value=str())) as text, *_]:
                self._docstring_lines |= {*range(text.lineno, (text.end_lineno or text.lineno) + 1)}

    def _cut(self, hint: ast.expr, sign: str, *, of_argument: bool = False) -> None:
        """Cut a hint and the sign before it, if the hint is on one line."""
        line = self._lines[hint.lineno - 1]
        begin = line.rfind(sign, 0, self._column(hint))
        if hint.end_lineno != hint.lineno or begin < 0:
            return
        begin = len(line[:begin].rstrip())
        end = len(line.encode()[: hint.end_col_offset].decode())
        rest = line[end:].lstrip()
        if of_argument and rest.startswith("="):  # `q: str = "a"` is `q="a"` without it
            cut = (begin, len(line) - len(rest[1:].lstrip()), "=")
        else:
            cut = (begin, end, "")
        if cut not in self._cuts[hint.lineno]:
            self._cuts[hint.lineno].append(cut)

    def _column(self, node: ast.expr) -> int:
        return len(self._lines[node.lineno - 1].encode()[: node.col_offset].decode())


def _stored(tree: ast.AST) -> Iterator[str]:
    """Yield the names that functions assign, in order of appearance."""
    places = {
        (name.lineno, name.col_offset, name.id)
        for function in ast.walk(tree)
        if isinstance(function, _Function)
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    return (name for _, _, name in sorted(places))
