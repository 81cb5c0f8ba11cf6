"""Is this text JSON, and what does it say?"""

import json
import math
import re
from typing import Any

import orjson

MOST_LEVELS = 200
"""How deep an answer may be nested. The journal keeps 250 levels, and a record adds its own."""
_TOO_DEEP = f"not JSON that can be kept: nested too deep, beyond {MOST_LEVELS} levels"
_WIDE = re.compile(rb"[0-9]{19}")


def parse_json(raw: bytes) -> Any:
    """Return what a JSON text says, integers of any size exact.

    Raises:
        ValueError: It is no JSON that can be kept, or not UTF-8; the message says which.
    """
    value = _parsed(raw)
    # The brackets bound the levels, and counting them takes no time.
    if raw.count(b"[") + raw.count(b"{") > MOST_LEVELS and _is_too_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def _parsed(raw: bytes) -> Any:
    # The fast parser makes floats of wide integers, and refuses half a surrogate pair, which
    # servers that escape do send.
    if _WIDE.search(raw) is None:
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, at character {error.pos})") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _refuse(name: str) -> Any:
    raise ValueError(f"not JSON ({name})")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"not JSON that can be kept ({number[:40]} is too large a number)")
    return value


def _integer(number: str) -> int:
    try:
        return int(number)
    except ValueError:
        raise ValueError(f"not JSON that can be read (a number has {len(number)} digits)") from None


def _is_too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MOST_LEVELS):
        inner = [one.values() if isinstance(one, dict) else one for one in level]
        level = [one for held in inner for one in held if isinstance(one, (dict, list))]
        if not level:
            return False
    return True


def encode_json(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        ValueError: It has no JSON form.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(str(error)) from None
