"""How are rows read exactly from a JSON array, or from one JSON object per line?

The journal's fast decoder is not exact: it turns wide integers into floats, silently takes the last
of two equal keys, and rejects lone surrogates. It is used only for lines that have none of these.
"""

import json
import re
from collections.abc import Callable
from contextlib import closing
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

import orjson

from limpet.datasets.rows import Flaw, Row, Rows, decoded, lines_of, raw_lines_of
from limpet.errors import DatasetError
from limpet.json_values import is_deep_text
from limpet.text import one_line

_BOM = "\ufeff"  # concatenated files contain one each
_EXACT = frozenset({str, int, bool, type(None)})
_WIDE = re.compile(rb"[0-9]{16}")
_SPACE = re.compile(r"[ \t\r\n]*")
_SHOWN = 80
_TOO_DEEP = "it is nested too deep"
_LENIENT = json.JSONDecoder(parse_int=str, parse_float=str)
_Decode = Callable[[str, int], tuple[Any, int]]


# ---- one object per line ------------------------------------------------------------------------


def read_jsonl(path: Path, location: str, *, nan: bool = False) -> Rows:
    """Yield the rows of a JSONL file, skipping blank lines; with `nan`, NaN is a number."""
    decode = _exact_decoder(nan=nan).decode
    is_first = True
    for number, raw, offset in raw_lines_of(path, location):
        plain = _plain_object(raw)
        if plain is not None:
            is_first = False
            yield Row(number, plain, raw.strip())
            continue
        _, line, flaw = decoded(number, raw, offset)
        text = line.strip().removeprefix(_BOM)
        if flaw is not None:
            yield Flaw(number, text, flaw)
            continue
        if not text:
            continue
        try:
            values = decode(text)
        except (ValueError, RecursionError) as error:
            if is_first:
                _check_not_an_array(text, location, number)
            yield Flaw(number, text, _reason_of(error, text))
            continue
        finally:
            is_first = False
        if is_deep_text(text):
            yield Flaw(number, text, _TOO_DEEP)
        elif isinstance(values, dict):
            yield Row(number, values)
        else:
            yield Flaw(number, text, "not a JSON object")


def _check_not_an_array(text: str, location: str, number: int) -> None:
    """Raise `DatasetError` if the first line shows that the file is not JSONL."""
    if text in {"[", "[{", "{"}:
        raise DatasetError(
            f"{location}, line {number}: a JSON value spans several lines: {text}",
            hint="JSONL is one object per line; an array of objects is a .json file",
        )


# ---- an array -----------------------------------------------------------------------------------


def read_json(path: Path, location: str, *, nan: bool = False) -> Rows:
    """Yield the rows of a JSON file; with `nan`, NaN and Infinity are numbers.

    The file is read at once but decoded object by object: each has a line number, an unusable one
    can be skipped, and there is no second copy of all of them.

    Raises:
        DatasetError: It is not an array or is truncated, so rows cannot be located.
    """
    text = _text_of(path, location)
    decode = _exact_decoder(nan=nan).raw_decode
    at = _opening(text, location)
    number, counted = 1, 0
    while text[at : at + 1] != "]":
        number, counted = number + text.count("\n", counted, at), at
        read, end = _element(decode, text, at, number, location)
        yield read
        at = _after(text, end, location)
    if (rest := _skip(text, at + 1)) < len(text):
        raise _broken(text, rest, location, "there is more after the end of the array")


def _text_of(path: Path, location: str) -> str:
    pieces = []
    with closing(lines_of(path, location)) as lines:
        for number, line, flaw in lines:
            if flaw is not None:
                raise DatasetError(f"{location}, line {number}: {flaw}", hint="save it as UTF-8")
            pieces.append(line)
    return "".join(pieces)


def _opening(text: str, location: str) -> int:
    """Return the position of the first element, or of the closing bracket."""
    at = _skip(text, 0)
    if at == len(text):
        raise DatasetError(f"{location}: is empty", hint="a dataset needs at least one row")
    if text[at] == "{":
        hint = "put it in [ ], or, if each line is an object, name the file .jsonl"
        raise _broken(text, at, location, "an object, not an array of objects", hint)
    if text[at] != "[":
        raise _broken(text, at, location, "not a JSON array of objects")
    return _skip(text, at + 1)


def _element(
    decode: _Decode, text: str, at: int, number: int, location: str
) -> tuple[Row | Flaw, int]:
    try:
        values, end = _decoded(decode, text, at)
    except json.JSONDecodeError as error:
        if is_deep_text(text[at : error.pos]):
            raise _broken(text, at, location, _TOO_DEEP) from error
        raise _broken(text, error.pos, location, f"not JSON ({error.msg})") from error
    except RecursionError as error:
        raise _broken(text, at, location, _TOO_DEEP) from error
    # Where its end is found depends on Python's version, so it cannot be skipped like bad rows.
    if is_deep_text(text[at:end]):
        raise _broken(text, at, location, _TOO_DEEP)
    if isinstance(values, dict):
        return Row(number, values), end
    reason = _reason_of(values) if isinstance(values, ValueError) else "not a JSON object"
    return Flaw(number, text[at:end], reason), end


def _decoded(decode: _Decode, text: str, at: int) -> tuple[Any, int]:
    """Return an element, or why it is ambiguous, and its end."""
    try:
        return decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        # A lenient decoder finds its end.
        _, end = _LENIENT.raw_decode(text, at)
        return error, end


def _after(text: str, end: int, location: str) -> int:
    """Return the position of the next element, or of the closing bracket."""
    at = _skip(text, end)
    if at == len(text):
        raise _broken(text, at, location, "the file ends before the array does")
    if text[at] == "]":
        return at
    if text[at] != ",":
        raise _broken(text, at, location, "not JSON (Expecting ',' delimiter)")
    following = _skip(text, at + 1)
    if text[following : following + 1] == "]":
        raise _broken(text, at, location, "not JSON (a comma before the closing bracket)")
    return following


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _broken(
    text: str, at: int, location: str, reason: str, hint: str | None = None
) -> DatasetError:
    line = 1 + text.count("\n", 0, at)
    character = at - text.rfind("\n", 0, at)
    there = one_line(text[at : at + _SHOWN]) or "(the end)"
    return DatasetError(
        f"{location}, line {line}, character {character}: {reason}: {there}", hint=hint
    )


# ---- exact values -------------------------------------------------------------------------------


class _NotExactError(ValueError):
    """Not all JSON readers agree on the value."""


def _exact_decoder(*, nan: bool) -> json.JSONDecoder:
    """Return a decoder that keeps integers exact, and raises `_NotExactError` instead of guessing.

    Rows share their key strings: with a million rows, that halves the memory.
    """
    names: dict[str, str] = {}

    def whole_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = {names.setdefault(name, name): value for name, value in pairs}
        if len(values) != len(pairs):
            raise _NotExactError(f"the key {_repeated(pairs)!r} appears twice in one object")
        return values

    return json.JSONDecoder(
        object_pairs_hook=whole_object,
        parse_constant=float if nan else _refused,
        parse_float=_finite,
    )


def _plain_object(line: bytes) -> dict[str, Any] | None:
    """Return a flat object from the fast decoder; None if it may be inexact.

    If the line has as many names as the result, none appears twice; without a wide number, no float
    was rounded.
    """
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(values, dict) or line.count(b'":') != len(values):
        return None
    if is_deep_text(line):
        return None
    if not _EXACT.issuperset(map(type, values.values())) and _WIDE.search(line):
        return None
    return values


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    names = [name for name, _ in pairs]
    return next(name for at, name in enumerate(names) if name in names[:at])


def _refused(literal: str) -> NoReturn:
    # Python reads NaN and Infinity, but they are not JSON: jq, orjson and JavaScript reject them,
    # and so would readers of the files we write. And a NaN as an answer does not equal itself.
    raise _NotExactError(f"{literal} is not JSON; use null or a string")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _NotExactError(f"{text} is too large for a float; write it as a string to keep it")
    return number


def _reason_of(error: ValueError | RecursionError, text: str = "") -> str:
    """Return why JSON could not be decoded, for messages."""
    if isinstance(error, RecursionError) or is_deep_text(text):
        return _TOO_DEEP
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg}, at character {error.colno})"
    if isinstance(error, _NotExactError):
        return str(error)
    return "an integer has more digits than Python reads; write it as a string to keep it"
