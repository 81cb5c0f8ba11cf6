"""How does what an evaluator returned become scores?

A number or a bool is a score, a string is a label, a dict holds several of them. Anything else is
an error, never a score: a NaN would poison a mean, a forgotten `return` would be a zero, and "0.9"
would be a label beside which there is no mean.
"""

import dataclasses
import math
import sys
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from numbers import Integral, Real
from typing import Any

from limpet.errors import PermanentError
from limpet.evaluators.protocol import Scores
from limpet.foreign import base_value
from limpet.text import one_line
from limpet.types import Output, Score

_LABELS = (str, type(None))
_NUMBERS = (bool, int, float)
_MOST = sys.float_info.max
_DO = "return a number, a bool, a label, a dict of scores or a Score"


def as_scores(value: Any, name: str) -> Scores | Output:
    """Return the scores in what an evaluator returned; an `Output` stays an `Output` of them.

    Raises:
        PermanentError: It is not a score; the message begins with `name`, the evaluator's.
    """
    if issubclass(type(value), Output):
        output: Output = dataclasses.replace(value, value=_scores(value.value, name))
        return output
    return _scores(value, name)


def _scores(value: Any, name: str) -> Scores:
    if not isinstance(value, Mapping):
        return {"score": _as_score(value, name)}
    if not value:
        raise PermanentError(f"{name} returned an empty dict; {_DO}")
    for key in value:
        if not isinstance(key, str) or not key:
            raise PermanentError(
                f"{name} returned a dict with the key {key!r}; use strings as keys"
            )
    return {str(key): _as_score(part, f"{name}, under {key!r},") for key, part in value.items()}


def _as_score(value: Any, who: str) -> Score:
    if type(value) is Score and _is_usual(value):
        return value
    value = _unwrapped(value)
    if isinstance(value, Score):
        return _checked(value, who)
    if isinstance(value, str):
        if not value:
            raise PermanentError(f"{who} returned an empty string, which is not a label; {_DO}")
        if _is_number(value):
            raise PermanentError(
                f"{who} returned the string {value!r}; return a number, or Score(label={value!r})"
            )
        return Score(None, label=base_value(str, value))
    return Score(_number(value, who))


def _is_number(text: str) -> bool:
    """Return whether a string is a number: a label that nobody wanted."""
    try:
        float(base_value(str, text))
    except ValueError:
        return False
    return True


def _is_usual(score: Score) -> bool:
    """Return whether a score is of plain types, so that there is nothing to check or convert."""
    value = score.value
    is_plain = type(value) in _NUMBERS and type(score.label) in _LABELS
    return is_plain and value is not None and -_MOST <= value <= _MOST  # False for NaN


def _unwrapped(value: Any) -> Any:
    """Return the plain value in an enum's member or a NumPy scalar."""
    if isinstance(value, Enum):
        return value.value
    if getattr(value, "shape", None) == () and callable(item := getattr(value, "item", None)):
        return item()
    return value


def _number(value: Any, who: str) -> float | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, (Real, Decimal)):
        what = "None" if value is None else f"a {type(value).__name__} ({one_line(value)})"
        raise PermanentError(f"{who} returned {what}; {_DO}")
    try:
        number = base_value(float, value)
    except (OverflowError, ValueError):  # wider than a float; a signalling NaN
        number = math.nan
    if not math.isfinite(number):
        raise PermanentError(f"{who} returned {one_line(value)}, which is not a score; {_DO}")
    return base_value(int, value) if isinstance(value, Integral) else number


def _checked(score: Score, who: str) -> Score:
    # A label or an explanation that is not a string must not cost the value beside it.
    label, value = _unwrapped(score.label), _unwrapped(score.value)
    if label is not None and not isinstance(label, str):
        if value is None:
            raise PermanentError(
                f"{who} returned a Score with label={one_line(label)}; use a string"
            )
        label = one_line(label)
    score = dataclasses.replace(score, label=label)
    if value is None:
        if not score.label:
            raise PermanentError(f"{who} returned a Score without a value or a label; give one")
        return score
    if isinstance(value, str):
        raise PermanentError(
            f"{who} returned a Score with the string {one_line(repr(value))} as its value; "
            "give a string as label=…"
        )
    return dataclasses.replace(score, value=_number(value, who))
