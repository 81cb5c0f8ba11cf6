"""What does a JSON text say, exactly, if it says one thing at all?

The fast decoder of the journal is not for what others wrote: it makes floats of wide integers,
takes the last of two equal keys without a word and refuses lone surrogates.
"""

import json
import re
from math import isfinite
from typing import Any, NoReturn

import orjson

_EXACT = frozenset({str, int, bool, type(None)})
_WIDE = re.compile(rb"[0-9]{16}")


class NotExactError(ValueError):
    """The text is JSON to some readers, but not the same to all."""


def exact_decoder() -> json.JSONDecoder:
    """Return a decoder that keeps integers whole, and raises `NotExactError` rather than guess.

    Keys are the same objects from row to row: with a million rows, that is half the memory.
    """
    names: dict[str, str] = {}

    def whole_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = {names.setdefault(name, name): value for name, value in pairs}
        if len(values) != len(pairs):
            raise NotExactError(f"the key {_repeated(pairs)!r} stands twice in one object")
        return values

    return json.JSONDecoder(
        object_pairs_hook=whole_object, parse_constant=_refused, parse_float=_finite
    )


def plain_object(line: bytes) -> dict[str, Any] | None:
    """Return a flat object as the fast decoder reads it; None if that may not be what it says.

    If there are as many names as were read, none stands twice; without a wide number, none that
    became a float was rounded.
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
    # Python reads NaN and Infinity, but they are not JSON: jq, orjson and JavaScript refuse them,
    # and so would the readers of the files we write. Nor does a NaN equal itself, as an answer.
    raise NotExactError(f"{literal} is not JSON; null or a text can say it")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise NotExactError(f"{text} is more than a float can hold; as a text it is kept exactly")
    return number


def reason_of(error: ValueError | RecursionError) -> str:
    """Return why a text could not be decoded, for people."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg}, at character {error.colno})"
    if isinstance(error, NotExactError):
        return str(error)
    return "an integer has more digits than Python reads; as a text it is kept exactly"
