"""What did a look find?"""

import functools
import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

_write_text = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass
class WalkResult:
    """What a walk found.

    Attributes:
        forms: Everything that counts, by a name for people: its form as plain data.
        left_out: What does not count, by name: why.
        modules: The names of the user's modules of which something counts.
        code: The user's functions that count: file and line of each.
        written: Where the source of a part stands: its file, and its first and last lines.
        variables: By the names of parts: the variable that it is, and the function that closes over
            it. No part is named after a variable, for its name does not count.
        holders: The objects that hold a value that counts: first the one whose attribute it is
            (None: a module), then those that it is made of and that may change.
        met: The ids of all objects that were met.
    """

    forms: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    code: set[tuple[str, int]] = field(default_factory=set)
    written: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    variables: dict[str, tuple[str, str]] = field(default_factory=dict)
    holders: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    met: frozenset[int] = frozenset()

    @functools.cached_property
    def parts(self) -> dict[str, str]:
        """The digest of each thing that counts."""
        return {name: digest_of(form) for name, form in self.forms.items()}


def digest_of(form: Any) -> str:
    """Return 32 hex digits that are the same for the same form."""
    return blake2b(_written(form).encode(), digest_size=16).hexdigest()


def _written(form: Any) -> str:
    """Return a form as JSON, in ASCII."""
    if type(form) is list:
        try:  # most forms are a few texts
            return f"[{','.join(map(_write_text, form))}]"
        except TypeError:
            pass
    return _encode(form)
