"""Is this text JSON, and what does it say?"""

import json
import re
from typing import Any

import orjson

_WIDE = re.compile(rb"[0-9]{19}")


def parse_json(raw: bytes) -> Any:
    """Return what a JSON text says, integers of any size exact.

    Raises:
        ValueError: It is no JSON, or not UTF-8; the message says which.
    """
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
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, at character {error.pos})") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deep") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"not JSON ({name})")


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
