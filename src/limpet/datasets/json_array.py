"""How are rows read from a JSON array of objects?

The file is read in one go but decoded object by object, so that each object has a line number, an
unusable one can be skipped, and there is no second copy of all of them.
"""

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from limpet.datasets.rows import Flaw, Row, Rows
from limpet.datasets.strict_json import exact_decoder, reason_of
from limpet.datasets.text_files import lines_of
from limpet.errors import DatasetError
from limpet.text import one_line

_SPACE = re.compile(r"[ \t\r\n]*")
_SHOWN = 80
_LENIENT = json.JSONDecoder(parse_int=str, parse_float=str)
_Decode = Callable[[str, int], tuple[Any, int]]


class _Inexact(NamedTuple):
    reason: str


def read_json(path: Path, place: str) -> Rows:
    """Yield the rows of a JSON file.

    Raises:
        DatasetError: It is not an array or is truncated, so that rows cannot be located.
    """
    text = _text_of(path, place)
    decode = exact_decoder().raw_decode
    at = _opening(text, place)
    number, counted = 1, 0
    while text[at : at + 1] != "]":
        number, counted = number + text.count("\n", counted, at), at
        read, end = _element(decode, text, at, number, place)
        yield read
        at = _after(text, end, place)
    if (rest := _skip(text, at + 1)) < len(text):
        raise _broken(text, rest, place, "there is more after the end of the array")


def _text_of(path: Path, place: str) -> str:
    pieces = []
    with closing(lines_of(path, place)) as lines:
        for number, line, flaw in lines:
            if flaw is not None:
                raise DatasetError(f"{place}, line {number}: {flaw}", hint="save it as UTF-8")
            pieces.append(line)
    return "".join(pieces)


def _opening(text: str, place: str) -> int:
    """Return the position of the first element, or of the closing bracket."""
    at = _skip(text, 0)
    if at == len(text):
        raise DatasetError(f"{place}: is empty", hint="a dataset needs at least one row")
    if text[at] == "{":
        hint = "put it into [ ], or, with one object per line, call the file .jsonl"
        raise _broken(text, at, place, "an object, not an array of objects", hint)
    if text[at] != "[":
        raise _broken(text, at, place, "not a JSON array of objects")
    return _skip(text, at + 1)


def _element(
    decode: _Decode, text: str, at: int, number: int, place: str
) -> tuple[Row | Flaw, int]:
    try:
        values, end = _decoded(decode, text, at)
    except json.JSONDecodeError as error:
        raise _broken(text, error.pos, place, f"not JSON ({error.msg})") from error
    except RecursionError as error:
        raise _broken(text, at, place, reason_of(error)) from error
    if isinstance(values, dict):
        return Row(number, values), end
    reason = values.reason if isinstance(values, _Inexact) else "not a JSON object"
    return Flaw(number, text[at:end], reason), end


def _decoded(decode: _Decode, text: str, at: int) -> tuple[Any, int]:
    """Return an element, or why it is ambiguous, and where it ends."""
    try:
        return decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        # A lenient decoder finds where it ends.
        _, end = _LENIENT.raw_decode(text, at)
        return _Inexact(reason_of(error)), end


def _after(text: str, end: int, place: str) -> int:
    """Return the position of the next element, or of the closing bracket."""
    at = _skip(text, end)
    if at == len(text):
        raise _broken(text, at, place, "the file ends before the array does")
    if text[at] == "]":
        return at
    if text[at] != ",":
        raise _broken(text, at, place, "not JSON (Expecting ',' delimiter)")
    following = _skip(text, at + 1)
    if text[following : following + 1] == "]":
        raise _broken(text, at, place, "not JSON (a comma before the closing bracket)")
    return following


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _broken(text: str, at: int, place: str, reason: str, hint: str | None = None) -> DatasetError:
    line = 1 + text.count("\n", 0, at)
    character = at - text.rfind("\n", 0, at)
    there = one_line(text[at : at + _SHOWN]) or "(the end)"
    return DatasetError(
        f"{place}, line {line}, character {character}: {reason}: {there}", hint=hint
    )
