"""What may a value be, and how is that said in plain words?

Each kind of value is a check of ours, which raises `RefusedError` with what the value must be, and
the JSON schema that editors see. Pydantic only leads each value to its check.
"""

import math
import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema

from limpet.config.environment import settled
from limpet.config.problems import did_you_mean

VARIABLE = {"type": "string", "pattern": r"\$\{", "description": "${NAME} or ${NAME:-default}"}
_MOST = 10**9
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_WORD = r"[^\W\d]\w*"
_REFERENCE = re.compile(rf"{_WORD}(\.{_WORD})*:{_WORD}(\.{_WORD})*")


class RefusedError(ValueError):
    """A value that may not be; the message says what it must be."""

    def __init__(self, must: str, hint: str | None = None) -> None:
        super().__init__(must)
        self.hint = hint


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RefusedError("must be a text")
    return value


def _name(value: Any) -> str:
    must = "must be a text without '/', '\\', line ends and the like: a directory is called so"
    if not isinstance(value, str):
        raise RefusedError("must be a text")
    fits = value.strip() == value and value not in ("", ".", "..") and value.isprintable()
    if not fits or set("/\\") & set(value) or len(value.encode()) > 200:  # noqa: PLR2004
        raise RefusedError(must)
    return value


def _path(must: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise RefusedError(must)
    return value


def _whole(least: int, value: Any, most: int = _MOST) -> int:
    number = settled(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise RefusedError(f"must be a whole number of at least {least}")
    if number > most:
        raise RefusedError(f"must be a whole number of at most {most:,}")
    return number


def _any_whole(value: Any) -> int:
    number = settled(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise RefusedError("must be a whole number")
    if abs(number) >= 10**18:
        raise RefusedError("must be a whole number of at most 18 digits")
    return number


def _truth(value: Any) -> bool:
    truth = settled(value)
    if isinstance(truth, bool):
        return truth
    meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(truth).lower())
    raise RefusedError("must be true or false", f"did you mean {meant}?" if meant else None)


def _choice(words: tuple[str, ...], value: Any) -> str:
    if isinstance(value, str) and value in words:
        return str(value)
    hint = did_you_mean(value, words) if isinstance(value, str) else None
    raise RefusedError(f"must be {', '.join(words[:-1])} or {words[-1]}", hint)


def _seconds(value: Any, *, zero: bool = False) -> float:
    given = settled(value)
    if isinstance(given, str) and (found := _TIME.fullmatch(given)):
        given = float(found[1]) * _SECONDS[found[2]]
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if is_number and math.isfinite(given) and (given > 0 or (zero and given == 0)):
        return float(given)
    least = "of at least 0" if zero else "above 0"
    raise RefusedError(f"must be a number of seconds {least}, or a time such as 90s, 2m or 1h")


def _concurrency(value: Any) -> int | Literal["auto"]:
    if settled(value) == "auto":
        return "auto"
    try:
        return _whole(1, value)
    except RefusedError as error:
        raise RefusedError(f"must be auto, or {str(error).removeprefix('must be ')}") from None


def _positive(value: Any) -> float:
    number = settled(value)
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if is_number and math.isfinite(number) and number > 0:
        return float(number)
    raise RefusedError("must be a number above 0")


def _price(value: Any) -> float:
    number = settled(value)
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if is_number and math.isfinite(number) and number >= 0:
        return float(number)
    raise RefusedError("must be a number of at least 0")


def _headers(value: Any) -> dict[str, str]:
    # The message never shows a value: they are secrets.
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise RefusedError("must be a mapping of names to texts", "put each value in quotes")
    return {name: str(one) for name, one in value.items()}


def _statuses(value: Any) -> list[int]:
    numbers = settled(value)
    if not isinstance(numbers, list) or not all(type(one) is int for one in numbers):
        raise RefusedError("must be a list of statuses", "such as [200, 404]")
    return numbers


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise RefusedError("must be a list of texts")
    return [str(one) for one in value]


def reference(value: Any) -> str:
    """Return the value if it looks like "module:name".

    Raises:
        RefusedError: It does not.
    """
    must = "must be module:name, such as app:answer"
    if not isinstance(value, str):
        raise RefusedError(must)
    module = value.partition(":")[0]
    if _REFERENCE.fullmatch(value) and not module.endswith(".py"):
        return value
    raise RefusedError(must, _meant_reference(str(value)))


def _meant_reference(value: str) -> str | None:
    tidy = value.strip().removeprefix("./").replace(".py:", ":").replace("/", ".")
    if ":" not in tidy and "." in tidy.removesuffix(".py"):
        tidy = ":".join(tidy.rsplit(".", 1))
    return f"did you mean {tidy}?" if tidy != value and _REFERENCE.fullmatch(tidy) else None


def _secrets(value: Any) -> Any:
    if settled(value) is False:
        return False
    try:
        return _texts(value)
    except RefusedError:
        raise RefusedError("must be false, or a list of texts") from None


def _or_variable(schema: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [schema, VARIABLE]})


_TEXT = WithJsonSchema({"type": "string", "minLength": 1})
_TIME_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": rf"^{_TIME.pattern}$|\$\{{"},
    ]
}
_AUTO = {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}, VARIABLE]}

Text = Annotated[str, PlainValidator(_text), _TEXT]
Name = Annotated[str, PlainValidator(_name), _TEXT]
File = Annotated[str, PlainValidator(partial(_path, "must be the path of a file")), _TEXT]
Folder = Annotated[str, PlainValidator(partial(_path, "must be the path of a directory")), _TEXT]
Reference = Annotated[
    str,
    PlainValidator(reference),
    WithJsonSchema({"type": "string", "pattern": r":|\$\{", "examples": ["app:answer"]}),
]
Count = Annotated[
    int, PlainValidator(partial(_whole, 1)), _or_variable({"type": "integer", "minimum": 1})
]
CountOrNone = Annotated[
    int, PlainValidator(partial(_whole, 0)), _or_variable({"type": "integer", "minimum": 0})
]
Whole = Annotated[int, PlainValidator(_any_whole), _or_variable({"type": "integer"})]
Truth = Annotated[bool, PlainValidator(_truth), _or_variable({"type": "boolean"})]
Price = Annotated[float, PlainValidator(_price), _or_variable({"type": "number", "minimum": 0})]
Seconds = Annotated[float, PlainValidator(_seconds), WithJsonSchema(_TIME_SCHEMA)]
Wait = Annotated[float, PlainValidator(partial(_seconds, zero=True)), WithJsonSchema(_TIME_SCHEMA)]
Concurrency = Annotated[int | Literal["auto"], PlainValidator(_concurrency), WithJsonSchema(_AUTO)]
Texts = Annotated[
    list[str],
    PlainValidator(_texts),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
Positive = Annotated[
    float,
    PlainValidator(_positive),
    _or_variable({"type": "number", "exclusiveMinimum": 0}),
]
Headers = Annotated[
    dict[str, str],
    PlainValidator(_headers),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]
Statuses = Annotated[
    list[int],
    PlainValidator(_statuses),
    WithJsonSchema({"type": "array", "items": {"type": "integer"}}),
]
OnBadRow = Annotated[
    Literal["raise", "skip"],
    PlainValidator(partial(_choice, ("raise", "skip"))),
    _or_variable({"enum": ["raise", "skip"]}),
]
OnChange = Annotated[
    Literal["redo", "keep"],
    PlainValidator(partial(_choice, ("redo", "keep"))),
    _or_variable({"enum": ["redo", "keep"]}),
]
Secrets = Annotated[
    list[str] | Literal[False],
    PlainValidator(_secrets),
    WithJsonSchema({"anyOf": [{"const": False}, {"type": "array", "items": {"type": "string"}}]}),
]
WhenDurable = Annotated[
    Literal["sync", "interval", "flush"],
    PlainValidator(partial(_choice, ("sync", "interval", "flush"))),
    _or_variable({"enum": ["sync", "interval", "flush"]}),
]
