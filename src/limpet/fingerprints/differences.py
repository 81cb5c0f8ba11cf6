"""Which lines differ between two versions of a function or class?

Lines are compared without comments, docstrings, hints and names of locals, and shown as written.
"""

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import partial

from limpet.fingerprints.identity import in_words, own_name
from limpet.fingerprints.part_contents import MOST_TEXT, PartContent
from limpet.secrets.masking import MASK
from limpet.shapes import Difference

Line = tuple[str, str]
"""A line for comparison, and the line as written."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Position = tuple[int, int]


_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_SILENT |= {tokenize.ENDMARKER}


def compared_lines(old: str, new: str) -> tuple[list[Line], list[Line]]:
    """Return the lines to compare, for two versions of some code."""
    a, b = _Version(old), _Version(new)
    gone = [name for name in a.locals if name not in b.names]
    came = [name for name in b.locals if name not in a.names]
    # Equal numbers mean renamed locals. Otherwise the lines differ anyway.
    renamed = dict(zip(came, gone, strict=True)) if len(came) == len(gone) else {}
    return a.compared({}), b.compared(renamed)


class _Version:
    """Some code: its tokens, the spans to ignore, and its names."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._tokens: list[tokenize.TokenInfo] = []
        self._spans: list[tuple[_Position, _Position]] = []
        self._positions: set[_Position] = set()
        self.names: set[str] = set()
        self.locals: list[str] = []
        try:
            tree = ast.parse(text)
            self._tokens = [*tokenize.generate_tokens(io.StringIO(text).readline)]
        except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
            return  # part of a statement
        self._read(tree)

    def compared(self, renamed: Mapping[str, str]) -> list[Line]:
        """Return the lines to compare.

        Args:
            renamed: The old name of each renamed local.
        """
        if not self._tokens:
            return [(line.rstrip(), line) for line in self._lines if line.strip()]
        bare: dict[int, list[str]] = defaultdict(list)
        for token in self._tokens:
            counts = token.type not in _SILENT and token.string != "->"
            if counts and not any(begin <= token.start < end for begin, end in self._spans):
                is_local = token.start in self._positions
                text = renamed.get(token.string, token.string) if is_local else token.string
                for row, part in enumerate(text.split("\n"), token.start[0]):
                    bare[row].append(part)
        return [
            (line[: len(line) - len(line.lstrip())] + " ".join(bare[row]), line)
            for row, line in enumerate(self._lines, 1)
            if any(bare[row])
        ]

    def _read(self, tree: ast.AST) -> None:
        kept: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(node)
                    kept.add(node.name)
                case ast.arg(arg=name):
                    kept.add(name)  # callers may use the name
                    self._hint((node.lineno, self._column(node) + len(name)), node.annotation)
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    kept |= {*names}
                case ast.ClassDef():
                    self._docstring(node.body)
                    kept |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
                case ast.Name(id=name):
                    self.names.add(name)
                    self._positions.add((node.lineno, self._column(node)))
        self.names |= kept
        self.locals = [name for name in dict.fromkeys(_stored(tree)) if name not in kept]

    def _function(self, node: _Function) -> None:
        if len(node.body) > 1:
            self._docstring(node.body)
        if node.returns is not None:
            self._hint((node.returns.lineno, self._column(node.returns)), node.returns)
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign) and inner.value is not None:
                self._hint(self._end(inner.target), inner.annotation)

    def _docstring(self, body: list[ast.stmt]) -> None:
        match body:
            case [ast.Expr(value=ast.Constant(value=str())) as text, *_]:
                self._spans.append(((text.lineno, 0), self._end(text)))

    def _hint(self, begin: _Position, hint: ast.expr | None) -> None:
        if hint is not None:
            self._spans.append((begin, self._end(hint)))

    def _column(self, node: ast.expr | ast.arg) -> int:
        return len(self._lines[node.lineno - 1].encode()[: node.col_offset].decode())

    def _end(self, node: ast.expr | ast.stmt) -> _Position:
        row = node.end_lineno or node.lineno
        return row, len(self._lines[row - 1].encode()[: node.end_col_offset].decode())


def _stored(tree: ast.AST) -> Iterator[str]:
    """Yield the names that functions assign, in order of appearance."""
    positions = {
        (name.lineno, name.col_offset, name.id)
        for function in ast.walk(tree)
        if isinstance(function, _Function)
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    return (name for _, _, name in sorted(positions))


# ---- What exactly differs between two identities of a step? -------------------------------------
#
# A docstring that counts is a separate part.

Known = Mapping[tuple[str, str], PartContent]
"""The content of parts, by name and digest."""

_CODE = ("function", "class", "module")
_AROUND = 1
_MOST_LINES = 2_000
_WIDE, _BEFORE = 72, 24


def differences(
    before: Mapping[str, str], now: Mapping[str, str], known: Known
) -> tuple[Difference, ...]:
    """Return the parts that differ: first changed, then new, then no longer used.

    Args:
        before: The earlier digest of each part.
        now: The current digest of each part.
        known: The content of the parts, earlier and current.
    """
    names = [name for name in {*before, *now} if before.get(name) != now.get(name)]
    if len(names) > 1 and "function" in names:
        names.remove("function")  # the other names are clearer
    parts = [_difference(name, before.get(name), now.get(name), known) for name in sorted(names)]
    order = ("changed", "new", "no longer used")
    parts.sort(key=lambda part: (order.index(part.change), part.kind == "name"))
    return tuple(parts)


def _difference(name: str, was: str | None, is_: str | None, known: Known) -> Difference:
    old = known.get((name, was)) if was is not None else None
    new = known.get((name, is_)) if is_ is not None else None
    shown = new or old
    kind, words = "value" if shown is None else shown.kind, _words(name, shown, known)
    if was is None:
        return Difference(words, "new", kind, _all_of("+", new))
    if is_ is None:
        return Difference(words, "no longer used", kind, _all_of("-", old))
    if old is None or old.text is None:
        return Difference(words, "changed", kind, (), "its earlier version is not on disk")
    if new is None or new.text is None:
        return Difference(words, "changed", kind, (), "it cannot be shown")
    is_folder = kind == "file" and name.endswith("/")
    compare = _names if is_folder else partial(_diff, is_code=kind in _CODE)
    lines = tuple(compare(old.text, new.text))
    return Difference(words, "changed", kind, lines, "" if lines else _why_none(old, new))


def _words(name: str, shown: PartContent | None, known: Known) -> str:
    if shown is not None and shown.called:
        return shown.called
    return in_words(own_name(name, (of for of, _ in known)))


def _why_none(old: PartContent, new: PartContent) -> str:
    if old.is_shortened or new.is_shortened:
        return f"the first {MOST_TEXT:,} characters are the same"
    if MASK in (new.text or ""):
        return "a value that is not shown: it may be a secret"
    if old.kind != new.kind:
        return f"it was a {old.kind} and is now a {new.kind}"
    return "its lines are the same, but it is used differently"


def _all_of(sign: str, part: PartContent | None) -> tuple[str, ...]:
    """Return the lines of a value that is new or gone; for code, the name is enough."""
    if part is None or part.text is None or part.kind not in ("value", "variable", "setting"):
        return ()
    return tuple(_signed(sign, part.text.splitlines()))


def _signed(sign: str, lines: Iterable[str]) -> list[str]:
    shortened = (line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…" for line in lines)
    return [f"{sign} {line}" for line in shortened]


def _names(old: str, new: str) -> list[str]:
    """Return the names removed from and added to a folder."""
    was, is_ = {*old.splitlines()}, {*new.splitlines()}
    return _signed("-", sorted(was - is_)) + _signed("+", sorted(is_ - was))


# ---- lines --------------------------------------------------------------------------------------


def _diff(old: str, new: str, *, is_code: bool) -> list[str]:
    if is_code:
        a, b = compared_lines(old, new)
    else:
        a, b = ([(line, line) for line in text.splitlines()] for text in (old, new))
    a, b = a[:_MOST_LINES], b[:_MOST_LINES]
    matcher = SequenceMatcher(None, [bare for bare, _ in a], [bare for bare, _ in b])
    lines: list[str] = []
    for number, group in enumerate(matcher.get_grouped_opcodes(_AROUND)):
        if number:
            lines.append("…")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += _signed(" ", [shown for _, shown in b[j1:j2]])
            else:
                lines += _pairs([shown for _, shown in a[i1:i2]], [shown for _, shown in b[j1:j2]])
    return lines


def _pairs(old: list[str], new: list[str]) -> list[str]:
    """Return removed and added lines; long lines start near the difference."""
    if len(old) == len(new):
        together = [_around_difference(*pair) for pair in zip(old, new, strict=True)]
        old, new = [before for before, _ in together], [now for _, now in together]
    return _signed("-", old) + _signed("+", new)


def _around_difference(old: str, new: str) -> tuple[str, str]:
    if max(len(old), len(new)) <= _WIDE:
        return old, new
    same = next(
        (at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    begin = same - _BEFORE
    if begin <= 0:
        return old, new
    return f"…{old[begin:]}", f"…{new[begin:]}"
