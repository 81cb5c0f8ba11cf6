"""What does a plain word of YAML stand for?

By YAML's old rules `no` is false, `012` is ten, `12:30` is 750 and `2026-11-14` is a date, while
`1e-3` is a text. People who write a name, an id or a language code mean none of that. Here a word
is null, true, false or a number only where JSON would also take it for that; all else is the text
that stands there.
"""

import math
import re
from typing import Any

_NULLS = ("", "~", "null", "Null", "NULL")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BEYOND = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
_LONGEST = 300  # digits; beyond that a number is as good as infinite


def read_scalar(word: str) -> Any:
    """Return null, a truth value, a number or the text itself."""
    if word in _NULLS:
        return None
    if word in _TRUTHS:
        return _TRUTHS[word]
    if _WHOLE.fullmatch(word):
        return int(word) if len(word) <= _LONGEST else math.copysign(math.inf, _sign(word))
    if _NUMBER.fullmatch(word):
        return float(word)
    if found := _BEYOND.fullmatch(word):
        return float(found[1] + found[2])
    return word


def _sign(word: str) -> int:
    return -1 if word.startswith("-") else 1
