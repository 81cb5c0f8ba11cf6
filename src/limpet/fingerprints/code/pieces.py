"""Where are the functions and classes of a file, without parsing it?

A workflow never reaches most of a project's code. So a file is cut into its top-level functions and
classes, which are parsed on demand, and the rest: imports, assignments, calls.
"""

import bisect
import functools
import operator
import re
from dataclasses import dataclass, field

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
