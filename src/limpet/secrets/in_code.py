"""Which literals in code, and which settings in a file, belong to the name of a secret?

`api_key="…"`, `PASSWORD = "…"`, `{"token": "…"}`: what we show of the user's code and files must
not contain them, whether or not they are in the environment. Hiding too much costs a readable line;
hiding too little costs a key.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath

from limpet.secrets.known import PHRASE, WORDS, Rating, is_secret_name, may_be_secret, rated
from limpet.secrets.masking import MASK

# For a name that is often not a secret (`answer_key`, `signature`), the value decides.
_SHORTEST_DOUBTFUL = 6
_TELLING = re.compile("(?i)" + "|".join(WORDS))
# Keys under any name.
_KEYS = re.compile(
    r"\b(?:sk[-_]|pk[-_]|rk[-_]|nvapi-|hf[-_]|xai-|gsk_)[A-Za-z0-9_-]{12,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}"
    r"|\bglpat-[\w-]{16,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bxox[abprs]-[\w-]{10,}"
    r"|\beyJ[\w-]{10,}\.[\w-]+\.[\w-]*|(?<=Bearer )[\w.~+/=-]{8,}|(?<=Basic )[\w+/=]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_PASSWORD_IN_URL = re.compile(r"(\w://[^\s:/@'\"]*:)[^\s/@'\"]+(?=@)")
_SIGNS = ["sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "nvapi", "hf-", "hf_", "xai-", "gsk_", "ghp_"]
_SIGNS += ["gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat", "AKIA", "AIza", "xox", "eyJ"]
_SIGNS += ["Bearer ", "Basic ", "PRIVATE KEY", "://"]
# What may be a key without a known prefix: long, and not made of words.
_LONG = re.compile(r"(?<![\w+/-])[\w+/-]{20,}={0,2}", re.ASCII)
_BETWEEN = re.compile(r"[\W_]+")
_WORD_IN_IT = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_NO_WORD = re.compile(
    r"(?i)[^aeiouy]{5}|[aeiou]{4}|^[^aeiouy]*$|^[aeiou]{3}|[jqvxz][^aeiouy]|q[^u]"
)
_SHORTEST_UNKNOWN, _FEWEST_LETTERS = 20, 3
# In prose: "use api_key: 81aa…".
_SAID = re.compile(
    rf"(?i)\b((?:[\w-]*[_-])?(?:{PHRASE.replace('_?', '[_ -]?')}|pwd)[\"']?"
    r"(?:[ ]?[:=][ ]?|[ ]is[ ]))"
    r"(?=[^\s\"',;)(\[\]{}]*[0-9])([^\s\"',;)(\[\]{}.]{6,}+)(?![(\[])"
)
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_STRING = re.compile(r"(?s)(\"\"\"|''').*?\1|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_SET_IN_COMMENT = re.compile(r"([\w-]+)[\"']?\s*[:=]")
_SETTING = re.compile(
    r"(?m)^([ \t]*(?:export[ \t]+|-[ \t]+)?[\"']?([\w.-]+)[\"']?[ \t]*[:=][ \t]*)([^\s#][^\n]*)"
    r"|([\"']([\w.-]+)[\"'][ \t]*:[ \t]*)(\"[^\"\n]*\"|'[^'\n]*')"
)
_SECRET_FILES = re.compile(
    r"(?i)\.env(?:\..*)?|.*\.(?:pem|key|p12|pfx|jks|keystore)|id_[a-z0-9]+|\.?netrc|\.pgpass"
    r"|.*(?:secret|credential|passw).*"
)
_QUOTED = f'"{MASK}"'


def is_hidden(name: str, literal: str | bytes) -> bool:
    """Return whether a literal under this name must be hidden."""
    rating = rated(name)
    if rating >= Rating.MENTIONED:
        return bool(literal)
    if rating < Rating.DOUBTFUL or len(literal) < _SHORTEST_DOUBTFUL:
        return False
    spaces = (b" ", b"\n") if isinstance(literal, bytes) else (" ", "\n")
    return not any(space in literal for space in spaces)  # type: ignore[operator]


def is_secret_file(path: PurePath) -> bool:
    """Return whether the name of a file says that its content is secret."""
    return _SECRET_FILES.fullmatch(path.name) is not None


def without_keys(text: str) -> str:
    """Return a string without what looks like a key, and without passwords in URLs."""
    if any(sign in text for sign in _SIGNS):  # much faster than the pattern
        text = _PASSWORD_IN_URL.sub(rf"\1{MASK}", _KEYS.sub(MASK, text))
    if _TELLING.search(text):
        text = _SAID.sub(rf"\1{MASK}", text)
    return _LONG.sub(_unless_words, text)


def _unless_words(match: re.Match[str]) -> str:
    """Return a long string if it is made of words or of digits only; else the mask."""
    bare = _BETWEEN.sub(" ", match[0])
    rest = _WORD_IN_IT.sub(lambda word: word[0] if _NO_WORD.search(word[0]) else "", bare)
    rest = rest.replace(" ", "")
    signs = sum(sign.isalnum() for sign in match[0])
    letters = sum(sign.isalpha() for sign in rest)
    is_key = (
        signs >= _SHORTEST_UNKNOWN
        and letters >= _FEWEST_LETTERS
        and any(sign.isdigit() for sign in rest)
        and 2 * len(rest) > signs
    )
    return MASK if is_key else match[0]


def without_settings(text: str) -> str:
    """Return the text of a file without the values it sets names of secrets to."""

    def hide(match: re.Match[str]) -> str:
        begin, name, value = match.group(1, 2, 3) if match[2] else match.group(4, 5, 6)
        bare = value.strip().strip(",").strip("\"'")
        return begin + MASK if is_hidden(name, bare) and not bare.startswith("$") else match[0]

    return without_keys(_SETTING.sub(hide, text) if _TELLING.search(text) else text)


def without_literals(code: str) -> str:
    """Return Python code without the literals under names of secrets."""
    lower = code.lower()
    if not any(word in lower for word in WORDS):
        return without_keys(code)
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Part of a statement, like the line of a lambda: which name has which value is unknown.
        code = _STRING.sub(_QUOTED, code)
    else:
        code = _replaced(code, list(_hidden_in(tree)))
    return without_keys(_without_comments(code) if "#" in code else code)


def _without_comments(code: str) -> str:
    """Return code without comments that give a value to the name of a secret."""
    lines = code.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):  # part of a statement
        return "".join(_without_end(line, line.find("#")) for line in lines)
    for token in tokens:
        if token.type == tokenize.COMMENT:
            at, column = token.start
            lines[at - 1] = _without_end(lines[at - 1], column)
    return "".join(lines)


def _without_end(line: str, begin: int) -> str:
    names = _SET_IN_COMMENT.findall(line[begin:]) if begin >= 0 else []
    is_hiding = any(map(may_be_secret, names))
    return f"{line[:begin]}# {MASK}\n" if is_hiding else line


def _replaced(code: str, nodes: list[ast.expr]) -> str:
    if not nodes:
        return code
    lines = [line.encode() for line in code.splitlines(keepends=True)]
    done: tuple[int, int] = (len(lines) + 1, 0)
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        if (node.end_lineno or 0, node.end_col_offset or 0) > done:
            continue  # inside another
        tail = lines[last][node.end_col_offset or 0 :]
        lines[first : last + 1] = [lines[first][: node.col_offset] + _QUOTED.encode() + tail]
        done = (node.lineno, node.col_offset)
    return b"".join(lines).decode(errors="replace")


def _hidden_in(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        for name, value in _given(node):
            yield from _literals(name, value)


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:  # noqa: C901, PLR0912 - a case each
    """Yield the names that a node gives values to, with the values."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from ((name, value) for name in _names(target))
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from ((name, value) for name in _names(target))
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield from ((name, value) for name in _names(target))
        case ast.keyword(arg=str() as name, value=value):
            yield name, value
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield from ((name, value) for name in _names(key))
        case ast.Compare(left=left, comparators=others):
            yield from ((name, other) for name in _names(left) for other in others)
            yield from ((name, left) for other in others for name in _names(other))
        case ast.Call(args=args) | ast.Tuple(elts=args):  # setdefault("token", "…")
            for first, value in pairwise(args):
                if isinstance(first, ast.Constant):
                    yield from ((name, value) for name in _names(first))
        case ast.arguments():
            by_place = [*node.posonlyargs, *node.args]
            last = by_place[len(by_place) - len(node.defaults) :]
            yield from zip((argument.arg for argument in last), node.defaults, strict=True)
            for given, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
                if default is not None:
                    yield given.arg, default


def _names(target: ast.expr | None) -> Iterator[str]:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case (
            ast.Constant(value=str() as name)
            | ast.Subscript(slice=ast.Constant(value=str() as name))
        ):
            yield name
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for part in targets:
                yield from _names(part)


def _literals(  # noqa: C901, PLR0912 - a case each
    name: str, value: ast.AST, *, within: bool = False
) -> Iterator[ast.expr]:
    match value:
        case ast.Constant(value=str() | bytes() as literal):
            is_variable = within and isinstance(literal, str) and _VARIABLE.fullmatch(literal)
            if is_hidden(name, literal) and not is_variable:
                yield value
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if is_secret_name(name):
                yield value
        case ast.JoinedStr():
            if is_hidden(name, "a" * _SHORTEST_DOUBTFUL):
                yield value
        case ast.Call(args=args, keywords=keywords):
            for argument in (*args, *(keyword.value for keyword in keywords)):
                yield from _literals(name, argument, within=True)
        case ast.Subscript() | ast.Lambda() | ast.Compare():
            return
        case ast.Dict(values=values):
            for part in values:
                yield from _literals(name, part)
        case ast.expr():
            for child in ast.iter_child_nodes(value):
                yield from _literals(name, child, within=within)
