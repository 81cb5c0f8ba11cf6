"""Does a reply fit its JSON schema, and can that be checked at all?

`jsonschema` decides. A schema is checked before the first call: whatever would fail later, or
never end, is an error with its place. A reply is a stranger's, so a few keywords are ours: those
of `jsonschema` may take quadratic or exponential time.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from limpet.models.schema import flaw, inner
from limpet.text import one_line

_MOST_LEVELS = 40
"""Of schemas in schemas. OpenAI allows 10; `jsonschema` itself cannot check much more."""
_TOO_DEEP = f"is nested deeper than {_MOST_LEVELS} levels"
_MOST_NAMED, _MOST_WHYS = 10, 3
_MOST_UNEVALUATED = 5_000
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")
# They apply to the same value as the schema that has them.
_IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
_IN_PLACE |= {"dependencies", "extends", "disallow"}
# Those that need no other package; the same everywhere, whatever else is installed.
_FORMATS = FormatChecker(("date", "email", "idn-email", "ipv4", "ipv6", "uuid"))
Place = tuple[str | int, ...]


# ---- the schema ---------------------------------------------------------------------------------


@lru_cache(maxsize=100)
def validator_of(text: str) -> Any:
    """Return what checks values against a schema.

    Args:
        text: The schema as JSON.

    Raises:
        SetupError: The schema is invalid, or cannot be checked.
    """
    schema = json.loads(text)
    _check_levels("schema", schema)
    kind = _dialect_of(schema)
    _check_words("schema", schema, kind)
    _Walk(schema, kind).check()
    return _ours(kind)(schema, format_checker=_FORMATS, registry=Registry())


def _dialect_of(schema: Mapping[str, Any]) -> Any:
    try:
        kind = validator_for(schema, None if "$schema" in schema else Draft202012Validator)
    except (TypeError, ValueError, AttributeError):  # it is no address
        kind = None
    if kind is None:
        version = one_line(schema["$schema"])
        raise flaw("schema.$schema", f"{version} is no known version of JSON schema")
    return kind


def _check_levels(at: str, schema: Mapping[str, Any], level: int = 0) -> None:
    if level > _MOST_LEVELS:
        raise flaw(at, _TOO_DEEP)
    for _, place, part in inner(schema):
        _check_levels(f"{at}.{place}", part, level + 1)


def _check_words(at: str, schema: Any, kind: Any) -> None:
    """Check each keyword and its value."""
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        place, why = _said(error, ())
        raise flaw(f"{at}.{_shown(place)}" if place else at, why) from None
    except (OverflowError, RecursionError) as error:  # in a regular expression
        raise flaw(at, f"cannot be checked: {error}") from None


class _Walk:
    """Goes to each schema in a schema, and to where it refers."""

    def __init__(self, schema: dict[str, Any], kind: Any) -> None:
        self._kind = kind
        self._specification = specification_with(kind.META_SCHEMA["$schema"])
        root = self._specification.create_resource(schema)
        self._waiting: list[tuple[str, Any, Any]] = []
        self._waiting.append(("schema", schema, Registry().resolver_with_root(root)))
        self._done: set[int] = set()

    def check(self) -> None:
        """Check that each reference leads to a schema, and each check has an end."""
        while self._waiting:
            self._follow(*self._waiting.pop(), ())

    def _follow(self, at: str, schema: Any, resolver: Any, path: tuple[int, ...]) -> None:
        """Visit a schema and those that apply to the same value; the others wait."""
        if id(schema) in path:
            raise flaw(at, "refers to itself without end")
        if len(path) > _MOST_LEVELS:
            raise flaw(at, _TOO_DEEP)
        if id(schema) in self._done or not isinstance(schema, dict):
            return
        schema.pop("$schema", None)  # where it is, `jsonschema` forgets which keywords are ours
        if isinstance(schema.get("$id"), str):
            resolver = resolver.in_subresource(self._specification.create_resource(schema))
        path = (*path, id(schema))
        for keyword, place, part in inner(schema):
            if keyword in _IN_PLACE:
                self._follow(f"{at}.{place}", part, resolver, path)
            else:
                self._waiting.append((f"{at}.{place}", part, resolver))
        for keyword in _REFS:
            if keyword in schema:
                found = self._target(f"{at}.{keyword}", str(schema[keyword]), resolver)
                self._follow(f"{at}.{keyword}", found.contents, found.resolver, path)
        self._done.add(id(schema))

    def _target(self, at: str, ref: str, resolver: Any) -> Any:
        try:
            found = resolver.lookup(ref)
        except (Unresolvable, ValueError, TypeError, AttributeError):
            where = "to another document, which is never fetched" if ":" in ref else "nowhere"
            raise flaw(at, f"{one_line(ref)} leads {where}") from None
        if id(found.contents) not in self._done:
            _check_words(at, found.contents, self._kind)
        return found


# ---- the reply ----------------------------------------------------------------------------------

_known: ContextVar[dict[tuple[int, int], ValidationError | None]] = ContextVar("limpet_known")
"""By schema and value, whether one fits the other, while one reply is checked."""


def why_not(value: Any, validator: Any) -> str | None:
    """Return why a value does not fit a schema; None: it fits."""
    token = _known.set({})
    try:
        error = next(validator.iter_errors(value), None)
        if error is None:
            return None
        place, why = _said(error, ())
    except RecursionError:
        return "the reply is nested too deep to check"
    except (ArithmeticError, ValueError) as failed:
        return f"the reply cannot be checked: {failed}"
    finally:
        _known.reset(token)
    return f"{one_line(_shown(place)) or 'the reply'} {why}"


def _shown(place: Place) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).removeprefix(".")


_ASKED = {
    "type": "of type {}", "enum": "one of {}", "const": "{}", "format": "of the format {}",
    "pattern": "like the pattern {}", "multipleOf": "a multiple of {}",
    "minimum": "{} or more", "exclusiveMinimum": "more than {}",
    "maximum": "{} or less", "exclusiveMaximum": "less than {}",
}  # fmt: skip
_LENGTHS = ("Length", "Items", "Properties")


def _said(error: Any, at: Place) -> tuple[Place, str]:
    """Return the place in a value, and what is wrong there."""
    keyword, asked, value = error.validator, error.validator_value, error.instance
    at = (*at, *error.relative_path)
    if error.context:
        return _said_of_choices(error, at)
    if keyword == "required" and isinstance(asked, list):
        return (*at, next(name for name in asked if name not in value)), "is missing"
    if keyword == "additionalProperties" and asked is False:
        return (*at, next(_extras(value, error.schema))), "was not requested"
    if keyword in _ASKED:
        came = _kind_of(value) if keyword == "type" else _brief(value)
        return at, f"must be {_ASKED[keyword].format(_listed(keyword, asked))}, not {came}"
    if keyword and keyword[:3] in ("min", "max") and keyword[3:] in _LENGTHS:
        most = "at least" if keyword[:3] == "min" else "at most"
        return at, f"must be {most} {asked} long, not {len(value)}"
    if keyword is None:
        return at, f"has {_brief(value)}, where the schema is false"
    return at, f"does not fit {keyword}: {one_line(error.message)}"


def _said_of_choices(error: Any, at: Place) -> tuple[Place, str]:
    """Say it of `anyOf` and the like; of a choice of another type only if there is no better."""
    others = [why for why in error.context if why.validator != "type" or why.relative_path]
    if len(others) == 1:
        return _said(others[0], at)
    if not others:
        types = dict.fromkeys(_listed("type", why.validator_value) for why in error.context)
        return at, f"must be of type {' or '.join(types)}, not {_kind_of(error.instance)}"
    whys = [
        f"{_shown(place)} {why}".strip()
        for one in others[:_MOST_WHYS]
        if not one.context  # those have choices, too
        for place, why in [_said(one, at)]
    ]
    return at, ": ".join([f"fits no schema of {error.validator}", *filter(None, ["; ".join(whys)])])


def _extras(value: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    patterns = schema.get("patternProperties", ())
    for name in value:
        is_known = name in schema.get("properties", ())
        if not is_known and not any(re.search(pattern, name) for pattern in patterns):
            yield name


def _listed(keyword: str, asked: Any) -> str:
    if keyword == "type":
        return " or ".join(map(str, asked)) if isinstance(asked, list) else str(asked)
    if keyword != "enum":
        return str(asked) if keyword == "format" else _brief(asked)
    shown = [_brief(option) for option in asked[:_MOST_NAMED]]
    return ", ".join([*shown, *(["…"] if len(asked) > _MOST_NAMED else [])])


def _brief(value: Any) -> str:
    return one_line(repr(value) if isinstance(value, str) else json.dumps(value, default=repr))


def _kind_of(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


# ---- the keywords that are ours -----------------------------------------------------------------


@cache
def _ours(kind: Any) -> Any:
    own: dict[str, Any] = {"anyOf": _any_of, "oneOf": _one_of, "uniqueItems": _unique_items}
    own["multipleOf"] = _multiple_of
    own |= {name: _once(kind.VALIDATORS[name]) for name in _REFS if name in kind.VALIDATORS}
    for name in ("unevaluatedItems", "unevaluatedProperties"):
        if name in kind.VALIDATORS:
            own[name] = _bounded(kind.VALIDATORS[name])
    known = {name: check for name, check in own.items() if name in kind.VALIDATORS}
    types = {"number": _is_number, "integer": _is_integer}
    return extend(kind, known, type_checker=kind.TYPE_CHECKER.redefine_many(types))


def _is_number(_: Any, value: Any) -> bool:
    return type(value) is not bool and isinstance(value, (int, float)) and value - value == 0


def _is_integer(_: Any, value: Any) -> bool:
    return _is_number(_, value) and value == value // 1  # JSON has one kind of number


def _first(validator: Any, value: Any, schema: Any, index: int) -> ValidationError | None:
    found: ValidationError | None = next(validator.descend(value, schema, schema_path=index), None)
    return found


def _any_of(validator: Any, schemas: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    whys = []
    for index, schema in enumerate(schemas):
        if (why := _first(validator, value, schema, index)) is None:
            return
        whys.append(why)
    yield ValidationError("", context=whys)


def _one_of(validator: Any, schemas: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    whys = [_first(validator, value, schema, index) for index, schema in enumerate(schemas)]
    if (fitting := whys.count(None)) != 1:
        context = [why for why in whys if why is not None] if not fitting else []
        yield ValidationError(f"{fitting} of its schemas fit", context=context)


def _once(check: Any) -> Any:
    """Check a reference once for each value: choices in a tree would take exponential time."""

    def ours(validator: Any, ref: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        known, key = _known.get(), (id(schema), id(value))
        if key not in known:
            known[key] = next(iter(check(validator, ref, value, schema) or ()), None)
        if (why := known[key]) is not None:
            yield ValidationError.create_from(why)  # a copy: whoever gets it completes its path

    return ours


def _bounded(check: Any) -> Any:
    """Its time is quadratic."""

    def ours(validator: Any, part: Any, value: Any, schema: Any) -> Any:
        if isinstance(value, (list, dict)) and len(value) > _MOST_UNEVALUATED:
            raise ValueError(f"it has {len(value)} elements for an unevaluated… in the schema")
        return check(validator, part, value, schema)

    return ours


def _multiple_of(_: Any, step: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    # As decimal numbers: for floats, 4.35 is no multiple of 0.01.
    if _is_number(_, value) and Fraction(str(value)) % Fraction(str(step)):
        yield ValidationError("")


def _unique_items(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(value, list) and len({*map(_key, value)}) < len(value):
        yield ValidationError("an element is there twice")


def _key(value: Any) -> Any:
    """Return what only equal values share: 4.0 is 4, and true is not 1."""
    if isinstance(value, dict):
        return frozenset((name, _key(part)) for name, part in value.items())
    if isinstance(value, list):
        return tuple(map(_key, value))
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)
