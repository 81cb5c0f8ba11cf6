"""How is JSON from a server parsed, and JSON for it encoded?"""

import json
import math
import re
from typing import Any

import orjson

from limpet.json_values import is_deep_text

MOST_LEVELS = 200
"""Maximum nesting of an answer. The journal keeps 250 levels, and a record adds its own."""
_TOO_DEEP = f"JSON nested too deep to store, beyond {MOST_LEVELS} levels"
_WIDE = re.compile(rb"[0-9]{19}")


def parse_json(raw: bytes) -> Any:
    """Parse JSON, keeping integers of any size exact.

    Raises:
        ValueError: It is not JSON, not UTF-8, or cannot be stored; the message says which.
    """
    value = _parsed(raw)
    if is_deep_text(raw, MOST_LEVELS):
        raise ValueError(_TOO_DEEP)
    return value


def _parsed(raw: bytes) -> Any:
    # The fast parser turns wide integers into floats and rejects lone surrogates, which some
    # servers send as escapes.
    if _WIDE.search(raw) is None:
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    if is_deep_text(text, MOST_LEVELS):
        raise ValueError(_TOO_DEEP)
    try:
        return json.loads(text, parse_constant=refuse, parse_float=finite, parse_int=integer)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, at character {error.pos})") from None


def refuse(name: str) -> Any:
    """Refuse `NaN` and the infinities, which are not JSON."""
    raise ValueError(f"not JSON ({name})")


def finite(number: str) -> float:
    """Return a number as a float, if a float can hold it."""
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"JSON with a number too large to store ({number[:40]})")
    return value


def integer(number: str) -> int:
    """Return an integer of any size that Python reads."""
    try:
        return int(number)
    except ValueError:
        raise ValueError(f"JSON with a number too long to read ({len(number)} digits)") from None


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON.

    Raises:
        ValueError: It cannot be encoded.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(str(error)) from None
