"""Which values are secrets, and how certain is it?

Possible secrets: the value of any variable with a secret's name. We keep them out of everything we
write ourselves: a configuration, a command, a message.

Certain secrets: those that also look like one, and those declared as a header or a key. Answers are
masked only for these: an answer may be `postgres`, and so may a password.
"""

import contextlib
import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any
from urllib.parse import parse_qsl, urlsplit

# ---- Is this the name of a secret? --------------------------------------------------------------
#
# `api_key` always is; `answer_key`, `stop_token` and `signature` are often something else. So one
# table rates each name, and each use has its own threshold, by what a mistake costs:
#
# - Code: certain names only. A string under such a name is not part of an identity, and a result
#   must not stay valid when something other than a secret was edited.
# - Configurations: usual names.
# - The environment, and names in capitals: doubtful names too. Few variables are called
#   `ANSWER_KEY`.
# - Headers, query values, and what we print ourselves: every possible name.

PHRASE = (
    r"api_?key|passw(?:or)?d|passphrase|secret|credentials?|authorization"
    r"|(?:access|private|auth|signing)_?(?:key|token)"
)
"""Names of secrets even in the middle of a name, in lower case with underscores."""


class Rating(IntEnum):
    """How likely a name is a secret's."""

    NO = 0
    POSSIBLE = 1
    DOUBTFUL = 2
    USUAL = 3
    CERTAIN = 4


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SIGNS = re.compile(r"[^a-z0-9]+")

# Looks like the name of a secret, but is not: removed before a name is rated.
# (`re` compiles and caches these when the first name is rated, so not for `--help`.)
_HARMLESS = (
    r"(?:^|_)key(?:board|word|frame|pad|note|stone|stroke|point|space)s?"
    r"|(?:^|_)(?:mon|don|tur|hoc|joc|whis)keys?(?![a-z])"
    r"|tokeni[sz][a-z]*|author(?:s|ed|ship)?(?![a-z])|authorit[a-z]*|secretar[a-z]*"
    r"|(?:^|_)(?:id|question|answer|sort|group|cache|foreign|partition)_keys?(?=_|$)"
    r"|(?:^|_)(?:stop|pad|eos|bos|unk|sep|cls|mask|begin|start|end|max_new)_token(?=_|$)"
    r"|(?:^|_)(?:max|min|num|n|total|new|stop|special|prompt|completion|input|output|cached|cache_write"
    r"|reasoning)_tokens(?=_|$)"
    r"|(?:^|_)tokens?_(?:limit|count|budget|usage|type|ids?|length|window|url|endpoint|per_[a-z]+)"
    r"|(?:^|_)(?:xdg|dbus|desktop|gnome_desktop)_session(?=_|$)|ssh_auth_sock|session_manager"
)
# Suffixes that say which secret it is.
_WHICH = r"(?:_?(?:value|[0-9]+)|_(?:prod|production|staging|dev|live))?$"
_KEYS = r"(?:api|access|secret|private|signing|encryption|subscription)_?keys?"
_TOKENS = r"(?:api|access|auth|bearer|refresh|session|secret|hf|sas|bot)_?tokens?"
_WHOLE = r"apikey|passw(?:or)?d|passphrase|sshpass"
_OFTEN = (
    r"(?:account|raw|master|storage|shared)_?keys?|passw(?:or)?ds|secrets|dsn|pwd|bearer|cookies?"
)
_OFTEN += "|authorization"  # in code and file names also a topic
_WITHIN = r"key|token|auth|pwd|cookie|session|sessid|signature"
# Suffixes that say where the secret is, or what is done with it.
_ABOUT = r"name|header|header_name|file|path|dir|env|env_var|variable|field|policy|reset|url"
# The first pattern that matches rates the name.
_TABLE = (
    (Rating.CERTAIN, rf"(?:(?:^|_)(?:{_KEYS}|{_TOKENS}|secret|credentials?)|{_WHOLE}){_WHICH}"),
    (Rating.USUAL, rf"(?:^|_)(?:{_OFTEN}){_WHICH}"),
    (Rating.POSSIBLE, rf"(?:{PHRASE}|key|token)_(?:{_ABOUT})$"),
    (Rating.DOUBTFUL, PHRASE),
    (Rating.DOUBTFUL, rf"(?:(?:key|token|auth|signature)s?|(?:^|_)(?:sig|pass|pat|jwt)){_WHICH}"),
    (Rating.POSSIBLE, rf"{_WITHIN}|(?:^|_)(?:pass|sig|jwt)_"),
)

_ENVIRONMENTS = ("env", "envs", "environment")
_KEYS_OF_CONFIGURATIONS = re.compile(r"^token(?:_value)?$|headers$")


@functools.lru_cache(maxsize=10_000)
def rated(name: str) -> Rating:
    """Return how likely a name, in any spelling, is a secret's."""
    found = re.sub(_HARMLESS, "", _snake_case(name))
    return next((rating for rating, pattern in _TABLE if re.search(pattern, found)), Rating.NO)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, field or key in code is certainly a secret."""
    return rated(name) is Rating.CERTAIN


def is_secret_variable(name: str) -> bool:
    """Return whether an environment variable is a secret, if its value looks like one."""
    return rated(name) >= Rating.DOUBTFUL


def is_secret_key(name: str, inside: str = "") -> bool:
    """Return whether the value of a configuration key is a secret.

    Args:
        name: The key.
        inside: Its parent key: in an `env`, any `…_token` is a secret.
    """
    is_variable = name.isupper() or inside.lower() in _ENVIRONMENTS
    least = Rating.DOUBTFUL if is_variable else Rating.USUAL
    return rated(name) >= least or _KEYS_OF_CONFIGURATIONS.search(_snake_case(name)) is not None


def may_be_secret(name: str) -> bool:
    """Return whether a name may be a secret's: for headers, queries and what we print."""
    return rated(name) > Rating.NO


def secrets_under_names(value: Any, name: str = "") -> Iterator[str]:
    """Yield the strings in plain data under a name that is certainly a secret's."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from secrets_under_names(part, str(key))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from secrets_under_names(part, name)
    elif isinstance(value, str) and value and is_secret_name(name):
        yield value


def _snake_case(name: str) -> str:
    return _SIGNS.sub("_", _CAMEL.sub("_", name).lower())


# ---- Which values are secrets, and how certain is it? -------------------------------------------

_DIRECTORIES = ("PWD", "OLDPWD")  # the shell's; in code, `pwd` may be a password
_SHORTEST_POSSIBLE = 8  # shorter ones are words like "test", and occur everywhere
_SHORTEST_CERTAIN = 16
_SHORTEST_PASSWORD = 12
SHORTEST_DECLARED = 8
_SHORTEST_LINE = 24  # of a key that has several lines

_KINDS = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[^a-zA-Z0-9]")))
_WORDS = re.compile(r"[A-Z]?[^\WA-Z\d_]+|[A-Z]+|[a-z]*(?:[A-Z][a-z]{2,})+")
NUMBER = re.compile(r"[-+\d.,:_ eE]+")
# A key may begin with a slash, so a path must look like one.
_PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][A-Z]?[a-z0-9._ -]*)+"
    r"|[A-Za-z0-9._-]+(?:[/\\][A-Z]?[a-z0-9._ -]*)+\.[a-z]{2,5}"
    r"|(?:~|\.{1,2}|[A-Za-z]:)[/\\].*"
    r"|/(?:etc|home|root|usr|var|opt|run|srv|mnt|tmp|dev|app|data|private|Users|Volumes)/[\w. /@-]+"
    r"|/[\w. /@-]+\.[a-z]{2,5}"
)
_PLACEHOLDER = re.compile(r"<.*>|\$\{.*\}|\{\{.*\}\}")  # <|begin_of_text|>, <your key>
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_LONGEST_WORD = 20
_CONTENT_TYPE = re.compile(r"(?i)(?:application|text|audio|image|video|multipart|\*)/\S")
URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S*")


def possible_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables with a secret's name, and credentials in any URL."""
    for name, value in environment.items():
        if may_be_secret(name) and name not in _DIRECTORIES:
            text = value.strip()
            # A path under such a name only locates the secret.
            if len(text) >= _SHORTEST_POSSIBLE and not os.path.exists(text):  # noqa: PTH110 - Path raises
                yield text
        for part in _in_url(value.strip()):  # under any name
            if len(part) >= _SHORTEST_POSSIBLE:
                yield part


def certain_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that are secrets by name and looks, and their parts."""
    for name, value in environment.items():
        text = value.strip()
        in_url = _in_url(text)  # DATABASE_URL=postgres://u:…@…
        if (is_secret_variable(name) or in_url) and looks_secret(text):
            yield text
            yield from _parts_of(text)
        # A password is shorter than a key, and not a word.
        yield from (part for part in in_url if len(part) >= _SHORTEST_PASSWORD and _is_mixed(part))


def looks_secret(value: str) -> bool:
    """Return whether this is a key or password, not a path, a word, a number or a URL.

    A secret has at least 16 characters, of more than one kind.
    """
    if len(value) < _SHORTEST_CERTAIN or not _is_mixed(value):
        return False
    if any(pattern.fullmatch(value) for pattern in (_WORDS, NUMBER, _PATH, _PLACEHOLDER)):
        return False
    if URL.fullmatch(value):
        return bool(secrets_of_url(value))
    return not os.path.exists(value)  # noqa: PTH110 - Path raises if a value is long


def is_common(text: str) -> bool:
    """Return whether a text may be in any answer: words, a number, a content type, a plain URL."""
    is_word = len(text) <= _LONGEST_WORD and text.isalpha()
    if is_word or len(text.split()) > 1 or NUMBER.fullmatch(text) or _CONTENT_TYPE.match(text):
        return True
    return URL.fullmatch(text) is not None and not secrets_of_url(text)


def _is_mixed(value: str) -> bool:
    return sum(kind.search(value) is not None for kind in _KINDS) > 1


def secrets_of_url(text: str) -> list[str]:
    """Return the password of a URL, or a user that is a key, and its secret query values."""
    try:
        parts = urlsplit(text)
        query = [value for name, value in parse_qsl(parts.query) if may_be_secret(name)]
    except ValueError:
        return []
    # A user without a password may be a key.
    user = parts.username if parts.password or looks_secret(parts.username or "") else None
    return [part for part in (parts.password or user, *query) if part]


def _in_url(value: str) -> list[str]:
    """Return the credentials in a value that is a URL."""
    return secrets_of_url(value) if URL.fullmatch(value) else []


def _parts_of(value: str) -> Iterator[str]:
    """Yield the parts that are secrets themselves: of a URL, of JSON, of a key with many lines."""
    parts = _in_url(value)
    if value.startswith(("{", "[")):
        with contextlib.suppress(ValueError, RecursionError):
            parts += _strings_in(json.loads(value))
    for text in [value, *parts]:
        lines = [line.strip() for line in text.splitlines()]
        parts += [line for line in lines if len(line) >= _SHORTEST_LINE and line != text]
    yield from (part for part in parts if looks_secret(part) and not part.startswith("-----"))


def _strings_in(data: Any) -> list[str]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return [text for child in data for text in _strings_in(child)]
    return [data] if isinstance(data, str) else []


def declared(values: Iterable[str]) -> list[str]:
    """Return the declared secrets that are long enough to be masked in an answer."""
    stripped = (text.strip() for text in values)
    long = (text for text in stripped if len(text) >= SHORTEST_DECLARED)
    return [text for text in long if not _PLACEHOLDER.fullmatch(text)]


def flaw_of_declared(value: str) -> str | None:
    """Return why a value that the user declares as a secret would not be masked; None if it is.

    An empty one, from an unset variable, is nothing to mask.
    """
    if 0 < len(value.strip()) < SHORTEST_DECLARED:
        return f"must have at least {SHORTEST_DECLARED} characters to be masked"
    if _VARIABLE.fullmatch(value) and (value in os.environ or is_secret_variable(value)):
        return f"is the name of a variable, not its value (in a file: ${{{value}}})"
    return None


def maskable(keys: Iterable[str]) -> list[str]:
    """Return the keys of a configuration that may be declared as secrets."""
    return [str(key) for key in keys if flaw_of_declared(key) is None]
