"""Is this the name of a secret?

`api_key` always is; `answer_key`, `stop_token` and `signature` are often something else. So one
table rates each name, and each use has its own threshold, by what a mistake costs:

- Code: certain names only. A string under such a name is not part of an identity, and a result must
  not stay valid when something other than a secret was edited.
- Configurations: usual names.
- The environment, and names in capitals: doubtful names too. Few variables are called
  `ANSWER_KEY`.
- Headers, query values, and what we print ourselves: every possible name.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

WORDS = ("passw", "passphrase", "secret", "credential", "key", "auth", "token", "pwd", "bearer",
         "cookie", "signature", "_sig", "_pat", "_pass", "jwt", "dsn")  # fmt: skip
"""Text without any of these contains no name of a secret."""
PHRASE = (
    r"api_?key|passw(?:or)?d|passphrase|secret|credentials?|authorization"
    r"|(?:access|private|auth|signing)_?(?:key|token)"
)
"""Names of secrets even in the middle of a name, in lower case with underscores."""


class Rating(IntEnum):
    """How sure it is that a name is that of a secret."""

    NO = 0
    POSSIBLE = 1
    DOUBTFUL = 2
    MENTIONED = 3
    USUAL = 4
    CERTAIN = 5


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
    r"|(?:^|_)(?:max|min|num|n|total|new|stop|special|prompt|completion|input|output|cached"
    r"|reasoning)_tokens(?=_|$)"
    r"|(?:^|_)tokens?_(?:limit|count|budget|usage|type|ids?|length|window|url|endpoint|per_[a-z]+)"
    r"|(?:^|_)(?:xdg|dbus|desktop|gnome_desktop)_session(?=_|$)|ssh_auth_sock|session_manager"
)
# After the name of a secret, this says which one.
_WHICH = r"(?:_?(?:value|[0-9]+)|_(?:prod|production|staging|dev|live))?$"
_KEYS = r"(?:api|access|secret|private|signing|encryption|subscription)_?keys?"
_TOKENS = r"(?:api|access|auth|bearer|refresh|session|secret|hf|sas|bot)_?tokens?"
_WHOLE = r"apikey|passw(?:or)?d|passphrase|sshpass"
_OFTEN = (
    r"(?:account|raw|master|storage|shared)_?keys?|passw(?:or)?ds|secrets|dsn|pwd|bearer|cookies?"
)
_OFTEN += "|authorization"  # in code and file names also a topic
_WITHIN = r"key|token|auth|pwd|cookie|session|sessid|signature"
# Says where the secret is, or what is done with it.
_ABOUT = r"name|header|header_name|file|path|dir|env|env_var|variable|field|policy|reset|url"
# The first pattern that matches rates the name.
_TABLE = (
    (Rating.CERTAIN, rf"(?:(?:^|_)(?:{_KEYS}|{_TOKENS}|secret|credentials?)|{_WHOLE}){_WHICH}"),
    (Rating.USUAL, rf"(?:^|_)(?:{_OFTEN}){_WHICH}"),
    (Rating.POSSIBLE, rf"(?:{PHRASE}|key|token)_(?:{_ABOUT})$"),
    (Rating.MENTIONED, rf"{PHRASE}|_pat{_WHICH}"),
    (Rating.DOUBTFUL, rf"(?:(?:key|token|auth|signature)s?|(?:^|_)(?:sig|pass|pat|jwt)){_WHICH}"),
    (Rating.POSSIBLE, rf"{_WITHIN}|(?:^|_)(?:pass|sig|jwt)_"),
)

_ENVIRONMENTS = ("env", "envs", "environment")
_KEYS_OF_CONFIGURATIONS = re.compile(r"^token(?:_value)?$|headers$")


@functools.lru_cache(maxsize=10_000)
def rated(name: str) -> Rating:
    """Return how sure it is that a name, in any spelling, is that of a secret."""
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
    """Return whether a name may be that of a secret: for headers, queries and what we print."""
    return rated(name) > Rating.NO


def secrets_under_names(value: Any, name: str = "") -> Iterator[str]:
    """Yield the strings in plain data that stand under a name that is certainly a secret's."""
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
