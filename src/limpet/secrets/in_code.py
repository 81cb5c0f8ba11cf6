"""Which literals in code, and which settings in a file, are secrets by their names?

`api_key="…"`, `PASSWORD = "…"`, `{"token": "…"}`: the code and files we show must not contain them,
even if they are not in the environment. Hiding too much costs a readable line; hiding too little
costs a key.
"""

import contextlib
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import PurePath

from limpet.secrets.known import Rating, is_secret_name, may_be_secret, rated
from limpet.secrets.masking import KEYS, MASK, without_credentials

# For a name that is often not a secret (`answer_key`, `signature`), the value decides.
_SHORTEST_DOUBTFUL = 6
# A possible key without a known prefix: long, and not made of words.
_LONG = re.compile(r"(?<![\w+/-])[\w+/-]{20,}={0,2}", re.ASCII)
_BETWEEN = re.compile(r"[\W_]+")
_WORD_IN_IT = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_NO_WORD = re.compile(
    r"(?i)[^aeiouy]{5}|[aeiou]{4}|^[^aeiouy]*$|^[aeiou]{3}|[jqvxz][^aeiouy]|q[^u]"
)
_SHORTEST_UNKNOWN, _FEWEST_LETTERS = 20, 3
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_STRING = re.compile(r"(?s)(\"\"\"|''').*?\1|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_QUOTED = f'"{MASK}"'
_SET_IN_COMMENT = re.compile(r"([\w-]+)[\"']?\s*[:=]")
_SETTING = re.compile(
    r"(?m)^([ \t]*(?:export[ \t]+|-[ \t]+)?[\"']?([\w.-]+)[\"']?[ \t]*[:=][ \t]*)([^\s#][^\n]*)"
    r"|([\"']([\w.-]+)[\"'][ \t]*:[ \t]*)(\"[^\"\n]*\"|'[^'\n]*')"
)
_SECRET_FILES = re.compile(
    r"(?i)\.env(?:\..*)?|.*\.(?:pem|key|p12|pfx|jks|keystore)|id_[a-z0-9]+|\.?netrc|\.pgpass"
    r"|.*(?:secret|credential|passw).*"
)


def is_hidden(name: str, literal: str) -> bool:
    """Return whether a literal under this name must be hidden."""
    rating = rated(name)
    if rating >= Rating.USUAL:
        return bool(literal)
    has_spaces = " " in literal or "\n" in literal
    return rating is Rating.DOUBTFUL and len(literal) >= _SHORTEST_DOUBTFUL and not has_spaces


def is_secret_file(path: PurePath) -> bool:
    """Return whether a file is secret by its name."""
    return _SECRET_FILES.fullmatch(path.name) is not None


def without_keys(text: str) -> str:
    """Return a string without anything that looks like a key, and without passwords in URLs."""
    return _LONG.sub(_unless_words, without_credentials(text, KEYS)[0])


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
    """Return the text of a file without the values of its secret settings."""

    def hide(match: re.Match[str]) -> str:
        begin, name, value = match.group(1, 2, 3) if match[2] else match.group(4, 5, 6)
        bare = value.strip().strip(",").strip("\"'")
        return begin + MASK if is_hidden(name, bare) and not bare.startswith("$") else match[0]

    return without_keys(_SETTING.sub(hide, text))


def without_literals(code: str) -> str:
    """Return Python code without the literals that have a secret's name.

    A literal belongs to the last such name before it, in the same statement and between the same
    commas: `api_key="…"`, `{"token": "…"}`, `password == "…"`, `setdefault("token", "…")`.
    """
    lines = code.splitlines(keepends=True)
    tokens: list[tokenize.TokenInfo] = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # part of a statement
        tokens.extend(tokenize.generate_tokens(io.StringIO(code).readline))
    # If the tokens end early, the strings after them are unknown.
    row, column = tokens[-1].end if tokens else (1, 0)
    rest = "".join(lines[row - 1 :])[column:]
    lines[row - 1 :] = ["".join(lines[row - 1 : row])[:column] + _STRING.sub(_QUOTED, rest)]
    for token, shown in reversed([*_hidden_in(tokens)]):
        (first, begin), (last, end) = token.start, token.end
        lines[first - 1 : last] = [lines[first - 1][:begin] + shown + lines[last - 1][end:]]
    return without_keys("".join(lines))


def _hidden_in(  # noqa: C901 - a case each
    tokens: list[tokenize.TokenInfo],
) -> Iterator[tuple[tokenize.TokenInfo, str]]:
    """Yield the tokens to hide, each with its replacement."""
    under = [("", "")]  # the open brackets, each with the secret's name in it
    for at, token in enumerate(tokens):
        kind, text, (bracket, name) = token.type, token.string, under[-1]
        if kind == tokenize.NEWLINE:
            under = [("", "")]
        elif kind == tokenize.COMMENT:
            if any(map(may_be_secret, _SET_IN_COMMENT.findall(text))):
                yield token, f"# {MASK}"
        elif text in ("(", "[", "{"):
            under.append((text, name))
        elif text in (")", "]", "}") and len(under) > 1:
            under.pop()
            if text == "]" and name:  # `config["token"] = …`
                under[-1] = (under[-1][0], name)
        elif text == ",":
            if len(under) > 1 and (bracket != "(" or not _name_in(tokens[at - 1])):
                under[-1] = (bracket, under[-2][1])
        elif _is_literal(token, name, bracket):
            is_part = kind not in (tokenize.STRING, tokenize.NUMBER)  # of an f-string
            yield token, MASK if is_part else _QUOTED
        elif (found := _name_in(token)) and not _is_called(tokens, at):
            under[-1] = (bracket, found)
            # `"…" == password`
            is_compared = at > 1 and tokens[at - 1].string in ("==", "!=")
            if is_compared and _is_literal(tokens[at - 2], found, bracket):
                yield tokens[at - 2], _QUOTED


def _is_literal(token: tokenize.TokenInfo, name: str, bracket: str) -> bool:
    """Return whether a token is a literal to hide under this name."""
    if token.type == tokenize.NUMBER:
        return is_secret_name(name) and bracket != "["
    if token.type == getattr(tokenize, "FSTRING_MIDDLE", None):  # since Python 3.12
        return is_hidden(name, "a" * _SHORTEST_DOUBTFUL)
    literal = token.string.lstrip("rRbBuUfF").strip("\"'")
    # `os.environ["OPENAI_API_KEY"]` is the name of a variable.
    return (
        token.type == tokenize.STRING
        and is_hidden(name, literal)
        and not _VARIABLE.fullmatch(literal)
    )


def _is_called(tokens: list[tokenize.TokenInfo], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at + 1].string == "("


def _name_in(token: tokenize.TokenInfo) -> str:
    """Return the name of a secret: of a variable, or in a string."""
    if token.type not in (tokenize.NAME, tokenize.STRING):
        return ""
    name = token.string.strip("\"'")
    return name if rated(name) >= Rating.DOUBTFUL else ""
