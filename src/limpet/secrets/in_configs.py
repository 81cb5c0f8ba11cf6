"""Which parts of a configuration must be neither stored nor shown?

The values of headers, the user and password in a URL, its secret query values, and any value whose
key names a secret. `${NAME}` is not a secret and is stored as written; the default in
`${NAME:-default}` is one.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from typing import Any

from limpet.secrets.known import is_common, is_secret_key, may_be_secret
from limpet.secrets.masking import MASK, Mask, by_environment

Hide = Callable[[str], str]
"""Returns the replacement for a secret."""

_TYPICAL = ["key", "api_key", "headers", "password", "secret", "authorization", "token"]
_TYPICAL += ["credentials"]
_NEAR = 0.8

_ADDRESS = re.compile(r"(?P<scheme>://)(?P<user>[^/\s]*)@")  # up to the last @, as URLs go
_QUERY = re.compile(r"[?&](?P<name>[^=&#\s]+)=(?P<value>[^&#\s\"'<>]+)")
_ARGUMENT = re.compile(r"(?<!\S)--?(?P<name>[\w-]+)(?:=|[ \t]+)(?P<value>[^\s-]\S*)")
_PAIR = re.compile(r"-{0,2}(?P<name>[\w-]+)\s*[=:]\s*(?P<value>\S.*)")
_FLAG = re.compile(r"--?(?P<name>[\w-]+)")
_WORD = re.compile(r"(?P<flag>--?)?(?P<name>[\w-]+)(?P<sign>[\"']?\s*[=:])?")
_LITERAL = re.compile(r"(?i)[\s,\"'=]*(?!(?:bearer\s+)?\$\{[^}:]*\})[^\s,\"'=]")

_VARIABLE = re.compile(r"\$\{[^}]*\}")
_DEFAULT = re.compile(r"(?P<start>\$\{[^}:]*:-)(?P<value>[^}]+)\}")
_SCHEMES = re.compile(r"(?i)\s*(bearer|basic|token|apikey|key)?\s*")
_SCHEME = re.compile(r"(?i)^\s*(?:bearer|basic|token|apikey|key)\s+")

# Shorter ones and common words are secrets only under their names.
_SHORTEST = 6
_SHORTEST_ALONE = 4
_SHORTEST_NUMBER = 8
_NEVER_SECRET = ("true", "false", "none", "null", "auto", "default", "empty")


def _mask(_: str) -> str:
    return MASK


# ---- one string ---------------------------------------------------------------------------------


def hidden(text: str, hide: Hide = _mask) -> str:
    """Return a secret as it may be shown: its variables, without their defaults."""
    if not text or not _is_variable(text):
        return text and hide(text)
    return _without_defaults(text, hide)


def _without_defaults(text: str, hide: Hide) -> str:
    return _DEFAULT.sub(lambda match: f"{match['start']}{hide(match['value'])}}}", text)


def _is_variable(text: str) -> bool:
    rest = _VARIABLE.sub("", text)
    return rest != text and _SCHEMES.fullmatch(rest) is not None


def without_parts(text: str, hide: Hide = _mask) -> str:
    """Return a string without the secrets that are recognisable in it.

    Those are the user in a URL, `?api-key=…`, `--api-key …` and `API_KEY=…`.
    """
    text = _hide_values(_QUERY, without_user(text, hide), may_be_secret, hide)
    if (pair := _PAIR.fullmatch(text)) and is_secret_key(pair["name"]):
        return text[: pair.start("value")] + hidden(pair["value"], hide)
    return _hide_values(_ARGUMENT, text, is_secret_key, hide)


def without_query(address: str) -> str:
    """Return a URL without its user and without the literal values of its query."""
    return _hide_values(_QUERY, without_user(address), lambda _: True, _mask)


def _hide_values(
    pattern: re.Pattern[str], text: str, is_secret: Callable[[str], bool], hide: Hide
) -> str:
    def replace(match: re.Match[str]) -> str:
        value = match["value"]
        is_template = value.startswith("{{") and value.endswith("}}")
        if is_template or not is_secret(match["name"]):
            return match[0]
        return match[0][: match.start("value") - match.start()] + hidden(value, hide)

    return pattern.sub(replace, text)


def without_user(address: str, hide: Hide = _mask) -> str:
    """Return a string without the literal users and passwords of the URLs in it."""

    def replace(match: re.Match[str]) -> str:
        user = match["user"]
        is_shown = all(_is_variable(part) or part == "" for part in user.split(":", 1))
        return f"{match['scheme']}{_without_defaults(user, hide) if is_shown else hide(user)}@"

    return _ADDRESS.sub(replace, address)


# ---- a value given for a path -------------------------------------------------------------------


def may_show(path: str, value: str) -> bool:
    """Return whether a value may be shown: neither it nor its path looks like a secret.

    A path close to a secret's path was probably mistyped.
    """
    near = [get_close_matches(part.lower(), _TYPICAL, 1, _NEAR) for part in path.split(".")]
    return not any(near) and shown_value(path, value) == value


def shown_value(path: str, value: str, hide: Hide = _mask) -> str:
    """Return the value given for a path as it may be shown; it may be YAML."""
    parts = ["", *(part.strip() for part in path.split("."))]
    is_secret = any(is_secret_key(part, above) for above, part in pairwise(parts))
    if is_secret or _has_secret(value):
        return hidden(value, hide)
    return without_parts(value, hide)


def _has_secret(text: str) -> bool:
    """Return whether a text has a literal with a secret's name."""
    return any(
        (word["flag"] or word["sign"])
        and is_secret_key(word["name"])
        and _LITERAL.match(text, word.end())
        for word in _WORD.finditer(text)
    )


# ---- plain data ---------------------------------------------------------------------------------


def masked(value: Any, *also: Any) -> Any:
    """Return plain data without its secrets, and without those of `also`. `${NAME}` stays."""
    return by_environment().ours.data(each_word(value, Literals(value, *also).masked))[0]


def without_secrets(value: Any) -> Any:
    """Return plain data without the strings under secret names: the part answers depend on."""
    if isinstance(value, Mapping):
        return {
            key: without_secrets(child)
            for key, child in value.items()
            if not (is_secret_key(str(key)) and isinstance(child, str))
        }
    return [without_secrets(child) for child in value] if isinstance(value, list) else value


def each_word(value: Any, do: Callable[[Any, str], Any], under: str = "", inside: str = "") -> Any:
    """Return plain data with each scalar replaced.

    Args:
        value: The data.
        do: Takes a scalar and the secret's name above it, or "".
        under: The secret's name above the data.
        inside: The key of the data.
    """
    if isinstance(value, Mapping):
        return {
            key: each_word(child, do, under or (name if is_secret_key(name, inside) else ""), name)
            for key, child in value.items()
            for name in [str(key)]
        }
    if isinstance(value, list):
        return [
            each_word(child, do, under or _flag_before(before, child), inside)
            for before, child in pairwise(("", *value))
        ]
    return do(value, under)


def _flag_before(before: Any, value: Any) -> str:
    """Return the option that marks the next word of a list as a secret: `[--api-key, word]`."""
    flag = _FLAG.fullmatch(before) if isinstance(before, str) else None
    is_flag = isinstance(value, str) and value.startswith("--")
    return flag["name"] if flag and is_secret_key(flag["name"]) and not is_flag else ""


class Literals:
    """The secrets written out in a configuration.

    A secret may also occur where no name marks it, in a prompt or behind an alias; there it is
    found by its value. A common word is not hidden everywhere just because a header has it.

    Args:
        *data: The plain data to search.
    """

    def __init__(self, *data: Any) -> None:
        self._alone: set[str] = set()
        for value in data:
            each_word(value, self._learn)
        parts = {word for word in self._alone if len(word) >= _SHORTEST and not is_common(word)}
        self._mask = Mask(parts)

    def _learn(self, value: Any, under: str) -> None:
        if under.lower().endswith("headers") and is_common(_SCHEME.sub("", str(value))):
            return  # `X-Role: user` does not hide every `user`
        if under and _is_word(value):
            hidden(str(value), self._keep)
        elif isinstance(value, str):
            without_parts(value, self._keep)

    def _keep(self, secret: str) -> str:
        for word in (secret.strip(), _SCHEME.sub("", secret).strip()):
            shortest = _SHORTEST_NUMBER if word.isdigit() else _SHORTEST_ALONE
            if len(word) >= shortest and word.lower() not in _NEVER_SECRET and word != MASK:
                self._alone.add(word)
        return MASK

    @property
    def keys(self) -> list[str]:
        """The keys, passwords and header values among them."""
        return sorted(self._alone)

    def masked(self, value: Any, under: str = "") -> Any:
        """Return a scalar of the configuration without secrets."""
        if not _is_word(value):
            return value
        text = str(value)
        if under:
            text = hidden(text)
        elif text.strip() in self._alone:
            text = MASK
        elif isinstance(value, str):
            text = self.text(value)
        return value if text == str(value) else text

    def text(self, text: str) -> str:
        """Return a string without secrets."""
        return str(self._mask.data(without_parts(text))[0])


def _is_word(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


# ---- How is a YAML file stored without its secrets? ---------------------------------------------
#
# Unchanged if it has none, like most files: they name variables. Otherwise it is written anew,
# without its comments: each way of quoting, folding or commenting out would need its own way of
# masking.

_NO_STRING = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:bool")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#(?P<comment>.*)$")
_OPENS = re.compile(r"[#\s-]*[\"']?(?P<name>[\w-]+)[\"']?\s*:\s*(?:[|>]\S*)?\s*")


def masked_text(text: str, *also: Any) -> str:
    """Return a YAML file without its secrets, and without those of `also`."""
    yaml = import_module("yaml")  # slow to import, and not needed for `--help`
    words = words_of(text)
    literals = Literals(words, *also)
    comments = [match["comment"] for match in _COMMENT.finditer(text)]
    if masked(words, *also) == words and not any(_tells(comment, literals) for comment in comments):
        return text
    data = masked(yaml.safe_load(text), words, *also)
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))


def _tells(comment: str, literals: Literals) -> bool:
    """Return whether a comment has a secret, or a secret's name whose value may follow."""
    opens = _OPENS.fullmatch(comment)
    if (opens and is_secret_key(opens["name"])) or _has_secret(comment):
        return True
    return by_environment().ours.text(literals.text(comment)) != comment


def words_of(text: str) -> Any:
    """Return the data of a YAML file, each scalar as the string in the file."""
    yaml = import_module("yaml")
    return _plain(yaml.compose(text, Loader=yaml.SafeLoader))


def _plain(node: Any) -> Any:
    if node is None:
        return None
    if node.id == "mapping":
        pairs = enumerate(node.value)  # `<<` may occur more than once
        return {
            f"<<{at}" if key.value == "<<" else str(key.value): _plain(value)
            for at, (key, value) in pairs
        }
    if node.id == "sequence":
        return [_plain(part) for part in node.value]
    return "" if node.tag in _NO_STRING else node.value
