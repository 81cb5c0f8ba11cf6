"""How does a vendor's SDK ask what we ask, and what may differ?"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

loaded = json.loads


class Theirs(NamedTuple):
    """The row of a provider.

    Attributes:
        asked: The arguments of the SDK for each question of `asked.py`.
        cannot: What our client says before the first call, where the provider cannot do it.
        headers: Those that mean something.
        finishes: Our word for each of theirs, where they differ.
        errors: For each class of the SDK, or of its service, a status, the provider's word and what
            it means to us, a `FailureKind` or "overloaded".
        differ: The reason for each question, "*" for all, and field of a body or header in which
            the two differ.
    """

    asked: Mapping[str, Mapping[str, Any]]
    cannot: Mapping[str, str]
    headers: tuple[str, ...]
    finishes: Mapping[str, str]
    errors: Mapping[str, tuple[int, str, str]]
    differ: Mapping[tuple[str, str], str] = {}
