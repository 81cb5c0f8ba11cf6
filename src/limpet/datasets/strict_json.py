"""How is other people's JSON decoded exactly?

The journal's fast decoder does not fit here: it turns wide integers into floats, silently takes the
last of two equal keys, and rejects lone surrogates.
"""

import json
import re
from math import isfinite
from typing import Any, NoReturn

import orjson

_EXACT = frozenset({str, int, bool, type(None)})
_WIDE = re.compile(rb"[0-9]{16}")


class NotExactError(ValueError):
    """Not all JSON readers agree on the value."""


def exact_decoder() -> json.JSONDecoder:
    """Return a decoder that keeps integers exact, and raises `NotExactError` instead of guessing.

    Rows share their key strings: with a million rows, that halves the memory.
    """
    names: dict[str, str] = {}

    def whole_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = {names.setdefault(name, name): value for name, value in pairs}
        if len(values) != len(pairs):
            raise NotExactError(f"the key {_repeated(pairs)!r} appears twice in one object")
        return values

    return json.JSONDecoder(
        object_pairs_hook=whole_object, parse_constant=_refused, parse_float=_finite
    )


def plain_object(line: bytes) -> dict[str, Any] | None:
    """Return a flat object by the fast decoder; None if that may be inexact.

    If the line has as many names as the result, none appears twice; without a wide number, no float
    was rounded.
    """
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(values, dict) or line.count(b'":') != len(values):
        return None
    if not _EXACT.issuperset(map(type, values.values())) and _WIDE.search(line):
        return None
    return values


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    names = [name for name, _ in pairs]
    return next(name for at, name in enumerate(names) if name in names[:at])


def _refused(literal: str) -> NoReturn:
    # Python reads NaN and Infinity, but they are not JSON: jq, orjson and JavaScript reject them,
    # and so would readers of the files we write. And a NaN as an answer does not equal itself.
    raise NotExactError(f"{literal} is not JSON; use null or a string")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise NotExactError(f"{text} is too large for a float; write it as a string to keep it")
    return number


def reason_of(error: ValueError | RecursionError) -> str:
    """Return why JSON could not be decoded, for messages."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg}, at character {error.colno})"
    if isinstance(error, NotExactError):
        return str(error)
    return "an integer has more digits than Python reads; write it as a string to keep it"
