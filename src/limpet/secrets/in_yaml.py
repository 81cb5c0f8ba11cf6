"""How is a YAML file stored without its secrets, and otherwise unchanged?"""

import re
from collections.abc import Callable
from typing import Any, Self

import yaml

from limpet.json_values import dumps
from limpet.secrets.in_configs import Literals, each_word, hidden, secret_start
from limpet.secrets.known import is_secret_key
from limpet.secrets.masking import MASK, by_environment

_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#+(?P<indent>[ \t]*)(?P<comment>.*)$")
_OPENS = re.compile(r"(?:- )?[\"']?(?P<name>[\w-]+)[\"']?\s*:\s*(?:[|>]\S*)?\s*")
_ITEM = re.compile(r"(?:-\s+)?(?:[\"']?[\w-]+[\"']?\s*:\s+|-\s+)?[\"']?(?P<value>.*?)[\"' ]*")
_TAG_AT_END = re.compile(r"(?<!\S)!\S*\s+(?=(?:&\S+\s+)?$)")
_NO_STRING = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:bool")


def masked_text(text: str, *also: Any) -> str:
    """Return the text of a YAML file without its secrets, however they are quoted.

    The result is YAML of the same shape: a string stays a string, and anchors stay in place. The
    secrets of `also` are masked too.
    """
    data = words_of(text)
    literals, ours = Literals(data, *also), by_environment().ours
    by_end: dict[int, str] = {}  # of the scalars: an anchor comes before the value

    def learn(word: Any, under: str) -> None:
        if word and (under or word.end not in by_end):  # it may be a secret by one alias only
            by_end[word.end] = ours.text(literals.masked(str(word), under))

    def safe(part: str) -> str:
        return ours.text(literals.text(part))

    each_word(data, learn)
    masked, done = "", 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if not isinstance(token, yaml.ScalarToken):
            continue
        start, end = token.start_mark.index, token.end_mark.index
        before, raw = _without_comments(text[done:start], safe), text[start:end]
        shown = by_end.get(end) or safe(token.value)
        if shown != token.value:
            changed = safe(raw)
            if token.style in ("|", ">") and changed.count(MASK) == shown.count(MASK) > 0:
                raw = changed  # a prompt stays a block
            else:  # a number becomes a string, so its tag goes
                before = _TAG_AT_END.sub("", before)
                raw = _quoted(shown) + raw[len(raw.rstrip()) :]
        elif token.style in ("|", ">"):
            head, line, body = raw.partition("\n")
            raw = _without_comments(head, safe) + line + body
        masked, done = masked + before + raw, end
    return masked + _without_comments(text[done:], safe)


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


def _without_comments(text: str, safe: Callable[[str], str]) -> str:
    """Return the text between scalars, without the secrets in its comments."""
    opened: int | None = None  # the indent of a secret key whose value is on the next lines

    def replace(match: re.Match[str]) -> str:
        nonlocal opened
        comment, indent = safe(match["comment"]), len(match["indent"])
        start = None
        if opened is not None and indent > opened:
            item = _ITEM.fullmatch(comment)
            if item and hidden(item["value"]) != item["value"]:
                start = item.start("value")
        else:
            opens = _OPENS.fullmatch(comment)
            opened = indent if opens and is_secret_key(opens["name"]) else None
            start = secret_start(comment) if opened is None else None
        shown = comment if start is None else comment[:start].rstrip("\"'") + MASK
        return match[0][: match.start("comment") - match.start()] + shown

    return _COMMENT.sub(replace, text)


def _quoted(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return dumps(text, ensure_ascii=False)
