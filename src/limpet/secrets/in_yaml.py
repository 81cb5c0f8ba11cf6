"""How is a YAML file stored without its secrets, and otherwise unchanged?"""

import re
from collections.abc import Iterator
from typing import Any, Self

import yaml

from limpet.json_values import dumps
from limpet.secrets.in_configs import Literals, each_word, hidden, secret_start
from limpet.secrets.known import is_secret_key
from limpet.secrets.masking import MASK, by_environment

_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#+(?P<indent>[ \t]*)(?P<comment>.*)$")
_OPENS = re.compile(r"[\"']?(?P<name>[\w-]+)[\"']?\s*:\s*(?:[|>]\S*)?\s*")
_ITEM = re.compile(r"(?:-\s+)?(?:[\"']?[\w-]+[\"']?\s*:\s+|-\s+)?")
_NO_STRING = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:bool")


def masked_text(text: str, *also: Any) -> str:
    """Return the text of a YAML file without its secrets, however they are quoted.

    The result is YAML of the same shape: a string stays a string, and anchors stay in place. The
    secrets of `also` are masked too.
    """
    data = words_of(text)
    masker = _Masker(Literals(data, *also))
    each_word(data, masker.learn)
    masked, done = "", 0
    for token, tag in _scalars(text):
        start, end = token.start_mark.index, token.end_mark.index
        raw, shown = text[start:end], masker.shown(token)
        if tag is not None and shown != token.value:
            # A number becomes a string, so its tag goes.
            masked += masker.between(text[done : tag.start_mark.index])
            done = tag.end_mark.index
        masked += masker.between(text[done:start]) + masker.scalar(token, raw, shown)
        done = end
    return masked + masker.between(text[done:])


def words_of(text: str) -> Any:
    """Return the data of a YAML file, each scalar as the string in the file."""
    return _plain(yaml.compose(text, Loader=yaml.SafeLoader))


class _Word(str):
    """A scalar, and where it ends in the file."""

    __slots__ = ("end",)
    end: int

    def __new__(cls, node: yaml.ScalarNode) -> Self:
        word = super().__new__(cls, "" if node.tag in _NO_STRING else node.value)
        word.end = node.end_mark.index
        return word


def _plain(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        # `<<` may occur more than once.
        names = [
            f"<<{number}" if key.value == "<<" else str(key.value)
            for number, (key, _) in enumerate(node.value)
        ]
        values = (value for _, value in node.value)
        return {name: _plain(value) for name, value in zip(names, values, strict=True)}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return _Word(node) if isinstance(node, yaml.ScalarNode) else None


def _scalars(text: str) -> Iterator[tuple[yaml.ScalarToken, yaml.TagToken | None]]:
    """Yield each scalar of a YAML file, and its tag."""
    tag = None
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.ScalarToken):
            yield token, tag
        if not isinstance(token, yaml.AnchorToken):
            tag = token if isinstance(token, yaml.TagToken) else None


class _Masker:
    """Masks the secrets of a file, piece by piece."""

    def __init__(self, literals: Literals) -> None:
        self._literals = literals
        self._ours = by_environment().ours
        self._shown: dict[int, str] = {}  # by the end of the scalar: an anchor comes before it

    def learn(self, word: Any, under: str) -> None:
        if not word:
            return
        shown = self._ours.text(self._literals.masked(str(word), under))
        if under or word.end not in self._shown:  # it may be a secret by one alias only
            self._shown[word.end] = shown

    def shown(self, token: yaml.ScalarToken) -> str:
        return self._shown.get(token.end_mark.index) or self._text(token.value)

    def _text(self, text: str) -> str:
        return self._ours.text(self._literals.text(text))

    def scalar(self, token: yaml.ScalarToken, raw: str, shown: str) -> str:
        """Return how to write a scalar."""
        head, line, body = raw.partition("\n") if token.style in ("|", ">") else ("", "", raw)
        raw = self.between(head) + line + body
        if shown == token.value:
            return raw
        changed = self._text(raw)
        if not token.plain and _read(changed) == shown:
            return changed
        return _quoted(shown) + raw[len(raw.rstrip()) :]

    def between(self, text: str) -> str:
        """Return the text between scalars, without the secrets in its comments."""
        opened: int | None = None  # the indent of a secret key whose value is on the next lines

        def replace(match: re.Match[str]) -> str:
            nonlocal opened
            comment, indent = self._text(match["comment"]), len(match["indent"])
            if opened is not None and indent > opened:
                comment = _masked_item(comment)
            else:
                opens = _OPENS.fullmatch(comment.removeprefix("- "))
                opened = indent if opens and is_secret_key(opens["name"]) else None
                start = secret_start(comment) if opened is None else None
                comment = comment if start is None else comment[:start].rstrip("\"'") + MASK
            return match[0][: match.start("comment") - match.start()] + comment

        return _COMMENT.sub(replace, text)


def _masked_item(comment: str) -> str:
    item = _ITEM.match(comment)
    start = item.end() if item else 0
    value = comment[start:].strip("\"' ")
    return comment if hidden(value) == value else comment[:start] + hidden(value)


def _read(raw: str) -> Any:
    try:
        node = yaml.compose(raw, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _quoted(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return dumps(text, ensure_ascii=False)
