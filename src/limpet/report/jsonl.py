"""How is a value printed as one line of JSON that is safe on a terminal?"""

import json
from typing import Any

from limpet.json_values import encode


def json_line(value: Any) -> str:
    """Return a value as one line of JSON, with control characters escaped."""
    return escaped(encode(value)[0].decode())


def escaped(text: str) -> str:
    """Return one line of JSON with all control characters escaped."""
    if text.isprintable():
        return text
    # Outside its strings, one line of JSON has only printable characters.
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
