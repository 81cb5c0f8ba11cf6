"""What is in a JSON schema, and how is one refused?"""

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.errors import SetupError
from limpet.text import one_line

Schema = Mapping[str, Any]
_LONGEST_PLACE = 150
_DATA = {"const", "default", "enum", "examples"}
_BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_BY_NAME |= {"dependencies"}


def flaw(at: str, why: str) -> SetupError:
    """Return the error for a schema."""
    at = at if len(at) <= _LONGEST_PLACE else at[:_LONGEST_PLACE] + "…"
    error = SetupError(one_line(f"{at}: {why}"))
    why = why if at == "schema" else f"{at}: {why}"
    vars(error).update(argument="schema", flaw=one_line(why), is_part=True)
    return error


def inner(schema: Schema) -> Iterator[tuple[str, str, Schema]]:
    """Yield each schema directly within a schema, after its keyword and its place."""
    for keyword, value in schema.items():
        parts: Mapping[str, Any] = {} if keyword in _DATA else {keyword: value}
        if isinstance(value, Mapping) and keyword in _BY_NAME:
            parts = {f"{keyword}.{name}": part for name, part in value.items()}
        elif isinstance(value, (list, tuple)) and parts:
            parts = {f"{keyword}[{index}]": part for index, part in enumerate(value)}
        yield from ((keyword, at, part) for at, part in parts.items() if isinstance(part, Mapping))
