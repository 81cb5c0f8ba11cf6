"""Which values must never be written, and how are they kept out?

Secrets are the values of environment variables whose names say so. Wherever one of them would be
written, in an answer, an error message or a setting, `[redacted]` stands in its place.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.journal.encoding import kept_form
from limpet.journal.plain import NotPlainError, plain_size

_NAMES = re.compile(r"(?i)(key|token|secret|passw(or)?d|credential)")
_SHORTEST = 8  # shorter ones are words like "test", and would be found everywhere
MASK = "[redacted]"


class Redaction:
    """Knows the secrets of this process.

    Args:
        environment: Where to look; None: `os.environ`.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._pattern: re.Pattern[str] | None = None
        self.look_again()

    def look_again(self) -> None:
        """Learn of secrets that came into the environment since."""
        known = self._environment
        secrets = {
            value for name, value in known.items() if _NAMES.search(name) and _is_secret(value)
        }
        longest_first = sorted(secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if secrets else None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def plain(self, value: Any) -> Any:
        """Return plain data without secrets; the same object if there are none."""
        if self._pattern is None:
            return value
        try:
            value = value if plain_size(value) is not None else kept_form(value)
        except NotPlainError:
            return value  # it is not written as it is: what is written instead comes here again
        return self._masked(value) if self._found_in(value) else value

    def _found_in(self, value: Any) -> bool:
        assert self._pattern is not None
        todo = [value]
        while todo:
            one = todo.pop()
            if isinstance(one, str):
                if self._pattern.search(one):
                    return True
            elif isinstance(one, Mapping):
                todo += [*one.keys(), *one.values()]
            elif isinstance(one, (list, tuple)):
                todo += one
        return False

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._masked(key): self._masked(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._masked(one) for one in value]
        return value


def _is_secret(value: str) -> bool:
    # A path under such a name says where a secret is, and is none itself.
    return len(value) >= _SHORTEST and not Path(value).exists()
