"""What does a walk return?"""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

UNSEEN_NAME = "has the name of a secret"
UNSEEN_FILE = "what code learns of a file without opening it is not seen"
UNSEEN_VARIABLE = "it is not seen which one"
UNSEEN = frozenset({UNSEEN_NAME, UNSEEN_FILE, UNSEEN_VARIABLE})
"""Reasons why something that may matter does not count; a plan shows them."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass
class WalkResult:
    """Everything a walk found.

    Attributes:
        forms: The form of each part as plain data, by name.
        left_out: Why something does not count, by name.
        modules: Names of the user's modules that contribute a part.
        code: The file and line of each of the user's functions that counts.
        sources: The source files that count in full.
        written: The source of each part: its file, and pairs of first and last lines.
        variables: The variable behind a part, and the function that closes over it. Parts have no
            names of variables, because renaming a local changes nothing.
        holders: The objects that hold each part: first the object with that attribute (None for a
            module), then the mutable objects it consists of.
        visited: The ids of all visited objects.
    """

    forms: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    code: set[tuple[str, int]] = field(default_factory=set)
    sources: frozenset[str] = frozenset()
    written: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    variables: dict[str, tuple[str, str]] = field(default_factory=dict)
    holders: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    visited: frozenset[int] = frozenset()

    @functools.cached_property
    def parts(self) -> dict[str, str]:
        """The digest of each part."""
        return {name: digest_of(form) for name, form in self.forms.items()}


def libraries_in(form: Any) -> Iterator[str]:
    """Yield the names of libraries' functions, classes and modules in a form."""
    if type(form) is list:
        if len(form) == 2 and form[0] == "library" and type(form[1]) is str:  # noqa: PLR2004
            yield form[1]
        for part in form:
            yield from libraries_in(part)


def digest_of(form: Any) -> str:
    """Return 32 hex digits that are equal for equal forms."""
    return blake2b(_encode(form).encode(), digest_size=16).hexdigest()
