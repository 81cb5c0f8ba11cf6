"""What of a configuration must be neither kept on disk nor shown?

A header's value, the user and password in an address, the values in its query, and what stands
under a name that says so. Written as `${NAME}` they are no secret: that is how the file has them,
and how they are kept. The default of a `${NAME:-default}` is one.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from limpet.config.short_forms import SHORT_KINDS
from limpet.secrets.masking import MASK

Hide = Callable[[str], str]
"""Takes a secret, and returns what is shown in its place."""

# The whole name, or its last part: a `password_reset` is a function, an `id_key` a column, and a
# `stop_token` a parameter of the model. In capitals it is a variable, and those are secret sooner.
_NAME = re.compile(
    r"(?i)(?:^|[_-]|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
    r"(?:(?:api|access|secret|private|account|signing|encryption|subscription|raw)[_-]?keys?"
    r"|passw(?:or)?ds?|passphrase|secrets?|credentials?|authorization|dsn"
    r"|(?:api|auth|access|bearer|refresh|session|secret|hf|sas|bot)[_-]?tokens?)(?:[_-]?value)?$"
    r"|^(?:token|token[_-]value|bearer)$|headers$"
    r"|(?-i:(?:^|_)(?:TOKEN|KEY|PASS|PAT)$)"
)
_VARIABLE_NAME = re.compile(r"(?i)(?:token|key|secret|pass|password|passwd|passphrase|pat)$")
_ENVIRONMENTS = ("env", "envs", "environment")
_TYPICAL = ("api_key", "headers", "password", "secret", "authorization", "credentials", "token")
_NEAR = 0.8

_ADDRESS = re.compile(r"(?P<scheme>://)(?P<user>[^/\s]*)@")  # up to the last @, as URLs go
_QUERY = re.compile(r"(?P<name>[?&][^=&#\s]+=)(?P<value>[^&#\s]+)")
_TELLING_QUERY = re.compile(r"[?&](?P<name>[\w.~-]+)=(?P<value>[^&#\s\"'<>]+)")
_QUERY_NAME = re.compile(r"(?i)(?:^|[_-])(?:key|token|sig|signature|credential|pass|pwd)$")
_ARGUMENT = re.compile(r"(?<!\S)--?(?P<name>[\w-]+)(?:=|[ \t]+)(?P<value>[^\s-]\S*)")
_PAIR = re.compile(r"-{0,2}(?P<name>[\w-]+)\s*[=:]\s*(?P<value>\S.*)")
_FLAG = re.compile(r"--?(?P<name>[\w-]+)")
_WORD = re.compile(r"(?P<flag>--?)?(?P<name>[\w-]+)(?P<sign>[\"']?\s*[=:])?")
_LITERAL = re.compile(r"(?i)[\s,\"'=]*(?!(?:bearer\s+)?\$\{[^}:]*\})[^\s,\"'=]")

_VARIABLE = re.compile(r"\$\{[^}]*\}")
_DEFAULT = re.compile(r"(?P<start>\$\{[^}:]*:-)(?P<value>[^}]+)\}")
_SCHEMES = re.compile(r"(?i)\s*(bearer|basic|token|apikey|key)?\s*")
_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic|token|apikey|key)\s+")

# A word, a number or a kind of content stands in many places, and is a secret only in its own.
_COMMON = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[\d.,:+-]+|(?i:application|text)/\S+|\w+://\S*")
_SHORTEST = 6
_SHORTEST_ALONE = 4
_SHORTEST_NUMBER = 8
_NO_SECRETS = ("true", "false", "none", "null", "auto", "default", "empty")


def is_secret(name: str, inside: str = "") -> bool:
    """Tell whether what stands under this key is a secret: `api_key` is, `id_key` is not.

    Args:
        name: The key.
        inside: The key that it stands under: in an `env`, any `…_token` is one.
    """
    is_variable = inside.lower() in _ENVIRONMENTS and _VARIABLE_NAME.search(name) is not None
    return is_variable or _NAME.search(name) is not None


def is_secret_path(path: str) -> bool:
    """Tell whether what stands at a path, such as `llms.nim.headers.X-Any`, is a secret."""
    parts = ["", *(part.strip() for part in path.split("."))]
    return any(is_secret(part, above) for above, part in pairwise(parts))


def may_show(path: str, value: str) -> bool:
    """Tell whether a value may be shown: neither it nor its path says that it is a secret.

    A path that is nearly one that says so was probably mistyped.
    """
    near = [get_close_matches(part.lower(), _TYPICAL, 1, _NEAR) for part in path.split(".")]
    return not any(near) and shown_value(path, value) == value


def shown_value(path: str, value: str, hide: Hide = lambda _: MASK) -> str:
    """Return what may be shown of a value that was typed for a path; it may be YAML."""
    if is_secret_path(path) or secret_start(value) is not None:
        return hidden(value, hide)
    return without_parts(value, hide)


def secret_start(text: str) -> int | None:
    """Return where in a text the first literal begins that stands under a secret name, if any."""
    for found in _WORD.finditer(text):
        if (found["flag"] or found["sign"]) and is_secret(found["name"]):
            literal = _LITERAL.match(text, found.end())
            if literal:
                return literal.end() - 1
    return None


# ---- one text -----------------------------------------------------------------------------------


def hidden(text: str, hide: Hide = lambda _: MASK) -> str:
    """Return what may be kept of a secret: the variables it comes from, without their defaults."""
    if not text or not _is_variable(text):
        return text and hide(text)
    return _without_defaults(text, hide)


def _without_defaults(text: str, hide: Hide) -> str:
    return _DEFAULT.sub(lambda found: f"{found['start']}{hide(found['value'])}}}", text)


def _is_variable(text: str) -> bool:
    rest = _VARIABLE.sub("", text)
    return rest != text and _SCHEMES.fullmatch(rest) is not None


def without_parts(text: str, hide: Hide = lambda _: MASK) -> str:
    """Return a text without what in it is secret by itself.

    That is the user in an address, `?api-key=…`, `--api-key …` and `API_KEY=…`.
    """

    def is_asked(name: str) -> bool:
        return is_secret(name) or _QUERY_NAME.search(name) is not None

    text = without_user(text, hide)
    text = _hide_values(_TELLING_QUERY, text, is_asked, hide)
    if (pair := _PAIR.fullmatch(text)) and is_secret(pair["name"]):
        return text[: pair.start("value")] + hidden(pair["value"], hide)
    return _hide_values(_ARGUMENT, text, is_secret, hide)


def _hide_values(
    pattern: re.Pattern[str], text: str, is_asked: Callable[[str], bool], hide: Hide
) -> str:
    def put(found: re.Match[str]) -> str:
        is_template = found["value"].startswith("{{") and found["value"].endswith("}}")
        if is_template or not is_asked(found["name"]):
            return found[0]
        return found[0][: found.start("value") - found.start()] + hidden(found["value"], hide)

    return pattern.sub(put, text)


def without_user(address: str, hide: Hide = lambda _: MASK) -> str:
    """Return a text without the literal user and password of an address that stands in it."""

    def put(found: re.Match[str]) -> str:
        user = found["user"]
        kept = all(_is_variable(part) or part == "" for part in user.split(":", 1))
        return f"{found['scheme']}{_without_defaults(user, hide) if kept else hide(user)}@"

    return _ADDRESS.sub(put, address)


# ---- an eval.yml --------------------------------------------------------------------------------


def without_credentials(data: Any) -> Any:
    """Return a configuration with its literal credentials masked; changed in place."""
    workflow = data.get("workflow") if isinstance(data, dict) else None
    if not isinstance(workflow, dict):
        return data
    for kind, address in SHORT_KINDS.items():
        asked = workflow.get(kind)
        if isinstance(asked, str):
            workflow[kind] = _without_query(without_user(asked))
        if not isinstance(asked, dict):
            continue
        if isinstance(asked.get(address), str):
            asked[address] = _without_query(without_user(asked[address]))
        headers = asked.get("headers")
        if isinstance(headers, dict):
            asked["headers"] = {
                name: hidden(value) if isinstance(value, str) else MASK
                for name, value in headers.items()
            }
    return data


def _without_query(address: str) -> str:
    return _hide_values(_QUERY, address, lambda _: True, lambda _: MASK)


# ---- any plain data -----------------------------------------------------------------------------


def each_word(value: Any, do: Callable[[Any, str], Any]) -> Any:
    """Return plain data with each word replaced.

    Args:
        value: The data.
        do: Takes a text, number or the like, and the name that says it is a secret; "": none does.
    """
    return _each_word(value, do, "", "")


def _each_word(value: Any, do: Callable[[Any, str], Any], says: str, inside: str) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _each_word(one, do, says or (name if is_secret(name, inside) else ""), name)
            for key, one in value.items()
            for name in [str(key)]
        }
    if isinstance(value, list):
        return [
            _each_word(one, do, says or _flag_before(before, one), inside)
            for before, one in pairwise(("", *value))
        ]
    return do(value, says)


def _flag_before(before: Any, value: Any) -> str:
    """Return the option that says a list's next word is a secret, as in `[--api-key, word]`."""
    found = _FLAG.fullmatch(before) if isinstance(before, str) else None
    is_flag = isinstance(value, str) and value.startswith("--")
    return found["name"] if found and is_secret(found["name"]) and not is_flag else ""


class Literals:
    """The secrets that stand in a configuration as they are.

    A secret may stand where nothing says so, in a prompt or behind an alias: there it is found by
    what it is. A common word is no secret everywhere only because a header has it.

    Args:
        *data: The plain data to look through.
    """

    def __init__(self, *data: Any) -> None:
        self._alone: set[str] = set()
        for one in data:
            each_word(one, self._learn)
        parts = {one for one in self._alone if len(one) >= _SHORTEST and not _is_common(one)}
        longest_first = sorted(parts, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def _learn(self, value: Any, says: str) -> None:
        if says.lower().endswith("headers") and _is_common(_SCHEME.sub("", str(value), count=1)):
            return  # `X-Role: user` hides no other `user`
        if says and _is_word(value):
            hidden(str(value), self._keep)
        elif isinstance(value, str):
            without_parts(value, self._keep)

    def _keep(self, secret: str) -> str:
        for one in (secret.strip(), _SCHEME.sub("", secret, count=1).strip()):
            shortest = _SHORTEST_NUMBER if one.isdigit() else _SHORTEST_ALONE
            if len(one) >= shortest and one.lower() not in _NO_SECRETS and one != MASK:
                self._alone.add(one)
        return MASK

    @property
    def keys(self) -> list[str]:
        """Those that are used as a key, a password or a header, and stand here as they are."""
        return sorted(self._alone)

    def masked(self, value: Any, says: str = "") -> Any:
        """Return a word of the configuration without secrets."""
        if not _is_word(value):
            return value
        text = str(value)
        if says:
            text = hidden(text)
        elif text.strip() in self._alone:
            text = MASK
        elif isinstance(value, str):
            text = self.text(value)
        return value if text == str(value) else text

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._pattern.sub(MASK, without_parts(text))


def _is_word(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _is_common(text: str) -> bool:
    return _COMMON.fullmatch(text) is not None or len(text.split()) > 1
