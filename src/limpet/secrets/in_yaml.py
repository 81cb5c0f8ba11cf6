"""How is a YAML file written down without its secrets, and otherwise as it is?"""

import json
import re
from collections.abc import Iterator
from typing import Any, Self

import yaml

from limpet.secrets.in_configs import Literals, each_word, hidden, secret_start
from limpet.secrets.masking import MASK, by_environment
from limpet.secrets.names import is_secret_key

_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#+(?P<indent>[ \t]*)(?P<said>.*)$")
_OPENS = re.compile(r"[\"']?(?P<name>[\w-]+)[\"']?\s*:\s*(?:[|>]\S*)?\s*")
_ITEM = re.compile(r"(?:-\s+)?(?:[\"']?[\w-]+[\"']?\s*:\s+|-\s+)?")
_NOT_SAID = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:bool")


def masked_text(text: str, *also: Any) -> str:
    """Return the text of a YAML file without its secrets, however they are quoted.

    What is left is YAML of the same shape: a text stays a text, and an anchor where it is. Secrets
    of other data are looked for in it, too.
    """
    data = words_of(text)
    cleaning = _Cleaning(Literals(data, *also))
    each_word(data, cleaning.look)
    made, done = "", 0
    for token, tag in _scalars(text):
        start, end = token.start_mark.index, token.end_mark.index
        raw, shown = text[start:end], cleaning.shown(token)
        if tag is not None and shown != token.value:
            # What was a number is now a text.
            made += cleaning.between(text[done : tag.start_mark.index])
            done = tag.end_mark.index
        made += cleaning.between(text[done:start]) + cleaning.scalar(token, raw, shown)
        done = end
    return made + cleaning.between(text[done:])


def words_of(text: str) -> Any:
    """Return what a YAML file holds, each value as the text it is written as."""
    return _plain(yaml.compose(text, Loader=yaml.SafeLoader))


class _Word(str):
    """What a file says in one place."""

    __slots__ = ("end",)
    end: int

    def __new__(cls, node: yaml.ScalarNode) -> Self:
        made = super().__new__(cls, "" if node.tag in _NOT_SAID else node.value)
        made.end = node.end_mark.index
        return made


def _plain(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        # `<<` may stand there more than once.
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
    """Return each word of a YAML file, and its tag."""
    tag = None
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.ScalarToken):
            yield token, tag
        if not isinstance(token, yaml.AnchorToken):
            tag = token if isinstance(token, yaml.TagToken) else None


class _Cleaning:
    """Takes the secrets out of a file, piece by piece."""

    def __init__(self, literals: Literals) -> None:
        self._literals = literals
        self._ours = by_environment().ours
        self._shown: dict[int, str] = {}  # by where the word ends: an anchor stands before it

    def look(self, word: Any, says: str) -> None:
        if not word:
            return
        shown = self._ours.text(self._literals.masked(str(word), says))
        if says or word.end not in self._shown:  # it may be a secret by one of its aliases only
            self._shown[word.end] = shown

    def shown(self, token: yaml.ScalarToken) -> str:
        return self._shown.get(token.end_mark.index) or self._text(token.value)

    def _text(self, text: str) -> str:
        return self._ours.text(self._literals.text(text))

    def scalar(self, token: yaml.ScalarToken, raw: str, shown: str) -> str:
        """Return how a word is written now."""
        head, line, body = raw.partition("\n") if token.style in ("|", ">") else ("", "", raw)
        raw = self.between(head) + line + body
        if shown == token.value:
            return raw
        changed = self._text(raw)
        if not token.plain and _read(changed) == shown:
            return changed
        return _quoted(shown) + raw[len(raw.rstrip()) :]

    def between(self, text: str) -> str:
        """Return what stands between words, without the secrets in its comments."""
        opened: int | None = None  # how far a secret key is indented whose value stands below it

        def put(found: re.Match[str]) -> str:
            nonlocal opened
            said, indent = self._text(found["said"]), len(found["indent"])
            if opened is not None and indent > opened:
                said = _masked_item(said)
            else:
                opens = _OPENS.fullmatch(said.removeprefix("- "))
                opened = indent if opens and is_secret_key(opens["name"]) else None
                start = secret_start(said) if opened is None else None
                said = said if start is None else said[:start].rstrip("\"'") + MASK
            return found[0][: found.start("said") - found.start()] + said

        return _COMMENT.sub(put, text)


def _masked_item(said: str) -> str:
    item = _ITEM.match(said)
    start = item.end() if item else 0
    value = said[start:].strip("\"' ")
    return said if hidden(value) == value else said[:start] + hidden(value)


def _read(raw: str) -> Any:
    try:
        node = yaml.compose(raw, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _quoted(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text, ensure_ascii=False)
