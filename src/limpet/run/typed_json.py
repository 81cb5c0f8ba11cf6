"""How does a dataclass become JSON, and JSON that dataclass again, with every type checked?"""

import dataclasses
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from limpet.text import one_line

_WORDS: dict[Any, str] = {
    list: "a list",
    tuple: "a list",
    frozenset: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


def to_data(value: Any) -> Any:
    """Return a value in JSON's types. A field with its default value is left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = ((member, getattr(value, member.name)) for member in dataclasses.fields(value))
        return {member.name: to_data(part) for member, part in named if part != _default(member)}
    if isinstance(value, dict):
        return {name: to_data(part) for name, part in value.items()}
    if isinstance(value, frozenset):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        return [to_data(part) for part in value]
    return value


def _default(member: "dataclasses.Field[Any]") -> Any:
    if member.default_factory is dataclasses.MISSING:
        return member.default
    return member.default_factory()


def from_data(kind: Any, data: dict[str, Any]) -> Any:
    """Return the object of this kind that `to_data` turned into JSON's types.

    Raises:
        ValueError: A field is missing, unknown or of another type; the message names it.
    """
    return _object(kind, data, "")


_types_of = cache(get_type_hints)


def _object(kind: Any, data: dict[str, Any], where: str) -> Any:
    types = _types_of(kind)
    for name in data.keys() - types.keys():
        raise ValueError(f"{where}{name} is unknown to this version of Limpet")
    for member in dataclasses.fields(kind):
        if member.name not in data and _default(member) is dataclasses.MISSING:
            raise ValueError(f"{where}{member.name} is missing")
    return kind(**{name: _value(types[name], part, where + name) for name, part in data.items()})


def _value(kind: Any, data: Any, where: str) -> Any:
    """Return JSON data as a value of a field's type.

    Raises:
        ValueError: The data has another type.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or (origin is Literal and data in inner):
        return data
    if origin is UnionType:  # of a type and None
        return None if data is None else _value(inner[0], data, where)
    if origin in (list, frozenset) and isinstance(data, list):
        return origin(_value(inner[0], part, f"{where}[{at}]") for at, part in enumerate(data))
    if origin is tuple and isinstance(data, list) and len(data) == len(inner):
        pairs = enumerate(zip(inner, data, strict=True))
        return tuple(_value(one, part, f"{where}[{at}]") for at, (one, part) in pairs)
    if origin is dict and isinstance(data, dict):
        return {name: _value(inner[1], part, f"{where}.{name}") for name, part in data.items()}
    if dataclasses.is_dataclass(kind) and isinstance(data, dict):
        return _object(kind, data, f"{where}.")
    if type(data) is kind or (kind is float and type(data) is int):  # True is not a number here
        return data
    wanted = " or ".join(inner) if origin is Literal else _WORDS.get(origin or kind, "an object")
    raise ValueError(f"{where} must be {wanted}, not {one_line(data)}")
