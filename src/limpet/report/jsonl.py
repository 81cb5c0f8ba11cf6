"""How is a value printed as JSON, on one line that no terminal obeys?"""

import json
from typing import Any

from limpet.json_values import encode


def json_line(value: Any) -> str:
    """Return a value as JSON. What a terminal would obey is escaped, as JSON may."""
    return escaped(encode(value)[0].decode())


def escaped(text: str) -> str:
    """Return JSON that stands on one line with all escaped that a terminal would obey."""
    if text.isprintable():
        return text
    # Outside of its texts, JSON on one line has only printable characters.
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
