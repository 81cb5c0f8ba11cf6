"""What may an evaluator be called?

Its name is that of its column's file and of a line in the summary, so it is plain, and not one of
the names that the run has for itself.
"""

import functools
import re
from typing import Any

RESERVED = ("workflow", "run", "summary", "events", "failures", "map")
"""Names that files of the run have."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def checked_name(name: Any) -> str:
    """Return the name if an evaluator may have it.

    Raises:
        TypeError: It is no text.
        ValueError: It is reserved, or would make no good file name.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={name!r}: must be a text")
    if not _PLAIN.fullmatch(name):
        raise ValueError(
            f"name={name!r}: must be letters, digits, _ and - only, and not begin with a digit "
            "or -; give another with name=…"
        )
    if name.lower() in RESERVED:  # some file systems do not tell capitals from small letters
        raise ValueError(
            f"name={name!r}: {', '.join(RESERVED)} are reserved; give another with name=…"
        )
    return name


def name_of(function: Any) -> str:
    """Return what a function calls itself: a partial as its function, an object as its class.

    Raises:
        ValueError: It is a lambda, which has no name.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ValueError(
            "a lambda has no name: give it one with as_evaluator(…, name=…), or as the key of a "
            'dict, evaluators={"short": lambda output: …}'
        )
    return name
