"""How is a fault in a value told, by its path in the file?"""

import json
import math
from typing import Any

from limpet.config.environment import Substituted
from limpet.config.problems import Problems, quoted
from limpet.config.tree import Path, Tree
from limpet.text import one_line

_LONGEST = 80


class Findings:
    """The faults found in the values of one file.

    Args:
        tree: What the file holds, and where.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._problems = Problems()
        self._done: list[Path] = []

    def add(
        self,
        path: Path,
        text: str,
        hint: str | None = None,
        *,
        final: bool = False,
        cause: BaseException | None = None,
    ) -> None:
        """Say what is wrong with a value.

        Args:
            path: Which value; of a short form, the path it would have in the long one.
            text: What is wrong.
            hint: What to do.
            final: Nothing else said about this value would be true: it has none.
            cause: What the user's own code raised, if it did.
        """
        if any(path[: len(one)] == one or one[: len(path)] == path for one in self._done):
            return
        if final:
            self._done.append(path)
        known = self.tree.known(path)
        self._problems.add(self.tree.place(known), f"{named(known)}{text}", hint, cause)

    def add_key(self, path: Path, text: str, hint: str | None = None) -> None:
        """Say what is wrong with a key."""
        self._problems.add(self.tree.key_place(path), text, hint)

    def raise_any(self) -> None:
        """Raise one `ConfigError` for all faults, if there are any."""
        self._problems.raise_any()


def named(path: Path) -> str:
    """Return a path as the beginning of a message."""
    return one_line(".".join(map(str, path))) + ": " if path else ""


def shown(value: Any) -> str:
    """Return a value as a message shows it: what the environment holds is not shown."""
    if isinstance(value, Substituted):
        return f"what {one_line(value.written)} stands for"
    if isinstance(value, str):
        return quoted(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if isinstance(value, (dict, list)) and not value:
        return "an empty mapping" if isinstance(value, dict) else "an empty list"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "a number too large to hold"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
