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

import jsonschema
from jsonschema import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from limpet.models.schema_parts import flaw, inner
from limpet.text import one_line

_LATEST = jsonschema.Draft202012Validator.META_SCHEMA["$schema"]
_DRAFTS = {
    kind.META_SCHEMA["$schema"].rstrip("#"): kind
    for name, kind in vars(jsonschema.validators).items()
    if re.fullmatch(r"Draft([4-9]|20.*)Validator", name)
}
_MOST_LEVELS = 40
"""Of schemas in schemas. OpenAI allows 10; `jsonschema` itself cannot check many more."""
_TOO_DEEP = f"is nested deeper than {_MOST_LEVELS} levels"
_LONGEST, _MOST_WHYS = 120, 3
_MOST_UNEVALUATED = 5_000
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")
# They apply to the same value as the schema that has them.
_IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
_IN_PLACE |= {"dependencies"}
# Those that need no other package; the same everywhere, whatever else is installed.
_FORMATS = jsonschema.FormatChecker(("date", "email", "idn-email", "ipv4", "ipv6", "uuid"))
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
    version = one_line(schema.get("$schema", _LATEST))
    if (kind := _DRAFTS.get(version.rstrip("#"))) is None:
        raise flaw("schema.$schema", f"{version} is no known version of JSON schema")
    _check_levels("schema", schema)
    _check_words("schema", schema, kind)
    _Walk(schema, kind).check()
    return _ours(kind)(schema, format_checker=_FORMATS, registry=Registry())


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
        raise flaw(f"{at}.{_shown(place)}".removesuffix("."), why) from None
    except (OverflowError, RecursionError) as error:  # in a regular expression
        raise flaw(at, f"cannot be checked: {error}") from None


class _Walk:
    """Goes to each schema in a schema, and to where it refers."""

    def __init__(self, schema: dict[str, Any], kind: Any) -> None:
        self._kind = kind
        self._specification = specification_with(kind.META_SCHEMA["$schema"])
        root = self._specification.create_resource(schema)
        start = ("schema", schema, Registry().resolver_with_root(root))
        self._waiting: list[tuple[str, Any, Any]] = [start]
        self._done: set[int] = set()

    def check(self) -> None:
        """Check that each reference leads to a schema, and each check has an end."""
        while self._waiting:
            self._follow(*self._waiting.pop(), ())

    def _follow(self, at: str, schema: Any, resolver: Any, path: tuple[int, ...]) -> None:
        """Visit a schema and those that apply to the same value; the others wait."""
        if id(schema) in path or len(path) > _MOST_LEVELS:
            is_loop = id(schema) in path
            raise flaw(at, "refers to itself without end" if is_loop else _TOO_DEEP)
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
        for keyword in schema.keys() & _REFS:
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
"""Why a value does not fit what a schema refers to, by both, while one reply is checked."""


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


_WORDS = {"enum": "be one of", "const": "be", "minimum": "be at least", "maximum": "be at most"}
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


def _said(error: Any, at: Place) -> tuple[Place, str]:
    """Return the place in a value, and what is wrong there."""
    keyword, asked, value = error.validator, error.validator_value, error.instance
    at = (*at, *error.relative_path)
    # Of a choice, like `anyOf`: those of another type say nothing if there is a better one.
    types = [why for why in error.context if why.validator == "type" and not why.relative_path]
    others = [why for why in error.context if why not in types]
    if len(others) == 1:
        return _said(others[0], at)
    if others:  # those with choices of their own are left out
        whys = [_said(one, at) for one in others[:_MOST_WHYS] if not one.context]
        shown = "; ".join(f"{_shown(place)} {why}".strip() for place, why in whys)
        return at, f"fits no schema of {keyword}: {shown}"
    if keyword == "type" or types:
        wanted = re.findall(r"\w+", str([one.validator_value for one in types] or asked))
        kind = _TYPES.get(type(value), "number")
        return at, f"must be of type {' or '.join(wanted)}, not {kind}"
    if keyword == "required" and isinstance(asked, list):
        return (*at, next(name for name in asked if name not in value)), "is missing"
    if keyword == "additionalProperties" and asked is False:
        known = [*map(re.escape, error.schema.get("properties", ()))]
        pattern = "|".join([f"^({'|'.join(known)})$", *error.schema.get("patternProperties", ())])
        extra = next((name for name in value if not re.search(pattern, name)), "")
        return (*at, extra), "was not requested"
    words = _WORDS.get(keyword, f"fit {keyword}") if keyword else "fit the schema"
    return at, f"must {words} {_brief(asked if keyword else False)}, not {_brief(value)}"


def _brief(value: Any) -> str:
    shown = one_line(json.dumps(value, ensure_ascii=False, default=repr))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


# ---- the keywords that are ours -----------------------------------------------------------------


@cache
def _ours(kind: Any) -> Any:
    theirs = kind.VALIDATORS
    own: dict[str, Any] = {"anyOf": _choice(1_000_000), "oneOf": _choice(1)}
    own |= {"uniqueItems": _unique_items, "multipleOf": _multiple_of}
    own |= {name: _once(theirs[name]) for name in theirs.keys() & _REFS}
    own |= {name: _bounded(theirs[name]) for name in theirs if name.startswith("unevaluated")}
    return extend(kind, own, type_checker=kind.TYPE_CHECKER.redefine("number", _is_number))


def _is_number(_: Any, value: Any) -> bool:
    return type(value) is not bool and isinstance(value, (int, float)) and value - value == 0


def _choice(most: int) -> Any:
    def ours(validator: Any, schemas: Any, value: Any, _: Any) -> Iterator[ValidationError]:
        whys = [next(validator.descend(value, schema), None) for schema in schemas]
        if not 1 <= whys.count(None) <= most:
            yield ValidationError("", context=() if None in whys else whys)

    return ours


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
    def ours(validator: Any, part: Any, value: Any, schema: Any) -> Any:
        if isinstance(value, (list, dict)) and len(value) > _MOST_UNEVALUATED:  # it is quadratic
            raise ValueError(f"{len(value)} elements are too many for an unevaluated…")
        return check(validator, part, value, schema)

    return ours


def _multiple_of(_: Any, step: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    # As decimal numbers: for floats, 4.35 is no multiple of 0.01.
    if _is_number(_, value) and Fraction(str(value)) % Fraction(str(step)):
        yield ValidationError("")


def _unique_items(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(value, list) and len({*map(_key, value)}) < len(value):
        yield ValidationError("")


def _key(value: Any) -> Any:
    """Return what only equal values share: 4.0 is 4, and true is not 1."""
    if isinstance(value, dict):
        return frozenset((name, _key(part)) for name, part in value.items())
    if isinstance(value, list):
        return tuple(map(_key, value))
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)
